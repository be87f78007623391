#include "store/vectors/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "store/read/scope_filter.h"
#include "store/vectors/vector_file.h"
#include "store/vectors/vector_scan.h"

#define TAIL_ROWS 20000 /* new rows that are compared one by one without a thought ... */
#define TAIL_PART 8     /* ... or this part of what is in the index */
#define FEW_ROWS 20000  /* of a scope: compared one by one sooner than an index is read */

/* The best so far: a heap whose root is the worst of them. */
struct best {
    struct vectors_hit *list;
    size_t count, limit;
};

struct search {
    struct store *st;
    const struct vectors_query *q;
    float *query; /* [size], of length 1 */
    float *row;   /* [size] */
    struct best best;
    int64_t stage_id; /* the present one */
    bool scoped;
    struct vector_rows rows; /* scoped: those that compete; else those that do not, or none */
};

static bool is_worse_hit(const struct vectors_hit *a, const struct vectors_hit *b)
{
    return a->cosine != b->cosine ? a->cosine < b->cosine : a->embedding_id > b->embedding_id;
}

static void best_sink(struct best *b, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        struct vectors_hit v = b->list[at];

        if (child >= b->count)
            return;
        if (child + 1 < b->count && is_worse_hit(&b->list[child + 1], &b->list[child]))
            child++;
        if (is_worse_hit(&v, &b->list[child]))
            return;
        b->list[at] = b->list[child];
        b->list[child] = v;
        at = child;
    }
}

static int best_add(struct best *b, struct vectors_hit hit, struct err *err)
{
    struct vectors_hit *list;
    size_t at;

    if (b->count == b->limit) {
        if (is_worse_hit(&b->list[0], &hit)) {
            b->list[0] = hit;
            best_sink(b, 0);
        }
        return 0;
    }
    if ((b->count & (b->count - 1)) == 0) { /* a power of two: full */
        list = realloc(b->list, (b->count ? b->count * 2 : 1) * sizeof(*list));
        if (!list)
            return err_no_memory(err, "vectors");
        b->list = list;
    }
    for (at = b->count++; at && is_worse_hit(&hit, &b->list[(at - 1) / 2]); at = (at - 1) / 2)
        b->list[at] = b->list[(at - 1) / 2];
    b->list[at] = hit;
    return 0;
}

static int best_first(const void *a, const void *b) { return is_worse_hit(a, b) ? 1 : -1; }

/* To length 1, by double precision. false: it is no vector. */
static bool normalize_vector(float *v, uint32_t size)
{
    double all = 0;

    for (uint32_t i = 0; i < size; i++)
        all += (double)v[i] * v[i];
    if (!isfinite(all) || all <= 0)
        return false;
    all = 1 / sqrt(all);
    for (uint32_t i = 0; i < size; i++)
        v[i] = (float)(v[i] * all);
    return true;
}

/* The column's vector in s->row, of length 1. */
static bool row_take(struct search *s, sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);
    size_t bytes = (size_t)sqlite3_column_bytes(stmt, column);

    if (!data || bytes != s->q->size * sizeof(float))
        return false;
    memcpy(s->row, data, bytes);
    return normalize_vector(s->row, s->q->size);
}

static int row_rank(struct search *s, int64_t id, struct err *err)
{
    double cosine = 0;

    for (uint32_t i = 0; i < s->q->size; i++)
        cosine += (double)s->query[i] * s->row[i];
    return best_add(&s->best, (struct vectors_hit){id, cosine}, err);
}

/* -------------------------------------------------------------------- one by one, from the catalog
 */

#define EACH_ROW(condition)                                                             \
    "SELECT e.embedding_id, e.vector FROM embedding e CROSS JOIN task t "               \
    "ON t.task_id = e.task_id WHERE e.embedding_id > ?1 AND t.stage_id = ?2 " condition \
    "ORDER BY e.embedding_id"
static const char sql_all[] = EACH_ROW(""), sql_current[] = EACH_ROW("AND t.current ");

/* Vectors of the stage with id > after, in the order of ids: where w is NULL the current ones
 * compete, else all go into a file. */
static int each_row(struct search *s, int64_t after, struct vector_writer *w, struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, s->st, err, db_cached(s->st, w ? sql_all : sql_current, err), "ii", after,
                  s->stage_id);
    while (db_rows_next(&rows)) {
        int64_t id = sqlite3_column_int64(rows.stmt, 0);

        rows.rc = !row_take(s, rows.stmt, 1) ? 0
                  : w                        ? vector_writer_add(w, id, s->row, err)
                                             : row_rank(s, id, err);
    }
    return db_rows_end(&rows);
}

/* Those of the scope with id > after compete. */
static int each_in_scope(struct search *s, int64_t after, struct err *err)
{
    static const char sql[] = "SELECT embedding_id, vector FROM embedding "
                              "WHERE embedding_id BETWEEN ? AND ?";
    struct db_rows rows;
    int rc = 0;

    for (size_t i = vector_rows_at(&s->rows, after + 1); i < s->rows.count && rc == 0; i++) {
        const struct vector_range *r = &s->rows.list[i];

        db_rows_again(&rows, s->st, err, db_cached(s->st, sql, err), "ii",
                      r->first > after ? r->first : after + 1, r->last);
        while (db_rows_next(&rows))
            if (row_take(s, rows.stmt, 1))
                rows.rc = row_rank(s, sqlite3_column_int64(rows.stmt, 0), err);
        rc = db_rows_end(&rows);
    }
    return rc;
}

static int each_after(struct search *s, int64_t after, struct err *err)
{
    return s->scoped ? each_in_scope(s, after, err) : each_row(s, after, NULL, err);
}

/* ------------------------------------------------------------------------------- with the index */

/* The checksum of a row, by FNV-1a (Fowler, Noll, Vo); 0: no such row. */
static int row_sum(struct search *s, int64_t id, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    int rc = db_first(s->st, &stmt, err,
                      "SELECT task_id || ' ' || seq || ' ' || idx, vector FROM embedding "
                      "WHERE embedding_id = ?",
                      "i", id);

    *ret = 0;
    if (rc != 1)
        return rc;
    for (int column = 0; column < 2; column++) {
        const unsigned char *bytes = sqlite3_column_blob(stmt, column);

        for (int i = 0, n = sqlite3_column_bytes(stmt, column); i < n; i++)
            sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    sqlite3_reset(stmt);
    *ret = sum;
    return 0;
}

/* The state that an index of this catalog and stage would have if it were made now. */
static int state_now(struct search *s, struct vector_state *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(s->st, &stmt, err,
                      "SELECT (SELECT value FROM setting WHERE name = 'identity'), "
                      "(SELECT value FROM setting WHERE name = 'embedding_edits'), "
                      "ifnull((SELECT max(embedding_id) FROM embedding), 0)",
                      "");

    if (rc != 1)
        return rc;
    *ret = (struct vector_state){.stage_id = s->stage_id, .size = s->q->size};
    memcpy(ret->identity, db_text(stmt, 0), strnlen(db_text(stmt, 0), VECTOR_IDENTITY));
    ret->edits = (uint64_t)sqlite3_column_int64(stmt, 1);
    ret->max_id = sqlite3_column_int64(stmt, 2);
    sqlite3_reset(stmt);
    return row_sum(s, ret->max_id, &ret->last, err);
}

/* Does it fit, so that only what came later is missing, and is that little? */
static bool is_vector_file_current(struct search *s, const struct vector_state *file,
                                   const struct vector_state *now)
{
    struct err err = {0};
    sqlite3_stmt *stmt = NULL;
    int64_t later, most = (int64_t)(file->count / TAIL_PART);
    uint64_t last;
    int rc;

    if (memcmp(file->identity, now->identity, VECTOR_IDENTITY) != 0 ||
        file->stage_id != now->stage_id || file->size != now->size || file->edits != now->edits ||
        file->max_id > now->max_id || row_sum(s, file->max_id, &last, &err) < 0 ||
        last != file->last)
        return false;
    most = most > TAIL_ROWS ? most : TAIL_ROWS;
    rc = db_first(s->st, &stmt, &err,
                  "SELECT count(*) FROM (SELECT 1 FROM embedding WHERE embedding_id > ? LIMIT ?)",
                  "ii", file->max_id, most + 1);
    if (rc != 1)
        return false;
    later = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return later <= most;
}

/* In one transaction of reading, so that rows and state belong together. */
static int index_make(struct search *s, const char *path, struct err *err)
{
    struct vector_writer *w = NULL;
    struct vector_state now;
    int rc = db_exec(s->st, "SAVEPOINT vectors", err);

    if (rc < 0)
        return rc;
    rc = state_now(s, &now, err);
    if (rc == 0)
        rc = vector_writer_open(path, store_path(s->st), &now, &w, err);
    if (rc == 0)
        rc = each_row(s, 0, w, err);
    if (rc == 0)
        rc = vector_writer_finish(w, now.max_id, err);
    else
        vector_writer_drop(w);
    db_exec(s->st, "RELEASE vectors", &(struct err){0});
    return rc;
}

/* An index that fits, made if need be. Its state is read after the file's own, which a run that is
 * on may have been ahead of. */
static int index_open(struct search *s, const char *path, struct vector_file **ret, struct err *err)
{
    struct vector_state now;
    struct err why = {0};

    for (int again = 0; again < 2; again++) {
        int rc = vector_file_open(path, ret, &why);

        if (rc == 0) {
            rc = state_now(s, &now, err);
            if (rc == 0 && is_vector_file_current(s, vector_file_state(*ret), &now))
                return 0;
            vector_file_close(*ret);
            *ret = NULL;
            if (rc < 0)
                return rc;
        }
        rc = again ? 0 : index_make(s, path, err);
        if (rc < 0)
            return rc;
    }
    return err_set(err, ERR_IO, "the index of vectors changes while it is read");
}

/* The catalog's own vectors of what may be among the best. A row that is gone is none. */
static int rank_near(struct search *s, const struct vector_near *near, size_t n, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        sqlite3_stmt *stmt = NULL;

        rc = db_first(s->st, &stmt, err,
                      "SELECT e.vector FROM embedding e JOIN task t ON t.task_id = e.task_id "
                      "WHERE e.embedding_id = ? AND t.stage_id = ? AND t.current",
                      "ii", near[i].id, s->stage_id);
        if (rc != 1)
            continue;
        rc = row_take(s, stmt, 0) ? row_rank(s, near[i].id, err) : 0;
        sqlite3_reset(stmt);
    }
    return rc;
}

static int search_index(struct search *s, const char *path, struct err *err)
{
    struct vector_file *f = NULL;
    struct vector_near *near = NULL;
    size_t n = 0;
    int rc = index_open(s, path, &f, err);

    if (rc == 0)
        rc = vector_scan(f, s->query, s->q->limit, 0, s->scoped || s->rows.out ? &s->rows : NULL,
                         &near, &n, err);
    if (rc == 0)
        rc = rank_near(s, near, n, err);
    if (rc == 0)
        rc = each_after(s, vector_file_state(f)->max_id, err);
    vector_file_close(f);
    free(near);
    return rc;
}

/* With the index, or, when that cannot be, without. */
static int search_any(struct search *s, struct err *err)
{
    bool few = s->q->no_file || (s->scoped && s->rows.rows <= FEW_ROWS);
    char *path = few ? NULL : vectors_path(s->st, s->stage_id);
    struct err why = {0};
    int rc = path ? search_index(s, path, &why) : ERR_MISSING;

    if (rc == ERR_CORRUPT && why.code == ERR_CORRUPT) { /* damaged inside: once more */
        s->best.count = 0;
        rc = index_make(s, path, &why);
        if (rc == 0)
            rc = search_index(s, path, &why);
    }
    if (rc < 0 && rc != ERR_NOMEM) {
        if (path)
            log_debug("searching without an index: %s", why.msg);
        s->best.count = 0;
        rc = each_after(s, 0, err);
    } else if (rc < 0) {
        *err = why;
    }
    free(path);
    return rc;
}

/* In one transaction of reading, so that a row has the number that it was found by. */
static int search_stage(struct search *s, struct err *err)
{
    int rc = db_exec(s->st, "SAVEPOINT scope", err);

    if (rc < 0)
        return rc;
    s->rows = (struct vector_rows){0};
    s->scoped = !scope_is_all(&s->q->scope);
    rc = s->scoped ? vector_rows_find(s->st, s->stage_id, &s->q->scope, &s->rows, err)
                   : vector_rows_superseded(s->st, s->stage_id, &s->rows, err);
    if (!s->rows.rows)
        s->rows.out = false;
    if (rc == 0)
        rc = search_any(s, err);
    vector_rows_free(&s->rows);
    db_exec(s->st, "RELEASE scope", &(struct err){0});
    return rc;
}

/* The next stage behind s->stage_id with vectors of the same model that are current: 1; 0: none. */
static int next_stage(struct search *s, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(s->st, &stmt, err,
                      "SELECT s.stage_id FROM stage o JOIN stage s ON s.name = o.name "
                      "AND s.model_hash = o.model_hash WHERE o.stage_id = ?1 AND s.stage_id > ?2 "
                      "AND EXISTS (SELECT 1 FROM task t WHERE t.stage_id = s.stage_id "
                      "AND t.current AND t.audio_done_ms > 0) ORDER BY s.stage_id LIMIT 1",
                      "ii", s->q->stage_id, s->stage_id);

    if (rc != 1)
        return rc;
    s->stage_id = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 1;
}

/* Each stage's best are found by themselves, since a search may have to begin again. */
static int search_all(struct search *s, struct err *err)
{
    struct best all = {.limit = s->q->limit};
    int rc;

    while ((rc = next_stage(s, err)) == 1) {
        s->best = (struct best){.limit = s->q->limit};
        rc = search_stage(s, err);
        for (size_t i = 0; i < s->best.count && rc == 0; i++)
            rc = best_add(&all, s->best.list[i], err);
        free(s->best.list);
        if (rc < 0)
            break;
    }
    s->best = all;
    return rc;
}

char *vectors_path(const struct store *st, int64_t stage_id)
{
    char *path;

    return asprintf(&path, "%s.vectors-%lld", store_path(st), (long long)stage_id) < 0 ? NULL
                                                                                       : path;
}

static void remove_file(char *path)
{
    char *made = NULL;

    if (path && asprintf(&made, "%s.new", path) > 0) {
        unlink(made); /* of one who was killed */
        unlink(path);
        free(made);
    }
    free(path);
}

int vectors_remove(struct store *st, bool all, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT stage_id FROM stage s WHERE ?1 OR NOT EXISTS "
                 "(SELECT 1 FROM task t WHERE t.stage_id = s.stage_id)",
                 "i", (int64_t)all);
    while (db_rows_next(&rows))
        remove_file(vectors_path(st, sqlite3_column_int64(rows.stmt, 0)));
    return db_rows_end(&rows);
}

int vectors_search(struct store *st, const struct vectors_query *q, struct vectors_hit **ret,
                   size_t *n, struct err *err)
{
    struct search s = {.st = st, .q = q};
    int rc = 0;

    if (!q->limit || !q->size || q->size > VECTOR_MAX_SIZE)
        return err_set(err, ERR_INPUT, "vectors: nothing to search for");
    s.query = malloc(q->size * sizeof(float));
    s.row = malloc(q->size * sizeof(float));
    if (!s.query || !s.row) {
        rc = err_no_memory(err, "vectors");
    } else {
        memcpy(s.query, q->values, q->size * sizeof(float));
        if (!normalize_vector(s.query, q->size))
            rc = err_set(err, ERR_INPUT, "vectors: the query is no vector");
    }
    if (rc == 0)
        rc = search_all(&s, err);
    free(s.query);
    free(s.row);
    if (rc < 0) {
        free(s.best.list);
        return rc;
    }
    if (s.best.count)
        qsort(s.best.list, s.best.count, sizeof(*s.best.list), best_first);
    *ret = s.best.list;
    *n = s.best.count;
    return 0;
}
