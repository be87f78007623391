#include "workers/speakers/diarize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/cluster.h"
#include "workers/speakers/match.h"
#include "workers/speakers/turns.h"
#include "workers/speakers/vbx.h"

/* ---- how many speak */

static int count_speakers(const struct grid *g, const uint8_t *active, uint32_t most, uint8_t *ret,
                          struct err *err)
{
    uint32_t *sums = calloc(2 * (size_t)g->total, sizeof(*sums)), *heard;

    if (!sums)
        return err_set(err, ERR_NOMEM, "no memory to count speakers in %u frames", g->total);
    heard = sums + g->total;
    for (uint32_t w = 0; w < g->windows; w++) {
        const uint8_t *row = active + (size_t)w * g->window_frames;
        uint32_t start = grid_start(g, w), end = grid_end(g, w);

        for (uint32_t t = start; t < end; t++) {
            sums[t] += (uint32_t)__builtin_popcount(row[t - start]);
            heard[t]++;
        }
    }
    for (uint32_t t = 0; t < g->total; t++) {
        uint32_t n = heard[t] ? sums[t] / heard[t] : 0;
        uint32_t twice = heard[t] ? 2 * (sums[t] % heard[t]) : 0;

        n += twice > heard[t] || (twice == heard[t] && twice > 0 && n % 2 == 1);
        ret[t] = (uint8_t)(most > 0 && n > most ? most : n);
    }
    free(sums);
    return 0;
}

/* ---- whose a local speaker is */

static double cosine_similarity(const float *a, const float *b, uint32_t size)
{
    double ab = 0.0, aa = 0.0, bb = 0.0;

#pragma omp simd reduction(+ : ab, aa, bb)
    for (uint32_t k = 0; k < size; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : 0.0;
}

struct assigning {
    const struct diarize_input *in;
    const float *centroids;
    uint32_t clusters;
    double *gain; /* [speakers][clusters] */
    struct matcher *matcher;
};

static bool has_vector(const float *vector) { return !isnan(vector[0]); }

/* Those with a vector first; `order` is whose row a row is. Returns the rows; *some: of them with a
 * vector. */
static uint32_t compute_similarities(struct assigning *a, uint32_t window, uint8_t speaks,
                                     uint32_t *order, uint32_t *some)
{
    const struct diarize_input *in = a->in;
    uint32_t rows = 0;

    for (int vectors = 1; vectors >= 0; vectors--) {
        for (uint32_t s = 0; s < in->speakers; s++) {
            const float *v = in->vectors + ((size_t)window * in->speakers + s) * in->size;

            if (!(speaks & 1u << s) || has_vector(v) != (vectors == 1))
                continue;
            for (uint32_t k = 0; vectors && k < a->clusters; k++)
                a->gain[(size_t)rows * a->clusters + k] =
                    cosine_similarity(v, a->centroids + (size_t)k * in->size, in->size);
            order[rows++] = s;
        }
        if (vectors)
            *some = rows;
    }
    return rows;
}

static void take_nearest(const struct assigning *a, uint32_t some, const uint32_t *order,
                         int32_t *ret)
{
    for (uint32_t i = 0; i < some; i++) {
        const double *gain = a->gain + (size_t)i * a->clusters;
        uint32_t best = 0;

        for (uint32_t k = 1; k < a->clusters; k++)
            if (gain[k] > gain[best])
                best = k;
        ret[order[i]] = (int32_t)best;
    }
}

static void take_different(struct assigning *a, uint32_t rows, uint32_t some, const uint32_t *order,
                           int32_t *ret)
{
    int32_t column[8];
    uint32_t left = 0;

    matcher_run(a->matcher, a->gain, some, a->clusters, column);
    for (uint32_t i = 0; i < some; i++)
        ret[order[i]] = column[i] < 0 ? ASSIGN_NONE : column[i];
    for (uint32_t i = some; i < rows; i++, left++) {
        for (uint32_t k = 0; k < some;) { /* the lowest that nobody has */
            bool taken = column[k] == (int32_t)left;

            left += taken;
            k = taken ? 0 : k + 1;
        }
        if (left >= a->clusters)
            return;
        ret[order[i]] = (int32_t)left;
    }
}

int assign_clusters(const struct diarize_input *in, const uint8_t *speaks, const float *centroids,
                    uint32_t clusters, bool constrained, int32_t *ret, struct err *err)
{
    struct assigning a = {.in = in, .centroids = centroids, .clusters = clusters};
    int rc = 0;

    a.gain = calloc((size_t)in->speakers * clusters + 1, sizeof(*a.gain));
    if (!a.gain)
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", clusters);
    if (constrained)
        rc = matcher_new(in->speakers, clusters, &a.matcher, err);
    for (uint32_t w = 0; rc == 0 && w < in->windows; w++) {
        int32_t *mine = ret + (size_t)w * in->speakers;
        uint32_t order[8], some = 0, rows;

        for (uint32_t s = 0; s < in->speakers; s++)
            mine[s] = !constrained && clusters == 1 && (speaks[w] & 1u << s) ? 0 : ASSIGN_NONE;
        if (clusters == 0 || (!constrained && clusters == 1))
            continue;
        rows = compute_similarities(&a, w, speaks[w], order, &some);
        if (constrained)
            take_different(&a, rows, some, order, mine);
        else
            take_nearest(&a, some, order, mine);
    }
    matcher_free(a.matcher);
    free(a.gain);
    return rc;
}

#define CLEAN_LEAST 0.2 /* of a window's frames */

/* ---- before */

static bool fraction(float x) { return isfinite(x) && x > 0.0f; }

static int check_diarize_params(const struct diarize_params *p, struct err *err)
{
    if (!isfinite(p->threshold) || p->threshold < 0.0f ||
        (p->clustering == DIARIZE_VBX && (!fraction(p->fa) || !fraction(p->fb))) ||
        !isfinite(p->min_duration_off) || p->min_duration_off < 0.0f)
        return err_set(err, ERR_USAGE, "the clustering's parameters are impossible");
    if (p->num_speakers > DIARIZE_MAX_SPEAKERS || p->min_speakers > DIARIZE_MAX_SPEAKERS)
        return err_set(err, ERR_USAGE, "more than %u speakers cannot be distinguished",
                       DIARIZE_MAX_SPEAKERS);
    if (p->num_speakers == 0 && p->max_speakers > 0 && p->min_speakers > p->max_speakers)
        return err_set(err, ERR_USAGE, "at least %u speakers and at most %u cannot be",
                       p->min_speakers, p->max_speakers);
    return 0;
}

static uint32_t most_speakers(const struct diarize_params *p)
{
    return p->num_speakers ? p->num_speakers : p->max_speakers;
}

static int check_vector(const float *v, uint32_t size, uint32_t window, struct err *err)
{
    for (uint32_t k = 0; k < size; k++)
        if (!isfinite(v[k]) || fabsf(v[k]) > 1e15f)
            return err_set(err, ERR_INPUT, "a voice's vector in window %u is not finite", window);
    return 0;
}

/* Whom a window hears at all, and whom long enough alone. */
static void find_window_speakers(const struct diarize_input *in, uint32_t window, uint8_t *speaks,
                                 uint8_t *clean)
{
    const uint8_t *row = in->active + (size_t)window * in->frames;
    uint32_t alone[8] = {0};

    *speaks = *clean = 0;
    for (uint32_t t = 0; t < in->frames; t++) {
        *speaks |= row[t];
        if (__builtin_popcount(row[t]) == 1)
            alone[__builtin_ctz(row[t])]++;
    }
    for (uint32_t s = 0; s < in->speakers; s++)
        if ((double)alone[s] >= CLEAN_LEAST * (double)in->frames && (*speaks & 1u << s))
            *clean |= (uint8_t)(1u << s);
}

static int find_clean(struct pipeline *pl, struct err *err)
{
    const struct diarize_input *in = pl->in;

    for (uint32_t w = 0; w < in->windows; w++) {
        uint8_t clean;

        find_window_speakers(in, w, &pl->speaks[w], &clean);
        if (pl->speaks[w] >> in->speakers)
            return err_set(err, ERR_INPUT, "window %u has more than %u speakers", w, in->speakers);
        for (uint32_t s = 0; s < in->speakers; s++) {
            uint32_t at = w * in->speakers + s;
            const float *v = in->vectors + (size_t)at * in->size;

            if (!(pl->speaks[w] & 1u << s) || isnan(v[0]))
                continue;
            if (check_vector(v, in->size, w, err) != 0)
                return err->code;
            if (clean & 1u << s)
                pl->clean[pl->clean_count++] = at;
        }
    }
    return 0;
}

static int copy_clean(struct pipeline *pl, struct err *err)
{
    size_t bytes = pl->in->size * sizeof(float);

    pl->vectors = malloc(pl->clean_count * bytes + 1);
    if (!pl->vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u vectors", pl->clean_count);
    for (uint32_t i = 0; i < pl->clean_count; i++)
        memcpy(pl->vectors + (size_t)i * pl->in->size,
               pl->in->vectors + (size_t)pl->clean[i] * pl->in->size, bytes);
    return 0;
}

int pipeline_prepare(const struct diarize_input *in, const struct diarize_params *p,
                     struct pipeline *ret, struct err *err)
{
    struct pipeline pl = {.in = in, .p = p};
    int rc = check_diarize_params(p, err);

    if (rc == 0)
        rc = grid_of(in, &pl.grid, err);
    if (rc != 0)
        return rc;
    pl.count = malloc(pl.grid.total);
    pl.speaks = malloc(in->windows);
    pl.clean = malloc((size_t)in->windows * in->speakers * sizeof(*pl.clean));
    if (!pl.count || !pl.speaks || !pl.clean)
        rc = err_set(err, ERR_NOMEM, "no memory for %u windows", in->windows);
    if (rc == 0)
        rc = find_clean(&pl, err);
    if (rc == 0)
        rc = copy_clean(&pl, err);
    if (rc == 0)
        rc = count_speakers(&pl.grid, in->active, most_speakers(p), pl.count, err);
    for (uint32_t t = 0; rc == 0 && t < pl.grid.total; t++)
        if (pl.count[t] > pl.count_most)
            pl.count_most = pl.count[t];
    if (rc == 0)
        *ret = pl;
    else
        pipeline_free(&pl);
    return rc;
}

void pipeline_free(struct pipeline *pl)
{
    free(pl->count);
    free(pl->speaks);
    free(pl->clean);
    free(pl->vectors);
    *pl = (struct pipeline){0};
}

int pipeline_assign(const struct pipeline *pl, const struct clusters *c, int32_t *local,
                    struct err *err)
{
    return assign_clusters(pl->in, pl->speaks, c->centroids, c->count, c->constrained, local, err);
}

/* ---- after */

/* Numbers clusters by their first turn; number: [clusters]. Returns how many have one. */
static uint32_t number_speakers(struct turns *t, uint32_t clusters, uint32_t *number)
{
    uint32_t found = 0;

    memset(number, 0xff, clusters * sizeof(*number));
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t *n = &number[t->list[i].speaker];

        if (*n == UINT32_MAX)
            *n = found++;
        t->list[i].speaker = *n;
    }
    for (uint32_t i = 1; i < t->count; i++) /* by speaker where they begin together */
        for (uint32_t k = i; k > 0 && t->list[k].start_s == t->list[k - 1].start_s &&
                             t->list[k].speaker < t->list[k - 1].speaker;
             k--) {
            struct diarize_turn swap = t->list[k];

            t->list[k] = t->list[k - 1];
            t->list[k - 1] = swap;
        }
    return found;
}

/* Adds the vectors of local speakers to those of their clusters that have a number; with `clean`,
 * the clean ones. */
static void add_vectors(const struct pipeline *pl, const int32_t *local, const uint32_t *number,
                        bool clean, uint32_t *sizes, double *sums)
{
    const struct diarize_input *in = pl->in;
    size_t n = clean ? pl->clean_count : (size_t)in->windows * in->speakers;

    for (size_t i = 0; i < n; i++) {
        size_t at = clean ? pl->clean[i] : i;
        const float *v = in->vectors + at * in->size;
        uint32_t speaker = local[at] < 0 ? UINT32_MAX : number[local[at]];

        if (speaker == UINT32_MAX || isnan(v[0]))
            continue;
        sizes[speaker]++;
        for (uint32_t k = 0; k < in->size; k++)
            sums[(size_t)speaker * in->size + k] += (double)v[k];
    }
}

static void take_unit(const double *sum, uint32_t size, float *ret)
{
    double length = 0.0;

    for (uint32_t k = 0; k < size; k++)
        length += sum[k] * sum[k];
    for (uint32_t k = 0; k < size; k++)
        ret[k] = length > 0.0 ? (float)(sum[k] / sqrt(length)) : 0.0f;
}

static int find_vectors(const struct pipeline *pl, const int32_t *local, const uint32_t *number,
                        struct diarize_result *r, struct err *err)
{
    size_t size = pl->in->size, n = r->speakers;
    double *sums = calloc(2 * n * size + 1, sizeof(*sums)), *all = sums + n * size;
    uint32_t *sizes = calloc(2 * n + 1, sizeof(*sizes));

    if (!sums || !sizes) {
        free(sums);
        free(sizes);
        return err_set(err, ERR_NOMEM, "no memory for the voices of %u speakers", r->speakers);
    }
    add_vectors(pl, local, number, true, sizes, sums);
    add_vectors(pl, local, number, false, sizes + n, all);
    for (uint32_t s = 0; s < n; s++)
        take_unit((sizes[s] > 0 ? sums : all) + s * size, pl->in->size, r->vectors + s * size);
    free(sums);
    free(sizes);
    return 0;
}

/* clusters: how many there may be, those that only the count of speakers makes included. */
static int make_diarize_result(const struct pipeline *pl, const int32_t *local, struct turns *t,
                               uint32_t clusters, struct diarize_result *ret, struct err *err)
{
    uint32_t *number = malloc(((size_t)clusters + 1) * sizeof(*number));
    struct diarize_result r = {0};
    int rc = 0;

    if (!number)
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", clusters);
    for (uint32_t i = 0; i < clusters; i++)
        number[i] = i;
    r.speakers = pl->apart ? clusters : number_speakers(t, clusters, number);
    r.vectors = calloc((size_t)r.speakers * pl->in->size + 1, sizeof(*r.vectors));
    r.speech_s = calloc((size_t)r.speakers + 1, sizeof(*r.speech_s));
    if (!r.vectors || !r.speech_s)
        rc = err_set(err, ERR_NOMEM, "no memory for %u speakers", r.speakers);
    for (uint32_t i = 0; rc == 0 && i < t->count; i++)
        r.speech_s[t->list[i].speaker] += t->list[i].end_s - t->list[i].start_s;
    if (rc == 0)
        rc = find_vectors(pl, local, number, &r, err);
    free(number);
    if (rc != 0) {
        diarize_free(&r);
        return rc;
    }
    r.turn_count = t->count;
    r.turns = t->list;
    *t = (struct turns){0};
    *ret = r;
    return 0;
}

int pipeline_finish(const struct pipeline *pl, const int32_t *local, struct diarize_result *ret,
                    struct err *err)
{
    size_t locals = (size_t)pl->in->windows * pl->in->speakers;
    uint32_t clusters = pl->apart ? pl->in->speakers : pl->count_most;
    struct turns turns = {0};
    int rc;

    for (size_t i = 0; i < locals; i++)
        if (local[i] >= 0 && (uint32_t)local[i] >= clusters)
            clusters = (uint32_t)local[i] + 1;
    rc = turns_find(pl->in, &pl->grid, local, pl->count, clusters, (double)pl->p->min_duration_off,
                    &turns, err);
    if (rc == 0)
        rc = make_diarize_result(pl, local, &turns, clusters, ret, err);
    turns_free(&turns);
    return rc;
}

/* ---- all of it */

static int find_clusters(const struct pipeline *pl, const struct plda *plda, struct clusters *ret,
                         struct err *err)
{
    uint32_t n = pl->clean_count, size = pl->in->size;
    double *features;
    int rc;

    if (pl->p->clustering == DIARIZE_AHC)
        return cluster_ahc(pl->vectors, n, size, pl->p, ret, err);
    if (!plda || plda_size(plda) != size)
        return err_set(err, ERR_MODEL, "the PLDA compares voices of %u values, these have %u",
                       plda ? plda_size(plda) : 0, size);
    features = malloc(((size_t)n * plda_dim(plda) + 1) * sizeof(*features));
    if (!features)
        return err_set(err, ERR_NOMEM, "no memory for %u voices", n);
    rc = plda_apply(plda, pl->vectors, n, pl->p->threads ? pl->p->threads : threads_available(),
                    features, err);
    if (rc == 0)
        rc = cluster_vbx(pl->vectors, n, size, features, plda_dim(plda), plda_phi(plda), pl->p, ret,
                         err);
    free(features);
    return rc;
}

static int tell_speakers(const struct pipeline *pl, const struct plda *plda,
                         struct diarize_result *ret, struct err *err)
{
    struct clusters clusters = {0};
    int32_t *local = malloc((size_t)pl->in->windows * pl->in->speakers * sizeof(*local));
    int rc = local ? find_clusters(pl, plda, &clusters, err)
                   : err_set(err, ERR_NOMEM, "no memory for %u windows", pl->in->windows);

    if (rc == 0)
        rc = pipeline_assign(pl, &clusters, local, err);
    if (rc == 0)
        rc = pipeline_finish(pl, local, ret, err);
    clusters_free(&clusters);
    free(local);
    return rc;
}

int diarize_recording(const struct diarize_input *in, const struct diarize_params *p,
                      const struct plda *plda, struct diarize_result *ret, struct err *err)
{
    struct pipeline pl = {0};
    struct diarize_result result = {0};
    int rc = pipeline_prepare(in, p, &pl, err);

    if (rc == 0 && pl.count_most > 0)
        rc = tell_speakers(&pl, plda, &result, err);
    pipeline_free(&pl);
    if (rc == 0)
        *ret = result;
    return rc;
}

int diarize_apart(const struct diarize_input *in, const struct diarize_params *p,
                  struct diarize_result *ret, struct err *err)
{
    struct pipeline pl = {0};
    int32_t *local = NULL;
    int rc = pipeline_prepare(in, p, &pl, err);

    pl.apart = true;
    if (rc == 0) {
        local = malloc(((size_t)in->windows * in->speakers + 1) * sizeof(*local));
        rc = local ? 0 : err_set(err, ERR_NOMEM, "no memory for %u windows", in->windows);
    }
    for (uint32_t w = 0; rc == 0 && w < in->windows; w++)
        for (uint32_t s = 0; s < in->speakers; s++)
            local[(size_t)w * in->speakers + s] = pl.speaks[w] >> s & 1 ? (int32_t)s : ASSIGN_NONE;
    if (rc == 0)
        rc = pipeline_finish(&pl, local, ret, err);
    free(local);
    pipeline_free(&pl);
    return rc;
}

void diarize_params_default(enum diarize_clustering c, struct diarize_params *ret)
{
    static const struct diarize_params published[] = {
        [DIARIZE_AHC] = DIARIZE_AHC_PARAMS,
        [DIARIZE_VBX] = DIARIZE_VBX_PARAMS,
    };

    *ret = published[c];
}

void diarize_free(struct diarize_result *r)
{
    free(r->turns);
    free(r->vectors);
    free(r->speech_s);
    *r = (struct diarize_result){0};
}
