#include "store/results/texts.h"

#include <math.h>

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
    for (size_t i = 0; i < r->segment_count; i++) {
        const struct result_segment *s = &r->segments[i];
        int rc;

        if (s->start_ms < 0 || s->end_ms < s->start_ms || !s->text || (!s->text[0] && !s->dropped))
            return err_set(err, ERR_INPUT, "shard %u: segment %zu is impossible", r->seq, i);
        if ((rc = check_words(r, i, err)) != 0)
            return rc;
    }
    return 0;
}

/* As the column keeps it: NULL when it was not measured. */
static double speech_prob(const struct result_segment *s)
{
    if (!(s->speech_prob >= 0))
        return NAN;
    return s->speech_prob > 1 ? 1 : s->speech_prob;
}

/* Of a segment that was put. */
static int put_words(struct store *st, const struct store_shard_result *r,
                     const struct result_segment *s, int64_t idx, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t segment_id = 0;
    int rc = 0;

    if (s->word_count)
        rc = db_first(st, &stmt, err,
                      "SELECT segment_id FROM segment WHERE task_id = ? AND seq = ? AND idx = ?",
                      "iii", r->task_id, (int64_t)r->seq, idx);
    if (rc == 1) {
        segment_id = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
        rc = 0;
    }
    for (size_t k = 0; k < s->word_count && rc == 0; k++)
        rc = db_run(st, err,
                    "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    "iiiitd", segment_id, (int64_t)k, s->words[k].start_ms, s->words[k].end_ms,
                    s->words[k].text, s->words[k].probability);
    return rc;
}

#define PUT_INTO(table)                                                                    \
    "INSERT INTO " table " (task_id, seq, idx, start_ms, end_ms, text, language, reason, " \
    "avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, speech_prob, " \
    "source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, ?)"

static int put_segment(struct store *st, const struct store_shard_result *r,
                       const struct result_segment *s, int64_t idx, struct err *err)
{
    int rc = db_run(st, err, s->dropped ? PUT_INTO("dropped") : PUT_INTO("segment"),
                    "iiiiitttddddidi", r->task_id, (int64_t)r->seq, idx, s->start_ms, s->end_ms,
                    s->text, s->language ? s->language : "", s->reason ? s->reason : "",
                    s->avg_logprob, s->no_speech_prob, s->compression_ratio, s->temperature,
                    (int64_t)s->attempts, speech_prob(s), (int64_t)s->source);

    return rc < 0 || s->dropped ? rc : put_words(st, r, s, idx, err);
}

int texts_put(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int64_t kept = 0, dropped = 0;
    int rc = 0;

    for (size_t i = 0; i < r->segment_count && rc == 0; i++) {
        const struct result_segment *s = &r->segments[i];

        rc = put_segment(st, r, s, s->dropped ? dropped++ : kept++, err);
    }
    return rc;
}
