/* Hypotheses of a window: each as if it were alone, one that goes on from another as if it had
 * taken that one's way, and prompts at once as token by token: bit for bit. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/unit/models/recorder.h"
#include "workers/models/whisper/whisper.h"

#define SHORT 240 /* positions of a short text */
#define VOCAB 2151
#define WINDOWS 3
#define BRANCHES 4
#define ROWS (WINDOWS * BRANCHES)
#define STEPS 6
#define SAMPLES 30000

static const struct whisper_config small = {128, 80, VOCAB, 1, 2, 256, 2, 2, 256, 1500, 448};

static const int32_t blank = 220;
static const struct rules_spec rules = {
    .vocab = VOCAB,
    .eot = 640,
    .no_speech = 648,
    .timestamp_begin = 650,
    .timestamp_end = 2150,
    .max_initial = 700,
    .never_first = &blank,
    .never_first_count = 1,
};

static float pcm[WINDOWS][SAMPLES];

struct rig {
    struct backend *be;
    struct asr_model *w;
    struct asr_session *s;
};

static void open_session(struct rig *r, struct asr_shape shape)
{
    struct err e;

    whisper_session_free(r->s);
    r->s = NULL;
    assert_ok(whisper_session_new(r->w, shape, &r->s, &e), e);
    assert_ok(whisper_session_rules(r->s, &rules, &e), e);
}

static void rig_open(struct rig *r, enum precision precision)
{
    struct err e;

    *r = (struct rig){0};
    for (uint32_t i = 0; i < WINDOWS; i++) {
        uint32_t seed = i + 1;

        for (size_t k = 0; k < SAMPLES; k++) {
            seed = seed * 1664525u + 1013904223u;
            pcm[i][k] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.3f;
        }
    }
    assert_ok(backend_open_host(0, &r->be, &e), e);
    assert_ok(whisper_random(&small, 9, r->be, precision, &r->w, &e), e);
}

static void rig_close(struct rig *r)
{
    whisper_session_free(r->s);
    whisper_free(r->w);
    backend_close(r->be);
}

static void encode(struct rig *r, uint32_t slot, uint32_t window)
{
    const struct asr_window w = {.slot = slot, .pcm = pcm[window], .n = SAMPLES - window * 1000};
    struct err e;

    assert_ok(whisper_encode(r->s, &w, 1, &e), e);
}

/* What branch b of window w is fed. */
static int32_t token_of(uint32_t w, uint32_t b, uint32_t pos)
{
    return (int32_t)((w * 733 + b * 311 + pos * 97 + 5) % VOCAB);
}

static float *rows_new(uint32_t n)
{
    float *ret = malloc(sizeof(float) * VOCAB * n);

    assert_non_null(ret);
    return ret;
}

/* Logits of n tokens of a window, one at a time, in a session of its own. */
static float *alone(struct rig *r, uint32_t window, const int32_t *tokens, uint32_t n)
{
    struct asr_session *s, *kept = r->s;
    float *ret = rows_new(n);
    struct err e;

    assert_ok(whisper_session_new(r->w, (struct asr_shape){.slots = 1}, &s, &e), e);
    r->s = s;
    encode(r, 0, window);
    for (uint32_t pos = 0; pos < n; pos++) {
        const struct asr_row row = {0, 0, pos, tokens[pos]};

        assert_ok(whisper_step(s, &row, 1, ret + (size_t)pos * VOCAB, &e), e);
    }
    whisper_session_free(s);
    r->s = kept;
    return ret;
}

static void same_logits(const float *a, const float *b)
{
    assert_memory_equal(a, b, sizeof(float) * VOCAB);
}

/* ---- each as if alone ---- */

/* Rows in an order that changes, of branches that start at different steps. */
static void all_together(struct rig *r, float *want[ROWS])
{
    float *logits = rows_new(ROWS);
    struct asr_row rows[ROWS];
    uint32_t which[ROWS];
    struct err e;

    for (uint32_t w = 0; w < WINDOWS; w++)
        encode(r, WINDOWS - 1 - w, w);
    for (uint32_t step = 0; step < STEPS + ROWS; step++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < ROWS; k++) {
            uint32_t i = (k * 5 + step) % ROWS, w = i / BRANCHES, b = i % BRANCHES;

            if (step < i || step - i >= STEPS)
                continue;
            which[n] = i;
            rows[n++] = (struct asr_row){WINDOWS - 1 - w, b, step - i, token_of(w, b, step - i)};
        }
        if (n == 0)
            continue;
        assert_ok(whisper_step(r->s, rows, n, logits, &e), e);
        for (uint32_t k = 0; k < n; k++)
            same_logits(logits + (size_t)k * VOCAB, want[which[k]] + (size_t)rows[k].pos * VOCAB);
    }
    free(logits);
}

static void check_independence(enum precision precision, bool records)
{
    float *want[ROWS];
    struct rig r;

    rig_open(&r, precision);
    for (uint32_t i = 0; i < ROWS; i++) {
        int32_t tokens[STEPS];

        for (uint32_t pos = 0; pos < STEPS; pos++)
            tokens[pos] = token_of(i / BRANCHES, i % BRANCHES, pos);
        want[i] = alone(&r, i / BRANCHES, tokens, STEPS);
    }
    assert_true(memcmp(want[0], want[1], sizeof(float) * VOCAB) != 0); /* or nothing was compared */
    if (records)
        recorder_install(r.be);
    open_session(&r, (struct asr_shape){.slots = WINDOWS, .branches = BRANCHES});
    all_together(&r, want);
    for (uint32_t i = 0; i < ROWS; i++)
        free(want[i]);
    rig_close(&r);
}

TEST(branches_are_independent)
{
    struct backend_info info;

    backend_host_info(&info);
    check_independence(PRECISION_F32, false);
    check_independence(PRECISION_F32, true);
    if (info.have & 1u << PRECISION_BF16)
        check_independence(PRECISION_BF16, false);
}

/* ---- prompts ---- */

#define PROMPT 300

/* All of a prompt in as few calls as there is room for, between rows of others. */
TEST(prompts_at_once)
{
    const struct asr_row other = {1, 0, 0, 77};
    struct asr_row rows[512];
    int32_t tokens[PROMPT];
    float *want, *have, *want_other;
    struct rig r;
    struct err e;

    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = token_of(0, 2, i);
    for (int records = 0; records < 2; records++) {
        rig_open(&r, PRECISION_F32);
        want = alone(&r, 0, tokens, PROMPT);
        want_other = alone(&r, 1, &other.token, 1);
        if (records)
            recorder_install(r.be);
        open_session(&r, (struct asr_shape){.slots = 2, .branches = 2});
        assert_int_equal(r.s->rows, 64);
        have = rows_new(64);
        encode(&r, 0, 0);
        encode(&r, 1, 1);
        for (uint32_t at = 0; at < PROMPT;) {
            uint32_t n = 0, k = PROMPT - at < 63 ? PROMPT - at : 63;

            for (uint32_t i = 0; i < k; i++) {
                if (i == k / 2)
                    rows[n++] = other;
                rows[n++] = (struct asr_row){0, 1, at + i, tokens[at + i]};
            }
            assert_ok(whisper_step(r.s, rows, n, have, &e), e);
            for (uint32_t i = 0; i < n; i++)
                same_logits(have + (size_t)i * VOCAB,
                            rows[i].slot ? want_other : want + (size_t)rows[i].pos * VOCAB);
            at += k;
        }
        free(want);
        free(want_other);
        free(have);
        rig_close(&r);
    }
}

/* ---- branches that go on from others ---- */

TEST(others_ways_go_on)
{
    int32_t path[3][8] = {
        {3, 14, 15, 92, 65, 35, 89, 79}, {3, 14, 15, 92, 1, 2, 3, 4}, {3, 14, 15, 92, 5, 6, 7, 8}};
    /* 0 goes to 1 and 3; 2 stays as it is. In slot 0, while slot 1 does the same the other way. */
    const struct asr_move moves[] = {{0, 0, 1}, {1, 2, 0}, {0, 0, 3}};
    const uint32_t branch[3] = {0, 1, 3};
    float *want[3], *stays, have[2 * VOCAB];
    const int32_t stay[2] = {640, 641};
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    for (int i = 0; i < 3; i++)
        want[i] = alone(&r, 1, path[i], 8);
    stays = alone(&r, 1, stay, 2);
    open_session(&r, (struct asr_shape){.slots = 2, .branches = 4});
    encode(&r, 0, 1);
    encode(&r, 1, 1);
    for (uint32_t pos = 0; pos < 4; pos++) {
        const struct asr_row rows[] = {{0, 0, pos, path[0][pos]}, {1, 2, pos, path[0][pos]}};

        assert_ok(whisper_step(r.s, rows, 2, NULL, &e), e);
    }
    for (uint32_t pos = 0; pos < 7; pos++) { /* what was there is forgotten, however long */
        const struct asr_row rows[] = {{0, 1, pos, 9}, {0, 3, pos, 11}};

        assert_ok(whisper_step(r.s, rows, 2, NULL, &e), e);
    }
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 2, 0, stay[0]}, 1, NULL, &e), e);
    assert_ok(whisper_branch(r.s, moves, 3, &e), e);
    /* As far as the source is, no further. */
    assert_int_equal(whisper_step(r.s, &(struct asr_row){0, 1, 5, 1}, 1, NULL, &e), ERR_DEVICE);
    for (uint32_t pos = 4; pos < 8; pos++) {
        for (int i = 0; i < 3; i++) {
            const struct asr_row rows[] = {{0, branch[i], pos, path[i][pos]},
                                           {1, 0, pos, path[0][pos]}};

            assert_ok(whisper_step(r.s, rows, i == 0 ? 2 : 1, have, &e), e);
            same_logits(have, want[i] + (size_t)pos * VOCAB);
            if (i == 0)
                same_logits(have + VOCAB, want[0] + (size_t)pos * VOCAB);
        }
    }
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 2, 1, stay[1]}, 1, have, &e), e);
    same_logits(have, stays + VOCAB);
    /* From a branch that has seen nothing. */
    encode(&r, 1, 1);
    assert_ok(whisper_branch(r.s, &(struct asr_move){1, 3, 1}, 1, &e), e);
    assert_int_equal(whisper_step(r.s, &(struct asr_row){1, 1, 1, 1}, 1, NULL, &e), ERR_DEVICE);
    assert_ok(whisper_branch(r.s, NULL, 0, &e), e);
    for (int i = 0; i < 3; i++)
        free(want[i]);
    free(stays);
    rig_close(&r);
}

/* A search: in each step some branches go on from others, one may stand still, and all of them are
 * what their tokens are alone; then another search over the same slots, from its third token on. */
struct path {
    int32_t token[64];
    uint32_t n;
};

static uint32_t drawn(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Up to three moves in each window, from the first half of a permutation to the other. */
static void draw_moves(struct rig *r, struct path *paths, uint32_t *seed)
{
    struct asr_move moves[ROWS];
    uint32_t n = 0;
    struct err e;

    for (uint32_t w = 0; w < WINDOWS; w++) {
        uint32_t k = drawn(seed, 3), first = drawn(seed, BRANCHES), step = drawn(seed, 2) * 2 + 1;

        for (uint32_t i = 0; i < k; i++) {
            uint32_t from = (first + step * (i % (BRANCHES - k))) % BRANCHES;
            uint32_t to = (first + step * (BRANCHES - 1 - i)) % BRANCHES;

            moves[n++] = (struct asr_move){w, from, to};
            paths[w * BRANCHES + to] = paths[w * BRANCHES + from];
        }
    }
    assert_ok(whisper_branch(r->s, moves, n, &e), e);
}

static void search_on(struct rig *r, struct path *paths, uint32_t to, uint32_t *seed, float *logits)
{
    struct asr_row rows[ROWS];
    uint32_t still = drawn(seed, ROWS), n = 0;
    struct err e;

    for (uint32_t i = 0; i < ROWS; i++) {
        struct path *p = &paths[i];

        if (p->n >= to || (i == still && p->n + 4 > to))
            continue;
        p->token[p->n] = (int32_t)drawn(seed, VOCAB);
        rows[n++] = (struct asr_row){i / BRANCHES, i % BRANCHES, p->n, p->token[p->n]};
        p->n++;
    }
    if (n > 0)
        assert_ok(whisper_step(r->s, rows, n, logits, &e), e);
}

/* The next token of each branch gives what it gives alone. */
static void check_paths(struct rig *r, const struct path *paths)
{
    float *have = rows_new(ROWS);
    struct asr_row rows[ROWS];
    struct err e;

    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (struct asr_row){i / BRANCHES, i % BRANCHES, paths[i].n - 1,
                                   paths[i].token[paths[i].n - 1]};
    assert_ok(whisper_step(r->s, rows, ROWS, have, &e), e);
    for (uint32_t i = 0; i < ROWS; i++) {
        float *want = alone(r, i / BRANCHES, paths[i].token, paths[i].n);

        same_logits(have + (size_t)i * VOCAB, want + (size_t)(paths[i].n - 1) * VOCAB);
        free(want);
    }
    free(have);
}

static void check_search(enum precision precision, bool records)
{
    struct path paths[ROWS] = {0};
    float *logits = rows_new(ROWS);
    uint32_t seed = 5;
    struct rig r;

    rig_open(&r, precision);
    if (records)
        recorder_install(r.be);
    open_session(&r, (struct asr_shape){.slots = WINDOWS, .branches = BRANCHES});
    for (uint32_t w = 0; w < WINDOWS; w++)
        encode(&r, w, w);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t to = turn ? 3 : 1; to <= 44; to++) {
            search_on(&r, paths, to, &seed, logits);
            draw_moves(&r, paths, &seed);
            if (turn == 0 && to == 23)
                check_paths(&r, paths);
        }
        check_paths(&r, paths);
        for (uint32_t i = 0; i < ROWS; i++) /* window by window: what branch 0 has of it, for all */
            paths[i] = paths[i / BRANCHES * BRANCHES];
        for (uint32_t w = 0; w < WINDOWS; w++) {
            struct err e;

            for (uint32_t b = 1; b < BRANCHES; b++)
                assert_ok(whisper_branch(r.s, &(struct asr_move){w, 0, b}, 1, &e), e);
        }
        for (uint32_t i = 0; i < ROWS; i++)
            paths[i].n = 2;
    }
    free(logits);
    rig_close(&r);
}

TEST(searches)
{
    struct backend_info info;

    backend_host_info(&info);
    check_search(PRECISION_F32, false);
    check_search(PRECISION_F32, true);
    if (info.have & 1u << PRECISION_BF16)
        check_search(PRECISION_BF16, false);
}

static void refuse_rows(struct rig *r, const struct asr_row *rows, uint32_t n)
{
    struct err e;

    assert_int_equal(whisper_step(r->s, rows, n, NULL, &e), ERR_DEVICE);
    assert_true(e.msg[0] != 0);
}

/* A move onto a branch whose later positions another one has: that one keeps them until the next
 * row of the branch, and is refused in a call with it. */
TEST(what_is_shared_ends_with_a_move)
{
    struct asr_row rows[2] = {{0, 0, 1, 3}, {0, 1, 10, 4}};
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    open_session(&r, (struct asr_shape){.slots = WINDOWS, .branches = BRANCHES});
    encode(&r, 0, 0);
    for (uint32_t p = 0; p < 10; p++)
        assert_ok(whisper_step(r.s, &(struct asr_row){0, 0, p, (int32_t)p}, 1, NULL, &e), e);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 2, 0, 7}, 1, NULL, &e), e);
    assert_ok(whisper_branch(r.s, &(struct asr_move){0, 0, 1}, 1, &e), e);
    assert_ok(whisper_branch(r.s, &(struct asr_move){0, 2, 0}, 1, &e), e);
    refuse_rows(&r, rows, 2);
    assert_ok(whisper_step(r.s, &rows[1], 1, NULL, &e), e);
    assert_ok(whisper_step(r.s, &rows[0], 1, NULL, &e), e);
    rows[1].pos = 11;
    refuse_rows(&r, rows + 1, 1);
    rig_close(&r);
}

/* Branch 0 gets so many tokens, which branches 1 and 2 have from it. */
static void share_tokens(struct rig *r, const int32_t *tokens, uint32_t n)
{
    const struct asr_move moves[] = {{0, 0, 1}, {0, 0, 2}};
    struct err e;

    encode(r, 0, 0);
    for (uint32_t pos = 0; pos < n; pos++)
        assert_ok(whisper_step(r->s, &(struct asr_row){0, 0, pos, tokens[pos]}, 1, NULL, &e), e);
    assert_ok(whisper_branch(r->s, moves, 2, &e), e);
}

/* What a branch overwrites others no longer have, and none goes on from it in the same call. */
TEST(overwritten)
{
    const int32_t tokens[] = {3, 14, 15, 92, 65, 35}, other[] = {3, 14, 88};
    float have[3 * VOCAB], *want, *want_other;
    const struct whisper_head head = {0, 0};
    uint32_t first_frame[3];
    double logprob[4];
    const struct asr_alignment aligned = {.frames = 100,
                                          .tokens = tokens,
                                          .n = 4,
                                          .text = 1,
                                          .first_frame = first_frame,
                                          .logprob = logprob};
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    want = alone(&r, 0, tokens, 6);
    want_other = alone(&r, 0, other, 3);
    open_session(&r, (struct asr_shape){.slots = 1, .branches = 3, .align_heads = 1});
    share_tokens(&r, tokens, 4);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 1, 4, 65}, 1, NULL, &e), e);
    refuse_rows(&r, (struct asr_row[]){{0, 0, 2, 88}, {0, 1, 5, 35}}, 2);
    refuse_rows(&r, (struct asr_row[]){{0, 2, 4, 65}, {0, 0, 3, 88}}, 2);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 1, 5, 35}, 1, have, &e), e);
    same_logits(have, want + 5 * VOCAB); /* for nothing was overwritten */
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 0, 2, 88}, 1, have, &e), e);
    same_logits(have, want_other + 2 * VOCAB);
    for (uint32_t b = 1; b < 3; b++)
        for (uint32_t pos = 3; pos < 7; pos++)
            refuse_rows(&r, &(struct asr_row){0, b, pos, 1}, 1);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 1, 2, 15}, 1, have, &e), e);
    same_logits(have, want + 2 * VOCAB);
    /* All of them at once, as drafts do that begin again behind the prompt. */
    share_tokens(&r, tokens, 5);
    assert_ok(whisper_step(r.s, (struct asr_row[]){{0, 2, 2, 15}, {0, 0, 2, 88}, {0, 1, 2, 88}}, 3,
                           have, &e),
              e);
    same_logits(have, want + 2 * VOCAB);
    same_logits(have + VOCAB, want_other + 2 * VOCAB);
    same_logits(have + 2 * VOCAB, want_other + 2 * VOCAB);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 2, 3, 92}, 1, have, &e), e);
    same_logits(have, want + 3 * VOCAB);
    /* A branch that was another's has its own place again. */
    assert_ok(whisper_branch(r.s, &(struct asr_move){0, 2, 0}, 1, &e), e);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 0, 4, 65}, 1, have, &e), e);
    same_logits(have, want + 4 * VOCAB);
    /* Tokens that are aligned are fed to branch 0. */
    share_tokens(&r, tokens, 4);
    assert_ok(whisper_align(r.s, &aligned, 1, &head, 1, NULL, &e), e);
    refuse_rows(&r, &(struct asr_row){0, 1, 1, 1}, 1);
    assert_ok(whisper_step(r.s, &(struct asr_row){0, 0, 4, 65}, 1, have, &e), e);
    same_logits(have, want + 4 * VOCAB);
    free(want);
    free(want_other);
    rig_close(&r);
}

static const struct backend_ops *host;
static int writes_left;

static int failing_write(struct backend *be, void *dst, const void *src, size_t bytes,
                         struct err *err)
{
    return writes_left-- > 0 ? host->write(be, dst, src, bytes, err)
                             : err_set(err, ERR_VRAM, "no memory to write from");
}

/* Where keys lie is told again by the next step. */
TEST(failed_writes)
{
    const int32_t tokens[] = {3, 14, 15, 92, 65};
    struct backend_ops failing;
    float have[VOCAB], *want;
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    want = alone(&r, 0, tokens, 5);
    open_session(&r, (struct asr_shape){.slots = 1, .branches = 3});
    host = r.be->ops;
    failing = *host;
    failing.write = failing_write;
    for (int n = 0; n < 2; n++) { /* the lines, the rows */
        share_tokens(&r, tokens, 4);
        r.be->ops = &failing;
        writes_left = n;
        assert_int_equal(whisper_step(r.s, &(struct asr_row){0, 2, 4, 65}, 1, have, &e), ERR_VRAM);
        r.be->ops = host;
        assert_ok(whisper_step(r.s, &(struct asr_row){0, 2, 4, 65}, 1, have, &e), e);
        same_logits(have, want + 4 * VOCAB);
    }
    free(want);
    rig_close(&r);
}

/* ---- choices and candidates ---- */

struct course {
    struct choice choice[STEPS][ROWS];
    struct candidate top[STEPS][ROWS][BRANCHES + 1];
};

/* Prompts of two tokens together with the first choice, then a choice each, some of them left out,
 * so that widths vary; and a row that only fills its cache in every step. */
static void run_course(struct rig *r, struct course *ret)
{
    struct asr_row rows[2 * ROWS];
    struct choice_ask asks[2 * ROWS];
    struct choice choice[2 * ROWS];
    struct candidate top[2 * ROWS][BRANCHES + 1];
    int32_t last[ROWS];
    struct err e;

    *ret = (struct course){0};
    open_session(r, (struct asr_shape){.slots = WINDOWS, .branches = BRANCHES});
    for (uint32_t w = 0; w < WINDOWS; w++)
        encode(r, w, w);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t n = 0, of[2 * ROWS];

        for (uint32_t i = 0; i < ROWS; i++) {
            struct asr_row row = {i / BRANCHES, i % BRANCHES, step, 641};

            if (i % 3 == 2 && step % 2) /* fed what it chose only with its next choice */
                continue;
            if (i % 3 == 2 && step > 0) {
                of[n] = ROWS;
                asks[n] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
                rows[n++] = (struct asr_row){row.slot, row.branch, step - 1, last[i]};
            }
            row.token = step == 0 ? 641 : i % 3 == 2 ? 77 : last[i];
            of[n] = i;
            asks[n] = (struct choice_ask){
                .count = (int32_t)step,
                .last = step ? row.token : -1,
                .before = -1,
                .last_time = -1,
                .what = step == 0 ? CHOOSE_START | CHOOSE_TOKEN
                        : i == 1  ? CHOOSE_START
                                  : CHOOSE_TOKEN,
                .temperature = i % 2 ? 0.7f : 0,
                .uniform = 0.1 * step + 0.01 * i,
            };
            rows[n++] = row;
        }
        assert_ok(whisper_choose(r->s, rows, asks, n, choice, &top[0][0], &e), e);
        for (uint32_t k = 0; k < n; k++) {
            if (of[k] == ROWS) {
                assert_int_equal(choice[k].token, -1);
                assert_int_equal(top[k][0].token, -1);
                continue;
            }
            ret->choice[step][of[k]] = choice[k];
            memcpy(ret->top[step][of[k]], top[k], sizeof(top[k]));
            last[of[k]] = asks[k].what & CHOOSE_TOKEN ? choice[k].token : 642;
        }
    }
}

/* The best candidate is what is chosen at temperature 0; they get worse and differ. */
static void check_candidates(const struct course *c)
{
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < ROWS; i++) {
            const struct candidate *top = c->top[step][i];

            if (i % 3 == 2 && step % 2)
                continue;
            if (i == 1 && step > 0) { /* asked for no token */
                assert_int_equal(top[0].token, -1);
                assert_true(isinf(top[0].logprob));
                continue;
            }
            assert_true(top[0].token >= 0);
            if (i % 2 == 0) {
                assert_int_equal(top[0].token, c->choice[step][i].token);
                assert_true(fabs(top[0].logprob - c->choice[step][i].logprob) < 1e-12);
            }
            for (int k = 1; k <= BRANCHES; k++) {
                assert_true(top[k].token >= 0 && top[k].token != top[k - 1].token);
                assert_true(top[k].logprob <= top[k - 1].logprob && top[k].logprob < 0);
            }
        }
    }
}

static void check_course(enum precision precision)
{
    static struct course plain, recorded;
    struct recorder_counts before, after;
    struct rig r;

    rig_open(&r, precision);
    run_course(&r, &plain);
    check_candidates(&plain);
    recorder_install(r.be);
    recorder_counts(&before);
    run_course(&r, &recorded);
    assert_memory_equal(&plain, &recorded, sizeof(plain));
    recorder_counts(&after);
    assert_int_equal(after.begun, before.begun + 2); /* 8 rows thrice, and 12 and 16 ones in 16 */
    assert_int_equal(after.run, before.run + STEPS - 2);
    rig_close(&r);
}

TEST(candidates)
{
    struct backend_info info;

    backend_host_info(&info);
    check_course(PRECISION_F32);
    if (info.have & 1u << PRECISION_BF16)
        check_course(PRECISION_BF16);
}

/* As the host's, where later keys of a slot come after earlier ones: caches of 16-bit values are
 * stored in pairs, which shows only on processors that have them. */
static uint32_t appended;

static int in_order(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                    struct tensor v, struct err *err)
{
    for (int64_t i = 0; i < k.rows; i++) {
        for (int64_t j = 0; j < i; j++)
            if (rows[j].slot == rows[i].slot)
                assert_true(rows[j].pos < rows[i].pos);
    }
    appended += (uint32_t)k.rows;
    return host->kv_append(be, kv, rows, k, v, err);
}

/* A prompt of which some tokens alone are asked for, at once and token by token. */
static void check_prompt_choice(enum precision precision)
{
    const uint32_t n = 14;
    struct choice_ask asks[14];
    struct asr_row rows[14];
    struct choice at_once[14], by_token[14];
    struct backend_ops checked;
    struct rig r;
    struct err e;

    rig_open(&r, precision);
    host = r.be->ops;
    checked = *host;
    checked.kv_append = in_order;
    r.be->ops = &checked;
    appended = 0;
    open_session(&r, (struct asr_shape){.slots = 1, .branches = 2});
    encode(&r, 0, 2);
    for (uint32_t i = 0; i < n; i++) {
        asks[i] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
        asks[i].what = i % 5 == 3 ? CHOOSE_TOKEN : 0;
        rows[i] = (struct asr_row){0, 1, i, token_of(2, 1, i)};
        assert_ok(whisper_choose(r.s, &rows[i], &asks[i], 1, &by_token[i], NULL, &e), e);
    }
    for (uint32_t i = 0; i < n; i++)
        rows[i].branch = 0;
    assert_ok(whisper_choose(r.s, rows, asks, n, at_once, NULL, &e), e);
    assert_true(at_once[n - 1].token >= 0 && at_once[n - 2].token == -1);
    assert_memory_equal(at_once, by_token, sizeof(at_once));
    assert_int_equal(appended, 2 * n * small.decoder_layers);
    r.be->ops = host;
    rig_close(&r);
}

TEST(prompts_with_choices)
{
    struct backend_info info;

    backend_host_info(&info);
    check_prompt_choice(PRECISION_F32);
    if (info.have & 1u << PRECISION_BF16)
        check_prompt_choice(PRECISION_BF16);
}

/* Choices without candidates are the same, of one branch and of many. */
TEST(choices_alone)
{
    const struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN};
    struct choice one, many, with;
    struct candidate top[BRANCHES + 1];
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    open_session(&r, (struct asr_shape){.slots = 1});
    encode(&r, 0, 0);
    assert_ok(whisper_choose(r.s, &(struct asr_row){0, 0, 0, 641}, &ask, 1, &one, NULL, &e), e);
    assert_int_equal(whisper_choose(r.s, &(struct asr_row){0, 0, 0, 641}, &ask, 1, &one, top, &e),
                     ERR_DEVICE); /* one branch has no candidates */
    open_session(&r, (struct asr_shape){.slots = 1, .branches = BRANCHES});
    encode(&r, 0, 0);
    assert_ok(whisper_choose(r.s, &(struct asr_row){0, 3, 0, 641}, &ask, 1, &many, NULL, &e), e);
    assert_ok(whisper_choose(r.s, &(struct asr_row){0, 2, 0, 641}, &ask, 1, &with, top, &e), e);
    assert_memory_equal(&one, &many, sizeof(one));
    assert_memory_equal(&one, &with, sizeof(one));
    rig_close(&r);
}

/* ---- refusals ---- */

TEST(rows_are_checked)
{
    static struct asr_row many[65];
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    open_session(&r, (struct asr_shape){.slots = 2, .branches = 3});
    encode(&r, 0, 0);
    assert_ok(whisper_step(r.s, (struct asr_row[]){{0, 1, 0, 1}, {0, 1, 1, 1}}, 2, NULL, &e), e);
    refuse_rows(&r, (struct asr_row[]){{0, 3, 0, 1}}, 1);               /* no such branch */
    refuse_rows(&r, (struct asr_row[]){{1, 0, 0, 1}}, 1);               /* no window */
    refuse_rows(&r, (struct asr_row[]){{2, 0, 0, 1}}, 1);               /* no such slot */
    refuse_rows(&r, (struct asr_row[]){{0, 1, 3, 1}}, 1);               /* past what was seen */
    refuse_rows(&r, (struct asr_row[]){{0, 2, 1, 1}}, 1);               /* not another's */
    refuse_rows(&r, (struct asr_row[]){{0, 1, 2, 1}, {0, 1, 2, 1}}, 2); /* twice */
    refuse_rows(&r, (struct asr_row[]){{0, 1, 2, 1}, {0, 1, 4, 1}}, 2); /* a gap */
    refuse_rows(&r, (struct asr_row[]){{0, 1, 2, 1}, {0, 1, 1, 1}}, 2); /* backwards */
    refuse_rows(&r, (struct asr_row[]){{0, 1, 2, 1}, {0, 0, 0, 1}, {0, 1, 2, 1}}, 3);
    refuse_rows(&r, (struct asr_row[]){{UINT32_MAX, UINT32_MAX, UINT32_MAX, 1}}, 1);
    refuse_rows(&r, many, 0);
    for (uint32_t i = 0; i < 65; i++)
        many[i] = (struct asr_row){0, 0, i, 1};
    refuse_rows(&r, many, 65);
    assert_ok(whisper_step(r.s, many, 64, NULL, &e), e);
    /* None of them changed what is there: branch 1 has seen two tokens still. */
    assert_ok(whisper_step(r.s, (struct asr_row[]){{0, 1, 2, 1}}, 1, NULL, &e), e);
    /* To the last position and not beyond. */
    for (uint32_t at = 64; at < 448; at += 64) {
        for (uint32_t i = 0; i < 64; i++)
            many[i].pos = at + i;
        assert_ok(whisper_step(r.s, many, 64, NULL, &e), e);
    }
    many[0].pos = 448;
    refuse_rows(&r, many, 1);
    rig_close(&r);
}

/* All that a short text's session has room for, in steps of 64 positions, the last ones of another
 * branch: logits of the last rows. */
static void fill(struct rig *r, struct asr_shape shape, float *logits)
{
    struct asr_row rows[64];
    struct err e;

    open_session(r, shape);
    encode(r, 1, 0);
    for (uint32_t at = 0; at < SHORT; at += 64) {
        const uint32_t n = SHORT - at < 64 ? SHORT - at : 64, branch = at < 128 ? 0 : 2;

        if (at == 128)
            assert_ok(whisper_branch(r->s, &(struct asr_move){1, 0, 2}, 1, &e), e);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (struct asr_row){1, branch, at + i, token_of(0, branch, at + i)};
        assert_ok(whisper_step(r->s, rows, n, logits, &e), e);
    }
}

/* 224 tokens, a prompt of 4 before them and the end behind, to whole blocks of 16. The same bits
 * as with room for all positions, and nothing beyond. */
TEST(short_texts)
{
    static const enum precision precisions[] = {PRECISION_F32, PRECISION_BF16};
    const struct asr_shape all = {.slots = 2, .branches = 3};
    struct asr_shape less = all;
    struct whisper_config few = small;
    float *want = rows_new(64), *have = rows_new(64);
    struct rig r;
    struct err e;

    less.short_text = true;
    for (int i = 0; i < 2; i++) {
        const uint64_t number = i ? 2 : 4; /* bytes */

        rig_open(&r, precisions[i]);
        fill(&r, all, want);
        fill(&r, less, have);
        assert_memory_equal(have, want, sizeof(float) * VOCAB * (SHORT % 64));
        refuse_rows(&r, &(struct asr_row){1, 2, SHORT, 1}, 1);
        assert_int_equal(whisper_slot_bytes(r.w, all) - whisper_slot_bytes(r.w, less),
                         3 * (2 * small.decoder_layers * (448 - SHORT) * small.d_model * number));
        /* and two bytes of each position: where it lies */
        assert_int_equal(whisper_session_bytes(r.w, all) - whisper_session_bytes(r.w, less),
                         2 * (whisper_slot_bytes(r.w, all) - whisper_slot_bytes(r.w, less)) +
                             r.s->rows * (448 - SHORT) * 2);
        rig_close(&r);
    }
    few.max_target_positions = 200; /* no room to spare */
    assert_ok(backend_open_host(0, &r.be, &e), e);
    assert_ok(whisper_random(&few, 9, r.be, PRECISION_F32, &r.w, &e), e);
    assert_int_equal(whisper_slot_bytes(r.w, all), whisper_slot_bytes(r.w, less));
    r.s = NULL;
    rig_close(&r);
    free(want);
    free(have);
}

TEST(moves_are_checked)
{
    const struct asr_move wrong[][2] = {
        {{0, 0, 1}, {0, 1, 2}}, /* a destination as a source */
        {{0, 0, 1}, {0, 2, 0}}, /* a source as a destination */
        {{0, 0, 1}, {0, 2, 1}}, /* twice a destination */
        {{0, 0, 0}, {0, 1, 2}}, /* to itself */
        {{0, 0, 3}, {0, 1, 2}}, /* no such branch */
        {{0, 1, 2}, {0, 3, 0}},
        {{0, 1, 2}, {1, 0, 1}}, /* no window */
        {{0, 1, 2}, {2, 0, 1}}, /* no such slot */
        {{0, 1, 2}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}},
    };
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    open_session(&r, (struct asr_shape){.slots = 2, .branches = 3});
    encode(&r, 0, 0);
    for (uint32_t b = 0; b < 3; b++)
        assert_ok(whisper_step(r.s, (struct asr_row[]){{0, b, 0, 1}}, 1, NULL, &e), e);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(whisper_branch(r.s, wrong[i], 2, &e), ERR_DEVICE);
    for (uint32_t b = 0; b < 3; b++) /* nothing was moved */
        assert_ok(whisper_step(r.s, (struct asr_row[]){{0, b, 1, 1}}, 1, NULL, &e), e);
    assert_ok(whisper_branch(r.s, (struct asr_move[]){{0, 0, 1}, {0, 0, 2}}, 2, &e), e);
    rig_close(&r);
}

static uint32_t default_slots(const struct rig *r, uint32_t branches, bool short_text)
{
    return whisper_default_slots(
        r->w, (struct asr_shape){.branches = branches, .short_text = short_text});
}

TEST(shapes_are_checked)
{
    struct rig r;
    struct err e;

    rig_open(&r, PRECISION_F32);
    assert_int_equal(
        whisper_session_new(r.w, (struct asr_shape){.slots = 1, .branches = ASR_BRANCHES_MAX + 1},
                            &r.s, &e),
        ERR_USAGE);
    assert_int_equal(
        whisper_session_new(r.w, (struct asr_shape){.slots = 4096, .branches = 17}, &r.s, &e),
        ERR_USAGE);
    assert_int_equal(whisper_session_new(
                         r.w,
                         (struct asr_shape){.slots = 1, .align_heads = WHISPER_MAX_ALIGN_HEADS + 1},
                         &r.s, &e),
                     ERR_USAGE);
    assert_int_equal(default_slots(&r, 1, false), 16);
    assert_int_equal(default_slots(&r, 4, false), 4);
    assert_int_equal(default_slots(&r, ASR_BRANCHES_MAX, false), 4);
    r.be->info.wide_batches = true;
    assert_int_equal(default_slots(&r, 1, false), 128);
    assert_int_equal(default_slots(&r, 5, false), 32);
    r.be->budget =
        r.be->allocated + 4 * 18 * whisper_slot_bytes(r.w, (struct asr_shape){.branches = 5});
    assert_int_equal(default_slots(&r, 5, false), 18);
    /* Keys and values of 1504 positions, and of five branches' 448 or 240: 3744 and 2704. */
    assert_int_equal(default_slots(&r, 5, true), 24);
    r.be->budget = 0;
    open_session(&r, (struct asr_shape){.slots = 3, .branches = ASR_BRANCHES_MAX});
    assert_int_equal(r.s->rows, 3 * ASR_BRANCHES_MAX);
    rig_close(&r);
}

TEST_MAIN(NULL, NULL)
