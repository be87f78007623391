#include "workers/stages/token_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

struct token_rules {
    struct vocabulary_ids ids;
    uint32_t vocab_size;
    int32_t max_initial; /* last timestamp that may come first */
    uint32_t language_count;
    int32_t *languages;           /* owned */
    int32_t *never, *never_first; /* owned */
    size_t never_count, never_first_count;
};

static int copy_ids(const int32_t *from, size_t n, int32_t **ret, size_t *count, struct err *err)
{
    *ret = malloc((n ? n : 1) * sizeof(**ret));
    if (!*ret)
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    if (n)
        memcpy(*ret, from, n * sizeof(**ret));
    *count = n;
    return 0;
}

int token_rules_new(const struct vocabulary *v, uint32_t vocab_size, struct token_rules **ret,
                    struct err *err)
{
    struct token_rules *r;
    const int32_t *list;
    size_t n;
    int rc;

    if (vocab_size < vocabulary_size(v))
        return err_set(err, ERR_MODEL,
                       "the tokenizer has %u ids but the weights only %u; they are of two models",
                       vocabulary_size(v), vocab_size);
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    r->ids = *vocabulary_ids(v);
    r->vocab_size = vocab_size;
    r->max_initial = r->ids.timestamp_begin + vocabulary_max_initial_timestamp_index(v);
    r->language_count = vocabulary_language_count(v);
    list = vocabulary_suppress(v, &n);
    if ((rc = copy_ids(list, n, &r->never, &r->never_count, err)))
        goto fail;
    list = vocabulary_begin_suppress(v, &n);
    if ((rc = copy_ids(list, n, &r->never_first, &r->never_first_count, err)))
        goto fail;
    r->languages = malloc((r->language_count + 1) * sizeof(*r->languages));
    if (!r->languages) {
        rc = err_set(err, ERR_NOMEM, "no memory for the token rules");
        goto fail;
    }
    for (uint32_t i = 0; i < r->language_count; i++)
        r->languages[i] = vocabulary_language_at(v, i);
    *ret = r;
    return 0;
fail:
    token_rules_free(r);
    return rc;
}

void token_rules_free(struct token_rules *r)
{
    if (!r)
        return;
    free(r->languages);
    free(r->never);
    free(r->never_first);
    free(r);
}

/* Ids [from, to) out. */
static void forbid(float *logits, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to; i++)
        logits[i] = -INFINITY;
}

static void mask_timestamps(const struct token_rules *r, const int32_t *tokens, size_t n,
                            float *logits)
{
    int32_t begin = r->ids.timestamp_begin, end = r->ids.timestamp_end + 1;
    bool last = n >= 1 && tokens[n - 1] >= begin, before = n < 2 || tokens[n - 2] >= begin;

    if (n == 0) { /* a timestamp, not too late */
        forbid(logits, 0, begin);
        forbid(logits, r->max_initial + 1, end);
        return;
    }
    if (last && before) /* a pair is complete: text or the end */
        forbid(logits, begin, end);
    else if (last) /* a segment has ended: the next one's start, or the end */
        forbid(logits, 0, r->ids.eot);
    for (size_t i = n; i-- > 0;) {
        if (tokens[i] < begin)
            continue;
        /* Never back; and a segment that has begun must have a length, or windows could stand
         * still. */
        forbid(logits, begin, last && !before ? tokens[i] : tokens[i] + 1);
        break;
    }
}

void token_rules_mask(const struct token_rules *r, const int32_t *tokens, size_t n, float *logits)
{
    const struct vocabulary_ids *ids = &r->ids;

    for (size_t i = 0; i < r->never_count; i++)
        if (r->never[i] != ids->eot) /* or no window would ever end */
            logits[r->never[i]] = -INFINITY;
    for (size_t i = 0; n == 0 && i < r->never_first_count; i++)
        logits[r->never_first[i]] = -INFINITY;
    /* The specials lie between the end and the timestamps. */
    forbid(logits, ids->eot + 1, ids->timestamp_begin);
    forbid(logits, ids->timestamp_end + 1, (int32_t)r->vocab_size);
    mask_timestamps(r, tokens, n, logits);
}

/* The largest of logits[from, to), its id (the lowest of equals) in *id. NaN is never larger. */
static float largest(const float *logits, int32_t from, int32_t to, int32_t *id)
{
    float max = -INFINITY;

    for (int32_t i = from; i < to; i++)
        if (logits[i] > max) {
            max = logits[i];
            *id = i;
        }
    return max;
}

static double mass(const float *logits, int32_t from, int32_t to, double max)
{
    double sum = 0;

    for (int32_t i = from; i < to; i++)
        sum += number_exp((double)logits[i] - max);
    return sum;
}

/* The id at which the growing sum of e^(logit/temperature) passes uniform times the whole. */
static int32_t draw(const float *logits, int32_t from, int32_t to, double max, double temperature,
                    double uniform)
{
    double total = 0, sum = 0;
    int32_t id = -1;

    for (int32_t i = from; i < to; i++)
        total += number_exp(((double)logits[i] - max) / temperature);
    for (int32_t i = from; i < to; i++) {
        double w = number_exp(((double)logits[i] - max) / temperature);
        if (w == 0)
            continue;
        id = i; /* the last possible one if rounding keeps the sum below */
        sum += w;
        if (sum > uniform * total)
            break;
    }
    return id;
}

struct token_choice token_rules_choose(const struct token_rules *r, const float *logits,
                                       double temperature, double uniform)
{
    int32_t begin = r->ids.timestamp_begin, end = (int32_t)r->vocab_size, from = 0;
    int32_t text_id = -1, time_id = -1;
    float text_max = largest(logits, 0, begin, &text_id);
    float time_max = largest(logits, begin, end, &time_id);
    double max = text_max >= time_max ? (double)text_max : (double)time_max, text, time;
    struct token_choice c = {.token = -1, .logprob = -INFINITY};

    if (text_id < 0 && time_id < 0)
        return c;
    if (!isfinite(max))
        return c;
    text = mass(logits, 0, begin, max);
    time = mass(logits, begin, end, max);
    if (time_id >= 0 && time > number_exp((double)text_max - max)) {
        from = begin;
        text = 0;
    }
    if (temperature > 0)
        c.token =
            draw(logits, from, end, from == begin ? (double)time_max : max, temperature, uniform);
    else if (from == begin || (time_id >= 0 && time_max > text_max))
        c.token = time_id;
    else
        c.token = text_id;
    if (c.token >= 0)
        c.logprob = (double)logits[c.token] - max - log(text + time);
    return c;
}

double token_no_speech(const struct token_rules *r, const float *logits)
{
    int32_t id = -1, no_speech = r->ids.no_speech;
    double max;

    if (no_speech < 0)
        return 0;
    max = (double)largest(logits, 0, (int32_t)r->vocab_size, &id);
    if (id < 0 || !isfinite(max))
        return 0;
    return number_exp((double)logits[no_speech] - max) /
           mass(logits, 0, (int32_t)r->vocab_size, max);
}

int32_t token_language(const struct token_rules *r, const float *logits, double *prob)
{
    int32_t best = -1;
    double sum = 0;

    for (uint32_t i = 0; i < r->language_count; i++)
        if (best < 0 || logits[r->languages[i]] > logits[best])
            best = r->languages[i];
    for (uint32_t i = 0; i < r->language_count; i++)
        sum += number_exp((double)logits[r->languages[i]] - (double)logits[best]);
    *prob = best >= 0 && sum > 0 ? 1.0 / sum : 0;
    return best;
}

bool token_logits_usable(const struct token_rules *r, const float *logits)
{
    int32_t id = -1;
    float max = largest(logits, 0, (int32_t)r->vocab_size, &id);

    return id >= 0 && isfinite(max);
}
