#include "workers/media/decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workers/media/track/ear.h"
#include "workers/media/open_media.h"
#include "workers/media/track/sources.h"
#include "workers/media/container_tags.h"
#include "workers/media/track/track_choice.h"
#include "workers/media/wire.h"

/* The packets that must show that a doubtful container's audio is real. Until then its audio is
 * held back. */
#define PROBATION_PACKETS 40
/* The least share of audio in the bytes read, and in the packets. */
#define REAL_SHARE 0.75
/* Nobody records a thousand hours in one file; a hostile one lasts for ever. */
#define MAX_SAMPLES ((int64_t)1000 * 3600 * DECODER_RATE_HZ)

struct decode {
    const struct decode_task *task;
    struct media media;
    struct ear ears[HEARING_SOURCES_MAX]; /* as media's */
    struct sources *sources;              /* NULL: one mono source, straight on */
    uint32_t rate_hz;                     /* of the first one's first frame; 0: none came */
    struct relay relay;
    AVPacket *packet;
    AVFrame *frame;
    bool probation;
    unsigned streams;                /* that there were when it was described; 0: it was not yet */
    int64_t packets, bad, frames;    /* of the track */
    int64_t last_bad;                /* which packet that was, from 1 on */
    int64_t encrypted;               /* of the bad packets */
    int64_t packet_bytes, first_pos; /* of packets; where the first one lies */
    int64_t samples;                 /* resampled so far, held ones too */
    int16_t held[WIRE_PCM_SAMPLES];  /* the last of them, not handed on yet, interleaved */
    size_t held_count;               /* for each source */
    uint32_t stride;                 /* samples of held for one */
};

/* --- noise that looks like a recording --- */

/* Bytes of the input that went by since the first packet, whose place is known. */
static double audio_share(const struct decode *d)
{
    int64_t passed = avio_seek(d->media.io, 0, SEEK_CUR) - d->first_pos;

    return passed > 0 ? (double)d->packet_bytes / (double)passed : 1.0;
}

static int judge_probation(struct decode *d, struct err *err)
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

/* Finds the channels of each track that are heard: in the mix, or apart as sources. */
static void find_heard(const struct decode *d, bool apart, struct media_heard *ret)
{
    const struct sources_one *list = NULL;
    const uint32_t count = d->sources ? sources_count(d->sources, &list) : 0;

    for (uint32_t i = 0; i < d->media.ear_count; i++) {
        ret[i] = d->ears[i].heard;
        if (d->sources)
            ret[i].heard &= sources_mixed(d->sources, i);
    }
    for (uint32_t i = 0; apart && i < count; i++)
        if (list[i].channel)
            ret[list[i].track].heard = 0;
    for (uint32_t i = 0; apart && i < count; i++)
        if (list[i].channel)
            ret[list[i].track].heard |= UINT64_C(1) << (list[i].channel - 1);
}

static void say_left_out(const struct decode *d, bool apart, char *ret, size_t size)
{
    struct media_heard heard[HEARING_SOURCES_MAX];

    find_heard(d, apart, heard);
    media_left_out(&d->media, heard, ret, size);
}

static int say_info(struct decode *d, struct decoder_info *info, struct err *err)
{
    struct result_source sources[HEARING_SOURCES_MAX];
    char names[HEARING_SOURCES_MAX][32];
    const struct sources_one *list = NULL;

    info->source_count = d->sources ? sources_count(d->sources, &list) : 0;
    info->sources = sources;
    for (uint32_t i = 0; i < info->source_count; i++) {
        name_source(d, &list[i], names[i]);
        sources[i].label = names[i];
    }
    say_left_out(d, false, info->mix_left_out, sizeof(info->mix_left_out));
    say_left_out(d, true, info->left_out, sizeof(info->left_out));
    return d->task->info(d->task->arg, info, err);
}

static int report_media_info(struct decode *d, struct err *err)
{
    struct tag_list tags = {0};
    struct decoder_info info;
    int rc;

    d->streams = d->media.fmt->nb_streams;
    media_describe(&d->media, &info);
    if (d->rate_hz) {
        info.sample_rate_hz = d->rate_hz;
        info.channels = d->ears[0].heard.channels;
    }
    if (d->media.track && d->task->hearing.channel > info.channels)
        return err_set(err, ERR_INPUT,
                       "channel %u was requested, but it has %u: enqueue it with other --channels",
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
    int rc = d->probation ? judge_probation(d, err) : 0;

    if (rc == 0 && !d->streams)
        rc = report_media_info(d, err);

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
        size_t capacity = most - d->held_count;
        size_t take = n < capacity ? n : capacity;

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

    f->d->ears[f->ear].given += (int64_t)n;
    return f->d->sources ? sources_mix(f->d->sources, f->ear, pcm, n, err)
                         : on_samples(f->d, pcm, n, err);
}

static int on_apart(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    const struct from_ear *f = arg;

    return sources_channels(f->d->sources, f->ear, pcm, n, err);
}

/* A film's channels are one scene: nobody meant them to be heard apart. */
static bool is_scene(const struct decode *d, const AVFrame *f)
{
    return d->task->hearing.channels == HEARING_AUTO && f->ch_layout.nb_channels > 2 &&
           f->ch_layout.order == AV_CHANNEL_ORDER_NATIVE;
}

/* How many of a frame's channels may be sources, or noise. */
static uint32_t may_be_apart(const struct decode *d, const AVFrame *f)
{
    const int n = f->ch_layout.nb_channels;

    if (d->task->hearing.channel || n < 2 || n > (int)HEARING_SOURCES_MAX)
        return 0;
    return d->task->hearing.channels == HEARING_MIX ? 0 : (uint32_t)n;
}

static int begin_ear(struct decode *d, uint32_t ear, const AVFrame *f, struct err *err)
{
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
                       "channel %u was requested, but track %u has %d: enqueue it with other "
                       "--channels or --tracks",
                       channel, d->media.ears[ear].nth, f->ch_layout.nb_channels);
    if (ear == 0)
        d->rate_hz = (uint32_t)f->sample_rate;
    if (n >= 2 && !d->sources)
        rc = sources_new(1, d->task->hearing.channels, on_sources, d, &d->sources, err);
    d->ears[ear].apart.apart = n;
    return rc == 0 && d->sources ? sources_begin(d->sources, ear, n, is_scene(d, f), err) : rc;
}

/* Flushes the resamplers. */
static int flush_ear(struct decode *d, uint32_t ear, struct err *err)
{
    struct from_ear from = {d, ear};
    int rc = 0;

    if (d->sources && sources_wants_channels(d->sources, ear))
        rc = resampler_flush(&d->ears[ear].apart, on_apart, &from, err);
    return rc == 0 ? resampler_flush(&d->ears[ear].mix, on_mix, &from, err) : rc;
}

/* Silence up to a position. */
static int fill_ear(struct decode *d, uint32_t ear, int64_t to, struct err *err)
{
    static const int16_t zeros[WIRE_PCM_SAMPLES];
    struct ear *e = &d->ears[ear];
    int rc = flush_ear(d, ear, err);
    int64_t n = to - e->given;

    if (rc != 0 || n <= 0)
        return rc;
    e->given += n;
    if (d->sources)
        return sources_silence(d->sources, ear, n, err);
    for (; rc == 0 && n > 0; n -= WIRE_PCM_SAMPLES)
        rc = on_samples(d, zeros, n < WIRE_PCM_SAMPLES ? (size_t)n : WIRE_PCM_SAMPLES, err);
    return rc;
}

static int hear_frame(struct decode *d, uint32_t ear, AVFrame *frame, struct err *err)
{
    struct from_ear from = {d, ear};
    int rc = d->ears[ear].begun ? 0 : begin_ear(d, ear, frame, err);

    if (rc == 0)
        sound_meter_feed(&d->ears[ear].meter, frame);
    if (rc == 0 && ear_follow(&d->ears[ear], frame))
        rc = fill_ear(d, ear, d->ears[ear].clock.base, err);
    if (rc == 0 && d->sources && sources_wants_channels(d->sources, ear))
        rc = resampler_feed(&d->ears[ear].apart, frame, on_apart, &from, err);
    return rc == 0 ? resampler_feed(&d->ears[ear].mix, frame, on_mix, &from, err) : rc;
}

/* The frame that waited for another one to confirm its time; next NULL: there is none. */
static int hear_held(struct decode *d, uint32_t ear, const AVFrame *next, struct err *err)
{
    AVFrame *held = d->ears[ear].held ? ear_release(&d->ears[ear], next) : NULL;
    int rc = held ? hear_frame(d, ear, held, err) : 0;

    av_frame_free(&held);
    return rc;
}

static int take_frame(struct decode *d, uint32_t ear, struct err *err)
{
    bool held = false;
    int rc = hear_held(d, ear, d->frame, err);

    if (rc == 0)
        rc = ear_hold(&d->ears[ear], d->frame, &held, err);
    return rc == 0 && !held ? hear_frame(d, ear, d->frame, err) : rc;
}

/* A packet that cannot be decoded: the tool goes on with the next one too. */
static void note_bad(struct decode *d, uint32_t ear)
{
    d->bad++;
    d->last_bad = d->packets;
    ear_lost_packet(&d->ears[ear]);
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
            note_bad(d, ear);
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
    int rc = packet ? media_renew(&d->media, ear, packet, err) : 0, av;

    if (rc == ERR_INPUT) {
        note_bad(d, ear);
        return 0;
    }
    if (rc != 0)
        return rc;
    av = avcodec_send_packet(d->media.ears[ear].dec, packet);
    if (av == AVERROR(ENOMEM))
        return out_of_memory(err);
    if (av < 0 && av != AVERROR_EOF)
        note_bad(d, ear);
    return take_frames(d, ear, err);
}

static int end_ears(struct decode *d, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < d->media.ear_count; i++)
        rc = decode_packet(d, i, NULL, err);
    for (uint32_t i = 0; rc == 0 && i < d->media.ear_count; i++)
        rc = hear_held(d, i, NULL, err);
    for (uint32_t i = 0; rc == 0 && i < d->media.ear_count; i++) {
        rc = ear_end(&d->ears[i]) ? fill_ear(d, i, d->ears[i].clock.base, err)
                                  : flush_ear(d, i, err);
    }
    return rc == 0 && d->sources ? sources_end(d->sources, err) : rc;
}

/* A packet of a track that is heard. */
static int take_packet(struct decode *d, uint32_t ear, const AVPacket *p, struct err *err)
{
    if (d->packets++ == 0)
        d->first_pos = p->pos > 0 ? p->pos : 0;
    d->packet_bytes += p->size;
    media_progress(&d->media);
    if (d->task->pulse.fn)
        d->task->pulse.fn(d->task->pulse.arg);
    ear_packet(&d->ears[ear], p);
    if (av_packet_get_side_data(p, AV_PKT_DATA_ENCRYPTION_INFO, NULL)) {
        d->encrypted++;
        note_bad(d, ear);
        return 0;
    }
    return decode_packet(d, ear, p, err);
}

/* The track goes on with the packets that were held. One that cannot be decoded is left out, as it
 * was. */
static int take_held(struct decode *d, struct err *err)
{
    struct relay *r = &d->relay;
    const int stream = r->held[0]->stream_index;
    struct media_ear next;
    int rc = media_open_next(&d->media, stream, &next, err);

    if (rc != 0) {
        relay_done(r, &d->media, stream);
        return rc == ERR_INPUT ? 0 : rc;
    }
    rc = decode_packet(d, 0, NULL, err);
    if (rc == 0)
        rc = hear_held(d, 0, NULL, err); /* the next one has another clock's rate */
    media_go_on(&d->media, 0, &next);
    ear_replace(&d->ears[0], &d->media, 0);
    for (uint32_t i = 0; rc == 0 && i < r->count; i++)
        if (r->held[i]->stream_index == stream)
            rc = take_packet(d, 0, r->held[i], err);
    relay_done(r, &d->media, stream);
    return rc;
}

/* Reads and decodes to the end of the tracks. */
static int decode_tracks(struct decode *d, struct err *err)
{
    uint64_t complaints = d->media.complaints;
    uint32_t ear;
    int rc = 0, next = 0;

    while (rc == 0 && (next = media_next(&d->media, d->packet, &ear, err)) > 0) {
        /* If it was sound, a hole tells: behind the packets that were read before it. */
        for (uint32_t i = 0; d->media.complaints != complaints && i < d->media.ear_count; i++)
            ear_lost_bytes(&d->ears[i]);
        if (ear < d->media.ear_count) {
            relay_heard(&d->relay, &d->media, d->packet);
            rc = take_packet(d, ear, d->packet, err);
        } else if (relay_hold(&d->relay, &d->media, d->packet)) {
            rc = take_held(d, err);
        }
        complaints = d->media.complaints;
        av_packet_unref(d->packet);
        if (rc == 0 && d->probation && d->packets >= PROBATION_PACKETS)
            rc = judge_probation(d, err);
    }
    rc = rc ? rc : next;
    while (rc == 0 && relay_at_end(&d->relay))
        rc = take_held(d, err);
    if (rc == 0)
        rc = end_ears(d, err);
    if (rc == 0 && d->probation)
        rc = judge_probation(d, err);
    return rc;
}

/* --- the end --- */

static void set_damage_note(struct decode_remarks *r, const char *what, const char *why)
{
    snprintf(r->damage, sizeof(r->damage), "%s%s%s%s", what, why && *why ? " (" : "",
             why && *why ? why : "", why && *why ? ")" : "");
}

/* How long the first track is by its own clock: in a mov, which tells a track's length without the
 * time before it, from its first frame on. The container's word on the last packet counts: nothing
 * is missing where it says that this one lasts for a minute. */
static double track_seconds(const struct decode *d)
{
    int64_t end = ear_ends_at(&d->ears[0]);

    if (strncmp(d->media.fmt->iformat->name, "mov,", 4) == 0)
        end -= d->ears[0].clock.first;
    return (double)end / DECODER_RATE_HZ;
}

/* Encoders and cutters leave half a block at the end, which holds next to nothing. */
static bool only_the_last(const struct decode *d)
{
    return d->bad == 1 && d->last_bad == d->packets && d->packets > 1;
}

static void say_jumps(const struct decode *d, struct decode_remarks *remarks)
{
    for (uint32_t i = 0; i < d->media.ear_count; i++) {
        const struct track_clock *c = &d->ears[i].clock;

        if (c->jumps == 0)
            continue;
        snprintf(remarks->clock, sizeof(remarks->clock),
                 "the container's clock jumps by %.1f s at %.1f s%s: the times behind it go on",
                 (double)c->jump_by / DECODER_RATE_HZ, (double)c->jump_at / DECODER_RATE_HZ,
                 c->jumps > 1 ? ", and later again" : "");
        return;
    }
}

/* Reports damage of audio that was decoded nevertheless. An error if there is no audio. */
static int report_decode_damage(struct decode *d, struct decode_remarks *remarks, struct err *err)
{
    struct media *m = &d->media;
    double stated = media_stated_seconds(m);
    double got = track_seconds(d), lost = 0;
    const char *why = m->in_err.code ? m->in_err.msg : m->note;
    char what[160] = "";
    char text[AV_ERROR_MAX_STRING_SIZE] = "";

    for (uint32_t i = 0; i < m->ear_count; i++)
        lost = fmax(lost, (double)d->ears[i].clock.lost / DECODER_RATE_HZ);
    if (got * media_cut_factor(m) > stated || d->ears[0].clock.jumps > 0)
        stated = got * media_cut_factor(m);
    if (m->in_err.code != 0 && m->in_err.code != ERR_INPUT) {
        *err = m->in_err;
        return err->code;
    }
    if (m->read_error != 0 && !*why) {
        av_strerror(m->read_error, text, sizeof(text));
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
    } else if (m->in_err.code != 0 || m->read_error != 0) {
        snprintf(what, sizeof(what), "reading stopped after %.1f s: the file is damaged", got);
    } else if (lost > 0 && d->bad == 0) {
        snprintf(what, sizeof(what), "%.1f s of the sound are damaged", lost);
    } else if (lost > 0 || (d->bad > 0 && !only_the_last(d))) {
        snprintf(what, sizeof(what),
                 "%.1f s of the sound could not be decoded: %lld of %lld packets", lost,
                 (long long)d->bad, (long long)d->packets);
    }
    if (d->samples > 0) {
        if (what[0])
            set_damage_note(remarks, what, why);
        say_jumps(d, remarks);
        if (!what[0] && !remarks->clock[0])
            remarks->length = media_pictures_end(m);
        return 0;
    }
    if (what[0]) {
        set_damage_note(remarks, what, why);
        err_set(err, ERR_INPUT, "no audio could be decoded: %.400s", remarks->damage);
        return err->code;
    }
    set_damage_note(remarks, "holds no audio: its track is 0 seconds long", NULL);
    return 0;
}

static void add_channel(struct decode_remarks *to, struct result_channel c)
{
    if (to->channel_count < RESULT_CHANNELS_MAX)
        to->channels[to->channel_count++] = c;
}

/* heard: its channels. */
static void account_ear(struct decode *d, uint32_t ear, uint64_t heard, struct decode_remarks *to)
{
    struct sound_meter *m = &d->ears[ear].meter;
    const int64_t length_ms = d->ears[ear].given * 1000 / DECODER_RATE_HZ;

    sound_meter_end(m);
    for (uint32_t c = 0; c < m->channels; c++) {
        const int64_t ms = m->sound_us[c] / 1000;

        add_channel(to, (struct result_channel){d->media.ears[ear].nth, c + 1,
                                                ms < length_ms ? ms : length_ms, length_ms,
                                                (heard >> c & 1) != 0});
    }
}

/* Reports the sound of each track and channel, and whether it was heard. */
static void report_channels(struct decode *d, struct decode_remarks *to)
{
    struct media_heard heard[HEARING_SOURCES_MAX];

    find_heard(d, true, heard);
    for (uint32_t nth = 1; nth <= media_tracks(&d->media); nth++) {
        const uint32_t before = to->channel_count;

        for (uint32_t i = 0; i < d->media.ear_count; i++)
            if (d->media.ears[i].nth == nth)
                account_ear(d, i, heard[i].heard, to);
        if (to->channel_count == before && !media_hears(&d->media, nth))
            add_channel(to,
                        (struct result_channel){nth, 0, -1, media_track_ms(&d->media, nth), false});
    }
}

/* If nobody asked for certain tracks, chooses the one with something to hear. */
static int open_track(struct decode *d, struct stream *in, struct err *err)
{
    struct hearing hearing = d->task->hearing;
    uint32_t best, chosen;
    int rc;

    d->media.may_follow = !hearing.tracks;
    rc = media_open(&d->media, in, &hearing, err);
    if (rc != 0 || hearing.tracks || hearing.channel || media_tracks(&d->media) < 2)
        return rc;
    best = chosen = d->media.ears[0].nth;
    media_close(&d->media);
    d->media = (struct media){.may_follow = true};
    rc = stream_seek(in, 0, err);
    if (rc == 0)
        rc = track_choice(in, best, d->task->pulse, &chosen, err);
    if (chosen != best && chosen <= HEARING_TRACKS_MAX)
        hearing.tracks = UINT32_C(1) << (chosen - 1);
    return rc == 0 ? media_open(&d->media, in, &hearing, err) : rc;
}

int decode_stream(struct stream *in, const struct decode_task *task, int64_t *total_samples,
                  struct decode_remarks *remarks, struct err *err)
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
    *remarks = (struct decode_remarks){0};
    d->task = task;
    d->stride = 1;
    rc = open_track(d, in, err);
    if (rc == 0 && d->media.ear_count == 0) { /* a film without sound: nothing is left to read */
        *total_samples = 0;
        rc = report_media_info(d, err);
        goto out;
    }
    if (rc != 0)
        goto out;
    for (uint32_t i = 0; i < d->media.ear_count; i++)
        ear_prepare(&d->ears[i], &d->media, i);
    if (d->media.ear_count > 1)
        rc = sources_new(d->media.ear_count, task->hearing.channels, on_sources, d, &d->sources,
                         err);
    if (rc != 0)
        goto out;
    d->probation = d->media.score <= MEDIA_DOUBTFUL_SCORE;
    rc = decode_tracks(d, err);
    if (rc == 0)
        rc = report_decode_damage(d, remarks, err);
    if (rc == 0)
        rc = hand_on(d, err); /* and describes a recording without any sample */
    if (rc == 0 && (d->media.followed || d->streams != d->media.fmt->nb_streams))
        rc = report_media_info(d, err);
    if (rc == 0)
        report_channels(d, remarks);
    if (rc == 0)
        *total_samples = d->samples;
out:
    if (d) {
        for (uint32_t i = 0; i < d->media.ear_count; i++)
            ear_free(&d->ears[i]);
        relay_clear(&d->relay);
        sources_free(d->sources);
        media_close(&d->media);
        av_packet_free(&d->packet);
        av_frame_free(&d->frame);
        av_free(d);
    }
    return rc;
}
