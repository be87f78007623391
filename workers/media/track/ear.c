#include "workers/media/track/ear.h"

#define TIME_MOST ((int64_t)1 << 60)
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
