#include "store/fact_result.h"

#include <stdlib.h>
#include <zlib.h>

#include "workers/wire/fields.h"

/* The first byte: how the fields below lie there. */
#define PLAIN 1
#define DEFLATED                                                                    \
    2 /* behind their length: half the size of text, which is worth 50 us for 1 KiB \
       */
#define DEFLATE_FROM 1024
#define MOST_BYTES (8u << 20) /* of the fields: fifty hours of words with their times */
#define DEFLATE_MOST 1032     /* bytes that a byte may become, by the format */

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

/* False: it would be no shorter, or memory ran out. */
static bool put_deflated(struct buf *out, const struct buf *plain)
{
    uLongf len = compressBound(plain->len);
    uint8_t *bytes = malloc(len);
    bool shorter = bytes && compress2(bytes, &len, plain->data, plain->len, Z_BEST_SPEED) == Z_OK &&
                   len + 6 < plain->len;

    if (shorter) {
        buf_put_u8(out, DEFLATED);
        buf_put_u32(out, (uint32_t)plain->len);
        buf_put(out, bytes, len);
    }
    free(bytes);
    return shorter;
}

void fact_result_put(struct buf *out, const struct fact_result *r)
{
    struct buf plain = {.max = MOST_BYTES};

    fields_pack(&plain, &result, r);
    if (plain.failed) {
        out->failed = true;
    } else if (plain.len < DEFLATE_FROM || !put_deflated(out, &plain)) {
        buf_put_u8(out, PLAIN);
        buf_put(out, plain.data, plain.len);
    }
    buf_free(&plain);
}

static int impossible(struct err *err) { return err_set(err, ERR_INPUT, "a result is impossible"); }

static int get_plain(const uint8_t *data, size_t len, struct fact_result *ret, struct err *err)
{
    int rc = fields_unpack(data, len, &result, ret, err);

    return rc == ERR_PROTOCOL ? impossible(err) : rc;
}

static int get_deflated(const uint8_t *data, size_t len, struct fact_result *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    uint32_t all = reader_u32(&r);
    uLongf n = all;
    uint8_t *plain;
    int rc;

    if (r.failed || all > MOST_BYTES || all / DEFLATE_MOST > len)
        return impossible(err);
    plain = malloc(all + (size_t)1);
    if (!plain)
        return err_no_memory(err, "catalog");
    rc = uncompress(plain, &n, data + r.pos, len - r.pos);
    if (rc == Z_MEM_ERROR)
        rc = err_no_memory(err, "catalog");
    else
        rc = rc == Z_OK && n == all ? get_plain(plain, all, ret, err) : impossible(err);
    free(plain);
    return rc;
}

int fact_result_get(const void *data, size_t len, struct fact_result *ret, struct err *err)
{
    const uint8_t *bytes = data;

    *ret = (struct fact_result){0};
    if (!len)
        return 0;
    if (bytes[0] == PLAIN)
        return get_plain(bytes + 1, len - 1, ret, err);
    if (bytes[0] == DEFLATED)
        return get_deflated(bytes + 1, len - 1, ret, err);
    return err_set(err, ERR_INPUT, "a result of version %u, which is none of ours", bytes[0]);
}

void fact_result_free(struct fact_result *r) { fields_free(&result, r); }
