#include "workers/media/track/ear.h"

#include <string.h>

/* ---- clock */

#define RATE_HZ 16000
/* Containers round times to milliseconds, and write several frames with one time. */
#define NEAR (RATE_HZ * 3 / 100)
#define NEAR_LOST (RATE_HZ / 100)
#define FAR (RATE_HZ * 8 / 100)
#define LASTS (RATE_HZ / 4)
#define BACK ((int64_t)RATE_HZ)
#define END_MOST ((int64_t)60 * RATE_HZ)
#define TIME_MOST ((int64_t)1 << 60)

int64_t track_clock_next(const struct track_clock *c)
{
    return c->rate_hz > 0 ? c->base + c->fed / c->rate_hz * RATE_HZ +
                                c->fed % c->rate_hz * RATE_HZ / c->rate_hz
                          : c->base;
}

bool track_clock_doubts(const struct track_clock *c, int64_t time)
{
    int64_t off;

    if (time <= -TIME_MOST || time >= TIME_MOST)
        return false;
    off = time + c->shift - track_clock_next(c);
    return off >= BACK || off <= -BACK;
}

static void record_clock_jump(struct track_clock *c, int64_t next, int64_t off)
{
    if (c->jumps++ == 0) {
        c->jump_at = next;
        c->jump_by = off;
    }
    c->shift -= off;
    c->off_sign = 0;
}

/* Jitter passes, drift and a short hole last. Returns what is to be made up for. */
static int64_t judge_small(struct track_clock *c, int64_t off, int64_t samples, int rate_hz)
{
    const int sign = off >= NEAR ? 1 : off <= -NEAR ? -1 : 0;
    const int64_t size = off < 0 ? -off : off;
    int64_t ret = 0;

    if (sign == 0 || sign != c->off_sign) {
        c->off_sign = sign;
        c->off_least = size;
        c->off_samples = 0;
    }
    if (sign == 0)
        return 0;
    c->off_least = size < c->off_least ? size : c->off_least;
    c->off_samples += samples * RATE_HZ / rate_hz;
    if (c->off_samples >= LASTS) {
        ret = sign * c->off_least;
        c->off_sign = 0;
    }
    return ret;
}

/* off: how much later the frame is than expected. */
static int64_t judge_clock_offset(struct track_clock *c, int64_t off, int64_t samples, int rate_hz,
                                  bool lost)
{
    const int64_t at_once = lost ? NEAR_LOST : c->begun ? FAR : NEAR;

    if (off < at_once)
        return judge_small(c, off, samples, rate_hz);
    c->off_sign = 0;
    return off;
}

int64_t track_clock_frame(struct track_clock *c, int64_t time, int64_t samples, int rate_hz,
                          bool lost)
{
    const int64_t next = track_clock_next(c);
    int64_t ret = 0;

    if (rate_hz != c->rate_hz) {
        c->base = next;
        c->fed = 0;
        c->rate_hz = rate_hz;
    }
    if (time > -TIME_MOST && time < TIME_MOST) {
        int64_t off = time + c->shift - next;

        if (off > c->longest_hole || off <= -BACK) {
            record_clock_jump(c, next, off);
            off = 0;
        }
        ret = judge_clock_offset(c, off, samples, rate_hz, lost);
    }
    if (ret != 0) {
        c->base = next + ret;
        c->fed = 0;
    }
    if (ret > 0 && lost)
        c->lost += ret;
    if (!c->begun)
        c->first = next + ret;
    c->begun = true;
    c->fed += samples;
    return ret;
}

int64_t track_clock_end(struct track_clock *c, int64_t time)
{
    const int64_t next = track_clock_next(c);
    int64_t off = 0;

    if (c->begun && time > -TIME_MOST && time < TIME_MOST)
        off = time + c->shift - next;
    if (off < NEAR_LOST || off > END_MOST)
        return 0;
    c->base = next + off;
    c->fed = 0;
    c->lost += off;
    return off;
}

/* ---- relay */

/* Streams that are heard side by side are never parted by so much. */
#define ALONE_US 3000000
#define ALONE_AT_END_US 300000

static int64_t us_of(const struct media *m, const AVPacket *p, int64_t time)
{
    return time == AV_NOPTS_VALUE
               ? INT64_MIN
               : av_rescale_q(time, m->fmt->streams[p->stream_index]->time_base, AV_TIME_BASE_Q);
}

static void drop_first(struct relay *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        av_packet_free(&r->held[i]);
    memmove(r->held, r->held + n, (r->count - n) * sizeof(*r->held));
    r->count -= n;
}

void relay_clear(struct relay *r)
{
    drop_first(r, r->count);
    r->since_us = 0;
}

void relay_heard(struct relay *r, const struct media *m, const AVPacket *p)
{
    const int64_t at = us_of(m, p, p->pts);
    uint32_t n = 0;

    while (n < r->count && us_of(m, r->held[n], r->held[n]->pts) <= at)
        n++;
    for (uint32_t i = 0; i < n; i++)
        r->beside |= UINT64_C(1) << r->held[i]->stream_index;
    drop_first(r, n);
    r->since_us = 0;
}

/* Audio of the same program, or any audio if the heard track is in none, as after its end. */
static bool is_same_program_audio(const struct media *m, int stream)
{
    const AVProgram *heard = av_find_program_from_stream(m->fmt, NULL, m->ears[0].track->index);

    return m->fmt->streams[stream]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO &&
           (!heard || heard == av_find_program_from_stream(m->fmt, NULL, stream));
}

bool relay_hold(struct relay *r, const struct media *m, const AVPacket *p)
{
    if (!m->follows || p->stream_index >= 64 || r->beside >> p->stream_index & 1 ||
        !is_same_program_audio(m, p->stream_index))
        return false;
    if (r->count == RELAY_PACKETS)
        drop_first(r, 1);
    r->held[r->count] = av_packet_clone(p);
    if (!r->held[r->count])
        return false; /* no memory: what follows may still be heard */
    r->count++;
    if (p->duration > 0 && p->stream_index == r->held[0]->stream_index)
        r->since_us += us_of(m, p, p->duration);
    return r->since_us >= ALONE_US;
}

bool relay_at_end(const struct relay *r) { return r->count && r->since_us >= ALONE_AT_END_US; }

void relay_done(struct relay *r, const struct media *m, int stream)
{
    uint32_t last = r->count;

    while (last > 0 && r->held[last - 1]->stream_index != stream)
        last--;
    drop_first(r, last);
    r->since_us = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->held[i]->duration > 0 && r->held[i]->stream_index == r->held[0]->stream_index)
            r->since_us += us_of(m, r->held[i], r->held[i]->duration);
}

/* ---- the ear */

/* So near to where it should be a frame's time confirms the one before it. */
#define CONFIRMED (DECODER_RATE_HZ / 5)
#define DELAY_MOST (DECODER_RATE_HZ / 4)
/* So much sound, at its own rate, may have been read before what a container complains of. */
#define LOST_SAMPLES 100000

void ear_prepare(struct ear *e, const struct media *m, uint32_t n)
{
    e->mix.channel = m->hearing.channel;
    e->time_base = m->ears[n].track->time_base;
    e->clocked = media_begins(m, n, &e->zero);
    e->clock.longest_hole = media_longest_hole(m);
    e->first = e->end = TRACK_CLOCK_UNKNOWN;
}

void ear_free(struct ear *e)
{
    resampler_free(&e->mix);
    resampler_free(&e->apart);
    av_frame_free(&e->held);
}

void ear_replace(struct ear *e, const struct media *m, uint32_t n)
{
    e->time_base = m->ears[n].track->time_base;
    e->delay = 0;
}

/* A time of its track, from the file's beginning on, or TRACK_CLOCK_UNKNOWN. */
static int64_t time_of(const struct ear *e, int64_t at)
{
    if (!e->clocked || at == AV_NOPTS_VALUE)
        return TRACK_CLOCK_UNKNOWN;
    at = av_rescale_q(at, e->time_base, (AVRational){1, DECODER_RATE_HZ});
    if (at == INT64_MIN || __builtin_sub_overflow(at, e->zero, &at) || at > TIME_MOST ||
        at < -TIME_MOST)
        return TRACK_CLOCK_UNKNOWN;
    return at;
}

void ear_packet(struct ear *e, const AVPacket *p)
{
    int64_t end;

    if (!e->clock.begun && e->first == TRACK_CLOCK_UNKNOWN)
        e->first = time_of(e, p->pts);
    if (p->pts != AV_NOPTS_VALUE && p->duration >= 0 &&
        !__builtin_add_overflow(p->pts, p->duration, &end))
        e->end = time_of(e, end);
    if (p->flags & AV_PKT_FLAG_CORRUPT)
        ear_lost_packet(e);
}

void ear_lost_packet(struct ear *e) { e->lost = e->lost > 0 ? e->lost : 1; }

void ear_lost_bytes(struct ear *e) { e->lost = LOST_SAMPLES; }

/* Some decoders (WMA) give their first frame when a later packet came, with that one's time. If
 * nothing was lost before, the first frame is the first packet's. */
static void learn_delay(struct ear *e, int64_t at)
{
    const int64_t first = e->first > 0 ? e->first : 0; /* what lies before zero is not played */

    if (e->clock.begun || e->lost > 0 || at == TRACK_CLOCK_UNKNOWN ||
        e->first == TRACK_CLOCK_UNKNOWN)
        return;
    if (at > first && at - first <= DELAY_MOST)
        e->delay = at - first;
}

/* A frame's time, of its track. */
static int64_t frame_time(const struct ear *e, const AVFrame *f)
{
    const int64_t at = time_of(e, f->best_effort_timestamp);

    return at == TRACK_CLOCK_UNKNOWN ? at : at - e->delay;
}

/* Times that count samples, as in Ogg, lose their meaning behind a link of another rate. */
static void check_rate(struct ear *e, const AVFrame *f)
{
    if (e->rate_hz == 0)
        e->rate_hz = f->sample_rate;
    if (f->sample_rate != e->rate_hz && e->time_base.num == 1 && e->time_base.den == e->rate_hz)
        e->clocked = false;
}

int ear_hold(struct ear *e, AVFrame *frame, bool *held, struct err *err)
{
    check_rate(e, frame);
    *held = !e->held && track_clock_doubts(&e->clock, frame_time(e, frame));
    if (!*held)
        return 0;
    e->held = av_frame_alloc();
    if (!e->held)
        return err_set(err, ERR_NOMEM, "out of memory");
    av_frame_move_ref(e->held, frame);
    return 0;
}

AVFrame *ear_release(struct ear *e, const AVFrame *next)
{
    AVFrame *f = e->held;
    const int64_t at = frame_time(e, f);
    const int64_t after = next ? frame_time(e, next) : TRACK_CLOCK_UNKNOWN;
    int64_t length =
        f->sample_rate > 0 ? (int64_t)f->nb_samples * DECODER_RATE_HZ / f->sample_rate : 0;

    e->held = NULL;
    length += at;
    if (after == TRACK_CLOCK_UNKNOWN || after - length > CONFIRMED || length - after > CONFIRMED)
        f->best_effort_timestamp = AV_NOPTS_VALUE;
    return f;
}

bool ear_follow(struct ear *e, const AVFrame *f)
{
    int64_t at = time_of(e, f->best_effort_timestamp), n = 0;

    learn_delay(e, at);
    if (f->sample_rate > 0)
        n = track_clock_frame(&e->clock, at == TRACK_CLOCK_UNKNOWN ? at : at - e->delay,
                              f->nb_samples, f->sample_rate, e->lost > 0);
    e->lost = n > 0 || e->lost < f->nb_samples ? 0 : e->lost - f->nb_samples;
    if (n < 0) {
        resampler_shorten(&e->mix, (int)-n);
        resampler_shorten(&e->apart, (int)-n);
    }
    return n > 0;
}

bool ear_end(struct ear *e) { return e->lost > 0 && track_clock_end(&e->clock, e->end) > 0; }

int64_t ear_ends_at(const struct ear *e)
{
    const int64_t end = track_clock_next(&e->clock);
    int64_t said;

    if (e->end == TRACK_CLOCK_UNKNOWN || __builtin_add_overflow(e->end, e->clock.shift, &said))
        return end;
    return said > end ? said : end;
}
