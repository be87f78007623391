#include "workers/speakers/cluster/kmeans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/cluster/threads.h"

#define STARTS 3
#define ROUNDS 300
#define ROUNDS_LEAST 10
#define DIFFERENCES_MOST \
    3e11                /* of values, of a start: fewer rounds for a day of a thousand people */
#define PART 1024u      /* vectors that a thread takes at once */
#define GAIN_LEAST 1e-7 /* of the sum of squares */

struct means {
    const float *vectors;
    uint32_t n, size, clusters, threads;
    double *centers;   /* [clusters][size] */
    double *distances; /* [n]: squared, to the nearest */
    uint32_t *counts;  /* [clusters] */
    uint32_t *labels;  /* [n] */
    uint32_t newest;   /* of the centers, in start */
};

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static double apart(const struct means *m, uint32_t i, uint32_t k)
{
    const float *x = m->vectors + (size_t)i * m->size;
    const double *c = m->centers + (size_t)k * m->size;
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (uint32_t d = 0; d < m->size; d++)
        sum += ((double)x[d] - c[d]) * ((double)x[d] - c[d]);
    return sum;
}

static void set_center(struct means *m, uint32_t k, uint32_t i)
{
    for (uint32_t d = 0; d < m->size; d++)
        m->centers[(size_t)k * m->size + d] = (double)m->vectors[(size_t)i * m->size + d];
}

/* A vector drawn with odds as its squared distance; where all are 0, the first. */
static uint32_t draw_far(const struct means *m, uint64_t *state)
{
    double all = 0.0, at;

    for (uint32_t i = 0; i < m->n; i++)
        all += m->distances[i];
    at = draw(state) * all;
    for (uint32_t i = 0; i < m->n; i++) {
        at -= m->distances[i];
        if (at < 0.0)
            return i;
    }
    return 0;
}

static uint32_t parts_of(const struct means *m) { return (m->n + PART - 1) / PART; }

static uint32_t end_of(const struct means *m, uint32_t part)
{
    return m->n - part * PART < PART ? m->n : (part + 1) * PART;
}

/* The newest center's distances. */
static void approach(void *arg, uint32_t part)
{
    struct means *m = arg;

    for (uint32_t i = part * PART; i < end_of(m, part); i++)
        m->distances[i] = fmin(m->distances[i], apart(m, i, m->newest));
}

static void start(struct means *m, uint64_t *state)
{
    set_center(m, 0, (uint32_t)(draw(state) * m->n));
    for (uint32_t i = 0; i < m->n; i++)
        m->distances[i] = INFINITY;
    for (uint32_t k = 1; k <= m->clusters; k++) {
        m->newest = k - 1;
        threads_run(m->threads, parts_of(m), approach, m);
        if (k < m->clusters)
            set_center(m, k, draw_far(m, state));
    }
}

static void label(void *arg, uint32_t part)
{
    struct means *m = arg;

    for (uint32_t i = part * PART; i < end_of(m, part); i++) {
        m->distances[i] = INFINITY;
        for (uint32_t k = 0; k < m->clusters; k++) {
            double d = apart(m, i, k);

            if (d < m->distances[i]) {
                m->distances[i] = d;
                m->labels[i] = k;
            }
        }
    }
}

static double label_all(struct means *m)
{
    double sum = 0.0;

    threads_run(m->threads, parts_of(m), label, m);
    for (uint32_t i = 0; i < m->n; i++)
        sum += m->distances[i];
    return sum;
}

/* One that has nothing takes the vector that is farthest from its own center, of a cluster that has
 * more than one. */
static void fill_empty(struct means *m)
{
    for (uint32_t k = 0; k < m->clusters; k++) {
        uint32_t far = m->n;

        for (uint32_t i = 0; m->counts[k] == 0 && i < m->n; i++)
            if (m->counts[m->labels[i]] > 1 && (far == m->n || m->distances[i] > m->distances[far]))
                far = i;
        if (m->counts[k] > 0 || far == m->n)
            continue;
        m->counts[m->labels[far]]--;
        m->labels[far] = k;
        m->counts[k] = 1;
        m->distances[far] = 0.0;
    }
}

static void move_centers(struct means *m)
{
    memset(m->counts, 0, m->clusters * sizeof(*m->counts));
    for (uint32_t i = 0; i < m->n; i++)
        m->counts[m->labels[i]]++;
    fill_empty(m);
    memset(m->centers, 0, (size_t)m->clusters * m->size * sizeof(*m->centers));
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t d = 0; d < m->size; d++)
            m->centers[(size_t)m->labels[i] * m->size + d] +=
                (double)m->vectors[(size_t)i * m->size + d];
    for (uint32_t k = 0; k < m->clusters; k++)
        for (uint32_t d = 0; d < m->size; d++)
            m->centers[(size_t)k * m->size + d] /= m->counts[k];
}

static double settle(struct means *m)
{
    double each = (double)m->n * m->clusters * m->size, before = INFINITY, sum = label_all(m);
    int most = (int)fmax(ROUNDS_LEAST, fmin(ROUNDS, DIFFERENCES_MOST / each));

    for (int round = 0; round < most && before - sum > GAIN_LEAST * sum; round++) {
        before = sum;
        move_centers(m);
        sum = label_all(m);
    }
    move_centers(m); /* for those that are empty */
    return sum;
}

int kmeans(const float *vectors, uint32_t n, uint32_t size, uint32_t clusters, uint32_t threads,
           uint32_t *labels, struct err *err)
{
    struct means m = {
        .vectors = vectors, .n = n, .size = size, .clusters = clusters, .threads = threads};
    uint64_t state = 42;
    double best = INFINITY;

    if (clusters == 0 || clusters > n || size == 0)
        return err_set(err, ERR_INPUT, "%u clusters of %u vectors cannot be made", clusters, n);
    m.centers = malloc(((size_t)clusters * size + n) * sizeof(double));
    m.counts = malloc(((size_t)clusters + n) * sizeof(uint32_t));
    if (!m.centers || !m.counts) {
        free(m.centers);
        free(m.counts);
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", clusters);
    }
    m.distances = m.centers + (size_t)clusters * size;
    m.labels = m.counts + clusters;
    memset(m.labels, 0, n * sizeof(*m.labels));
    for (int i = 0; i < STARTS; i++) {
        double sum;

        start(&m, &state);
        sum = settle(&m);
        if (i == 0 || sum < best) {
            best = sum;
            memcpy(labels, m.labels, n * sizeof(*labels));
        }
    }
    free(m.centers);
    free(m.counts);
    return 0;
}
