/* workers/stages/transcribe/lane.h - one shard in work: its next windows, and its results so far.
 * Part of transcribe.c; engine thread only.
 *
 * Lanes are of three kinds. A *sequential* lane (lane_sequential.c) has one window at a time, which
 * begins where the one before says; its audio stays with the source until the window has ended. A
 * *packed* lane (lane_packed.c) listens to its audio with the voice activity's model first and
 * packs the speech into windows that are independent of each other: several may be in flight at
 * once, and their results are put in order. A *known-text* lane (lane_known_text.c) has its text
 * already, and only times its words: its windows follow the text's segments.
 *
 *   QUEUED ──► FLYING ──► FINISHED ──► gone, once those before it are
 *      ▲          │ the session is made anew, or its slot is needed by another
 *      └──────────┘ (it begins again and yields the same) */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_LANE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/speech.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/decode/language.h"
#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/stages/transcribe/transcription.h"

struct coverage;   /* coverage.h */
struct outcome;    /* outcome.h */
struct known_text; /* lane_known_text.c */
struct listening;  /* lane_packed.c */
struct asr_model;

/* ---- a list of segments that owns their texts, reasons and words
 *
 * A window yields one, and a lane gathers one. */

struct yield { /* all zero: empty */
    struct result_segment *segments;
    uint32_t count, capacity;
};

void yield_free(struct yield *y); /* back to {0} */
/* Copies text, reason, words and their texts; language stays borrowed. ERR_NOMEM. */
int yield_add(struct yield *y, const struct result_segment *segment, struct err *err);
/* The words of a segment that a list has, so far borrowed, become its own. ERR_NOMEM: it has none.
 */
int yield_own_words(struct result_segment *s, struct err *err);
/* Moves all segments of `from` to the end of `to`. ERR_NOMEM: nothing has moved. */
int yield_move(struct yield *to, struct yield *from, struct err *err);
/* By when they begin; of those that begin together, those that were there first. */
void yield_sort(struct yield *y);

/* ---- lanes */

/* Shared by all lanes of a transcriber; borrowed. */
struct lane_policy {
    const struct transcribe_params *params;
    const struct asr_model *model;
    bool packed;                       /* voice activity cuts the windows */
    const int32_t *initial, *hotwords; /* tokens */
    uint32_t initial_count, hotwords_count;
    uint32_t previous_max; /* tokens of a text that a condition has room for */
    uint32_t queue; /* packed: windows of a lane that wait for a slot; 0: LANE_QUEUE. More while it
                       asks for its language */
};

enum window_place { WINDOW_QUEUED, WINDOW_FLYING, WINDOW_FINISHED };

struct lane_window {
    struct lane_window *next;
    struct lane *lane;
    enum window_place place;
    int64_t at; /* where it begins, sample in the recording; in its lane no two have the same */
    int64_t samples; /* of its audio, 1 .. window_samples */

    /* Packed */
    float *pcm; /* owned: [samples] */
    int64_t pcm_room;
    struct pack pack; /* where its audio lies, samples in the recording */
    float *voice;     /* owned: probability of speech for each SPEECH_STEP of its audio */
    uint32_t number;  /* of a whole: in its lane, in the order of time */
    bool heard;       /* it was asked for its language: */
    int32_t language;
    float language_prob;
    bool mute;  /* asked, and nobody speaks in it for all the model hears: it has no say in that */
    bool spoke; /* FINISHED */
    bool unasked;  /* FINISHED: surely silent before it was asked: its pieces are asked */
    bool is_probe; /* it is asked for its language alone */
    bool is_asked; /* its stretches are, or were, asked for their languages */
    bool is_known; /* its language is decided */
    struct yield yield;

    /* A window may be a piece of another one, which is heard again by itself. It stands behind that
     * one in the list, and both are done with together. */
    struct lane_window *whole;  /* NULL: it is none */
    int64_t offset;             /* samples of the whole before it */
    uint32_t depth;             /* how often it was cut: 0 of a whole */
    uint32_t pieces, waits_for; /* of a whole: made so far, and not finished yet */
    struct coverage *coverage;  /* owned; of a whole */

    /* Known text: its audio is in pcm, too. */
    uint32_t first_text, end_text; /* segments of the lane's yield, */
    uint32_t texts;                /*   and how many of them are timed */
};

/* The language detected in one of the lane's first windows. */
struct lane_word {
    bool known, mute;
    int32_t language; /* -1: it was not asked, for nobody speaks in it */
    float prob;
};
#define LANE_WORDS 64

enum lane_state {
    LANE_OPEN,
    LANE_ENDED, /* to be reported to the caller */
};

struct lane {
    struct lane *next; /* in the transcriber's list, oldest first */
    const struct lane_policy *policy;
    enum lane_state state;
    struct lane_source source;
    lane_done done;
    void *done_arg;
    uint64_t seed;
    int64_t begin;    /* sample in the recording */
    int64_t end;      /* audio before it is done with */
    int64_t counted;  /* lane_count has counted the audio before it */
    int32_t language; /* id, -1 unknown */
    bool is_given;    /* it was said which it is */
    float language_prob;
    bool spoke;                   /* some window held speech */
    struct language_tally spoken; /* what windows spoke */
    struct lane_word words[LANE_WORDS];
    uint32_t numbered;                /* whole windows so far */
    struct lane_window *first_window; /* owned, in order; a sequential lane has at most one */
    struct yield yield;
    struct result_account account; /* of windows that are done with */
    uint32_t windows;              /* that it has had */
    int failed;                    /* 0, or the code in err */
    struct err err;

    /* Sequential */
    uint32_t short_moves; /* windows in a row that moved on by less than a second */
    int32_t *previous;    /* owned: the last tokens of the text so far, or the initial prompt */
    uint32_t previous_count;
    int64_t speech_end; /* sample where the last word ended */

    struct listening *listening;   /* owned; NULL in other lanes than packed ones */
    struct known_text *known_text; /* owned; NULL in lanes without known text */
};

/* language: id, -1: to be heard. The caller links it. */
int lane_new(const struct lane_policy *policy, int64_t begin, int32_t language, uint64_t seed,
             struct lane_source source, struct lane **ret, struct err *err);
/* The same for a shard with known text, which is borrowed until the lane ends. The lane has the
 * segments of this source. */
int lane_new_known_text(const struct lane_policy *policy, int64_t begin,
                        const struct result_known_text *known_text, uint32_t text_source,
                        struct lane_source source, struct lane **ret, struct err *err);
void lane_free(struct lane *l); /* NULL is fine */
/* It ends with this error, unless it has ended before. */
void lane_fail(struct lane *l, const struct err *why);
/* Samples of audio done since the last call. */
int64_t lane_count(struct lane *l);

/* The next window that can fly: its audio is in *pcm (the window's own, or `room` for a whole
 * window), and its place stays QUEUED. *ret NULL: none now; the lane may also have ended. */
int lane_next(struct lane *l, float *room, const float **pcm, struct lane_window **ret,
              struct err *err);
/* Windows that wait for a slot and could fly; of a sequential lane the one that it may have. */
uint32_t lane_queued(const struct lane *l);
/* How many could be waiting together before long, those among them, were none to fly. */
uint32_t lane_coming(const struct lane *l);
/* The tokens before the window's own: *n of them, borrowed. */
const int32_t *lane_previous(const struct lane_window *w, uint32_t *n);
/* Repeats a window's draws. */
uint64_t lane_window_seed(const struct lane_window *w);
/* The next state of a window that was asked for its language. */
enum lane_hearing {
    LANE_GOES,    /* it goes on with *language */
    LANE_WAITS,   /* others have to be asked first */
    LANE_IS_DONE, /* it needs its slot no more; it may be gone */
};
/* It was just heard to speak `heard`. no_speech: as decoding_heard gives it. ERR_NOMEM. */
int lane_language(struct lane_window *w, int32_t heard, float heard_prob, float no_speech,
                  int32_t *language, float *prob, enum lane_hearing *ret, struct err *err);
/* Takes the result of a window in flight; the window may be gone afterwards. */
int lane_take(struct lane_window *w, const struct decoding_result *r, struct outcome *o,
              struct err *err);
/* Calls done with the result or the error. */
void lane_tell(struct lane *l);

/* Both kinds of lanes use these. A new window is in no list yet. */
int lane_window_new(struct lane *l, int64_t at, struct lane_window **ret, struct err *err);
void lane_window_free(struct lane_window *w); /* NULL is fine */
/* Everything before the sample is done with, and the source may forget it. */
void lane_move(struct lane *l, int64_t to);
/* A window that is speech spoke it. */
void lane_note_language(struct lane *l, const struct lane_window *w, int32_t language, float prob);

int sequential_begin(struct lane *l, struct err *err);
int sequential_next(struct lane *l, float *room, struct lane_window **ret, struct err *err);
int sequential_take(struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                    struct err *err);

int packed_begin(struct lane *l, struct err *err);
void packed_free(struct listening *h); /* NULL is fine */
int packed_next(struct lane *l, struct lane_window **ret, struct err *err);
uint32_t packed_queued(const struct lane *l);
uint32_t packed_coming(const struct lane *l);
int packed_take(struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                struct err *err);

/* ---- languages */

int packed_language(struct lane_window *w, int32_t heard, float heard_prob, int32_t *language,
                    float *prob, enum lane_hearing *ret, struct err *err);

/* ---- lanes with known text */

int known_text_begin(struct lane *l, const struct result_known_text *known_text, uint32_t source,
                     struct err *err);
void known_text_free(struct lane *l); /* the lane's known text, if any */
/* Queues windows whose audio is there, as many as the lane should hold. ERR_NOMEM. */
int known_text_prepare(struct lane *l, bool *progress, struct err *err);
struct lane_window *known_text_next(const struct lane *l); /* NULL: none now */
uint32_t known_text_queued(const struct lane *l);
uint32_t known_text_coming(const struct lane *l);
/* Some segment so far has more tokens than half of the model's positions. */
bool known_text_is_long(const struct lane *l);
/* A window's segments as drafts without texts, and its tokens, valid until the next call for a
 * window of its lane. */
int known_text_drafts(const struct lane_window *w, struct decoding_result *r, struct outcome *o,
                      struct err *err);
/* Their words: the window is finished. */
int known_text_take(struct lane_window *w, const struct outcome *o, struct err *err);
void known_text_result(const struct lane *l, struct lane_result *ret); /* its language, account */

/* ---- listening (packed lanes) */

#define LANE_QUEUE 4

struct silero_block;
/* The next piece of audio for the voice activity's model, where the queue has room: 1 with block
 * filled in but for prob; pcm: room for SILERO_BLOCK steps. 0: not now (not decoded yet, no room,
 * all heard). */
int lane_listen(struct lane *l, float *pcm, struct silero_block *block, struct err *err);
/* Takes the model's probabilities for the block (block->prob) and queues windows. ERR_NOMEM. */
int lane_heard(struct lane *l, const struct silero_block *block, struct err *err);

#endif
