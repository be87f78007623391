/* The wire form of requests and replies (store/requests/request.h): a version byte, for a request
 * its type, then the fields of that type. The values are checked where they are applied. */
#include "store/requests/request.h"
#include "workers/wire/fields.h"

#define CODEC_VERSION 10
#define TEXT REQUEST_MAX_PATH

static const struct field stage[] = {
    FIELD_NAME(store_stage, name, TEXT),        FIELD_NAME(store_stage, model, TEXT),
    FIELD_NAME(store_stage, model_dir, TEXT),   FIELD_NAME(store_stage, model_hash, TEXT),
    FIELD_NAME(store_stage, params_json, TEXT),
};

static const struct field found[] = {
    FIELD_BYTES(store_found, path, path_len, REQUEST_MAX_PATH),
    FIELD_BYTES(store_found, member, member_len, REQUEST_MAX_PATH),
    FIELD_U32(store_found, nth, 0, UINT32_MAX),
    FIELD_U64(store_found, size_bytes, UINT64_MAX),
    FIELD_U64(store_found, file_size_bytes, UINT64_MAX),
    FIELD_I64(store_found, mtime_ns, INT64_MIN, INT64_MAX),
    FIELD_U64(store_found, inode, UINT64_MAX),
    FIELD_U64(store_found, device, UINT64_MAX),
    FIELD_FIXED(store_found, fingerprint),
    FIELD_BOOL(store_found, has_hash),
    FIELD_FIXED(store_found, hash),
    FIELD_I64(store_found, met_media, INT64_MIN, INT64_MAX),
    FIELD_FIXED(store_found, met_hash),
    FIELD_BOOL(store_found, moved),
};

static const struct field add[] = {
    FIELD_I64(request, job_id, INT64_MIN, INT64_MAX),
    FIELD_BOOL(request, keep_source),
    FIELD_BOOL(request, keep_other),
    FIELD_ARRAY(request, found, count, REQUEST_MAX_FOUND, found),
};

/* Arrays of what is no struct are of structs that hold nothing else. */
struct place {
    int64_t id;
};

struct path {
    const char *name;
};

static const struct field place[] = {FIELD_I64(place, id, INT64_MIN, INT64_MAX)};
static const struct field path[] = {FIELD_NAME(path, name, REQUEST_MAX_PATH)};

/* A source has none itself. */
static const struct field begin[] = {
    FIELD_NAME(request, command_line, TEXT),
    FIELD_STRUCT(request, stage, stage),
    FIELD_ONE(request, stage.source, stage),
    FIELD_NAME(request, language, TEXT),
    FIELD_ARRAY(request, roots, root_count, UINT32_MAX, path),
    FIELD_MAYBE_NAME(request, options, TEXT),
    FIELD_BOOL(request, replaces),
    FIELD_BOOL(request, has_priority),
    FIELD_I64(request, priority, STORE_LOW, STORE_HIGH),
};

static const struct field same[] = {
    FIELD_I64(request, job_id, INT64_MIN, INT64_MAX),
    FIELD_BOOL(request, keep_source),
    FIELD_BOOL(request, keep_other),
    FIELD_ARRAY(request, place_ids, count, REQUEST_MAX_FOUND, place),
};

static const struct field trouble[] = {
    FIELD_BYTES(request_trouble, path, path_len, REQUEST_MAX_PATH),
    FIELD_BYTES(request_trouble, member, member_len, REQUEST_MAX_PATH),
    FIELD_U32(request_trouble, nth, 0, UINT32_MAX),
    FIELD_CODE(request_trouble, code, INT32_MIN, INT32_MAX),
    FIELD_NAME(request_trouble, message, TEXT),
};

static const struct field troubles[] = {
    FIELD_I64(request, job_id, INT64_MIN, INT64_MAX),
    FIELD_ARRAY(request, troubles, count, REQUEST_MAX_FOUND, trouble),
};

static const struct field end[] = {
    FIELD_I64(request, job_id, INT64_MIN, INT64_MAX),
    FIELD_ARRAY(request, roots, root_count, UINT32_MAX, path),
    FIELD_ARRAY(request, unread, unread_count, UINT32_MAX, path),
};

static const struct field recipe[] = {
    FIELD_NAME(request, stage.name, TEXT),
    FIELD_NAME(request, stage.model_hash, TEXT),
    FIELD_ARRAY(request, roots, root_count, UINT32_MAX, path),
    FIELD_MAYBE_NAME(request, options, TEXT),
    FIELD_BOOL(request, replaces),
};

static const struct field selected[] = {
    FIELD_I64(request, select_job, INT64_MIN, INT64_MAX),
    FIELD_MAYBE_NAME(request, select_path, REQUEST_MAX_PATH),
};

static const struct field priority[] = {
    FIELD_I64(request, select_job, INT64_MIN, INT64_MAX),
    FIELD_MAYBE_NAME(request, select_path, REQUEST_MAX_PATH),
    FIELD_I64(request, priority, STORE_LOW, STORE_HIGH),
};

static const struct field of_stage[] = {
    FIELD_I64(request, stage_id, INT64_MIN, INT64_MAX),
    FIELD_MAYBE_NAME(request, select_path, REQUEST_MAX_PATH),
};

static const struct field speaker[] = {
    FIELD_I64(request, speaker_id, INT64_MIN, INT64_MAX),
    FIELD_NAME(request, speaker_name, TEXT),
    FIELD_BOOL(request, everywhere),
    FIELD_BOOL(request, denied),
};

static const struct field value[] = {
    FIELD_NAME(store_said, key, RESULT_TAG_KEY_MAX),
    FIELD_NAME(store_said, value, RESULT_TAG_VALUE_MAX),
};

static const struct field description[] = {
    FIELD_I64(request_description, media_id, INT64_MIN, INT64_MAX),
    FIELD_ARRAY(request_description, values, value_count, REQUEST_MAX_VALUES, value),
};

static const struct field describe[] = {
    FIELD_ARRAY(request, descriptions, count, REQUEST_MAX_FOUND, description),
};

static const struct field one_verified[] = {
    FIELD_BYTES(request_verified, path, path_len, REQUEST_MAX_PATH),
    FIELD_U64(request_verified, size_bytes, UINT64_MAX),
    FIELD_I64(request_verified, mtime_ns, INT64_MIN, INT64_MAX),
    FIELD_BOOL(request_verified, changed),
    FIELD_FIXED(request_verified, hash),
};

static const struct field verified[] = {
    FIELD_ARRAY(request, verified, count, REQUEST_MAX_FOUND, one_verified),
};

static const struct field one_correction[] = {
    FIELD_I64(request_correction, segment_id, INT64_MIN, INT64_MAX),
    FIELD_NAME(request_correction, heard, TEXT),
    FIELD_NAME(request_correction, text, TEXT),
    FIELD_BOOL(request_correction, confirmed),
    FIELD_MAYBE_NAME(request_correction, was, TEXT),
};

static const struct field correct[] = {
    FIELD_ARRAY(request, corrections, count, REQUEST_MAX_FOUND, one_correction),
    FIELD_NAME(request, made_by, TEXT),
    FIELD_NAME(request, source, TEXT),
};

static const struct field decide[] = {
    FIELD_I64(request, correction_id, INT64_MIN, INT64_MAX),
    FIELD_BOOL(request, undo),
    FIELD_NAME(request, made_by, TEXT),
};

static const struct field erase[] = {
    FIELD_ARRAY(request, ids, count, REQUEST_MAX_FOUND, place),
    FIELD_NAME(request, speaker_name, TEXT),
    FIELD_NAME(request, made_by, TEXT),
    FIELD_BOOL(request, undo),
};

static const struct fields kinds[] = {
    [REQUEST_ENQUEUE_BEGIN] = FIELDS("request", request, begin, NULL),
    [REQUEST_ENQUEUE_ADD] = FIELDS("request", request, add, NULL),
    [REQUEST_ENQUEUE_SAME] = FIELDS("request", request, same, NULL),
    [REQUEST_ENQUEUE_END] = FIELDS("request", request, end, NULL),
    [REQUEST_RETRY] = FIELDS("request", request, selected, NULL),
    [REQUEST_CANCEL] = FIELDS("request", request, selected, NULL),
    [REQUEST_PAUSE] = FIELDS("request", request, selected, NULL),
    [REQUEST_RESUME] = FIELDS("request", request, selected, NULL),
    [REQUEST_ENQUEUE_TROUBLE] = FIELDS("request", request, troubles, NULL),
    [REQUEST_ENQUEUE_KNOWN] = FIELDS("request", request, same, NULL),
    [REQUEST_NAME_SPEAKER] = FIELDS("request", request, speaker, NULL),
    [REQUEST_DESCRIBE] = FIELDS("request", request, describe, NULL),
    [REQUEST_VERIFIED] = FIELDS("request", request, verified, NULL),
    [REQUEST_FORGET] = FIELDS("request", request, of_stage, NULL),
    [REQUEST_PIN] = FIELDS("request", request, of_stage, NULL),
    [REQUEST_CORRECT] = FIELDS("request", request, correct, NULL),
    [REQUEST_CORRECT_DECIDE] = FIELDS("request", request, decide, NULL),
    [REQUEST_PRIORITY] = FIELDS("request", request, priority, NULL),
    [REQUEST_DISMISS] = FIELDS("request", request, selected, NULL),
    [REQUEST_RECIPE] = FIELDS("request", request, recipe, NULL),
    [REQUEST_ERASE] = FIELDS("request", request, erase, NULL),
};

static const struct field counts[] = {
    FIELD_I64(request_reply, job_id, INT64_MIN, INT64_MAX),
    FIELD_U64(request_reply, counts.seen, UINT64_MAX),
    FIELD_U64(request_reply, counts.added, UINT64_MAX),
    FIELD_U64(request_reply, counts.places, UINT64_MAX),
    FIELD_U64(request_reply, counts.changed, UINT64_MAX),
    FIELD_U64(request_reply, counts.unchanged, UINT64_MAX),
    FIELD_U64(request_reply, counts.vanished, UINT64_MAX),
    FIELD_U64(request_reply, counts.gone, UINT64_MAX),
    FIELD_U64(request_reply, counts.back, UINT64_MAX),
    FIELD_U64(request_reply, counts.waiting, UINT64_MAX),
    FIELD_U64(request_reply, counts.tasks, UINT64_MAX),
    FIELD_U64(request_reply, counts.lacking, UINT64_MAX),
    FIELD_U64(request_reply, counts.restored, UINT64_MAX),
    FIELD_U64(request_reply, counts.reasked, UINT64_MAX),
    FIELD_U64(request_reply, counts.instead, UINT64_MAX),
    FIELD_U64(request_reply, counts.erased, UINT64_MAX),
    FIELD_HEAD(request_reply, unproven, unproven_len),
    FIELD_BOOL(request_reply, log_kept),
    FIELD_U64(request_reply, affected, UINT64_MAX),
};

static const struct fields reply = FIELDS("reply", request_reply, counts, NULL);

static const struct fields *fields_of(enum request_type type)
{
    return (size_t)type < FIELD_COUNT(kinds) && kinds[type].list ? &kinds[type] : NULL;
}

void request_put(struct buf *out, const struct request *rq)
{
    struct request plain = *rq;

    plain.stage.source = store_stage_source(&rq->stage);
    buf_put_u8(out, CODEC_VERSION);
    buf_put_u8(out, (uint8_t)rq->type);
    if (fields_of(rq->type))
        fields_put(out, fields_of(rq->type), &plain);
    else
        out->failed = true;
}

int request_get(const uint8_t *data, size_t len, struct request *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    uint8_t version = reader_u8(&r), type = reader_u8(&r);
    int rc;

    *ret = (struct request){0};
    if (version != CODEC_VERSION && len)
        return err_set(err, ERR_PROTOCOL,
                       "request: written by another version of nightshift; use the one that runs");
    if (r.failed || !fields_of(type))
        return err_set(err, ERR_PROTOCOL, "a request of no known type (%zu bytes)", len);
    rc = fields_get(data + r.pos, len - r.pos, fields_of(type), ret, err);
    if (rc == 0)
        ret->type = type;
    return rc;
}

void request_free(struct request *rq)
{
    if (fields_of(rq->type))
        fields_free(fields_of(rq->type), rq);
}

void request_reply_put(struct buf *out, const struct request_reply *r)
{
    buf_put_u8(out, CODEC_VERSION);
    fields_put(out, &reply, r);
}

int request_reply_get(const uint8_t *data, size_t len, struct request_reply *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    uint8_t version = reader_u8(&r);

    if (version != CODEC_VERSION)
        return err_set(err, ERR_PROTOCOL, "a malformed reply (%zu bytes)", len);
    return fields_get(data + r.pos, len - r.pos, &reply, ret, err);
}
