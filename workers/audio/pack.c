#include "workers/audio/pack.h"

#include <stdlib.h>

void pack_free(struct pack *p)
{
    free(p->spans);
    *p = (struct pack){0};
}

static int64_t length(const struct speech_span *span) { return span->end - span->start; }

bool pack_fits(const struct pack *p, const struct speech_span *span, int64_t max)
{
    return p->count == 0 || p->samples + length(span) <= max;
}

int pack_add(struct pack *p, const struct speech_span *span, struct err *err)
{
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 8;
        struct speech_span *spans = realloc(p->spans, capacity * sizeof(*spans));

        if (!spans)
            return err_set(err, ERR_NOMEM, "no memory for a window of %u stretches of speech",
                           capacity);
        p->spans = spans;
        p->capacity = capacity;
    }
    p->spans[p->count++] = *span;
    p->samples += length(span);
    return 0;
}

int pack_slice(const struct pack *of, int64_t from, int64_t to, struct pack *ret, struct err *err)
{
    int64_t begin = 0;
    int rc = 0;

    for (uint32_t i = 0; !rc && i < of->count; begin += length(&of->spans[i++])) {
        struct speech_span span = of->spans[i];
        int64_t first = from - begin, end = to - begin;

        if (end < length(&span))
            span.end = span.start + end;
        if (first > 0)
            span.start += first;
        if (span.start < span.end)
            rc = pack_add(ret, &span, err);
    }
    if (rc)
        pack_free(ret);
    return rc;
}

/* The stretch that sample `at` belongs to, the first or the last where it lies outside. begin: the
 * sample of the window at which that stretch begins. NULL: an empty window. */
static const struct speech_span *find_stretch_at(const struct pack *p, int64_t at, bool is_end,
                                                 int64_t *begin)
{
    uint32_t i = 0;

    *begin = 0;
    if (p->count == 0)
        return NULL;
    for (; i + 1 < p->count; i++) {
        int64_t end = *begin + length(&p->spans[i]);

        if (at < end || (is_end && at == end))
            break;
        *begin = end;
    }
    return &p->spans[i];
}

/* Sample `at` of the window, taken to be in `span`, which begins at `begin` there. */
static int64_t map_into_span(const struct speech_span *span, int64_t begin, int64_t at)
{
    if (at <= begin)
        return span->start;
    return at - begin < length(span) ? span->start + (at - begin) : span->end;
}

int64_t pack_time(const struct pack *p, int64_t at, bool is_end)
{
    int64_t begin;
    const struct speech_span *span = find_stretch_at(p, at, is_end, &begin);

    return span ? map_into_span(span, begin, at) : 0;
}

void pack_word(const struct pack *p, int64_t start, int64_t end, int64_t *from, int64_t *to)
{
    int64_t begin, unused;
    const struct speech_span *span = find_stretch_at(p, start, false, &begin);

    *from = *to = 0;
    if (!span)
        return;
    if (end < start)
        end = start;
    if (end > start && find_stretch_at(p, end, true, &unused) != span)
        span = find_stretch_at(p, start + (end - start) / 2, false, &begin);
    *from = map_into_span(span, begin, start);
    *to = map_into_span(span, begin, end);
}

bool pack_next_run(const struct pack *p, int64_t least, struct pack_run *run)
{
    uint32_t i = run->next;

    if (i >= p->count)
        return false;
    *run = (struct pack_run){.start = p->spans[i].start, .at = run->at + run->samples};
    do {
        run->samples += length(&p->spans[i]);
        run->end = p->spans[i++].end;
    } while (i < p->count && p->spans[i].start - run->end < least);
    run->next = i;
    return true;
}
