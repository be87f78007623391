#include "workers/speakers/kmeans.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"

/* ---- numpy's draws */

#define MIDDLE 397u

void draws_seed(struct draws *d, uint32_t seed)
{
    d->words[0] = seed;
    for (uint32_t i = 1; i < DRAWS_WORDS; i++)
        d->words[i] = 1812433253u * (d->words[i - 1] ^ d->words[i - 1] >> 30) + i;
    d->next = DRAWS_WORDS;
}

static void twist(struct draws *d)
{
    for (uint32_t i = 0; i < DRAWS_WORDS; i++) {
        uint32_t y = (d->words[i] & 0x80000000u) | (d->words[(i + 1) % DRAWS_WORDS] & 0x7fffffffu);

        d->words[i] = d->words[(i + MIDDLE) % DRAWS_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    d->next = 0;
}

static uint32_t draw_random_word(struct draws *d)
{
    uint32_t y;

    if (d->next == DRAWS_WORDS)
        twist(d);
    y = d->words[d->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double draws_next(struct draws *d)
{
    uint32_t high = draw_random_word(d) >> 5, low = draw_random_word(d) >> 6;

    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* ---- k-means */

#define SEED 42
#define STARTS 3
#define ROUNDS 300
#define ROUNDS_LEAST 10
#define DIFFERENCES_MOST \
    3e11           /* of values, of a start: fewer rounds for a day of a thousand people */
#define PART 1024u /* vectors that a thread takes at once */
#define STILL 1e-4 /* of the values' mean variance: means that move less have settled */

struct means {
    const float *vectors;
    uint32_t n, size, clusters, threads;
    double still;      /* sum of squares that means may move by and have settled */
    double *centers;   /* [clusters][size] */
    double *moved;     /* [clusters][size]: where they go */
    double *distances; /* [n]: squared, to the nearest */
    double *tried;     /* [n]: the same with one more center, */
    double *best;      /* [n]: and with the best of those */
    uint32_t *counts;  /* [clusters] */
    uint32_t *labels;  /* [n] */
    uint32_t *before;  /* [n]: of the round before */
    uint32_t newest;   /* the vector that is tried as a center */
};

static const float *vector_at(const struct means *m, uint32_t i)
{
    return m->vectors + (size_t)i * m->size;
}

static double squared_center_distance(const struct means *m, uint32_t i, uint32_t k)
{
    const float *x = vector_at(m, i);
    const double *c = m->centers + (size_t)k * m->size;
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (uint32_t d = 0; d < m->size; d++)
        sum += ((double)x[d] - c[d]) * ((double)x[d] - c[d]);
    return sum;
}

static double sum_of(const double *values, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static uint32_t parts_of(const struct means *m) { return (m->n + PART - 1) / PART; }

static uint32_t end_of(const struct means *m, uint32_t part)
{
    return m->n - part * PART < PART ? m->n : (part + 1) * PART;
}

/* ---- starts */

static void measure_trial_distances(void *arg, uint32_t part)
{
    struct means *m = arg;
    const float *c = vector_at(m, m->newest);

    for (uint32_t i = part * PART; i < end_of(m, part); i++) {
        const float *x = vector_at(m, i);
        double sum = 0.0;

#pragma omp simd reduction(+ : sum)
        for (uint32_t d = 0; d < m->size; d++)
            sum += ((double)x[d] - (double)c[d]) * ((double)x[d] - (double)c[d]);
        m->tried[i] = fmin(m->distances[i], sum);
    }
}

static double try_center(struct means *m, uint32_t i)
{
    m->newest = i;
    threads_run(m->threads, parts_of(m), measure_trial_distances, m);
    return sum_of(m->tried, m->n);
}

static void swap_arrays(double **a, double **b)
{
    double *was = *a;

    *a = *b;
    *b = was;
}

static void set_center(struct means *m, uint32_t k, uint32_t i)
{
    for (uint32_t d = 0; d < m->size; d++)
        m->centers[(size_t)k * m->size + d] = (double)vector_at(m, i)[d];
}

/* The first vector up to which the squared distances add up to `at`. */
static uint32_t pick_weighted_vector(const struct means *m, double at)
{
    double sum = 0.0;

    for (uint32_t i = 0; i + 1 < m->n; i++) {
        sum += m->distances[i];
        if (sum >= at)
            return i;
    }
    return m->n - 1;
}

/* Draws some vectors, with odds by squared distance, and adds the one that leaves the smallest sum.
 * sum: of the distances, before and after. */
static void add_center(struct means *m, uint32_t k, struct draws *draws, double *sum)
{
    int trials = 2 + (int)log(m->clusters);
    double least = INFINITY, all = *sum;
    uint32_t best = 0;

    for (int i = 0; i < trials; i++) {
        uint32_t one = pick_weighted_vector(m, draws_next(draws) * all);
        double left = try_center(m, one);

        if (left < least) {
            least = left;
            best = one;
            swap_arrays(&m->best, &m->tried);
        }
    }
    swap_arrays(&m->distances, &m->best);
    *sum = least;
    set_center(m, k, best);
}

static void choose_initial_centers(struct means *m, struct draws *draws)
{
    uint32_t first = (uint32_t)(draws_next(draws) * m->n);
    double sum;

    for (uint32_t i = 0; i < m->n; i++)
        m->distances[i] = INFINITY;
    sum = try_center(m, first);
    swap_arrays(&m->distances, &m->tried);
    set_center(m, 0, first);
    for (uint32_t k = 1; k < m->clusters; k++)
        add_center(m, k, draws, &sum);
}

/* ---- rounds */

static void label_part(void *arg, uint32_t part)
{
    struct means *m = arg;

    for (uint32_t i = part * PART; i < end_of(m, part); i++) {
        m->distances[i] = INFINITY;
        for (uint32_t k = 0; k < m->clusters; k++) {
            double d = squared_center_distance(m, i, k);

            if (d < m->distances[i]) {
                m->distances[i] = d;
                m->labels[i] = k;
            }
        }
    }
}

static void label_all(struct means *m) { threads_run(m->threads, parts_of(m), label_part, m); }

static void count_cluster_members(struct means *m)
{
    memset(m->counts, 0, m->clusters * sizeof(*m->counts));
    for (uint32_t i = 0; i < m->n; i++)
        m->counts[m->labels[i]]++;
}

/* The vector that is farthest from its own center, of a cluster that has more than one; n: none. */
static uint32_t find_farthest_vector(const struct means *m)
{
    uint32_t far = m->n;

    for (uint32_t i = 0; i < m->n; i++)
        if (m->counts[m->labels[i]] > 1 && m->distances[i] > 0.0 &&
            (far == m->n || m->distances[i] > m->distances[far]))
            far = i;
    return far;
}

/* One that has nothing takes that vector, which is nearest to it then. */
static void fill_empty(struct means *m)
{
    for (uint32_t k = 0, far; k < m->clusters; k++) {
        if (m->counts[k] > 0 || (far = find_farthest_vector(m)) == m->n)
            continue;
        m->counts[m->labels[far]]--;
        m->labels[far] = k;
        m->counts[k] = 1;
        m->distances[far] = 0.0;
    }
}

/* Returns the sum of the squares that the centers have moved by. */
static double move_centers(struct means *m)
{
    double sum = 0.0;

    count_cluster_members(m);
    fill_empty(m);
    memset(m->moved, 0, (size_t)m->clusters * m->size * sizeof(*m->moved));
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t d = 0; d < m->size; d++)
            m->moved[(size_t)m->labels[i] * m->size + d] += (double)vector_at(m, i)[d];
    for (uint32_t k = 0; k < m->clusters; k++)
        for (uint32_t d = 0; d < m->size; d++) {
            size_t at = (size_t)k * m->size + d;

            /* More are wanted than there are different vectors: it stays where it is. */
            m->moved[at] = m->counts[k] ? m->moved[at] / m->counts[k] : m->centers[at];
            sum += (m->moved[at] - m->centers[at]) * (m->moved[at] - m->centers[at]);
        }
    swap_arrays(&m->centers, &m->moved);
    return sum;
}

/* Returns the sum of the squared distances. */
static double iterate_until_stable(struct means *m)
{
    double each = (double)m->n * m->clusters * m->size;
    int most = (int)fmax(ROUNDS_LEAST, fmin(ROUNDS, DIFFERENCES_MOST / each));
    size_t bytes = m->n * sizeof(*m->labels);

    label_all(m);
    for (int round = 0; round < most; round++) {
        double shift;

        memcpy(m->before, m->labels, bytes);
        shift = move_centers(m);
        label_all(m);
        if (shift <= m->still || memcmp(m->before, m->labels, bytes) == 0)
            break;
    }
    return sum_of(m->distances, m->n);
}

/* A cluster without a vector would be a speaker without a voice. If every vector lies on its
 * center, a member of a larger cluster goes there. */
static void share_out(struct means *m)
{
    count_cluster_members(m);
    fill_empty(m);
    for (uint32_t k = 0; k < m->clusters; k++)
        for (uint32_t i = m->n; m->counts[k] == 0 && i-- > 0;)
            if (m->counts[m->labels[i]] > 1) {
                m->counts[m->labels[i]]--;
                m->labels[i] = k;
                m->counts[k] = 1;
            }
}

/* Mean variance of the values. */
static double variance(const struct means *m)
{
    double sum = 0.0;

    for (uint32_t d = 0; d < m->size; d++) {
        double mean = 0.0;

        for (uint32_t i = 0; i < m->n; i++)
            mean += (double)vector_at(m, i)[d];
        mean /= m->n;
        for (uint32_t i = 0; i < m->n; i++)
            sum += ((double)vector_at(m, i)[d] - mean) * ((double)vector_at(m, i)[d] - mean);
    }
    return sum / m->n / m->size;
}

int kmeans(const float *vectors, uint32_t n, uint32_t size, uint32_t clusters, uint32_t threads,
           uint32_t *labels, struct err *err)
{
    struct means m = {
        .vectors = vectors, .n = n, .size = size, .clusters = clusters, .threads = threads};
    size_t values = (size_t)clusters * size;
    double *scratch, least = INFINITY;
    struct draws draws;

    if (clusters == 0 || clusters > n || size == 0)
        return err_set(err, ERR_INPUT, "%u clusters of %u vectors cannot be made", clusters, n);
    scratch = malloc((2 * values + 3 * (size_t)n) * sizeof(double));
    m.counts = calloc(clusters + 2 * (size_t)n, sizeof(uint32_t));
    if (!scratch || !m.counts) {
        free(scratch);
        free(m.counts);
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", clusters);
    }
    m.centers = scratch;
    m.moved = scratch + values;
    m.distances = scratch + 2 * values;
    m.tried = m.distances + n;
    m.best = m.tried + n;
    m.labels = m.counts + clusters;
    m.before = m.labels + n;
    m.still = STILL * variance(&m);
    draws_seed(&draws, SEED);
    for (int i = 0; i < STARTS; i++) {
        double sum;

        choose_initial_centers(&m, &draws);
        sum = iterate_until_stable(&m);
        if (i > 0 && sum >= least)
            continue;
        least = sum;
        share_out(&m);
        memcpy(labels, m.labels, n * sizeof(*labels));
    }
    free(scratch);
    free(m.counts);
    return 0;
}
