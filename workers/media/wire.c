#include "workers/media/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define TEXT_MAX 1024u

static int malformed(const char *what, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "malformed %s message", what);
}

void wire_put_request(struct buf *out, const struct wire_request *m)
{
    buf_put_u8(out, m->task);
    buf_put_u32(out, m->parent_pid);
    buf_put_str(out, m->member);
    buf_put_u32(out, m->nth);
    buf_put_i64(out, m->skip_samples);
    buf_put_u8(out, m->want_hash);
    buf_put_u8(out, m->has_fingerprint);
    buf_put(out, m->fingerprint, sizeof(m->fingerprint));
    buf_put_u64(out, m->limits.memory_bytes);
    buf_put_u32(out, m->limits.silence_ms);
    buf_put_u64(out, m->limits.cpu_seconds);
    buf_put_u64(out, m->limits.max_entries);
    buf_put_u64(out, m->limits.max_unpacked_bytes);
}

static void get_raw(struct reader *r, void *to, size_t n)
{
    const uint8_t *p = reader_raw(r, n);

    if (p) {
        memcpy(to, p, n);
    }
}

int wire_get_request(const uint8_t *data, size_t len, struct wire_request *ret, char **member,
                     struct err *err)
{
    struct reader r = reader_of(data, len);
    struct wire_request m = {0};
    char *name;

    m.task = reader_u8(&r);
    m.parent_pid = reader_u32(&r);
    name = reader_str(&r, WIRE_MEMBER_MAX);
    m.nth = reader_u32(&r);
    m.skip_samples = reader_i64(&r);
    m.want_hash = reader_u8(&r) != 0;
    m.has_fingerprint = reader_u8(&r) != 0;
    get_raw(&r, m.fingerprint, sizeof(m.fingerprint));
    m.limits.memory_bytes = reader_u64(&r);
    m.limits.silence_ms = reader_u32(&r);
    m.limits.cpu_seconds = reader_u64(&r);
    m.limits.max_entries = reader_u64(&r);
    m.limits.max_unpacked_bytes = reader_u64(&r);
    if (!reader_done(&r) || !name || m.task > WIRE_TASK_SANDBOX) {
        free(name);
        return malformed("request", err);
    }
    m.member = *member = name;
    *ret = m;
    return 0;
}

void wire_put_info(struct buf *out, const struct decoder_info *m)
{
    buf_put_i64(out, m->duration_ms);
    buf_put_u32(out, m->sample_rate_hz);
    buf_put_u32(out, m->channels);
    buf_put_str(out, m->container);
    buf_put_str(out, m->codec);
    buf_put_str(out, m->title);
}

/* A string of the other side into a fixed array; false when it does not fit or is no UTF-8. */
static bool get_text(struct reader *r, char *to, size_t cap)
{
    size_t len = 0;
    const uint8_t *p = reader_bytes(r, cap - 1, &len);

    if (!p || memchr(p, '\0', len) || !utf8_valid(p, len)) {
        return false;
    }
    memcpy(to, p, len);
    to[len] = '\0';
    return true;
}

int wire_get_info(const uint8_t *data, size_t len, struct decoder_info *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct decoder_info m = {0};

    m.duration_ms = reader_i64(&r);
    m.sample_rate_hz = reader_u32(&r);
    m.channels = reader_u32(&r);
    if (!get_text(&r, m.container, sizeof(m.container)) ||
        !get_text(&r, m.codec, sizeof(m.codec)) || !get_text(&r, m.title, sizeof(m.title)) ||
        !reader_done(&r) || m.duration_ms < -1) {
        return malformed("info", err);
    }
    *ret = m;
    return 0;
}

void wire_put_pcm(struct buf *out, const int16_t *pcm, size_t n, int64_t at_sample)
{
    buf_put_i64(out, at_sample);
    for (size_t i = 0; i < n; i++) {
        buf_put_u16(out, (uint16_t)pcm[i]);
    }
}

int wire_get_pcm(const uint8_t *data, size_t len, int16_t *pcm, size_t *n, int64_t *at_sample,
                 struct err *err)
{
    struct reader r = reader_of(data, len);
    int64_t at = reader_i64(&r);
    size_t count = r.failed ? 0 : (len - r.pos) / sizeof(*pcm);

    if (r.failed || count == 0 || count > WIRE_PCM_SAMPLES || (len - r.pos) % sizeof(*pcm) != 0 ||
        at < 0) {
        return malformed("audio", err);
    }
    for (size_t i = 0; i < count; i++) {
        pcm[i] = (int16_t)reader_u16(&r);
    }
    *n = count;
    *at_sample = at;
    return 0;
}

void wire_put_entry(struct buf *out, const struct decoder_entry *m)
{
    buf_put_str(out, m->member);
    buf_put_u32(out, m->nth);
    buf_put_u64(out, m->size_bytes);
    buf_put_i64(out, m->mtime_ms);
    buf_put(out, m->fingerprint, sizeof(m->fingerprint));
    buf_put_bytes(out, m->head, m->head_len);
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->message);
}

int wire_get_entry(const uint8_t *data, size_t len, struct decoder_entry *ret, char **member,
                   char **message, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct decoder_entry m = {0};
    const uint8_t *head;
    char *name = reader_str(&r, WIRE_MEMBER_MAX), *text;

    m.nth = reader_u32(&r);
    m.size_bytes = reader_u64(&r);
    m.mtime_ms = reader_i64(&r);
    get_raw(&r, m.fingerprint, sizeof(m.fingerprint));
    head = reader_bytes(&r, sizeof(m.head), &m.head_len);
    m.code = (int)reader_u32(&r);
    text = reader_str(&r, TEXT_MAX);
    if (!reader_done(&r) || !name || name[0] == '\0' || !head || !text || m.code > 0 ||
        m.code < ERR_USAGE || m.mtime_ms < -1) {
        free(name);
        free(text);
        return malformed("entry", err);
    }
    memcpy(m.head, head, m.head_len);
    m.member = *member = name;
    m.message = *message = text;
    *ret = m;
    return 0;
}

void wire_put_end(struct buf *out, const struct decoder_end *m)
{
    buf_put_i64(out, m->total_samples);
    buf_put_u8(out, m->complete);
    buf_put_u8(out, m->has_hash);
    buf_put(out, m->content_hash, sizeof(m->content_hash));
    buf_put_str(out, m->damage);
}

int wire_get_end(const uint8_t *data, size_t len, struct decoder_end *ret, char **damage,
                 struct err *err)
{
    struct reader r = reader_of(data, len);
    struct decoder_end m = {0};
    char *text;

    m.total_samples = reader_i64(&r);
    m.complete = reader_u8(&r) != 0;
    m.has_hash = reader_u8(&r) != 0;
    get_raw(&r, m.content_hash, sizeof(m.content_hash));
    text = reader_str(&r, TEXT_MAX);
    if (!reader_done(&r) || !text || m.total_samples < 0) {
        free(text);
        return malformed("end", err);
    }
    m.damage = *damage = text;
    *ret = m;
    return 0;
}

void wire_put_error(struct buf *out, const struct err *m)
{
    buf_put_u32(out, (uint32_t)m->code);
    buf_put_str(out, m->msg);
}

int wire_get_error(const uint8_t *data, size_t len, struct err *what, struct err *err)
{
    struct reader r = reader_of(data, len);
    int code = (int)reader_u32(&r);
    struct err m;

    if (!get_text(&r, m.msg, sizeof(m.msg)) || !reader_done(&r)) {
        return malformed("error", err);
    }
    /* A decoder speaks about its file and its own bounds; it cannot stop a run or lose a device. */
    switch (code) {
    case ERR_NOMEM:
    case ERR_IO:
    case ERR_INPUT:
    case ERR_MISSING:
    case ERR_CHANGED:
    case ERR_LIMIT:
        break;
    default:
        return malformed("error", err);
    }
    m.code = code;
    *what = m;
    return 0;
}

void wire_put_sandbox(struct buf *out, const struct sandbox_report *m)
{
    buf_put_u8(out, m->no_new_privs);
    buf_put_u8(out, m->relaxed);
    buf_put_u32(out, m->landlock_abi);
    buf_put_u8(out, m->seccomp);
    buf_put_u64(out, m->memory_bytes);
    buf_put_u64(out, m->cpu_seconds);
    buf_put_u8(out, m->files_refused);
    buf_put_u8(out, m->network_refused);
    buf_put_u8(out, m->processes_refused);
    buf_put_str(out, m->no_landlock);
    buf_put_str(out, m->no_seccomp);
}

int wire_get_sandbox(const uint8_t *data, size_t len, struct sandbox_report *ret, struct err *err)
{
    struct reader r = reader_of(data, len);
    struct sandbox_report m = {0};

    m.no_new_privs = reader_u8(&r) != 0;
    m.relaxed = reader_u8(&r) != 0;
    m.landlock_abi = reader_u32(&r);
    m.seccomp = reader_u8(&r) != 0;
    m.memory_bytes = reader_u64(&r);
    m.cpu_seconds = reader_u64(&r);
    m.files_refused = reader_u8(&r) != 0;
    m.network_refused = reader_u8(&r) != 0;
    m.processes_refused = reader_u8(&r) != 0;
    if (!get_text(&r, m.no_landlock, sizeof(m.no_landlock)) ||
        !get_text(&r, m.no_seccomp, sizeof(m.no_seccomp)) || !reader_done(&r)) {
        return malformed("sandbox", err);
    }
    *ret = m;
    return 0;
}
