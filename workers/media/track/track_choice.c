#include "workers/media/track/track_choice.h"

#include <stdlib.h>
#include <string.h>

#include "workers/audio/channels.h"
#include "workers/audio/steady.h"
#include "workers/media/track/resample.h"

#define FRAMES_MOST (600 * 20) /* ten minutes */
#define LOUD_FRAMES 20         /* in a block with sound: a second of them */

struct listener {
    struct resampler resampler;
    struct bands bands;
    int16_t pcm[BANDS_FRAME];
    size_t filled;
    uint8_t level[STEADY_BLOCK][BANDS]; /* of the block that is under way */
    size_t count;
    uint32_t loud, frames;
    bool sound, speech; /* in any block */
};

struct scan {
    struct media media;
    struct listener ears[HEARING_SOURCES_MAX];
    AVPacket *packet;
    AVFrame *frame;
};

static void end_block(struct listener *l)
{
    const enum steady what = steady_judge(l->level, l->count);

    l->sound |= l->loud >= LOUD_FRAMES && what != STEADY_NOISE;
    l->speech |= l->loud >= LOUD_FRAMES && what == STEADY_SPEECH;
    l->count = 0;
    l->loud = 0;
}

static int on_pcm(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    struct listener *l = arg;

    (void)err;
    while (n > 0) {
        const size_t capacity = BANDS_FRAME - l->filled, take = n < capacity ? n : capacity;

        memcpy(l->pcm + l->filled, pcm, take * sizeof(*pcm));
        l->filled += take;
        pcm += take;
        n -= take;
        if (l->filled < BANDS_FRAME)
            break;
        l->filled = 0;
        bands_feed(&l->bands, l->pcm, l->level[l->count++]);
        l->loud += channel_level(l->pcm, BANDS_FRAME) < CHANNEL_QUIET_DB;
        l->frames++;
        if (l->count == STEADY_BLOCK)
            end_block(l);
    }
    return 0;
}

/* Ignores packets that cannot be decoded: the decoder of the chosen track reports them. */
static int decode_scan_packet(struct scan *s, uint32_t ear, const AVPacket *packet, struct err *err)
{
    int rc = 0;

    (void)avcodec_send_packet(s->media.ears[ear].dec, packet);
    while (rc == 0 && avcodec_receive_frame(s->media.ears[ear].dec, s->frame) == 0) {
        rc = resampler_feed(&s->ears[ear].resampler, s->frame, on_pcm, &s->ears[ear], err);
        av_frame_unref(s->frame);
    }
    return rc;
}

/* Until somebody speaks on the best one. Damage ends it as the end of the file does: alike each
 * time. */
static int scan_for_speech(struct scan *s, uint32_t best, struct stream_pulse pulse,
                           struct err *err)
{
    bool enough = false;
    uint32_t ear;
    int rc = 0, next = 0;

    while (rc == 0 && !enough && (next = media_next(&s->media, s->packet, &ear, err)) > 0) {
        media_progress(&s->media);
        if (pulse.fn)
            pulse.fn(pulse.arg);
        if (ear < s->media.ear_count)
            rc = decode_scan_packet(s, ear, s->packet, err);
        enough = rc == ERR_INPUT || s->ears[best].speech ||
                 (ear < s->media.ear_count && s->ears[ear].frames >= FRAMES_MOST);
        rc = rc == ERR_INPUT ? 0 : rc;
        av_packet_unref(s->packet);
    }
    rc = rc == 0 && next < 0 ? next : rc;
    if (rc == 0 && s->media.in_err.code != 0 && s->media.in_err.code != ERR_INPUT) {
        *err = s->media.in_err;
        rc = err->code;
    }
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < s->media.ear_count; i++)
        end_block(&s->ears[i]);
    return 0;
}

/* The place of the one to hear, where best is the container's. */
static uint32_t choose_track(const struct scan *s, uint32_t best)
{
    if (s->ears[best].speech)
        return best;
    for (uint32_t i = 0; i < s->media.ear_count; i++)
        if (s->ears[i].speech)
            return i;
    for (uint32_t i = 0; i < s->media.ear_count && !s->ears[best].sound; i++)
        if (s->ears[i].sound)
            return i;
    return best;
}

static int scan_tracks(struct scan *s, struct stream *in, uint32_t nth, struct stream_pulse pulse,
                       uint32_t *ret, struct err *err)
{
    const struct hearing all = {.channels = HEARING_MIX, .tracks = HEARING_ALL};
    uint32_t best = 0;
    int rc;

    s->packet = av_packet_alloc();
    s->frame = av_frame_alloc();
    if (!s->packet || !s->frame)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = media_open(&s->media, in, &all, err);
    if (rc != 0)
        return rc == ERR_INPUT ? 0 : rc;
    while (best < s->media.ear_count && s->media.ears[best].nth != nth)
        best++;
    if (best == s->media.ear_count || s->media.ear_count < 2)
        return 0;
    rc = scan_for_speech(s, best, pulse, err);
    if (rc == 0)
        *ret = s->media.ears[choose_track(s, best)].nth;
    return rc;
}

int track_choice(struct stream *in, uint32_t best, struct stream_pulse pulse, uint32_t *ret,
                 struct err *err)
{
    struct scan *s = calloc(1, sizeof(*s));
    int rc;

    *ret = best;
    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = scan_tracks(s, in, best, pulse, ret, err);
    for (uint32_t i = 0; i < HEARING_SOURCES_MAX; i++)
        resampler_free(&s->ears[i].resampler);
    media_close(&s->media);
    av_packet_free(&s->packet);
    av_frame_free(&s->frame);
    free(s);
    return rc == 0 ? stream_seek(in, 0, err) : rc;
}
