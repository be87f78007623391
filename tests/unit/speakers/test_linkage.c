/* Centroid linkage against a plain version with the matrix of all distances: the same merges, to
 * the last bit and with equally distant pairs in the order that linkage.h says, whatever the
 * instructions and the number of threads. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/unit/speakers/made.h"
#include "workers/speakers/linkage.h"

static const char *const sets[] = {"avx512", "avx2", "plain"}; /* the best of them that is here */

/* ---- the plain version */

struct plain {
    uint32_t n, size, made;
    double *mean;     /* [2n][size] */
    double *distance; /* [2n][2n] */
    uint32_t *count;  /* [2n]: vectors in it */
    uint32_t *alive;  /* [left], ascending */
    uint32_t left;
};

static void measure(struct plain *p, uint32_t a, uint32_t b)
{
    double sum = 0;

    for (uint32_t k = 0; k < p->size; k++) {
        double apart = p->mean[(size_t)b * p->size + k] - p->mean[(size_t)a * p->size + k];

        sum += apart * apart;
    }
    p->distance[(size_t)a * 2 * p->n + b] = p->distance[(size_t)b * 2 * p->n + a] = sqrt(sum);
}

static struct plain plain_of(const float *x, uint32_t n, uint32_t size)
{
    struct plain p = {.n = n, .size = size, .made = n, .left = n};

    p.mean = malloc(2 * (size_t)n * size * sizeof(*p.mean));
    p.distance = malloc(4 * (size_t)n * n * sizeof(*p.distance));
    p.count = malloc(2 * n * sizeof(*p.count));
    p.alive = malloc(n * sizeof(*p.alive));
    for (size_t i = 0; i < (size_t)n * size; i++)
        p.mean[i] = (double)x[i];
    for (uint32_t a = 0; a < n; a++) {
        p.count[a] = 1;
        p.alive[a] = a;
        for (uint32_t b = 0; b < a; b++)
            measure(&p, a, b);
    }
    return p;
}

static void plain_free(struct plain *p)
{
    free(p->mean);
    free(p->distance);
    free(p->count);
    free(p->alive);
}

/* The nearest pair; of equals the one whose answering cluster is lower, then whose other one is. */
static struct merge nearest_pair(const struct plain *p)
{
    struct merge best = {.distance = INFINITY};
    uint32_t answers = UINT32_MAX, other = UINT32_MAX;

    for (uint32_t i = 1; i < p->left; i++)
        for (uint32_t k = 0; k < i; k++) {
            uint32_t a = p->alive[k], b = p->alive[i];
            double d = p->distance[(size_t)a * 2 * p->n + b];
            uint32_t who = b < p->n ? a : b, whom = b < p->n ? b : a;

            if (d > best.distance ||
                (d == best.distance && (who > answers || (who == answers && whom > other))))
                continue;
            best = (struct merge){a, b, p->count[a] + p->count[b], d};
            answers = who;
            other = whom;
        }
    return best;
}

static void join(struct plain *p, const struct merge *m)
{
    double share = (double)p->count[m->a] / (double)m->size;
    const double *x = p->mean + (size_t)m->a * p->size, *y = p->mean + (size_t)m->b * p->size;
    uint32_t c = p->made++, left = 0;

    for (uint32_t k = 0; k < p->size; k++) {
        p->mean[(size_t)c * p->size + k] = share * x[k];
        p->mean[(size_t)c * p->size + k] += (1.0 - share) * y[k];
    }
    p->count[c] = m->size;
    for (uint32_t i = 0; i < p->left; i++) {
        uint32_t id = p->alive[i];

        if (id == m->a || id == m->b)
            continue;
        measure(p, id, c);
        p->alive[left++] = id;
    }
    p->alive[left++] = c;
    p->left = left;
}

static struct merge *link_plainly(const float *x, uint32_t n, uint32_t size)
{
    struct plain p = plain_of(x, n, size);
    struct merge *ret = malloc(n * sizeof(*ret));

    for (uint32_t i = 0; i + 1 < n; i++) {
        ret[i] = nearest_pair(&p);
        join(&p, &ret[i]);
    }
    plain_free(&p);
    return ret;
}

/* ---- comparing */

static void same(const struct merge *ours, const struct merge *theirs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ours[i].a != theirs[i].a || ours[i].b != theirs[i].b ||
            ours[i].size != theirs[i].size || ours[i].distance != theirs[i].distance)
            fail_msg("merge %u is %u and %u at %.17g, not %u and %u at %.17g", i, ours[i].a,
                     ours[i].b, ours[i].distance, theirs[i].a, theirs[i].b, theirs[i].distance);
}

/* All of the tree, and stopped after two thirds of it: the same merges, up to the first
 * that is farther. */
static void compare(const float *x, uint32_t n, uint32_t size, uint32_t threads,
                    const struct merge *want)
{
    struct merge *merges = malloc(n * sizeof(*merges));
    uint32_t count;
    struct err e = {0};

    for (uint32_t third = 2; third <= 3; third++) {
        double stop = third < 3 ? want[(n - 2) * third / 3].distance : INFINITY;
        uint32_t until = 0;

        while (until < n - 1 && want[until].distance <= stop)
            until++;
        assert_ok(linkage_centroid(x, n, size, stop, threads, merges, &count, &e), e);
        assert_int_equal(count, until);
        same(merges, want, count);
    }
    free(merges);
}

static void everywhere(const float *x, uint32_t n, uint32_t size)
{
    static const uint32_t threads[] = {1, 2, 5};
    struct merge *want = link_plainly(x, n, size);

    for (uint32_t i = 0; i < 3; i++) {
        setenv("NIGHTSHIFT_CPU", sets[i], 1);
        compare(x, n, size, threads[i], want);
    }
    unsetenv("NIGHTSHIFT_CPU");
    compare(x, n, size, 3, want);
    free(want);
}

/* ---- what is linked */

TEST(anything)
{
    static const uint32_t shapes[][2] = {{2, 1}, {90, 5}, {511, 64}, {560, 64}, {600, 100}};

    for (uint32_t s = 0; s < 5; s++) {
        uint32_t n = shapes[s][0], size = shapes[s][1];
        float *x = malloc((size_t)n * size * sizeof(*x));

        for (size_t i = 0; i < (size_t)n * size; i++)
            x[i] = (float)made_noise(40 + s, i);
        everywhere(x, n, size);
        free(x);
    }
}

/* Voices that change slowly, as windows that overlap hear them. */
TEST(voices)
{
    enum { N = 640, SIZE = 96, SPEAKERS = 5 };
    float *x = malloc(N * SIZE * sizeof(*x)), noise[SPEAKERS][SIZE] = {{0}};

    for (uint32_t i = 0; i < N; i++) {
        uint32_t who = (i / 7) % SPEAKERS;

        for (uint32_t k = 0; k < SIZE; k++) {
            noise[who][k] = 0.8f * noise[who][k] + 0.5f * (float)made_noise(51, i * SIZE + k);
            x[i * SIZE + k] = (float)made_noise(60 + who, k) + noise[who][k];
        }
    }
    everywhere(x, N, SIZE);
    free(x);
}

/* Points of a lattice: nearly every distance is there often, also after merges. */
TEST(equal_distances)
{
    enum { N = 560, SIZE = 64 };
    float *x = calloc(N * SIZE, sizeof(*x));

    for (uint32_t set = 0; set < 2; set++) {
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t k = 0; k < 4; k++)
                x[i * SIZE + k * 16] = (float)floor(made_noise(70 + set, i * 4 + k) * 10);
        everywhere(x, N, SIZE);
    }
    free(x);
}

/* Each of 200 is there three times, in any order. */
TEST(the_same_again)
{
    enum { N = 600, SIZE = 80 };
    float *x = malloc(N * SIZE * sizeof(*x));

    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < SIZE; k++)
            x[i * SIZE + k] = (float)made_noise(80, (uint64_t)(i * 7 % 200) * SIZE + k);
    everywhere(x, N, SIZE);
    free(x);
}

/* Far from the origin, where float32 has few digits left for what is between them. */
TEST(far_away)
{
    enum { N = 540, SIZE = 64 };
    float *x = malloc(N * SIZE * sizeof(*x));

    for (uint32_t i = 0; i < N * SIZE; i++)
        x[i] = 1000.0f + (float)made_noise(90, i);
    everywhere(x, N, SIZE);
    free(x);
}

/* A few that are very far from all others, which the bounds' slack grows with. */
TEST(outliers)
{
    enum { N = 540, SIZE = 64 };
    float *x = malloc(N * SIZE * sizeof(*x));

    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < SIZE; k++)
            x[i * SIZE + k] = (i % 100 == 7 ? 30.0f : 1.0f) * (float)made_noise(91, i * SIZE + k);
    everywhere(x, N, SIZE);
    free(x);
}

TEST_MAIN(NULL, NULL)
