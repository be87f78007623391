#include "store/reading/machine.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/reading/hunks.h"
#include "store/reading/overlap.h"

/* ---- where a segment in which several people speak is parted.
 *
 * A run of words of one speaker is a part, where it is no crumb: it has SEAMS_WORDS words or lasts
 * SEAMS_MS. A crumb is said by whoever speaks on both its sides, else it goes to the side that is
 * nearer in time. And one must hand over to the other near the seam (overlap_changes, give or take
 * SEAMS_NEAR_MS): else what is shorter goes to what is longer. The least comes first, so that
 * several crumbs in a row become what they are together. */

#define SEAMS_WORDS 3
#define SEAMS_MS 800

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
static void join_runs(struct seams *s, size_t at, int64_t speaker)
{
    s->runs[at].count += s->runs[at + 1].count;
    s->runs[at].speaker = speaker;
    s->count--;
    memmove(&s->runs[at + 1], &s->runs[at + 2], (s->count - at - 1) * sizeof(*s->runs));
}

/* Gives a run to the one before or behind it, and then to both where they have one speaker. */
static void merge_run_into_neighbour(struct seams *s, size_t run, bool back)
{
    size_t at = back ? run - 1 : run;

    join_runs(s, at, s->runs[back ? run - 1 : run + 1].speaker);
    if (at + 1 < s->count && s->runs[at + 1].speaker == s->runs[at].speaker)
        join_runs(s, at, s->runs[at].speaker);
    if (at > 0 && s->runs[at - 1].speaker == s->runs[at].speaker)
        join_runs(s, at - 1, s->runs[at].speaker);
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
    merge_run_into_neighbour(s, least, goes_back(s, least));
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
    merge_run_into_neighbour(s, least, back);
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

/* ---- a segment of the machine's, parted between the people who speak in it */

void machine_speakers_free(struct machine_speakers *s)
{
    overlap_free(s->turns);
    *s = (struct machine_speakers){0};
}

void machine_part_free(struct machine_part *p)
{
    free(p->text);
    rebuilt_free(&p->rows);
}

/* ----------------------------------------------------------------------------- whose words are */

static int64_t source_speaker(const struct result_segment *s, const struct machine_speakers *by)
{
    return s->source <= RESULT_SOURCES_MAX ? by->by_source[s->source] : 0;
}

static int64_t speaker_at(const struct result_segment *s, const struct machine_speakers *by,
                          int64_t start_ms, int64_t end_ms)
{
    int64_t own = source_speaker(s, by);

    return own || !by->turns ? own : overlap_speaker(by->turns, start_ms, end_ms, 0);
}

/* NULL: out of memory. */
static struct rebuild_row *rows_of(const struct result_segment *s,
                                   const struct machine_speakers *by)
{
    struct rebuild_row *rows = calloc(s->word_count + (size_t)1, sizeof(*rows));

    for (size_t i = 0; rows && i < s->word_count; i++) {
        const struct result_word *w = &s->words[i];

        rows[i] = (struct rebuild_row){.start_ms = w->start_ms,
                                       .end_ms = w->end_ms,
                                       .text = w->text,
                                       .len = strlen(w->text),
                                       .probability = w->probability,
                                       .speaker_id = speaker_at(s, by, w->start_ms, w->end_ms)};
    }
    return rows;
}

/* ------------------------------------------------------------------------------------- parting */

struct cut {              /* where a part begins */
    size_t row, word, at; /* the first of the segment's rows of words, its words, its bytes */
    int64_t start_ms, end_ms, speaker;
    double avg_logprob;
};

struct whole {
    const struct result_segment *of;
    const struct rebuild_row *rows;
    size_t row_count;
    struct rebuild_span *spans; /* which bytes of the text each row is */
    struct hunk_word *words;
    size_t word_count;
    struct cut *cuts;
    size_t count;
};

/* Finds the words at which a segment may be split, because a row begins there. ret:
 * [word_count]. */
static size_t find_places(const struct whole *w, struct cut *ret)
{
    size_t n = 0;

    for (size_t word = 0, row = 0; word < w->word_count; word++) {
        size_t at = w->words[word].at;

        while (row < w->row_count && w->spans[row].from < at)
            row++;
        if (row < w->row_count && w->spans[row].from == at)
            ret[n++] = (struct cut){.row = row, .word = word, .at = at};
    }
    return n;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* NAN: not every word has one. */
static double mean_log(const struct rebuild_row *rows, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += log(rows[i].probability > 1e-6 ? rows[i].probability
                   : rows[i].probability >= 0 ? 1e-6
                                              : NAN);
    return sum / (double)n;
}

/* From rows to times and what is thought of the text: a part is as much surer than the segment as
 * its words are than the segment's. */
static void measure_cuts(struct whole *w)
{
    const struct rebuild_row *rows = w->rows;
    double all = mean_log(rows, w->row_count);

    w->cuts[0].start_ms = w->of->start_ms;
    for (size_t i = 1; i < w->count; i++)
        w->cuts[i].start_ms =
            most(w->cuts[i - 1].start_ms, least(rows[w->cuts[i].row].start_ms, w->of->end_ms));
    for (size_t i = 0; i < w->count; i++) {
        struct cut *c = &w->cuts[i];
        bool last = i + 1 == w->count;
        size_t end = last ? w->row_count : c[1].row;
        double more = mean_log(&rows[c->row], end - c->row) - all;
        double logprob = w->of->avg_logprob;

        c->end_ms =
            last ? w->of->end_ms : most(c->start_ms, least(rows[end - 1].end_ms, c[1].start_ms));
        /* Rounded to float, because the last bits of log() differ between machines. */
        c->avg_logprob =
            isnan(more) || isnan(logprob) ? logprob : (double)(float)fmin(0, logprob + more);
    }
}

static void cut_words(struct whole *w, struct overlaps *turns, const struct cut *places, size_t n,
                      struct seams_word *said, struct seams_part *found)
{
    for (size_t i = 0; i < n; i++) {
        size_t last = i + 1 < n ? places[i + 1].row - 1 : w->row_count - 1;

        said[i].start_ms = w->rows[places[i].row].start_ms;
        said[i].end_ms = w->rows[last].end_ms;
        said[i].speaker = overlap_speaker(turns, said[i].start_ms, said[i].end_ms, 0);
    }
    n = seams_find(said, n, turns, found);
    if (n < 2)
        return;
    for (size_t i = 0; i < n; i++) {
        w->cuts[i] = places[found[i].first];
        w->cuts[i].speaker = found[i].speaker;
    }
    w->count = n;
    measure_cuts(w);
}

/* Only where the rows are the words of the text, from its first one on. */
static int find_cuts(struct whole *w, struct overlaps *turns, struct err *err)
{
    struct cut *places = calloc(w->word_count + 1, sizeof(*places));
    struct seams_word *said = calloc(w->word_count + 1, sizeof(*said));
    struct seams_part *found = calloc(w->word_count + 1, sizeof(*found));
    bool room = places && said && found;
    size_t n;

    if (room && rebuild_map(w->of->text, w->rows, w->row_count, w->spans)) {
        n = find_places(w, places);
        if (n > 1 && places[0].row == 0)
            cut_words(w, turns, places, n, said, found);
    }
    free(places);
    free(said);
    free(found);
    return room ? 0 : err_no_memory(err, "catalog");
}

static int split_by_speaker(struct whole *w, const struct machine_speakers *by, struct err *err)
{
    const struct result_segment *s = w->of;
    int rc = 0;

    if (by->turns && w->row_count > 1 && !source_speaker(s, by)) {
        rc = hunk_words(s->text, &w->words, &w->word_count, err);
        w->spans = calloc(w->row_count, sizeof(*w->spans));
        if (rc == 0 && !w->spans)
            rc = err_no_memory(err, "catalog");
    }
    w->cuts = calloc(w->word_count + 1, sizeof(*w->cuts));
    if (rc == 0 && !w->cuts)
        rc = err_no_memory(err, "catalog");
    if (rc < 0)
        return rc;
    w->count = 1;
    w->cuts[0] = (struct cut){.start_ms = s->start_ms,
                              .end_ms = s->end_ms,
                              .speaker = speaker_at(s, by, s->start_ms, s->end_ms),
                              .avg_logprob = s->avg_logprob};
    return w->word_count > 1 ? find_cuts(w, by->turns, err) : 0;
}

/* ----------------------------------------------------------------------------------- the parts */

/* The text of a part, without the white space at its seams. Newly allocated. */
static char *text_of(const struct whole *w, size_t i)
{
    size_t from = i == 0 ? 0 : w->cuts[i].at, to = strlen(w->of->text);

    if (i + 1 < w->count) {
        const struct hunk_word *last = &w->words[w->cuts[i + 1].word - 1];

        to = last->at + last->len;
    }
    return strndup(w->of->text + from, to - from);
}

static int put_part(const struct whole *w, size_t i, struct machine_part *ret, struct err *err)
{
    const struct cut *c = &w->cuts[i];
    size_t end = i + 1 < w->count ? w->cuts[i + 1].row : w->row_count, n = end - c->row;

    *ret = (struct machine_part){.text = text_of(w, i),
                                 .start_ms = c->start_ms,
                                 .end_ms = c->end_ms,
                                 .speaker_id = c->speaker,
                                 .avg_logprob = c->avg_logprob};
    ret->rows.rows = calloc(n + 1, sizeof(*ret->rows.rows));
    if (!ret->text || !ret->rows.rows)
        return err_no_memory(err, "catalog");
    if (n)
        memcpy(ret->rows.rows, &w->rows[c->row], n * sizeof(*w->rows));
    ret->rows.count = n;
    ret->rows.capacity = n + 1;
    return 0;
}

static int put_parts(const struct whole *w, struct machine_part **ret, size_t *n, struct err *err)
{
    struct machine_part *list = calloc(w->count, sizeof(*list));
    int rc = list ? 0 : err_no_memory(err, "catalog");

    for (size_t i = 0; i < w->count && rc == 0; i++)
        rc = put_part(w, i, &list[i], err);
    if (rc == 0) {
        *ret = list;
        *n = w->count;
        return 0;
    }
    for (size_t i = 0; list && i < w->count; i++)
        machine_part_free(&list[i]);
    free(list);
    return rc;
}

int machine_parts(const struct result_segment *s, const struct machine_speakers *by,
                  struct machine_part **ret, size_t *n, struct err *err)
{
    struct rebuild_row *rows = rows_of(s, by);
    struct whole w = {.of = s, .rows = rows, .row_count = s->word_count};
    int rc = rows ? split_by_speaker(&w, by, err) : err_no_memory(err, "catalog");

    if (rc == 0)
        rc = put_parts(&w, ret, n, err);
    free(rows);
    free(w.spans);
    free(w.words);
    free(w.cuts);
    return rc;
}
