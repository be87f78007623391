#include "workers/media/decode.h"

#include <stdio.h>
#include <string.h>

#include "workers/media/open_media.h"
#include "workers/media/resample.h"
#include "workers/media/sources.h"
#include "workers/media/container_tags.h"
#include "workers/media/wire.h"

/* A container that was recognised with no more certainty than this may be noise that looks like
 * one: its audio is held back until so many packets have shown that it is real. */
#define DOUBTFUL_SCORE (AVPROBE_SCORE_MAX / 4)
#define PROBATION_PACKETS 40
/* Of the bytes read, and of the packets, so much must be audio. */
#define REAL_SHARE 0.75
/* Nobody records a thousand hours in one file; a hostile one lasts for ever. */
#define MAX_SAMPLES ((int64_t)1000 * 3600 * DECODER_RATE_HZ)

struct decode {
    const struct decode_task *task;
    struct media media;
    struct {
        struct resampler mix, apart;
        bool begun;
        struct media_heard heard;
    } ears[HEARING_SOURCES_MAX]; /* as media's */
    struct sources *sources;     /* NULL: one mono source, straight on */
    uint32_t rate_hz;            /* of the first one's first frame; 0: none came */
    AVPacket *packet;
    AVFrame *frame;
    bool described, probation;
    int64_t packets, bad, frames;    /* of the track */
    int64_t encrypted;               /* of the bad packets */
    int64_t packet_bytes, first_pos; /* of packets; where the first one lies */
    int64_t samples;                 /* resampled so far, held ones too */
    int16_t held[WIRE_PCM_SAMPLES];  /* the last of them, not handed on yet, interleaved */
    size_t held_count;               /* for each source */
    uint32_t stride;                 /* samples of held for one */
    int read_error;                  /* av_read_frame's, when it was not the end */
};

/* --- noise that looks like a recording --- */

/* Bytes of the input that went by since the first packet, whose place is known. */
static double audio_share(const struct decode *d)
{
    int64_t passed = avio_seek(d->media.io, 0, SEEK_CUR) - d->first_pos;

    return passed > 0 ? (double)d->packet_bytes / (double)passed : 1.0;
}

static int judge(struct decode *d, struct err *err)
{
    double good = d->packets > 0 ? 1.0 - (double)d->bad / (double)d->packets : 0;

    d->probation = false;
    if (good >= REAL_SHARE && d->frames > 0 &&
        (!d->media.elementary || audio_share(d) >= REAL_SHARE / 1.5))
        return 0;
    return err_set(err, ERR_INPUT, "not a recording: no known format (a few bytes look like %s)",
                   d->media.fmt->iformat->name);
}

/* --- output --- */

static int out_of_memory(struct err *err)
{
    return err_set(err, ERR_LIMIT, "it wants more memory than a decoder may have");
}

/* "channel 2", "track 2", "track 2 channel 1" */
static void name_source(const struct decode *d, const struct sources_one *of, char ret[32])
{
    char track[16] = "", channel[16] = "";

    if (d->media.ear_count > 1)
        snprintf(track, sizeof(track), "track %u", d->media.ears[of->track].nth);
    if (of->channel)
        snprintf(channel, sizeof(channel), "channel %u", of->channel);
    snprintf(ret, 32, "%s%s%s", track, track[0] && channel[0] ? " " : "", channel);
}

/* Of each track, which of its channels are sources; the others are left out. */
static void note_heard(struct decode *d, const struct sources_one *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].channel)
            d->ears[list[i].track].heard.heard = 0;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].channel)
            d->ears[list[i].track].heard.heard |= UINT64_C(1) << (list[i].channel - 1);
}

static void say_left_out(const struct decode *d, char *ret, size_t size)
{
    struct media_heard heard[HEARING_SOURCES_MAX] = {{0}};

    for (uint32_t i = 0; i < d->media.ear_count; i++)
        heard[i] = d->ears[i].heard;
    media_left_out(&d->media, heard, ret, size);
}

static int say_info(struct decode *d, struct decoder_info *info, struct err *err)
{
    struct result_source sources[HEARING_SOURCES_MAX];
    char names[HEARING_SOURCES_MAX][32];
    const struct sources_one *list = NULL;

    info->source_count = d->sources ? sources_count(d->sources, &list) : 0;
    info->sources = sources;
    for (uint32_t i = 0; d->sources && i < d->media.ear_count; i++)
        d->ears[i].heard.heard &= sources_mixed(d->sources, i);
    say_left_out(d, info->mix_left_out, sizeof(info->mix_left_out));
    note_heard(d, list, info->source_count);
    for (uint32_t i = 0; i < info->source_count; i++) {
        name_source(d, &list[i], names[i]);
        sources[i].label = names[i];
    }
    say_left_out(d, info->left_out, sizeof(info->left_out));
    return d->task->info(d->task->arg, info, err);
}

static int describe(struct decode *d, struct err *err)
{
    struct tag_list tags = {0};
    struct decoder_info info;
    int rc;

    if (d->described)
        return 0;
    d->described = true;
    media_describe(&d->media, &info);
    if (d->rate_hz) {
        info.sample_rate_hz = d->rate_hz;
        info.channels = d->ears[0].heard.channels;
    }
    if (d->task->hearing.channel > info.channels)
        return err_set(err, ERR_INPUT,
                       "channel %u is to be heard, and it has %u: enqueue it with "
                       "other --channels",
                       d->task->hearing.channel, info.channels);
    tags_of_media(&d->media, &tags);
    info.tags = tags.list;
    info.tag_count = tags.count;
    rc = tags.failed ? out_of_memory(err) : say_info(d, &info, err);
    tag_list_free(&tags);
    return rc;
}

static int hand_on(struct decode *d, struct err *err)
{
    int64_t at = d->samples - (int64_t)d->held_count;
    size_t skip = 0;
    int rc = d->probation ? judge(d, err) : 0;

    if (rc == 0)
        rc = describe(d, err);

    if (at < d->task->skip_samples) {
        int64_t below = d->task->skip_samples - at;

        skip = below < (int64_t)d->held_count ? (size_t)below : d->held_count;
    }
    if (rc == 0 && skip < d->held_count) {
        rc = d->task->pcm(d->task->arg, d->held + skip * d->stride,
                          (d->held_count - skip) * d->stride, at + (int64_t)skip, err);
    }
    d->held_count = 0;
    return rc;
}

/* During probation the samples wait in `held`; when it is full, it is time to judge. */
static int on_samples(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    struct decode *d = arg;
    const size_t most = WIRE_PCM_SAMPLES / d->stride;
    int rc = 0;

    if (d->samples + (int64_t)n > MAX_SAMPLES)
        return err_set(err, ERR_LIMIT, "longer than 1000 hours");
    while (n > 0 && rc == 0) {
        size_t room = most - d->held_count;
        size_t take = n < room ? n : room;

        memcpy(d->held + d->held_count * d->stride, pcm, take * d->stride * sizeof(*pcm));
        d->held_count += take;
        d->samples += (int64_t)take;
        pcm += take * d->stride;
        n -= take;
        if (d->held_count == most)
            rc = hand_on(d, err);
    }
    return rc;
}

/* From the sources, once it is known which there are. */
static int on_sources(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    struct decode *d = arg;

    d->stride = sources_stride(d->sources);
    return on_samples(d, pcm, n, err);
}

/* --- decoding --- */

struct from_ear {
    struct decode *d;
    uint32_t ear;
};

static int on_mix(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    const struct from_ear *f = arg;

    return f->d->sources ? sources_mix(f->d->sources, f->ear, pcm, n, err)
                         : on_samples(f->d, pcm, n, err);
}

static int on_apart(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    const struct from_ear *f = arg;

    return sources_channels(f->d->sources, f->ear, pcm, n, err);
}

/* How many of a frame's channels may be sources. Those of a film are one scene: nobody has chosen
 * to have them apart. */
static uint32_t may_be_apart(const struct decode *d, const AVFrame *f)
{
    const int n = f->ch_layout.nb_channels;

    if (d->task->hearing.channel || n < 2 || n > (int)HEARING_SOURCES_MAX)
        return 0;
    if (d->task->hearing.channels == HEARING_AUTO && n > 2 &&
        f->ch_layout.order == AV_CHANNEL_ORDER_NATIVE)
        return 0;
    return d->task->hearing.channels == HEARING_MIX ? 0 : (uint32_t)n;
}

/* When a frame begins, at 16 kHz; INT64_MIN: its container does not say. */
static int64_t start_of(const struct decode *d, uint32_t ear, const AVFrame *f)
{
    int64_t at = f->best_effort_timestamp;

    return at == AV_NOPTS_VALUE ? INT64_MIN
                                : av_rescale_q(at, d->media.ears[ear].track->time_base,
                                               (AVRational){1, DECODER_RATE_HZ});
}

static int begin_ear(struct decode *d, uint32_t ear, struct err *err)
{
    const AVFrame *f = d->frame;
    const uint32_t channel = d->task->hearing.channel, n = may_be_apart(d, f);
    int rc = 0;

    d->ears[ear].begun = true;
    d->ears[ear].heard = (struct media_heard){
        (uint32_t)f->ch_layout.nb_channels,
        channel && channel <= (uint32_t)f->ch_layout.nb_channels ? UINT64_C(1) << (channel - 1)
                                                                 : UINT64_MAX,
    };
    if (ear > 0 && channel > (uint32_t)f->ch_layout.nb_channels) /* its container says otherwise */
        return err_set(err, ERR_INPUT,
                       "channel %u is to be heard, and track %u has %d: enqueue it with other "
                       "--channels or --tracks",
                       channel, d->media.ears[ear].nth, f->ch_layout.nb_channels);
    if (ear == 0)
        d->rate_hz = (uint32_t)f->sample_rate;
    if (n >= 2 && !d->sources)
        rc = sources_new(1, d->task->hearing.channels, on_sources, d, &d->sources, err);
    d->ears[ear].apart.apart = n;
    return rc == 0 && d->sources ? sources_begin(d->sources, ear, n, start_of(d, ear, f), err) : rc;
}

static int take_frame(struct decode *d, uint32_t ear, struct err *err)
{
    struct from_ear from = {d, ear};
    int rc = d->ears[ear].begun ? 0 : begin_ear(d, ear, err);

    if (rc == 0 && d->sources && sources_wants_channels(d->sources, ear))
        rc = resampler_feed(&d->ears[ear].apart, d->frame, on_apart, &from, err);
    return rc == 0 ? resampler_feed(&d->ears[ear].mix, d->frame, on_mix, &from, err) : rc;
}

/* Takes what the decoder has ready. */
static int take_frames(struct decode *d, uint32_t ear, struct err *err)
{
    for (;;) {
        int av = avcodec_receive_frame(d->media.ears[ear].dec, d->frame);
        int rc;

        if (av == AVERROR(EAGAIN) || av == AVERROR_EOF)
            return 0;
        if (av == AVERROR(ENOMEM))
            return out_of_memory(err);
        if (av < 0) {
            d->bad++;
            return 0;
        }
        d->frames++;
        rc = take_frame(d, ear, err);
        av_frame_unref(d->frame);
        if (rc != 0)
            return rc;
    }
}

/* packet NULL: the end, so that the decoder gives what it has kept. */
static int decode_packet(struct decode *d, uint32_t ear, const AVPacket *packet, struct err *err)
{
    int rc = packet ? media_follow(&d->media, ear, packet, err) : 0, av;

    if (rc != 0)
        return rc;
    av = avcodec_send_packet(d->media.ears[ear].dec, packet);
    if (av == AVERROR(ENOMEM))
        return out_of_memory(err);
    if (av < 0 && av != AVERROR_EOF && !media_is_stub(&d->media, ear, packet))
        d->bad++; /* the tool goes on with the next one too */
    return take_frames(d, ear, err);
}

/* Whose packet it is; ear_count: nobody's. */
static uint32_t ear_of(const struct decode *d, const AVPacket *packet)
{
    uint32_t i = 0;

    while (i < d->media.ear_count && d->media.ears[i].track->index != packet->stream_index)
        i++;
    return i;
}

static int end_ears(struct decode *d, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < d->media.ear_count; i++)
        rc = decode_packet(d, i, NULL, err);
    for (uint32_t i = 0; rc == 0 && i < d->media.ear_count; i++) {
        struct from_ear from = {d, i};

        if (d->sources && sources_wants_channels(d->sources, i))
            rc = resampler_flush(&d->ears[i].apart, on_apart, &from, err);
        if (rc == 0)
            rc = resampler_flush(&d->ears[i].mix, on_mix, &from, err);
    }
    return rc == 0 && d->sources ? sources_end(d->sources, err) : rc;
}

/* Reads and decodes to the end of the tracks. */
static int run(struct decode *d, struct err *err)
{
    uint32_t ear;
    int rc = 0;

    while (rc == 0) {
        int av = av_read_frame(d->media.fmt, d->packet);

        if (av == AVERROR(ENOMEM))
            return out_of_memory(err);
        if (av < 0) {
            d->read_error = av == AVERROR_EOF ? 0 : av;
            break;
        }
        ear = ear_of(d, d->packet);
        if (ear < d->media.ear_count) {
            if (d->packets++ == 0)
                d->first_pos = d->packet->pos > 0 ? d->packet->pos : 0;
            d->packet_bytes += d->packet->size;
            media_progress(&d->media);
            if (d->task->pulse.fn)
                d->task->pulse.fn(d->task->pulse.arg);
            if (av_packet_get_side_data(d->packet, AV_PKT_DATA_ENCRYPTION_INFO, NULL)) {
                d->encrypted++;
                d->bad++;
            } else {
                rc = decode_packet(d, ear, d->packet, err);
            }
        }
        av_packet_unref(d->packet);
        if (rc == 0 && d->probation && d->packets >= PROBATION_PACKETS)
            rc = judge(d, err);
    }
    if (rc == 0)
        rc = end_ears(d, err);
    if (rc == 0 && d->probation)
        rc = judge(d, err);
    return rc;
}

/* --- the end --- */

static void say(char damage[DECODE_DAMAGE_MAX], const char *what, const char *why)
{
    snprintf(damage, DECODE_DAMAGE_MAX, "%s%s%s%s", what, why && *why ? " (" : "",
             why && *why ? why : "", why && *why ? ")" : "");
}

/* What was wrong with audio that came out all the same, or that there is none. */
static int conclude(struct decode *d, char damage[DECODE_DAMAGE_MAX], struct err *err)
{
    struct media *m = &d->media;
    double stated = media_stated_seconds(m);
    double got = (double)d->samples / DECODER_RATE_HZ;
    const char *why = m->in_err.code ? m->in_err.msg : m->note;
    char what[160] = "";
    char text[AV_ERROR_MAX_STRING_SIZE] = "";

    if (got * media_cut_factor(m) > stated)
        stated = got * media_cut_factor(m);
    if (m->in_err.code != 0 && m->in_err.code != ERR_INPUT) {
        *err = m->in_err;
        return err->code;
    }
    if (d->read_error != 0 && !*why) {
        av_strerror(d->read_error, text, sizeof(text));
        why = text;
    }
    if (d->samples == 0 && d->encrypted > 0)
        return media_refuse_encrypted(err);
    if (d->samples == 0 && media_undecodable(m)[0])
        return err_set(err, ERR_INPUT, "%s", media_undecodable(m));
    /* Containers round, and encoders pad: a shortfall counts from half a second and 1 %. */
    if (d->encrypted > 0) {
        snprintf(what, sizeof(what), "%lld of %lld packets are encrypted (DRM)",
                 (long long)d->encrypted, (long long)d->packets);
        why = "";
    } else if (stated - got > 0.5 + stated / 100) {
        snprintf(what, sizeof(what), "decoded %.1f s of %.1f s: the file is cut short or damaged",
                 got, stated);
    } else if (m->in_err.code != 0 || d->read_error != 0) {
        snprintf(what, sizeof(what), "reading stopped after %.1f s: the file is damaged", got);
    } else if (d->bad > 0) {
        snprintf(what, sizeof(what), "%lld of %lld packets could not be decoded", (long long)d->bad,
                 (long long)d->packets);
    }
    if (d->samples > 0) {
        damage[0] = '\0';
        if (what[0])
            say(damage, what, why);
        return 0;
    }
    if (what[0]) {
        say(damage, what, why);
        err_set(err, ERR_INPUT, "no audio could be decoded: %.400s", damage);
        return err->code;
    }
    say(damage, "holds no audio: its track is 0 seconds long", NULL);
    return 0;
}

int decode_stream(struct stream *in, const struct decode_task *task, int64_t *total_samples,
                  char damage[DECODE_DAMAGE_MAX], struct err *err)
{
    struct decode *d = NULL;
    int rc = ffmpeg_open(err);

    if (rc != 0)
        return rc;
    d = av_mallocz(sizeof(*d));
    if (!d || !(d->packet = av_packet_alloc()) || !(d->frame = av_frame_alloc())) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
        goto out;
    }
    d->task = task;
    d->stride = 1;
    rc = media_open(&d->media, in, &task->hearing, err);
    if (rc != 0)
        goto out;
    for (uint32_t i = 0; i < d->media.ear_count; i++)
        d->ears[i].mix.channel = task->hearing.channel;
    if (d->media.ear_count > 1)
        rc = sources_new(d->media.ear_count, task->hearing.channels, on_sources, d, &d->sources,
                         err);
    if (rc != 0)
        goto out;
    d->probation = d->media.score <= DOUBTFUL_SCORE;
    rc = run(d, err);
    if (rc == 0)
        rc = conclude(d, damage, err);
    if (rc == 0)
        rc = hand_on(d, err); /* and describes a recording without any sample */
    if (rc == 0)
        *total_samples = d->samples;
out:
    if (d) {
        for (uint32_t i = 0; i < d->media.ear_count; i++) {
            resampler_free(&d->ears[i].mix);
            resampler_free(&d->ears[i].apart);
        }
        sources_free(d->sources);
        media_close(&d->media);
        av_packet_free(&d->packet);
        av_frame_free(&d->frame);
        av_free(d);
    }
    return rc;
}
