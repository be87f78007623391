#include "workers/media/decode.h"

#include <stdio.h>
#include <string.h>

#include "workers/media/open_media.h"
#include "workers/media/resample.h"
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
    struct resampler resampler;
    AVPacket *packet;
    AVFrame *frame;
    bool described, probation;
    int64_t packets, bad, frames;    /* of the track */
    int64_t encrypted;               /* of the bad packets */
    int64_t packet_bytes, first_pos; /* of packets; where the first one lies */
    int64_t samples;                 /* resampled so far, held ones too */
    int16_t held[WIRE_PCM_SAMPLES];  /* the last of them, not handed on yet */
    size_t held_count;
    int read_error; /* av_read_frame's, when it was not the end */
};

/* --- noise that looks like a recording --- */

/* Bytes of the input that went by since the first packet, whose place is known. */
static double audio_share(const struct decode *d)
{
    int64_t passed = avio_tell(d->media.io) - d->first_pos;

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

static int describe(struct decode *d, const AVFrame *frame, struct err *err)
{
    struct tag_list tags = {0};
    struct decoder_info info;
    int rc;

    if (d->described)
        return 0;
    d->described = true;
    media_describe(&d->media, frame, &info);
    if (d->task->hearing.channel > info.channels)
        return err_set(err, ERR_INPUT,
                       "channel %u is to be heard, and it has %u: enqueue it with "
                       "other --channels",
                       d->task->hearing.channel, info.channels);
    media_left_out(&d->media, d->task->hearing.channel, info.channels, info.left_out,
                   sizeof(info.left_out));
    tags_of_media(&d->media, &tags);
    info.tags = tags.list;
    info.tag_count = tags.count;
    rc = tags.failed ? out_of_memory(err) : d->task->info(d->task->arg, &info, err);
    tag_list_free(&tags);
    return rc;
}

static int hand_on(struct decode *d, struct err *err)
{
    int64_t at = d->samples - (int64_t)d->held_count;
    size_t skip = 0;
    int rc = d->probation ? judge(d, err) : 0;

    if (rc == 0)
        rc = describe(d, d->frame->nb_samples > 0 ? d->frame : NULL, err);

    if (at < d->task->skip_samples) {
        int64_t below = d->task->skip_samples - at;

        skip = below < (int64_t)d->held_count ? (size_t)below : d->held_count;
    }
    if (rc == 0 && skip < d->held_count) {
        rc = d->task->pcm(d->task->arg, d->held + skip, d->held_count - skip, at + (int64_t)skip,
                          err);
    }
    d->held_count = 0;
    return rc;
}

/* During probation the samples wait in `held`; when it is full, it is time to judge. */
static int on_samples(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    struct decode *d = arg;
    int rc = 0;

    if (d->samples + (int64_t)n > MAX_SAMPLES)
        return err_set(err, ERR_LIMIT, "longer than 1000 hours");
    while (n > 0 && rc == 0) {
        size_t room = WIRE_PCM_SAMPLES - d->held_count;
        size_t take = n < room ? n : room;

        memcpy(d->held + d->held_count, pcm, take * sizeof(*pcm));
        d->held_count += take;
        d->samples += (int64_t)take;
        pcm += take;
        n -= take;
        if (d->held_count == WIRE_PCM_SAMPLES)
            rc = hand_on(d, err);
    }
    return rc;
}

/* --- decoding --- */

/* Takes what the decoder has ready. */
static int take_frames(struct decode *d, struct err *err)
{
    for (;;) {
        int av = avcodec_receive_frame(d->media.dec, d->frame);
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
        rc = resampler_feed(&d->resampler, d->frame, on_samples, d, err);
        av_frame_unref(d->frame);
        if (rc != 0)
            return rc;
    }
}

/* packet NULL: the end, so that the decoder gives what it has kept. */
static int decode_packet(struct decode *d, const AVPacket *packet, struct err *err)
{
    int av = avcodec_send_packet(d->media.dec, packet);

    if (av == AVERROR(ENOMEM))
        return out_of_memory(err);
    if (av < 0 && av != AVERROR_EOF)
        d->bad++; /* the tool goes on with the next one too */
    return take_frames(d, err);
}

/* Reads and decodes to the end of the track. */
static int run(struct decode *d, struct err *err)
{
    int rc = 0;

    while (rc == 0) {
        int av = av_read_frame(d->media.fmt, d->packet);

        if (av == AVERROR(ENOMEM))
            return out_of_memory(err);
        if (av < 0) {
            d->read_error = av == AVERROR_EOF ? 0 : av;
            break;
        }
        if (d->packet->stream_index == d->media.track->index) {
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
                rc = decode_packet(d, d->packet, err);
            }
        }
        av_packet_unref(d->packet);
        if (rc == 0 && d->probation && d->packets >= PROBATION_PACKETS)
            rc = judge(d, err);
    }
    if (rc == 0)
        rc = decode_packet(d, NULL, err);
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
    const struct media *m = &d->media;
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
    struct decode *d = av_mallocz(sizeof(*d));
    int rc;

    if (!d || !(d->packet = av_packet_alloc()) || !(d->frame = av_frame_alloc())) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
        goto out;
    }
    d->task = task;
    d->resampler.channel = task->hearing.channel;
    rc = media_open(&d->media, in, task->hearing.track, err);
    if (rc != 0)
        goto out;
    d->probation = d->media.score <= DOUBTFUL_SCORE;
    rc = run(d, err);
    if (rc == 0)
        rc = resampler_flush(&d->resampler, on_samples, d, err);
    if (rc == 0)
        rc = conclude(d, damage, err);
    if (rc == 0)
        rc = hand_on(d, err); /* and describes a recording without any sample */
    if (rc == 0)
        *total_samples = d->samples;
out:
    if (d) {
        resampler_free(&d->resampler);
        media_close(&d->media);
        av_packet_free(&d->packet);
        av_frame_free(&d->frame);
        av_free(d);
    }
    return rc;
}
