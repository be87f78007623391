#include "workers/stages/transcribe/yield.h"

#include <stdlib.h>
#include <string.h>

static void free_words(const struct result_word *words, uint32_t n)
{
    for (uint32_t i = 0; words && i < n; i++)
        free((char *)words[i].text);
    free((struct result_word *)words);
}

static void free_segment(struct result_segment *s)
{
    free((char *)s->text);
    free((char *)s->reason);
    free_words(s->words, s->word_count);
}

void yield_free(struct yield *y)
{
    for (uint32_t i = 0; i < y->count; i++)
        free_segment(&y->segments[i]);
    free(y->segments);
    *y = (struct yield){0};
}

static int make_room(struct yield *y, uint32_t more, struct err *err)
{
    struct result_segment *segments;
    uint32_t capacity = y->capacity ? y->capacity : 8;

    if (y->capacity - y->count >= more)
        return 0;
    while (capacity - y->count < more)
        capacity *= 2;
    segments = realloc(y->segments, capacity * sizeof(*segments));
    if (!segments)
        return err_set(err, ERR_NOMEM, "no memory for a segment");
    y->segments = segments;
    y->capacity = capacity;
    return 0;
}

/* NULL: no memory; what was copied is freed again. */
static struct result_word *copy_words(const struct result_word *words, uint32_t n)
{
    struct result_word *copy = calloc(n, sizeof(*copy));

    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = words[i];
        copy[i].text = strdup(words[i].text);
        if (!copy[i].text) {
            free_words(copy, i);
            return NULL;
        }
    }
    return copy;
}

int yield_add(struct yield *y, const struct result_segment *segment, struct err *err)
{
    struct result_segment s = *segment;
    int rc = make_room(y, 1, err);

    if (rc)
        return rc;
    s.text = strdup(segment->text);
    s.reason = strdup(segment->reason);
    s.words = s.word_count ? copy_words(segment->words, s.word_count) : NULL;
    if (!s.text || !s.reason || (s.word_count && !s.words)) {
        free_segment(&s);
        return err_set(err, ERR_NOMEM, "no memory for a segment");
    }
    y->segments[y->count++] = s;
    return 0;
}

int yield_own_words(struct result_segment *s, struct err *err)
{
    s->words = s->word_count ? copy_words(s->words, s->word_count) : NULL;
    if (!s->word_count || s->words)
        return 0;
    s->word_count = 0;
    return err_set(err, ERR_NOMEM, "no memory for the words of a segment");
}

int yield_move(struct yield *to, struct yield *from, struct err *err)
{
    int rc = make_room(to, from->count, err);

    if (rc || !from->count)
        return rc;
    memcpy(to->segments + to->count, from->segments, from->count * sizeof(*from->segments));
    to->count += from->count;
    from->count = 0;
    yield_free(from);
    return 0;
}

/* Nearly sorted already: only pieces that were heard again stand behind what comes after them. */
void yield_sort(struct yield *y)
{
    for (uint32_t i = 1; i < y->count; i++) {
        struct result_segment s = y->segments[i];
        uint32_t at = i;

        for (; at > 0 && y->segments[at - 1].start_ms > s.start_ms; at--)
            y->segments[at] = y->segments[at - 1];
        y->segments[at] = s;
    }
}
