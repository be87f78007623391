/* Memory that runs out at every allocation in turn of a diarization, by each way of clustering. */
#include "tests/common/test.h"

#include "base/err.h"
#include "tests/common/nomem.h"
#include "tests/unit/speakers/made.h"
#include "workers/speakers/vbx.h"
#include "workers/speakers/match.h"

#define SIZE 16
#define LDA 6

static struct made recording;
static struct diarize_params params;
static struct diarize_result whole; /* without a fault */

static int setup(void **state)
{
    (void)state;
    recording = made_recording(40, 60, SIZE, 3, 0.4, 11);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    made_free(&recording);
    return 0;
}

static int make_plda(struct plda **ret, struct err *err)
{
    static double mean1[SIZE], mean2[LDA], matrix[SIZE * LDA], mu[LDA], tr[LDA * LDA], psi[LDA];
    const struct plda_arrays a = {SIZE, LDA, mean1, mean2, matrix, mu, tr, psi};

    for (uint32_t i = 0; i < SIZE * LDA; i++)
        matrix[i] = made_noise(2002, i);
    for (uint32_t i = 0; i < LDA; i++)
        psi[i] = 2.0 + i;
    for (uint32_t i = 0; i < LDA * LDA; i++)
        tr[i] = (i % (LDA + 1) == 0) + 0.3 * made_noise(2004, i);
    return plda_new(&a, 0, ret, err);
}

static int diarize(void *arg, struct err *err)
{
    struct diarize_result *ret = arg;
    struct plda *plda = NULL;
    int rc = 0;

    *ret = (struct diarize_result){0};
    if (params.clustering == DIARIZE_VBX)
        rc = make_plda(&plda, err);
    assert_true(rc == 0 || !plda);
    if (rc == 0)
        rc = diarize_recording(&recording.in, &params, plda, ret, err);
    if (rc != 0)
        assert_true(!ret->turns && !ret->vectors && !ret->speech_s);
    plda_free(plda);
    if (ret != &whole)
        diarize_free(ret);
    return rc;
}

static void each_way(enum diarize_clustering clustering, uint32_t wanted, uint32_t threads)
{
    struct diarize_result r;
    struct err e = {0};

    diarize_params_default(clustering, &params);
    params.num_speakers = wanted;
    params.threads = threads;
    assert_ok(diarize(&whole, &e), e);
    assert_true(whole.speakers > 1 && whole.turn_count > 2);
    diarize_free(&whole);
    assert_true(nomem_each(diarize, &r) > 20);
}

TEST(agglomerative) { each_way(DIARIZE_AHC, 0, 1); }

TEST(agglomerative_of_many_threads) { each_way(DIARIZE_AHC, 0, 3); }

TEST(agglomerative_of_a_number) { each_way(DIARIZE_AHC, 2, 1); }

TEST(variational) { each_way(DIARIZE_VBX, 0, 1); }

TEST(variational_of_a_number) { each_way(DIARIZE_VBX, 2, 1); }

static int match(void *arg, struct err *err)
{
    struct matcher *m = NULL;
    int rc = matcher_new(3, 5, &m, err);

    (void)arg;
    assert_true(rc == 0 || !m);
    matcher_free(m);
    return rc;
}

TEST(matcher) { assert_true(nomem_each(match, NULL) > 1); }

static int eigen(void *arg, struct err *err)
{
    double a[4] = {2, 1, 1, 3}, values[2], vectors[4];
    int rc = eigen_symmetric(a, 2, values, vectors, err);

    (void)arg;
    return rc != 0 ? rc : eigen_invert(vectors, 2, err);
}

TEST(algebra) { nomem_each(eigen, NULL); }

TEST_MAIN(setup, teardown)
