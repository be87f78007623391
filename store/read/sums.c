#include "store/read/sums.h"

#include <stdlib.h>

#include "base/list.h"
#include "store/db.h"

/* A recording's state is the first of these that any of its wanted tasks is in; STARTED is one that
 * waits with shards done. The views `recordings` and `archive` have the same order. */
enum rank { ABSENT = 1, PAUSED, STARTED, PENDING, FAILED, CANCELLED, WAITING, DONE, NONE };

#define RANK                                                                            \
    "CASE t.state WHEN 'done' THEN 8 WHEN 'failed' THEN iif(t.absent, 1, 5) "           \
    "WHEN 'cancelled' THEN 6 "                                                          \
    "ELSE CASE WHEN t.absent THEN 1 WHEN t.paused THEN 2 WHEN t.waits = 'source' THEN " \
    "7 WHEN t.shards_done > 0 THEN 3 ELSE 4 END END"

static const char sql_tasks[] =
    "SELECT m.media_id, m.size_bytes, m.duration_ms, m.replaced, m.damage IS NOT NULL, "
    "t.stage_id, t.job_id, t.wanted, t.current, " RANK ", t.shards_done, t.audio_done_ms, "
    "t.speech_ms, t.dropped_ms, t.missing_ms "
    "FROM media m LEFT JOIN task t ON t.media_id = m.media_id ORDER BY m.media_id";

struct recording { /* the one that is being read */
    int64_t media_id, duration_ms, heard_ms;
    uint64_t size_bytes;
    bool is_known, is_heard; /* its length; any stage listens to it */
    enum rank rank;
};

struct counting {
    struct sums *s;
    bool *of_text; /* [stage_count]: it works on another one's results */
    size_t stage_room, text_room, job_room;
    struct recording at;
};

/* Each begins with its id. count: there is none of this one. */
static size_t find_by_id(const void *list, size_t size, size_t count, int64_t id)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int64_t there = *(const int64_t *)(const void *)((const char *)list + middle * size);

        if (there < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && *(const int64_t *)(const void *)((const char *)list + low * size) == id
               ? low
               : count;
}

const struct sums_stage *sums_of_stage(const struct sums *s, int64_t stage_id)
{
    static const struct sums_stage none;
    size_t i = find_by_id(s->stages, sizeof(*s->stages), s->stage_count, stage_id);

    return i < s->stage_count ? &s->stages[i] : &none;
}

const struct sums_job *sums_of_job(const struct sums *s, int64_t job_id)
{
    static const struct sums_job none;
    size_t i = find_by_id(s->jobs, sizeof(*s->jobs), s->job_count, job_id);

    return i < s->job_count ? &s->jobs[i] : &none;
}

/* --------------------------------------------------------------------------------- counting */

static void end_recording(struct counting *c)
{
    const struct recording *m = &c->at;
    struct store_archive *a = &c->s->archive;
    bool live = m->rank == STARTED || m->rank == PENDING;
    int64_t left_ms;

    if (m->rank == NONE)
        return;
    a->pending += live;
    a->waiting += m->rank == WAITING;
    a->paused += m->rank == PAUSED;
    a->absent += m->rank == ABSENT;
    a->done += m->rank == DONE;
    a->failed += m->rank == FAILED;
    a->cancelled += m->rank == CANCELLED;
    a->audio_done_ms += m->is_heard ? m->heard_ms : 0;
    if (!m->is_known) {
        a->unknown += live;
        a->bytes_unknown += live ? m->size_bytes : 0;
        return;
    }
    a->bytes_known += m->size_bytes;
    a->audio_known_ms += m->duration_ms;
    left_ms = m->duration_ms - (m->is_heard ? m->heard_ms : 0);
    a->audio_left_ms += live && left_ms > 0 ? left_ms : 0;
}

static void begin_recording(struct counting *c, sqlite3_stmt *stmt)
{
    c->at = (struct recording){.media_id = sqlite3_column_int64(stmt, 0),
                               .size_bytes = (uint64_t)sqlite3_column_int64(stmt, 1),
                               .is_known = sqlite3_column_type(stmt, 2) != SQLITE_NULL,
                               .duration_ms = sqlite3_column_int64(stmt, 2),
                               .rank = NONE};
    if (!sqlite3_column_int(stmt, 3)) {
        c->s->recordings++;
        c->s->damaged += (uint64_t)sqlite3_column_int(stmt, 4);
    }
}

/* A task that is done has nothing left, whatever its shards add up to. A task that works on
 * another's text hears nothing. */
static void update_decoded_ms(struct recording *m, enum rank rank, int64_t done_ms, bool of_text)
{
    int64_t ms = done_ms;

    if (of_text)
        return;
    if (m->is_known && (rank == DONE || ms > m->duration_ms))
        ms = m->duration_ms;
    if (!m->is_heard || ms < m->heard_ms)
        m->heard_ms = ms;
    m->is_heard = true;
}

static void add_wanted(const struct recording *m, struct sums_stage *g, enum rank rank,
                       int64_t done_ms)
{
    g->tasks++;
    g->waiting += rank == WAITING;
    g->paused += rank == PAUSED;
    g->absent += rank == ABSENT;
    g->done += rank == DONE;
    g->failed += rank == FAILED;
    g->cancelled += rank == CANCELLED;
    g->audio_done_ms += done_ms;
    g->audio_known_ms += m->is_known ? m->duration_ms : 0;
    if (rank != STARTED && rank != PENDING)
        return;
    g->pending++;
    g->bytes_pending += m->size_bytes;
    g->unknown += !m->is_known;
    g->audio_left_ms += m->is_known && m->duration_ms > done_ms ? m->duration_ms - done_ms : 0;
}

static void add_job(struct sums_job *j, enum rank rank, bool wanted)
{
    j->done += rank == DONE;
    j->failed += rank == FAILED;
    j->cancelled += rank == CANCELLED && wanted;
    j->pending += rank != DONE && rank != FAILED && rank != CANCELLED;
}

static void add_task(struct counting *c, sqlite3_stmt *stmt)
{
    struct sums *s = c->s;
    size_t stage =
        find_by_id(s->stages, sizeof(*s->stages), s->stage_count, sqlite3_column_int64(stmt, 5));
    size_t job = find_by_id(s->jobs, sizeof(*s->jobs), s->job_count, sqlite3_column_int64(stmt, 6));
    bool wanted = sqlite3_column_int(stmt, 7), current = sqlite3_column_int(stmt, 8);
    enum rank rank = (enum rank)sqlite3_column_int(stmt, 9);
    int64_t done_ms = sqlite3_column_int64(stmt, 11);
    struct sums_stage *g = &s->stages[stage];

    if (stage == s->stage_count || job == s->job_count)
        return; /* a foreign key that does not hold */
    g->shards_done += (uint64_t)sqlite3_column_int64(stmt, 10);
    g->superseded += !wanted;
    if (current) {
        g->account.speech_ms += sqlite3_column_int64(stmt, 12);
        g->account.dropped_ms += sqlite3_column_int64(stmt, 13);
        g->account.missing_ms += sqlite3_column_int64(stmt, 14);
    }
    if (wanted) {
        add_wanted(&c->at, g, rank, done_ms);
        if (rank < c->at.rank)
            c->at.rank = rank;
        update_decoded_ms(&c->at, rank, done_ms, c->of_text[stage]);
    }
    add_job(&s->jobs[job], rank, wanted);
}

static int count_tasks(struct store *st, struct counting *c, struct err *err)
{
    struct db_rows rows;

    c->at.rank = NONE;
    db_rows_again(&rows, st, err, db_cached(st, sql_tasks, err), "");
    while (db_rows_next(&rows)) {
        if (sqlite3_column_int64(rows.stmt, 0) != c->at.media_id) {
            end_recording(c);
            begin_recording(c, rows.stmt);
        }
        if (sqlite3_column_type(rows.stmt, 5) != SQLITE_NULL)
            add_task(c, rows.stmt);
    }
    end_recording(c);
    return db_rows_end(&rows);
}

/* Lists of all that there are; rows of (id, number). */
static int read_ids(struct store *st, const char *sql,
                    int (*add)(struct counting *, sqlite3_stmt *), struct counting *c,
                    struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, st, err, db_cached(st, sql, err), "");
    while (db_rows_next(&rows))
        if (add(c, rows.stmt) < 0)
            rows.rc = err_no_memory(err, "catalog");
    return db_rows_end(&rows);
}

static int add_stage(struct counting *c, sqlite3_stmt *stmt)
{
    struct sums *s = c->s;

    if (!list_grow(&s->stages, &c->stage_room, s->stage_count, sizeof(*s->stages)) ||
        !list_grow(&c->of_text, &c->text_room, s->stage_count, sizeof(*c->of_text)))
        return -1;
    c->of_text[s->stage_count] = sqlite3_column_int(stmt, 1);
    s->stages[s->stage_count++] = (struct sums_stage){.stage_id = sqlite3_column_int64(stmt, 0)};
    return 0;
}

static int add_job_id(struct counting *c, sqlite3_stmt *stmt)
{
    struct sums *s = c->s;

    if (!list_grow(&s->jobs, &c->job_room, s->job_count, sizeof(*s->jobs)))
        return -1;
    s->jobs[s->job_count++] = (struct sums_job){.job_id = sqlite3_column_int64(stmt, 0),
                                                .walks = sqlite3_column_int(stmt, 1)};
    return 0;
}

static void sums_free(struct sums *s)
{
    if (!s)
        return;
    free(s->stages);
    free(s->jobs);
    free(s);
}

static bool is_shown(const struct sums_job *j)
{
    return j->walks || j->pending + j->done + j->failed + j->cancelled > 0;
}

static int compute_sums(struct store *st, struct sums **ret, struct err *err)
{
    struct counting c = {.s = calloc(1, sizeof(struct sums))};
    int rc;

    if (!c.s)
        return err_no_memory(err, "catalog");
    rc = read_ids(st, "SELECT stage_id, source_id IS NOT NULL FROM stage ORDER BY stage_id",
                  add_stage, &c, err);
    if (rc == 0)
        rc = read_ids(st, "SELECT job_id, ended_at IS NULL FROM job ORDER BY job_id", add_job_id,
                      &c, err);
    if (rc == 0)
        rc = count_tasks(st, &c, err);
    for (size_t i = 0; i < c.s->job_count; i++)
        c.s->shown += is_shown(&c.s->jobs[i]);
    free(c.of_text);
    if (rc < 0)
        sums_free(c.s);
    else
        *ret = c.s;
    return rc;
}

static int version_of(struct store *st, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "PRAGMA data_version", "");

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "catalog '%s' has no version", st->path);
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

int sums_read(struct store *st, const struct sums **ret, struct err *err)
{
    int64_t version = 0;
    int rc = version_of(st, &version, err);

    if (rc < 0)
        return rc;
    if (st->sums &&
        (st->sums->version != version || st->sums->changes != sqlite3_total_changes64(st->db) ||
         st->sums->undone != st->undone)) {
        sums_free(st->sums);
        st->sums = NULL;
    }
    if (!st->sums) {
        rc = compute_sums(st, &st->sums, err);
        if (rc < 0)
            return rc;
        st->sums->version = version;
        st->sums->changes = sqlite3_total_changes64(st->db);
        st->sums->undone = st->undone;
        st->sums_free = sums_free;
    }
    *ret = st->sums;
    return 0;
}
