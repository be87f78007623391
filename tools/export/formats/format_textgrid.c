/* textgrid: Praat's, in its long form. Tiers have intervals from the beginning to the end. */
#include <string.h>

#include "tools/export/escape.h"
#include "tools/export/formats/tiers.h"
#include "tools/export/formats/writers.h"

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

static void put_tier(struct buf *out, size_t number, const char *name,
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
        put_tier(out, 1, "transcript", NULL, 0, t.end_ms);
    for (size_t i = 0; i < t.count; i++) {
        const struct tier *tier = &t.list[i];

        put_tier(out, ++number, tier->name, tier->spans, tier->count, t.end_ms);
        if (tier->word_count > 0)
            put_tier(out, ++number, tier->words_name, tier->words, tier->word_count, t.end_ms);
    }
    tiers_free(&t);
    return rc;
}
