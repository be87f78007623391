/* workers/results.h - what is found in a recording: the one set of values that stages yield,
 * messages carry and the catalog keeps. Times are in the recording. Who owns what a value points to
 * is said where the value is. */
#ifndef NIGHTSHIFT_WORKERS_RESULTS_H
#define NIGHTSHIFT_WORKERS_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

struct result_word {
    int64_t start_ms, end_ms; /* start <= end */
    const char *text;         /* valid UTF-8, with its punctuation and its leading blank, as the
                                 model wrote it: a segment's words joined are its text */
    float probability;        /* 0 .. 1 */
};

struct result_segment {
    int64_t start_ms, end_ms;
    const char *text;     /* valid UTF-8, surrounding blanks removed; "" only where it is dropped:
                             somebody speaks, and no text came (RESULT_MISSING) */
    const char *language; /* of its window: "en"; "" unknown */
    float avg_logprob, no_speech_prob, compression_ratio, temperature;
    uint32_t attempts;  /* temperatures tried, 1 .. 16; 0: unknown */
    float speech_prob;  /* mean voice activity over it, 0 .. 1; -1: not measured */
    bool dropped;       /* not believed: kept apart from the transcript, without its words */
    const char *reason; /* why it was tried again, doubted or dropped; "" or NULL: good at once */
    const struct result_word *words; /* NULL when there are none */
    uint32_t word_count;
    uint32_t source; /* of the recording, from 1 on; 0: it has one, or their mix was heard */
};

/* The reason of a dropped segment without text: voice activity hears speech there, and no text
 * came, also not when the stretch was decoded again by itself. */
#define RESULT_MISSING "speech without text"

/* How much of a shard's speech has a text, by voice activity. Several sources are added up. */
struct result_account {
    int64_t speech_ms;  /* somebody speaks; -1: voice activity did not listen, the rest is 0 */
    int64_t dropped_ms; /* of it: the text there was dropped */
    int64_t missing_ms; /* of it: no text came; dropped + missing <= speech */
};

static inline bool result_account_holds(const struct result_account *a)
{
    if (a->speech_ms < 0)
        return a->speech_ms == -1 && a->dropped_ms == 0 && a->missing_ms == 0;
    return a->dropped_ms >= 0 && a->missing_ms >= 0 && a->dropped_ms <= a->speech_ms &&
           a->missing_ms <= a->speech_ms - a->dropped_ms;
}

/* A shard's text from another transcription. It lacks only the times of its words. */
struct result_known_text {
    uint32_t seq;
    const char *language; /* "" when nobody spoke */
    float language_prob;
    struct result_account account;
    uint32_t segment_count;
    const struct result_segment *segments; /* ascending start; words are not looked at */
};

struct result_sound {
    int64_t start_ms, end_ms;
    uint32_t class_id; /* of the model's own */
    const char *name;  /* valid UTF-8 */
    float score;       /* 0 .. 1: the highest */
};

struct result_vector { /* of length 1; what it is of has the size of all */
    int64_t start_ms, end_ms;
    const float *values; /* [size] */
};

struct result_passage { /* of a transcription: neighbouring segments */
    int64_t start_ms, end_ms;
    const char *text; /* valid UTF-8 */
};

/* The output of diarization's two networks for the windows that begin in a shard. */
struct result_voices {
    uint32_t first;        /* the first window: it begins at `first` seconds */
    uint32_t windows;      /* 0: none, all else is 0 then */
    uint32_t frames;       /* of a window */
    uint32_t speakers;     /* that a window knows, at most 8 */
    uint32_t size;         /* values of a vector */
    uint32_t vector_count; /* at most windows * speakers */
    const uint8_t *active; /* [windows][frames], bit s: local speaker s speaks */
    const uint32_t *of;    /* [vector_count]: window * speakers + local speaker, ascending */
    const float *vectors;  /* [vector_count][size], finite */
};

/* A probability without what rounding left outside of 0 .. 1. */
static inline float result_probability(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

/* A tag that a container has for its recording, or one of its chapters. */
struct result_tag {
    const char *source; /* "container", "stream", "bext", "ixml"; "chapter" */
    const char *key;    /* as found; "title" of a chapter */
    const char *value;  /* valid UTF-8 without control characters but tab and newline; never empty,
                           but for a chapter without a title */
    int64_t start_ms, end_ms; /* of a chapter: start <= end; else 0 */
};
/* The most tags of one recording, and bytes of their strings. Their maker cuts them to that. */
#define RESULT_TAGS_MAX 1024u
#define RESULT_TAG_SOURCE_MAX 16u
#define RESULT_TAG_KEY_MAX 128u
#define RESULT_TAG_VALUE_MAX 8192u
#define RESULT_TAG_MS_MAX (INT64_C(1) << 52)

/* How long a channel of a recording has sound, or an audio track of which nothing was decoded. */
struct result_channel {
    uint32_t track;    /* among its audio tracks, from 1 on */
    uint32_t channel;  /* of the track, from 1 on; 0: nothing of the track was decoded */
    int64_t sound_ms;  /* that are no silence; -1: not measured, of channel 0 */
    int64_t length_ms; /* of the track: as decoded; of channel 0 the container's word, or -1 */
    bool heard;        /* in the mix or by itself */
};
/* The most channels of one recording; later ones are not reported. */
#define RESULT_CHANNELS_MAX 256u
#define RESULT_CHANNEL_MS_MAX (INT64_C(1) << 52)

static inline bool result_channel_holds(const struct result_channel *c)
{
    if (c->track == 0 || c->length_ms > RESULT_CHANNEL_MS_MAX || c->sound_ms > c->length_ms)
        return false;
    return c->channel ? c->sound_ms >= 0 : c->sound_ms == -1 && c->length_ms >= -1 && !c->heard;
}

/* A part of a recording that is decoded by itself (workers/audio/hearing.h). */
struct result_source {
    const char *label; /* "channel 2", "track 2"; valid UTF-8, never empty */
};
#define RESULT_SOURCES_MAX 8u
#define RESULT_SOURCE_LABEL_MAX 64u

struct result_turn {
    int64_t start_ms, end_ms;
    uint32_t speaker; /* index of the recording's speakers */
};

struct result_speaker {
    int64_t speech_ms;
    const float *values; /* [size], of length 1; NULL: the voice was never heard clearly enough */
};

/* Who speaks when in a recording, as it is finalized. */
struct result_people {
    uint32_t size; /* values of a voice; 0: none has one */
    uint32_t speaker_count, turn_count;
    const struct result_speaker *speakers;
    const struct result_turn *turns; /* ascending start */
};

#endif
