/* The reason why a recording cannot be heard: this FFmpeg cannot decode its kind, or it is
 * encrypted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/media/open_media.h"

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
