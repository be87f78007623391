/* How tokens follow the audio, against the plain formula in double precision: from the queries and
 * keys that pass by on their way to the attention, and from the logits of plain steps. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/common/warp.h"
#include "tests/unit/models/recorder.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/tokenizer/vocabulary.h"

#define D 128
#define LAYERS 3
#define VOCAB 2151
#define EOT 640
#define TOKENS 448
#define FRAMES WHISPER_POSITIONS

static const struct whisper_config small = {D, 80, VOCAB, 1, 2, 256, LAYERS, 2, 256, 1500, TOKENS};
static const struct rules_spec rules = {.vocab = VOCAB,
                                        .eot = EOT,
                                        .no_speech = -1,
                                        .timestamp_begin = 650,
                                        .timestamp_end = 2150,
                                        .max_initial = 700};
/* In no order, and not all. */
static const struct whisper_head heads[] = {{2, 1}, {0, 0}, {2, 0}, {1, 1}};

/* ---- what passes by ---- */

static const struct backend_ops *real;
static struct backend_ops ops;
static float (*keys)[FRAMES][D];    /* [LAYERS]: of the window that was encoded last */
static float (*queries)[TOKENS][D]; /* [LAYERS]: of the rows of own slot `watched` */
static uint32_t filled, asked;      /* layers */
static int32_t watched;
static bool poison;    /* a number of the fourth row's logits that is none */
static int fail_after; /* calls of attention_scores; -1: never */

static int seen_fill(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                     struct tensor k, struct tensor v, struct err *err)
{
    for (int64_t r = 0; r < FRAMES; r++)
        memcpy(keys[filled % LAYERS][r], (float *)k.data + r * k.stride, sizeof(keys[0][0]));
    filled++;
    return real->kv_fill(be, kv, slots, windows, k, v, err);
}

static int seen_attention(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t n, struct tensor out,
                          struct err *err)
{
    if (n == FRAMES) {
        for (int64_t r = 0; r < q.rows; r++) {
            if (rows[r].slot == watched)
                memcpy(queries[asked % LAYERS][rows[r].pos], (float *)q.data + r * q.stride,
                       sizeof(queries[0][0]));
        }
        asked++;
    }
    return real->attention_rows(be, q, kv, rows, n, out, err);
}

static int failing_scores(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t head, uint32_t n,
                          struct tensor out, struct err *err)
{
    if (fail_after >= 0 && fail_after-- == 0)
        return err_set(err, ERR_VRAM, "no memory for scores");
    return real->attention_scores(be, q, kv, rows, head, n, out, err);
}

static int poisoned_choose(struct backend *be, const struct rules *given, struct tensor logits,
                           const struct choice_ask *asks, struct choice *choices, struct err *err)
{
    if (poison)
        ((float *)logits.data)[logits.stride * 3 + 9] = INFINITY;
    return real->choose(be, given, logits, asks, choices, err);
}

static void watch(struct backend *be)
{
    real = be->ops;
    ops = *real;
    ops.kv_fill = seen_fill;
    ops.attention_rows = seen_attention;
    ops.attention_scores = failing_scores;
    ops.choose = poisoned_choose;
    poison = false;
    be->ops = &ops;
    filled = asked = 0;
    watched = 0;
    fail_after = -1;
}

/* ---- the formula ---- */

static int compare_floats(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* weights: [n][frames], of one head: softmax(q k^T / 8) in each row. */
static void attend(const struct whisper_head *h, uint32_t n, uint32_t frames, double *weights)
{
    for (uint32_t i = 0; i < n; i++) {
        double *w = weights + (size_t)i * frames, max = -INFINITY, sum = 0;

        for (uint32_t j = 0; j < frames; j++) {
            const float *q = queries[h->layer][i] + h->head * 64;
            const float *k = keys[h->layer][j] + h->head * 64;

            w[j] = 0;
            for (int c = 0; c < 64; c++)
                w[j] += (double)q[c] * (double)k[c] / 8.0;
            max = w[j] > max ? w[j] : max;
        }
        for (uint32_t j = 0; j < frames; j++)
            sum += w[j] = exp(w[j] - max);
        for (uint32_t j = 0; j < frames; j++)
            w[j] /= sum;
    }
}

static void standardise(double *weights, uint32_t n, uint32_t frames)
{
    for (uint32_t j = 0; j < frames; j++) {
        double mean = 0, variance = 0;

        for (uint32_t i = 0; i < n; i++)
            mean += weights[(size_t)i * frames + j] / n;
        for (uint32_t i = 0; i < n; i++) {
            double *w = &weights[(size_t)i * frames + j];

            *w -= mean;
            variance += *w * *w / n;
        }
        for (uint32_t i = 0; i < n; i++)
            weights[(size_t)i * frames + j] /= variance > 0 ? sqrt(variance) : 1;
    }
}

/* Of seven frames, reflected at both ends without repeating them. */
static double median(const double *x, int frames, int at)
{
    double seven[7];

    if (frames <= 3)
        return x[at];
    for (int i = -3; i <= 3; i++) {
        int j = abs(at + i);

        seven[i + 3] = x[j < frames ? j : 2 * (frames - 1) - j];
    }
    qsort(seven, 7, sizeof(*seven), compare_floats);
    return seven[3];
}

static void formula(uint32_t n, uint32_t frames, uint32_t head_count, double *matrix)
{
    double *weights = malloc(sizeof(double) * n * frames);

    assert_non_null(weights);
    memset(matrix, 0, sizeof(double) * n * frames);
    for (uint32_t h = 0; h < head_count; h++) {
        attend(&heads[h], n, frames, weights);
        standardise(weights, n, frames);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < frames; j++)
                matrix[(size_t)i * frames + j] +=
                    median(weights + (size_t)i * frames, (int)frames, (int)j) / head_count;
        }
    }
    free(weights);
}

/* ---- the rig ---- */

struct rig {
    struct backend *be;
    struct asr_model *w;
    struct asr_session *s;
    int32_t tokens[TOKENS];
    float *matrix;  /* [TOKENS][FRAMES], rows one behind the other */
    float *wide;    /* the same, as whisper_align gives it */
    double *wanted; /* the same */
    double logprob[TOKENS];
    uint32_t first_frame[TOKENS];
};

static void rig_open(struct rig *r)
{
    struct err e;

    *r = (struct rig){0};
    keys = malloc(LAYERS * sizeof(*keys));
    queries = malloc(LAYERS * sizeof(*queries));
    r->matrix = malloc(sizeof(*r->matrix) * TOKENS * FRAMES);
    r->wide = malloc(sizeof(*r->wide) * TOKENS * FRAMES);
    r->wanted = malloc(sizeof(*r->wanted) * TOKENS * FRAMES);
    assert_true(keys && queries && r->matrix && r->wide && r->wanted);
    assert_ok(backend_open_host(0, &r->be, &e), e);
    assert_ok(whisper_random(&small, 17, r->be, PRECISION_F32, &r->w, &e), e);
    r->tokens[0] = 641;
    r->tokens[1] = 645;
    r->tokens[2] = 649;
    for (uint32_t i = 3; i < TOKENS; i++)
        r->tokens[i] = (int32_t)(i * 37 % EOT);
    r->tokens[7] = 700; /* a timestamp among the text */
}

static void open_session(struct rig *r, struct asr_shape shape)
{
    struct err e;

    whisper_session_free(r->s);
    r->s = NULL;
    assert_ok(whisper_session_new(r->w, shape, &r->s, &e), e);
    assert_ok(whisper_session_rules(r->s, &rules, &e), e);
}

static void rig_close(struct rig *r)
{
    whisper_session_free(r->s);
    whisper_free(r->w);
    backend_close(r->be);
    free(r->matrix);
    free(r->wide);
    free(r->wanted);
    free(keys);
    free(queries);
}

static void encode(struct rig *r, uint32_t slot, uint32_t seed)
{
    static float pcm[100000];
    const struct asr_window w = {.slot = slot, .pcm = pcm, .n = 100000};
    uint32_t x = seed;
    struct err e;

    for (size_t k = 0; k < 100000; k++) {
        x = x * 1664525u + 1013904223u;
        pcm[k] = ((float)(x >> 8) / 8388608.0f - 1.0f) * 0.4f;
    }
    filled = 0;
    assert_ok(whisper_encode(r->s, &w, 1, &e), e);
}

static struct asr_alignment request(struct rig *r, uint32_t slot, const int32_t *tokens, uint32_t n,
                                    uint32_t frames)
{
    return (struct asr_alignment){.slot = slot,
                                  .frames = frames,
                                  .tokens = tokens,
                                  .n = n,
                                  .text = n > 3 ? 3 : 1,
                                  .first_frame = r->first_frame,
                                  .logprob = r->logprob};
}

/* The path is the one through the matrix. */
static void check_path(const struct asr_alignment *a, const float *matrix, size_t stride)
{
    uint32_t want[TOKENS];

    assert_true(reference_warp(matrix + (a->text - 1) * stride, stride, a->n - a->text, a->frames,
                               a->hold, want));
    assert_memory_equal(a->first_frame, want, (a->n - a->text) * sizeof(*want));
}

/* The text's tokens end with the end of the text. */
static void align(struct rig *r, uint32_t slot, uint32_t n, uint32_t frames, uint32_t head_count)
{
    int32_t tokens[TOKENS];
    struct asr_alignment a = request(r, slot, tokens, n, frames);
    struct err e;

    memcpy(tokens, r->tokens, sizeof(tokens));
    tokens[n - 1] = EOT;
    asked = 0;
    assert_ok(whisper_align(r->s, &a, 1, heads, head_count, r->wide, &e), e);
    for (uint32_t i = 0; i < n; i++)
        memcpy(r->matrix + (size_t)i * frames, r->wide + (size_t)i * FRAMES,
               frames * sizeof(*r->matrix));
    check_path(&a, r->wide, FRAMES);
}

static void check_matrix(struct rig *r, uint32_t n, uint32_t frames, uint32_t head_count)
{
    double worst = 0, most = 0;

    formula(n, frames, head_count, r->wanted);
    for (size_t i = 0; i < (size_t)n * frames; i++) {
        double off = fabs((double)r->matrix[i] - r->wanted[i]);

        worst = off > worst || !(off >= 0) ? off : worst;
        most = fabs(r->wanted[i]) > most ? fabs(r->wanted[i]) : most;
    }
    if (!(worst < 2e-4))
        print_error("%u tokens, %u frames: off by %g of %g\n", n, frames, worst, most);
    assert_true(worst < 2e-4);
    assert_true(frames == 1 ? most == 0 : most > 0.05); /* standardised: something to be off from */
}

/* From plain steps of the same tokens. */
static void check_logprobs(struct rig *r, uint32_t slot, uint32_t n)
{
    float logits[VOCAB];
    struct err e;

    assert_true(r->logprob[0] == 0 && r->logprob[n - 1] == 0);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const struct asr_row row = {slot, 0, i, r->tokens[i]};
        double max = -INFINITY, sum = 0;
        int32_t next = i + 2 < n ? r->tokens[i + 1] : EOT;

        assert_ok(whisper_step(r->s, &row, 1, logits, &e), e);
        for (int k = 0; k < EOT; k++)
            max = (double)logits[k] > max ? (double)logits[k] : max;
        for (int k = 0; k < EOT; k++)
            sum += exp((double)logits[k] - max);
        if (next >= EOT)
            assert_true(r->logprob[i + 1] == 0);
        else
            assert_true(fabs(r->logprob[i + 1] - ((double)logits[next] - max - log(sum))) < 1e-9);
    }
}

/* ---- tests ---- */

TEST(as_the_formula_says)
{
    static const struct {
        uint32_t n, frames, heads;
    } cases[] = {{12, 1500, 4}, {100, 333, 4}, {TOKENS, 1500, 2}, {65, 7, 3},
                 {5, 1, 4},     {5, 2, 2},     {5, 3, 4},         {5, 4, 4},
                 {5, 6, 1},     {3, 50, 4},    {2, 51, 4},        {64, 9, 1}};
    struct rig r;

    rig_open(&r);
    watch(r.be);
    open_session(&r, (struct asr_shape){.slots = 2, .branches = 2, .align_heads = 4});
    watched = 2; /* branch 0 of slot 1 */
    encode(&r, 0, 5);
    encode(&r, 1, 6);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        align(&r, 1, cases[i].n, cases[i].frames, cases[i].heads);
        check_matrix(&r, cases[i].n, cases[i].frames, cases[i].heads);
        check_logprobs(&r, 1, cases[i].n);
    }
    rig_close(&r);
}

/* The same bits whatever the other slots hold, however many rows a step has, recorded or not; and
 * nothing is taken on the way. */
TEST(nothing_else_shows)
{
    const size_t bytes = sizeof(float) * TOKENS * FRAMES;
    float *first = malloc(bytes);
    double logprob[TOKENS];
    struct err e;
    struct rig r;

    assert_non_null(first);
    rig_open(&r);
    open_session(&r, (struct asr_shape){.slots = 1, .align_heads = 4});
    encode(&r, 0, 6);
    align(&r, 0, TOKENS, FRAMES, 4);
    memcpy(first, r.matrix, bytes);
    memcpy(logprob, r.logprob, sizeof(logprob));
    for (int records = 0; records < 2; records++) {
        uint64_t held;

        open_session(&r, (struct asr_shape){.slots = 5, .branches = 20, .align_heads = 9});
        assert_int_equal(r.s->rows, 100);
        held = r.be->allocated;
        for (uint32_t slot = 0; slot < 5; slot++)
            encode(&r, slot, slot == 3 ? 6 : 50 + slot);
        for (uint32_t slot = 0; slot < 5; slot++)
            assert_ok(whisper_step(r.s, &(struct asr_row){slot, 1, 0, 3}, 1, NULL, &e), e);
        memset(r.matrix, 0xff, bytes);
        align(&r, 3, TOKENS, FRAMES, 4);
        assert_memory_equal(r.matrix, first, bytes);
        assert_memory_equal(r.logprob, logprob, sizeof(logprob));
        assert_int_equal(r.be->allocated, held);
        /* The others go on where they were; branch 0 of the slot holds what was aligned. */
        for (uint32_t slot = 0; slot < 5; slot++)
            assert_ok(whisper_step(r.s, &(struct asr_row){slot, 1, 1, 3}, 1, NULL, &e), e);
        align(&r, 3, 9, 80, 1);
        assert_ok(whisper_step(r.s, &(struct asr_row){3, 0, 9, 3}, 1, NULL, &e), e);
        if (!records)
            recorder_install(r.be);
    }
    free(first);
    rig_close(&r);
}

/* Windows together, of different lengths, have the very bits that each has alone: with as many rows
 * at once as all have, or as a step has; and whether they were encoded with others or not. */
static void align_together(struct rig *r, uint32_t count, uint32_t align_windows)
{
    enum { MOST = 16 };
    static int32_t tokens[MOST][TOKENS];
    static uint32_t first[MOST][TOKENS], alone_first[TOKENS];
    static double logprob[MOST][TOKENS], alone[TOKENS];
    static struct align_hold hold[TOKENS];
    struct asr_alignment a[MOST];
    float *matrix = malloc(sizeof(*matrix) * 4 * TOKENS * FRAMES);
    size_t at = 0;
    struct err e;

    assert_non_null(matrix);
    open_session(
        r, (struct asr_shape){
               .slots = MOST, .branches = 2, .align_heads = 4, .align_windows = align_windows});
    for (uint32_t k = 0; k < TOKENS; k++)
        hold[k] = (struct align_hold){k * 3, k % 4 ? k * 3 + 40 : UINT32_MAX};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = 2 + (i * 37 + count) % 100;

        encode(r, 15 - i, 40 + i);
        for (uint32_t k = 0; k < n; k++)
            tokens[i][k] = k + 1 < n ? (int32_t)((i * 11 + k * 37) % EOT) : EOT;
        a[i] = request(r, 15 - i, tokens[i], n, 1 + (i * 211 + 300) % FRAMES);
        a[i].hold = i % 2 ? hold : NULL;
        a[i].first_frame = first[i];
        a[i].logprob = logprob[i];
    }
    assert_ok(whisper_align(r->s, a, count, heads, 4, matrix, &e), e);
    for (uint32_t i = 0; i < count; at += a[i++].n) {
        struct asr_alignment one = a[i];

        check_path(&a[i], matrix + at * FRAMES, FRAMES);
        one.first_frame = alone_first;
        one.logprob = alone;
        assert_ok(whisper_align(r->s, &one, 1, heads, 4, r->wide, &e), e);
        for (uint32_t k = 0; k < one.n; k++)
            assert_memory_equal(matrix + (at + k) * FRAMES, r->wide + k * FRAMES,
                                one.frames * sizeof(*matrix));
        assert_memory_equal(first[i], alone_first, (one.n - one.text) * sizeof(*alone_first));
        assert_memory_equal(logprob[i], alone, one.n * sizeof(*alone));
        assert_ok(whisper_step(r->s, &(struct asr_row){one.slot, 0, one.n, 3}, 1, NULL, &e), e);
    }
    free(matrix);
}

TEST(windows_together)
{
    static const uint32_t counts[] = {1, 2, 8, 16};
    struct rig r;

    rig_open(&r);
    for (int records = 0; records < 2; records++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            align_together(&r, counts[i], 4);
        align_together(&r, 4, 1); /* in the rows of a step */
        if (!records)
            recorder_install(r.be);
    }
    rig_close(&r);
}

static void refused(struct rig *r, int code, uint32_t slot, uint32_t n, uint32_t frames,
                    const struct whisper_head *h, uint32_t head_count)
{
    struct asr_alignment a = request(r, slot, r->tokens, n, frames);
    struct err e = {0};

    assert_int_equal(whisper_align(r->s, &a, 1, h, head_count, r->wide, &e), code);
    assert_true(e.msg[0] != 0);
}

/* Together they are refused as well; and what is too much. */
static void refused_together(struct rig *r)
{
    struct asr_alignment two[2] = {request(r, 0, r->tokens, 100, 80),
                                   request(r, 0, r->tokens, 100, 80)};
    struct err e = {0};

    assert_int_equal(whisper_align(r->s, two, 0, heads, 1, NULL, &e), ERR_DEVICE);
    assert_int_equal(whisper_align(r->s, two, 2, heads, 1, NULL, &e), ERR_DEVICE); /* one slot */
    encode(r, 1, 2);
    two[1].slot = 1;
    assert_ok(whisper_align(r->s, two, 2, heads, 1, NULL, &e), e);
    two[1].n = TOKENS - 99;
    assert_int_equal(whisper_align(r->s, two, 2, heads, 1, NULL, &e), ERR_DEVICE);
    two[1].n = 100;
    two[1].text = 0;
    assert_int_equal(whisper_align(r->s, two, 2, heads, 1, NULL, &e), ERR_DEVICE);
    two[1].text = 100;
    assert_int_equal(whisper_align(r->s, two, 2, heads, 1, NULL, &e), ERR_DEVICE);
}

/* A short text's 240 positions: the bits that there are with room for all, and no token more. */
TEST(short_texts)
{
    const size_t bytes = sizeof(float) * 240 * FRAMES;
    double logprob[240];
    float *first = malloc(bytes);
    struct rig r;

    assert_non_null(first);
    rig_open(&r);
    for (int i = 0; i < 2; i++) {
        open_session(&r, (struct asr_shape){
                             .slots = 2, .branches = 2, .align_heads = 4, .short_text = i == 1});
        encode(&r, 1, 6);
        align(&r, 1, 240, FRAMES, 4);
        if (i == 0) {
            memcpy(first, r.matrix, bytes);
            memcpy(logprob, r.logprob, sizeof(logprob));
        }
    }
    assert_memory_equal(r.matrix, first, bytes);
    assert_memory_equal(r.logprob, logprob, sizeof(logprob));
    refused(&r, ERR_DEVICE, 1, 241, FRAMES, heads, 4);
    free(first);
    rig_close(&r);
}

TEST(refusals)
{
    const struct whisper_head no_layer = {LAYERS, 0}, no_head = {0, 2};
    struct rig r;
    struct err e;

    rig_open(&r);
    watch(r.be);
    assert_ok(whisper_session_new(r.w, (struct asr_shape){.slots = 2, .align_heads = 3}, &r.s, &e),
              e);
    encode(&r, 0, 1);
    refused(&r, ERR_DEVICE, 0, 9, 80, heads, 1); /* no rules */
    assert_ok(whisper_session_rules(r.s, &rules, &e), e);
    refused(&r, ERR_DEVICE, 1, 9, 80, heads, 1); /* no window */
    refused(&r, ERR_DEVICE, 2, 9, 80, heads, 1); /* no slot */
    refused(&r, ERR_DEVICE, 0, 0, 80, heads, 1);
    refused(&r, ERR_DEVICE, 0, TOKENS + 1, 80, heads, 1);
    refused(&r, ERR_DEVICE, 0, 9, 0, heads, 1);
    refused(&r, ERR_DEVICE, 0, 9, FRAMES + 1, heads, 1);
    refused(&r, ERR_DEVICE, 0, 9, 80, heads, 0);
    refused(&r, ERR_DEVICE, 0, 9, 80, heads, 4);
    refused(&r, ERR_MODEL, 0, 9, 80, &no_layer, 1);
    refused(&r, ERR_MODEL, 0, 9, 80, &no_head, 1);
    r.tokens[5] = VOCAB;
    refused(&r, ERR_MODEL, 0, 9, 80, heads, 1);
    r.tokens[5] = -1;
    refused(&r, ERR_MODEL, 0, 9, 80, heads, 1);
    r.tokens[5] = 5;
    align(&r, 0, 9, 80, 3);
    /* One that fails half way leaves the branch empty, and can be asked for again. */
    fail_after = 4;
    refused(&r, ERR_VRAM, 0, 100, 80, heads, 3);
    assert_int_equal(whisper_step(r.s, &(struct asr_row){0, 0, 1, 1}, 1, NULL, &e), ERR_DEVICE);
    align(&r, 0, 100, 80, 3);
    check_matrix(&r, 100, 80, 3);
    refused_together(&r);
    poison = true;
    refused(&r, ERR_MODEL, 0, 9, 80, heads, 3);
    poison = false;
    align(&r, 0, 100, 80, 3);
    open_session(&r, (struct asr_shape){.slots = 1});
    encode(&r, 0, 1);
    refused(&r, ERR_DEVICE, 0, 9, 80, heads, 1); /* not made for it */
    rig_close(&r);
}

/* ---- which heads ---- */

#define ADDED(text, id) "{\"id\":" #id ",\"content\":\"" text "\"}"

/* What there is of a vocabulary that can be read, and this generation_config.json. */
static struct vocabulary *vocabulary(const char *generation)
{
    static const char tokenizer[] = "{\"added_tokens\":[" ADDED("<|endoftext|>", 1) "," ADDED(
        "<|startoftranscript|>",
        2) "," ADDED("<|en|>", 3) "," ADDED("<|transcribe|>",
                                            4) "," ADDED("<|notimestamps|>",
                                                         5) "],\"model\":{\"vocab\":{\"\\u0120\":0}"
                                                            ",\"merges\":[]}}";
    struct vocabulary_source s = {.tokenizer = tokenizer,
                                  .tokenizer_len = sizeof(tokenizer) - 1,
                                  .generation = generation,
                                  .generation_len = generation ? strlen(generation) : 0};
    struct vocabulary *v = NULL;
    struct err e;

    assert_ok(vocabulary_parse(&s, &v, &e), e);
    return v;
}

static uint32_t heads_of(const struct vocabulary *v, uint32_t layers, uint32_t each,
                         struct whisper_head *ret, uint32_t max)
{
    const struct whisper_config c = {.decoder_layers = layers, .decoder_heads = each};

    return whisper_heads(v, &c, ret, max);
}

TEST(heads_to_look_at)
{
    struct vocabulary *none = vocabulary(NULL);
    struct vocabulary *named = vocabulary("{\"alignment_heads\":[[1,2],[3,0],[3,5]]}");
    struct whisper_head h[64];

    assert_int_equal(heads_of(none, 4, 3, h, 64), 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_true(h[i].layer == 2 + i / 3 && h[i].head == i % 3);
    assert_int_equal(heads_of(NULL, 5, 1, h, 64), 3);
    assert_int_equal(h[0].layer, 2);
    assert_int_equal(heads_of(none, 0, 0, h, 64), 0);
    /* More than there is room for: evenly, up to the last. */
    assert_int_equal(heads_of(none, 32, 20, h, 64), 320);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal((h[i].layer - 16) * 20 + h[i].head, i * 5 + 4);
    assert_int_equal(heads_of(none, 32, 20, h, 0), 320);

    assert_int_equal(heads_of(named, 4, 8, h, 64), 3);
    assert_true(h[0].layer == 1 && h[0].head == 2 && h[2].layer == 3 && h[2].head == 5);
    /* Those that the model does not have are left out. */
    assert_int_equal(heads_of(named, 4, 5, h, 64), 2);
    assert_true(h[1].layer == 3 && h[1].head == 0);
    assert_int_equal(heads_of(named, 1, 5, h, 64), 5);
    vocabulary_free(named);
    vocabulary_free(none);
}

TEST_MAIN(NULL, NULL)
