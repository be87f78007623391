/* workers/stages/transcribe/decode/language.h - which language a lane speaks, from what its windows
 * were heard to speak, and where it changes. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_LANGUAGE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

struct asr_model; /* workers/models/asr_model.h */

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
/* A stretch of speech in one language; stretches follow each other. */
struct language_stretch {
    int64_t start, end; /* samples of the window */
    int32_t language;   /* that the model heard in it alone, and how sure it is of it */
    float prob;
    int64_t pause; /* samples of the recording that were left out before it */
};

/* From here on a window speaks one language: of 19 clips in one language 18 are surer, of windows
 * in two languages 2 of 24 (whisper-base). */
#define LANGUAGE_SURE 0.95f

/* Sets the languages of the n stretches to those of the likeliest way through them, where each
 * change has a price, and so has another beginning than in `usual` (-1: none): a word of a stretch
 * that is short, or unsure, does not change the language. Viterbi's algorithm over the languages
 * that were heard. */
void language_smooth(struct language_stretch *s, uint32_t n, int32_t usual);
/* Mean probability of n > 0 stretches that have the same language by now, by their lengths. */
float language_mean(const struct language_stretch *s, uint32_t n);

/* The code of a language's token, "" for none of the model's; of a model that knows one language,
 * that one's. */
const char *language_code_of(const struct asr_model *m, int32_t language);

#endif
