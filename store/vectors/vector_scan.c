#include "store/vectors/vector_scan.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/list.h"
#include "store/read/scope.h"
#include "store/read/scope_filter.h"

/* ---- the vectors of a scope, as ranges of their numbers */

void vector_rows_free(struct vector_rows *r)
{
    free(r->list);
    *r = (struct vector_rows){0};
}

static int append_vector_id(struct vector_rows *r, size_t *capacity, int64_t id, struct err *err)
{
    r->rows++;
    if (r->count && r->list[r->count - 1].last == id - 1) {
        r->list[r->count - 1].last = id;
        return 0;
    }
    if (!list_grow(&r->list, capacity, r->count, sizeof(*r->list)))
        return err_no_memory(err, "vectors");
    r->list[r->count++] = (struct vector_range){id, id};
    return 0;
}

static int compare_range_start(const void *a, const void *b)
{
    int64_t x = ((const struct vector_range *)a)->first;
    int64_t y = ((const struct vector_range *)b)->first;

    return (x > y) - (x < y);
}

/* In order, and those that touch joined: shards of several recordings are committed in turn. */
static void merge_vector_ranges(struct vector_rows *r)
{
    size_t kept = 0;

    if (r->count)
        qsort(r->list, r->count, sizeof(*r->list), compare_range_start);
    for (size_t i = 0; i < r->count; i++)
        if (kept && r->list[kept - 1].last == r->list[i].first - 1)
            r->list[kept - 1].last = r->list[i].last;
        else
            r->list[kept++] = r->list[i];
    r->count = kept;
}

/* Takes the numbers that a statement yields, and ends it. */
static int take_all(struct db_rows *rows, struct vector_rows *ret)
{
    struct vector_rows r = {0};
    size_t capacity = 0;
    int rc;

    while (db_rows_next(rows))
        rows->rc = append_vector_id(&r, &capacity, sqlite3_column_int64(rows->stmt, 0), rows->err);
    rc = db_rows_end(rows);
    if (rc < 0) {
        vector_rows_free(&r);
        return rc;
    }
    merge_vector_ranges(&r);
    *ret = r;
    return 0;
}

int vector_rows_superseded(struct store *st, int64_t stage_id, struct vector_rows *ret,
                           struct err *err)
{
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT e.embedding_id FROM task t INDEXED BY task_superseded "
                 "CROSS JOIN embedding e ON e.task_id = t.task_id "
                 "WHERE t.stage_id = ? AND t.current = 0 AND e.embedding_id > 0",
                 "i", stage_id);
    rc = take_all(&rows, ret);
    if (rc == 0)
        ret->out = true;
    return rc;
}

int vector_rows_find(struct store *st, int64_t stage_id, const struct scope *scope,
                     struct vector_rows *ret, struct err *err)
{
    struct scope_filter f = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = scope_filter_make(scope, &f, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT e.embedding_id FROM task t CROSS JOIN embedding e "
                     "ON e.task_id = t.task_id WHERE t.stage_id = ?1 AND t.current "
                     "AND e.embedding_id > 0");
    scope_filter_put(&f, &sql, "t.media_id", 2);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "i", stage_id);
    scope_filter_bind(&f, &rows, 2);
    rc = take_all(&rows, ret);
    scope_filter_free(&f);
    buf_free(&sql);
    return rc;
}

size_t vector_rows_at(const struct vector_rows *r, int64_t id)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (r->list[mid].last < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- the rows of an index of vectors that may be among the best */

#define THREADS_MAX 64u
#define QUERY_MOST 1023 /* of an int16 of the query: 8192 products with 127 stay below 2^31 */
/* Covers rounding errors of the bounds themselves. */
#define SLACK 1e-5f

/* ------------------------------------------------------------------------------------ kernels
 *
 * One body, compiled for the instruction sets that matter; sums of integers, so that all give the
 * same. */
#define DOT_BODY                                \
    int32_t sum = 0;                            \
                                                \
    for (uint32_t i = 0; i < n; i++)            \
        sum += (int32_t)((int16_t)x[i] * q[i]); \
    return sum;

static int32_t dot_plain(const int8_t *x, const int16_t *q, uint32_t n) { DOT_BODY }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static int32_t dot_avx2(const int8_t *x, const int16_t *q,
                                                        uint32_t n)
{
    DOT_BODY
}
__attribute__((target("avx512bw,prefer-vector-width=512"))) static int32_t
dot_avx512(const int8_t *x, const int16_t *q, uint32_t n)
{
    DOT_BODY
}
#endif

typedef int32_t (*dot_fn)(const int8_t *x, const int16_t *q, uint32_t n);

static dot_fn dot_choose(void)
{
#if defined(__x86_64__)
    static const dot_fn sets[] = {dot_plain, dot_avx2, dot_avx512, dot_avx512};

    return sets[cpu_isa()];
#else
    return dot_plain;
#endif
}

/* -------------------------------------------------------------------------------- candidates */

/* least: a heap of the `limit` highest lower bounds; its root is what a row must reach. */
struct near {
    struct vector_near *list;
    size_t count, capacity;
    float *least;
    size_t held, limit;
};

static void near_free(struct near *c)
{
    free(c->list);
    free(c->least);
}

static void sift_heap_down(float *heap, size_t n, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        float v = heap[at];

        if (child >= n)
            return;
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= v)
            return;
        heap[at] = heap[child];
        heap[child] = v;
        at = child;
    }
}

static void near_bound(struct near *c, float least)
{
    if (c->held < c->limit) {
        c->least[c->held++] = least;
        if (c->held == c->limit)
            for (size_t i = c->limit / 2 + 1; i-- > 0;)
                sift_heap_down(c->least, c->held, i);
    } else if (least > c->least[0]) {
        c->least[0] = least;
        sift_heap_down(c->least, c->held, 0);
    }
}

static float near_threshold(const struct near *c)
{
    return c->held == c->limit ? c->least[0] : -INFINITY;
}

static void near_prune(struct near *c)
{
    float threshold = near_threshold(c);
    size_t kept = 0;

    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].most >= threshold)
            c->list[kept++] = c->list[i];
    c->count = kept;
}

static int near_add(struct near *c, struct vector_near row, struct err *err)
{
    struct vector_near *list;
    size_t capacity;

    if (!(row.most >= near_threshold(c)))
        return 0;
    near_bound(c, row.least);
    if (c->count == c->capacity) {
        near_prune(c);
        capacity = c->count > c->capacity / 2 ? c->capacity * 2 : c->capacity;
        capacity = capacity ? capacity : 4096;
        if (capacity != c->capacity) {
            list = realloc(c->list, capacity * sizeof(*list));
            if (!list)
                return err_no_memory(err, "vectors");
            c->list = list;
            c->capacity = capacity;
        }
    }
    c->list[c->count++] = row;
    return 0;
}

/* ----------------------------------------------------------------------------------- threads */

struct query {
    int16_t *values; /* [size] */
    float scale;
    float part; /* Euclidean length of what the integers leave out */
    float length;
};

struct scan {
    const struct vector_file *f;
    const struct query *q;
    const struct vector_rows *rows; /* NULL: all */
    dot_fn dot;
    atomic_uint_fast64_t *next;
};

struct worker {
    const struct scan *s;
    pthread_t thread;
    bool started;
    struct near near;
    struct err err;
};

/* Numbers rise from row to row, so *at, the range where the last one was looked for, is near. */
static bool is_row_of(const struct vector_rows *rows, int64_t id, size_t *at)
{
    if (*at < rows->count && rows->list[*at].last < id)
        ++*at;
    if ((*at < rows->count && rows->list[*at].last < id) ||
        (*at > 0 && rows->list[*at - 1].last >= id))
        *at = vector_rows_at(rows, id);
    return *at < rows->count && rows->list[*at].first <= id;
}

static int take_block(struct worker *w, const struct vector_block *b)
{
    const struct query *q = w->s->q;
    const struct vector_rows *rows = w->s->rows;
    uint32_t size = vector_file_state(w->s->f)->size;
    size_t at = rows && b->count ? vector_rows_at(rows, b->ids[0]) : 0;
    int rc = 0;

    for (uint32_t i = 0; i < b->count && rc == 0; i++) {
        float about, bound;

        if (rows && is_row_of(rows, b->ids[i], &at) == rows->out)
            continue;
        about = b->scales[i] * q->scale *
                (float)w->s->dot(b->values + (size_t)i * size, q->values, size);
        bound = q->length * b->errors[i] + q->part * (1 + b->errors[i]) + SLACK;

        rc = near_add(&w->near, (struct vector_near){b->ids[i], about - bound, about + bound},
                      &w->err);
    }
    return rc;
}

static void *scan_vector_blocks(void *arg)
{
    struct worker *w = arg;
    struct vector_block b = {0};
    uint64_t blocks = vector_file_blocks(w->s->f), k;
    int rc = 0;

    while (rc == 0 && (k = atomic_fetch_add(w->s->next, 1)) < blocks) {
        rc = vector_block_read(w->s->f, k, &b, &w->err);
        if (rc == 0)
            rc = take_block(w, &b);
    }
    if (rc < 0) /* the others need not go on */
        atomic_store(w->s->next, blocks);
    vector_block_free(&b);
    return NULL;
}

static int query_make(const float *values, uint32_t size, struct query *q, struct err *err)
{
    float most = 0;
    double rest = 0, all = 0;

    q->values = calloc(size, sizeof(*q->values));
    if (!q->values)
        return err_no_memory(err, "vectors");
    for (uint32_t i = 0; i < size; i++)
        most = fmaxf(most, fabsf(values[i]));
    q->scale = most / QUERY_MOST;
    for (uint32_t i = 0; i < size; i++) {
        float whole = q->scale > 0 ? rintf(values[i] / q->scale) : 0;
        double left = (double)values[i] - (double)q->scale * whole;

        q->values[i] = (int16_t)whole;
        rest += left * left;
        all += (double)values[i] * values[i];
    }
    q->part = nextafterf((float)sqrt(rest), INFINITY);
    q->length = nextafterf((float)sqrt(all), INFINITY);
    return 0;
}

static uint32_t thread_count(uint32_t wanted, uint64_t blocks)
{
    uint64_t n = wanted ? wanted : cpu_processors();

    n = n < THREADS_MAX ? n : THREADS_MAX;
    n = n < blocks ? n : blocks;
    return n ? (uint32_t)n : 1;
}

/* Compares the results of all threads with the bounds of all. */
static int merge_worker_results(struct worker *workers, uint32_t threads, struct near *all,
                                struct err *err)
{
    int rc = 0;

    for (uint32_t t = 0; t < threads; t++) {
        if (workers[t].err.code) {
            *err = workers[t].err;
            return err->code;
        }
    }
    for (uint32_t t = 0; t < threads; t++)
        for (size_t i = 0; i < workers[t].near.held; i++)
            near_bound(all, workers[t].near.least[i]);
    for (uint32_t t = 0; t < threads && rc == 0; t++) {
        const struct near *c = &workers[t].near;
        float threshold = near_threshold(all);
        struct vector_near *list = realloc(all->list, (all->count + c->count + 1) * sizeof(*list));

        if (!list)
            return err_no_memory(err, "vectors");
        all->list = list;
        for (size_t i = 0; i < c->count; i++)
            if (c->list[i].most >= threshold)
                list[all->count++] = c->list[i];
    }
    return rc;
}

static int scan_with(const struct scan *s, struct worker *workers, uint32_t threads, size_t limit,
                     struct near *all, struct err *err)
{
    for (uint32_t t = 0; t < threads; t++) {
        workers[t].s = s;
        workers[t].near.limit = limit;
        workers[t].near.least = calloc(limit, sizeof(float));
        if (!workers[t].near.least)
            return err_no_memory(err, "vectors");
    }
    for (uint32_t t = 1; t < threads; t++)
        workers[t].started =
            pthread_create(&workers[t].thread, NULL, scan_vector_blocks, &workers[t]) == 0;
    scan_vector_blocks(&workers[0]); /* whoever could not be started is not missed */
    for (uint32_t t = 1; t < threads; t++)
        if (workers[t].started)
            pthread_join(workers[t].thread, NULL);
    return merge_worker_results(workers, threads, all, err);
}

int vector_scan(const struct vector_file *f, const float *query, size_t limit, uint32_t threads,
                const struct vector_rows *rows, struct vector_near **ret, size_t *n,
                struct err *err)
{
    atomic_uint_fast64_t next = 0;
    struct query q = {0};
    struct scan s = {.f = f, .q = &q, .rows = rows, .dot = dot_choose(), .next = &next};
    struct near all = {.limit = limit};
    struct worker *workers;
    int rc;

    if (limit == 0)
        return err_set(err, ERR_USAGE, "vectors: none are wanted");
    threads = thread_count(threads, vector_file_blocks(f));
    workers = calloc(threads, sizeof(*workers));
    all.least = calloc(limit, sizeof(float));
    rc = query_make(query, vector_file_state(f)->size, &q, err);
    if (rc == 0 && (!workers || !all.least))
        rc = err_no_memory(err, "vectors");
    if (rc == 0)
        rc = scan_with(&s, workers, threads, limit, &all, err);
    for (uint32_t t = 0; workers && t < threads; t++)
        near_free(&workers[t].near);
    free(workers);
    free(q.values);
    if (rc == 0) {
        *ret = all.list;
        *n = all.count;
        all.list = NULL;
    }
    near_free(&all);
    return rc;
}
