/* workers/stages/transcribe/decode/language.h - which language a lane speaks, from what its windows
 * were heard to speak. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_LANGUAGE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

#define LANGUAGE_TALLY 128 /* languages; Whisper has a hundred */

struct language_tally { /* all zero at first */
    struct language_count {
        int32_t language;
        uint32_t windows;
        double prob; /* sum over them */
    } counts[LANGUAGE_TALLY];
    uint32_t count;   /* languages */
    uint32_t windows; /* all together */
};

/* Languages beyond LANGUAGE_TALLY different ones are not counted. */
void language_add(struct language_tally *t, int32_t language, float prob);
/* The most frequent language, of equals the one with the higher sum of probabilities, of equals the
 * first; *prob: its mean probability. False when there is none. */
bool language_most(const struct language_tally *t, int32_t *language, float *prob);

struct language_rule {
    uint32_t windows; /* that are asked at most; 0 is taken as 1 */
    float threshold;
};

/* The next window in order: true when the language is known with it. A window as sure as the
 * threshold decides alone, the last one that is asked by majority. */
bool language_ask(struct language_tally *t, const struct language_rule *rule, int32_t heard,
                  float heard_prob, int32_t *language, float *prob);

#endif
