#include "workers/media/wire.h"

#include <string.h>

#include "workers/media/stream/sniff.h"
#include "workers/wire/fields.h"

#define TEXT_MAX 1024u

static const struct field request[] = {
    FIELD_U8(wire_request, task, WIRE_TASK_SANDBOX),
    FIELD_U32(wire_request, parent_pid, 0, UINT32_MAX),
    FIELD_NAME(wire_request, member, WIRE_MEMBER_MAX),
    FIELD_U32(wire_request, nth, 0, UINT32_MAX),
    FIELD_I64(wire_request, skip_samples, INT64_MIN, INT64_MAX),
    FIELD_BOOL(wire_request, want_hash),
    FIELD_BOOL(wire_request, has_fingerprint),
    FIELD_U8(wire_request, headerless, HEADERLESS_MAX),
    FIELD_FIXED(wire_request, fingerprint),
    FIELD_U8(wire_request, hearing.channels, HEARING_AUTO),
    FIELD_U32(wire_request, hearing.channel, 0, HEARING_CHANNELS_MAX),
    FIELD_U32(wire_request, hearing.tracks, 0, UINT32_MAX),
    FIELD_U64(wire_request, limits.memory_bytes, UINT64_MAX),
    FIELD_U32(wire_request, limits.silence_ms, 0, UINT32_MAX),
    FIELD_U64(wire_request, limits.cpu_seconds, UINT64_MAX),
    FIELD_U64(wire_request, limits.max_entries, UINT64_MAX),
    FIELD_U64(wire_request, limits.max_unpacked_bytes, UINT64_MAX),
};

static const struct field tag[] = {
    FIELD_TEXT(result_tag, source, RESULT_TAG_SOURCE_MAX),
    FIELD_TEXT(result_tag, key, RESULT_TAG_KEY_MAX),
    FIELD_TEXT(result_tag, value, RESULT_TAG_VALUE_MAX),
    FIELD_SPAN(result_tag, start_ms, end_ms, RESULT_TAG_MS_MAX),
};

static const struct field source[] = {
    FIELD_TEXT(result_source, label, RESULT_SOURCE_LABEL_MAX),
};

static const struct field info[] = {
    FIELD_I64(decoder_info, duration_ms, -1, INT64_MAX),
    FIELD_U32(decoder_info, sample_rate_hz, 0, UINT32_MAX),
    FIELD_U32(decoder_info, channels, 0, UINT32_MAX),
    FIELD_U32(decoder_info, tracks, 0, UINT32_MAX),
    FIELD_CHARS(decoder_info, container),
    FIELD_CHARS(decoder_info, codec),
    FIELD_CHARS(decoder_info, left_out),
    FIELD_CHARS(decoder_info, mix_left_out),
    FIELD_ARRAY(decoder_info, sources, source_count, RESULT_SOURCES_MAX, source),
    FIELD_ARRAY(decoder_info, tags, tag_count, RESULT_TAGS_MAX, tag),
};

static bool info_holds(const void *of)
{
    const struct decoder_info *m = of;

    for (uint32_t i = 0; i < m->source_count; i++) {
        if (!m->sources[i].label[0])
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(m->sources[k].label, m->sources[i].label) == 0)
                return false;
    }
    return m->source_count != 1;
}

static const struct field entry[] = {
    FIELD_NAME(decoder_entry, member, WIRE_MEMBER_MAX),
    FIELD_U32(decoder_entry, nth, 0, UINT32_MAX),
    FIELD_U64(decoder_entry, size_bytes, UINT64_MAX),
    FIELD_I64(decoder_entry, mtime_ms, -1, INT64_MAX),
    FIELD_HEAD(decoder_entry, head, head_len),
    FIELD_CODE(decoder_entry, code, ERR_USAGE, 0),
    FIELD_NAME(decoder_entry, message, TEXT_MAX),
};

static bool entry_holds(const void *of)
{
    const struct decoder_entry *m = of;

    return m->member[0] != '\0';
}

static const struct field channel[] = {
    FIELD_U32(result_channel, track, 1, UINT32_MAX),
    FIELD_U32(result_channel, channel, 0, UINT32_MAX),
    FIELD_I64(result_channel, sound_ms, -1, RESULT_CHANNEL_MS_MAX),
    FIELD_I64(result_channel, length_ms, -1, RESULT_CHANNEL_MS_MAX),
    FIELD_BOOL(result_channel, heard),
};

static const struct field end[] = {
    FIELD_I64(decoder_end, total_samples, 0, INT64_MAX),
    FIELD_BOOL(decoder_end, complete),
    FIELD_BOOL(decoder_end, has_hash),
    FIELD_FIXED(decoder_end, content_hash),
    FIELD_NAME(decoder_end, damage, TEXT_MAX),
    FIELD_NAME(decoder_end, clock, TEXT_MAX),
    FIELD_I64(decoder_end, length, 0, INT64_MAX / 1000),
    FIELD_ARRAY(decoder_end, channels, channel_count, RESULT_CHANNELS_MAX, channel),
};

static bool end_holds(const void *of)
{
    const struct decoder_end *m = of;

    for (uint32_t i = 0; i < m->channel_count; i++)
        if (!result_channel_holds(&m->channels[i]))
            return false;
    return true;
}

static const struct field error[] = {
    FIELD_CODE(err, code, ERR_USAGE, -1),
    FIELD_CHARS(err, msg),
};

/* A decoder speaks about its file and its own bounds; it cannot stop a run or lose a device. */
static bool error_holds(const void *of)
{
    switch (((const struct err *)of)->code) {
    case ERR_NOMEM:
    case ERR_IO:
    case ERR_INPUT:
    case ERR_MISSING:
    case ERR_CHANGED:
    case ERR_LIMIT:
        return true;
    default:
        return false;
    }
}

static const struct field sandbox[] = {
    FIELD_BOOL(sandbox_report, no_new_privs),
    FIELD_BOOL(sandbox_report, relaxed),
    FIELD_U32(sandbox_report, landlock_abi, 0, UINT32_MAX),
    FIELD_BOOL(sandbox_report, seccomp),
    FIELD_U64(sandbox_report, memory_bytes, UINT64_MAX),
    FIELD_U64(sandbox_report, cpu_seconds, UINT64_MAX),
    FIELD_BOOL(sandbox_report, files_refused),
    FIELD_BOOL(sandbox_report, network_refused),
    FIELD_BOOL(sandbox_report, processes_refused),
    FIELD_CHARS(sandbox_report, no_landlock),
    FIELD_CHARS(sandbox_report, no_seccomp),
};

static const struct field answer[] = {
    FIELD_BOOL(wire_answer, wanted),
};

static const struct fields kinds[] = {
    [WIRE_REQUEST - WIRE_FIRST] = FIELDS("request", wire_request, request, NULL),
    [WIRE_INFO - WIRE_FIRST] = FIELDS("info", decoder_info, info, info_holds),
    [WIRE_ENTRY - WIRE_FIRST] = FIELDS("entry", decoder_entry, entry, entry_holds),
    [WIRE_END - WIRE_FIRST] = FIELDS("end", decoder_end, end, end_holds),
    [WIRE_ERROR - WIRE_FIRST] = FIELDS("error", err, error, error_holds),
    [WIRE_SANDBOX - WIRE_FIRST] = FIELDS("sandbox", sandbox_report, sandbox, NULL),
    [WIRE_ANSWER - WIRE_FIRST] = FIELDS("answer", wire_answer, answer, NULL),
};

const struct fields *wire_fields(uint8_t type)
{
    uint8_t i = (uint8_t)(type - WIRE_FIRST);

    return i < FIELD_COUNT(kinds) && kinds[i].list ? &kinds[i] : NULL;
}

/* Samples are copied as they lie: a decoder talks to a worker of its own machine. The bytes of the
 * examples in tests/common/messages.tsv are little-endian, as all machines are that it runs on. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error samples need their bytes turned round here
#endif

void wire_put_pcm(struct buf *out, const int16_t *pcm, size_t n, int64_t at_sample)
{
    buf_put_i64(out, at_sample);
    buf_put(out, pcm, n * sizeof(*pcm));
}

int wire_get_pcm(const uint8_t *data, size_t len, int16_t *pcm, size_t *n, int64_t *at_sample,
                 struct err *err)
{
    struct reader r = reader_of(data, len);
    int64_t at = reader_i64(&r);
    size_t count = r.failed ? 0 : (len - r.pos) / sizeof(*pcm);

    if (r.failed || count == 0 || count > WIRE_PCM_SAMPLES || (len - r.pos) % sizeof(*pcm) != 0 ||
        at < 0)
        return err_set(err, ERR_PROTOCOL, "a malformed audio message (%zu bytes)", len);
    memcpy(pcm, data + r.pos, count * sizeof(*pcm));
    *n = count;
    *at_sample = at;
    return 0;
}
