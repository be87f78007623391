/* Settling as messages: what a recording's voices are to become, and what became of them. Bounds as
 * in protocol.c. */
#include "workers/wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "workers/wire/protocol_get.h"

#define MAX_SETTLED_SPEAKERS 1000u /* as DIARIZE_MAX_SPEAKERS */
#define SPEAKER_BYTES 9u
#define TURN_BYTES 20u

void msg_settle_put(struct buf *out, const struct msg_settle *m)
{
    buf_put_i64(out, m->task_id);
    buf_put_str(out, m->model_dir);
    buf_put_str(out, m->model_hash);
    buf_put_str(out, m->params_json);
    buf_put_i64(out, m->total_ms);
}

int msg_settle_get(const uint8_t *data, size_t len, struct msg_settle *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_settle m = {0};

    m.task_id = reader_i64(&r);
    m.model_dir = reader_str(&r, MAX_PATH);
    m.model_hash = get_text(&r, MAX_NAME);
    m.params_json = get_text(&r, MAX_PARAMS);
    m.total_ms = get_ms(&r, 0);
    GET_END(settle, "SETTLE");
}

void msg_settle_free(struct msg_settle *m)
{
    free(m->model_dir);
    free(m->model_hash);
    free(m->params_json);
    memset(m, 0, sizeof(*m));
}

void msg_settled_put(struct buf *out, const struct msg_settled *m)
{
    buf_put_i64(out, m->task_id);
    buf_put_u32(out, m->wall_ms);
    buf_put_u32(out, m->size);
    buf_put_u32(out, m->speaker_count);
    for (uint32_t i = 0; i < m->speaker_count; i++) {
        buf_put_i64(out, m->speakers[i].speech_ms);
        buf_put_u8(out, m->size && m->speakers[i].values);
    }
    for (uint32_t i = 0; m->size && i < m->speaker_count; i++)
        if (m->speakers[i].values)
            put_floats(out, m->speakers[i].values, m->size);
    buf_put_u32(out, m->turn_count);
    for (uint32_t i = 0; i < m->turn_count; i++) {
        buf_put_i64(out, m->turns[i].start_ms);
        buf_put_i64(out, m->turns[i].end_ms);
        buf_put_u32(out, m->turns[i].speaker);
    }
}

/* One block, owned by the first speaker that has one. */
static void get_vectors(struct reader *r, struct msg_settled *m, const bool *has, uint32_t n)
{
    size_t count = 0;
    float *values;

    for (uint32_t i = 0; i < n; i++)
        count += has[i];
    require(r, count == 0 || m->size > 0);
    values = get_floats(r, count * m->size);
    for (uint32_t i = 0; i < n && values; i++) {
        if (!has[i])
            continue;
        m->speakers[i].values = values;
        require_length_1(r, values, m->size);
        values += m->size;
    }
}

static void get_speakers(struct reader *r, struct msg_settled *m)
{
    bool has[MAX_SETTLED_SPEAKERS];
    uint32_t n = get_count(r, SPEAKER_BYTES);

    require(r, n <= MAX_SETTLED_SPEAKERS);
    if (r->failed || n == 0)
        return;
    m->speakers = calloc(n, sizeof(*m->speakers));
    require_memory(r, m->speakers);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        m->speakers[i].speech_ms = get_ms(r, 0);
        has[i] = get_bool(r);
    }
    m->speaker_count = n;
    if (!r->failed)
        get_vectors(r, m, has, n);
}

static void get_turn(struct reader *r, const struct msg_settled *m, int64_t least,
                     struct result_turn *t)
{
    t->start_ms = get_ms(r, least);
    t->end_ms = get_ms(r, t->start_ms);
    t->speaker = reader_u32(r);
    require(r, t->speaker < m->speaker_count);
}

static void get_turns(struct reader *r, struct msg_settled *m)
{
    uint32_t n = get_count(r, TURN_BYTES);

    if (n == 0)
        return;
    m->turns = calloc(n, sizeof(*m->turns));
    require_memory(r, m->turns);
    for (uint32_t i = 0; i < n && !r->failed; i++)
        get_turn(r, m, i ? m->turns[i - 1].start_ms : 0, &m->turns[i]);
    m->turn_count = n;
}

int msg_settled_get(const uint8_t *data, size_t len, struct msg_settled *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_settled m = {0};

    m.task_id = reader_i64(&r);
    m.wall_ms = reader_u32(&r);
    m.size = get_u32(&r, 0, MAX_VECTOR);
    get_speakers(&r, &m);
    get_turns(&r, &m);
    GET_END(settled, "SETTLED");
}

void msg_settled_free(struct msg_settled *m)
{
    for (uint32_t i = 0; i < m->speaker_count; i++)
        if (m->speakers[i].values) { /* the block's begin */
            free(m->speakers[i].values);
            break;
        }
    free(m->speakers);
    free(m->turns);
    memset(m, 0, sizeof(*m));
}

void msg_settle_failed_put(struct buf *out, const struct msg_settle_failed *m)
{
    buf_put_i64(out, m->task_id);
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->message);
}

int msg_settle_failed_get(const uint8_t *data, size_t len, struct msg_settle_failed *ret,
                          struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_settle_failed m = {0};

    m.task_id = reader_i64(&r);
    m.code = get_code(&r, false);
    m.message = get_text(&r, MAX_MESSAGE);
    GET_END(settle_failed, "SETTLE_FAILED");
}

void msg_settle_failed_free(struct msg_settle_failed *m)
{
    free(m->message);
    memset(m, 0, sizeof(*m));
}
