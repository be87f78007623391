/* Bounds are generous for what the program sends and small for what a broken peer could make us
 * allocate: an array's count is held against the bytes that are really there. */
#include "workers/protocol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"

#define MAX_NAME 256u /* devices, codecs, versions, hashes */
#define MAX_LANGUAGE 15u
#define MAX_MESSAGE 8192u /* sentences for people */
#define MAX_PARAMS (64u << 10)
#define MAX_PATH (128u << 10) /* the kernel takes 4096; enqueue may have seen longer ones */
#define MAX_MEMBER (1u << 20) /* pax headers know no bound */
#define MAX_TEXT (64u << 10)  /* of one segment: a window has at most some 2 KiB */
#define SEGMENT_BYTES 57u     /* of the smallest encoded segment */
#define WORD_BYTES 24u        /* of the smallest encoded word */
#define MAX_WORDS 4096u       /* of one segment: a window has at most some 200 */
#define MAX_ATTEMPTS 16u
/* How far outside of its segment a word may lie: a window's length, since both are of one. */
#define WORD_SLACK_MS 30000
#define MAX_SLOTS 4096u /* and windows that an encoder takes at once */

static int malformed(const struct reader *r, const char *name, struct err *err)
{
    if (r->no_memory)
        return err_set(err, ERR_NOMEM, "no memory for a %s message", name);
    return err_set(err, ERR_PROTOCOL, "a malformed %s message (%zu bytes, wrong near byte %zu)",
                   name, r->len, r->pos);
}

/* Ends a get: what does not hold makes the reader fail, so that one test at the end is enough. */
static void require(struct reader *r, bool holds)
{
    if (!holds)
        r->failed = true;
}

static void require_memory(struct reader *r, const void *p)
{
    if (!p)
        r->failed = r->no_memory = true;
}

static bool get_bool(struct reader *r)
{
    uint8_t v = reader_u8(r);

    require(r, v <= 1);
    return v == 1;
}

static char *get_text(struct reader *r, size_t max)
{
    char *s = reader_str(r, max);

    require(r, s && utf8_valid(s, strlen(s)));
    return s;
}

static int64_t get_ms(struct reader *r, int64_t least)
{
    int64_t v = reader_i64(r);

    require(r, v >= least && v <= PROTOCOL_MAX_MS);
    return v;
}

static int32_t get_code(struct reader *r, bool may_be_ok)
{
    int32_t v = (int32_t)reader_u32(r);

    require(r, v >= ERR_USAGE && v <= (may_be_ok ? 0 : -1));
    return v;
}

static float get_f32(struct reader *r)
{
    float v = reader_f32(r);

    require(r, isfinite(v));
    return v;
}

static uint32_t get_u32(struct reader *r, uint32_t least, uint32_t most)
{
    uint32_t v = reader_u32(r);

    require(r, v >= least && v <= most);
    return v;
}

/* Times real time: from 0, for unknown, up. */
static float get_rate(struct reader *r)
{
    float v = get_f32(r);

    require(r, v >= 0);
    return v;
}

static float get_probability(struct reader *r)
{
    float v = get_f32(r);

    require(r, v >= 0 && v <= 1);
    return v;
}

/* Of memory: the catalog keeps it as a signed integer. */
static uint64_t get_bytes(struct reader *r)
{
    uint64_t v = reader_u64(r);

    require(r, v <= INT64_MAX);
    return v;
}

static void get_16(struct reader *r, uint8_t out[16])
{
    const uint8_t *p = reader_raw(r, 16);

    if (p)
        memcpy(out, p, 16);
}

/* The common end of every get; `m` is the local message, `r` its reader. */
#define GET_END(name, label)                  \
    do {                                      \
        if (!reader_done(&r)) {               \
            msg_##name##_free(&m);            \
            memset(ret, 0, sizeof(*ret));     \
            return malformed(&r, label, err); \
        }                                     \
        *ret = m;                             \
        return 0;                             \
    } while (0)

void msg_hello_put(struct buf *out, const struct msg_hello *m)
{
    buf_put_u32(out, m->pid);
    buf_put_str(out, m->device);
    buf_put_str(out, m->program);
}

int msg_hello_get(const uint8_t *data, size_t len, struct msg_hello *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_hello m = {0};

    m.pid = reader_u32(&r);
    m.device = get_text(&r, MAX_NAME);
    m.program = get_text(&r, MAX_NAME);
    GET_END(hello, "HELLO");
}

void msg_hello_free(struct msg_hello *m)
{
    free(m->device);
    free(m->program);
    memset(m, 0, sizeof(*m));
}

void msg_setup_put(struct buf *out, const struct msg_setup *m)
{
    buf_put_str(out, m->model_dir);
    buf_put_str(out, m->model_hash);
    buf_put_str(out, m->precision);
    buf_put_str(out, m->params_json);
    buf_put_u32(out, m->slots);
    buf_put_u32(out, m->decoders);
    buf_put_u32(out, m->threads);
    buf_put_u64(out, m->pcm_bytes);
    buf_put_u32(out, m->windows);
    buf_put_u64(out, m->vram_budget);
    buf_put_u8(out, m->deterministic);
    buf_put_u32(out, m->tuned_slots);
    buf_put_u32(out, m->tuned_windows);
    buf_put_f32(out, m->tuned_rate);
}

int msg_setup_get(const uint8_t *data, size_t len, struct msg_setup *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_setup m = {0};

    m.model_dir = reader_str(&r, MAX_PATH);
    m.model_hash = get_text(&r, MAX_NAME);
    m.precision = get_text(&r, MAX_NAME);
    m.params_json = get_text(&r, MAX_PARAMS);
    m.slots = get_u32(&r, 0, MAX_SLOTS);
    m.decoders = get_u32(&r, 0, 1024);
    m.threads = get_u32(&r, 0, 4096);
    m.pcm_bytes = reader_u64(&r);
    m.windows = get_u32(&r, 0, MAX_SLOTS);
    m.vram_budget = reader_u64(&r);
    m.deterministic = get_bool(&r);
    m.tuned_slots = get_u32(&r, 0, MAX_SLOTS);
    m.tuned_windows = get_u32(&r, 0, MAX_SLOTS);
    m.tuned_rate = get_rate(&r);
    GET_END(setup, "SETUP");
}

void msg_setup_free(struct msg_setup *m)
{
    free(m->model_dir);
    free(m->model_hash);
    free(m->precision);
    free(m->params_json);
    memset(m, 0, sizeof(*m));
}

void msg_ready_put(struct buf *out, const struct msg_ready *m)
{
    buf_put_u32(out, m->capacity);
    buf_put_str(out, m->description);
    buf_put_str(out, m->device);
    buf_put_str(out, m->device_id);
    buf_put_str(out, m->driver);
    buf_put_str(out, m->precision);
    buf_put_u32(out, m->slots);
    buf_put_u32(out, m->windows);
    buf_put_u64(out, m->predicted_bytes);
    buf_put_u64(out, m->allocated_bytes);
    buf_put_f32(out, m->rate);
    buf_put_u8(out, m->measured);
}

int msg_ready_get(const uint8_t *data, size_t len, struct msg_ready *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_ready m = {0};

    m.capacity = get_u32(&r, 1, 1u << 16);
    m.description = get_text(&r, MAX_MESSAGE);
    m.device = get_text(&r, MAX_NAME);
    m.device_id = get_text(&r, MAX_NAME);
    m.driver = get_text(&r, MAX_NAME);
    m.precision = get_text(&r, MAX_NAME);
    m.slots = get_u32(&r, 1, MAX_SLOTS);
    m.windows = get_u32(&r, 1, MAX_SLOTS);
    m.predicted_bytes = get_bytes(&r);
    m.allocated_bytes = get_bytes(&r);
    m.rate = get_rate(&r);
    m.measured = get_bool(&r);
    GET_END(ready, "READY");
}

void msg_ready_free(struct msg_ready *m)
{
    free(m->description);
    free(m->device);
    free(m->device_id);
    free(m->driver);
    free(m->precision);
    memset(m, 0, sizeof(*m));
}

void msg_fatal_put(struct buf *out, const struct msg_fatal *m)
{
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->message);
}

int msg_fatal_get(const uint8_t *data, size_t len, struct msg_fatal *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_fatal m = {0};

    m.code = get_code(&r, false);
    m.message = get_text(&r, MAX_MESSAGE);
    GET_END(fatal, "FATAL");
}

void msg_fatal_free(struct msg_fatal *m)
{
    free(m->message);
    memset(m, 0, sizeof(*m));
}

void msg_lease_put(struct buf *out, const struct msg_lease *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_str(out, m->path);
    buf_put_str(out, m->member);
    buf_put_u64(out, m->size_bytes);
    buf_put(out, m->fingerprint, 16);
    buf_put_u8(out, m->want_hash);
    buf_put_str(out, m->language);
    buf_put_u32(out, m->shard_ms);
    buf_put_u32(out, m->first);
    buf_put_u32(out, m->last);
    buf_put_u32(out, m->skip_count);
    for (uint32_t i = 0; i < m->skip_count; i++)
        buf_put_u32(out, m->skip[i]);
}

static void get_skip(struct reader *r, struct msg_lease *m)
{
    uint32_t n = reader_u32(r);

    if (r->failed || n > (r->len - r->pos) / 4) {
        r->failed = true;
        return;
    }
    if (n == 0)
        return;
    m->skip = malloc(n * sizeof(*m->skip));
    require_memory(r, m->skip);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        m->skip[i] = get_u32(r, i ? m->skip[i - 1] : m->first, m->last);
        require(r, i == 0 || m->skip[i] != m->skip[i - 1]);
    }
    m->skip_count = r->failed ? 0 : n;
}

int msg_lease_get(const uint8_t *data, size_t len, struct msg_lease *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_lease m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.path = reader_str(&r, MAX_PATH);
    require(&r, m.path && m.path[0] == '/');
    m.member = reader_str(&r, MAX_MEMBER);
    m.size_bytes = reader_u64(&r);
    require(&r, m.size_bytes <= INT64_MAX);
    get_16(&r, m.fingerprint);
    m.want_hash = get_bool(&r);
    m.language = get_text(&r, MAX_LANGUAGE);
    m.shard_ms = get_u32(&r, LEASE_SHARD_MS_MIN, LEASE_SHARD_MS_MAX);
    m.first = reader_u32(&r);
    m.last = reader_u32(&r);
    require(&r, m.first <= m.last && m.first < UINT32_MAX);
    get_skip(&r, &m);
    GET_END(lease, "LEASE");
}

void msg_lease_free(struct msg_lease *m)
{
    free(m->path);
    free(m->member);
    free(m->language);
    free(m->skip);
    memset(m, 0, sizeof(*m));
}

void msg_cap_put(struct buf *out, const struct msg_cap *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_u32(out, m->last);
}

int msg_cap_get(const uint8_t *data, size_t len, struct msg_cap *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_cap m = {0};

    m.lease_id = reader_u64(&r);
    m.last = reader_u32(&r);
    GET_END(cap, "CAP");
}

void msg_cap_free(struct msg_cap *m) { memset(m, 0, sizeof(*m)); }

void msg_cancel_put(struct buf *out, const struct msg_cancel *m) { buf_put_u64(out, m->lease_id); }

int msg_cancel_get(const uint8_t *data, size_t len, struct msg_cancel *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_cancel m = {0};

    m.lease_id = reader_u64(&r);
    GET_END(cancel, "CANCEL");
}

void msg_cancel_free(struct msg_cancel *m) { memset(m, 0, sizeof(*m)); }

void msg_media_put(struct buf *out, const struct msg_media *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_i64(out, m->duration_ms);
    buf_put_u32(out, m->sample_rate_hz);
    buf_put_u32(out, m->channels);
    buf_put_str(out, m->container);
    buf_put_str(out, m->codec);
    buf_put_str(out, m->title);
}

int msg_media_get(const uint8_t *data, size_t len, struct msg_media *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_media m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.duration_ms = get_ms(&r, -1);
    m.sample_rate_hz = get_u32(&r, 0, INT32_MAX);
    m.channels = get_u32(&r, 0, UINT16_MAX);
    m.container = get_text(&r, MAX_NAME);
    m.codec = get_text(&r, MAX_NAME);
    m.title = get_text(&r, MAX_MESSAGE);
    GET_END(media, "MEDIA");
}

void msg_media_free(struct msg_media *m)
{
    free(m->container);
    free(m->codec);
    free(m->title);
    memset(m, 0, sizeof(*m));
}

static void put_word(struct buf *out, const struct msg_word *w)
{
    buf_put_i64(out, w->start_ms);
    buf_put_i64(out, w->end_ms);
    buf_put_str(out, w->text);
    buf_put_f32(out, w->probability);
}

static void put_segment(struct buf *out, const struct msg_segment *s)
{
    buf_put_i64(out, s->start_ms);
    buf_put_i64(out, s->end_ms);
    buf_put_str(out, s->text);
    buf_put_str(out, s->language);
    buf_put_f32(out, s->avg_logprob);
    buf_put_f32(out, s->no_speech_prob);
    buf_put_f32(out, s->compression_ratio);
    buf_put_f32(out, s->temperature);
    buf_put_u32(out, s->attempts);
    buf_put_f32(out, s->speech_prob);
    buf_put_u8(out, s->dropped);
    buf_put_str(out, s->reason);
    buf_put_u32(out, s->word_count);
    for (uint32_t i = 0; i < s->word_count; i++)
        put_word(out, &s->words[i]);
}

static void get_word(struct reader *r, const struct msg_segment *s, struct msg_word *w)
{
    w->start_ms = get_ms(r, 0);
    w->end_ms = get_ms(r, w->start_ms);
    require(r,
            w->start_ms >= s->start_ms - WORD_SLACK_MS && w->end_ms <= s->end_ms + WORD_SLACK_MS);
    w->text = get_text(r, MAX_TEXT);
    w->probability = get_probability(r);
}

static void get_words(struct reader *r, struct msg_segment *s)
{
    uint32_t n = get_u32(r, 0, MAX_WORDS);

    if (r->failed || n > (r->len - r->pos) / WORD_BYTES) {
        r->failed = true;
        return;
    }
    if (n == 0)
        return;
    s->words = calloc(n, sizeof(*s->words));
    require_memory(r, s->words);
    while (s->word_count < n && !r->failed)
        get_word(r, s, &s->words[s->word_count++]);
}

static void get_segment(struct reader *r, struct msg_segment *s)
{
    s->start_ms = get_ms(r, 0);
    s->end_ms = get_ms(r, s->start_ms);
    s->text = get_text(r, MAX_TEXT);
    s->language = get_text(r, MAX_LANGUAGE);
    s->avg_logprob = get_f32(r);
    s->no_speech_prob = get_f32(r);
    s->compression_ratio = get_f32(r);
    s->temperature = get_f32(r);
    s->attempts = get_u32(r, 1, MAX_ATTEMPTS);
    s->speech_prob = get_f32(r);
    require(r, s->speech_prob == -1 || (s->speech_prob >= 0 && s->speech_prob <= 1));
    s->dropped = get_bool(r);
    s->reason = get_text(r, MAX_NAME);
    get_words(r, s);
}

void msg_shard_done_put(struct buf *out, const struct msg_shard_done *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_u32(out, m->seq);
    buf_put_i64(out, m->start_ms);
    buf_put_i64(out, m->end_ms);
    buf_put_str(out, m->language);
    buf_put_f32(out, m->language_prob);
    buf_put_u32(out, m->windows);
    buf_put_u32(out, m->wall_ms);
    buf_put_u32(out, m->segment_count);
    for (uint32_t i = 0; i < m->segment_count; i++)
        put_segment(out, &m->segments[i]);
}

static void get_segments(struct reader *r, struct msg_shard_done *m)
{
    uint32_t n = reader_u32(r);

    if (r->failed || n > (r->len - r->pos) / SEGMENT_BYTES) {
        r->failed = true;
        return;
    }
    if (n == 0)
        return;
    m->segments = calloc(n, sizeof(*m->segments));
    require_memory(r, m->segments);
    /* The count goes up with what was read, so that free sees only whole ones or zeros. */
    while (m->segment_count < n && !r->failed)
        get_segment(r, &m->segments[m->segment_count++]);
}

int msg_shard_done_get(const uint8_t *data, size_t len, struct msg_shard_done *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_shard_done m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.seq = reader_u32(&r);
    m.start_ms = get_ms(&r, 0);
    m.end_ms = get_ms(&r, m.start_ms);
    m.language = get_text(&r, MAX_LANGUAGE);
    m.language_prob = get_probability(&r);
    m.windows = reader_u32(&r);
    m.wall_ms = reader_u32(&r);
    get_segments(&r, &m);
    GET_END(shard_done, "SHARD_DONE");
}

void msg_shard_done_free(struct msg_shard_done *m)
{
    free(m->language);
    for (uint32_t i = 0; i < m->segment_count; i++) {
        struct msg_segment *s = &m->segments[i];

        free(s->text);
        free(s->language);
        free(s->reason);
        for (uint32_t k = 0; k < s->word_count; k++)
            free(s->words[k].text);
        free(s->words);
    }
    free(m->segments);
    memset(m, 0, sizeof(*m));
}

void msg_shard_failed_put(struct buf *out, const struct msg_shard_failed *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_u32(out, m->seq);
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->message);
}

int msg_shard_failed_get(const uint8_t *data, size_t len, struct msg_shard_failed *ret,
                         struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_shard_failed m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.seq = reader_u32(&r);
    m.code = get_code(&r, false);
    m.message = get_text(&r, MAX_MESSAGE);
    GET_END(shard_failed, "SHARD_FAILED");
}

void msg_shard_failed_free(struct msg_shard_failed *m)
{
    free(m->message);
    memset(m, 0, sizeof(*m));
}

void msg_lease_end_put(struct buf *out, const struct msg_lease_end *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->message);
    buf_put_u8(out, m->reached_end);
    buf_put_i64(out, m->total_ms);
    buf_put_u32(out, m->shards);
    buf_put_u8(out, m->has_hash);
    buf_put(out, m->content_hash, 16);
    buf_put_str(out, m->damage);
}

int msg_lease_end_get(const uint8_t *data, size_t len, struct msg_lease_end *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_lease_end m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.code = get_code(&r, true);
    m.message = get_text(&r, MAX_MESSAGE);
    m.reached_end = get_bool(&r);
    m.total_ms = get_ms(&r, 0);
    m.shards = reader_u32(&r);
    require(&r, !m.reached_end || m.shards >= 1);
    m.has_hash = get_bool(&r);
    get_16(&r, m.content_hash);
    m.damage = get_text(&r, MAX_MESSAGE);
    GET_END(lease_end, "LEASE_END");
}

void msg_lease_end_free(struct msg_lease_end *m)
{
    free(m->message);
    free(m->damage);
    memset(m, 0, sizeof(*m));
}

void msg_heartbeat_put(struct buf *out, const struct msg_heartbeat *m)
{
    buf_put_u64(out, m->audio_ms);
    buf_put_u64(out, m->decoded_ms);
    buf_put_u32(out, m->leases);
    buf_put_u32(out, m->windows);
    buf_put_u64(out, m->rss_bytes);
    buf_put_u64(out, m->engine_beat);
    buf_put_u64(out, m->vram_bytes);
    buf_put_u64(out, m->vram_peak);
}

int msg_heartbeat_get(const uint8_t *data, size_t len, struct msg_heartbeat *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_heartbeat m = {0};

    m.audio_ms = reader_u64(&r);
    m.decoded_ms = reader_u64(&r);
    m.leases = reader_u32(&r);
    m.windows = reader_u32(&r);
    m.rss_bytes = reader_u64(&r);
    m.engine_beat = reader_u64(&r);
    m.vram_bytes = get_bytes(&r);
    m.vram_peak = get_bytes(&r);
    GET_END(heartbeat, "HEARTBEAT");
}

void msg_heartbeat_free(struct msg_heartbeat *m) { memset(m, 0, sizeof(*m)); }

void msg_log_put(struct buf *out, const struct msg_log *m)
{
    buf_put_u8(out, m->level);
    buf_put_str(out, m->line);
}

int msg_log_get(const uint8_t *data, size_t len, struct msg_log *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_log m = {0};

    m.level = reader_u8(&r);
    require(&r, m.level <= LOG_DEBUG);
    m.line = get_text(&r, MAX_MESSAGE);
    GET_END(log, "LOG");
}

void msg_log_free(struct msg_log *m)
{
    free(m->line);
    memset(m, 0, sizeof(*m));
}

void msg_tuned_put(struct buf *out, const struct msg_tuned *m)
{
    buf_put_u32(out, m->slots);
    buf_put_u32(out, m->windows);
    buf_put_str(out, m->reason);
}

int msg_tuned_get(const uint8_t *data, size_t len, struct msg_tuned *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_tuned m = {0};

    m.slots = get_u32(&r, 1, MAX_SLOTS);
    m.windows = get_u32(&r, 1, MAX_SLOTS);
    m.reason = get_text(&r, MAX_MESSAGE);
    GET_END(tuned, "TUNED");
}

void msg_tuned_free(struct msg_tuned *m)
{
    free(m->reason);
    memset(m, 0, sizeof(*m));
}
