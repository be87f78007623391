#include "workers/media/open_media.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/media/ffmpeg.h"
#include "workers/media/stream/sniff.h"

#define IO_BYTES (64 << 10)
#define PROBE_BYTES (1u << 20)
/* FFmpeg keeps what it reads until it has found the sound. */
#define PATIENT_BYTES ((int64_t)200 << 20)
/* A scan for the next frame of a bare stream gives up here; 4 GiB of zeros behind a header would
 * cost minutes. */
#define ELEMENTARY_SCAN_BYTES ((uint64_t)64 << 20)
/* The same in any container: more than a hundred seconds of the fastest video. */
#define SCAN_BYTES ((uint64_t)4 << 30)

/* Containers that hold audio and open nothing but the bytes they are given. All others (playlists,
 * concat, sdp, devices, pictures, subtitles, module music) are never opened. */
static const char *const allowed_formats =
    "aa,aac,ac3,act,aea,aiff,amr,ape,asf,asf_o,ast,au,avi,avr,caf,dhav,dsf,dss,dts,dtshd,dv,eac3,"
    "flac,"
    "flv,gsm,gxf,hcom,iff,ilbc,ircam,ivr,kux,loas,matroska,webm,mmf,mlp,mov,mp4,m4a,3gp,3g2,mj2,"
    "mp3,mpc,"
    "mpc8,"
    "mpeg,mpegts,mxf,nistsphere,nsv,nut,nuv,ogg,oma,paf,pvf,qcp,rm,rso,sds,shn,smjpeg,sox,tak,"
    "truehd,"
    "tta,ty,voc,vqf,w64,wav,wsd,wtv,wv,xa,xwma";

/* The kinds of stream/sniff.h, which are never found by their bytes. */
static const char *const headerless_formats = "alaw,g722,g723_1,g726le,g729,gsm,mulaw,sln,wav";

/* Frames one after the other, found by their sync word alone. */
static const char *const elementary_formats = "aac,ac3,dts,eac3,flac,loas,mlp,mp3,truehd";

/* --- bytes for FFmpeg --- */

/* FFmpeg reads to the end of the file where a WAV's size of sound is all ones. */
static void mend_size(struct media *m, uint8_t *bytes, int64_t n)
{
    const int64_t from = m->pos;

    m->pos += n;
    for (int64_t i = m->wrong_size; m->wrong_size > 0 && i < m->wrong_size + 4; i++)
        if (i >= from && i < m->pos)
            bytes[i - from] = 0xff;
}

static int on_read(void *arg, uint8_t *to, int n)
{
    struct media *m = arg;
    uint64_t bound = m->elementary ? ELEMENTARY_SCAN_BYTES : SCAN_BYTES;
    int64_t got;

    if (m->in_err.code != 0)
        return AVERROR(EIO);
    if (m->unproductive_bytes > bound) {
        err_set(&m->in_err, ERR_INPUT, "no audio in %llu MiB",
                (unsigned long long)(m->unproductive_bytes >> 20));
        return AVERROR(EIO);
    }
    got = stream_read(m->in, to, n > 0 ? (size_t)n : 0, &m->in_err);
    if (got < 0)
        return AVERROR(EIO);
    m->unproductive_bytes += (uint64_t)got;
    mend_size(m, to, got);
    return got == 0 ? AVERROR_EOF : (int)got;
}

static int64_t on_seek(void *arg, int64_t offset, int whence)
{
    struct media *m = arg;

    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return m->in->size >= 0 ? m->in->size : AVERROR(ENOSYS);
    if (whence == SEEK_END && m->in->size >= 0 && offset <= 0 && -offset <= m->in->size) {
        offset += m->in->size;
        whence = SEEK_SET;
    }
    if (whence != SEEK_SET || offset < 0) /* avio turns SEEK_CUR into SEEK_SET itself */
        return AVERROR(EINVAL);
    if (stream_seek(m->in, offset, &m->in_err) != 0)
        return AVERROR(EIO);
    m->pos = offset;
    return offset;
}

/* Whatever a container refers to outside itself is not there. */
static int refuse_open(AVFormatContext *s, AVIOContext **pb, const char *url, int flags,
                       AVDictionary **options)
{
    (void)s;
    (void)url;
    (void)flags;
    (void)options;
    *pb = NULL;
    return AVERROR(EACCES);
}

/* --- opening --- */

static int report_open_failure(struct media *m, int av, const char *what, struct err *err)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";

    if (m->in_err.code != 0) {
        *err = m->in_err;
        return err->code;
    }
    if (av == AVERROR(ENOMEM))
        return err_set(err, ERR_LIMIT, "%s: it wants more memory than a decoder may have", what);
    if (strstr(m->note, "ncrypted") || strstr(m->note, "decryption key"))
        return media_refuse_encrypted(err);
    if (av == AVERROR_PATCHWELCOME || av == AVERROR(ENOSYS))
        return err_set(err, ERR_INPUT,
                       "of a kind that this FFmpeg cannot decode (%s): convert it with a program "
                       "that plays it",
                       m->missing[0] ? m->missing
                       : m->note[0]  ? m->note
                                     : what);
    av_strerror(av, text, sizeof(text));
    return err_set(err, ERR_INPUT, "%s (%s)", what, m->note[0] ? m->note : text);
}

static int make_io(struct media *m, struct err *err)
{
    uint8_t *buffer = av_malloc(IO_BYTES);

    if (buffer)
        m->io = avio_alloc_context(buffer, IO_BYTES, 0, m, on_read, NULL, on_seek);
    if (!m->io) {
        av_free(buffer);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

/* RIFF and FORM say in their first bytes how long the file is; FFmpeg reads a shorter file without
 * a complaint. Recorders that never went back to fill the size in left 0 or all ones. */
static int read_promise(struct media *m, struct err *err)
{
    uint8_t head[8];
    int64_t got = stream_read_full(m->in, head, sizeof(head), err);
    uint32_t size = 0;

    if (got < 0)
        return (int)got;
    if (got == sizeof(head) && memcmp(head, "RIFF", 4) == 0)
        size = AV_RL32(head + 4);
    else if (got == sizeof(head) && memcmp(head, "FORM", 4) == 0)
        size = AV_RB32(head + 4);
    if (size != 0 && size < 0x7fff0000)
        m->promised_bytes = 8.0 + size;
    return stream_seek(m->in, 0, err);
}

static int read_chunks(struct media *m, struct err *err)
{
    struct riff_chunk wanted[] = {{"bext", NULL, 0}, {"iXML", NULL, 0}};
    int rc = riff_chunks(m->in, wanted, 2, &m->wrong_size, err);

    m->bext = wanted[0];
    m->ixml = wanted[1];
    return rc;
}

/* Kinds that nobody here decodes, and those that their name tells. */
static int look_at_kind(struct media *m, struct err *err)
{
    uint8_t head[SNIFF_HEAD_BYTES];
    int64_t got = stream_read_full(m->in, head, sizeof(head), err);
    const struct headerless *bare = headerless_at(m->in->headerless);
    const char *why = got > 0 ? undecodable("", head, (size_t)got) : NULL;

    if (got < 0)
        return (int)got;
    if (why)
        return err_set(err, ERR_INPUT, "%s", why);
    if (bare && got > 0 && headerless_fits(head, (size_t)got))
        m->bare = bare;
    return stream_seek(m->in, 0, err);
}

/* Samples of m->bare behind a WAV header, so that FFmpeg knows them. */
static int put_head(struct media *m, struct err *err)
{
    const struct headerless *b = m->bare;
    int rc = headed_open_wav(m->in, b->wav_tag, b->wav_bits, b->wav_rate_hz, &m->headed, err);

    if (rc == 0)
        m->in = m->headed;
    return rc;
}

/* Which container, by its bytes alone: a name could lie. But where the bytes have no header, the
 * name is all that there is. */
static int probe_container(struct media *m, const AVInputFormat **ret, struct err *err)
{
    int score;

    if (m->bare) {
        m->score = AVPROBE_SCORE_MAX;
        *ret = av_find_input_format(m->bare->demuxer);
        return *ret ? 0 : err_set(err, ERR_INPUT, "this FFmpeg cannot read %s", m->bare->demuxer);
    }
    score = av_probe_input_buffer2(m->io, ret, NULL, NULL, 0, PROBE_BYTES);
    if (m->in_err.code != 0) {
        *err = m->in_err;
        return err->code;
    }
    if (score < 0 || !*ret)
        return err_set(err, ERR_INPUT, "not a recording: no known format");
    if (av_match_list((*ret)->name, allowed_formats, ',') == 0)
        return err_set(err, ERR_INPUT, "not a recording: its bytes look like %s", (*ret)->name);
    m->score = score;
    m->elementary = av_match_list((*ret)->name, elementary_formats, ',') != 0;
    return 0;
}

/* The names of all audio decoders, so that finding out about a video never decodes a picture. */
static char *audio_decoders(void)
{
    struct buf names = BUF_INIT;
    const AVCodec *codec;
    void *state = NULL;

    while ((codec = av_codec_iterate(&state)))
        if (av_codec_is_decoder(codec) && codec->type == AVMEDIA_TYPE_AUDIO)
            buf_printf(&names, "%s%s", names.len ? "," : "", codec->name);
    return buf_cstr(&names); /* names.data, owned by the caller */
}

static int open_container(struct media *m, const AVInputFormat *format, struct err *err)
{
    AVDictionary *options = NULL;
    char *decoders = audio_decoders();
    char value[16];
    int av;

    m->fmt = decoders ? avformat_alloc_context() : NULL;
    if (!m->fmt) {
        free(decoders);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    m->fmt->pb = m->io;
    m->fmt->opaque = m;
    m->fmt->io_open = refuse_open;
    m->fmt->flags |= AVFMT_FLAG_CUSTOM_IO;
    if (m->patient) {
        m->fmt->probesize = PATIENT_BYTES;
        m->fmt->max_analyze_duration = (int64_t)3600 * AV_TIME_BASE;
    }
    av_dict_set(&options, "format_whitelist", m->bare ? headerless_formats : allowed_formats, 0);
    if (m->bare && m->bare->option) {
        snprintf(value, sizeof(value), "%u", m->bare->value);
        av_dict_set(&options, m->bare->option, value, 0);
    }
    av_dict_set(&options, "codec_whitelist", decoders, 0);
    av_dict_set(&options, "protocol_whitelist", "none", 0);
    free(decoders);
    av = avformat_open_input(&m->fmt, NULL, format, &options); /* frees fmt when it fails */
    av_dict_free(&options);
    if (av < 0 && strstr(m->note, "moov atom not found")) {
        return m->in_err.code != 0 ? report_open_failure(m, av, "", err)
                                   : err_set(err, ERR_INPUT,
                                             "truncated: the index (moov) is missing, the copy or "
                                             "the recording was cut short");
    }
    if (av < 0)
        return report_open_failure(m, av, "not a readable recording", err);
    /* Searching behind the sound found that the archive is cut short: decoding will report that
     * when it gets there. */
    if (m->in->sequential && m->in_err.code == ERR_INPUT) {
        m->in_err = (struct err){0};
        m->io->error = 0;
    }
    return 0;
}

/* Such a tag, where it is the demuxer's word: in other containers it is anybody's. */
static bool has_demuxer_tag(const AVFormatContext *fmt, const char *container,
                            const AVDictionary *tags, const char *name)
{
    return strncmp(fmt->iformat->name, container, strlen(container)) == 0 &&
           av_dict_get(tags, name, NULL, 0);
}

/* A track that is encrypted as a whole; one that may begin in the clear shows by its packets. */
static bool is_encrypted(const AVFormatContext *fmt, const AVStream *track)
{
    const uint32_t tag = track->codecpar->codec_tag;

    return tag == MKTAG('d', 'r', 'm', 's') || tag == MKTAG('a', 'a', 'v', 'd') || /* Audible */
           has_demuxer_tag(fmt, "matroska", track->metadata, "enc_key_id") ||
           has_demuxer_tag(fmt, "asf", fmt->metadata, "ASF_Protection_Type") ||
           has_demuxer_tag(fmt, "asf", fmt->metadata, "encryption"); /* ASF's other way */
}

static bool is_audio(const struct media *m, unsigned i)
{
    return m->fmt->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
}

/* The streams of audio before this one. */
static uint32_t audio_before(const struct media *m, unsigned stream)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < stream; i++)
        n += is_audio(m, i);
    return n;
}

uint32_t media_tracks(const struct media *m) { return audio_before(m, m->fmt->nb_streams); }

/* av_find_best_stream passes over tracks without these. */
static bool can_be_decoded(const AVStream *track)
{
    return avcodec_find_decoder(track->codecpar->codec_id) &&
           track->codecpar->ch_layout.nb_channels > 0 && track->codecpar->sample_rate > 0;
}

/* Why this audio track cannot be heard, as an error. */
static int check_track(struct media *m, int stream, bool decodable, struct err *err)
{
    if (is_encrypted(m->fmt, m->fmt->streams[stream]))
        return media_refuse_encrypted(err);
    if (stream < 64 && (m->external >> stream & 1) != 0)
        return err_set(err, ERR_INPUT,
                       "its sound lies in another file, to which it refers: enqueue that one");
    return decodable ? 0 : media_refuse_track(m, m->fmt->streams[stream], err);
}

static int open_decoder(struct media *m, struct media_ear *e, const AVCodec *codec, struct err *err)
{
    int av;

    e->dec = avcodec_alloc_context3(codec);
    if (!e->dec)
        return err_set(err, ERR_NOMEM, "out of memory");
    av = avcodec_parameters_to_context(e->dec, e->track->codecpar);
    if (av >= 0) {
        e->dec->opaque = m;
        e->dec->pkt_timebase = e->track->time_base;
        e->dec->thread_count = 1; /* the sandbox has no threads; decoders run side by side */
        av = avcodec_open2(e->dec, codec, NULL);
    }
    return av < 0 ? report_open_failure(m, av, "its audio track cannot be decoded", err) : 0;
}

static int open_stream(struct media *m, int stream, const AVCodec *codec, struct media_ear *e,
                       struct err *err)
{
    *e = (struct media_ear){m->fmt->streams[stream], NULL, audio_before(m, (unsigned)stream) + 1};
    return open_decoder(m, e, codec, err);
}

static int open_ear(struct media *m, int stream, const AVCodec *codec, struct err *err)
{
    return open_stream(m, stream, codec, &m->ears[m->ear_count++], err);
}

#define STREAMINFO_BYTES 34

int media_renew(struct media *m, uint32_t ear, const AVPacket *packet, struct err *err)
{
    struct media_ear *e = &m->ears[ear];
    struct media_ear renewed = {e->track, NULL, e->nth};
    AVCodecParameters *p = e->track->codecpar;
    int rc;
    const bool begins = packet->size >= 17 + STREAMINFO_BYTES &&
                        memcmp(packet->data,
                               "\x7f"
                               "FLAC",
                               5) == 0 &&
                        memcmp(packet->data + 9, "fLaC", 4) == 0;

    if (p->codec_id != AV_CODEC_ID_FLAC || p->extradata_size != STREAMINFO_BYTES ||
        e->dec->extradata_size != STREAMINFO_BYTES)
        return 0;
    if (begins)
        memcpy(p->extradata, packet->data + 17, STREAMINFO_BYTES);
    if (memcmp(e->dec->extradata, p->extradata, STREAMINFO_BYTES) == 0)
        return 0;
    rc = open_decoder(m, &renewed, avcodec_find_decoder(p->codec_id), err);
    if (rc != 0) {
        avcodec_free_context(&renewed.dec);
        memcpy(p->extradata, e->dec->extradata, STREAMINFO_BYTES);
        return rc;
    }
    avcodec_free_context(&e->dec);
    *e = renewed;
    return 0;
}

int media_open_next(struct media *m, int stream, struct media_ear *ret, struct err *err)
{
    const AVStream *track = m->fmt->streams[stream];
    const AVCodec *codec = avcodec_find_decoder(track->codecpar->codec_id);
    int rc;

    *ret = (struct media_ear){0};
    if (!codec || is_encrypted(m->fmt, track))
        return err_set(err, ERR_INPUT, "it cannot be decoded");
    rc = open_stream(m, stream, codec, ret, err); /* rate and channels come with its packets */
    if (rc != 0)
        avcodec_free_context(&ret->dec);
    return rc;
}

void media_go_on(struct media *m, uint32_t ear, const struct media_ear *next)
{
    struct media_ear *e = &m->ears[ear];
    const uint32_t nth = e->nth; /* people call it what it was at the beginning */

    if (e->track->index < 64)
        m->followed |= UINT64_C(1) << e->track->index;
    avcodec_free_context(&e->dec);
    *e = *next;
    e->nth = nth;
}

static int open_best(struct media *m, struct err *err)
{
    const AVCodec *codec = NULL;
    int index = av_find_best_stream(m->fmt, AVMEDIA_TYPE_AUDIO, -1, -1, &codec, 0);
    int audio = index, rc;

    for (unsigned i = 0; audio < 0 && i < m->fmt->nb_streams; i++)
        if (is_audio(m, i))
            audio = (int)i;
    if (audio < 0)
        return media_without_track(m, err);
    rc = check_track(m, audio, index >= 0, err);
    return rc == 0 ? open_ear(m, index, codec, err) : rc;
}

/* Is this audio track among those that were asked for, one by one or all? */
static bool is_named(const struct media *m, unsigned stream)
{
    const uint32_t nth = audio_before(m, stream), tracks = m->hearing.tracks;

    return tracks == HEARING_ALL || (nth < HEARING_TRACKS_MAX && tracks >> nth & 1);
}

/* Has it the channel that is to be heard, as far as its container knows? */
static bool has_channel(const struct media *m, const AVStream *track)
{
    const int n = track->codecpar->ch_layout.nb_channels;

    return n <= 0 || m->hearing.channel <= (uint32_t)n;
}

/* Opens the decodable tracks if all are asked for, else every named track that exists. If one
 * channel is asked for, skips tracks that lack it. */
static int open_several(struct media *m, struct err *err)
{
    const uint32_t all = audio_before(m, m->fmt->nb_streams);
    struct err first = {0};
    uint32_t without = 0;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < m->fmt->nb_streams; i++) {
        const uint32_t before = m->ear_count;
        const AVStream *track = m->fmt->streams[i];

        if (!is_audio(m, i) || m->ear_count == HEARING_SOURCES_MAX || !is_named(m, i))
            continue;
        if (!has_channel(m, track)) {
            without++;
            continue;
        }
        rc = check_track(m, (int)i, can_be_decoded(track), err);
        if (rc == 0)
            rc = open_ear(m, (int)i, avcodec_find_decoder(track->codecpar->codec_id), err);
        if (m->hearing.tracks == HEARING_ALL && rc == ERR_INPUT) { /* the others are heard */
            if (m->ear_count > before)
                avcodec_free_context(&m->ears[--m->ear_count].dec);
            first = first.code ? first : *err;
            rc = 0;
        }
    }
    if (rc != 0 || m->ear_count)
        return rc;
    if (first.code) {
        *err = first;
        return err->code;
    }
    if (without)
        return err_set(err, ERR_INPUT,
                       "channel %u was requested, but no requested track has it: enqueue it with "
                       "other --channels or --tracks",
                       m->hearing.channel);
    return all ? err_set(err, ERR_INPUT,
                         "it has %u audio %s, and none of the requested ones: enqueue it with "
                         "other --tracks",
                         all, all == 1 ? "track" : "tracks")
               : media_without_track(m, err);
}

static bool is_heard(const struct media *m, unsigned stream)
{
    for (uint32_t i = 0; i < m->ear_count; i++)
        if (m->ears[i].track->index == (int)stream)
            return true;
    return stream < 64 && (m->followed >> stream & 1) != 0;
}

/* The stream of an audio track; nb_streams: there is none. */
static unsigned stream_of(const struct media *m, uint32_t nth)
{
    unsigned i = 0;

    while (i < m->fmt->nb_streams && !(is_audio(m, i) && audio_before(m, i) + 1 == nth))
        i++;
    return i;
}

bool media_hears(const struct media *m, uint32_t nth) { return is_heard(m, stream_of(m, nth)); }

static int choose_tracks(struct media *m, struct err *err)
{
    int av, rc;

    media_finds_out(m);
    av = avformat_find_stream_info(m->fmt, NULL);
    media_finds_out(NULL);
    if (av < 0 || (m->in_err.code != 0 && m->in_err.code != ERR_INPUT))
        return report_open_failure(m, av, "not a readable recording", err);
    m->follows = m->may_follow && strncmp(m->fmt->iformat->name, "mpeg", 4) == 0;
    rc = m->hearing.tracks ? open_several(m, err) : open_best(m, err);
    for (unsigned i = 0; i < m->fmt->nb_streams; i++)
        m->fmt->streams[i]->discard =
            is_heard(m, i) || (m->follows && is_audio(m, i)) ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    m->track = m->ear_count ? m->ears[0].track : NULL;
    return rc;
}

static int open_once(struct media *m, struct stream *in, const struct hearing *hearing,
                     struct err *err)
{
    const AVInputFormat *format = NULL;
    int rc;

    m->in = in;
    m->hearing = *hearing;
    if (in->size == 0)
        return err_set(err, ERR_INPUT, "empty file");
    media_hear_complaints();
    rc = look_at_kind(m, err);
    if (rc == 0)
        rc = read_promise(m, err);
    if (rc == 0)
        rc = read_chunks(m, err);
    if (rc == 0 && m->bare && m->bare->wav_tag)
        rc = put_head(m, err);
    if (rc == 0)
        rc = make_io(m, err);
    if (rc == 0)
        rc = probe_container(m, &format, err);
    if (rc == 0)
        rc = open_container(m, format, err);
    if (rc == 0 && m->fmt)
        rc = choose_tracks(m, err);
    m->unproductive_bytes = 0;
    return rc;
}

/* In containers without an index of their tracks, sound may begin minutes behind the pictures. */
static bool may_come_later(const struct media *m)
{
    return !m->patient && m->fmt && m->in_err.code == 0 &&
           (strncmp(m->fmt->iformat->name, "mpeg", 4) == 0 ||
            strcmp(m->fmt->iformat->name, "flv") == 0 || m->fmt->ctx_flags & AVFMTCTX_NOHEADER);
}

int media_open(struct media *m, struct stream *in, const struct hearing *hearing, struct err *err)
{
    struct err first;
    int rc = open_once(m, in, hearing, err);

    if (!(rc == ERR_INPUT || (rc == 0 && m->ear_count == 0)) || !may_come_later(m))
        return rc;
    first = rc != 0 ? *err : (struct err){0};
    media_close(m);
    *m = (struct media){.may_follow = m->may_follow, .patient = true};
    rc = stream_seek(in, 0, err);
    if (rc == 0)
        rc = open_once(m, in, hearing, err);
    if (rc == ERR_INPUT && first.code)
        *err = first;
    return rc;
}

void media_close(struct media *m)
{
    free(m->bext.data);
    free(m->ixml.data);
    m->bext.data = m->ixml.data = NULL;
    for (uint32_t i = 0; i < m->ear_count; i++)
        avcodec_free_context(&m->ears[i].dec);
    avformat_close_input(&m->fmt);
    if (m->io) {
        av_freep(&m->io->buffer);
        avio_context_free(&m->io);
    }
    stream_close(m->headed);
}

int media_next(struct media *m, AVPacket *packet, uint32_t *ear, struct err *err)
{
    const int av = av_read_frame(m->fmt, packet);

    if (av == AVERROR(ENOMEM))
        return err_set(err, ERR_LIMIT, "it wants more memory than a decoder may have");
    if (av < 0) {
        m->read_error = av == AVERROR_EOF ? 0 : av;
        return 0;
    }
    *ear = 0;
    while (*ear < m->ear_count && m->ears[*ear].track->index != packet->stream_index)
        ++*ear;
    return 1;
}

void media_progress(struct media *m)
{
    m->unproductive_bytes = 0;
    m->packets++;
}

/* --- what is left out --- */

#define NAMED_MOST 8 /* of tracks, or channels, that are left out; of the others, how many */

/* Languages are three letters in the containers that know them. */
static void add_track(const struct media *m, unsigned stream, struct buf *out)
{
    const AVDictionaryEntry *tag =
        av_dict_get(m->fmt->streams[stream]->metadata, "language", NULL, 0);
    const char *language = tag ? tag->value : "";
    const size_t n = strspn(language, "abcdefghijklmnopqrstuvwxyz");
    const bool spoken = n > 1 && n < 4 && language[n] == 0 && strcmp(language, "und") != 0;
    const bool lacks = is_named(m, stream) && !has_channel(m, m->fmt->streams[stream]);

    buf_printf(out, "%strack %u", out->len ? ", " : "", audio_before(m, stream) + 1);
    if (spoken || lacks)
        buf_printf(out, " (%s%s", spoken ? language : "", spoken && lacks ? ", " : "");
    if (lacks)
        buf_printf(out, "no channel %u", m->hearing.channel);
    if (spoken || lacks)
        buf_printf(out, ")");
}

/* track 0: there is one alone. */
static void add_channels(uint32_t track, const struct media_heard *heard, struct buf *out)
{
    uint32_t said = 0, all = 0;

    for (uint32_t i = 0; i < heard->channels && i < 64; i++)
        all += (heard->heard >> i & 1) == 0;
    all += heard->channels > 64 ? heard->channels - 64 : 0;
    for (uint32_t i = 0; i < heard->channels && i < 64 && said < NAMED_MOST; i++) {
        if (heard->heard >> i & 1)
            continue;
        buf_printf(out, "%s", said++ || out->len ? ", " : "");
        if (track)
            buf_printf(out, "track %u ", track);
        buf_printf(out, "channel %u", i + 1);
    }
    if (all > said)
        buf_printf(out, " and %u more", all - said);
}

void media_left_out(const struct media *m, const struct media_heard *heard, char *ret, size_t size)
{
    struct buf b = BUF_INIT;
    const char *text;
    uint32_t said = 0, others = 0;

    for (unsigned i = 0; i < m->fmt->nb_streams; i++) {
        if (!is_audio(m, i) || is_heard(m, i))
            continue;
        if (others++ < NAMED_MOST) {
            add_track(m, i, &b);
            said++;
        }
    }
    if (others > said)
        buf_printf(&b, " and %u more", others - said);
    for (uint32_t i = 0; i < m->ear_count; i++)
        add_channels(m->ear_count > 1 ? m->ears[i].nth : 0, &heard[i], &b);
    text = b.len ? buf_cstr(&b) : NULL;
    utf8_copy(ret, size, text ? text : "");
    buf_free(&b);
}
