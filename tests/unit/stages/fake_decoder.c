#include "tests/unit/stages/fake_decoder.h"

#include <math.h>

#include "base/number.h"
#include "tests/common/test.h"

#define IDS 18

/* Ascending: text, the end, timestamps. */
static const int32_t possible[IDS] = {300,
                                      301,
                                      302,
                                      303,
                                      304,
                                      305,
                                      306,
                                      307,
                                      308,
                                      FAKE_EOT,
                                      FAKE_TIMES,
                                      FAKE_TIMES + 1,
                                      FAKE_TIMES + 20,
                                      FAKE_TIMES + 50,
                                      FAKE_TIMES + 51,
                                      FAKE_TIMES + 100,
                                      FAKE_TIMES + 700,
                                      FAKE_TIMES + 1500};

struct vocabulary *fake_vocabulary(bool multilingual)
{
    static const char *const generations[] = {"{\"is_multilingual\":false}", "{}"};
    FILE *f = fopen(test_source_path("workers/models/whisper-nano/tokenizer.json"), "r");
    struct vocabulary_source s = {.generation = generations[multilingual]};
    char *text = malloc(1 << 20);
    struct vocabulary *ret;
    struct err e;

    assert_non_null(f);
    s.tokenizer = text;
    s.tokenizer_len = fread(text, 1, 1 << 20, f);
    s.generation_len = strlen(s.generation);
    fclose(f);
    assert_ok(vocabulary_parse(&s, &ret, &e), e);
    free(text);
    return ret;
}

static uint64_t state_of(const struct fake_model *m, const int32_t *tokens, uint32_t n)
{
    uint64_t h = number_seed(m->seed, n);

    for (uint32_t i = 0; i < n; i++)
        h = number_seed(h, (uint64_t)tokens[i]);
    return h;
}

/* Whisper's rules, as far as these ids go. */
static bool allowed(const struct choice_ask *a, int32_t id)
{
    bool time = id >= FAKE_TIMES, last = a->last >= FAKE_TIMES;
    bool before = a->count < 2 || a->before >= FAKE_TIMES;

    if (a->what & CHOOSE_NO_TIMES)
        return !time && (a->count > 0 || id != FAKE_EOT);
    if (a->count == 0)
        return time && id <= FAKE_TIMES + 50;
    if (last && (before ? time : id < FAKE_EOT))
        return false;
    return !time || a->last_time < FAKE_TIMES || id > a->last_time ||
           (last && !before && id == a->last_time);
}

static int by_logprob(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;

    if (a->logprob != b->logprob)
        return a->logprob > b->logprob ? -1 : 1;
    return a->token - b->token;
}

/* The allowed tokens with their log probabilities, by id; the others with token -1. */
static void distribution(const struct fake_model *m, uint64_t h, const struct choice_ask *ask,
                         struct candidate ret[IDS])
{
    double sum = 0;

    for (int i = 0; i < IDS; i++) {
        double u = number_uniform(h, (uint64_t)possible[i]);
        double logit = m->sharpness * (m->coarse ? floor(u * 4) / 4 : u);

        if (possible[i] == FAKE_EOT)
            logit += m->end * ask->count;
        ret[i] = (struct candidate){-1, 0, -INFINITY};
        if (allowed(ask, possible[i]))
            ret[i] = (struct candidate){possible[i], 0, logit};
        sum += exp(ret[i].logprob);
    }
    for (int i = 0; i < IDS; i++)
        ret[i].logprob -= log(sum);
}

static int draw(const struct candidate c[IDS], float temperature, double uniform)
{
    double total = 0, sum = 0;
    int id = -1;

    for (int i = 0; i < IDS; i++)
        total += exp(c[i].logprob / (double)temperature);
    for (int i = 0; i < IDS && sum <= uniform * total; i++)
        if (c[i].token >= 0) {
            sum += exp(c[i].logprob / (double)temperature);
            id = i;
        }
    return id;
}

void fake_choose(const struct fake_model *m, const int32_t *tokens, uint32_t n,
                 const struct choice_ask *ask, struct choice *ret, struct candidate *top,
                 uint32_t k)
{
    uint64_t h = state_of(m, tokens, n);
    struct candidate c[IDS];
    int id;

    *ret = (struct choice){.token = -1, .language = -1, .usable = ask->what != 0};
    if (ask->what & CHOOSE_START) {
        double u = number_uniform(h, 1);
        ret->language = number_uniform(h, 2) < 0.5 ? FAKE_EN : FAKE_ES;
        ret->language_prob = number_uniform(h, 3);
        ret->no_speech = u < m->silence ? 0.9 + 0.1 * u / m->silence : 0.9 * u;
    }
    if (!(ask->what & CHOOSE_TOKEN))
        return;
    distribution(m, h, ask, c);
    if (ask->temperature > 0) {
        id = draw(c, ask->temperature, ask->uniform);
        ret->token = c[id].token;
        ret->logprob = c[id].logprob;
    }
    qsort(c, IDS, sizeof(*c), by_logprob);
    if (ask->temperature <= 0) {
        ret->token = c[0].token;
        ret->logprob = c[0].logprob;
    }
    for (uint32_t i = 0; top && i < k; i++)
        top[i] = i < IDS ? c[i] : (struct candidate){-1, 0, -INFINITY};
}

/* ---- the driver */

struct cache {
    int32_t tokens[ASR_BRANCHES_MAX][FAKE_POSITIONS];
    uint32_t count[ASR_BRANCHES_MAX];
};

static void move(struct cache *c, struct decoding *d, uint32_t branches)
{
    struct asr_move moves[ASR_BRANCHES_MAX], none[1];
    bool from[ASR_BRANCHES_MAX] = {false}, to[ASR_BRANCHES_MAX] = {false};
    uint32_t n = decoding_moves(d, moves);

    assert_true(n <= branches);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t a = moves[i].from, b = moves[i].to;

        assert_int_equal(moves[i].slot, 0);
        assert_true(a < branches && b < branches);
        assert_true(!to[a] && !from[b] && !to[b]);
        from[a] = to[b] = true;
        memcpy(c->tokens[b], c->tokens[a], sizeof(c->tokens[a]));
        c->count[b] = c->count[a];
    }
    assert_int_equal(decoding_moves(d, none), 0);
}

static void feed_row(struct cache *c, const struct asr_row *r, uint32_t branches)
{
    assert_int_equal(r->slot, 0);
    assert_true(r->branch < branches);
    assert_true(r->pos <= c->count[r->branch] && r->pos < FAKE_POSITIONS);
    assert_true(r->token >= 0 && r->token <= FAKE_TIMES + 1500);
    c->tokens[r->branch][r->pos] = r->token;
    c->count[r->branch] = r->pos + 1;
}

/* Of different branches, or of one at positions that follow each other. */
static void check_rows(const struct decoding *d, const struct asr_row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (decoding_state(d) == DECODING_TEXT)
                assert_true(rows[i].branch != rows[k].branch);
            else
                assert_true(rows[i].branch == rows[k].branch && rows[i].pos == rows[k].pos + i - k);
}

uint32_t fake_drive(const struct fake_model *m, struct decoding *d, uint32_t branches,
                    uint32_t room, int32_t language)
{
    struct candidate *top = calloc((size_t)room * (branches + 1), sizeof(*top));
    struct choice_ask asks[FAKE_POSITIONS];
    struct asr_row rows[FAKE_POSITIONS];
    struct choice choices[FAKE_POSITIONS];
    struct cache *c = calloc(1, sizeof(*c));
    uint32_t total = 0, n;
    struct err e;

    while (decoding_state(d) != DECODING_DONE) {
        if (decoding_state(d) == DECODING_LANGUAGE) {
            assert_int_equal(decoding_rows(d, rows, asks, room), 0);
            decoding_go(d, language, 1);
            assert_true(decoding_state(d) == DECODING_PROMPT || decoding_state(d) == DECODING_TEXT);
            continue;
        }
        move(c, d, branches);
        n = decoding_rows(d, rows, asks, room);
        assert_true(n >= 1 && n <= room);
        check_rows(d, rows, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t b = rows[i].branch;
            feed_row(c, &rows[i], branches);
            fake_choose(m, c->tokens[b], c->count[b], &asks[i], &choices[i],
                        top + (size_t)i * (branches + 1), branches + 1);
        }
        assert_ok(decoding_feed(d, choices, branches > 1 ? top : NULL, n, &e), e);
        total += n;
    }
    assert_int_equal(decoding_moves(d, (struct asr_move[1]){{0}}), 0);
    assert_int_equal(decoding_rows(d, rows, asks, room), 0);
    free(c);
    free(top);
    return total;
}
