/* What must hold whatever the networks heard: nobody, one, more than are wanted, hostile input; and
 * the parts against plain versions of themselves. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/unit/speakers/made.h"
#include "workers/speakers/vbx.h"
#include "workers/speakers/kmeans.h"
#include "workers/speakers/linkage.h"
#include "workers/speakers/match.h"
#include "workers/speakers/diarize.h"

static struct diarize_params ahc(void)
{
    struct diarize_params p;

    diarize_params_default(DIARIZE_AHC, &p);
    return p;
}

static void diarize(const struct made *m, const struct diarize_params *p, struct diarize_result *r)
{
    struct err e = {0};

    assert_ok(diarize_recording(&m->in, p, NULL, r, &e), e);
}

/* Turns in order, within the recording, of speakers that are there, numbered by their first; what
 * each speaks sums to what is said. */
static void is_sound(const struct made *m, const struct diarize_result *r)
{
    double *speech = calloc(r->speakers + 1, sizeof(*speech));
    uint32_t seen = 0;

    for (uint32_t i = 0; i < r->turn_count; i++) {
        const struct diarize_turn *t = &r->turns[i];

        assert_true(t->start_s >= 0 && t->start_s < t->end_s && t->end_s <= m->in.duration_s);
        assert_true(t->speaker <= seen && t->speaker < r->speakers);
        seen += t->speaker == seen;
        speech[t->speaker] += t->end_s - t->start_s;
        for (uint32_t k = 0; k < i; k++) { /* a speaker's own never overlap */
            assert_true(r->turns[k].start_s <= t->start_s);
            assert_true(r->turns[k].speaker != t->speaker || r->turns[k].end_s <= t->start_s);
        }
    }
    assert_int_equal(seen, r->speakers);
    for (uint32_t s = 0; s < r->speakers; s++) {
        double length = 0;

        assert_true(fabs(speech[s] - r->speech_s[s]) < 1e-6);
        for (uint32_t k = 0; k < m->in.size; k++)
            length +=
                (double)r->vectors[s * m->in.size + k] * (double)r->vectors[s * m->in.size + k];
        assert_true(length == 0.0 || fabs(length - 1) < 1e-5);
    }
    free(speech);
}

TEST(nobody_speaks)
{
    struct made m = made_recording(5, 60, 8, 2, 0.5, 1);
    struct diarize_params p = ahc();
    struct diarize_result r = {0};

    memset(m.active, 0, 5 * 60);
    diarize(&m, &p, &r);
    assert_int_equal(r.speakers, 0);
    assert_int_equal(r.turn_count, 0);
    diarize_free(&r);
    made_free(&m);
}

/* Somebody is heard, but nowhere long enough to have a vector. */
TEST(nobody_is_clean)
{
    struct made m = made_recording(3, 60, 8, 2, 0.5, 1);
    struct diarize_params p = ahc();
    struct diarize_result r = {0};

    memset(m.active, 0, 3 * 60);
    for (int w = 0; w < 3; w++)
        memset(m.active + w * 60 + 20, 2, 8);
    for (int i = 0; i < 9 * 8; i++)
        m.vectors[i] = NAN;
    diarize(&m, &p, &r);
    is_sound(&m, &r);
    assert_int_equal(r.speakers, 1);
    assert_true(r.vectors[0] == 0.0f);
    diarize_free(&r);
    made_free(&m);
}

TEST(wanted_speakers)
{
    struct made m = made_recording(60, 60, 24, 3, 0.3, 11);

    for (uint32_t wanted = 1; wanted <= 3; wanted++) {
        struct diarize_params p = ahc();
        struct diarize_result r = {0};

        p.num_speakers = wanted;
        diarize(&m, &p, &r);
        is_sound(&m, &r);
        assert_true(r.speakers >= wanted && r.speakers <= wanted + 1);
        diarize_free(&r);
    }
    made_free(&m);
}

/* The same again, and with the vectors of the silent replaced: the same to the bit. */
TEST(same_again)
{
    struct made m = made_recording(60, 60, 24, 4, 1.0, 21);
    struct diarize_params p = ahc();
    struct diarize_result a = {0}, b = {0};

    diarize(&m, &p, &a);
    is_sound(&m, &a);
    for (uint32_t i = 0; i < 180; i++) {
        uint8_t heard = 0;

        for (uint32_t t = 0; t < 60; t++)
            heard |= m.active[i / 3 * 60 + t] >> i % 3 & 1;
        for (uint32_t k = 0; k < 24 && !heard; k++)
            m.vectors[i * 24 + k] = k % 2 ? INFINITY : NAN;
    }
    diarize(&m, &p, &b);
    assert_int_equal(a.turn_count, b.turn_count);
    for (uint32_t i = 0; i < a.turn_count; i++) {
        assert_true(a.turns[i].start_s == b.turns[i].start_s &&
                    a.turns[i].end_s == b.turns[i].end_s);
        assert_int_equal(a.turns[i].speaker, b.turns[i].speaker);
    }
    assert_memory_equal(a.vectors, b.vectors, a.speakers * 24 * sizeof(float));
    diarize_free(&a);
    diarize_free(&b);
    made_free(&m);
}

/* Turns are cut at the recording's end, and gaps that are short enough closed. */
TEST(ends_and_gaps)
{
    struct made m = made_recording(30, 60, 24, 2, 0.3, 31);
    struct diarize_params p = ahc();
    struct diarize_result r = {0}, closed = {0}, cut = {0};

    diarize(&m, &p, &r);
    p.min_duration_off = 1e6f;
    diarize(&m, &p, &closed);
    is_sound(&m, &closed);
    assert_int_equal(closed.turn_count, closed.speakers);
    assert_true(r.turn_count > closed.turn_count);
    p.min_duration_off = 0;
    m.in.duration_s = 12;
    diarize(&m, &p, &cut);
    is_sound(&m, &cut);
    assert_true(cut.turn_count > 0 && cut.turn_count < r.turn_count);
    diarize_free(&r);
    diarize_free(&closed);
    diarize_free(&cut);
    m.in.duration_s = 0;
    diarize(&m, &p, &r);
    assert_int_equal(r.speakers, 0);
    diarize_free(&r);
    made_free(&m);
}

static void refused(const struct diarize_input *in, const struct diarize_params *p, int code)
{
    struct diarize_result r = {0};
    struct err e = {0};

    assert_int_equal(diarize_recording(in, p, NULL, &r, &e), code);
    assert_null(r.turns);
}

#define REFUSED(change, code)            \
    do {                                 \
        struct diarize_input in = m.in;  \
        struct diarize_params p = ahc(); \
                                         \
        change;                          \
        refused(&in, &p, code);          \
    } while (0)

TEST(impossible_input)
{
    struct made m = made_recording(4, 60, 8, 2, 0.5, 1);

    REFUSED(in.windows = 0, ERR_INPUT);
    REFUSED(in.frames = 0, ERR_INPUT);
    REFUSED(in.frames = UINT32_MAX, ERR_INPUT);
    REFUSED(in.speakers = 0, ERR_INPUT);
    REFUSED(in.speakers = 9, ERR_INPUT);
    REFUSED(in.speakers = 1, ERR_INPUT); /* others are heard */
    REFUSED(in.size = 0, ERR_INPUT);
    REFUSED(in.windows = UINT32_MAX, ERR_INPUT);
    REFUSED(in.step_s = 0, ERR_INPUT);
    REFUSED(in.step_s = NAN, ERR_INPUT);
    REFUSED(in.frame_s = 1e-300, ERR_INPUT);
    REFUSED(in.window_s = INFINITY, ERR_INPUT);
    REFUSED(in.frame_length_s = -1, ERR_INPUT);
    REFUSED(in.duration_s = NAN, ERR_INPUT);
    REFUSED(in.active = NULL, ERR_INPUT);
    REFUSED(p.threshold = NAN, ERR_USAGE);
    REFUSED(p.threshold = -1, ERR_USAGE);
    REFUSED(p.min_duration_off = INFINITY, ERR_USAGE);
    REFUSED(p.num_speakers = DIARIZE_MAX_SPEAKERS + 1, ERR_USAGE);
    REFUSED((p.min_speakers = 3, p.max_speakers = 2), ERR_USAGE);
    REFUSED(p.clustering = DIARIZE_VBX; p.fa = 0, ERR_USAGE);
    REFUSED(p.clustering = DIARIZE_VBX, ERR_MODEL); /* no plda */
    m.active[0] = 1;
    m.vectors[0] = 1;
    m.vectors[3] = INFINITY;
    REFUSED((void)in, ERR_INPUT);
    made_free(&m);
}

/* ---- parts */

/* Every pair's distance, every time. */
static void link_plainly(const float *x, uint32_t n, uint32_t size, double *distances)
{
    double *mean = malloc((size_t)n * size * sizeof(*mean));
    uint32_t *count = calloc(n, sizeof(*count));

    for (size_t i = 0; i < (size_t)n * size; i++)
        mean[i] = (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        count[i] = 1;
    for (uint32_t round = 0; round + 1 < n; round++) {
        double best = INFINITY;
        uint32_t a = 0, b = 0;

        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < i && count[i] > 0; k++) {
                double sum = 0;

                for (uint32_t d = 0; d < size && count[k] > 0; d++)
                    sum += (mean[i * size + d] - mean[k * size + d]) *
                           (mean[i * size + d] - mean[k * size + d]);
                if (count[k] > 0 && sum < best) {
                    best = sum;
                    a = i;
                    b = k;
                }
            }
        distances[round] = sqrt(best);
        for (uint32_t d = 0; d < size; d++)
            mean[a * size + d] = (mean[a * size + d] * count[a] + mean[b * size + d] * count[b]) /
                                 (count[a] + count[b]);
        count[a] += count[b];
        count[b] = 0;
    }
    free(mean);
    free(count);
}

TEST(linkage_plainly)
{
    for (uint32_t seed = 0; seed < 12; seed++) {
        uint32_t n = 20 + seed * 9, size = 2 + seed * seed % 40, count;
        float *x = malloc((size_t)n * size * sizeof(*x));
        double *want = malloc(n * sizeof(*want));
        struct merge *merges = malloc(n * sizeof(*merges));
        struct err e = {0};

        for (uint32_t i = 0; i < n; i++)
            made_voice(i % (1 + seed % 4), size, 0.2 + 0.2 * seed, seed, i, x + (size_t)i * size);
        link_plainly(x, n, size, want);
        assert_ok(linkage_centroid(x, n, size, INFINITY, 2, merges, &count, &e), e);
        assert_int_equal(count, n - 1);
        assert_int_equal(merges[n - 2].size, n);
        for (uint32_t i = 0; i < count; i++)
            assert_true(fabs(merges[i].distance - want[i]) < 1e-9);
        free(x);
        free(want);
        free(merges);
    }
}

/* Many that are the same, so many that no list of neighbours holds them. */
TEST(duplicates)
{
    enum { N = 720, DIM = 80 };
    float *x = calloc(N, DIM * sizeof(*x));
    struct merge *merges = malloc(N * sizeof(*merges));
    uint32_t *parent = malloc(2 * N * sizeof(*parent)), *labels = malloc(N * sizeof(*labels));
    uint32_t count;
    struct err e = {0};

    for (uint32_t i = 0; i < N; i++)
        x[i * DIM + i % 3] = 1;
    assert_ok(linkage_centroid(x, N, DIM, 0.5, 2, merges, &count, &e), e);
    assert_int_equal(count, N - 3);
    for (uint32_t i = 0; i < count; i++)
        assert_true(merges[i].distance < 1e-12);
    assert_int_equal(linkage_labels(merges, count, N, parent, labels), 3);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(labels[i], i % 3);
    assert_ok(linkage_centroid(x, N, DIM, INFINITY, 2, merges, &count, &e), e);
    assert_int_equal(count, N - 1);
    assert_true(fabs(merges[N - 3].distance - sqrt(2)) < 1e-9);
    memset(x, 0, N * DIM * sizeof(*x)); /* all in one place */
    assert_ok(linkage_centroid(x, N, DIM, 0, 2, merges, &count, &e), e);
    assert_int_equal(count, N - 1);
    x[77] = NAN;
    assert_int_equal(linkage_centroid(x, N, DIM, 0, 2, merges, &count, &e), ERR_INPUT);
    assert_int_equal(linkage_centroid(x, 0, DIM, 0, 2, merges, &count, &e), ERR_INPUT);
    assert_int_equal(linkage_centroid(x, N, 0, 0, 2, merges, &count, &e), ERR_INPUT);
    free(x);
    free(merges);
    free(parent);
    free(labels);
}

static double best_gain(const double *gain, uint32_t rows, uint32_t columns, uint32_t row,
                        uint32_t taken, uint32_t left)
{
    double best = -INFINITY;

    if (left == 0)
        return 0;
    if (rows - row > left) /* this one may go without */
        best = best_gain(gain, rows, columns, row + 1, taken, left);
    for (uint32_t c = 0; c < columns; c++)
        if (!(taken & 1u << c))
            best = fmax(best, gain[row * columns + c] + best_gain(gain, rows, columns, row + 1,
                                                                  taken | 1u << c, left - 1));
    return best;
}

TEST(matches_are_the_best)
{
    struct matcher *m = NULL;
    struct err e = {0};

    assert_ok(matcher_new(5, 6, &m, &e), e);
    for (uint32_t seed = 0; seed < 300; seed++) {
        uint32_t rows = 1 + seed % 5, columns = 1 + seed / 5 % 6, taken = 0, made = 0;
        uint32_t pairs = rows < columns ? rows : columns;
        double gain[30], sum = 0;
        int32_t column[5];

        for (uint32_t i = 0; i < rows * columns; i++) /* with ties */
            gain[i] = floor(made_noise(seed, i) * (seed % 2 ? 6 : 1000));
        matcher_run(m, gain, rows, columns, column);
        for (uint32_t r = 0; r < rows; r++) {
            if (column[r] < 0)
                continue;
            assert_true((uint32_t)column[r] < columns && !(taken & 1u << column[r]));
            taken |= 1u << column[r];
            sum += gain[r * columns + (uint32_t)column[r]];
            made++;
        }
        assert_int_equal(made, pairs);
        assert_true(fabs(sum - best_gain(gain, rows, columns, 0, 0, pairs)) < 1e-9);
    }
    matcher_free(m);
}

TEST(eigenvectors)
{
    enum { N = 20 };
    double a[N * N], copy[N * N], values[N], vectors[N * N], inverse[N * N];
    struct err e = {0};

    for (int i = 0; i < N; i++)
        for (int k = 0; k <= i; k++)
            a[i * N + k] = a[k * N + i] = made_noise(9, (uint64_t)(i * N + k)) + (i == k) * 3;
    memcpy(copy, a, sizeof(a));
    memcpy(inverse, a, sizeof(a));
    assert_ok(eigen_symmetric(a, N, values, vectors, &e), e);
    assert_ok(eigen_invert(inverse, N, &e), e);
    for (int v = 0; v < N; v++) {
        assert_true(v == 0 || values[v] <= values[v - 1]);
        for (int i = 0; i < N; i++) {
            double sum = 0, unit = 0;

            for (int k = 0; k < N; k++) {
                sum += copy[i * N + k] * vectors[v * N + k];
                unit += copy[v * N + k] * inverse[k * N + i];
            }
            assert_true(fabs(sum - values[v] * vectors[v * N + i]) < 1e-10);
            assert_true(fabs(unit - (v == i)) < 1e-10);
        }
    }
    memset(a, 0, sizeof(a));
    assert_int_equal(eigen_invert(a, N, &e), ERR_INPUT);
    a[3] = NAN;
    assert_int_equal(eigen_symmetric(a, N, values, vectors, &e), ERR_INPUT);
}

TEST(means_that_are_wanted)
{
    enum { N = 90, DIM = 6 };
    float x[N * DIM];
    uint32_t labels[N];
    struct err e = {0};

    for (uint32_t i = 0; i < N; i++)
        made_voice(i % 3, DIM, 0.05, 5, i, x + i * DIM);
    assert_ok(kmeans(x, N, DIM, 3, 2, labels, &e), e);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(labels[i], labels[i % 3]);
    assert_true(labels[0] != labels[1] && labels[1] != labels[2] && labels[0] != labels[2]);
    memset(x, 0, sizeof(x)); /* all the same, and yet as many as are wanted */
    assert_ok(kmeans(x, N, DIM, 7, 2, labels, &e), e);
    for (uint32_t k = 0; k < 7; k++) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < N; i++)
            n += labels[i] == k;
        assert_true(n > 0);
    }
    assert_int_equal(kmeans(x, N, DIM, N + 1, 2, labels, &e), ERR_INPUT);
    assert_int_equal(kmeans(x, N, DIM, 0, 2, labels, &e), ERR_INPUT);
}

TEST(voices_that_are_none)
{
    const struct vbx_params p = {0.07, 0.8, 7, 20, 2};
    double features[6] = {1, 2, 3, 4, 5, NAN}, phi[2] = {2, 1}, mean[4] = {0}, zero[16] = {0};
    double psi[4] = {1, 1, 1, 1};
    const struct plda_arrays none = {4, 4, mean, mean, zero, mean, zero, psi};
    uint32_t labels[3] = {0, 1, 5};
    struct plda *plda = NULL;
    struct vbx *v = NULL;
    struct err e = {0};

    assert_int_equal(vbx_run(features, 3, 2, phi, labels, 2, &p, &v, &e), ERR_INPUT);
    labels[2] = VBX_UNLABELLED;
    assert_int_equal(vbx_run(features, 3, 2, phi, labels, 2, &p, &v, &e), ERR_INPUT);
    features[5] = 6;
    assert_int_equal(vbx_run(features, 0, 2, phi, labels, 2, &p, &v, &e), ERR_INPUT);
    assert_int_equal(vbx_run(features, 3, 2, phi, labels, 0, &p, &v, &e), ERR_INPUT);
    assert_int_equal(vbx_run(features, 3, 2, phi, labels, VBX_MAX_SPEAKERS + 1, &p, &v, &e),
                     ERR_INPUT);
    assert_ok(vbx_run(features, 3, 2, phi, labels, 2, &p, &v, &e), e);
    assert_true(fabs(vbx_shares(v)[0] + vbx_shares(v)[1] - 1) < 1e-12);
    vbx_free(v);
    assert_int_equal(plda_new(&none, 0, &plda, &e), ERR_MODEL);
    assert_null(plda);
    /* Told by its size alone: larger ones would be solved for hours. */
    assert_int_equal(plda_new(&(struct plda_arrays){.size = 513, .lda = 513}, 0, &plda, &e),
                     ERR_MODEL);
    assert_null(plda);
}

TEST_MAIN(NULL, NULL)
