/* Which token comes next: Whisper's rules over rows of logits.
 *
 * The rules are openai-whisper's: tokens never to be produced, those not to be produced first, no
 * special tokens, timestamps in pairs that never go back, the first one within a second, and a
 * timestamp whenever all timestamps together are likelier than any text token. Sums are of doubles,
 * in the order of the ids, with an exponential that is the same on every machine: so is the token.
 */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/number.h"

#define PIECES 64 /* of a row that is drawn from */

struct rules {
    struct rules_spec spec;
    int32_t *ids; /* owned: the spec's three lists */
};

static bool ids_valid(const struct rules_spec *s, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->vocab)
            return false;
    return true;
}

static int check_spec(const struct rules_spec *s, struct err *err)
{
    const int32_t needed[] = {s->eot, s->timestamp_begin, s->timestamp_end, s->max_initial};

    if (s->vocab > INT32_MAX || !ids_valid(s, needed, 4) ||
        (s->no_speech >= 0 && !ids_valid(s, &s->no_speech, 1)) ||
        !ids_valid(s, s->never, s->never_count) ||
        !ids_valid(s, s->never_first, s->never_first_count) ||
        !ids_valid(s, s->languages, s->language_count))
        return err_set(err, ERR_MODEL,
                       "the rules name a token that is not among the model's %u: its files do not "
                       "belong together",
                       s->vocab);
    return 0;
}

static const int32_t *take_list(int32_t **next, const int32_t *from, uint32_t n)
{
    int32_t *list = *next;

    if (n)
        memcpy(list, from, n * sizeof(*list));
    *next += n;
    return list;
}

int host_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err)
{
    size_t count = (size_t)spec->never_count + spec->never_first_count + spec->language_count;
    struct rules *r;
    int32_t *next;
    void *p = NULL;
    int rc = check_spec(spec, err);

    if (rc != 0)
        return rc;
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NOMEM, "out of memory for the token rules");
    rc = host_alloc(be, (count + 1) * sizeof(*r->ids), &p, err);
    if (rc != 0) {
        free(r);
        return rc;
    }
    r->ids = next = p;
    r->spec = *spec;
    r->spec.never = take_list(&next, spec->never, spec->never_count);
    r->spec.never_first = take_list(&next, spec->never_first, spec->never_first_count);
    r->spec.languages = take_list(&next, spec->languages, spec->language_count);
    *ret = r;
    return 0;
}

void host_rules_free(struct backend *be, struct rules *r)
{
    if (!r)
        return;
    host_release(be, r->ids);
    free(r);
}

/* ---- the rules ---- */

/* Ids [from, to) out. */
static void forbid_token_range(float *logits, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        logits[i] = -INFINITY;
}

static void mask_timestamps(const struct rules_spec *s, const struct choice_ask *ask, float *logits)
{
    int32_t begin = s->timestamp_begin, end = s->timestamp_end + 1;
    bool last = ask->last >= begin, before = ask->count < 2 || ask->before >= begin;

    if (ask->count == 0) { /* a timestamp, not too late */
        forbid_token_range(logits, 0, begin);
        forbid_token_range(logits, s->max_initial + 1, end);
        return;
    }
    if (last && before) /* a pair is complete: text or the end */
        forbid_token_range(logits, begin, end);
    else if (last) /* a segment has ended: the next one's start, or the end */
        forbid_token_range(logits, 0, s->eot);
    /* Never back; and a segment that has begun must have a length, or windows could stand still. */
    if (ask->last_time >= begin && ask->last_time < end)
        forbid_token_range(logits, begin, last && !before ? ask->last_time : ask->last_time + 1);
}

static void mask_logits(const struct rules_spec *s, const struct choice_ask *ask, float *logits)
{
    for (uint32_t i = 0; i < s->never_count; i++)
        if (s->never[i] != s->eot) /* or no window would ever end */
            logits[s->never[i]] = -INFINITY;
    for (uint32_t i = 0; ask->count == 0 && i < s->never_first_count; i++)
        logits[s->never_first[i]] = -INFINITY;
    /* The specials lie between the end and the timestamps. */
    forbid_token_range(logits, s->eot + 1, s->timestamp_begin);
    forbid_token_range(logits, s->timestamp_end + 1, (int32_t)s->vocab);
    if (ask->what & CHOOSE_NO_TIMES)
        forbid_token_range(logits, s->timestamp_begin, s->timestamp_end + 1);
    else
        mask_timestamps(s, ask, logits);
}

/* ---- the choice ---- */

/* The largest of logits[from, to), its id (the lowest of equals) in *id. NaN is never larger. */
static float find_largest_logit(const struct kernels *k, const float *logits, int32_t from,
                                int32_t to, int32_t *id)
{
    size_t at = SIZE_MAX;
    float max = k->largest(logits + from, (size_t)(to - from), &at);

    if (at != SIZE_MAX)
        *id = from + (int32_t)at;
    return max;
}

static double sum_exponentials(const struct kernels *k, const float *logits, int32_t from,
                               int32_t to, double max)
{
    return k->exp_sum(0, logits + from, (size_t)(to - from), max, 1);
}

/* The id at which the growing sum of e^(logit/temperature) passes uniform times the whole. The
 * whole is added up in pieces, several exponentials at once, and only the piece in which the sum
 * passes is gone through again. */
static int32_t sample_token(const struct kernels *k, const float *logits, int32_t from, int32_t to,
                            double max, double temperature, double uniform)
{
    int64_t length = ((int64_t)to - from + PIECES - 1) / PIECES, starts[PIECES + 1] = {from};
    double sums[PIECES + 1] = {0}, sum, passed; /* before each piece */
    size_t piece = 0;

    for (size_t p = 0; p < PIECES; p++) {
        starts[p + 1] = starts[p] + length < to ? starts[p] + length : to;
        sums[p + 1] = k->exp_sum(sums[p], logits + starts[p], (size_t)(starts[p + 1] - starts[p]),
                                 max, temperature);
    }
    passed = uniform * sums[PIECES];
    while (piece < PIECES - 1 && sums[piece + 1] <= passed)
        piece++;
    sum = sums[piece];
    for (int32_t i = (int32_t)starts[piece]; i < to; i++) {
        sum += number_exp(((double)logits[i] - max) / temperature);
        if (sum > passed)
            return i;
    }
    for (int32_t i = to; i-- > from;) /* the last possible one: rounding kept the sum below */
        if (number_exp(((double)logits[i] - max) / temperature) > 0)
            return i;
    return -1;
}

/* Chooses from masked logits. */
static void choose_token(const struct kernels *k, const struct rules_spec *s,
                         const struct choice_ask *ask, float *logits, struct choice *ret)
{
    int32_t begin = s->timestamp_begin, end = (int32_t)s->vocab, from = 0;
    int32_t text_id = -1, time_id = -1;
    float text_max = find_largest_logit(k, logits, 0, begin, &text_id);
    float time_max = find_largest_logit(k, logits, begin, end, &time_id);
    double max = text_max >= time_max ? (double)text_max : (double)time_max, text, time;
    double temperature = (double)ask->temperature;

    if ((text_id < 0 && time_id < 0) || !isfinite(max))
        return;
    text = sum_exponentials(k, logits, 0, begin, max);
    time = sum_exponentials(k, logits, begin, end, max);
    if (time_id >= 0 && time > number_exp((double)text_max - max)) {
        from = begin;
        text = 0;
        forbid_token_range(logits, 0, begin); /* for top */
    }
    if (temperature > 0)
        ret->token = sample_token(k, logits, from, end, from == begin ? (double)time_max : max,
                                  temperature, ask->uniform);
    else if (from == begin || (time_id >= 0 && time_max > text_max))
        ret->token = time_id;
    else
        ret->token = text_id;
    if (ret->token >= 0)
        ret->logprob = (double)logits[ret->token] - max - log(text + time);
}

/* A logit, where one that is no number counts as minus infinity. */
static float read_logit(const float *logits, int32_t id)
{
    return isnan(logits[id]) ? -INFINITY : logits[id];
}

static void choose_language(const struct rules_spec *s, const float *logits, struct choice *ret)
{
    int32_t best = -1;
    double sum = 0;

    for (uint32_t i = 0; i < s->language_count; i++)
        if (best < 0 || read_logit(logits, s->languages[i]) > read_logit(logits, best))
            best = s->languages[i];
    for (uint32_t i = 0; i < s->language_count; i++)
        sum += number_exp((double)read_logit(logits, s->languages[i]) -
                          (double)read_logit(logits, best));
    ret->language = best;
    ret->language_prob = best >= 0 && sum > 0 ? 1.0 / sum : 0;
}

/* max: the largest of all the logits. */
static void choose_start(const struct kernels *k, const struct rules_spec *s, const float *logits,
                         float max, struct choice *ret)
{
    choose_language(s, logits, ret);
    if (s->no_speech >= 0 && isfinite(max))
        ret->no_speech = number_exp((double)logits[s->no_speech] - (double)max) /
                         sum_exponentials(k, logits, 0, (int32_t)s->vocab, (double)max);
}

/* How likely a token of the text is among all of them. */
static void choose_given(const struct kernels *k, const struct rules_spec *s, const float *logits,
                         int32_t given, struct choice *ret)
{
    int32_t id = -1;
    float max = find_largest_logit(k, logits, 0, s->eot, &id);

    if (id < 0 || !isfinite(max) || given < 0 || given >= s->eot)
        return;
    ret->token = given;
    ret->logprob = (double)read_logit(logits, given) - (double)max -
                   log(sum_exponentials(k, logits, 0, s->eot, (double)max));
}

static void choose_row(const struct kernels *k, const struct rules_spec *s, float *logits,
                       const struct choice_ask *ask, struct choice *ret)
{
    int32_t id = -1;
    float max;

    *ret = (struct choice){.token = -1, .language = -1, .logprob = -INFINITY};
    if (ask->what == 0)
        return;
    max = find_largest_logit(k, logits, 0, (int32_t)s->vocab, &id);
    ret->usable = id >= 0 && isfinite(max);
    if (ask->what & CHOOSE_START)
        choose_start(k, s, logits, max, ret);
    if (ask->what & CHOOSE_TOKEN) {
        mask_logits(s, ask, logits);
        choose_token(k, s, ask, logits, ret);
    } else if (ask->what & CHOOSE_GIVEN) {
        choose_given(k, s, logits, ask->last, ret);
    }
}

int host_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err)
{
    struct host *h = host_of(be);

    if (logits.type != DTYPE_F32 || logits.cols != (int64_t)r->spec.vocab || logits.rows < 1)
        return host_shape(err, "choose");
#pragma omp parallel for schedule(dynamic) \
    num_threads(host_threads(h, (size_t)(logits.rows * logits.cols) * sizeof(float)))
    for (int64_t i = 0; i < logits.rows; i++)
        choose_row(h->kernels, &r->spec, (float *)logits.data + i * logits.stride, &ask[i],
                   &ret[i]);
    return 0;
}
