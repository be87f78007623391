/* What is told of an open media: its kind and length, its times, FFmpeg's complaints about it, and
 * the reason why it cannot be heard (open_media.h). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/media/open_media.h"

/* --- kind and length --- */

static void copy_text(char *to, size_t capacity, const char *from)
{
    char *text = from ? utf8_repair(from, strlen(from)) : NULL;

    utf8_copy(to, capacity, text ? text : "");
    free(text);
}

static const char *container_of(const struct media *m)
{
    const AVDictionaryEntry *brand = av_dict_get(m->fmt->metadata, "major_brand", NULL, 0);

    if (strncmp(m->fmt->iformat->name, "mov,", 4) == 0)
        return brand && strncmp(brand->value, "qt", 2) != 0 ? "mp4" : "mov";
    return m->fmt->iformat->name;
}

void media_describe(const struct media *m, struct decoder_info *ret)
{
    const AVCodecParameters *p = m->track ? m->track->codecpar : NULL;
    int64_t us = m->fmt->duration;

    *ret = (struct decoder_info){.duration_ms = -1};
    copy_text(ret->container, sizeof(ret->container), container_of(m));
    ret->container[strcspn(ret->container, ",")] = '\0';
    if (!p) /* its pictures are no length of sound */
        return;
    if (us != AV_NOPTS_VALUE && us >= 0)
        ret->duration_ms = us / 1000 + (us % 1000 >= 500);
    ret->sample_rate_hz = (uint32_t)p->sample_rate;
    ret->tracks = media_tracks(m);
    ret->channels = (uint32_t)p->ch_layout.nb_channels;
    copy_text(ret->codec, sizeof(ret->codec), avcodec_get_name(p->codec_id));
}

/* --- FFmpeg's complaints ---
 * The callback has no argument of ours; the context that complains carries the media in `opaque`.
 */

/* The contexts that FFmpeg makes for itself, to find out about a stream, carry nothing. */
static _Thread_local struct media *finding_out;

void media_finds_out(struct media *m) { finding_out = m; }

static struct media *media_of(void *context)
{
    const AVClass *class = context ? *(const AVClass **)context : NULL;

    if (!class || !class->class_name)
        return NULL;
    if (strcmp(class->class_name, "AVFormatContext") == 0)
        return ((AVFormatContext *)context)->opaque;
    if (strcmp(class->class_name, "AVCodecContext") == 0)
        return ((AVCodecContext *)context)->opaque;
    return NULL;
}

/* A line of FFmpeg's, printable, without its end. */
static void take_line(char *to, size_t size, const char *format, va_list args)
{
    char line[160];
    char *shown;
    size_t len;

    vsnprintf(line, sizeof(line), format, args);
    len = strlen(line);
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '.' || line[len - 1] == ' '))
        line[--len] = '\0';
    shown = utf8_display(line, len);
    utf8_copy(to, size, shown ? shown : "");
    free(shown);
}

/* FFmpeg reports an unsupported feature as a warning, in two lines: the first names it. */
__attribute__((format(printf, 3, 0))) static void note_missing(struct media *m, int level,
                                                               const char *format, va_list args)
{
    if (level > AV_LOG_WARNING)
        return;
    if (strncmp(format, " is not implemented", 19) == 0)
        utf8_copy(m->missing, sizeof(m->missing), m->warned);
    else
        take_line(m->warned, sizeof(m->warned), format, args);
}

/* FFmpeg reads a mov's references to other files and passes them over, the one kind without a sound
 * to come and the other with this file's bytes in its place; only its log tells. A reference to the
 * file itself is 12 bytes long. The track is the one that is being read. */
__attribute__((format(printf, 2, 0))) static void note_external(struct media *m, const char *format,
                                                                va_list args)
{
    char line[80];
    unsigned type, size = UINT_MAX;

    if (!m || !m->fmt || m->fmt->nb_streams < 1 || m->fmt->nb_streams > 64)
        return;
    if (strncmp(format, "Unknown dref type", 17) == 0) {
        vsnprintf(line, sizeof(line), format, args);
        if (sscanf(line, "Unknown dref type 0x%x size %u", &type, &size) != 2)
            return;
    }
    if (size > 12)
        m->external |= UINT64_C(1) << (m->fmt->nb_streams - 1);
}

__attribute__((format(printf, 3, 0))) static void on_log(void *context, int level,
                                                         const char *format, va_list args)
{
    struct media *m = media_of(context);
    char line[sizeof(m->note)];
    va_list again;

    if (m || finding_out) {
        va_copy(again, args);
        note_missing(m ? m : finding_out, level, format, again);
        va_end(again);
    }
    if (level > AV_LOG_ERROR &&
        (strncmp(format, "Unknown dref type", 17) == 0 || strstr(format, "opening external track")))
        note_external(media_of(context), format, args);
    if (!m || level > AV_LOG_ERROR)
        return;
    m->complaints++;
    take_line(line, sizeof(line), format, args);
    /* "moov atom not found" explains what "error reading header" behind it does not. */
    if (line[0] && !strstr(m->note, "moov"))
        utf8_copy(m->note, sizeof(m->note), line);
}

void media_hear_complaints(void) { av_log_set_callback(on_log); }

/* --- the reason why a recording cannot be heard: this FFmpeg cannot decode its kind, or it is
 * encrypted --- */

int media_refuse_encrypted(struct err *err)
{
    return err_set(err, ERR_INPUT, "encrypted (DRM): enqueue a copy that is not protected");
}

#define SCRAMBLED_BYTES ((size_t)1 << 20) /* of a transport stream are looked at */

/* A transport stream marks scrambled packets; their content looks like damage. */
static bool is_scrambled(struct media *m)
{
    uint8_t *head;
    struct err ignored;
    size_t scrambled = 0, clear = 0;
    int64_t got;

    if (strncmp(m->fmt->iformat->name, "mpegts", 6) != 0 || !(head = malloc(SCRAMBLED_BYTES)))
        return false;
    got = stream_seek(m->in, 0, &ignored) == 0
              ? stream_read_full(m->in, head, SCRAMBLED_BYTES, &ignored)
              : 0;
    for (int64_t at = 0; at + 188 < got;) {
        const uint8_t *p = head + at;
        const bool is_one = p[0] == 0x47 && (p[188] == 0x47 || at + 192 >= got || p[192] == 0x47);
        const unsigned pid = (p[1] & 0x1fu) << 8 | p[2];

        if (is_one && pid >= 0x20 && pid != 0x1fff) {
            scrambled += p[3] >> 6 != 0;
            clear += p[3] >> 6 == 0;
        }
        at += is_one ? 188 : 1;
    }
    free(head);
    (void)stream_seek(m->in, m->pos, &ignored); /* where FFmpeg is */
    return scrambled > 16 && scrambled > clear;
}

/* The name of a transport stream's audio kind that this FFmpeg does not know; NULL: none. */
static const char *unknown_audio(const AVFormatContext *fmt)
{
    if (strncmp(fmt->iformat->name, "mpegts", 6) != 0)
        return NULL;
    for (unsigned i = 0; i < fmt->nb_streams; i++) {
        const AVCodecParameters *p = fmt->streams[i]->codecpar;

        if (p->codec_type == AVMEDIA_TYPE_AUDIO || p->codec_type == AVMEDIA_TYPE_VIDEO)
            continue;
        if (p->codec_tag == 0x2d || p->codec_tag == 0x2e)
            return "MPEG-H Audio";
        if (p->codec_tag == 0x85 || p->codec_tag == 0x86 || p->codec_tag == 0x88 ||
            p->codec_tag == 0xa2)
            return "DTS-HD";
    }
    return NULL;
}

static int refuse_kind(const char *kind, struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "no decoder for its audio (%s): convert it with a program that plays it", kind);
}

/* Sound may be in it of which its container does not say so. */
static bool may_be_sound(const struct media *m, const AVStream *stream)
{
    const AVCodecParameters *p = stream->codecpar;

    if (p->codec_type == AVMEDIA_TYPE_UNKNOWN || p->codec_id != AV_CODEC_ID_NONE)
        return p->codec_type == AVMEDIA_TYPE_UNKNOWN;
    /* A stream of unknown kind may have a damaged description. Time code has a tag. */
    return p->codec_type == AVMEDIA_TYPE_VIDEO ||
           (p->codec_type == AVMEDIA_TYPE_DATA &&
            (p->codec_tag == 0 || strncmp(m->fmt->iformat->name, "mpegts", 6) == 0));
}

/* Moving pictures, in a container that is one without doubt. */
static bool is_film(const struct media *m)
{
    const char *name = m->fmt->iformat->name;
    bool pictures = false;

    /* FFmpeg's complaint may be about the description of the sound. */
    if (m->score <= MEDIA_DOUBTFUL_SCORE || m->in_err.code != 0 || m->complaints > 0 ||
        strstr(name, "_pipe") || strncmp(name, "image2", 6) == 0)
        return false;
    for (unsigned i = 0; i < m->fmt->nb_streams; i++) {
        const AVStream *s = m->fmt->streams[i];

        if (may_be_sound(m, s))
            return false;
        pictures |= s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                    s->codecpar->codec_id != AV_CODEC_ID_NONE &&
                    !(s->disposition & AV_DISPOSITION_ATTACHED_PIC);
    }
    return pictures;
}

int media_without_track(struct media *m, struct err *err)
{
    const char *kind = unknown_audio(m->fmt);

    if (kind)
        return refuse_kind(kind, err);
    if (is_scrambled(m))
        return err_set(err, ERR_INPUT,
                       "encrypted (a scrambled transport stream): enqueue a copy that is not "
                       "protected");
    return is_film(m) ? 0 : err_set(err, ERR_INPUT, "no audio track");
}

/* There is an audio track, and it was not chosen. */
int media_refuse_track(struct media *m, const AVStream *track, struct err *err)
{
    const AVCodecParameters *p = track->codecpar;
    const uint32_t tag = p->codec_tag;
    char kind[160] = "codec unknown";

    if (avcodec_find_decoder(p->codec_id) && m->missing[0]) {
        snprintf(kind, sizeof(kind), "%s: %s", avcodec_get_name(p->codec_id), m->missing);
        return refuse_kind(kind, err);
    }
    if (avcodec_find_decoder(p->codec_id)) {
        if (is_scrambled(m))
            return media_without_track(m, err);
        return err_set(err, ERR_INPUT,
                       "its audio track (%s) says neither rate nor channels: the file is cut short "
                       "or damaged, or of a kind that this FFmpeg cannot decode",
                       avcodec_get_name(p->codec_id));
    }
    if (p->codec_id != AV_CODEC_ID_NONE) {
        snprintf(kind, sizeof(kind), "codec %s", avcodec_get_name(p->codec_id));
    } else if (tag > 0xffff) {
        char *shown = utf8_display(av_fourcc2str(tag), strlen(av_fourcc2str(tag)));

        snprintf(kind, sizeof(kind), "codec %s", shown ? shown : "");
        free(shown);
    } else if (tag != 0) {
        snprintf(kind, sizeof(kind), "codec 0x%04x", (unsigned)tag);
    }
    return refuse_kind(kind, err);
}

const char *media_undecodable(struct media *m)
{
    const AVCodecParameters *p = m->track->codecpar;

    /* Bits a sample, less one, are the five from bit 103 of the STREAMINFO on. */
    if (p->codec_id == AV_CODEC_ID_FLAC && p->extradata_size >= 14 &&
        ((p->extradata[12] & 1) << 4 | p->extradata[13] >> 4) == 31)
        return "FLAC of 32 bits, which this FFmpeg cannot decode: convert it to 24 bits";
    if (m->missing[0])
        snprintf(m->undecodable, sizeof(m->undecodable),
                 "no decoder for its audio (%s: %s): convert it with a program that plays it",
                 avcodec_get_name(p->codec_id), m->missing);
    else if (m->packets > 1 && m->note[0] && m->in_err.code == 0 && media_cut_factor(m) == 1)
        snprintf(m->undecodable, sizeof(m->undecodable),
                 "none of its %llu packets (%s) could be decoded: it is damaged, or of a kind that "
                 "this FFmpeg cannot decode (%s)",
                 (unsigned long long)m->packets, avcodec_get_name(p->codec_id), m->note);
    return m->undecodable;
}

/* --- a container's times: its beginning and its length --- */

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
