/* A container's times: its beginning and its length (workers/media/open_media.h). */
#include <string.h>

#include "workers/media/open_media.h"

/* Only audio and video streams count: others have clocks of their own, such as a time code's. */
static bool keeps_time(const AVStream *s)
{
    return (s->codecpar->codec_type == AVMEDIA_TYPE_AUDIO ||
            (s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
             !(s->disposition & AV_DISPOSITION_ATTACHED_PIC))) &&
           s->start_time != AV_NOPTS_VALUE;
}

static void find_earliest(const AVStream *s, int64_t *ret)
{
    const int64_t at =
        keeps_time(s) ? av_rescale_q(s->start_time, s->time_base, (AVRational){1, DECODER_RATE_HZ})
                      : INT64_MIN;

    if (at != INT64_MIN && (*ret == INT64_MIN || at < *ret))
        *ret = at;
}

bool media_begins(const struct media *m, uint32_t ear, int64_t *ret)
{
    const int stream = m->ears[ear].track->index;
    const AVProgram *of = av_find_program_from_stream(m->fmt, NULL, stream);
    int64_t at = INT64_MIN;

    if (m->elementary || m->fmt->iformat->flags & AVFMT_NOTIMESTAMPS)
        return false;
    for (unsigned i = 0; of && i < of->nb_stream_indexes; i++)
        if (of->stream_index[i] < m->fmt->nb_streams)
            find_earliest(m->fmt->streams[of->stream_index[i]], &at);
    for (unsigned i = 0; !of && i < m->fmt->nb_streams; i++)
        find_earliest(m->fmt->streams[i], &at);
    *ret = at;
    return at != INT64_MIN;
}

int64_t media_pictures_end(const struct media *m)
{
    const int64_t us = m->fmt->duration, most = INT64_C(1000) * 3600 * AV_TIME_BASE;
    bool pictures = false;

    for (unsigned i = 0; i < m->fmt->nb_streams; i++)
        pictures |= m->fmt->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                    !(m->fmt->streams[i]->disposition & AV_DISPOSITION_ATTACHED_PIC);
    if (!pictures || us == AV_NOPTS_VALUE || us <= 0 || us > most ||
        m->fmt->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE)
        return 0;
    return us * DECODER_RATE_HZ / AV_TIME_BASE;
}

int64_t media_longest_hole(const struct media *m)
{
    /* A transport stream's clock is a device's: appended pieces of several are hours apart. */
    return (m->fmt->iformat->flags & AVFMT_TS_DISCONT ? 1 : 12) * (int64_t)3600 * DECODER_RATE_HZ;
}

double media_cut_factor(const struct media *m)
{
    double size = (double)m->in->size;

    return size > 0 && m->promised_bytes > size + 1 ? m->promised_bytes / size : 1;
}

int64_t media_track_ms(const struct media *m, uint32_t nth)
{
    const double most = 1000.0 * 3600;
    double seconds = 0;
    uint32_t seen = 0;

    for (unsigned i = 0; i < m->fmt->nb_streams; i++) {
        const AVStream *s = m->fmt->streams[i];

        if (s->codecpar->codec_type == AVMEDIA_TYPE_AUDIO && ++seen == nth &&
            s->duration != AV_NOPTS_VALUE)
            seconds = (double)s->duration * av_q2d(s->time_base);
    }
    return seconds > 0 && seconds < most ? (int64_t)(seconds * 1000 + 0.5) : -1;
}

double media_stated_seconds(const struct media *m)
{
    if (m->fmt->duration_estimation_method != AVFMT_DURATION_FROM_STREAM)
        return 0; /* reckoned from bit rates or times, which may jump */
    /* An AVI counts frames that have no bytes, too; by its own size it is whole. */
    if (strcmp(m->fmt->iformat->name, "avi") == 0 && m->promised_bytes > 0 &&
        (double)m->in->size >= m->promised_bytes - 1 &&
        (double)m->in->size < m->promised_bytes + 16)
        return 0;
    if (m->track->duration != AV_NOPTS_VALUE && m->track->duration > 0)
        return (double)m->track->duration * av_q2d(m->track->time_base);
    /* The container's length may be that of a longer video. */
    if (m->fmt->nb_streams == 1 && m->fmt->duration != AV_NOPTS_VALUE && m->fmt->duration > 0)
        return (double)m->fmt->duration / AV_TIME_BASE;
    return 0;
}
