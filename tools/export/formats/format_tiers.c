/* Formats with a tier for each speaker, as linguists' programs have them: eaf (ELAN's annotations,
 * EAF 3.0) and textgrid (Praat's, in its long form). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "tools/export/document.h"
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

/* ---- tiers: the spans of one follow each other without overlap */

struct tiers_span {
    int64_t start_ms, end_ms; /* start < end */
    const char *text;         /* of the document, as it is there */
    size_t parent;            /* of a word: its segment's span in the tier */
};
struct tier {
    char *name, *words_name; /* on one line; each once in the whole, compared as they are */
    struct tiers_span *spans, *words;
    size_t count, word_count;
};
struct tiers { /* zero at first; owned: tiers_free */
    struct tier *list;
    size_t count;
    int64_t end_ms; /* of the recording, and not before any span */
};

#define UNKNOWN "transcript"

static void tiers_free(struct tiers *t)
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

static struct tier *find_tier(const struct tiers *t, const char *name)
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
    struct tier *list, *found = name ? find_tier(t, name) : NULL;

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
            return err_no_memory(err, NULL);
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
            return err_no_memory(err, NULL);
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
            return err_no_memory(err, NULL);
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

/* Texts are borrowed from d. Text without a known speaker is in the tier "transcript". Spans that
 * would overlap in a tier begin later; those of which nothing is left then last a millisecond. */
static int tiers_make(const struct document *d, struct tiers *ret, struct err *err)
{
    struct tiers t = {.end_ms = d->duration_ms > 0 ? d->duration_ms : 1};

    if (count_all(d, &t, err) != 0) {
        tiers_free(&t);
        return err->code;
    }
    for (size_t i = 0; i < d->segment_count; i++) {
        char *name = name_of(d->segments[i].speaker, "");
        struct tier *tier = name ? find_tier(&t, name) : NULL;

        free(name);
        if (!tier) {
            tiers_free(&t);
            return err_no_memory(err, NULL);
        }
        add_segment(&d->segments[i], tier);
        if (tier->spans[tier->count - 1].end_ms > t.end_ms)
            t.end_ms = tier->spans[tier->count - 1].end_ms;
    }
    *ret = t;
    return 0;
}

/* ---- eaf */

static void put_head(struct buf *out, const struct document *d)
{
    escape_put(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<ANNOTATION_DOCUMENT AUTHOR=\"\" DATE=\"1970-01-01T00:00:00+00:00\" FORMAT=\"3.0\" "
               "VERSION=\"3.0\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
               "xsi:noNamespaceSchemaLocation=\"http://www.mpi.nl/tools/elan/EAFv3.0.xsd\">\n"
               "  <HEADER MEDIA_FILE=\"\" TIME_UNITS=\"milliseconds\">\n");
    if (d->member[0] == 0) { /* no program opens what lies in an archive */
        escape_put(out, "    <MEDIA_DESCRIPTOR MEDIA_URL=\"file://");
        escape_uri(out, d->path, strlen(d->path), true);
        escape_put(out, "\" MIME_TYPE=\"unknown\"/>\n");
    }
    escape_put(out, "  </HEADER>\n");
}

struct ids { /* of time slots and annotations, each from 1 */
    size_t slot, annotation;
};

static void put_slots(struct buf *out, const struct tiers_span *spans, size_t n, size_t *slot)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "    <TIME_SLOT TIME_SLOT_ID=\"ts%zu\" TIME_VALUE=\"%lld\"/>\n", ++*slot,
                   (long long)spans[i].start_ms);
        buf_printf(out, "    <TIME_SLOT TIME_SLOT_ID=\"ts%zu\" TIME_VALUE=\"%lld\"/>\n", ++*slot,
                   (long long)spans[i].end_ms);
    }
}

static void put_eaf_tier(struct buf *out, const char *name, const char *parent,
                         const struct tiers_span *spans, size_t n, struct ids *ids)
{
    buf_printf(out, "  <TIER LINGUISTIC_TYPE_REF=\"%s\" TIER_ID=\"", parent ? "words" : "speech");
    escape_line(out, name, ESCAPE_XML);
    escape_put(out, parent ? "\" PARENT_REF=\"" : "\" PARTICIPANT=\"");
    escape_line(out, parent ? parent : name, ESCAPE_XML);
    escape_put(out, "\">\n");
    for (size_t i = 0; i < n; i++) {
        buf_printf(out,
                   "    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID=\"a%zu\" "
                   "TIME_SLOT_REF1=\"ts%zu\" TIME_SLOT_REF2=\"ts%zu\"><ANNOTATION_VALUE>",
                   ++ids->annotation, ids->slot + 1, ids->slot + 2);
        ids->slot += 2;
        escape_line(out, spans[i].text + strspn(spans[i].text, " "), ESCAPE_XML);
        escape_put(out, "</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>\n");
    }
    escape_put(out, "  </TIER>\n");
}

WRITER(eaf)
{
    struct tiers t = {0};
    struct ids ids = {0};
    size_t slot = 0;
    int rc = tiers_make(d, &t, err);

    (void)o;
    put_head(out, d);
    escape_put(out, "  <TIME_ORDER>\n");
    for (size_t i = 0; i < t.count; i++) {
        put_slots(out, t.list[i].spans, t.list[i].count, &slot);
        put_slots(out, t.list[i].words, t.list[i].word_count, &slot);
    }
    escape_put(out, "  </TIME_ORDER>\n");
    for (size_t i = 0; i < t.count; i++) {
        const struct tier *tier = &t.list[i];

        put_eaf_tier(out, tier->name, NULL, tier->spans, tier->count, &ids);
        if (tier->word_count > 0)
            put_eaf_tier(out, tier->words_name, tier->name, tier->words, tier->word_count, &ids);
    }
    tiers_free(&t);
    escape_put(out, "  <LINGUISTIC_TYPE GRAPHIC_REFERENCES=\"false\" LINGUISTIC_TYPE_ID=\"speech\" "
                    "TIME_ALIGNABLE=\"true\"/>\n"
                    "  <LINGUISTIC_TYPE CONSTRAINTS=\"Included_In\" GRAPHIC_REFERENCES=\"false\" "
                    "LINGUISTIC_TYPE_ID=\"words\" TIME_ALIGNABLE=\"true\"/>\n"
                    "  <CONSTRAINT DESCRIPTION=\"Time alignable annotations within the parent "
                    "annotation's time interval, gaps are allowed\" STEREOTYPE=\"Included_In\"/>\n"
                    "</ANNOTATION_DOCUMENT>\n");
    return rc;
}

/* ---- textgrid: tiers have intervals from the beginning to the end */

static void put_string(struct buf *out, const char *s)
{
    struct buf line = BUF_INIT;

    escape_line(&line, s, ESCAPE_NONE);
    buf_put_u8(out, '"');
    for (size_t i = 0; i < line.len; i++)
        buf_put(out, line.data[i] == '"' ? (const uint8_t *)"\"\"" : &line.data[i],
                line.data[i] == '"' ? 2 : 1);
    buf_put_u8(out, '"');
    out->failed |= line.failed;
    buf_free(&line);
}

static void put_seconds(struct buf *out, const char *name, int64_t ms)
{
    buf_printf(out, "%s = %lld.%03d \n", name, (long long)(ms / 1000), (int)(ms % 1000));
}

static void put_interval(struct buf *out, size_t *n, int64_t from, int64_t to, const char *text)
{
    buf_printf(out, "        intervals [%zu]:\n", ++*n);
    put_seconds(out, "            xmin", from);
    put_seconds(out, "            xmax", to);
    escape_put(out, "            text = ");
    put_string(out, text);
    escape_put(out, " \n");
}

/* With those in which nothing is said. */
static size_t count_intervals(const struct tiers_span *spans, size_t n, int64_t end_ms)
{
    int64_t at = 0;
    size_t count = n;

    for (size_t i = 0; i < n; at = spans[i++].end_ms)
        count += spans[i].start_ms > at;
    return count + (at < end_ms);
}

static void put_textgrid_tier(struct buf *out, size_t number, const char *name,
                              const struct tiers_span *spans, size_t n, int64_t end_ms)
{
    int64_t at = 0;
    size_t count = 0;

    buf_printf(out, "    item [%zu]:\n        class = \"IntervalTier\" \n        name = ", number);
    put_string(out, name);
    escape_put(out, " \n");
    put_seconds(out, "        xmin", 0);
    put_seconds(out, "        xmax", end_ms);
    buf_printf(out, "        intervals: size = %zu \n", count_intervals(spans, n, end_ms));
    for (size_t i = 0; i < n; at = spans[i++].end_ms) {
        if (spans[i].start_ms > at)
            put_interval(out, &count, at, spans[i].start_ms, "");
        put_interval(out, &count, spans[i].start_ms, spans[i].end_ms,
                     spans[i].text + strspn(spans[i].text, " "));
    }
    if (at < end_ms)
        put_interval(out, &count, at, end_ms, "");
}

WRITER(textgrid)
{
    struct tiers t = {0};
    size_t number = 0, count = 0;
    int rc = tiers_make(d, &t, err);

    (void)o;
    for (size_t i = 0; i < t.count; i++)
        count += 1 + (t.list[i].word_count > 0);
    escape_put(out, "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\n");
    put_seconds(out, "xmin", 0);
    put_seconds(out, "xmax", t.end_ms);
    /* A file has a tier at least. */
    buf_printf(out, "tiers? <exists> \nsize = %zu \nitem []: \n", count > 0 ? count : 1);
    if (rc == 0 && count == 0)
        put_textgrid_tier(out, 1, "transcript", NULL, 0, t.end_ms);
    for (size_t i = 0; i < t.count; i++) {
        const struct tier *tier = &t.list[i];

        put_textgrid_tier(out, ++number, tier->name, tier->spans, tier->count, t.end_ms);
        if (tier->word_count > 0)
            put_textgrid_tier(out, ++number, tier->words_name, tier->words, tier->word_count,
                              t.end_ms);
    }
    tiers_free(&t);
    return rc;
}
