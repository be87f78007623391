#include "store/results/naming.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/choice.h"
#include "store/reading/heard.h"
#include "store/register/register.h"

/* Speakers of a diarization: the time that each shares with each is kept in a table. No recording
 * in which more are told apart has names that somebody could miss. */
#define SPEAKERS_MOST 1000u

struct said { /* that a speaker is a person of the register, or is not */
    size_t speaker;
    int64_t person_id;
    bool denied;
};

struct naming {
    char *names[SPEAKERS_MOST]; /* NULL: none */
    int64_t ids[SPEAKERS_MOST]; /* ascending */
    size_t count, named;
    struct said *said; /* owned */
    size_t said_count, said_cap;
    struct result_turn *turns; /* in the order of start_ms */
    size_t turn_count, turn_cap;
};

/* ---------------------------------------------------------------------------- what there was */

/* Those behind the first SPEAKERS_MOST are passed over. */
static int read_speakers(struct store *st, int64_t task_id, struct naming *n, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT speaker_id, name FROM speaker WHERE task_id = ? "
                      "ORDER BY speaker_id LIMIT ?",
                      "ii", task_id, (int64_t)SPEAKERS_MOST);

    for (; rc == 1; rc = db_next(st, stmt, err)) {
        bool named = sqlite3_column_type(stmt, 1) != SQLITE_NULL;

        n->ids[n->count] = sqlite3_column_int64(stmt, 0);
        n->names[n->count] = named ? db_dup(stmt, 1) : NULL;
        n->named += named;
        if (named && !n->names[n->count]) {
            sqlite3_reset(stmt);
            return err_no_memory(err, "catalog");
        }
        n->count++;
    }
    return rc;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int add_turn(struct naming *n, sqlite3_stmt *stmt, struct err *err)
{
    int64_t id = sqlite3_column_int64(stmt, 2);
    const int64_t *of = bsearch(&id, n->ids, n->count, sizeof(id), by_id);

    if (!of)
        return 0;
    if (!list_grow(&n->turns, &n->turn_cap, n->turn_count, sizeof(*n->turns)))
        return err_no_memory(err, "catalog");
    n->turns[n->turn_count++] = (struct result_turn){
        sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), (uint32_t)(of - n->ids)};
    return 0;
}

static int read_turns(struct store *st, int64_t task_id, struct naming *n, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT start_ms, end_ms, speaker_id FROM turn WHERE task_id = ? "
                      "ORDER BY start_ms",
                      "i", task_id);

    while (rc == 1) {
        rc = add_turn(n, stmt, err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc;
}

static int add_said(struct naming *n, sqlite3_stmt *stmt, struct err *err)
{
    int64_t id = sqlite3_column_int64(stmt, 0);
    const int64_t *of = bsearch(&id, n->ids, n->count, sizeof(id), by_id);

    if (!of)
        return 0;
    if (!list_grow(&n->said, &n->said_cap, n->said_count, sizeof(*n->said)))
        return err_no_memory(err, "catalog");
    n->said[n->said_count++] = (struct said){(size_t)(of - n->ids), sqlite3_column_int64(stmt, 1),
                                             sqlite3_column_int(stmt, 2)};
    return 0;
}

static int read_said(struct store *st, int64_t task_id, struct naming *n, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT v.speaker_id, v.person_id, v.denied FROM speaker k "
                      "JOIN person_voice v ON v.speaker_id = k.speaker_id WHERE k.task_id = ?",
                      "i", task_id);

    while (rc == 1) {
        rc = add_said(n, stmt, err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc;
}

/* Speakers and turns of a task; where nothing was said of them only with `all`: else *ret is NULL.
 */
static int naming_make(struct store *st, int64_t task_id, bool all, struct naming **ret,
                       struct err *err)
{
    struct naming *n = calloc(1, sizeof(*n));
    int rc;

    *ret = NULL;
    if (!n)
        return err_no_memory(err, "catalog");
    rc = read_speakers(st, task_id, n, err);
    if (rc == 0)
        rc = read_said(st, task_id, n, err);
    all = all || n->named || n->said_count;
    if (rc == 0 && all)
        rc = read_turns(st, task_id, n, err);
    if (rc == 0 && all)
        *ret = n;
    else
        naming_free(n);
    return rc;
}

int naming_of(struct store *st, int64_t task_id, struct naming **ret, struct err *err)
{
    return naming_make(st, task_id, false, ret, err);
}

int naming_read(struct store *st, int64_t media_id, struct naming **ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t task_id;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.task_id FROM task t WHERE t.media_id = ? AND EXISTS "
                      "(SELECT 1 FROM speaker k WHERE k.task_id = t.task_id) "
                      "ORDER BY t.current DESC, t.asked DESC, t.stage_id DESC LIMIT 1",
                      "i", media_id);

    *ret = NULL;
    if (rc != 1)
        return rc;
    task_id = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return naming_of(st, task_id, ret, err);
}

void naming_free(struct naming *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->count; i++)
        free(n->names[i]);
    free(n->said);
    free(n->turns);
    free(n);
}

/* ------------------------------------------------------------------------- who shares how much */

struct side {
    const struct result_turn *turns; /* in the order of start_ms */
    size_t count, at;
    int64_t until[SPEAKERS_MOST]; /* each one's turns so far reach */
    int64_t ms[SPEAKERS_MOST];    /* that each speaks so far */
    size_t speakers;
};

struct shared {
    struct side was, is;
    int64_t *ms; /* [was.speakers][is.speakers] */
};

/* Adds the shared time of one side's next turn with each speaker of the other side who speaks at
 * its beginning, until the first of the two ends. A turn that begins later finds this one and adds
 * its own part. */
static void take_turn(struct shared *s, struct side *own, struct side *other)
{
    const struct result_turn *t = &own->turns[own->at++];
    int64_t from = own->until[t->speaker] > t->start_ms ? own->until[t->speaker] : t->start_ms;

    if (t->end_ms <= from)
        return;
    own->until[t->speaker] = t->end_ms;
    own->ms[t->speaker] += t->end_ms - from;
    for (size_t i = 0; i < other->speakers; i++) {
        int64_t end = other->until[i] < t->end_ms ? other->until[i] : t->end_ms;
        size_t was = own == &s->was ? t->speaker : i, is = own == &s->was ? i : t->speaker;

        if (end > from)
            s->ms[was * s->is.speakers + is] += end - from;
    }
}

static void sum_shared_times(struct shared *s)
{
    struct side *was = &s->was, *is = &s->is;

    while (was->at < was->count || is->at < is->count)
        if (is->at == is->count ||
            (was->at < was->count && was->turns[was->at].start_ms <= is->turns[is->at].start_ms))
            take_turn(s, was, is);
        else
            take_turn(s, is, was);
}

/* Who of one side shares most, of times that lie `step` apart; nobody: side->speakers. Who speaks
 * only while another one does shares as much with both: of equals it is who speaks less besides. */
static size_t find_most_shared(const int64_t *ms, size_t step, const struct side *side)
{
    size_t best = side->speakers;

    for (size_t i = 0; i < side->speakers; i++) {
        int64_t more = ms[i * step] - (best < side->speakers ? ms[best * step] : 0);

        if (more > 0 || (more == 0 && best < side->speakers && side->ms[i] < side->ms[best]))
            best = i;
    }
    return best;
}

static int transfer_names(struct store *st, const struct naming *n, const struct shared *s,
                          const int64_t *ids, struct err *err)
{
    size_t is = s->is.speakers;
    int rc = 0;

    for (size_t i = 0; i < s->was.speakers && rc == 0; i++) {
        size_t to = find_most_shared(&s->ms[i * is], 1, &s->is);

        if (to == is || find_most_shared(&s->ms[to], is, &s->was) != i)
            continue;
        if (n->names[i])
            rc = db_run(st, err,
                        "UPDATE speaker SET name = ?2 WHERE speaker_id = ?1 AND name IS NULL", "it",
                        ids[to], n->names[i]);
        for (size_t k = 0; k < n->said_count && rc == 0; k++)
            if (n->said[k].speaker == i)
                rc = register_say(st, ids[to], n->said[k].person_id, n->said[k].denied, err);
    }
    return rc;
}

static int by_start(const void *a, const void *b)
{
    const struct result_turn *x = a, *y = b;

    return (x->start_ms > y->start_ms) - (x->start_ms < y->start_ms);
}

int naming_give(struct store *st, const struct naming *n, const int64_t *ids,
                const struct result_people *people, struct err *err)
{
    size_t count = people->speaker_count, turn_count = people->turn_count;
    struct result_turn *sorted;
    struct shared *s;
    int rc;

    if (count == 0 || count > SPEAKERS_MOST || turn_count == 0)
        return 0;
    sorted = malloc(turn_count * sizeof(*sorted));
    s = calloc(1, sizeof(*s));
    if (s)
        s->ms = calloc(n->count * count, sizeof(*s->ms));
    if (sorted && s && s->ms) {
        memcpy(sorted, people->turns, turn_count * sizeof(*sorted));
        qsort(sorted, turn_count, sizeof(*sorted), by_start);
        s->was.turns = n->turns;
        s->was.count = n->turn_count;
        s->was.speakers = n->count;
        s->is.turns = sorted;
        s->is.count = turn_count;
        s->is.speakers = count;
        sum_shared_times(s);
        rc = transfer_names(st, n, s, ids, err);
    } else {
        rc = err_no_memory(err, "catalog");
    }
    free(sorted);
    free(s ? s->ms : NULL);
    free(s);
    return rc;
}

static int carry_names_to_task(struct store *st, const struct naming *n, int64_t task_id,
                               struct err *err)
{
    struct naming *to = NULL;
    int rc = naming_make(st, task_id, true, &to, err);

    if (rc == 0) {
        const struct result_people people = {
            .speaker_count = to->count, .turns = to->turns, .turn_count = to->turn_count};

        rc = naming_give(st, n, to->ids, &people, err);
    }
    naming_free(to);
    return rc;
}

int naming_before(struct store *st, int64_t media_id, struct naming_change *ret, struct err *err)
{
    int rc;

    *ret = (struct naming_change){.media_id = media_id};
    rc = heard_diarization(st, media_id, &ret->task_id, err);
    return rc < 0 || !ret->task_id ? rc : naming_of(st, ret->task_id, &ret->names, err);
}

int naming_after(struct store *st, struct naming_change *of, int rc, struct err *err)
{
    int64_t now = 0;

    if (rc >= 0)
        rc = heard_diarization(st, of->media_id, &now, err);
    if (rc == 0 && now && now != of->task_id && of->names)
        rc = carry_names_to_task(st, of->names, now, err);
    naming_free(of->names);
    of->names = NULL;
    return rc;
}

/* ------------------------------------------------------------------------ while there is none */

/* Was anything said of any of them? */
static int is_said(struct store *st, int64_t task_id, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM speaker k WHERE task_id = ?1 AND (name IS NOT NULL OR EXISTS "
                      "(SELECT 1 FROM person_voice v WHERE v.speaker_id = k.speaker_id))",
                      "i", task_id);

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int naming_drop_shards(struct store *st, int64_t task_id, struct err *err)
{
    bool said = false;
    int rc = is_said(st, task_id, &said, err);

    if (rc == 0 && !said)
        rc = register_drop(st, task_id, err);
    return rc < 0 ? rc : drop_found(st, task_id, err);
}

int naming_set(struct store *st, int64_t speaker_id, const char *name, struct err *err)
{
    int rc = db_run(st, err, "UPDATE speaker SET name = nullif(?2, '') WHERE speaker_id = ?1", "it",
                    speaker_id, name);

    if (rc == 0 && sqlite3_changes64(st->db) == 0)
        rc = err_set(err, ERR_INPUT, "there is no speaker %lld any more", (long long)speaker_id);
    return rc;
}
