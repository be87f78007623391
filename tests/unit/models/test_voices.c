/* The networks of diarization when something is wrong: files that are no such networks, memory that
 * does not suffice, calls that cannot be, values that are no numbers. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/parity/diarization/networks.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint.h"

#define FILE_NAME "network.safetensors"

static char folder[] = "voices-XXXXXX";
static struct backend *be;
static float pcm[2][NETWORK_SAMPLES];

/* One of the two kinds of networks, loaded. */
struct loaded {
    struct pyannet *p;
    struct voiceprint *v;
};

static int load(bool segmentation, uint32_t windows, struct loaded *ret, struct err *e)
{
    *ret = (struct loaded){NULL, NULL};
    return segmentation
               ? pyannet_load(FILE_NAME, be, windows, &ret->p, e)
               : voiceprint_load(FILE_NAME, be, windows, VOICEPRINT_MAX_SAMPLES, &ret->v, e);
}

static void unload(struct loaded *l)
{
    pyannet_free(l->p);
    voiceprint_free(l->v);
}

static void load_whole_ones(void)
{
    struct network *n[] = {network_segmentation("tiny"), network_resnet("resnet"),
                           network_ge2e("little")};
    struct loaded l;
    struct err e;

    for (size_t i = 0; i < 3; i++) {
        network_write(n[i], FILE_NAME, 0);
        network_free(n[i]);
        assert_ok(load(i == 0, 1, &l, &e), e);
        unload(&l);
    }
}

static int setup(void **state)
{
    struct err e;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    network_sound(0, pcm[0]);
    network_sound(1, pcm[1]);
    assert_ok(backend_open_host(0, &be, &e), e);
    load_whole_ones(); /* for what stays the device's */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_close(be);
    unlink(FILE_NAME);
    return chdir("..") != 0 || rmdir(folder) != 0;
}

/* ---- files */

/* Refused, with a sentence that holds `word`, and nothing kept. */
static void refused(bool segmentation, const char *word)
{
    uint64_t before = be->allocated;
    struct loaded l;
    struct err e = {0};
    int rc = load(segmentation, 1, &l, &e);

    if (rc != ERR_MODEL || !strstr(e.msg, word))
        print_error("not '%s': %d, %s\n", word, rc, e.msg);
    assert_int_equal(rc, ERR_MODEL);
    assert_non_null(strstr(e.msg, word));
    assert_true(!l.p && !l.v);
    assert_int_equal(be->allocated, before);
}

static void write_refused(struct network *n, bool segmentation, const char *word)
{
    network_write(n, FILE_NAME, 0);
    refused(segmentation, word);
}

/* What says by itself which network it is, or how large. */
static bool decides(const char *name)
{
    return strcmp(name, "resnet.conv1.weight") == 0 || strcmp(name, "linear.weight") == 0 ||
           strncmp(name, "lstm.weight_hh_l0", 17) == 0;
}

/* Every tensor once missing, of another rank, a value too long, and with a value that is none. */
static void spoil(struct network *n, bool segmentation)
{
    for (size_t i = 0; i < n->n; i++) {
        struct network_tensor *t = &n->tensor[i], whole = *t;

        t->name[0] = 0;
        write_refused(n, segmentation, decides(whole.name) ? "" : whole.name);
        *t = whole;
        t->rank = 1;
        t->dim[0] = (uint32_t)t->count;
        if (whole.rank > 1)
            write_refused(n, segmentation, decides(whole.name) ? "" : whole.name);
        *t = whole;
        t->dim[t->rank - 1]--;
        t->count = t->count / whole.dim[t->rank - 1] * t->dim[t->rank - 1];
        if (t->count) /* of a size that is found others do not fit then */
            write_refused(n, segmentation, "tensor '");
        *t = whole;
        t->value[t->count / 2] = i % 2 ? NAN : INFINITY;
        write_refused(n, segmentation, whole.name);
        t->value[t->count / 2] = 0.25f;
    }
}

TEST(spoiled_tensors)
{
    struct network *n = network_segmentation("tiny");

    spoil(n, true);
    network_fold(n);
    n->tensor[0].name[0] = 0;
    write_refused(n, true, "wav_norm1d.weight");
    network_free(n);
    n = network_resnet("resnet");
    spoil(n, false);
    network_find(n, "resnet.layer1.0.bn2.running_var")->value[0] = -1.0f;
    write_refused(n, false, "resnet.layer1.0.bn2.running_var");
    network_free(n);
    n = network_ge2e("little");
    spoil(n, false);
    network_free(n);
}

/* Networks that are something else. */
TEST(other_networks)
{
    static const char *const refused_names[][2] = {
        {"resnet.layer1.0.conv3.weight", "deeper ones"},
        {"resnet.seg_2.weight", "two last layers"},
    };
    struct network *n = network_resnet("resnet");

    write_refused(n, true, "sincnet");
    for (size_t i = 0; i < 2; i++) {
        struct network_tensor *t = &n->tensor[n->n++];

        *t = (struct network_tensor){.rank = 1, .dim = {1}, .count = 1, .value = calloc(1, 4)};
        snprintf(t->name, sizeof(t->name), "%s", refused_names[i][0]);
        write_refused(n, false, refused_names[i][1]);
        t->name[0] = 0;
    }
    network_free(n);
    n = network_segmentation("tiny");
    write_refused(n, false, "no speaker encoder");
    snprintf(network_find(n, "linear.0.weight")->name, 80, "linear.weight");
    write_refused(n, false, "goes forward alone");
    network_free(n);
}

/* One row less, and one column less of whoever reads it: all tensors fit together. */
TEST(an_odd_layer)
{
    struct network *n = network_segmentation("tiny");
    struct network_tensor *w = network_find(n, "linear.0.weight");
    struct network_tensor *bias = network_find(n, "linear.0.bias");
    struct network_tensor *next = network_find(n, "linear.1.weight");

    assert_non_null(w);
    if (!next)
        next = network_find(n, "classifier.weight");
    assert_int_equal(w->dim[0] % 2, 0);
    assert_int_equal(next->dim[1], w->dim[0]);
    w->dim[0]--;
    w->count -= w->dim[1];
    bias->dim[0]--;
    bias->count--;
    next->dim[1]--;
    next->count -= next->dim[0];
    write_refused(n, true, "tensor 'linear.0.weight' makes");
    network_free(n);
}

TEST(spoiled_files)
{
    struct network *n = network_segmentation("tiny");
    static const size_t cuts[] = {1, 4, 4000, 10000};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        network_write(n, FILE_NAME, cuts[i]);
        refused(true, FILE_NAME);
        refused(false, FILE_NAME);
    }
    network_free(n);
    file_text(FILE_NAME, "");
    refused(true, FILE_NAME);
    unlink(FILE_NAME);
    refused(true, FILE_NAME);
    refused(false, FILE_NAME);
    assert_int_equal(mkdir(FILE_NAME, 0700), 0);
    refused(true, FILE_NAME);
    assert_int_equal(rmdir(FILE_NAME), 0);
}

/* ---- values */

/* Weights that are numbers, of which more than numbers comes. */
TEST(overflows)
{
    static const float all = 1.0f;
    static float vector[64];
    const struct voice_mask mask = {.window = 0, .weights = &all};
    struct network *n = network_segmentation("tiny");
    struct network_tensor *t = network_find(n, "classifier.weight");
    struct loaded l;
    struct err e;

    for (size_t i = 0; i < t->count; i++)
        t->value[i] = 3e38f;
    t = network_find(n, "linear.0.bias");
    for (size_t i = 0; i < t->count; i++)
        t->value[i] = 100.0f;
    write_refused(n, true, "no number");
    network_free(n);
    n = network_resnet("resnet");
    for (size_t i = 0; i < n->n; i++)
        if (strstr(n->tensor[i].name, "bn2.weight") || strstr(n->tensor[i].name, "bn2.bias"))
            for (size_t k = 0; k < n->tensor[i].count; k++)
                n->tensor[i].value[k] = 1e15f;
    write_refused(n, false, "no number");
    network_free(n);
    n = network_ge2e("little");
    t = network_find(n, "linear.bias");
    for (size_t i = 0; i < t->count; i++)
        t->value[i] = 3e38f;
    t = network_find(n, "linear.weight");
    for (size_t i = 0; i < t->count; i++)
        t->value[i] = 3e38f;
    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(false, 1, &l, &e), e);
    assert_int_equal(voiceprint_run(l.v, pcm[0], NULL, 32000, 1, &mask, 1, 1, vector, &e),
                     ERR_MODEL);
    assert_non_null(strstr(e.msg, "no number"));
    unload(&l);
}

TEST(not_a_number)
{
    static uint8_t sets[2][PYANNET_FRAMES], again[PYANNET_FRAMES];
    struct network *n = network_segmentation("tiny");
    float kept = pcm[1][777];
    struct loaded l;
    struct err e;

    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(true, 2, &l, &e), e);
    assert_ok(pyannet_run(l.p, pcm[0], NULL, 1, again, &e), e);
    pcm[1][777] = NAN;
    assert_int_equal(pyannet_run(l.p, pcm[0], NULL, 2, sets[0], &e), ERR_MODEL);
    pcm[1][777] = kept;
    assert_ok(pyannet_run(l.p, pcm[0], NULL, 2, sets[0], &e), e); /* nothing of it is left */
    assert_memory_equal(sets[0], again, sizeof(again));
    assert_int_equal(pyannet_run(l.p, pcm[0], NULL, 3, sets[0], &e), ERR_DEVICE);
    unload(&l);
}

/* ---- calls */

static float voices[3 * 64]; /* at most as many values each */

static void voices_of(struct network *n, bool needs_sound)
{
    static const float all[1] = {1.0f}, none[2] = {0.0f, 0.0f}, strange[2] = {NAN, -1.0f};
    const struct voice_mask masks[] = {{.window = 0, .weights = all},
                                       {.window = 1, .weights = all},
                                       {.window = 1, .weights = none}};
    const struct voice_mask odd[] = {{.window = 0, .weights = strange},
                                     {.window = 0, .weights = none}};
    struct loaded l;
    struct err e;

    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(false, 2, &l, &e), e);
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, 32000, 2, masks, 2, 1, voices, &e), e);
    assert_true(isfinite(voices[0]));
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, NETWORK_SAMPLES, 1, odd, 2, 2, voices, &e), e);
    assert_true(isnan(voices[0]) && isnan(voices[voiceprint_size(l.v)]));
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, 399, 1, masks, 1, 1, voices, &e), e);
    assert_true(isnan(voices[0])); /* not one frame */
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, 0, 1, masks, 1, 1, voices, &e), e);
    assert_true(isnan(voices[0]));
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, NETWORK_SAMPLES, 2, NULL, 0, 0, voices, &e), e);
    memset(voices, 0, sizeof(voices));
    assert_ok(voiceprint_run(l.v, pcm[1] + 150000, NULL, 10000, 1, masks, 1, 1, voices, &e), e);
    assert_int_equal(isnan(voices[0]), needs_sound); /* digital silence */
    assert_int_equal(voiceprint_run(l.v, pcm[0], NULL, 100, 1, masks, 2, 1, voices, &e),
                     ERR_DEVICE);
    assert_int_equal(voiceprint_run(l.v, pcm[0], NULL, 100, 3, masks, 1, 1, voices, &e),
                     ERR_DEVICE);
    assert_int_equal(
        voiceprint_run(l.v, pcm[0], NULL, VOICEPRINT_MAX_SAMPLES + 1, 1, masks, 1, 1, voices, &e),
        ERR_DEVICE);
    assert_int_equal(voiceprint_run(l.v, pcm[0], NULL, 1000, 1, masks, 1, 0, voices, &e),
                     ERR_DEVICE);
    unload(&l);
}

TEST(calls)
{
    voices_of(network_resnet("resnet"), false);
    voices_of(network_ge2e("little"), true);
}

/* GE2E cuts out what a mask covers: a part of a window gives what the part alone does. */
TEST(masks_of_parts_cut_out_the_same)
{
    static float weights[2][50], have[2 * 64], want[64];
    const struct voice_mask parts[] = {{1, weights[0], 16000, 48000}, {0, weights[1], 1, 48000}};
    struct voice_mask bad = {0, weights[0], 112001, 48000};
    struct network *n = network_ge2e("little");
    struct loaded l;
    struct err e;

    for (uint32_t i = 0; i < 50; i++) {
        weights[0][i] = i % 10 < 7 ? 1.0f : 0.0f;
        weights[1][i] = i > 12 ? 1.0f : 0.0f;
    }
    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(false, 2, &l, &e), e);
    assert_true(voiceprint_size(l.v) <= 64);
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, NETWORK_SAMPLES, 2, parts, 2, 50, have, &e), e);
    for (uint32_t i = 0; i < 2; i++) {
        const struct voice_mask alone = {0, weights[i], 0, 0};

        assert_ok(voiceprint_run(l.v, pcm[parts[i].window] + parts[i].begin, NULL, 48000, 1, &alone,
                                 1, 50, want, &e),
                  e);
        assert_memory_equal(have + i * voiceprint_size(l.v), want,
                            voiceprint_size(l.v) * sizeof(float));
    }
    assert_int_equal(voiceprint_run(l.v, pcm[0], NULL, NETWORK_SAMPLES, 1, &bad, 1, 50, have, &e),
                     ERR_DEVICE);
    unload(&l);
}

/* Noise that comes and goes each second, so that every window has nearly the same mean. */
static void make_pulses(float *ret, size_t n)
{
    static float second[16000];
    uint32_t seed = 7;

    for (size_t i = 0; i < 16000; i++) {
        seed = seed * 1664525u + 1013904223u;
        second[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * (i < 6400 ? 0.3f : 0.01f);
        second[i] += i >= 6400 ? 0.5f * second[i - 1] : 0.0f;
    }
    for (size_t i = 0; i < n; i++)
        ret[i] = second[i % 16000];
}

/* A mask of every second pulse of a window, `late` seconds behind it; none near the window's ends.
 */
static void mask_pulses(float late, float *ret)
{
    for (int f = 0; f < NETWORK_MASK_FRAMES; f++) {
        float at = (float)f / 58.9f - late;

        ret[f] = at > 2.0f && at < 8.0f && fmodf(at, 2.0f) < 0.35f ? 1.0f : 0.0f;
    }
}

static double compare_vectors(const float *a, const float *b, uint32_t size)
{
    double apart = 0.0, length = 0.0;

    for (uint32_t i = 0; i < size; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / length);
}

/* ResNet's convolutions run once over 25 s, and windows of 10 s are cut from what they yield. The
 * same comes out as of the windows one by one but for three things: the mean of the filter bank,
 * which is that of 25 s; what a window's ends hear beyond them; and windows at odd seconds, which
 * begin between two of the network's frames, 40 ms from either. Away from the ends and with equal
 * means only the last is seen. */
TEST(windows_are_cut_from_one_trunk)
{
    static float sound[VOICEPRINT_MAX_SAMPLES], weights[2][NETWORK_MASK_FRAMES];
    static float have[16 * 64], want[2 * 64];
    const struct voice_mask alone[] = {{.window = 0, .weights = weights[0]},
                                       {.window = 0, .weights = weights[1]}};
    struct voice_mask masks[16];
    struct network *n = network_resnet("resnet");
    struct loaded l;
    struct err e;
    uint32_t size;

    make_pulses(sound, VOICEPRINT_MAX_SAMPLES);
    mask_pulses(0.0f, weights[0]);
    mask_pulses(0.08f, weights[1]); /* a frame of the network late */
    for (uint32_t i = 0; i < 16; i++)
        masks[i] = (struct voice_mask){
            .weights = weights[0], .begin = i * PYANNET_STEP, .length = NETWORK_SAMPLES};
    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(false, 1, &l, &e), e);
    size = voiceprint_size(l.v);
    assert_true(size <= 64);
    assert_ok(voiceprint_run(l.v, sound, NULL, VOICEPRINT_MAX_SAMPLES, 1, masks, 16,
                             NETWORK_MASK_FRAMES, have, &e),
              e);
    assert_ok(voiceprint_run(l.v, sound, NULL, NETWORK_SAMPLES, 1, alone, 2, NETWORK_MASK_FRAMES,
                             want, &e),
              e);
    for (uint32_t i = 0; i < 16; i++)
        assert_true(compare_vectors(have + i * size, want, size) < (i % 2 ? 0.2 : 0.002));
    assert_true(compare_vectors(want + size, want, size) > 0.2); /* 80 ms would be seen */
    unload(&l);
}

/* More masks of one window than share a call of the device. */
TEST(many_masks)
{
    static float weights[120][10], have[120][48], want[120][48];
    struct voice_mask masks[120];
    struct network *n = network_resnet("resnet");
    struct loaded l;
    struct err e;

    network_write(n, FILE_NAME, 0);
    network_free(n);
    assert_ok(load(false, 2, &l, &e), e);
    for (uint32_t m = 0; m < 120; m++) {
        for (uint32_t i = 0; i < 10; i++)
            weights[m][i] = (m + i) % 7 < 3 && m != 5 ? 1.0f : 0.0f;
        masks[m] = (struct voice_mask){.window = m % 2, .weights = weights[m]};
    }
    assert_ok(voiceprint_run(l.v, pcm[0], NULL, 48000, 2, masks, 120, 10, have[0], &e), e);
    for (uint32_t m = 0; m < 120; m++)
        assert_ok(voiceprint_run(l.v, pcm[0], NULL, 48000, 2, &masks[m], 1, 10, want[m], &e), e);
    assert_true(isnan(have[5][0]) && isnan(want[5][0]));
    memset(have[5], 0, sizeof(have[5]));
    memset(want[5], 0, sizeof(want[5]));
    assert_memory_equal(have, want, sizeof(have));
    unload(&l);
}

/* As a device that takes several windows in a call. */
static void load_wide(bool segmentation, struct network *n, uint32_t windows, struct loaded *ret)
{
    struct err e;

    network_write(n, FILE_NAME, 0);
    network_free(n);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    assert_ok(load(segmentation, windows, ret, &e), e);
    be->info.wide_batches = false;
    be->info.deterministic = true;
}

/* Windows of a recording share most of what they hear, and lie over each other; a device that takes
 * several at once gets the same of them as one that hears each by itself. One is skipped, one is no
 * whole frames behind the one before it, and one shares nothing. */
static const size_t places[] = {0, PYANNET_STEP, 2 * PYANNET_STEP, 3 * PYANNET_STEP + 50,
                                3 * PYANNET_STEP + 50 + NETWORK_SAMPLES};
#define PLACES (sizeof(places) / sizeof(places[0]))

static float *recording(void)
{
    float *all = calloc(places[PLACES - 1] + NETWORK_SAMPLES, sizeof(*all));

    assert_non_null(all);
    memcpy(all, pcm, sizeof(pcm));
    memcpy(all + places[PLACES - 1], pcm[1], sizeof(pcm[1]));
    return all;
}

TEST(overlapping_windows)
{
    static float have[PLACES][48], want[PLACES][48], *all;
    static const float heard = 1.0f, unheard = 0.0f;
    struct voice_mask masks[PLACES];
    struct loaded l;
    struct err e;

    all = recording();
    for (uint32_t i = 0; i < PLACES; i++)
        masks[i] = (struct voice_mask){.window = i, .weights = i == 1 ? &unheard : &heard};
    load_wide(false, network_resnet("resnet"), PLACES, &l);
    assert_ok(
        voiceprint_run(l.v, all, places, NETWORK_SAMPLES, PLACES, masks, PLACES, 1, have[0], &e),
        e);
    assert_true(isnan(have[1][0]));
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct voice_mask alone = {.window = 0, .weights = masks[i].weights};

        assert_ok(voiceprint_run(l.v, all + places[i], NULL, NETWORK_SAMPLES, 1, &alone, 1, 1,
                                 want[i], &e),
                  e);
        if (i != 1)
            assert_memory_equal(have[i], want[i], sizeof(have[i]));
    }
    free(all);
    unload(&l);
}

/* The same as where they lie one behind another. */
TEST(overlapping_windows_of_segmentation)
{
    static float apart[PLACES][NETWORK_SAMPLES], *all;
    static float have[2][PLACES][PYANNET_FRAMES * PYANNET_CLASSES];
    struct loaded l;
    struct err e;

    all = recording();
    for (uint32_t i = 0; i < PLACES; i++)
        memcpy(apart[i], all + places[i], sizeof(apart[i]));
    load_wide(true, network_segmentation("tiny"), PLACES, &l);
    assert_ok(pyannet_scores(l.p, all, places, PLACES, have[0][0], &e), e);
    assert_ok(pyannet_scores(l.p, apart[0], NULL, PLACES, have[1][0], &e), e);
    assert_memory_equal(have[0], have[1], sizeof(have[0]));
    assert_memory_not_equal(have[0][0], have[0][1], sizeof(have[0][0]));
    free(all);
    unload(&l);
}

/* LSTM layers that are modules of their own have other names. */
TEST(lstm_modules)
{
    static float scores[2][PYANNET_FRAMES * PYANNET_CLASSES];
    struct network *n = network_segmentation("tiny");
    struct loaded l;
    struct err e;

    for (int i = 0; i < 2; i++) {
        network_write(n, FILE_NAME, 0);
        assert_ok(load(true, 1, &l, &e), e);
        assert_ok(pyannet_scores(l.p, pcm[0], NULL, 1, scores[i], &e), e);
        unload(&l);
        for (size_t k = 0; k < n->n; k++) {
            char part[40];

            if (sscanf(n->tensor[k].name, "lstm.%39s", part) == 1)
                snprintf(n->tensor[k].name, sizeof(n->tensor[k].name), "lstm.0.%s", part);
        }
    }
    assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
    network_free(n);
}

/* ---- memory */

static uint64_t taken_by(bool segmentation, uint32_t windows)
{
    uint64_t left = be->allocated;
    struct loaded l;
    struct err e;

    be->peak = left;
    assert_ok(load(segmentation, windows, &l, &e), e);
    unload(&l);
    return be->peak - left;
}

/* What a load takes, and that it can fail at every allocation, the last one as well. */
static uint64_t starve(bool segmentation, uint32_t windows, unsigned steps)
{
    uint64_t first = taken_by(segmentation, windows);
    uint64_t taken = taken_by(segmentation, windows); /* the device's own scratch has stayed */
    uint64_t left = be->allocated;
    struct loaded l;
    struct err e;

    for (unsigned i = 0; steps && i <= steps; i++) {
        be->budget = left + (i == 0 ? 1 : taken * i / steps - 1);
        assert_int_equal(load(segmentation, windows, &l, &e), ERR_VRAM);
        assert_true(!l.p && !l.v);
        assert_true(be->allocated == left);
    }
    be->budget = 0;
    assert_ok(load(segmentation, windows, &l, &e), e);
    unload(&l);
    return first;
}

static void near(uint64_t foretold, uint64_t taken, const char *what)
{
    double ratio = (double)foretold / (double)taken;

    print_message("%s: %.2f of the %llu MiB that were taken was foretold\n", what, ratio,
                  (unsigned long long)(taken >> 20));
    assert_true(ratio > 0.8 && ratio < 1.25);
}

TEST(memory)
{
    struct network *n = network_segmentation("small");

    network_write(n, FILE_NAME, 0);
    network_free(n);
    starve(true, 1, 30);
    n = network_resnet("resnet");
    network_write(n, FILE_NAME, 0);
    network_free(n);
    starve(false, 1, 30);
    n = network_segmentation("pyannet");
    network_write(n, FILE_NAME, 0);
    network_free(n);
    near(pyannet_predict_bytes(1), starve(true, 1, 0), "segmentation");
    n = network_resnet("resnet34");
    network_write(n, FILE_NAME, 0);
    network_free(n);
    near(voiceprint_predict_bytes(1), starve(false, 1, 0), "voices");
    pyannet_free(NULL);
    voiceprint_free(NULL);
}

TEST_MAIN(setup, teardown)
