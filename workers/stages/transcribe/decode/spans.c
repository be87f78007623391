#include "workers/stages/transcribe/decode/spans.h"

#include "workers/models/asr_model.h"
#include "workers/text/tokenizer/vocabulary.h"

struct splitter {
    const int32_t *tokens;
    int32_t begin; /* the first timestamp's id */
    int64_t step;  /* samples from one to the next */
    int64_t window;
    struct span *out;
    size_t count;
};

static bool is_time(const struct splitter *s, size_t i) { return s->tokens[i] >= s->begin; }

static int64_t time_at(const struct splitter *s, size_t i)
{
    int64_t t = (int64_t)(s->tokens[i] - s->begin) * s->step;

    return t < s->window ? t : s->window;
}

/* Words that begin past the audio's end: the model has lost the time on its way, so they belong to
 * the segment before. Without one they were heard in the padding alone, and are nobody's. */
static void add_word_span(struct splitter *s, size_t first, size_t end, int64_t from, int64_t to)
{
    struct span *before = s->count ? &s->out[s->count - 1] : NULL;

    if (from >= s->window && before) {
        before->end = s->window;
        before->count = end - before->first;
    } else if (from < to)
        s->out[s->count++] = (struct span){from, to, first, end - first};
}

/* No pair of timestamps: one segment, or none that has an end. */
static void split_single(struct splitter *s, size_t n)
{
    int64_t from = n && is_time(s, 0) ? time_at(s, 0) : 0, to = s->window;

    for (size_t i = n; i-- > 0;)
        if (is_time(s, i)) {
            /* The start alone says nothing about the end. */
            if (i > 0 && time_at(s, i) > from)
                to = time_at(s, i);
            break;
        }
    if (n)
        add_word_span(s, 0, n, from, to);
}

void spans_split(const int32_t *tokens, size_t n, const struct vocabulary_ids *ids, int64_t window,
                 bool whole, struct span *out, struct split *ret)
{
    struct splitter s = {
        tokens, ids->timestamp_begin, ids->timestamp_ms * (ASR_RATE_HZ / 1000), window, out, 0};
    bool closed = n >= 2 && is_time(&s, n - 1) && !is_time(&s, n - 2);
    int64_t advance = window;
    size_t first = 0;

    for (size_t i = 1; i <= n; i++) {
        bool pair = i < n && is_time(&s, i) && is_time(&s, i - 1);
        /* A single timestamp at the very end closes the last segment, and the window. */
        if (!pair && !(i == n && closed && first))
            continue;
        add_word_span(&s, first, i, is_time(&s, first) ? time_at(&s, first) : 0,
                      time_at(&s, i - 1));
        first = i;
    }
    if (!first)
        split_single(&s, n);
    else if (whole && first < n)
        add_word_span(&s, first, n, time_at(&s, first), window);
    else if (!closed) /* an unfinished segment follows: it is heard again from the last end */
        advance = time_at(&s, first - 1);
    *ret = (struct split){s.count, advance > 0 ? advance : window, closed};
}
