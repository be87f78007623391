#include "workers/media/track/sources.h"

#include <stdlib.h>
#include <string.h>

#include "workers/audio/channels.h"

#define RATE_HZ 16000
#define LAG_SAMPLES ((size_t)60 * RATE_HZ)
#define SILENCE_FRAMES 1600

struct queue {
    int16_t *data; /* owned */
    size_t head, count, capacity;
};

struct track {
    bool begun, decided;
    bool scene;        /* no channel is a source: what is chosen is which are noise */
    int64_t owed;      /* silence that stands for it already, which lagged behind other tracks */
    uint32_t channels; /* that are kept apart while it is open whether they are sources; or are */
    uint32_t voices;   /* bit i: channel i is a source; 0: it is one, mixed */
    uint32_t noises;   /* bit i: channel i is left out of the mix */
    struct queue mix, apart[HEARING_SOURCES_MAX];
    struct channel_choice *choice; /* NULL: nothing is to be chosen */
    size_t looked;              /* samples in the queues that the choice, or the gate, has seen */
    struct noise_gate *gate;    /* makes the mix from `apart`; NULL: there are no noises */
    struct crosstalk crosstalk; /* between its voices; channels 0: none */
    uint32_t ahead;             /* frames that it has looked at beyond what was given */
};

struct sources {
    uint32_t track_count;
    uint8_t how;
    sources_sink sink;
    void *arg;
    struct track tracks[SOURCES_TRACKS_MAX];
    bool chosen, ended; /* which sources there are */
    uint32_t count;
    struct sources_one list[HEARING_SOURCES_MAX];
    int16_t out[CHANNEL_FRAME * (HEARING_SOURCES_MAX + 1)];
};

/* ---- queues */

static int reserve_queue(struct queue *q, size_t more, struct err *err)
{
    size_t want = q->count + more, capacity = q->capacity ? q->capacity : 65536;
    int16_t *data;

    if (q->head + want <= q->capacity)
        return 0;
    if (want <= q->capacity / 2) {
        memmove(q->data, q->data + q->head, q->count * sizeof(*q->data));
        q->head = 0;
        return 0;
    }
    while (capacity < want * 2)
        capacity *= 2;
    data = malloc(capacity * sizeof(*data));
    if (!data)
        return err_set(err, ERR_LIMIT, "it wants more memory than a decoder may have");
    if (q->count)
        memcpy(data, q->data + q->head, q->count * sizeof(*data));
    free(q->data);
    *q = (struct queue){data, 0, q->count, capacity};
    return 0;
}

/* Every stride-th of pcm; NULL: silence. */
static int push_samples(struct queue *q, const int16_t *pcm, size_t stride, size_t n,
                        struct err *err)
{
    int rc = reserve_queue(q, n, err);
    int16_t *to;

    if (rc != 0 || n == 0)
        return rc;
    to = q->data + q->head + q->count;
    for (size_t i = 0; i < n; i++)
        to[i] = pcm ? pcm[i * stride] : 0;
    q->count += n;
    return 0;
}

static void drop_samples(struct queue *q, size_t n)
{
    q->head += n;
    q->count -= n;
}

static void queue_free(struct queue *q)
{
    free(q->data);
    *q = (struct queue){0};
}

/* ---- life */

int sources_new(uint32_t tracks, uint8_t how, sources_sink sink, void *arg, struct sources **ret,
                struct err *err)
{
    struct sources *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NOMEM, "out of memory");
    s->track_count = tracks;
    s->how = how;
    s->sink = sink;
    s->arg = arg;
    *ret = s;
    return 0;
}

static void drop_channels(struct track *t)
{
    for (uint32_t i = 0; i < HEARING_SOURCES_MAX; i++)
        queue_free(&t->apart[i]);
    t->channels = 0;
}

void sources_free(struct sources *s)
{
    for (uint32_t i = 0; s && i < s->track_count; i++) {
        queue_free(&s->tracks[i].mix);
        drop_channels(&s->tracks[i]);
        channel_choice_free(s->tracks[i].choice);
        noise_gate_free(s->tracks[i].gate);
    }
    free(s);
}

uint32_t sources_count(const struct sources *s, const struct sources_one **ret)
{
    *ret = s->list;
    return s->count;
}

uint64_t sources_mixed(const struct sources *s, uint32_t track)
{
    return ~(uint64_t)s->tracks[track].noises;
}

uint32_t sources_stride(const struct sources *s) { return s->count ? s->count + 1 : 1; }

bool sources_wants_channels(const struct sources *s, uint32_t track)
{
    return s->tracks[track].channels > 0;
}

/* ---- which channels are sources */

/* voices: of a track's channels; fewer than two: it is mixed. */
static void set_track_voices(struct track *t, uint32_t voices)
{
    channel_choice_free(t->choice);
    t->choice = NULL;
    t->decided = true;
    t->voices = voices;
    if (!voices && !t->gate)
        drop_channels(t);
    if (!voices)
        t->crosstalk.channels = 0;
}

/* The mix is made anew, from the channels that there are, without noises. */
static int leave_out(struct track *t, uint32_t noises, struct err *err)
{
    if (noises == 0)
        return 0;
    queue_free(&t->mix);
    t->noises = noises;
    t->looked = 0;
    return noise_gate_new(t->channels, noises, &t->gate, err);
}

static int choose_track_voices(struct track *t, uint32_t voices, struct err *err)
{
    struct crosstalk *x = &t->crosstalk;
    int rc = 0;

    voices = t->scene ? 0 : voices;

    for (uint32_t c = 0; c < t->channels; c++)
        if (voices >> c & 1)
            x->loud[x->channels++] = channel_choice_loud(t->choice, c);
    if (!voices)
        rc = leave_out(t, channel_choice_noises(t->choice), err);
    set_track_voices(t, voices);
    return rc;
}

static void channels_at(const struct track *t, size_t at, const int16_t *ret[HEARING_SOURCES_MAX])
{
    for (uint32_t c = 0; c < t->channels; c++)
        ret[c] = t->apart[c].data + t->apart[c].head + at;
}

/* Shows the choice what has come. at_end: decides in any case. */
static int feed_channel_choice(struct track *t, bool at_end, struct err *err)
{
    const int16_t *frame[HEARING_SOURCES_MAX];
    int rc = 0;

    while (t->choice && t->looked + CHANNEL_FRAME <= t->apart[0].count &&
           !channel_choice_has_enough(t->choice)) {
        channels_at(t, t->looked, frame);
        channel_choice_feed(t->choice, frame);
        t->looked += CHANNEL_FRAME;
    }
    if (t->choice && (at_end || channel_choice_has_enough(t->choice)))
        rc = choose_track_voices(t, channel_choice_voices(t->choice), err);
    if (at_end && !t->begun)
        set_track_voices(t, 0);
    return rc;
}

/* The samples that can be mixed now, without noises. */
static int mix_through_gate(struct track *t, bool ended, struct err *err)
{
    const int16_t *frame[HEARING_SOURCES_MAX];
    int16_t out[CHANNEL_FRAME];
    int rc = 0;

    if (!t->gate)
        return 0;
    for (; t->looked + CHANNEL_FRAME <= t->apart[0].count; t->looked += CHANNEL_FRAME) {
        channels_at(t, t->looked, frame);
        noise_gate_look(t->gate, frame);
    }
    if (ended)
        noise_gate_end(t->gate);
    while (rc == 0 && t->apart[0].count > 0 && noise_gate_ready(t->gate)) {
        const size_t n = t->apart[0].count < CHANNEL_FRAME ? t->apart[0].count : CHANNEL_FRAME;

        channels_at(t, 0, frame);
        noise_gate_mix(t->gate, frame, n, out);
        rc = push_samples(&t->mix, out, 1, n, err);
        for (uint32_t c = 0; c < t->channels; c++)
            drop_samples(&t->apart[c], n);
        t->looked -= t->looked < n ? t->looked : n;
    }
    return rc;
}

static uint32_t count_bits(uint32_t v)
{
    uint32_t n = 0;

    for (; v; v &= v - 1)
        n++;
    return n;
}

/* If there would be more sources than the maximum, later tracks are mixed. */
static void list_sources(struct sources *s)
{
    for (uint32_t i = 0; i < s->track_count; i++) {
        struct track *t = &s->tracks[i];
        uint32_t left = HEARING_SOURCES_MAX - s->count - (s->track_count - 1 - i);

        if (count_bits(t->voices) > left)
            set_track_voices(t, 0);
        if (!t->voices)
            s->list[s->count++] = (struct sources_one){i, 0};
        for (uint32_t c = 0; c < t->channels; c++)
            if (t->voices >> c & 1)
                s->list[s->count++] = (struct sources_one){i, c + 1};
            else if (!t->gate)
                queue_free(&t->apart[c]);
    }
    if (s->count == 1)
        s->count = 0;
}

/* ---- side by side */

static struct queue *queue_of(struct sources *s, struct sources_one of)
{
    struct track *t = &s->tracks[of.track];

    return of.channel ? &t->apart[of.channel - 1] : &t->mix;
}

/* Calls fn for each queue of a track that is in use. */
static int each_queue(struct track *t, int (*fn)(struct queue *, int64_t, struct err *), int64_t n,
                      struct err *err)
{
    int rc = fn(&t->mix, n, err);

    for (uint32_t c = 0; rc == 0 && c < t->channels; c++)
        if (t->voices >> c & 1)
            rc = fn(&t->apart[c], n, err);
    return rc;
}

static int pad_queue(struct queue *q, int64_t to, struct err *err)
{
    return (int64_t)q->count < to ? push_samples(q, NULL, 1, (size_t)to - q->count, err) : 0;
}

static void measure_queues(struct sources *s, size_t *least, size_t *most)
{
    *least = SIZE_MAX;
    *most = 0;
    for (uint32_t i = 0; i < s->track_count; i++) {
        const size_t mix = s->tracks[i].mix.count;
        size_t n = mix;

        for (uint32_t c = 0; c < s->tracks[i].channels; c++)
            if (s->tracks[i].voices >> c & 1 && s->tracks[i].apart[c].count < n)
                n = s->tracks[i].apart[c].count;
        *least = n < *least ? n : *least;
        *most = mix > *most ? mix : *most;
    }
}

int sources_begin(struct sources *s, uint32_t track, uint32_t channels, bool scene, struct err *err)
{
    struct track *t = &s->tracks[track];

    t->begun = true;
    t->scene = scene;
    if (t->decided) /* it was not waited for */
        return 0;
    t->channels = s->how == HEARING_MIX || channels < 2 ? 0 : channels;
    if (t->channels && s->how == HEARING_AUTO)
        return channel_choice_new(channels, &t->choice, err);
    set_track_voices(t, t->channels ? (UINT32_C(1) << channels) - 1 : 0);
    return 0;
}

/* Nothing is awaited that does not come. */
static int fill_up(struct sources *s, struct err *err)
{
    size_t least, most;
    int rc = 0;

    measure_queues(s, &least, &most);
    if (!s->ended && most - least <= LAG_SAMPLES)
        return 0;
    for (uint32_t i = 0; rc == 0 && i < s->track_count; i++) {
        const int64_t to = (int64_t)(s->ended ? most : most - LAG_SAMPLES);
        const int64_t had = (int64_t)s->tracks[i].mix.count;

        s->tracks[i].owed += to > had ? to - had : 0;
        rc = each_queue(&s->tracks[i], pad_queue, to, err);
    }
    return rc;
}

static int16_t mix_tracks_at(struct sources *s, size_t i)
{
    int32_t sum = 0;

    for (uint32_t k = 0; k < s->track_count; k++) {
        const struct queue *q = &s->tracks[k].mix;

        sum += q->data[q->head + i];
    }
    return (int16_t)(sum / (int32_t)s->track_count);
}

static int drop_n(struct queue *q, int64_t n, struct err *err)
{
    (void)err;
    drop_samples(q, (size_t)n);
    return 0;
}

/* The voices of a track, from a frame on. */
static void voices_at(const struct track *t, size_t frame, int16_t *ret[HEARING_SOURCES_MAX])
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < t->channels; c++)
        if (t->voices >> c & 1)
            ret[n++] = t->apart[c].data + t->apart[c].head + frame * CHANNEL_FRAME;
}

/* least: what there is. */
static void take_out_crosstalk(struct track *t, size_t least, size_t n)
{
    int16_t *voices[HEARING_SOURCES_MAX];

    if (!t->crosstalk.channels)
        return;
    while (t->ahead <= CROSSTALK_AHEAD && t->ahead * (size_t)CHANNEL_FRAME < least) {
        size_t left = least - t->ahead * (size_t)CHANNEL_FRAME;

        voices_at(t, t->ahead++, voices);
        crosstalk_look(&t->crosstalk, (const int16_t *const *)voices,
                       left < CHANNEL_FRAME ? left : CHANNEL_FRAME);
    }
    voices_at(t, 0, voices);
    crosstalk_take_out(&t->crosstalk, voices, n);
    t->ahead--;
}

/* The samples that are passed on at once: a frame of channels.h, and those that must be known
 * behind it. */
static size_t next_piece(const struct sources *s, size_t least)
{
    if (least >= (size_t)CHANNEL_FRAME * (CROSSTALK_AHEAD + 1))
        return CHANNEL_FRAME;
    if (!s->ended)
        return 0;
    return least < CHANNEL_FRAME ? least : CHANNEL_FRAME;
}

static int emit_samples(struct sources *s, size_t least, size_t n, struct err *err)
{
    const uint32_t stride = sources_stride(s);
    int rc;

    for (uint32_t i = 0; i < s->track_count; i++)
        take_out_crosstalk(&s->tracks[i], least, n);

    for (size_t i = 0; i < n; i++)
        s->out[i * stride] = mix_tracks_at(s, i);
    for (uint32_t k = 0; k < s->count; k++) {
        const struct queue *q = queue_of(s, s->list[k]);

        for (size_t i = 0; i < n; i++)
            s->out[i * stride + k + 1] = q->data[q->head + i];
    }
    rc = s->sink(s->arg, s->out, n, err);
    for (uint32_t i = 0; i < s->track_count; i++)
        (void)each_queue(&s->tracks[i], drop_n, (int64_t)n, err);
    return rc;
}

static int gate_tracks(struct sources *s, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->track_count; i++)
        rc = mix_through_gate(&s->tracks[i], s->ended, err);
    return rc;
}

static int decide_all_tracks(struct sources *s, struct err *err)
{
    size_t most = 0;
    bool open = false;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->track_count; i++) {
        rc = feed_channel_choice(&s->tracks[i], s->ended, err);
        open |= !s->tracks[i].decided;
        most = s->tracks[i].mix.count > most ? s->tracks[i].mix.count : most;
    }
    /* A track of which nothing comes, or nothing more, is not waited for. */
    for (uint32_t i = 0; rc == 0 && open && i < s->track_count; i++)
        if (most >
            LAG_SAMPLES + (s->tracks[i].begun ? (size_t)CHANNEL_FRAMES_MAX * CHANNEL_FRAME : 0))
            rc = feed_channel_choice(&s->tracks[i], true, err);
    for (uint32_t i = 0; i < s->track_count; i++)
        if (rc != 0 || !s->tracks[i].decided)
            return rc;
    list_sources(s);
    s->chosen = true;
    return gate_tracks(s, err);
}

static int go_on(struct sources *s, struct err *err)
{
    size_t least = 0, most;
    int rc = s->chosen ? gate_tracks(s, err) : decide_all_tracks(s, err);

    if (rc == 0 && s->chosen) {
        rc = fill_up(s, err);
        measure_queues(s, &least, &most);
    }
    for (size_t n; rc == 0 && (n = next_piece(s, least)) > 0; least -= n)
        rc = emit_samples(s, least, n, err);
    return rc;
}

int sources_mix(struct sources *s, uint32_t track, const int16_t *pcm, size_t n, struct err *err)
{
    struct track *t = &s->tracks[track];
    int rc = t->gate ? 0 : push_samples(&t->mix, pcm, 1, n, err);

    return rc == 0 ? go_on(s, err) : rc;
}

int sources_channels(struct sources *s, uint32_t track, const int16_t *pcm, size_t n,
                     struct err *err)
{
    struct track *t = &s->tracks[track];
    const uint32_t stride = t->channels;
    int rc = 0;

    for (uint32_t c = 0; rc == 0 && c < stride; c++)
        if (!t->decided || t->voices >> c & 1 || t->gate)
            rc = push_samples(&t->apart[c], pcm + c, stride, n, err);
    return rc == 0 ? go_on(s, err) : rc;
}

int sources_silence(struct sources *s, uint32_t track, int64_t n, struct err *err)
{
    static const int16_t zeros[SILENCE_FRAMES * HEARING_SOURCES_MAX];
    struct track *t = &s->tracks[track];
    const int64_t paid = n < t->owed ? n : t->owed;
    int rc = 0;

    t->owed -= paid;
    for (n -= paid; rc == 0 && n > 0; n -= SILENCE_FRAMES) {
        const size_t now = n < SILENCE_FRAMES ? (size_t)n : SILENCE_FRAMES;

        if (sources_wants_channels(s, track))
            rc = sources_channels(s, track, zeros, now, err);
        if (rc == 0)
            rc = sources_mix(s, track, zeros, now, err);
    }
    return rc;
}

int sources_end(struct sources *s, struct err *err)
{
    s->ended = true;
    return go_on(s, err);
}
