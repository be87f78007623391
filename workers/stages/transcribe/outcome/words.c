#include "workers/stages/transcribe/outcome/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "workers/text/codepoints.h"
#include "workers/text/languages.h"

/* Seconds. Times are frames, so that half a second sharp is common: it must not hang on the last
 * bit of a float what becomes of it. */
#define FAR_OFF 0.501f
#define SENTENCE_ENDS ".。!！?？"
/* In the order of their codes: a token of several is punctuation only if they follow each other
 * here ("()" is, "?!" is part of the word before), a habit of openai-whisper's. */
#define ASCII_PUNCTUATION "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

void words_free(struct words *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        free(w->words[i].text);
    free(w->words);
    *w = (struct words){0};
}

/* ------------------------------------------------------------------ tokens to words */

/* The end of the unit that begins at token `first`: the fewest tokens that end where a character
 * ends. Only a byte that continues a character (10xxxxxx) can stand behind a cut one, so the next
 * token's first byte tells; and ill-formed bytes are repaired the same in pieces as in a whole. */
static uint32_t unit_end(const struct vocabulary *v, const int32_t *tokens, uint32_t first,
                         uint32_t n)
{
    uint32_t end = first + 1;

    for (; end < n; end++) {
        size_t len;
        const uint8_t *bytes = vocabulary_bytes(v, tokens[end], &len);

        if (!len || (bytes[0] & 0xC0) != 0x80)
            break;
    }
    return end;
}

/* The code point at s, valid UTF-8 and not empty, and its bytes. */
static int32_t code_at(const char *s, size_t *size)
{
    const unsigned char *p = (const unsigned char *)s;

    *size = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    switch (*size) {
    case 1:
        return p[0];
    case 2:
        return (p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3:
        return (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    default:
        return (p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
}

/* Is s without the blanks around it a piece of the list? Nothing but blanks is. */
static bool is_listed_punctuation(const char *list, const char *s)
{
    char piece[64];
    size_t begin = SIZE_MAX, end = 0, size;

    for (size_t i = 0; s[i]; i += size) {
        if (codepoint_is_blank(code_at(s + i, &size)))
            continue;
        if (begin == SIZE_MAX)
            begin = i;
        end = i + size;
        if (end - begin >= sizeof(piece)) /* longer than any list */
            return false;
    }
    if (begin == SIZE_MAX)
        return true;
    memcpy(piece, s + begin, end - begin);
    piece[end - begin] = 0;
    return strstr(list, piece) != NULL;
}

/* *ret: does the unit begin a word where words are parted by blanks? */
static int begins_word(const struct vocabulary *v, const int32_t *tokens, uint32_t n, bool *ret,
                       struct err *err)
{
    char *text;
    int rc = vocabulary_decode(v, tokens, n, &text, err);

    if (rc)
        return rc;
    *ret = text[0] == ' ' || is_listed_punctuation(ASCII_PUNCTUATION, text);
    free(text);
    return 0;
}

int words_split(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                struct words *ret, struct err *err)
{
    bool every = language_without_blanks(language);
    struct words w = {.words = n ? calloc(n, sizeof(struct word)) : NULL};
    int rc = 0;

    if (n && !w.words)
        return err_set(err, ERR_NOMEM, "no memory for the words of %u tokens", n);
    for (uint32_t at = 0, end; !rc && at < n; at = end) {
        bool begins = every || at == 0;

        end = unit_end(v, tokens, at, n);
        if (!begins)
            rc = begins_word(v, tokens + at, end - at, &begins, err);
        if (begins)
            w.words[w.count++].first = at;
        w.words[w.count - 1].count += end - at;
    }
    for (uint32_t i = 0; !rc && i < w.count; i++)
        rc = vocabulary_decode(v, tokens + w.words[i].first, w.words[i].count, &w.words[i].text,
                               err);
    if (rc)
        words_free(&w);
    else
        *ret = w;
    return rc;
}

/* ------------------------------------------------------------------ punctuation */

/* `from`, the neighbour of `into`, becomes part of it and is left empty. */
static int merge_words(struct word *from, struct word *into, struct err *err)
{
    bool before = from->first < into->first;
    const char *a = before ? from->text : into->text, *b = before ? into->text : from->text;
    size_t len = strlen(a), more = strlen(b) + 1;
    char *text = malloc(len + more);

    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for a word");
    memcpy(text, a, len);
    memcpy(text + len, b, more);
    free(into->text);
    into->text = text;
    into->first = before ? from->first : into->first;
    into->count += from->count;
    free(from->text);
    from->text = NULL;
    from->count = 0;
    return 0;
}

/* An opening mark joins the word behind it, but only after a blank: a quotation mark may also
 * close. */
static int merge_opening(struct words *w, struct err *err)
{
    uint32_t into = w->count - 1;

    for (uint32_t i = w->count - 1; i-- > 0;) {
        const char *text = w->words[i].text;

        if (text[0] == ' ' && is_listed_punctuation(WORDS_PREPEND, text)) {
            int rc = merge_words(&w->words[i], &w->words[into], err);
            if (rc)
                return rc;
        } else
            into = i;
    }
    return 0;
}

static bool ends_with_blank(const char *s)
{
    size_t len = strlen(s);

    return len && s[len - 1] == ' ';
}

static int merge_closing(struct words *w, struct err *err)
{
    uint32_t into = UINT32_MAX;

    for (uint32_t i = 0; i < w->count; i++) {
        const char *text = w->words[i].text;

        if (!text) /* is part of another */
            continue;
        if (into != UINT32_MAX && !ends_with_blank(w->words[into].text) &&
            strstr(WORDS_APPEND, text)) {
            int rc = merge_words(&w->words[i], &w->words[into], err);
            if (rc)
                return rc;
        } else
            into = i;
    }
    return 0;
}

int words_merge_punctuation(struct words *w, struct err *err)
{
    uint32_t kept = 0;
    int rc;

    if (!w->count)
        return 0;
    if ((rc = merge_opening(w, err)) || (rc = merge_closing(w, err)))
        return rc;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->words[i].text)
            w->words[kept++] = w->words[i];
    w->count = kept;
    return 0;
}

/* ------------------------------------------------------------------ times */

static void set_times(struct words *w, const uint32_t *first_frame, const double *logprob,
                      float frames_per_second)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct word *x = &w->words[i];
        double sum = 0.0;

        x->start = (float)first_frame[x->first] / frames_per_second;
        x->end = (float)first_frame[x->first + x->count] / frames_per_second;
        for (uint32_t k = x->first; k < x->first + x->count; k++)
            sum += number_exp(logprob[k]);
        x->probability = (float)(sum / x->count);
    }
}

static int compare_lengths(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static int set_median(struct words *w, struct err *err)
{
    float *lengths = malloc((w->count ? w->count : 1) * sizeof(*lengths));
    uint32_t n = 0;

    if (!lengths)
        return err_set(err, ERR_NOMEM, "no memory for the lengths of %u words", w->count);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->words[i].end > w->words[i].start)
            lengths[n++] = w->words[i].end - w->words[i].start;
    qsort(lengths, n, sizeof(*lengths), compare_lengths);
    w->median = n ? (lengths[(n - 1) / 2] + lengths[n / 2]) / 2.0f : 0.0f;
    w->median = fminf(w->median, WORDS_LONGEST_MEDIAN);
    free(lengths);
    return 0;
}

/* A full stop is heard where nothing is said, and the word behind one takes the pause with it. */
static void cut_at_sentences(struct words *w)
{
    float longest = 2.0f * w->median;

    for (uint32_t i = 1; w->median > 0.0f && i < w->count; i++) {
        struct word *x = &w->words[i];

        if (x->end - x->start <= longest)
            continue;
        if (strstr(SENTENCE_ENDS, x->text))
            x->end = x->start + longest;
        else if (strstr(SENTENCE_ENDS, w->words[i - 1].text))
            x->start = x->end - longest;
    }
}

int words_align(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                const uint32_t *first_frame, const double *logprob, float frames_per_second,
                struct words *ret, struct err *err)
{
    struct words w = {0};
    int rc = words_split(v, language, tokens, n, &w, err);

    if (!rc) {
        set_times(&w, first_frame, logprob, frames_per_second);
        rc = set_median(&w, err);
    }
    if (!rc) {
        cut_at_sentences(&w);
        rc = words_merge_punctuation(&w, err);
    }
    if (rc)
        words_free(&w);
    else
        *ret = w;
    return rc;
}

/* ------------------------------------------------------------------ segments */

/* The first two words after a pause of more than four words' length. */
static void cut_after_pause(struct word *words, uint32_t n, float median, double last_speech,
                            double window)
{
    struct word *first = &words[0], *second = n > 1 ? &words[1] : NULL;
    float longest = 2.0f * median;

    if ((double)first->end - last_speech <= 4.0 * (double)median + 0.001 ||
        (first->end - first->start <= longest &&
         !(second && second->end - first->start > 2.0f * longest)))
        return;
    if (second && second->end - second->start > longest) {
        /* At the very begin of a recording the two share what there is. */
        float half = (float)(((double)second->end - window) / 2.0);

        second->start = first->end = fmaxf(half, second->end - longest);
    }
    first->start = fmaxf((float)-window, first->end - longest);
}

void words_fit(struct word *words, uint32_t n, float median, double last_speech, double window,
               float *start, float *end)
{
    struct word *first = &words[0], *last = &words[n - 1];
    float from = *start, to = *end;

    cut_after_pause(words, n, median, last_speech, window);
    if (from < first->end && from - first->start > FAR_OFF)
        first->start = fmaxf((float)-window, fminf(first->end - median, from));
    else
        *start = first->start;
    if (to > last->start && last->end - to > FAR_OFF)
        last->end = fmaxf(last->start + median, to);
    else
        *end = last->end;
}

/* ------------------------------------------------------------------ loudness */

#define STEP 160       /* samples of LOUDNESS_STEP_S */
#define LEAST_DB 10    /* between quiet and loud, for the difference to mean anything */
#define MARGIN_DB 6    /* above quiet, at the least */
#define SHARE 0.3f     /* of the way from quiet to loud is loud */
#define REACH_S 1.0f   /* a word's sound begins so much after its end at the most */
#define TAIL_S 0.8f    /* and goes on so long */
#define PAUSE_STEPS 12 /* a stop within a word ("p", "t") is shorter */
#define SHORTEST_S 0.02f

static float measure_step_decibels(const float *pcm)
{
    double sum = 0;

    for (int i = 0; i < STEP; i++)
        sum += (double)pcm[i] * (double)pcm[i];
    return (float)(10 * log10(sum / STEP + 1e-9)); /* 16-bit silence and below are alike */
}

void loudness_measure(const float *pcm, size_t n, struct loudness *ret)
{
    float level[LOUDNESS_MAX], smooth[LOUDNESS_MAX], sorted[LOUDNESS_MAX], quiet, loud, limit;
    uint32_t steps = n / STEP < LOUDNESS_MAX ? (uint32_t)(n / STEP) : LOUDNESS_MAX;

    ret->steps = 0;
    if (steps < 3)
        return;
    for (uint32_t i = 0; i < steps; i++)
        level[i] = measure_step_decibels(pcm + (size_t)i * STEP);
    for (uint32_t i = 0; i < steps; i++) {
        float a = level[i ? i - 1 : i], b = level[i + 1 < steps ? i + 1 : i];

        smooth[i] = sorted[i] = (a + level[i] + b) / 3;
    }
    qsort(sorted, steps, sizeof(*sorted), compare_lengths);
    quiet = sorted[steps / 10];
    loud = sorted[(size_t)steps * 99 / 100]; /* 0.3 s of speech in a window are enough */
    if (!(loud - quiet >= LEAST_DB))
        return;
    limit = quiet + fmaxf(MARGIN_DB, SHARE * (loud - quiet));
    for (uint32_t i = 0; i < steps; i++)
        ret->loud[i] = smooth[i] > limit;
    ret->steps = steps;
}

/* The step of a time, within the window. */
static uint32_t step_at(const struct loudness *l, float s)
{
    double i = (double)s / LOUDNESS_STEP_S + 1e-3;

    return i <= 0 ? 0 : i < l->steps ? (uint32_t)i : l->steps - 1;
}

static float time_of(uint32_t step) { return (float)(step * LOUDNESS_STEP_S); }

float loudness_share(const struct loudness *l, float start, float end)
{
    uint32_t from, to, n = 0;

    if (!l->steps || !(end > start))
        return 0;
    from = step_at(l, start);
    to = step_at(l, end);
    for (uint32_t i = from; i < to; i++)
        n += l->loud[i];
    return to > from ? (float)n / (float)(to - from) : 0;
}

static size_t count_characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The words were placed where nothing is heard, while the timestamps have sound between them. */
static bool are_words_misplaced(const struct loudness *l, const struct word *words, uint32_t n,
                                float from, float to)
{
    float start = words[0].start, end = words[n - 1].end;
    float overlap = fminf(end, to) - fmaxf(start, from);

    return to - from > SHORTEST_S && overlap < (to - from) / 2 &&
           loudness_share(l, start, fmaxf(end, start + SHORTEST_S)) < 0.25f &&
           loudness_share(l, from, to) > 0.4f;
}

static void spread_words_evenly(struct word *words, uint32_t n, float from, float to)
{
    size_t all = 0, at = 0;

    for (uint32_t i = 0; i < n; i++)
        all += count_characters(words[i].text);
    for (uint32_t i = 0; i < n; i++) {
        words[i].start = from + (to - from) * (float)at / (float)(all ? all : 1);
        at += count_characters(words[i].text);
        words[i].end = from + (to - from) * (float)at / (float)(all ? all : 1);
    }
}

/* Out of the quiet before its sound. */
static void place_start(const struct loudness *l, struct word *w, float after)
{
    uint32_t i = step_at(l, w->start), end = step_at(l, fminf(w->end + REACH_S, after));

    if (l->loud[i])
        return;
    while (i < end && !l->loud[i])
        i++;
    if (i >= end)
        return;
    w->start = time_of(i);
    if (w->end < w->start + SHORTEST_S)
        w->end = fminf(w->start + SHORTEST_S, after);
}

/* To the end of its sound: back out of the quiet behind it, or on to where the sound ends. */
static void place_end(const struct loudness *l, struct word *w, float after)
{
    uint32_t i = step_at(l, w->end), start = step_at(l, w->start), end, quiet = 0;

    if (!l->loud[i]) {
        while (i > start + 2 && !l->loud[i])
            i--;
        if (l->loud[i])
            w->end = time_of(i + 1);
        return;
    }
    end = step_at(l, fminf(w->end + TAIL_S, after));
    for (; i < end && quiet < PAUSE_STEPS; i++)
        quiet = l->loud[i] ? 0 : quiet + 1;
    if (i >= end && quiet == 0 && after > time_of(end) + SHORTEST_S)
        return; /* it goes on and on: that is not this word */
    w->end = fmaxf(w->end, fminf(time_of(i - quiet), after));
}

void loudness_place(const struct loudness *l, struct word *words, uint32_t n, float from, float to,
                    float before, float after)
{
    if (!l->steps || !n)
        return;
    from = fmaxf(from, before);
    to = fminf(to, after);
    if (are_words_misplaced(l, words, n, from, to))
        spread_words_evenly(words, n, from, to);
    for (uint32_t i = 0; i < n; i++)
        place_start(l, &words[i],
                    i + 1 < n ? fmaxf(words[i + 1].end - SHORTEST_S, words[i].start) : after);
    for (uint32_t i = 0; i < n; i++) {
        float next = i + 1 < n ? words[i + 1].start : after;

        if (words[i].end > next)
            words[i].end = fmaxf(next, words[i].start);
        place_end(l, &words[i], next);
    }
}
