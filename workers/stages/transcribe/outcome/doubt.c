#include "workers/stages/transcribe/outcome/doubt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workers/audio/speech.h"
#include "workers/text/codepoints.h"
#include "workers/text/doubtful_text.h"

#define VOICE 0.5f             /* of the segment: somebody speaks */
#define NO_VOICE 0.1f          /* of the segment, where nobody's threshold is lower */
#define NO_VOICE_SECONDS 0.5f  /* a short word */
#define WORD_UNLIKELY 0.15f    /* openai-whisper's bound */
#define WORD_LONG_SECONDS 2.0f /* the same */
#define WORD_SLACK_SECONDS 0.1f
#define PACE_SLACK_SECONDS 0.5f /* timestamps are that wrong at times */
#define PACE_FEW_SECONDS 10.0f  /* shorter ones may well be a word and a pause */
/* Nobody says more in a second, not even in an auction. */
#define LETTERS_PER_SECOND 35.0f
#define KANA_PER_SECOND 20.0f
#define SYLLABLES_PER_SECOND 12.0f /* Chinese characters, Hangul */

static uint32_t when(bool is, uint32_t sign) { return is ? sign : 0; }

/* ------------------------------------------------------------------ pace */

static bool between(int32_t c, int32_t low, int32_t high) { return c >= low && c <= high; }

/* Seconds that a letter takes at the very least. */
static float letter_seconds(int32_t c)
{
    if (c == ' ')
        return 0.0f;
    if (between(c, 0x3040, 0x30FF))
        return 1.0f / KANA_PER_SECOND;
    if (between(c, 0x3400, 0x9FFF) || between(c, 0xAC00, 0xD7A3) || between(c, 0xF900, 0xFAFF) ||
        between(c, 0x20000, 0x3FFFF))
        return 1.0f / SYLLABLES_PER_SECOND;
    return 1.0f / LETTERS_PER_SECOND;
}

static float text_seconds(const struct folded *f)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < f->len; i++)
        sum += letter_seconds(f->at[i]);
    return sum;
}

static float segment_seconds(const struct doubt_facts *f)
{
    return f->end_ms > f->start_ms ? (float)(f->end_ms - f->start_ms) / 1000.0f : 0.0f;
}

/* Too much for the time, or not one letter a second for long. */
static uint32_t pace_signs(const struct doubt_facts *f, const struct folded *text)
{
    float seconds = segment_seconds(f), least = text_seconds(text);

    if (least > seconds + PACE_SLACK_SECONDS)
        return DOUBT_PACE | DOUBT_FAST;
    return when(seconds >= PACE_FEW_SECONDS && least * LETTERS_PER_SECOND < seconds, DOUBT_PACE);
}

/* ------------------------------------------------------------------ words */

/* 1: odd; 0: good; -1: no word (punctuation). */
static int odd_word(const struct result_word *w)
{
    struct folded_reader r = {w->text, false};
    float least = 0.0f, seconds = (float)(w->end_ms - w->start_ms) / 1000.0f;
    int32_t c;

    while ((c = folded_next(&r)) != 0)
        least += letter_seconds(c);
    if (!(least > 0.0f))
        return -1;
    return w->probability < WORD_UNLIKELY || seconds > WORD_LONG_SECONDS ||
           seconds + WORD_SLACK_SECONDS < least;
}

static bool odd_words(const struct doubt_facts *f)
{
    uint32_t odd = 0, words = 0;

    for (uint32_t i = 0; i < f->word_count; i++) {
        int is = odd_word(&f->words[i]);

        words += is >= 0;
        odd += is > 0;
    }
    return words && odd * 2 >= words;
}

/* ------------------------------------------------------------------ all signs */

/* Who asks voice activity for the faintest voices must not lose them here for being faint. */
static float no_voice_below(const struct transcribe_params *p)
{
    return fminf(NO_VOICE, speech_neg_threshold(p->vad_threshold, p->vad_neg_threshold));
}

static uint32_t voice_signs(const struct doubt_facts *f, const struct transcribe_params *p)
{
    if (!(f->speech_prob >= 0.0f)) /* not measured, or no number */
        return 0;
    return when(f->speech_prob >= VOICE, DOUBT_VOICE) |
           when(f->speech_prob < no_voice_below(p) &&
                    f->speech_prob * segment_seconds(f) < NO_VOICE_SECONDS,
                DOUBT_NO_VOICE);
}

static uint32_t attempt_signs(const struct doubt_facts *f)
{
    if (f->attempts < 2)
        return 0;
    return DOUBT_TRIED_AGAIN | when(f->was_repetitive, DOUBT_WAS_REPETITIVE) |
           when(f->was_unlikely, DOUBT_WAS_UNLIKELY);
}

/* "Thank you." is said often, and invented often. The model's no-speech probability is its
 * window's, and says little of a short thanks between long pauses: alone it is no witness against
 * one. */
static bool is_phrase(const struct folded *text, const struct doubt_facts *f, uint32_t signs)
{
    const uint32_t both = DOUBT_NO_SPEECH | DOUBT_UNLIKELY;
    bool measured = f->speech_prob >= 0.0f;

    switch (silence_phrase_find(text)) {
    case SILENCE_PHRASE_TYPICAL:
        return true;
    case SILENCE_PHRASE_COMMON:
        return signs & DOUBT_NO_VOICE || (!measured && (signs & both) == both);
    default:
        return false;
    }
}

static bool is_disbelieved(const struct doubt_facts *f, const struct transcribe_params *p)
{
    bool refused = f->attempts > 1 && f->avg_logprob < p->logprob_threshold;
    float bound = p->logprob_threshold - (refused ? DOUBT_DISBELIEF / 2 : DOUBT_DISBELIEF);

    return fminf(f->avg_logprob, f->text_logprob) < bound;
}

uint32_t doubt_signs(const struct doubt_facts *f, const struct transcribe_params *p)
{
    struct folded text;
    uint32_t signs;

    folded_make(&text, f->text);
    signs = voice_signs(f, p) | attempt_signs(f) |
            when(f->no_speech_prob > p->no_speech_threshold, DOUBT_NO_SPEECH) |
            when(f->avg_logprob < p->logprob_threshold, DOUBT_UNLIKELY) |
            when(is_disbelieved(f, p), DOUBT_DISBELIEVED) |
            when(f->beside_silence, DOUBT_BESIDE_SILENCE) |
            when(f->compression_ratio > p->compression_ratio_threshold, DOUBT_REPETITIVE) |
            when(repetition_loops(&text), DOUBT_LOOP) | pace_signs(f, &text) |
            when(odd_words(f), DOUBT_WORDS);
    return signs | when(is_phrase(&text, f, signs), DOUBT_PHRASE);
}

/* ------------------------------------------------------------------ what they amount to */

/* All of `all` and none of `none`. Pace and words' times alone never drop anything: the times may
 * be wrong while the words are right. */
static const struct rule {
    uint32_t all, none;
} rules[] = {
    /* Two that know nothing of each other say that nobody speaks. */
    {DOUBT_NO_SPEECH | DOUBT_NO_VOICE, 0},
    /* Nobody is heard, and the model itself does not believe what it wrote. */
    {DOUBT_UNLIKELY | DOUBT_NO_VOICE, 0},
    /* Every attempt failed, and the likeliest of them is far below what is believed. */
    {DOUBT_DISBELIEVED, 0},
    /* Odd words between silences, where that was asked for. */
    {DOUBT_BESIDE_SILENCE, 0},
    /* A phrase that models write for silence, if another sign says that it is silent. Voice
     * activity detects a person who says "Thanks for watching!" aloud, and the text stays. */
    {DOUBT_PHRASE | DOUBT_NO_VOICE, 0},
    {DOUBT_PHRASE | DOUBT_NO_SPEECH, DOUBT_VOICE},
    {DOUBT_PHRASE | DOUBT_UNLIKELY, DOUBT_VOICE},
    /* A loop is what a model falls into where there is nothing to hear. The model's own no-speech
     * probability is not witness enough: people shout "No, no, no!" where it is noisy. */
    {DOUBT_LOOP | DOUBT_NO_VOICE, 0},
    /* A loop that no temperature helped against; but crowds chant and children count, and of that
     * the model is sure. */
    {DOUBT_LOOP | DOUBT_REPETITIVE, DOUBT_VOICE},
    {DOUBT_LOOP | DOUBT_REPETITIVE | DOUBT_UNLIKELY, 0},
    /* Nobody chants faster than a mouth can move. */
    {DOUBT_LOOP | DOUBT_FAST, 0},
};

bool doubt_drops(uint32_t signs)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if ((signs & rules[i].all) == rules[i].all && !(signs & rules[i].none))
            return true;
    return false;
}

/* ------------------------------------------------------------------ in words */

static const struct name {
    uint32_t sign;
    const char *text, *sentence;
} names[] = {
    {DOUBT_NO_SPEECH, "no speech", "The model itself thought that nobody speaks here."},
    {DOUBT_NO_VOICE, "no voice", "Voice activity detected nobody here."},
    {DOUBT_UNLIKELY, "too unlikely", "The model hardly believed these words itself."},
    {DOUBT_DISBELIEVED, "beyond belief", "It believed so little of them that they are left out."},
    {DOUBT_REPETITIVE, "too repetitive", "It repeats itself more than people do."},
    {DOUBT_LOOP, "loop", "The same few words come again and again."},
    {DOUBT_PHRASE, "silence phrase", "Models write such words where nothing is said."},
    {DOUBT_PACE, "impossible pace", "Nobody says so much, or so little, in that time."},
    {DOUBT_WORDS, "odd words",
     "Half of its words, or more, are improbable or oddly long or short."},
    {DOUBT_BESIDE_SILENCE, "beside silence", "Its words are odd, and stand between silences."},
    {0, RESULT_MISSING, "Voice activity detected speech here, but no text came."}, /* of no text */
};
static const char again[] = "tried again";
/* Behind it, by what the attempt was refused for. */
static const struct name again_names[] = {
    {0, "", "A first attempt was refused."},
    {DOUBT_WAS_REPETITIVE, ": repetitive", "A first attempt was refused: it repeated itself."},
    {DOUBT_WAS_UNLIKELY, ": unlikely",
     "A first attempt was refused: the model hardly believed it."},
    {DOUBT_WAS_REPETITIVE | DOUBT_WAS_UNLIKELY, ": repetitive, unlikely",
     "First attempts were refused: they repeated themselves, and the model hardly believed them."},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void append_reason_text(char *ret, size_t len, const char *before, const char *what)
{
    size_t used = strlen(ret);

    snprintf(ret + used, len - used, "%s%s", before, what);
}

const char *doubt_text(uint32_t signs, char *ret, size_t len)
{
    const uint32_t was = signs & (DOUBT_WAS_REPETITIVE | DOUBT_WAS_UNLIKELY);

    ret[0] = 0;
    for (size_t i = 0; signs & DOUBT_TRIED_AGAIN && i < COUNT(again_names); i++)
        if (again_names[i].sign == was)
            append_reason_text(ret, len, again, again_names[i].text);
    for (size_t i = 0; i < COUNT(names); i++)
        if (signs & names[i].sign)
            append_reason_text(ret, len, ret[0] ? "; " : "", names[i].text);
    return ret;
}

static const char *sentence_of(const struct name *list, size_t n, const char *word, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].text) == len && memcmp(list[i].text, word, len) == 0)
            return list[i].sentence;
    return NULL;
}

void doubt_say(const char *reason, void (*sentence)(void *arg, const char *text), void *arg)
{
    const size_t skip = sizeof(again) - 1;

    for (size_t len; *reason; reason += len + strspn(reason + len, "; ")) {
        bool tried = strncmp(reason, again, skip) == 0;
        char other[DOUBT_TEXT_MAX];
        const char *text;

        len = strcspn(reason, ";");
        text = tried ? sentence_of(again_names, COUNT(again_names), reason + skip, len - skip)
                     : sentence_of(names, COUNT(names), reason, len);
        if (!text)
            snprintf(other, sizeof(other), "It is doubted: '%.*s'.", (int)(len < 80 ? len : 80),
                     reason);
        if (len > 0)
            sentence(arg, text ? text : other);
    }
}
