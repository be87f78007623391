/* A lease as a message: which shards are done already, and the passages of stages that work on a
 * text. Bounds as in protocol.c. */
#include "workers/wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "workers/wire/protocol_get.h"

#define PASSAGE_BYTES 20u /* of the smallest encoded passage */

static void put_passage(struct buf *out, const struct msg_passage *p)
{
    buf_put_i64(out, p->start_ms);
    buf_put_i64(out, p->end_ms);
    buf_put_str(out, p->text);
}

void msg_lease_put(struct buf *out, const struct msg_lease *m)
{
    buf_put_u64(out, m->lease_id);
    buf_put_i64(out, m->media_id);
    buf_put_u32(out, m->companion);
    buf_put_u64(out, m->with);
    buf_put_u32(out, m->companions);
    buf_put_str(out, m->path);
    buf_put_str(out, m->member);
    buf_put_u32(out, m->nth);
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
    buf_put_i64(out, m->total_ms);
    buf_put_u32(out, m->passage_count);
    for (uint32_t i = 0; i < m->passage_count; i++)
        put_passage(out, &m->passages[i]);
}

static void get_skip(struct reader *r, struct msg_lease *m)
{
    uint32_t n = get_count(r, 4);

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

static void get_passage(struct reader *r, struct msg_passage *p)
{
    p->start_ms = get_ms(r, 0);
    p->end_ms = get_ms(r, p->start_ms);
    p->text = get_text(r, MAX_TEXT);
}

static void get_passages(struct reader *r, struct msg_lease *m)
{
    uint32_t n = get_count(r, PASSAGE_BYTES);

    if (n == 0)
        return;
    m->passages = calloc(n, sizeof(*m->passages));
    require_memory(r, m->passages);
    while (m->passage_count < n && !r->failed)
        get_passage(r, &m->passages[m->passage_count++]);
}

int msg_lease_get(const uint8_t *data, size_t len, struct msg_lease *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct msg_lease m = {0};

    m.lease_id = reader_u64(&r);
    m.media_id = reader_i64(&r);
    m.companion = get_u32(&r, 0, SETUP_MAX_COMPANIONS);
    m.with = reader_u64(&r);
    require(&r, m.companion == 0 || m.with != m.lease_id);
    m.companions = get_u32(&r, 0, m.companion ? 0 : SETUP_MAX_COMPANIONS);
    m.path = reader_str(&r, MAX_PATH);
    require(&r, m.path && m.path[0] == '/');
    m.member = reader_str(&r, MAX_MEMBER);
    m.nth = reader_u32(&r);
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
    m.total_ms = get_ms(&r, 0);
    get_passages(&r, &m);
    GET_END(lease, "LEASE");
}

void msg_lease_free(struct msg_lease *m)
{
    free(m->path);
    free(m->member);
    free(m->language);
    free(m->skip);
    for (uint32_t i = 0; i < m->passage_count; i++)
        free(m->passages[i].text);
    free(m->passages);
    memset(m, 0, sizeof(*m));
}
