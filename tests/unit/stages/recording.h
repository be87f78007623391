/* Recordings that are made up of parts, lanes over them, and what comes out, for tests of the
 * driver with fake_whisper.h and fake_silero.h.
 *
 * A part's samples name its script (fake_whisper.h) and, in the digits behind, their place: each
 * window's audio can be told apart. */
#ifndef NIGHTSHIFT_TESTS_RECORDING_H
#define NIGHTSHIFT_TESTS_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workers/stages/transcribe/transcribe.h"

#define EN 642
#define ES 643
#define T(seconds) (650 + (int32_t)((seconds)*50 + 0.5))
#define FARMER 261, 275, 396 /* " farmer" */
#define TUESDAY 620          /* " tuesday" */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SECONDS(x) ((int64_t)((x)*16000))
#define SILENCE (-1)
#define PLACES 50000 /* samples whose places differ */
#define RECORDING_PARTS 40
#define RECORDING_SEGMENTS 256

struct part {
    int64_t samples;
    int script; /* SILENCE: digital silence */
};

struct kept_segment {
    int64_t start_ms, end_ms;
    char text[256], reason[64], language[8];
    float speech_prob, avg_logprob, temperature;
    uint32_t attempts, words;
    bool dropped;
};

struct recording {
    struct part parts[RECORDING_PARTS];
    int64_t from;      /* position of the first sample */
    int64_t decoded;   /* samples that can be read; beyond: wait */
    int64_t released;  /* what the lane has given back */
    int64_t most_held; /* read and not given back */
    int64_t fails_at;  /* reading from there fails; 0: never */
    /* The result. */
    int told, code;
    char language[16];
    float language_prob;
    uint32_t windows, segments;
    int64_t end;
    struct result_account account;
    struct kept_segment segment[RECORDING_SEGMENTS];
};

int64_t recording_length(const struct recording *r);
/* From here on nothing was transcribed, and all can be read. */
void recording_rewind(struct recording *r);
/* Random speech and silence, sometimes hardly any. */
void recording_random(struct recording *r, uint64_t *seed, uint32_t scripts);
/* "[start-end text]" per segment in a static buffer. */
const char *recording_text(const struct recording *r);
/* Segments that have a text, dropped or not; the others tell of speech without one. */
uint32_t recording_texts(const struct recording *r);
/* Fails unless segments and words ascend within the recording; words within their segments; and
 * unless the account of the speech agrees with itself and with the segments without text. */
void recording_take(void *arg, const struct lane_result *result, const struct err *err);
/* Fails unless both came to the same in all that is kept. */
void recording_equal(const struct recording *a, const struct recording *b);
struct lane_source recording_source(struct recording *r);

uint32_t random_below(uint64_t *seed, uint32_t n);

/* Adds it to the transcriber as a lane that reports to r. language NULL: as in the parameters. */
struct lane *recording_add(struct transcriber *t, struct recording *r, const char *language);
/* Steps until nothing more can be done; fails when that takes absurdly long. */
void recording_finish(struct transcriber *t);
/* fake and fake_ear as new: each script says nothing, and speaks English. */
void recording_reset(void);
/* The defaults, with voice activity. */
void recording_packed(struct transcribe_params *p);

/* Script i says these tokens at attempt k. */
#define SAY_AT(i, k, ...)                                     \
    do {                                                      \
        static const int32_t say_tokens[] = {__VA_ARGS__};    \
        fake.scripts[i].attempt[k].tokens = say_tokens;       \
        fake.scripts[i].attempt[k].count = COUNT(say_tokens); \
        fake.scripts[i].attempts = (k) + 1;                   \
    } while (0)
#define SAY(i, ...) SAY_AT(i, 0, __VA_ARGS__)

#endif
