/* Bounds are generous for what the program sends and small for what a broken peer could make us
 * allocate: an array's count is held against the bytes that are really there. What leases and
 * shards carry, and what settling is about, has files of its own: protocol_lease.c, _shard.c,
 * _voices.c, _settle.c. */
#include "workers/wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "workers/wire/protocol_get.h"

#define MAX_SLOTS 4096u /* and windows that an encoder takes at once */

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

#define COMPANION_BYTES 16u /* of the smallest encoded one */

static void put_companion(struct buf *out, const struct msg_companion *c)
{
    buf_put_str(out, c->stage);
    buf_put_str(out, c->model_dir);
    buf_put_str(out, c->model_hash);
    buf_put_str(out, c->params_json);
}

static void get_companions(struct reader *r, struct msg_setup *m)
{
    uint32_t n = get_count(r, COMPANION_BYTES);

    require(r, n <= SETUP_MAX_COMPANIONS);
    if (n == 0 || r->failed)
        return;
    m->companions = calloc(n, sizeof(*m->companions));
    require_memory(r, m->companions);
    while (m->companion_count < n && !r->failed) {
        struct msg_companion *c = &m->companions[m->companion_count++];

        c->stage = get_text(r, MAX_NAME);
        c->model_dir = reader_str(r, MAX_PATH);
        c->model_hash = get_text(r, MAX_NAME);
        c->params_json = get_text(r, MAX_PARAMS);
    }
}

void msg_setup_put(struct buf *out, const struct msg_setup *m)
{
    buf_put_str(out, m->stage);
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
    buf_put_u32(out, m->companion_count);
    for (uint32_t i = 0; i < m->companion_count; i++)
        put_companion(out, &m->companions[i]);
}

int msg_setup_get(const uint8_t *data, size_t len, struct msg_setup *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_setup m = {0};

    m.stage = get_text(&r, MAX_NAME);
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
    get_companions(&r, &m);
    GET_END(setup, "SETUP");
}

void msg_setup_free(struct msg_setup *m)
{
    free(m->stage);
    free(m->model_dir);
    free(m->model_hash);
    free(m->precision);
    free(m->params_json);
    for (uint32_t i = 0; i < m->companion_count; i++) {
        free(m->companions[i].stage);
        free(m->companions[i].model_dir);
        free(m->companions[i].model_hash);
        free(m->companions[i].params_json);
    }
    free(m->companions);
    memset(m, 0, sizeof(*m));
}

static void get_refusals(struct reader *r, struct msg_ready *m)
{
    uint32_t n = get_count(r, 4);

    require(r, n <= SETUP_MAX_COMPANIONS);
    if (n == 0 || r->failed)
        return;
    m->companions = calloc(n, sizeof(*m->companions));
    require_memory(r, m->companions);
    while (m->companion_count < n && !r->failed)
        m->companions[m->companion_count++] = get_text(r, MAX_MESSAGE);
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
    buf_put_u32(out, m->companion_count);
    for (uint32_t i = 0; i < m->companion_count; i++)
        buf_put_str(out, m->companions[i]);
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
    get_refusals(&r, &m);
    GET_END(ready, "READY");
}

void msg_ready_free(struct msg_ready *m)
{
    free(m->description);
    free(m->device);
    free(m->device_id);
    free(m->driver);
    free(m->precision);
    for (uint32_t i = 0; i < m->companion_count; i++)
        free(m->companions[i]);
    free(m->companions);
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
