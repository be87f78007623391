#include "store/search/ranking.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/full_text.h"

#define POINTER "nightshift-ranking"
/* As bm25 of FTS5 has them. */
#define K1 1.2
#define B 0.75
#define LEAST_WEIGHT 1e-6
#define ROUNDING 1e-9 /* what two ways of adding the same may differ by, and more */

/* -------------------------------------------------------------------------------------- best */

int ranking_make(size_t wanted, struct ranking *ret, struct err *err)
{
    *ret = (struct ranking){.wanted = wanted, .best = calloc(wanted + 1, sizeof(*ret->best))};
    return ret->best ? 0 : err_set(err, ERR_NOMEM, "catalog: out of memory");
}

void ranking_free(struct ranking *r)
{
    free(r->best);
    free(r->weight);
    free(r->often);
    *r = (struct ranking){0};
}

double ranking_least(const struct ranking *r) { return r->count < r->wanted ? -1 : r->best[0]; }

static void sift_up(double *heap, size_t at)
{
    for (size_t up; at > 0 && heap[up = (at - 1) / 2] > heap[at]; at = up) {
        double was = heap[up];

        heap[up] = heap[at];
        heap[at] = was;
    }
}

static void sift_down(double *heap, size_t n)
{
    for (size_t at = 0, down; (down = at * 2 + 1) < n; at = down) {
        double was = heap[at];

        down += down + 1 < n && heap[down + 1] < heap[down];
        if (heap[down] >= was)
            return;
        heap[at] = heap[down];
        heap[down] = was;
    }
}

void ranking_add(struct ranking *r, double score)
{
    if (r->count < r->wanted) {
        r->best[r->count] = score;
        sift_up(r->best, r->count++);
    } else if (r->wanted > 0 && score > r->best[0]) {
        r->best[0] = score;
        sift_down(r->best, r->count);
    }
}

/* -------------------------------------------------------------------------------------- bm25 */

static int count_row(const Fts5ExtensionApi *api, Fts5Context *fts, void *arg)
{
    (void)api, (void)fts;
    ++*(sqlite3_int64 *)arg;
    return SQLITE_OK;
}

/* The weight of a single phrase changes no order, and to count its rows takes as long as to find
 * them. */
static int weigh(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts,
                 sqlite3_int64 rows)
{
    int rc = SQLITE_OK;

    for (int i = 0; i < r->phrases && rc == SQLITE_OK; i++) {
        sqlite3_int64 hits = 0;

        r->weight[i] = 1;
        if (r->phrases == 1)
            break;
        rc = api->xQueryPhrase(fts, i, &hits, count_row);
        r->weight[i] = log(((double)(rows - hits) + 0.5) / ((double)hits + 0.5));
        if (!(r->weight[i] > 0))
            r->weight[i] = LEAST_WEIGHT;
    }
    return rc;
}

static int know(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts)
{
    sqlite3_int64 rows = 0, words = 0;
    int rc;

    if (r->often)
        return SQLITE_OK;
    r->phrases = api->xPhraseCount(fts);
    r->weight = calloc((size_t)r->phrases + 1, sizeof(*r->weight));
    r->often = calloc((size_t)r->phrases + 1, sizeof(*r->often));
    if (!r->weight || !r->often)
        return SQLITE_NOMEM;
    rc = api->xRowCount(fts, &rows);
    if (rc == SQLITE_OK)
        rc = api->xColumnTotalSize(fts, -1, &words);
    r->average = (double)words / (double)rows;
    return rc == SQLITE_OK ? weigh(r, api, fts, rows) : rc;
}

/* How often the row has each phrase. */
static int count_phrases(struct ranking *r, const Fts5ExtensionApi *api, Fts5Context *fts)
{
    int n = 0, rc = know(r, api, fts), phrase, column, at;

    if (rc != SQLITE_OK)
        return rc;
    memset(r->often, 0, (size_t)r->phrases * sizeof(*r->often));
    rc = api->xInstCount(fts, &n);
    for (int i = 0; i < n && rc == SQLITE_OK; i++) {
        rc = api->xInst(fts, i, &phrase, &column, &at);
        if (rc == SQLITE_OK && phrase >= 0 && phrase < r->phrases)
            r->often[phrase] += 1;
    }
    return rc;
}

static double score(const struct ranking *r, double length)
{
    double sum = 0;

    for (int i = 0; i < r->phrases; i++)
        sum += r->weight[i] * ((r->often[i] * (K1 + 1.0)) /
                               (r->often[i] + K1 * (1 - B + B * length / r->average)));
    return sum;
}

/* If the segment had no words but these. */
static double most(const struct ranking *r)
{
    double length = 0;

    for (int i = 0; i < r->phrases; i++)
        length = fmax(length, r->often[i]);
    return score(r, length) * (1 + ROUNDING);
}

static void hopeful(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *context, int n,
                    sqlite3_value **values)
{
    struct ranking *r = n == 1 ? sqlite3_value_pointer(values[0], POINTER) : NULL;
    int rc = SQLITE_OK;

    if (r && r->count == r->wanted)
        rc = count_phrases(r, api, fts);
    if (!r || rc != SQLITE_OK)
        sqlite3_result_error_code(context, r ? rc : SQLITE_MISUSE);
    else
        sqlite3_result_int(context, r->count < r->wanted || most(r) >= ranking_least(r));
}

static void among(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *context, int n,
                  sqlite3_value **values)
{
    struct ranking *r = n == 2 ? sqlite3_value_pointer(values[0], POINTER) : NULL;
    int length = 0, rc = r ? count_phrases(r, api, fts) : SQLITE_MISUSE;

    if (rc == SQLITE_OK)
        rc = api->xColumnSize(fts, -1, &length);
    if (rc != SQLITE_OK) {
        sqlite3_result_error_code(context, rc);
        return;
    }
    r->score = score(r, length);
    sqlite3_result_int(context, r->score >= ranking_least(r));
}

int ranking_functions(struct store *st, struct err *err)
{
    fts5_api *api = NULL;
    int rc = st->ranks ? 0 : full_text_api(st, &api, err), made;

    if (rc != 0 || st->ranks)
        return rc;
    made = api->xCreateFunction(api, RANKING_HOPEFUL, NULL, hopeful, NULL);
    if (made == SQLITE_OK)
        made = api->xCreateFunction(api, RANKING_AMONG, NULL, among, NULL);
    if (made != SQLITE_OK)
        return db_error_of(made, 0, sqlite3_errstr(made), "full-text search", err);
    st->ranks = true;
    return 0;
}

void ranking_bind(struct db_rows *rows, int parameter, struct ranking *r)
{
    int rc = rows->rc == 0 ? sqlite3_bind_pointer(rows->stmt, parameter, r, POINTER, NULL) : 0;

    if (rc != SQLITE_OK)
        rows->rc = db_error_of(rc, 0, sqlite3_errstr(rc), "catalog", rows->err);
}
