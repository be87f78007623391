#include "tools/export/formats/tiers.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "tools/export/escape.h"

#define UNKNOWN "transcript"

void tiers_free(struct tiers *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->list[i].name);
        free(t->list[i].words_name);
        free(t->list[i].spans);
        free(t->list[i].words);
    }
    free(t->list);
    *t = (struct tiers){0};
}

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "out of memory"); }

/* On one line, newly allocated; NULL: no memory. */
static char *name_of(const char *speaker, const char *more)
{
    struct buf b = BUF_INIT;
    char *name;

    escape_line(&b, speaker[0] ? speaker : UNKNOWN, ESCAPE_NONE);
    escape_put(&b, more);
    name = buf_cstr(&b);
    name = name ? strdup(name) : NULL;
    buf_free(&b);
    return name;
}

static struct tier *find(const struct tiers *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0)
            return &t->list[i];
    return NULL;
}

/* The speaker's tier, a new one if need be; NULL: no memory. */
static struct tier *tier_of(struct tiers *t, const char *speaker)
{
    char *name = name_of(speaker, "");
    struct tier *list, *found = name ? find(t, name) : NULL;

    if (!name || found) {
        free(name);
        return found;
    }
    list = realloc(t->list, (t->count + 1) * sizeof(*list));
    if (!list) {
        free(name);
        return NULL;
    }
    t->list = list;
    list[t->count] = (struct tier){.name = name};
    return &list[t->count++];
}

static bool is_taken(const struct tiers *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0 ||
            (t->list[i].words_name && strcmp(t->list[i].words_name, name) == 0))
            return true;
    return false;
}

/* Somebody may be called "Ana words". */
static int name_words(struct tiers *t, struct tier *tier, struct err *err)
{
    char more[32] = " words";

    for (int n = 2;; n++) {
        char *name = name_of(tier->name, more);

        if (!name)
            return no_memory(err);
        if (!is_taken(t, name)) {
            tier->words_name = name;
            return 0;
        }
        free(name);
        snprintf(more, sizeof(more), " words %d", n);
    }
}

/* How many of each, so that lists are made once. */
static int count_all(const struct document *d, struct tiers *t, struct err *err)
{
    for (size_t i = 0; i < d->segment_count; i++) {
        const struct document_segment *s = &d->segments[i];
        struct tier *tier = tier_of(t, s->speaker);

        if (!tier)
            return no_memory(err);
        tier->count++;
        tier->word_count += document_words_are_text(s) ? s->word_count : 0;
    }
    for (size_t i = 0; i < t->count; i++) {
        struct tier *tier = &t->list[i];

        if (name_words(t, tier, err) != 0)
            return err->code;
        tier->spans = calloc(tier->count + 1, sizeof(*tier->spans));
        tier->words = calloc(tier->word_count + 1, sizeof(*tier->words));
        if (!tier->spans || !tier->words)
            return no_memory(err);
        tier->count = tier->word_count = 0;
    }
    return 0;
}

static struct tiers_span span_of(int64_t start, int64_t end, int64_t after, const char *text)
{
    start = start > after ? start : after;
    return (struct tiers_span){start, end > start ? end : start + 1, text, 0};
}

static void add_segment(const struct document_segment *s, struct tier *tier)
{
    const struct tiers_span *before = tier->count > 0 ? &tier->spans[tier->count - 1] : NULL;
    size_t n = document_words_are_text(s) ? s->word_count : 0;
    struct tiers_span own = span_of(s->start_ms, s->end_ms, before ? before->end_ms : 0, s->text);
    int64_t at = own.start_ms;

    /* There is room for each word: a millisecond at least. */
    if (own.end_ms - own.start_ms < (int64_t)n)
        own.end_ms = own.start_ms + (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        const struct document_word *w = &s->words[i];
        int64_t latest = own.end_ms - (int64_t)(n - i);
        struct tiers_span word =
            span_of(w->start_ms < latest ? w->start_ms : latest, w->end_ms, at, w->text);

        if (word.end_ms > latest + 1)
            word.end_ms = latest + 1 > word.start_ms ? latest + 1 : word.start_ms + 1;
        word.parent = tier->count;
        at = word.end_ms;
        tier->words[tier->word_count++] = word;
    }
    tier->spans[tier->count++] = own;
}

int tiers_make(const struct document *d, struct tiers *ret, struct err *err)
{
    struct tiers t = {.end_ms = d->duration_ms > 0 ? d->duration_ms : 1};

    if (count_all(d, &t, err) != 0) {
        tiers_free(&t);
        return err->code;
    }
    for (size_t i = 0; i < d->segment_count; i++) {
        char *name = name_of(d->segments[i].speaker, "");
        struct tier *tier = name ? find(&t, name) : NULL;

        free(name);
        if (!tier) {
            tiers_free(&t);
            return no_memory(err);
        }
        add_segment(&d->segments[i], tier);
        if (tier->spans[tier->count - 1].end_ms > t.end_ms)
            t.end_ms = tier->spans[tier->count - 1].end_ms;
    }
    *ret = t;
    return 0;
}
