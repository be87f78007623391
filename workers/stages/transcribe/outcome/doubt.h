/* workers/stages/transcribe/outcome/doubt.h - whether a segment's text is to be believed, and why.
 *
 * Several weak signs are weighed; none but the certain ones (silence by both the model and the
 * voice activity) drops a text alone. Pure. docs/reference/transcription.md says the rules for
 * users. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_DOUBT_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_DOUBT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/stages/transcribe/transcription.h"

enum doubt {
    DOUBT_NO_SPEECH = 1,  /* no-speech probability above the threshold */
    DOUBT_UNLIKELY = 2,   /* average log probability below the threshold, at the last temperature */
    DOUBT_REPETITIVE = 4, /* compression ratio above the threshold, at the last temperature */
    DOUBT_LOOP = 8,       /* the same few words again and again (text/doubtful_text.h) */
    DOUBT_NO_VOICE = 16,  /* voice activity hears nobody: its mean under a tenth (or under
                             vad_neg_threshold, where that is lower) and under half a second of it
                             (a long segment may hold one short word) */
    DOUBT_PHRASE = 32,    /* what models say to silence: "Thanks for watching!" and its kin
                             (text/doubtful_text.h); what people say every day, too ("Thank you."),
                             only with NO_VOICE, or, where voice was not measured, with both
                             NO_SPEECH and UNLIKELY */
    DOUBT_PACE = 64,      /* more, or far fewer, words than anybody says in the time */
    DOUBT_WORDS = 128,    /* at least half of the words of improbable length or probability (word
                             times only) */
    DOUBT_TRIED_AGAIN = 256, /* an earlier temperature was refused; with: */
    DOUBT_WAS_REPETITIVE = 512,
    DOUBT_WAS_UNLIKELY = 1024,
    DOUBT_VOICE = 2048, /* no doubt but its opposite: voice activity hears somebody in at least half
                           of it; keeps what people may really say from being dropped, and is not
                           among the words of doubt_text */
    DOUBT_FAST = 4096,  /* PACE, and it is more words than anybody says in the time */
    DOUBT_DISBELIEVED = 8192, /* its own words, or the window, are less likely by DOUBT_DISBELIEF
                                 than the threshold; by half of that where every attempt was
                                 refused. Alone enough */
    DOUBT_BESIDE_SILENCE = 16384, /* hallucination_silence_threshold says so; alone enough */
};

/* No text so unlikely was right, with published weights on real speech (docs/measurements.md). */
#define DOUBT_DISBELIEF 1.0f

#define DOUBT_TEXT_MAX 256

struct doubt_facts {
    const char *text;     /* the segment's; valid UTF-8 */
    const char *language; /* "" unknown; no rule asks for it yet: phrases of all languages count,
                             for models fall into another language over silence */
    int64_t start_ms, end_ms;
    float avg_logprob;  /* of its window, by which attempts are judged */
    float text_logprob; /* of its own words */
    float no_speech_prob, compression_ratio;
    uint32_t attempts;
    bool was_repetitive, was_unlikely; /* an earlier attempt */
    float speech_prob; /* mean of the voice activity over the segment; -1: unknown */
    const struct result_word *words;
    uint32_t word_count;
    bool beside_silence; /* as the hallucination rule found it */
};

/* The signs, as bits. Numbers that are none (NaN) are no sign; of a text of more than 2048 letters
 * only those are looked at. */
uint32_t doubt_signs(const struct doubt_facts *f, const struct transcribe_params *p);
/* Whether they are enough to drop the text. */
bool doubt_drops(uint32_t signs);
/* Writes a list of fixed words for people and queries ("tried again: repetitive; loop; silence
 * phrase"). "" for none. At most len - 1 bytes, len >= 1; DOUBT_TEXT_MAX hold any. Returns ret. */
const char *doubt_text(uint32_t signs, char *ret, size_t len);
/* Explains such a list: calls `sentence` for each of its words, in order. A word that doubt_text
 * does not know (a newer program's) is quoted in its sentence. */
void doubt_say(const char *reason, void (*sentence)(void *arg, const char *text), void *arg);

#endif
