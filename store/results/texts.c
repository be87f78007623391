#include "store/results/texts.h"

#include <math.h>

#include "store/facts/result.h"

static int check_words(const struct store_shard_result *r, size_t i, struct err *err)
{
    const struct result_segment *s = &r->segments[i];

    for (size_t k = 0; k < s->word_count; k++)
        if (s->words[k].start_ms < 0 || s->words[k].end_ms < s->words[k].start_ms ||
            !s->words[k].text)
            return err_set(err, ERR_INPUT, "shard %u: word %zu of segment %zu is impossible",
                           r->seq, k, i);
    return 0;
}

int texts_check(const struct store_shard_result *r, struct err *err)
{
    const struct fact_result texts = {.segments = (struct result_segment *)r->segments,
                                      .count = (uint32_t)r->segment_count};

    for (size_t i = 0; i < r->segment_count; i++) {
        const struct result_segment *s = &r->segments[i];
        int rc;

        if (s->start_ms < 0 || s->end_ms < s->start_ms || !s->text || (!s->text[0] && !s->dropped))
            return err_set(err, ERR_INPUT, "shard %u: segment %zu is impossible", r->seq, i);
        if ((rc = check_words(r, i, err)) != 0)
            return rc;
    }
    if (r->segment_count > UINT32_MAX || !fact_result_holds(&texts))
        return err_set(err, ERR_INPUT, "shard %u: a text or a number is impossible", r->seq);
    return 0;
}

/* As the column keeps it: NULL when it was not measured. */
static double speech_prob(const struct result_segment *s)
{
    if (!(s->speech_prob >= 0))
        return NAN;
    return s->speech_prob > 1 ? 1 : s->speech_prob;
}

int texts_put_dropped(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int64_t idx = 0;
    int rc = 0;

    for (size_t i = 0; i < r->segment_count && rc == 0; i++) {
        const struct result_segment *s = &r->segments[i];

        if (!s->dropped)
            continue;
        rc = db_run(st, err,
                    "INSERT INTO dropped (task_id, seq, idx, start_ms, end_ms, text, language, "
                    "reason, avg_logprob, no_speech_prob, compression_ratio, temperature, "
                    "attempts, speech_prob, source) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?)",
                    "iiiiitttddddidi", r->task_id, (int64_t)r->seq, idx++, s->start_ms, s->end_ms,
                    s->text, s->language ? s->language : "", s->reason ? s->reason : "",
                    s->avg_logprob, s->no_speech_prob, s->compression_ratio, s->temperature,
                    (int64_t)s->attempts, speech_prob(s), (int64_t)s->source);
    }
    return rc;
}
