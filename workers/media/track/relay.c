#include "workers/media/track/relay.h"

#include <string.h>

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
