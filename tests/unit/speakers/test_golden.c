/* Every step against what pyannote's community-1 pipeline made of three real recordings
 * (../shared/golden/diarization): the clusters, the responsibilities, the counts, who speaks in
 * each frame, and the turns within one frame. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "tests/unit/speakers/npy.h"
#include "workers/speakers/cluster.h"
#include "workers/speakers/turns.h"
#include "workers/speakers/diarize.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/speakers/vbx.h"

#define FRAME_S 0.016875
#define SIZE 256u

static const char *golden(const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "golden/diarization/%s", name);
    return test_shared_path(rel);
}

static struct npy load(const char *name)
{
    struct npy a = {0};

    assert_int_equal(npy_read(golden(name), &a), 0);
    return a;
}

static struct npy load_of(const char *recording, const char *what)
{
    char name[128];

    snprintf(name, sizeof(name), "%s_%s.npy", recording, what);
    return load(name);
}

static float *floats(const struct npy *a)
{
    float *ret = malloc(a->count * sizeof(*ret) + 1);

    for (size_t i = 0; i < a->count; i++)
        ret[i] = (float)a->data[i];
    return ret;
}

static uint32_t *numbers(const struct npy *a)
{
    uint32_t *ret = malloc(a->count * sizeof(*ret) + 1);

    for (size_t i = 0; i < a->count; i++)
        ret[i] = (uint32_t)a->data[i];
    return ret;
}

/* One recording as the networks heard it. */
struct heard {
    struct diarize_input in;
    uint8_t *active;
    float *vectors;
};

static struct heard hear(const char *recording, double duration_s)
{
    struct npy seg = load_of(recording, "segmentation_data");
    struct npy emb = load_of(recording, "embeddings_data");
    struct heard h = {.active = calloc(seg.dim[0], seg.dim[1]), .vectors = floats(&emb)};

    assert_int_equal(emb.dim[2], SIZE);
    for (size_t i = 0; i < seg.dim[0] * seg.dim[1]; i++)
        for (size_t s = 0; s < seg.dim[2]; s++)
            h.active[i] |= (uint8_t)((seg.data[i * seg.dim[2] + s] > 0.5) << s);
    h.in = (struct diarize_input){.windows = (uint32_t)seg.dim[0],
                                  .frames = (uint32_t)seg.dim[1],
                                  .speakers = (uint32_t)seg.dim[2],
                                  .window_s = 10,
                                  .step_s = 1,
                                  .frame_s = FRAME_S,
                                  .frame_length_s = 0.0619375,
                                  .duration_s = duration_s,
                                  .active = h.active,
                                  .size = SIZE,
                                  .vectors = h.vectors};
    free(seg.data);
    free(emb.data);
    return h;
}

static void forget(struct heard *h)
{
    free(h->active);
    free(h->vectors);
}

/* Equal but for the numbers that clusters have. */
static void same_partition(const uint32_t *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(a[i] == a[k], b[i] == b[k]);
}

TEST(powerset_of_scores)
{
    struct npy scores = load("powerset_input_logits.npy"), hard = load("powerset_hard_output.npy");
    float *x = floats(&scores);

    for (size_t t = 0; t < hard.dim[1]; t++) {
        uint8_t set = pyannet_likeliest(x + t * PYANNET_CLASSES);

        for (size_t s = 0; s < 3; s++)
            assert_int_equal(set >> s & 1, (int)hard.data[t * 3 + s]);
    }
    free(x);
    free(scores.data);
    free(hard.data);
}

/* Which vectors are clean, and the linkage over them. */
TEST(clean_vectors_and_linkage)
{
    struct npy window = load("pipeline_train_chunk_idx.npy");
    struct npy local = load("pipeline_train_speaker_idx.npy");
    struct npy ahc = load("pipeline_ahc_clusters.npy");
    struct heard h = hear("pipeline", 27);
    struct diarize_params p;
    struct pipeline pl = {0};
    struct err e = {0};
    uint32_t labels[27], clusters;

    diarize_params_default(DIARIZE_VBX, &p);
    assert_ok(pipeline_prepare(&h.in, &p, &pl, &e), e);
    assert_int_equal(pl.clean_count, 27);
    assert_int_equal(window.count, 27);
    for (size_t i = 0; i < 27; i++)
        assert_int_equal(pl.clean[i], (uint32_t)(window.data[i] * 3 + local.data[i]));
    ahc_normalize(pl.vectors, 27, SIZE);
    assert_ok(ahc_cut(pl.vectors, 27, SIZE, 0.6, 2, labels, &clusters, &e), e);
    assert_int_equal(clusters, 2);
    same_partition(labels, ahc.data, 27);
    pipeline_free(&pl);
    forget(&h);
    free(window.data);
    free(local.data);
    free(ahc.data);
}

TEST(responsibilities)
{
    struct npy fea = load("pipeline_plda_features.npy"), phi = load("pipeline_plda_phi.npy");
    struct npy ahc = load("pipeline_ahc_clusters.npy"), gamma = load("pipeline_vbx_gamma.npy");
    struct npy pi = load("pipeline_vbx_pi.npy");
    const struct vbx_params p = {
        .fa = 0.07, .fb = 0.8, .smoothing = 7.0, .max_rounds = 20, .threads = 2};
    uint32_t *labels = numbers(&ahc);
    double ours[27 * 2];
    struct vbx *v = NULL;
    struct err e = {0};

    assert_int_equal(gamma.count, 27 * 2);
    assert_ok(vbx_run(fea.data, 27, 128, phi.data, labels, 2, &p, &v, &e), e);
    vbx_responsibilities(v, fea.data, 27, ours);
    for (size_t i = 0; i < gamma.count; i++)
        assert_true(fabs(ours[i] - gamma.data[i]) < 1e-9);
    for (size_t i = 0; i < 2; i++)
        assert_true(fabs(vbx_shares(v)[i] - pi.data[i]) < 1e-9);
    vbx_free(v);
    free(labels);
    free(fea.data);
    free(phi.data);
    free(ahc.data);
    free(gamma.data);
    free(pi.data);
}

/* The turns of a golden RTTM, in its order; 0 .. 99 speakers. */
static size_t read_turns(const char *recording, struct diarize_turn *ret, size_t max)
{
    char name[128], line[512];
    size_t n = 0;
    FILE *f;

    snprintf(name, sizeof(name), "%s_expected.rttm", recording);
    f = fopen(golden(name), "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) && n < max) {
        double start, length;
        unsigned speaker;

        assert_int_equal(
            sscanf(line, "SPEAKER %*s 1 %lf %lf <NA> <NA> SPEAKER_%u", &start, &length, &speaker),
            3);
        ret[n++] = (struct diarize_turn){start, start + length, speaker};
    }
    fclose(f);
    return n;
}

/* pyannote's may end a frame after the recording does; ours end with it, which is why the
 * recordings are said here to last as long as their last window. */
static void same_turns(const struct diarize_result *r, const char *recording)
{
    struct diarize_turn want[64];
    size_t n = read_turns(recording, want, 64);

    assert_int_equal(r->turn_count, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(r->turns[i].speaker, want[i].speaker);
        assert_true(fabs(r->turns[i].start_s - want[i].start_s) < 1e-6);
        assert_true(fabs(r->turns[i].end_s - want[i].end_s) < 2e-6);
    }
}

static void same_counts(const struct pipeline *pl, const char *recording)
{
    struct npy count = load_of(recording, "speaker_counting_data");

    assert_int_equal(pl->grid.total, count.count);
    for (size_t t = 0; t < count.count; t++)
        assert_int_equal(pl->count[t], (int)count.data[t]);
    free(count.data);
}

static void same_frames(const struct pipeline *pl, const int32_t *local, const char *recording)
{
    struct npy want = load_of(recording, "discrete_diarization_data");
    struct frames *frames = NULL;
    struct err e = {0};

    assert_int_equal(want.dim[0], pl->grid.total);
    assert_ok(frames_new(pl->in, &pl->grid, local, (uint32_t)want.dim[1], &frames, &e), e);
    for (size_t t = 0; t < want.dim[0]; t++) {
        const uint32_t *now = frames_next(frames, pl->count[t]);
        uint32_t n = 0;

        for (uint32_t k = 0; k < want.dim[1]; k++)
            if (want.data[t * want.dim[1] + k] > 0.5)
                assert_int_equal(now[n++], k);
        assert_int_equal(n, pl->count[t]);
    }
    frames_free(frames);
    free(want.data);
}

/* The whole of the recording of two speakers, with its PLDA features in the place of the transform,
 * whose files are not there. */
TEST(whole)
{
    struct npy fea = load("pipeline_plda_features.npy"), phi = load("pipeline_plda_phi.npy");
    struct npy hard = load("pipeline_hard_clusters.npy");
    struct heard h = hear("pipeline", 27);
    struct diarize_params p;
    struct diarize_result r = {0};
    struct clusters c = {0};
    struct pipeline pl = {0};
    struct err e = {0};
    int32_t local[18 * 3], golden_local[18 * 3];
    uint32_t partition[18 * 3];

    diarize_params_default(DIARIZE_VBX, &p);
    assert_ok(pipeline_prepare(&h.in, &p, &pl, &e), e);
    same_counts(&pl, "pipeline");
    assert_ok(cluster_vbx(pl.vectors, pl.clean_count, SIZE, fea.data, 128, phi.data, &p, &c, &e),
              e);
    assert_int_equal(c.count, 2);
    assert_ok(pipeline_assign(&pl, &c, local, &e), e);
    for (size_t i = 0; i < 54; i++) {
        assert_int_equal(local[i] < 0, hard.data[i] < 0.0);
        partition[i] = (uint32_t)(local[i] + 1);
        golden_local[i] = (int32_t)hard.data[i];
    }
    same_partition(partition, hard.data, 54);
    same_frames(&pl, golden_local, "pipeline");
    assert_ok(pipeline_finish(&pl, local, &r, &e), e);
    assert_int_equal(r.speakers, 2);
    same_turns(&r, "pipeline");
    for (uint32_t s = 0; s < 2; s++) {
        double length = 0.0;

        for (uint32_t k = 0; k < SIZE; k++)
            length += (double)r.vectors[s * SIZE + k] * (double)r.vectors[s * SIZE + k];
        assert_true(fabs(length - 1.0) < 1e-5);
    }
    diarize_free(&r);
    clusters_free(&c);
    pipeline_free(&pl);
    forget(&h);
    free(fea.data);
    free(phi.data);
    free(hard.data);
}

/* One speaker: by either way of clustering the same. VBx's features are what they may be: with one
 * cluster to begin with there is one at the end. */
static void alone(const char *recording, double duration_s)
{
    struct heard h = hear(recording, duration_s);
    double *features = calloc(h.in.windows * 3, 4 * sizeof(double)), phi[4] = {4, 3, 2, 1};

    for (int c = DIARIZE_AHC; c <= DIARIZE_VBX; c++) {
        struct diarize_params p;
        struct diarize_result r = {0};
        struct clusters clusters = {0};
        struct pipeline pl = {0};
        struct err e = {0};
        int32_t *local = calloc(h.in.windows * 3, sizeof(*local));

        diarize_params_default((enum diarize_clustering)c, &p);
        assert_ok(pipeline_prepare(&h.in, &p, &pl, &e), e);
        same_counts(&pl, recording);
        if (c == DIARIZE_VBX)
            assert_ok(
                cluster_vbx(pl.vectors, pl.clean_count, SIZE, features, 4, phi, &p, &clusters, &e),
                e);
        else
            assert_ok(cluster_ahc(pl.vectors, pl.clean_count, SIZE, &p, &clusters, &e), e);
        assert_int_equal(clusters.count, 1);
        assert_ok(pipeline_assign(&pl, &clusters, local, &e), e);
        same_frames(&pl, local, recording);
        assert_ok(pipeline_finish(&pl, local, &r, &e), e);
        same_turns(&r, recording);
        diarize_free(&r);
        clusters_free(&clusters);
        pipeline_free(&pl);
        free(local);
    }
    free(features);
    forget(&h);
}

TEST(single_speaker) { alone("single_speaker", 16); }

TEST(shorter_than_a_window) { alone("short", 10); }

int main(void)
{
    if (access(golden("pipeline_params.json"), R_OK) != 0) {
        printf("skipped: %s is not there\n", golden("pipeline_params.json"));
        return TEST_SKIPPED;
    }
    return suite_run(NULL, NULL);
}
