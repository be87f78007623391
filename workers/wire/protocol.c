/* Bounds are generous for what the program sends and small for what a broken peer could make us
 * allocate. */
#include "workers/wire/protocol.h"

#include <float.h>

#include "base/log.h"

#define MAX_NAME 256u /* devices, codecs, versions, hashes */
#define MAX_LANGUAGE 15u
#define MAX_MESSAGE 8192u /* sentences for people */
#define MAX_PARAMS (64u << 10)
#define MAX_PATH (128u << 10) /* the kernel takes 4096; enqueue may have seen longer ones */
#define MAX_MEMBER (1u << 20) /* pax headers know no bound */
#define MAX_TEXT (64u << 10)  /* of one segment or passage: a window has at most some 2 KiB */
#define MAX_VECTOR 4096u      /* values */
#define MAX_SLOTS 4096u       /* and windows that an encoder takes at once */
#define MAX_WORDS 4096u       /* of one segment: a window has at most some 200 */
#define MAX_ATTEMPTS 16u
/* How far outside of its segment a word may lie: a window's length, since both are of one. */
#define WORD_SLACK_MS 30000
#define MAX_WINDOWS (LEASE_SHARD_MS_MAX / 1000 + 60) /* one a second, and a cut's reach */
#define MAX_FRAMES 4096u
#define MAX_SPEAKERS 8u
#define MAX_HEARD (MAX_WINDOWS * MAX_SPEAKERS)
#define MAX_FINALIZED_SPEAKERS 1000u /* as DIARIZE_MAX_SPEAKERS */

/* An array of plain values is one of structs with a single member. */
struct number {
    uint32_t value;
};

struct rate {
    float value;
};

struct sentence {
    const char *text;
};

static const struct field number[] = {FIELD_U32(number, value, 0, UINT32_MAX)};
static const struct field rate[] = {FIELD_F32(rate, value, 0, FLT_MAX)};
static const struct field sentence[] = {FIELD_TEXT(sentence, text, MAX_MESSAGE)};

static const struct field hello[] = {
    FIELD_U32(msg_hello, pid, 0, UINT32_MAX),
    FIELD_TEXT(msg_hello, device, MAX_NAME),
    FIELD_TEXT(msg_hello, program, MAX_NAME),
};

static const struct field stage[] = {
    FIELD_TEXT(msg_stage, name, MAX_NAME),        FIELD_NAME(msg_stage, model_dir, MAX_PATH),
    FIELD_TEXT(msg_stage, model_hash, MAX_NAME),  FIELD_TEXT(msg_stage, params_json, MAX_PARAMS),
    FIELD_F32(msg_stage, tuned_rate, 0, FLT_MAX),
};

static const struct field setup[] = {
    FIELD_ARRAY(msg_setup, stages, stage_count, SETUP_MAX_STAGES, stage),
    FIELD_TEXT(msg_setup, precision, MAX_NAME),
    FIELD_U32(msg_setup, cache, 0, SETUP_CACHE_MOST),
    FIELD_U32(msg_setup, slots, 0, MAX_SLOTS),
    FIELD_U32(msg_setup, decoders, 0, 1024),
    FIELD_U32(msg_setup, threads, 0, 4096),
    FIELD_U32(msg_setup, workers, 0, UINT32_MAX),
    FIELD_U64(msg_setup, pcm_bytes, UINT64_MAX),
    FIELD_U32(msg_setup, windows, 0, MAX_SLOTS),
    FIELD_U64(msg_setup, memory_limit, UINT64_MAX),
    FIELD_BOOL(msg_setup, deterministic),
    FIELD_U32(msg_setup, tuned_slots, 0, MAX_SLOTS),
    FIELD_U32(msg_setup, tuned_windows, 0, MAX_SLOTS),
    FIELD_F32(msg_setup, tuned_rate, 0, FLT_MAX),
    FIELD_BYTES(msg_setup, algorithms, algorithms_bytes, SETUP_ALGORITHMS_MAX),
};

static bool setup_holds(const void *of)
{
    const struct msg_setup *m = of;

    return m->stage_count >= 1;
}

static const struct field ready[] = {
    FIELD_U32(msg_ready, capacity, 1, 1u << 16),
    FIELD_TEXT(msg_ready, description, MAX_MESSAGE),
    FIELD_TEXT(msg_ready, device, MAX_NAME),
    FIELD_TEXT(msg_ready, precision, MAX_NAME),
    FIELD_U32(msg_ready, slots, 1, MAX_SLOTS),
    FIELD_U32(msg_ready, windows, 1, MAX_SLOTS),
    FIELD_U64(msg_ready, predicted_bytes, INT64_MAX),
    FIELD_U64(msg_ready, allocated_bytes, INT64_MAX),
    FIELD_F32(msg_ready, rate, 0, FLT_MAX),
    FIELD_BOOL(msg_ready, measured),
    FIELD_BYTES(msg_ready, algorithms, algorithms_bytes, SETUP_ALGORITHMS_MAX),
    FIELD_ARRAY(msg_ready, why_not, stage_count, SETUP_MAX_STAGES, sentence),
    FIELD_ARRAY(msg_ready, rates, rate_count, SETUP_MAX_STAGES, rate),
};

/* The first stage is loaded, or there is no READY. */
static bool ready_holds(const void *of)
{
    const struct msg_ready *m = of;

    return m->stage_count >= 1 && !m->why_not[0][0] &&
           (m->rate_count == 0 || m->rate_count + 1 == m->stage_count);
}

static const struct field fatal[] = {
    FIELD_CODE(msg_fatal, code, ERR_LAST, -1),
    FIELD_TEXT(msg_fatal, message, MAX_MESSAGE),
};

static const struct field passage[] = {
    FIELD_SPAN(result_passage, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_TEXT(result_passage, text, MAX_TEXT),
};

static const struct field word[] = {
    FIELD_SPAN(result_word, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_TEXT(result_word, text, MAX_TEXT),
    FIELD_F32(result_word, probability, 0, 1),
};

static const struct field segment[] = {
    FIELD_SPAN(result_segment, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_TEXT(result_segment, text, MAX_TEXT),
    FIELD_TEXT(result_segment, language, MAX_LANGUAGE),
    FIELD_F32(result_segment, avg_logprob, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, no_speech_prob, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, compression_ratio, -FLT_MAX, FLT_MAX),
    FIELD_F32(result_segment, temperature, -FLT_MAX, FLT_MAX),
    FIELD_U32(result_segment, attempts, 1, MAX_ATTEMPTS),
    FIELD_F32(result_segment, speech_prob, -1, 1),
    FIELD_BOOL(result_segment, dropped),
    FIELD_TEXT(result_segment, reason, MAX_NAME),
    FIELD_U32(result_segment, source, 0, RESULT_SOURCES_MAX),
    FIELD_ARRAY(result_segment, words, word_count, MAX_WORDS, word),
};

static bool segment_holds(const struct result_segment *s)
{
    if (!s->text[0] && !s->dropped)
        return false;
    for (uint32_t i = 0; i < s->word_count; i++)
        if (s->words[i].start_ms < s->start_ms - WORD_SLACK_MS ||
            s->words[i].end_ms > s->end_ms + WORD_SLACK_MS)
            return false;
    return s->speech_prob == -1 || s->speech_prob >= 0;
}

static const struct field account[] = {
    FIELD_I64(result_account, speech_ms, -1, PROTOCOL_MAX_MS),
    FIELD_I64(result_account, dropped_ms, 0, PROTOCOL_MAX_MS),
    FIELD_I64(result_account, missing_ms, 0, PROTOCOL_MAX_MS),
};

static const struct field known_text[] = {
    FIELD_U32(result_known_text, seq, 0, UINT32_MAX - 1),
    FIELD_TEXT(result_known_text, language, MAX_LANGUAGE),
    FIELD_F32(result_known_text, language_prob, 0, 1),
    FIELD_STRUCT(result_known_text, account, account),
    FIELD_ARRAY(result_known_text, segments, segment_count, UINT32_MAX, segment),
};

static bool known_text_holds(const struct result_known_text *t)
{
    for (uint32_t i = 0; i < t->segment_count; i++)
        if (!segment_holds(&t->segments[i]) ||
            (i && t->segments[i].start_ms < t->segments[i - 1].start_ms))
            return false;
    return result_account_holds(&t->account);
}

static const struct field track[] = {
    FIELD_U32(msg_track, stage, 0, SETUP_MAX_STAGES - 1),
    FIELD_TEXT(msg_track, language, MAX_LANGUAGE),
    FIELD_ARRAY(msg_track, skip, skip_count, UINT32_MAX, number),
    FIELD_ARRAY(msg_track, known_text, known_text_count, UINT32_MAX, known_text),
};

static const struct field lease[] = {
    FIELD_U64(msg_lease, lease_id, UINT64_MAX),
    FIELD_I64(msg_lease, media_id, INT64_MIN, INT64_MAX),
    FIELD_NAME(msg_lease, path, MAX_PATH),
    FIELD_NAME(msg_lease, member, MAX_MEMBER),
    FIELD_U32(msg_lease, nth, 0, UINT32_MAX),
    FIELD_U64(msg_lease, size_bytes, INT64_MAX),
    FIELD_FIXED(msg_lease, fingerprint),
    FIELD_BOOL(msg_lease, want_hash),
    FIELD_U32(msg_lease, shard_ms, LEASE_SHARD_MS_MIN, LEASE_SHARD_MS_MAX),
    FIELD_U32(msg_lease, first, 0, UINT32_MAX - 1),
    FIELD_U32(msg_lease, last, 0, UINT32_MAX),
    FIELD_ARRAY(msg_lease, tracks, track_count, SETUP_MAX_STAGES, track),
    FIELD_I64(msg_lease, total_ms, 0, PROTOCOL_MAX_MS),
    FIELD_ARRAY(msg_lease, passages, passage_count, UINT32_MAX, passage),
};

static bool track_holds(const struct msg_track *t, const struct msg_lease *of)
{
    for (uint32_t i = 0; i < t->skip_count; i++)
        if (t->skip[i] < of->first || t->skip[i] > of->last || (i && t->skip[i] <= t->skip[i - 1]))
            return false;
    for (uint32_t i = 0; i < t->known_text_count; i++)
        if (t->known_text[i].seq < of->first || t->known_text[i].seq > of->last ||
            (i && t->known_text[i].seq <= t->known_text[i - 1].seq) ||
            !known_text_holds(&t->known_text[i]))
            return false;
    return true;
}

/* No stage has two tracks, and the first has one. */
static bool lease_holds(const void *of)
{
    const struct msg_lease *m = of;

    if (m->track_count < 1 || m->tracks[0].stage != 0)
        return false;
    for (uint32_t i = 0; i < m->track_count; i++)
        if (!track_holds(&m->tracks[i], m) || (i && m->tracks[i].stage <= m->tracks[i - 1].stage))
            return false;
    return m->path[0] == '/' && m->first <= m->last &&
           (m->track_count == 1 || m->passage_count == 0);
}

static const struct field cap[] = {
    FIELD_U64(msg_cap, lease_id, UINT64_MAX),
    FIELD_U32(msg_cap, last, 0, UINT32_MAX),
};

static const struct field cancel[] = {
    FIELD_U64(msg_cancel, lease_id, UINT64_MAX),
    FIELD_U32(msg_cancel, track, 0, SETUP_MAX_STAGES - 1),
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

static bool media_holds(const void *of)
{
    const struct msg_media *m = of;

    for (uint32_t i = 0; i < m->source_count; i++)
        if (!m->sources[i].label[0])
            return false;
    return m->source_count != 1;
}

static const struct field media[] = {
    FIELD_U64(msg_media, lease_id, UINT64_MAX),
    FIELD_I64(msg_media, media_id, INT64_MIN, INT64_MAX),
    FIELD_I64(msg_media, duration_ms, -1, PROTOCOL_MAX_MS),
    FIELD_U32(msg_media, sample_rate_hz, 0, INT32_MAX),
    FIELD_U32(msg_media, channels, 0, UINT16_MAX),
    FIELD_U32(msg_media, audio_tracks, 0, UINT16_MAX),
    FIELD_BOOL(msg_media, no_sound),
    FIELD_TEXT(msg_media, left_out, MAX_NAME),
    FIELD_TEXT(msg_media, mix_left_out, MAX_NAME),
    FIELD_TEXT(msg_media, container, MAX_NAME),
    FIELD_TEXT(msg_media, codec, MAX_NAME),
    FIELD_ARRAY(msg_media, sources, source_count, RESULT_SOURCES_MAX, source),
    FIELD_ARRAY(msg_media, tags, tag_count, RESULT_TAGS_MAX, tag),
};

static const struct field sound[] = {
    FIELD_SPAN(result_sound, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_U32(result_sound, class_id, 0, INT32_MAX),
    FIELD_TEXT(result_sound, name, MAX_NAME),
    FIELD_F32(result_sound, score, 0, 1),
};

static const struct field vector[] = {
    FIELD_SPAN(result_vector, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_UNIT(result_vector, values, msg_shard_done, vector_size),
};

static const struct field voices[] = {
    FIELD_U32(result_voices, windows, 0, MAX_WINDOWS),
    FIELD_REST_IF(result_voices, windows),
    FIELD_U32(result_voices, first, 0, INT32_MAX),
    FIELD_U32(result_voices, frames, 1, MAX_FRAMES),
    FIELD_U32(result_voices, speakers, 1, MAX_SPEAKERS),
    FIELD_U32(result_voices, size, 1, MAX_VECTOR),
    FIELD_U8S(result_voices, active, windows, frames),
    FIELD_ARRAY(result_voices, of, vector_count, MAX_HEARD, number),
    FIELD_F32S(result_voices, vectors, vector_count, size),
};

static bool voices_hold(const void *of)
{
    const struct result_voices *m = of;
    uint64_t next = 0;
    uint8_t any = 0;

    for (size_t i = 0; i < (size_t)m->windows * m->frames; i++)
        any |= m->active[i];
    for (uint32_t i = 0; i < m->vector_count; i++) {
        if (m->of[i] < next || m->of[i] >= m->windows * m->speakers)
            return false;
        next = (uint64_t)m->of[i] + 1;
    }
    return any >> m->speakers == 0;
}

static const struct field shard_done[] = {
    FIELD_U64(msg_shard_done, lease_id, UINT64_MAX),
    FIELD_I64(msg_shard_done, media_id, INT64_MIN, INT64_MAX),
    FIELD_U32(msg_shard_done, track, 0, SETUP_MAX_STAGES - 1),
    FIELD_U32(msg_shard_done, seq, 0, UINT32_MAX),
    FIELD_SPAN(msg_shard_done, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_TEXT(msg_shard_done, language, MAX_LANGUAGE),
    FIELD_F32(msg_shard_done, language_prob, 0, 1),
    FIELD_U32(msg_shard_done, windows, 0, UINT32_MAX),
    FIELD_U32(msg_shard_done, wall_ms, 0, UINT32_MAX),
    FIELD_U32(msg_shard_done, shards, 0, UINT32_MAX),
    FIELD_I64(msg_shard_done, total_ms, 0, PROTOCOL_MAX_MS),
    FIELD_STRUCT(msg_shard_done, account, account),
    FIELD_ARRAY(msg_shard_done, segments, segment_count, UINT32_MAX, segment),
    FIELD_ARRAY(msg_shard_done, sounds, sound_count, UINT32_MAX, sound),
    FIELD_U32(msg_shard_done, vector_size, 0, MAX_VECTOR),
    FIELD_ARRAY(msg_shard_done, vectors, vector_count, UINT32_MAX, vector),
    FIELD_STRUCT(msg_shard_done, voices, voices),
};

/* Without vectors there is no size either, and without shards no length. */
static bool shard_done_holds(const void *of)
{
    const struct msg_shard_done *m = of;

    for (uint32_t i = 0; i < m->segment_count; i++)
        if (!segment_holds(&m->segments[i]))
            return false;
    return (m->vector_size == 0) == (m->vector_count == 0) && (m->shards || m->total_ms == 0) &&
           result_account_holds(&m->account) && voices_hold(&m->voices);
}

static const struct field shard_failed[] = {
    FIELD_U64(msg_shard_failed, lease_id, UINT64_MAX),
    FIELD_I64(msg_shard_failed, media_id, INT64_MIN, INT64_MAX),
    FIELD_U32(msg_shard_failed, track, 0, SETUP_MAX_STAGES - 1),
    FIELD_U32(msg_shard_failed, seq, 0, UINT32_MAX),
    FIELD_CODE(msg_shard_failed, code, ERR_LAST, -1),
    FIELD_TEXT(msg_shard_failed, message, MAX_MESSAGE),
};

static const struct field channel[] = {
    FIELD_U32(result_channel, track, 1, UINT32_MAX),
    FIELD_U32(result_channel, channel, 0, UINT32_MAX),
    FIELD_I64(result_channel, sound_ms, -1, RESULT_CHANNEL_MS_MAX),
    FIELD_I64(result_channel, length_ms, -1, RESULT_CHANNEL_MS_MAX),
    FIELD_BOOL(result_channel, heard),
};

static const struct field lease_end[] = {
    FIELD_U64(msg_lease_end, lease_id, UINT64_MAX),
    FIELD_I64(msg_lease_end, media_id, INT64_MIN, INT64_MAX),
    FIELD_CODE(msg_lease_end, code, ERR_LAST, 0),
    FIELD_TEXT(msg_lease_end, message, MAX_MESSAGE),
    FIELD_BOOL(msg_lease_end, reached_end),
    FIELD_I64(msg_lease_end, total_ms, 0, PROTOCOL_MAX_MS),
    FIELD_U32(msg_lease_end, shards, 0, UINT32_MAX),
    FIELD_BOOL(msg_lease_end, has_hash),
    FIELD_FIXED(msg_lease_end, content_hash),
    FIELD_TEXT(msg_lease_end, damage, MAX_MESSAGE),
    FIELD_TEXT(msg_lease_end, clock, MAX_MESSAGE),
    FIELD_ARRAY(msg_lease_end, channels, channel_count, RESULT_CHANNELS_MAX, channel),
};

static bool lease_end_holds(const void *of)
{
    const struct msg_lease_end *m = of;

    for (uint32_t i = 0; i < m->channel_count; i++)
        if (!result_channel_holds(&m->channels[i]))
            return false;
    return !m->reached_end || m->shards >= 1;
}

static const struct field heartbeat[] = {
    FIELD_U64(msg_heartbeat, audio_ms, UINT64_MAX),
    FIELD_U64(msg_heartbeat, decoded_ms, UINT64_MAX),
    FIELD_U32(msg_heartbeat, leases, 0, UINT32_MAX),
    FIELD_U32(msg_heartbeat, windows, 0, UINT32_MAX),
    FIELD_U64(msg_heartbeat, rss_bytes, UINT64_MAX),
    FIELD_U64(msg_heartbeat, engine_beat, UINT64_MAX),
    FIELD_U64(msg_heartbeat, vram_bytes, INT64_MAX),
    FIELD_U64(msg_heartbeat, vram_peak, INT64_MAX),
};

static const struct field log_line[] = {
    FIELD_U8(msg_log, level, LOG_DEBUG),
    FIELD_TEXT(msg_log, line, MAX_MESSAGE),
};

static const struct field tuned[] = {
    FIELD_U32(msg_tuned, slots, 1, MAX_SLOTS),
    FIELD_U32(msg_tuned, windows, 1, MAX_SLOTS),
    FIELD_TEXT(msg_tuned, reason, MAX_MESSAGE),
};

static const struct field finalize[] = {
    FIELD_I64(msg_finalize, task_id, INT64_MIN, INT64_MAX),
    FIELD_NAME(msg_finalize, model_dir, MAX_PATH),
    FIELD_TEXT(msg_finalize, model_hash, MAX_NAME),
    FIELD_TEXT(msg_finalize, params_json, MAX_PARAMS),
    FIELD_I64(msg_finalize, total_ms, 0, PROTOCOL_MAX_MS),
    FIELD_BOOL(msg_finalize, apart),
    FIELD_U32(msg_finalize, threads, 0, 4096),
};

static const struct field speaker[] = {
    FIELD_I64(result_speaker, speech_ms, 0, PROTOCOL_MAX_MS),
    FIELD_MAYBE_UNIT(result_speaker, values, result_people, size),
};

static const struct field turn[] = {
    FIELD_SPAN(result_turn, start_ms, end_ms, PROTOCOL_MAX_MS),
    FIELD_U32(result_turn, speaker, 0, MAX_FINALIZED_SPEAKERS),
};

static const struct field people[] = {
    FIELD_U32(result_people, size, 0, MAX_VECTOR),
    FIELD_ARRAY(result_people, speakers, speaker_count, MAX_FINALIZED_SPEAKERS, speaker),
    FIELD_ARRAY(result_people, turns, turn_count, UINT32_MAX, turn),
};

static const struct field finalized[] = {
    FIELD_I64(msg_finalized, task_id, INT64_MIN, INT64_MAX),
    FIELD_U32(msg_finalized, wall_ms, 0, UINT32_MAX),
    FIELD_STRUCT(msg_finalized, people, people),
};

static bool finalized_holds(const void *of)
{
    const struct result_people *p = &((const struct msg_finalized *)of)->people;

    for (uint32_t i = 0; i < p->turn_count; i++)
        if (p->turns[i].speaker >= p->speaker_count ||
            (i && p->turns[i].start_ms < p->turns[i - 1].start_ms))
            return false;
    return true;
}

static const struct field finalize_failed[] = {
    FIELD_I64(msg_finalize_failed, task_id, INT64_MIN, INT64_MAX),
    FIELD_CODE(msg_finalize_failed, code, ERR_LAST, -1),
    FIELD_TEXT(msg_finalize_failed, message, MAX_MESSAGE),
};

static const struct fields kinds[] = {
    [MSG_HELLO] = FIELDS("HELLO", msg_hello, hello, NULL),
    [MSG_SETUP] = FIELDS("SETUP", msg_setup, setup, setup_holds),
    [MSG_READY] = FIELDS("READY", msg_ready, ready, ready_holds),
    [MSG_FATAL] = FIELDS("FATAL", msg_fatal, fatal, NULL),
    [MSG_LEASE] = FIELDS("LEASE", msg_lease, lease, lease_holds),
    [MSG_CAP] = FIELDS("CAP", msg_cap, cap, NULL),
    [MSG_CANCEL] = FIELDS("CANCEL", msg_cancel, cancel, NULL),
    [MSG_MEDIA] = FIELDS("MEDIA", msg_media, media, media_holds),
    [MSG_SHARD_DONE] = FIELDS("SHARD_DONE", msg_shard_done, shard_done, shard_done_holds),
    [MSG_SHARD_FAILED] = FIELDS("SHARD_FAILED", msg_shard_failed, shard_failed, NULL),
    [MSG_LEASE_END] = FIELDS("LEASE_END", msg_lease_end, lease_end, lease_end_holds),
    [MSG_HEARTBEAT] = FIELDS("HEARTBEAT", msg_heartbeat, heartbeat, NULL),
    [MSG_LOG] = FIELDS("LOG", msg_log, log_line, NULL),
    [MSG_TUNED] = FIELDS("TUNED", msg_tuned, tuned, NULL),
    [MSG_FINALIZE] = FIELDS("FINALIZE", msg_finalize, finalize, NULL),
    [MSG_VOICES] = FIELDS("VOICES", result_voices, voices, voices_hold),
    [MSG_FINALIZED] = FIELDS("FINALIZED", msg_finalized, finalized, finalized_holds),
    [MSG_FINALIZE_FAILED] = FIELDS("FINALIZE_FAILED", msg_finalize_failed, finalize_failed, NULL),
};

const struct fields *msg_fields(uint8_t type)
{
    return type < FIELD_COUNT(kinds) && kinds[type].list ? &kinds[type] : NULL;
}
