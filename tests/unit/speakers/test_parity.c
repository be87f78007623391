/* Centroid linkage against scipy's, k-means against scikit-learn's, and both ways of clustering
 * against pyannote.audio's, over what make_fixtures.py wrote. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/unit/speakers/made.h"
#include "workers/speakers/cluster.h"
#include "workers/speakers/diarize.h"
#include "workers/speakers/kmeans.h"
#include "workers/speakers/linkage.h"
#include "workers/speakers/vbx.h"

#define LINE 65536

static char line[LINE];

static FILE *fixture(const char *name)
{
    char rel[128];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/unit/speakers/%s", name);
    f = fopen(test_source_path(rel), "re");
    assert_non_null(f);
    return f;
}

static void same_distances(const char *at, const struct merge *merges, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char *end;
        double want = strtod(at, &end);

        assert_ptr_not_equal(at, end);
        assert_true(fabs(merges[i].distance - want) < 1e-7);
        at = end;
    }
}

/* What stopping at the threshold leaves is what cutting the whole tree there leaves. */
static void same_cut(const char *at, const float *x, uint32_t n, uint32_t size)
{
    struct merge *merges = malloc(n * sizeof(*merges));
    uint32_t *parent = malloc(2 * n * sizeof(*parent)), *labels = malloc(n * sizeof(*labels));
    uint32_t count;
    char *end;
    double threshold = strtod(at, &end);
    struct err e = {0};

    assert_ok(linkage_centroid(x, n, size, threshold, 2, merges, &count, &e), e);
    linkage_labels(merges, count, n, parent, labels);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(labels[i], strtoul(end, &end, 10));
    free(merges);
    free(parent);
    free(labels);
}

TEST(linkage_as_scipy)
{
    FILE *f = fixture("linkage.txt");
    unsigned n = 0, size = 0, speakers, seed, cases = 0;
    double spread;
    float *x = NULL;
    struct merge *merges = NULL;

    while (fgets(line, sizeof(line), f)) {
        uint32_t count;
        struct err e = {0};

        if (sscanf(line, "case %u %u %u %lf %u", &n, &size, &speakers, &spread, &seed) == 5) {
            x = realloc(x, (size_t)n * size * sizeof(*x));
            merges = realloc(merges, n * sizeof(*merges));
            for (uint32_t i = 0; i < n; i++)
                made_voice(i % speakers, size, spread, seed, i, x + (size_t)i * size);
        } else if (line[0] == 'd') {
            assert_ok(linkage_centroid(x, n, size, INFINITY, 2, merges, &count, &e), e);
            assert_int_equal(count, n - 1);
            same_distances(line + 2, merges, count);
            cases++;
        } else {
            same_cut(line + 2, x, n, size);
        }
    }
    assert_int_equal(cases, 4);
    free(x);
    free(merges);
    fclose(f);
}

/* numpy.random.RandomState(42).random_sample(3), and the thousandth. */
TEST(draws_as_numpy)
{
    static const double first[] = {0.3745401188473625, 0.9507143064099162, 0.7319939418114051};
    struct draws d;
    double last = 0;

    draws_seed(&d, 42);
    for (int i = 0; i < 1000; i++) {
        last = draws_next(&d);
        if (i < 3)
            assert_true(last == first[i]);
    }
    assert_true(last == 0.44600577295795574);
}

/* The same clusters but for their numbers. */
static void same_means(const char *at, const uint32_t *ours, uint32_t n)
{
    uint32_t to[64], from[64];
    char *end;

    memset(to, 0xff, sizeof(to));
    memset(from, 0xff, sizeof(from));
    for (uint32_t i = 0; i < n; i++, at = end) {
        uint32_t theirs = (uint32_t)strtoul(at, &end, 10);

        assert_true(theirs < 64 && ours[i] < 64);
        if (to[ours[i]] == UINT32_MAX && from[theirs] == UINT32_MAX) {
            to[ours[i]] = theirs;
            from[theirs] = ours[i];
        }
        assert_int_equal(to[ours[i]], theirs);
        assert_int_equal(from[theirs], ours[i]);
    }
}

TEST(kmeans_as_scikit_learn)
{
    FILE *f = fixture("kmeans.txt");
    unsigned n = 0, size, speakers, seed, wanted, cases = 0;
    double spread;
    uint32_t *labels = NULL;

    while (fgets(line, sizeof(line), f)) {
        float *x;
        struct err e = {0};

        if (line[0] == 'k') {
            same_means(line + 2, labels, n);
            cases++;
            continue;
        }
        assert_int_equal(
            sscanf(line, "case %u %u %u %lf %u %u", &n, &size, &speakers, &spread, &seed, &wanted),
            6);
        x = malloc((size_t)n * size * sizeof(*x));
        labels = realloc(labels, n * sizeof(*labels));
        for (uint32_t i = 0; i < n; i++)
            made_voice(i % speakers, size, spread, seed, i, x + (size_t)i * size);
        assert_ok(kmeans(x, n, size, wanted, 2, labels, &e), e);
        free(x);
    }
    assert_int_equal(cases, 14);
    free(labels);
    fclose(f);
}

/* As make_fixtures.py's Plda. */
static struct plda *plda_of(uint32_t size, uint32_t lda)
{
    double *all =
        calloc(size + 4 * (size_t)lda + (size_t)size * lda + (size_t)lda * lda, sizeof(*all));
    double *mean1 = all, *mean2 = mean1 + size, *mu = mean2 + lda, *psi = mu + lda;
    double *matrix = psi + lda, *tr = matrix + (size_t)size * lda;
    struct plda_arrays a = {size, lda, mean1, mean2, matrix, mu, tr, psi};
    struct plda *p = NULL;
    struct err e = {0};

    for (uint32_t i = 0; i < size; i++)
        mean1[i] = 0.1 * made_noise(2000, i);
    for (uint32_t i = 0; i < lda; i++) {
        mean2[i] = 0.1 * made_noise(2001, i);
        mu[i] = 0.1 * made_noise(2003, i);
        psi[i] = 2.0 + 3.0 * made_noise(2005, i);
    }
    for (uint32_t i = 0; i < size * lda; i++)
        matrix[i] = made_noise(2002, i);
    for (uint32_t i = 0; i < lda * lda; i++)
        tr[i] = (i % (lda + 1) == 0) + 0.3 * made_noise(2004, i);
    assert_ok(plda_new(&a, 0, &p, &e), e);
    free(all);
    return p;
}

static void find_clusters(const struct pipeline *pl, struct clusters *ret)
{
    struct err e = {0};

    if (pl->p->clustering == DIARIZE_AHC) {
        assert_ok(cluster_ahc(pl->vectors, pl->clean_count, pl->in->size, pl->p, ret, &e), e);
    } else {
        struct plda *plda = plda_of(pl->in->size, 10);
        double *features = malloc(pl->clean_count * 10 * sizeof(*features));

        assert_ok(plda_apply(plda, pl->vectors, pl->clean_count, 2, features, &e), e);
        assert_ok(cluster_vbx(pl->vectors, pl->clean_count, pl->in->size, features, 10,
                              plda_phi(plda), pl->p, ret, &e),
                  e);
        free(features);
        plda_free(plda);
    }
}

/* Those who are heard and have a vector: the same clusters but for their numbers. */
static void same_clusters(const struct pipeline *pl, const int32_t *ours, const int32_t *theirs)
{
    int32_t to[1000];

    memset(to, 0xff, sizeof(to));
    for (uint32_t i = 0; i < pl->in->windows * 3; i++) {
        if (!(pl->speaks[i / 3] & 1u << i % 3) || isnan(pl->in->vectors[(size_t)i * pl->in->size]))
            continue;
        assert_int_equal(ours[i] < 0, theirs[i] < 0);
        if (ours[i] < 0)
            continue;
        if (to[ours[i]] < 0)
            to[ours[i]] = theirs[i];
        assert_int_equal(to[ours[i]], theirs[i]);
    }
}

static void compare(const struct made *m, const struct diarize_params *p, unsigned clusters,
                    const char *at)
{
    uint32_t locals = m->in.windows * 3;
    int32_t *ours = malloc(locals * sizeof(*ours)), *theirs = malloc(locals * sizeof(*theirs));
    struct pipeline pl = {0};
    struct clusters c = {0};
    struct err e = {0};
    char *end;

    for (uint32_t i = 0; i < locals; i++, at = end)
        theirs[i] = (int32_t)strtol(at, &end, 10);
    assert_ok(pipeline_prepare(&m->in, p, &pl, &e), e);
    find_clusters(&pl, &c);
    assert_int_equal(c.count, clusters);
    assert_ok(pipeline_assign(&pl, &c, ours, &e), e);
    same_clusters(&pl, ours, theirs);
    clusters_free(&c);
    pipeline_free(&pl);
    free(ours);
    free(theirs);
}

TEST(clusters_as_pyannote)
{
    FILE *f = fixture("clusters.txt");
    unsigned windows, frames, size, speakers, seed, compared = 0;
    double spread, threshold = 0;
    struct made m = {0};

    while (fgets(line, sizeof(line), f)) {
        unsigned number, low, high, clusters;
        struct diarize_params p;
        char kind[4];
        int at;

        if (sscanf(line, "case %u %u %u %u %lf %u %lf", &windows, &frames, &size, &speakers,
                   &spread, &seed, &threshold) == 7) {
            made_free(&m);
            m = made_recording(windows, frames, size, speakers, spread, seed);
            continue;
        }
        assert_int_equal(
            sscanf(line, "%3s %u %u %u %u%n", kind, &number, &low, &high, &clusters, &at), 5);
        diarize_params_default(strcmp(kind, "ahc") == 0 ? DIARIZE_AHC : DIARIZE_VBX, &p);
        p.threshold = (float)threshold;
        p.num_speakers = number;
        p.min_speakers = low;
        p.max_speakers = high;
        compare(&m, &p, clusters, line + at);
        compared++;
    }
    assert_true(compared >= 46);
    made_free(&m);
    fclose(f);
}

TEST_MAIN(NULL, NULL)
