/* A finished shard as a message: its segments and their words. Bounds as in protocol.c. */
#include "workers/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "workers/protocol_get.h"

#define MAX_TEXT (64u << 10) /* of one segment: a window has at most some 2 KiB */
#define SEGMENT_BYTES 57u    /* of the smallest encoded segment */
#define WORD_BYTES 24u       /* of the smallest encoded word */
#define MAX_WORDS 4096u      /* of one segment: a window has at most some 200 */
#define MAX_ATTEMPTS 16u
/* How far outside of its segment a word may lie: a window's length, since both are of one. */
#define WORD_SLACK_MS 30000

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
