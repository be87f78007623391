/* Windows decoded by the state machine against the same search written down as naively as it can
 * be: whole sequences, no branches, all finished hypotheses kept, ranked at the end. */
#include "tests/common/test.h"

#include <math.h>

#include "base/number.h"
#include "tests/unit/stages/fake_decoder.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/doubtful_text.h"
#include "workers/text/codepoints.h"

#define SEQUENCES 320
#define TOKENS_MAX 24

struct sequence {
    int32_t tokens[TOKENS_MAX + 1];
    float logprobs[TOKENS_MAX + 1];
    uint32_t n;
    bool ended;
    double logprob;
};

struct list {
    struct sequence s[SEQUENCES];
    uint32_t n;
};

#define ATTEMPTS_MAX 8

/* An attempt that was refused. */
struct tried {
    struct sequence text;
    struct decoding_result measures;
    bool repetitive;
};

/* A window, and what it should come to. */
struct course {
    const struct fake_model *model;
    const struct transcribe_params *params;
    const struct vocabulary *vocab;
    uint32_t positions, max_tokens;
    uint64_t seed;
    int32_t previous[FAKE_POSITIONS];
    uint32_t previous_len;
    int32_t language;

    int32_t prompt[FAKE_POSITIONS];
    uint32_t prompt_len;
    struct sequence result;
    struct decoding_result expected;
    struct tried tried[ATTEMPTS_MAX];
    uint32_t tried_count;
    bool spoke_own; /* it was decoded in the language that it was heard to speak, too */
};

static struct vocabulary *vocabs[2]; /* English-only, multilingual */

static void ask_model(const struct course *c, const struct sequence *s, float temperature,
                      double uniform, struct choice *ret, struct candidate *top, uint32_t k)
{
    int32_t all[FAKE_POSITIONS + TOKENS_MAX];
    struct choice_ask ask = {(int32_t)s->n, -1, -1, -1, CHOOSE_TOKEN, temperature, uniform};

    memcpy(all, c->prompt, c->prompt_len * sizeof(*all));
    memcpy(all + c->prompt_len, s->tokens, s->n * sizeof(*all));
    for (uint32_t i = 0; i < s->n; i++) {
        ask.before = ask.last;
        ask.last = s->tokens[i];
        if (ask.last >= FAKE_TIMES)
            ask.last_time = ask.last;
    }
    if (c->params->without_timestamps)
        ask.what |= CHOOSE_NO_TIMES;
    fake_choose(c->model, all, c->prompt_len + s->n, &ask, ret, top, k);
}

static double score(const struct sequence *s, float penalty)
{
    if (penalty < 0)
        return s->logprob / s->n;
    return s->logprob / pow((5.0 + s->n) / 6.0, (double)penalty);
}

static const struct sequence *best_of(const struct list *l, float penalty)
{
    const struct sequence *best = &l->s[0];

    for (uint32_t i = 1; i < l->n; i++)
        if (score(&l->s[i], penalty) > score(best, penalty))
            best = &l->s[i];
    return best;
}

static bool same(const struct sequence *a, const struct sequence *b)
{
    return a->n == b->n && a->ended == b->ended &&
           memcmp(a->tokens, b->tokens, a->n * sizeof(*a->tokens)) == 0;
}

/* Adds s unless it is there; in descending order of the log probabilities, the older first. */
static void insert(struct list *l, const struct sequence *s)
{
    uint32_t at = l->n;

    for (uint32_t i = 0; i < l->n; i++)
        if (same(&l->s[i], s))
            return;
    assert_true(l->n < SEQUENCES);
    while (at > 0 && l->s[at - 1].logprob < s->logprob) {
        l->s[at] = l->s[at - 1];
        at--;
    }
    l->s[at] = *s;
    l->n++;
}

static void push(struct sequence *s, int32_t token, double logprob)
{
    s->tokens[s->n] = token;
    s->logprobs[s->n++] = (float)logprob;
}

/* All continuations of all beams, the likeliest first. */
static void expand(const struct course *c, const struct list *beams, struct list *pool)
{
    uint32_t k = c->params->beam_size + 1;
    struct candidate top[ASR_BRANCHES_MAX + 1];
    struct choice choice;

    pool->n = 0;
    for (uint32_t i = 0; i < beams->n; i++) {
        ask_model(c, &beams->s[i], 0, 0, &choice, top, k);
        for (uint32_t j = 0; j < k && top[j].token >= 0; j++) {
            struct sequence s = beams->s[i];

            s.logprob += top[j].logprob;
            s.ended = top[j].token == FAKE_EOT;
            if (!s.ended)
                push(&s, top[j].token, top[j].logprob);
            insert(pool, &s);
        }
    }
}

static void search(struct course *c, uint32_t limit)
{
    static struct list beams, pool, finished;
    uint32_t size = c->params->beam_size;
    double enough = rint((double)size * (double)c->params->patience);

    enough = enough < 1 ? 1 : enough;
    memset(&beams, 0, sizeof(beams));
    finished.n = 0;
    beams.n = size; /* all the same: their continuations are, too */
    for (uint32_t step = 0; step < limit && finished.n < enough && beams.n > 0; step++) {
        expand(c, &beams, &pool);
        beams.n = 0;
        for (uint32_t i = 0; i < pool.n && beams.n < size; i++)
            if (!pool.s[i].ended)
                beams.s[beams.n++] = pool.s[i];
            else if (finished.n < enough)
                finished.s[finished.n++] = pool.s[i];
    }
    for (uint32_t i = 0; i < beams.n && finished.n < size; i++)
        finished.s[finished.n++] = beams.s[i];
    c->result = *best_of(&finished, c->params->length_penalty);
}

static void sample(struct course *c, uint32_t attempt, uint32_t limit)
{
    float temperature = c->params->temperatures[attempt];
    uint64_t seed = number_seed(c->seed, attempt);
    static struct list drafts;

    drafts.n = temperature > 0 ? c->params->best_of : 1;
    for (uint32_t i = 0; i < drafts.n; i++) {
        struct sequence *s = &drafts.s[i];
        uint64_t own = i ? number_seed(seed, i) : seed;
        struct choice choice;

        *s = (struct sequence){0};
        while (!s->ended && s->n < limit) {
            ask_model(c, s, temperature, number_uniform(own, s->n), &choice, NULL, 0);
            s->logprob += choice.logprob;
            s->ended = choice.token == FAKE_EOT;
            if (!s->ended)
                push(s, choice.token, choice.logprob);
        }
    }
    c->result = *best_of(&drafts, c->params->length_penalty);
}

static void hear(struct course *c)
{
    const struct choice_ask ask = {0, -1, -1, -1, CHOOSE_START, 0, 0};
    const int32_t sot = FAKE_SOT;
    struct choice heard;

    fake_choose(c->model, &sot, 1, &ask, &heard, NULL, 0);
    c->expected.no_speech_prob = (float)heard.no_speech;
    c->expected.language = -1;
    c->expected.language_prob = 1;
    if (vocabulary_multilingual(c->vocab)) {
        c->expected.language = heard.language;
        c->expected.language_prob = (float)heard.language_prob;
    }
}

static void build_prompt(struct course *c)
{
    uint32_t most = c->positions / 2 - 1, n = c->previous_len < most ? c->previous_len : most;

    c->prompt_len = 0;
    if (n > 0) {
        const struct choice_ask ask = {0, -1, -1, -1, CHOOSE_START, 0, 0};
        struct choice heard;

        c->prompt[c->prompt_len++] = FAKE_SOT_PREV;
        for (uint32_t i = c->previous_len - n; i < c->previous_len; i++)
            c->prompt[c->prompt_len++] = c->previous[i];
        c->prompt[c->prompt_len++] = FAKE_SOT;
        fake_choose(c->model, c->prompt, c->prompt_len, &ask, &heard, NULL, 0);
        c->expected.no_speech_prob = (float)heard.no_speech;
    } else
        c->prompt[c->prompt_len++] = FAKE_SOT;
    if (vocabulary_multilingual(c->vocab)) {
        c->prompt[c->prompt_len++] = c->expected.language;
        c->prompt[c->prompt_len++] = c->params->translate ? FAKE_TRANSLATE : FAKE_TRANSCRIBE;
    }
    if (c->params->without_timestamps)
        c->prompt[c->prompt_len++] = FAKE_NO_TIMESTAMPS;
}

static bool certain(const struct course *c)
{
    return c->expected.no_speech_prob > c->params->no_speech_threshold &&
           c->expected.no_speech_prob > (float)NO_SPEECH_CERTAIN;
}

/* Mean log probability of what is no timestamp; without any of all. */
static float text_logprob(const struct course *c)
{
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->result.n; i++)
        if (c->result.tokens[i] < FAKE_TIMES) {
            sum += (double)c->result.logprobs[i];
            n++;
        }
    return n ? (float)(sum / n) : c->expected.avg_logprob;
}

static bool refused(struct course *c, uint32_t attempt, bool *repetitive, bool *unlikely)
{
    const struct transcribe_params *p = c->params;
    struct decoding_result *r = &c->expected;
    struct err e;
    char *text;

    assert_ok(vocabulary_decode(c->vocab, c->result.tokens, c->result.n, &text, &e), e);
    assert_ok(compression_ratio(text, clean_text(text), &r->compression_ratio, &e), e);
    free(text);
    r->temperature = p->temperatures[attempt];
    r->attempts++;
    r->avg_logprob = (float)(c->result.logprob / (c->result.n + 1));
    r->text_logprob = text_logprob(c);
    *repetitive = r->compression_ratio > p->compression_ratio_threshold;
    *unlikely = r->avg_logprob < p->logprob_threshold;
    r->silent = r->no_speech_prob > p->no_speech_threshold &&
                (r->avg_logprob <= p->logprob_threshold || r->text_logprob <= p->logprob_threshold);
    return !r->silent && (*repetitive || *unlikely);
}

/* The likeliest that does not repeat itself; if all do, the likeliest. */
static const struct tried *best_tried(const struct course *c)
{
    const struct tried *best = NULL;

    for (int repetitive = 0; !best && repetitive < 2; repetitive++)
        for (uint32_t i = 0; i < c->tried_count; i++) {
            const struct tried *t = &c->tried[i];

            if (t->repetitive == repetitive &&
                (!best || t->measures.avg_logprob > best->measures.avg_logprob))
                best = t;
        }
    return best;
}

static void take_best_tried(struct course *c)
{
    const struct tried *best = best_tried(c);
    struct decoding_result *r = &c->expected, now = *r;

    c->result = best->text;
    *r = best->measures;
    r->attempts = now.attempts;
    r->repetitive = now.repetitive;
    r->unlikely = now.unlikely;
}

static void speak(struct course *c, int32_t language, float prob)
{
    c->expected.language = language;
    c->expected.language_prob = prob;
    build_prompt(c);
}

static void attempt_naively(struct course *c, uint32_t attempt)
{
    uint32_t limit = c->positions + 1 - c->prompt_len;

    limit = limit < c->max_tokens ? limit : c->max_tokens;
    if (c->params->temperatures[attempt] <= 0 && c->params->beam_size > 1)
        search(c, limit);
    else
        sample(c, attempt, limit);
}

/* own: the language to be tried after the first attempt, -1: none. */
static void climb(struct course *c, int32_t own, float own_prob)
{
    uint32_t attempt = 0;
    bool repetitive, unlikely;

    for (;;) {
        attempt_naively(c, attempt);
        if (!refused(c, attempt, &repetitive, &unlikely))
            return;
        assert_true(c->tried_count < ATTEMPTS_MAX);
        c->tried[c->tried_count++] = (struct tried){c->result, c->expected, repetitive};
        if (own < 0 && attempt + 1 == c->params->temperature_count)
            break;
        c->expected.repetitive |= repetitive;
        c->expected.unlikely |= unlikely;
        if (own >= 0) {
            speak(c, own, own_prob);
            c->spoke_own = true;
            own = -1;
            continue;
        }
        speak(c, best_tried(c)->measures.language, best_tried(c)->measures.language_prob);
        attempt++;
    }
    take_best_tried(c);
    build_prompt(c);
}

static void decode_naively(struct course *c)
{
    bool conditioned = c->previous_len > 0,
         given = c->params->language[0] && !strchr(c->params->language, ',');
    int32_t own = -1;
    float own_prob = 0;

    hear(c);
    if (!conditioned && certain(c)) {
        c->expected.silent = true;
        return;
    }
    if (vocabulary_multilingual(c->vocab) && c->language >= 0) {
        if (!given && c->expected.language != c->language && c->expected.language_prob >= 0.5f) {
            own = c->expected.language;
            own_prob = c->expected.language_prob;
        }
        c->expected.language = c->language;
        c->expected.language_prob = 1;
    }
    build_prompt(c);
    if (conditioned && certain(c)) {
        c->expected.silent = true;
        return;
    }
    climb(c, own, own_prob);
}

/* ---- random courses */

static uint64_t rng;

static uint32_t below(uint32_t n) { return (uint32_t)(number_uniform(99, rng++) * n); }

static float pick(const float *values, uint32_t n) { return values[below(n)]; }

static void random_params(struct transcribe_params *p)
{
    static const float patience[] = {1, 1, 2, 0.5f, 1.3f, 0.1f}, penalty[] = {-1, -1, 0, 0.6f, 1};
    static const float ladders[][3] = {{0, 0.4f, 0.8f}, {0, 0, 0.5f}, {0.3f, 0.6f, 1}};
    static const float likely[] = {-1000, -2, -1.5f, -1, 0}, ratio[] = {0.5f, 0.9f, 1.2f, 1000};

    transcribe_params_default(p);
    p->beam_size = 1 + below(8);
    p->best_of = 1 + below(8);
    p->patience = pick(patience, 6);
    p->length_penalty = pick(penalty, 5);
    p->temperature_count = 1 + below(3);
    memcpy(p->temperatures, ladders[below(3)], sizeof(ladders[0]));
    p->logprob_threshold = pick(likely, 5);
    p->compression_ratio_threshold = pick(ratio, 4);
    p->no_speech_threshold = (float[]){0, 0.3f, 0.6f, 1}[below(4)];
    p->without_timestamps = below(4) == 0;
    p->translate = below(4) == 0;
    strcpy(p->language, (const char *[]){"", "", "", "en", "en,es"}[below(5)]);
}

static void random_window(struct course *c)
{
    c->seed = number_seed(5, rng++);
    c->previous_len = below(2) ? below(FAKE_POSITIONS) : 0;
    for (uint32_t i = 0; i < c->previous_len; i++)
        c->previous[i] = 300 + (int32_t)below(9);
    c->language = below(4) ? FAKE_EN + (int32_t)below(2) : -1;
    memset(&c->expected, 0, sizeof(c->expected));
    memset(&c->result, 0, sizeof(c->result));
    c->tried_count = 0;
    c->spoke_own = false;
}

static bool equal(const struct course *c, const struct decoding_result *got)
{
    const struct decoding_result *want = &c->expected;
    size_t bytes = c->result.n * sizeof(*got->tokens); /* and of *got->logprobs */

    return got->silent == want->silent && got->language == want->language &&
           got->language_prob == want->language_prob &&
           got->no_speech_prob == want->no_speech_prob && got->attempts == want->attempts &&
           got->count == c->result.n && memcmp(got->tokens, c->result.tokens, bytes) == 0 &&
           memcmp(got->logprobs, c->result.logprobs, bytes) == 0 &&
           got->avg_logprob == want->avg_logprob && got->text_logprob == want->text_logprob &&
           got->compression_ratio == want->compression_ratio &&
           got->temperature == want->temperature && got->repetitive == want->repetitive &&
           got->unlikely == want->unlikely;
}

static void print_course(const char *who, const struct decoding_result *r, const int32_t *tokens,
                         uint32_t n)
{
    print_error("%s: silent %d, language %d (%f), no speech %f, %u attempts, %u tokens, "
                "avg_logprob %.9f, compression %f, temperature %f, flags %d%d:\n ",
                who, r->silent, r->language, (double)r->language_prob, (double)r->no_speech_prob,
                r->attempts, n, (double)r->avg_logprob, (double)r->compression_ratio,
                (double)r->temperature, r->repetitive, r->unlikely);
    for (uint32_t i = 0; i < n; i++)
        print_error(" %d", tokens[i]);
    print_error("\n");
}

static void compare(uint32_t number, const struct course *c, const struct decoding_result *got)
{
    if (!equal(c, got)) {
        print_error("case %u, beams %u, best of %u, patience %f, penalty %f\n", number,
                    c->params->beam_size, c->params->best_of, (double)c->params->patience,
                    (double)c->params->length_penalty);
        print_course("wanted", &c->expected, c->result.tokens, c->result.n);
        print_course("got", got, got->tokens, got->count);
        fail();
    }
    if (c->expected.attempts > 0) {
        assert_int_equal(got->prompt_len, c->prompt_len);
        assert_memory_equal(got->prompt, c->prompt, c->prompt_len * sizeof(*got->prompt));
    }
}

struct tally {
    uint32_t windows, silent, beams, drafts, again, long_ones, cut_short;
    uint32_t spoke_own, own_won, all_refused, earlier_won;
};

static void count(struct tally *t, const struct course *c)
{
    const struct decoding_result *r = &c->expected;

    t->windows++;
    t->silent += r->silent;
    if (r->attempts == 0)
        return;
    t->beams += r->temperature <= 0 && c->params->beam_size > 1;
    t->drafts += r->temperature > 0 && c->params->best_of > 1;
    t->again += r->attempts > 1;
    t->long_ones += !c->result.ended;
    t->spoke_own += c->spoke_own;
    t->own_won += c->spoke_own && r->language != c->language;
    t->all_refused += c->tried_count == r->attempts;
    t->earlier_won +=
        c->tried_count == r->attempts && best_tried(c) + 1 < c->tried + c->tried_count;
    t->cut_short += c->prompt_len + c->max_tokens > c->positions + 1;
}

/* A few windows one after the other on one state machine, as a slot has them. */
static void run_case(uint32_t number, struct tally *tally)
{
    struct transcribe_params p;
    struct fake_model m = {.seed = number_seed(1, number), .silence = 0.15};
    struct course c = {.model = &m, .params = &p};
    struct decoding_policy policy = {.params = &p, .prompt = whisper_prompt};
    struct decoding_result got;
    struct decoding *d;
    struct err e;

    rng = (uint64_t)number << 20;
    random_params(&p);
    m.sharpness = 1 + below(8);
    m.end = 0.1 * below(8);
    m.coarse = below(4) == 0;
    c.vocab = policy.vocab = vocabs[below(3) > 0];
    c.max_tokens = policy.max_tokens = 1 + below(TOKENS_MAX);
    c.positions = policy.positions = below(2) ? FAKE_POSITIONS : 30 + below(8);
    policy.branches = p.beam_size > p.best_of ? p.beam_size : p.best_of;
    assert_ok(decoding_new(&policy, &d, &e), e);
    for (int window = 0; window < 4; window++) {
        random_window(&c);
        decode_naively(&c);
        decoding_begin(d, c.seed, c.previous, c.previous_len);
        fake_drive(&m, d, policy.branches, policy.branches + below(20), c.language);
        decoding_result(d, &got);
        compare(number, &c, &got);
        count(tally, &c);
    }
    decoding_free(d);
}

TEST(test_random_courses)
{
    struct tally t = {0};

    for (uint32_t number = 0; number < 2500; number++)
        run_case(number, &t);
    /* All roads were taken often. */
    assert_true(t.silent > t.windows / 20 && t.silent < t.windows / 2);
    assert_true(t.beams > 500 && t.drafts > 500 && t.again > 500);
    assert_true(t.long_ones > 500 && t.cut_short > 100);
    assert_true(t.spoke_own > 100 && t.own_won > 20);
    assert_true(t.all_refused > 500 && t.earlier_won > 200);
}

int main(void)
{
    int rc;

    vocabs[0] = fake_vocabulary(false);
    vocabs[1] = fake_vocabulary(true);
    rc = suite_run(NULL, NULL);
    vocabulary_free(vocabs[0]);
    vocabulary_free(vocabs[1]);
    return rc;
}
