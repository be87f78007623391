/* People's corrections: REQUEST_CORRECT and REQUEST_CORRECT_DECIDE. A correction is never deleted.
 * If a segment is corrected again, unchanged corrections keep their author and time. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "store/reading/place.h"
#include "store/reading/publish.h"
#include "store/requests/request_apply.h"

struct author {
    const char *made_by, *source;
    char now[CLOCK_ISO_LEN];
};

/* Appends words of a text, with a blank where it has white space. */
static void put_words(struct buf *out, const char *text, const struct hunk_word *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i && words[i].at > words[i - 1].at + words[i - 1].len)
            buf_put_u8(out, ' ');
        buf_put(out, text + words[i].at, words[i].len);
    }
}

static int mark_correction_undone(struct store *st, int64_t correction_id, const struct author *by,
                                  struct err *err)
{
    return db_run(st, err,
                  "UPDATE correction SET state = 'undone', decided_by = ?2, decided_at = ?3 "
                  "WHERE correction_id = ?1",
                  "itt", correction_id, by->made_by, by->now);
}

/* ------------------------------------------------------------------------------------ a new row */

static void put_context(const struct heard *h, struct match_place at, struct buf *before,
                        struct buf *after)
{
    size_t end = at.word + at.words, from = at.word < 2 ? 0 : at.word - 2;
    size_t until = h->word_count - end < 2 ? h->word_count : end + 2;

    heard_put(h, (struct match_place){from, at.word - from}, before);
    heard_put(h, (struct match_place){end, until - end}, after);
}

/* like: who made it, when and from what, of another correction; 0: `by`. */
static int put_row(struct store *st, const struct heard *h, struct match_place at,
                   const char *meant, bool confirms, const struct author *by, int64_t like,
                   struct err *err)
{
    const struct match_word *first = &h->words[at.word], *last = first + at.words - 1;
    struct buf said = BUF_INIT, before = BUF_INIT, after = BUF_INIT;
    int rc = 0;

    heard_put(h, at, &said);
    put_context(h, at, &before, &after);
    if (!buf_cstr(&said) || !buf_cstr(&before) || !buf_cstr(&after))
        rc = err_no_memory(err, "corrections");
    if (rc == 0)
        rc = db_run(st, err,
                    "INSERT INTO correction (media_id, start_ms, end_ms, said, meant, before, "
                    "after, confirms, state, made_by, made_at, source) "
                    "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, iif(?8, 'confirmed', 'applied'), "
                    "ifnull(o.made_by, ?9), ifnull(o.made_at, ?10), ifnull(o.source, ?11) "
                    "FROM (SELECT 1) LEFT JOIN correction o ON o.correction_id = ?12",
                    "iiittttittti", h->media_id, first->start_ms,
                    last->end_ms > first->start_ms ? last->end_ms : first->start_ms,
                    (char *)said.data, meant, (char *)before.data, (char *)after.data,
                    (int64_t)confirms, by->made_by, by->now, by->source, like);
    buf_free(&said);
    buf_free(&before);
    buf_free(&after);
    return rc;
}

/* ----------------------------------------------------------------------------------- a segment */

struct correcting { /* segments of one recording */
    struct store *st;
    const struct author *by;
    struct heard h;
    struct places places;
    struct place_parts parts;
    bool stale; /* the catalog has other places by now than these */
};

/* Is the part what the hunk begins with, or with `back` ends with? Then the hunk is what is left.
 */
static int trim_corrected_part(const struct place_part *part, const char *text,
                               const struct hunks *d, struct hunk *hunk, bool back, bool *peeled,
                               struct err *err)
{
    char *there = strndup(part->part.text, part->part.len);
    struct hunk_word *words = NULL;
    size_t n = 0, said_at = back ? hunk->said_at + hunk->said_count - part->words : hunk->said_at;
    size_t meant_at;
    bool all = part->words == hunk->said_count, same;
    int rc = there ? hunk_words(there, &words, &n, err) : err_no_memory(err, "corrections");

    same = rc == 0 && part->words <= hunk->said_count && part->word == said_at &&
           (all ? n == hunk->meant_count : n <= hunk->meant_count);
    meant_at = same && back ? hunk->meant_at + hunk->meant_count - n : hunk->meant_at;
    for (size_t i = 0; same && i < n; i++)
        same = words[i].len == d->meant[meant_at + i].len &&
               memcmp(there + words[i].at, text + d->meant[meant_at + i].at, words[i].len) == 0;
    if (same) {
        hunk->said_count -= part->words;
        hunk->meant_count -= n;
        hunk->said_at += back ? 0 : part->words;
        hunk->meant_at += back ? 0 : n;
    }
    *peeled = same;
    free(words);
    free(there);
    return rc;
}

/* Keeps corrections that already have the wanted text at either end of the hunk. */
static int keep_parts(const struct place_part *parts, size_t n, bool *kept, const char *text,
                      const struct hunks *d, struct hunk *hunk, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && hunk->said_count && rc == 0; i++)
        if (!kept[i])
            rc = trim_corrected_part(&parts[i], text, d, hunk, false, &kept[i], err);
    for (size_t i = n; i-- > 0 && hunk->said_count && rc == 0;)
        if (!kept[i])
            rc = trim_corrected_part(&parts[i], text, d, hunk, true, &kept[i], err);
    return rc;
}

static int put_hunk(struct correcting *c, const struct heard_segment *g, const char *text,
                    const struct hunks *d, struct hunk hunk, struct err *err)
{
    struct buf meant = BUF_INIT;
    int rc;

    put_words(&meant, text, d->meant + hunk.meant_at, hunk.meant_count);
    rc = buf_cstr(&meant)
             ? put_row(c->st, &c->h, (struct match_place){g->first + hunk.said_at, hunk.said_count},
                       (char *)meant.data, false, c->by, 0, err)
             : err_no_memory(err, "corrections");
    buf_free(&meant);
    return rc;
}

/* One that holds no more here. In other segments that it reaches into, it stays, as one of theirs.
 */
static int undo_part(struct correcting *c, const struct place_part *part, struct err *err)
{
    int64_t id = c->places.list[part->place].correction_id;
    int rc = mark_correction_undone(c->st, id, c->by, err);

    for (size_t i = 0; i < c->parts.count && rc == 0; i++) {
        const struct place_part *other = &c->parts.list[i];
        const struct heard_segment *g = &c->h.segments[other->segment];
        char *meant;

        if (other->place != part->place || other->segment == part->segment)
            continue;
        c->stale = true;
        meant = strndup(other->part.text, other->part.len);
        rc = meant
                 ? put_row(c->st, &c->h, (struct match_place){g->first + other->word, other->words},
                           meant, false, c->by, id, err)
                 : err_no_memory(err, "corrections");
        free(meant);
    }
    return rc;
}

/* *changed: something of it is otherwise now. */
static int correct_words(struct correcting *c, const struct heard_segment *g, const char *text,
                         bool *changed, struct err *err)
{
    struct hunks d = {0};
    size_t n = 0;
    const struct place_part *parts = place_parts_of(&c->parts, (size_t)(g - c->h.segments), &n);
    bool *kept = calloc(n + 1, sizeof(*kept));
    int rc = kept ? hunks_make(g->machine.text, text, &d, err) : err_no_memory(err, "corrections");

    for (size_t i = 0; rc == 0 && i < d.count; i++) {
        rc = keep_parts(parts, n, kept, text, &d, &d.list[i], err);
        if (rc != 0 || !d.list[i].said_count)
            continue;
        rc = put_hunk(c, g, text, &d, d.list[i], err);
        *changed = true;
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!kept[i]) {
            rc = undo_part(c, &parts[i], err);
            *changed = true;
        }
    hunks_free(&d);
    free(kept);
    return rc;
}

/* A confirmation is undone when its segment reads otherwise. */
static int undo_confirmed(const struct correcting *c, const struct heard_segment *g,
                          const char *meant, bool changed, bool *there, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < c->places.count && rc == 0; i++) {
        const struct place *p = &c->places.list[i];

        if (!p->confirms || p->at.word >= g->first + g->word_count ||
            p->at.word + p->at.words <= g->first)
            continue;
        if (strcmp(p->meant, meant) == 0)
            *there = true;
        else if (changed)
            rc = mark_correction_undone(c->st, p->correction_id, c->by, err);
    }
    return rc;
}

static int correct_segment(struct correcting *c, const struct heard_segment *g,
                           const struct request_correction *asked, bool *changed, struct err *err)
{
    struct hunk_word *words = NULL;
    struct buf meant = BUF_INIT;
    size_t n = 0;
    bool there = false;
    int rc = correct_words(c, g, asked->text, changed, err);

    if (rc == 0)
        rc = hunk_words(asked->text, &words, &n, err);
    if (rc == 0) {
        put_words(&meant, asked->text, words, n);
        rc = buf_cstr(&meant) ? 0 : err_no_memory(err, "corrections");
    }
    if (rc == 0)
        rc = undo_confirmed(c, g, (char *)meant.data, *changed, &there, err);
    if (rc == 0 && asked->confirmed && n && !there) {
        rc = put_row(c->st, &c->h, (struct match_place){g->first, g->word_count},
                     (char *)meant.data, true, c->by, 0, err);
        *changed = true;
    }
    free(words);
    buf_free(&meant);
    return rc;
}

/* ---------------------------------------------------------------------------------- the request */

static int media_of(struct store *st, int64_t segment_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.media_id FROM segment g JOIN task t ON t.task_id = g.task_id "
                      "WHERE g.segment_id = ? AND t.current",
                      "i", segment_id);

    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static void free_correcting(struct correcting *c)
{
    place_parts_free(&c->parts);
    places_free(&c->places);
    heard_free(&c->h);
}

static int turn_to(struct correcting *c, int64_t media_id, struct err *err)
{
    int rc;

    free_correcting(c);
    c->stale = false;
    rc = heard_current(c->st, media_id, &c->h, err);
    if (rc == 0)
        rc = places_load(c->st, &c->h, &c->places, err);
    if (rc == 0)
        rc = place_parts_make(&c->h, &c->places, &c->parts, err);
    return rc;
}

/* Does it read as whoever asks believes, or as asked already? */
static int check_was(const struct heard_segment *g, const struct request_correction *asked,
                     struct err *err)
{
    const char *now = g->text;
    struct hunks d = {0};
    int rc;

    if (!asked->was || strcmp(now, asked->was) == 0)
        return 0;
    rc = hunks_make(now, asked->text, &d, err);
    if (rc == 0 && d.count > 0)
        rc = err_set(err, ERR_INPUT, "segment %lld reads otherwise by now: read it anew",
                     (long long)asked->segment_id);
    hunks_free(&d);
    return rc;
}

static int apply_correction(struct correcting *c, const struct request_correction *asked,
                            bool *changed, struct err *err)
{
    struct heard_segment *g;
    int64_t media_id = 0;
    int rc = media_of(c->st, asked->segment_id, &media_id, err);

    if (rc == 0 && media_id && (media_id != c->h.media_id || c->stale))
        rc = turn_to(c, media_id, err);
    if (rc < 0)
        return rc;
    g = media_id ? heard_segment_of(&c->h, asked->segment_id) : NULL;
    if (!g || strcmp(g->machine.text, asked->heard) != 0)
        return err_set(err, ERR_INPUT, "the words of segment %lld are others by now: read it anew",
                       (long long)asked->segment_id);
    if (g->asked)
        return err_set(err, ERR_INPUT, "request: segment %lld is in it twice",
                       (long long)asked->segment_id);
    if (!g->word_count)
        return err_set(err, ERR_INPUT, "no words were heard in segment %lld to be corrected",
                       (long long)asked->segment_id);
    rc = check_was(g, asked, err);
    if (rc < 0)
        return rc;
    g->asked = true;
    rc = correct_segment(c, g, asked, changed, err);
    return rc < 0 || !*changed ? rc : reading_due(c->st, media_id, err);
}

int correct_put(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err)
{
    struct author by = {.made_by = rq->made_by, .source = rq->source};
    struct correcting c = {.st = st, .by = &by};
    int rc = 0;

    db_now(by.now);
    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        bool changed = false;

        rc = apply_correction(&c, &rq->corrections[i], &changed, err);
        ret->affected += changed;
    }
    free_correcting(&c);
    return rc;
}

/* ----------------------------------------------------------------------------------- to decide */

/* The words that are heard in a stretch; none: the one that is nearest, within reach. */
static struct match_place heard_between(const struct heard *h, int64_t start_ms, int64_t end_ms,
                                        bool *beside)
{
    struct match_place at = {0}, most = {0};
    int64_t nearest = MATCH_NEAR_MS + 1, most_shared = 0;

    if (end_ms <= start_ms)
        end_ms = start_ms + 1;
    for (size_t i = 0; i < h->word_count; i++) {
        const struct match_word *w = &h->words[i];
        int64_t middle = w->start_ms + (w->end_ms - w->start_ms) / 2;
        int64_t shared = (w->end_ms < end_ms ? w->end_ms : end_ms) -
                         (w->start_ms > start_ms ? w->start_ms : start_ms);

        if (shared > most_shared) {
            most_shared = shared;
            most = (struct match_place){i, 1};
        }
        if (middle < start_ms || middle >= end_ms)
            continue;
        if (!at.words)
            at.word = i;
        at.words = i + 1 - at.word;
    }
    if (!at.words)
        at = most;
    *beside = !at.words;
    for (size_t i = 0; *beside && i < h->word_count; i++) {
        int64_t away = llabs(h->words[i].start_ms - start_ms);

        if (away < nearest) {
            nearest = away;
            at = (struct match_place){i, 1};
        }
    }
    return at;
}

/* Undoes the corrections of these words, in whose place a new one comes. A correction that covers
 * other words, too, would lose these with it: then ERR_INPUT, and the person decides. */
static int undo_covered_corrections(struct correcting *c, struct match_place at, struct err *err)
{
    size_t end = at.word + at.words;
    int rc = 0;

    for (size_t i = 0; i < c->places.count && rc == 0; i++) {
        const struct place *p = &c->places.list[i];

        if (!p->at.words || p->confirms || p->at.word >= end || at.word >= p->at.word + p->at.words)
            continue;
        if (p->at.word < at.word || p->at.word + p->at.words > end)
            rc = err_set(err, ERR_INPUT,
                         "correction %lld stands on some of the words there: undo one of the two",
                         (long long)p->correction_id);
        else
            rc = mark_correction_undone(c->st, p->correction_id, c->by, err);
    }
    return rc;
}

struct decided {
    int64_t media_id, start_ms, end_ms;
    char state[16];
    char *said, *meant; /* owned */
};

static int decided_of(struct store *st, int64_t correction_id, struct decided *ret, struct err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = db_first(st, &s, err,
                      "SELECT media_id, max(start_ms, 0), max(end_ms, 0), state, said, meant "
                      "FROM correction WHERE correction_id = ?",
                      "i", correction_id);

    if (rc == 0)
        return err_set(err, ERR_INPUT, "there is no correction %lld", (long long)correction_id);
    if (rc < 0)
        return rc;
    *ret = (struct decided){.media_id = sqlite3_column_int64(s, 0),
                            .start_ms = sqlite3_column_int64(s, 1),
                            .end_ms = sqlite3_column_int64(s, 2),
                            .said = db_dup(s, 4),
                            .meant = db_dup(s, 5)};
    utf8_copy(ret->state, sizeof(ret->state), db_text(s, 3));
    sqlite3_reset(s);
    return ret->said && ret->meant ? 0 : err_no_memory(err, "corrections");
}

/* Makes the new text of the place; if the correction has no words there, beside a word. */
static int put_meant(const struct correcting *c, const struct decided *d, struct match_place at,
                     bool beside, struct buf *meant, struct err *err)
{
    bool behind = beside && c->h.words[at.word].start_ms < d->start_ms;
    struct buf there = BUF_INIT;

    heard_put(&c->h, at, &there);
    if (!buf_cstr(&there))
        return err_no_memory(err, "corrections");
    if (behind)
        buf_printf(meant, "%s ", (char *)there.data);
    if (beside)
        buf_put(meant, d->meant, strlen(d->meant));
    else
        rebuild_fit(meant, (char *)there.data, there.len, d->said, d->meant);
    if (beside && !behind)
        buf_printf(meant, " %s", (char *)there.data);
    buf_free(&there);
    return buf_cstr(meant) ? 0 : err_no_memory(err, "corrections");
}

static int put_kept(struct correcting *c, const struct decided *d, struct err *err)
{
    bool beside = false;
    struct match_place at;
    struct buf meant = BUF_INIT;
    int rc;

    at = heard_between(&c->h, d->start_ms, d->end_ms, &beside);
    if (!at.words)
        return err_set(err, ERR_INPUT,
                       "nothing is heard there now that it could take the place of");
    rc = put_meant(c, d, at, beside, &meant, err);
    if (rc == 0)
        rc = undo_covered_corrections(c, at, err);
    if (rc == 0)
        rc = put_row(c->st, &c->h, at, (char *)meant.data, false, c->by, 0, err);
    buf_free(&meant);
    return rc;
}

static int accept_correction(struct store *st, const struct request *rq, const struct decided *d,
                             struct author *by, struct err *err)
{
    struct correcting c = {.st = st, .by = by};
    char source[64];
    int rc;

    if (strcmp(d->state, "conflict") != 0)
        return err_set(err, ERR_INPUT, "correction %lld is not in conflict: it is %s",
                       (long long)rq->correction_id, d->state);
    snprintf(source, sizeof(source), "correction %lld", (long long)rq->correction_id);
    by->source = source;
    rc = turn_to(&c, d->media_id, err);
    if (rc == 0)
        rc = put_kept(&c, d, err);
    /* A correction that removes words leaves no text to agree with. So it is undone, and the new
     * one replaces it. */
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE correction SET decided_by = ?2, decided_at = ?3, "
                    "state = iif(trim(meant) = '', 'undone', state) WHERE correction_id = ?1",
                    "itt", rq->correction_id, by->made_by, by->now);
    free_correcting(&c);
    return rc;
}

int correct_decide(struct store *st, const struct request *rq, struct request_reply *ret,
                   struct err *err)
{
    struct author by = {.made_by = rq->made_by};
    struct decided d = {0};
    int rc = decided_of(st, rq->correction_id, &d, err);

    db_now(by.now);
    if (rc == 0 && rq->undo && strcmp(d.state, "undone") == 0)
        rc = err_set(err, ERR_INPUT, "correction %lld is undone already",
                     (long long)rq->correction_id);
    else if (rc == 0)
        rc = rq->undo ? mark_correction_undone(st, rq->correction_id, &by, err)
                      : accept_correction(st, rq, &d, &by, err);
    if (rc == 0)
        rc = reading_due(st, d.media_id, err);
    ret->affected = rc == 0;
    free(d.said);
    free(d.meant);
    return rc;
}
