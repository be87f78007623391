#include "store/facts/result.h"

#include "workers/wire/fields.h"

#define VERSION 1 /* of these fields */
#define MOST 65536u
#define MOST_TEXT (1u << 20)
#define MOST_MS (INT64_C(1) << 52)

static const struct field word[] = {
    FIELD_SPAN(result_word, start_ms, end_ms, MOST_MS),
    FIELD_TEXT(result_word, text, MOST_TEXT),
    FIELD_F32(result_word, probability, -FLT_MAX, FLT_MAX),
};

static const struct field segment[] = {
    FIELD_SPAN(result_segment, start_ms, end_ms, MOST_MS),
    FIELD_TEXT(result_segment, text, MOST_TEXT),
    FIELD_TEXT(result_segment, language, MOST_TEXT),
    FIELD_F32(result_segment, avg_logprob, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, no_speech_prob, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, compression_ratio, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, temperature, -FLT_MAX, FLT_MAX),
    FIELD_U32(result_segment, attempts, 0, UINT32_MAX),
    FIELD_F32(result_segment, speech_prob, -FLT_MAX, FLT_MAX),
    FIELD_BOOL(result_segment, dropped),
    FIELD_TEXT(result_segment, reason, MOST_TEXT),
    FIELD_U32(result_segment, source, 0, RESULT_SOURCES_MAX),
    FIELD_ARRAY(result_segment, words, word_count, MOST, word),
};

static const struct field list[] = {
    FIELD_ARRAY(fact_result, segments, count, MOST, segment),
};
static const struct fields result = FIELDS("RESULT", fact_result, list, NULL);

bool fact_result_holds(const struct fact_result *r) { return fields_hold(&result, r); }

void fact_result_put(struct buf *out, const struct fact_result *r)
{
    buf_put_u8(out, VERSION);
    fields_pack(out, &result, r);
}

int fact_result_get(const void *data, size_t len, struct fact_result *ret, struct err *err)
{
    const uint8_t *bytes = data;
    int rc;

    *ret = (struct fact_result){0};
    if (!len)
        return 0;
    if (bytes[0] != VERSION)
        return err_set(err, ERR_INPUT, "a result of version %u, which is none of ours", bytes[0]);
    rc = fields_unpack(bytes + 1, len - 1, &result, ret, err);
    return rc == ERR_PROTOCOL ? err_set(err, ERR_INPUT, "a result is impossible") : rc;
}

void fact_result_free(struct fact_result *r) { fields_free(&result, r); }
