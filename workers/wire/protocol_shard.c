/* A finished shard as a message: its segments and their words, sounds, vectors and voices. Bounds
 * as in protocol.c. */
#include "workers/wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "workers/wire/protocol_get.h"

#define SEGMENT_BYTES 57u /* of the smallest encoded segment */
#define WORD_BYTES 24u    /* of the smallest encoded word */
#define SOUND_BYTES 28u   /* of the smallest encoded sound */
#define MAX_WORDS 4096u   /* of one segment: a window has at most some 200 */
#define MAX_ATTEMPTS 16u
/* How far outside of its segment a word may lie: a window's length, since both are of one. */
#define WORD_SLACK_MS 30000

static void put_word(struct buf *out, const struct result_word *w)
{
    buf_put_i64(out, w->start_ms);
    buf_put_i64(out, w->end_ms);
    buf_put_str(out, w->text);
    buf_put_f32(out, w->probability);
}

static void put_segment(struct buf *out, const struct result_segment *s)
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

static void get_word(struct reader *r, const struct result_segment *s, struct result_word *w)
{
    w->start_ms = get_ms(r, 0);
    w->end_ms = get_ms(r, w->start_ms);
    require(r,
            w->start_ms >= s->start_ms - WORD_SLACK_MS && w->end_ms <= s->end_ms + WORD_SLACK_MS);
    w->text = get_text(r, MAX_TEXT);
    w->probability = get_probability(r);
}

static void get_words(struct reader *r, struct result_segment *s)
{
    uint32_t n = get_u32(r, 0, MAX_WORDS);
    struct result_word *words;

    if (r->failed || n > (r->len - r->pos) / WORD_BYTES) {
        r->failed = true;
        return;
    }
    if (n == 0)
        return;
    s->words = words = calloc(n, sizeof(*words));
    require_memory(r, words);
    while (s->word_count < n && !r->failed)
        get_word(r, s, &words[s->word_count++]);
}

static void get_segment(struct reader *r, struct result_segment *s)
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

static void put_sound(struct buf *out, const struct result_sound *s)
{
    buf_put_i64(out, s->start_ms);
    buf_put_i64(out, s->end_ms);
    buf_put_u32(out, s->class_id);
    buf_put_str(out, s->name);
    buf_put_f32(out, s->score);
}

/* Their times first, so that the values are one block. */
static void put_vectors(struct buf *out, const struct msg_shard_done *m)
{
    buf_put_u32(out, m->vector_size);
    buf_put_u32(out, m->vector_count);
    for (uint32_t i = 0; i < m->vector_count; i++) {
        buf_put_i64(out, m->vectors[i].start_ms);
        buf_put_i64(out, m->vectors[i].end_ms);
    }
    for (uint32_t i = 0; i < m->vector_count; i++)
        put_floats(out, m->vectors[i].values, m->vector_size);
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
    buf_put_u32(out, m->sound_count);
    for (uint32_t i = 0; i < m->sound_count; i++)
        put_sound(out, &m->sounds[i]);
    put_vectors(out, m);
    msg_voices_put(out, &m->voices);
}

static void get_segments(struct reader *r, struct msg_shard_done *m)
{
    uint32_t n = get_count(r, SEGMENT_BYTES);

    if (n == 0)
        return;
    m->segments = calloc(n, sizeof(*m->segments));
    require_memory(r, m->segments);
    /* The count goes up with what was read, so that free sees only whole ones or zeros. */
    while (m->segment_count < n && !r->failed)
        get_segment(r, &m->segments[m->segment_count++]);
}

static void get_sound(struct reader *r, struct result_sound *s)
{
    s->start_ms = get_ms(r, 0);
    s->end_ms = get_ms(r, s->start_ms);
    s->class_id = get_u32(r, 0, INT32_MAX);
    s->name = get_text(r, MAX_NAME);
    s->score = get_probability(r);
}

static void get_sounds(struct reader *r, struct msg_shard_done *m)
{
    uint32_t n = get_count(r, SOUND_BYTES);

    if (n == 0)
        return;
    m->sounds = calloc(n, sizeof(*m->sounds));
    require_memory(r, m->sounds);
    while (m->sound_count < n && !r->failed)
        get_sound(r, &m->sounds[m->sound_count++]);
}

/* Without vectors there is no size either. */
static void get_vectors(struct reader *r, struct msg_shard_done *m)
{
    uint32_t size = get_u32(r, 0, MAX_VECTOR), n = get_count(r, 16 + 4 * (size_t)size);
    float *values;

    require(r, (size == 0) == (n == 0));
    if (r->failed || n == 0)
        return;
    m->vectors = calloc(n, sizeof(*m->vectors));
    require_memory(r, m->vectors);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        m->vectors[i].start_ms = get_ms(r, 0);
        m->vectors[i].end_ms = get_ms(r, m->vectors[i].start_ms);
    }
    values = get_floats(r, (size_t)n * size);
    for (uint32_t i = 0; i < n && values; i++) {
        m->vectors[i].values = values + (size_t)i * size;
        require_length_1(r, m->vectors[i].values, size);
    }
    m->vector_size = size;
    m->vector_count = n;
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
    get_sounds(&r, &m);
    get_vectors(&r, &m);
    get_voices(&r, &m.voices);
    GET_END(shard_done, "SHARD_DONE");
}

void msg_shard_done_free(struct msg_shard_done *m)
{
    free(m->language);
    for (uint32_t i = 0; i < m->segment_count; i++) {
        struct result_segment *s = &m->segments[i];

        free((char *)s->text);
        free((char *)s->language);
        free((char *)s->reason);
        for (uint32_t k = 0; k < s->word_count; k++)
            free((char *)s->words[k].text);
        free((struct result_word *)s->words);
    }
    free(m->segments);
    for (uint32_t i = 0; i < m->sound_count; i++)
        free((char *)m->sounds[i].name);
    free(m->sounds);
    if (m->vectors)
        free((float *)m->vectors[0].values);
    free(m->vectors);
    msg_voices_free(&m->voices);
    memset(m, 0, sizeof(*m));
}
