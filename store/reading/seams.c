#include "store/reading/seams.h"

#include <stdbool.h>
#include <string.h>

/* While it is worked on, ret is the runs so far: neighbours have different speakers. */
struct seams {
    const struct seams_word *words;
    const struct overlaps *turns;
    struct seams_part *runs;
    size_t count;
};

static size_t find_runs(const struct seams_word *words, size_t n, struct seams_part *ret)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (count && ret[count - 1].speaker == words[i].speaker)
            ret[count - 1].count++;
        else
            ret[count++] = (struct seams_part){i, 1, words[i].speaker};
    return count;
}

static int64_t begin_of(const struct seams *s, size_t run)
{
    return s->words[s->runs[run].first].start_ms;
}

static int64_t end_of(const struct seams *s, size_t run)
{
    return s->words[s->runs[run].first + s->runs[run].count - 1].end_ms;
}

static int64_t length_of(const struct seams *s, size_t run)
{
    return end_of(s, run) - begin_of(s, run);
}

static bool is_crumb(const struct seams *s, size_t run)
{
    return s->runs[run].speaker == 0 ||
           (s->runs[run].count < SEAMS_WORDS && length_of(s, run) < SEAMS_MS);
}

static bool is_less(const struct seams *s, size_t a, size_t b)
{
    int64_t x = length_of(s, a), y = length_of(s, b);

    return x != y ? x < y : s->runs[a].count < s->runs[b].count;
}

/* Run `at` and the one behind it become one, said by `speaker`. */
static void join(struct seams *s, size_t at, int64_t speaker)
{
    s->runs[at].count += s->runs[at + 1].count;
    s->runs[at].speaker = speaker;
    s->count--;
    memmove(&s->runs[at + 1], &s->runs[at + 2], (s->count - at - 1) * sizeof(*s->runs));
}

/* Gives a run to the one before or behind it, and then to both where they have one speaker. */
static void give(struct seams *s, size_t run, bool back)
{
    size_t at = back ? run - 1 : run;

    join(s, at, s->runs[back ? run - 1 : run + 1].speaker);
    if (at + 1 < s->count && s->runs[at + 1].speaker == s->runs[at].speaker)
        join(s, at, s->runs[at].speaker);
    if (at > 0 && s->runs[at - 1].speaker == s->runs[at].speaker)
        join(s, at - 1, s->runs[at].speaker);
}

static bool goes_back(const struct seams *s, size_t run)
{
    if (run == 0 || run + 1 == s->count)
        return run > 0;
    /* Nobody is nobody's neighbour: who is nobody takes no words of others. */
    if ((s->runs[run - 1].speaker == 0) != (s->runs[run + 1].speaker == 0))
        return s->runs[run - 1].speaker != 0;
    return begin_of(s, run) - end_of(s, run - 1) <= begin_of(s, run + 1) - end_of(s, run);
}

/* False: there is no crumb. */
static bool give_least_crumb(struct seams *s)
{
    size_t least = s->count;

    for (size_t i = 0; i < s->count; i++)
        if (is_crumb(s, i) && (least == s->count || is_less(s, i, least)))
            least = i;
    if (least == s->count)
        return false;
    give(s, least, goes_back(s, least));
    return true;
}

static bool is_seen(const struct seams *s, size_t run)
{
    int64_t from = end_of(s, run), to = begin_of(s, run + 1);

    return overlap_changes(s->turns, s->runs[run].speaker, s->runs[run + 1].speaker,
                           (from < to ? from : to) - SEAMS_NEAR_MS,
                           (from < to ? to : from) + SEAMS_NEAR_MS);
}

/* False: all are seen. */
static bool give_least_unseen(struct seams *s)
{
    size_t least = s->count;
    bool back = false;

    for (size_t i = 0; i + 1 < s->count; i++) {
        size_t less = is_less(s, i, i + 1) ? i : i + 1;

        if (!is_seen(s, i) && (least == s->count || is_less(s, less, least))) {
            least = less;
            back = less == i + 1;
        }
    }
    if (least == s->count)
        return false;
    give(s, least, back);
    return true;
}

size_t seams_find(const struct seams_word *words, size_t n, const struct overlaps *turns,
                  struct seams_part *ret)
{
    struct seams s = {words, turns, ret, 0};

    if (n > SEAMS_WORDS_MOST) {
        ret[0] = (struct seams_part){0, n, words[0].speaker};
        return 1;
    }
    s.count = find_runs(words, n, ret);
    while (s.count > 1 && (give_least_crumb(&s) || give_least_unseen(&s)))
        ;
    return s.count;
}
