#include "tests/unit/stages/fake_voices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/pyannote/diarization_dir.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint.h"
#include "workers/models/yamnet/yamnet.h"

struct fake_models fake_models;

/* Two of them may run at once, each on its engine's thread. */
static void count_call(uint32_t n)
{
    __atomic_add_fetch(&fake_models.calls, 1, __ATOMIC_RELAXED);
    if (n > __atomic_load_n(&fake_models.largest, __ATOMIC_RELAXED))
        __atomic_store_n(&fake_models.largest, n, __ATOMIC_RELAXED);
}

struct pyannet {
    int unused;
};
struct voiceprint {
    int unused;
};
struct yamnet {
    int unused;
};

/* ---- a folder of two networks */

int diarization_dir_open(const char *dir, struct diarization_dir *ret, struct err *err)
{
    (void)err;
    *ret = (struct diarization_dir){.segmentation = strdup(dir), .embedding = strdup(dir)};
    ret->vbx = fake_models.plda != NULL;
    ret->plda = ret->vbx ? strdup(fake_models.plda) : NULL;
    return 0;
}

void diarization_dir_free(struct diarization_dir *d)
{
    free(d->segmentation);
    free(d->embedding);
    free(d->plda);
    memset(d, 0, sizeof(*d));
}

/* ---- who speaks when */

int pyannet_load(const char *file, struct backend *be, uint32_t windows, struct pyannet **ret,
                 struct err *err)
{
    static struct pyannet p;

    (void)file;
    (void)be;
    fake_models.asked = windows;
    (void)err;
    *ret = &p;
    return 0;
}

void pyannet_free(struct pyannet *p) { (void)p; }

uint32_t pyannet_windows(const struct pyannet *p)
{
    (void)p;
    return fake_models.windows ? fake_models.windows : 4;
}

uint64_t pyannet_predict_bytes(uint32_t windows) { return windows * UINT64_C(1000); }

int pyannet_run(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n, uint8_t *ret,
                struct err *err)
{
    if (n > pyannet_windows(p))
        return err_set(err, ERR_DEVICE, "%u windows are too many", n);
    count_call(n);
    memset(ret, 0, (size_t)n * PYANNET_FRAMES);
    for (uint32_t i = 0; i < n && fake_models.sets; i++)
        fake_models.sets(pcm[at[i]], ret + (size_t)i * PYANNET_FRAMES);
    return 0;
}

/* ---- whose voice */

int voiceprint_load(const char *file, struct backend *be, uint32_t windows, size_t samples,
                    struct voiceprint **ret, struct err *err)
{
    static struct voiceprint v;

    (void)file;
    (void)be;
    (void)windows;
    (void)samples;
    (void)err;
    *ret = &v;
    return 0;
}

void voiceprint_free(struct voiceprint *v) { (void)v; }

uint32_t voiceprint_windows(const struct voiceprint *v)
{
    (void)v;
    return fake_models.voices ? fake_models.voices : 2;
}

uint32_t voiceprint_size(const struct voiceprint *v)
{
    (void)v;
    return fake_models.size ? fake_models.size : FAKE_VOICE_SIZE;
}

uint64_t voiceprint_predict_bytes(uint32_t windows) { return windows * UINT64_C(100); }

/* The window's first sample, how many frames the mask has, its first and its last one. A mask of
 * less than two frames gives NaNs. */
int voiceprint_run(struct voiceprint *v, const float *pcm, const size_t *at, size_t samples,
                   uint32_t n, const struct voice_mask *masks, uint32_t mask_count, uint32_t frames,
                   float *ret, struct err *err)
{
    if (n > voiceprint_windows(v))
        return err_set(err, ERR_DEVICE, "%u windows are too many", n);
    if (fake_models.lacks && n > 1) {
        fake_models.lacks--;
        return err_set(err, ERR_VRAM, "no room for %u windows", n);
    }
    fake_models.voice_calls++;
    if (n > fake_models.largest_voices)
        fake_models.largest_voices = n;
    for (uint32_t m = 0; m < mask_count; m++) {
        float *to = ret + (size_t)m * FAKE_VOICE_SIZE;
        uint32_t count = 0, first = 0, last = 0;

        if (masks[m].window >= n)
            return err_set(err, ERR_DEVICE, "a mask of window %u of %u", masks[m].window, n);
        if (masks[m].begin + masks[m].length > samples)
            return err_set(err, ERR_DEVICE, "a mask behind %zu samples", samples);
        for (uint32_t f = 0; f < frames; f++)
            if (masks[m].weights[f] > 0) {
                first = count++ ? first : f;
                last = f;
            }
        to[0] = count < 2 ? NAN : pcm[at[masks[m].window] + masks[m].begin];
        to[1] = (float)count;
        to[2] = (float)first;
        to[3] = (float)last;
    }
    return 0;
}

/* ---- which sounds */

int yamnet_load(const char *dir, struct backend *be, uint32_t patches, struct yamnet **ret,
                struct err *err)
{
    static struct yamnet y;

    (void)dir;
    (void)be;
    (void)patches;
    (void)err;
    *ret = &y;
    return 0;
}

void yamnet_free(struct yamnet *y) { (void)y; }

uint32_t yamnet_patches(const struct yamnet *y)
{
    uint32_t n = fake_models.patches ? fake_models.patches : fake_models.windows;

    (void)y;
    return n ? n : 4;
}

uint32_t yamnet_classes(const struct yamnet *y)
{
    (void)y;
    return 3;
}

const char *yamnet_class_name(const struct yamnet *y, uint32_t class_id)
{
    static const char *const names[] = {"Speech", "Music", "Applause"};

    (void)y;
    return names[class_id];
}

uint64_t yamnet_predict_bytes(uint32_t patches) { return patches * UINT64_C(10); }

uint32_t yamnet_count(size_t n)
{
    return n <= YAMNET_PATCH ? 1 : 1 + (uint32_t)((n - YAMNET_PATCH + YAMNET_HOP - 1) / YAMNET_HOP);
}

int yamnet_run(struct yamnet *y, const float *pcm, size_t n, float *scores, float *vectors,
               struct err *err)
{
    static uint32_t heard;
    uint32_t patches = yamnet_count(n);

    if (patches > yamnet_patches(y))
        return err_set(err, ERR_DEVICE, "%u patches are too many", patches);
    heard += patches;
    if (fake_models.fails_after && heard > fake_models.fails_after)
        return err_set(err, fake_models.fails_with, "the patches of sounds are used up");
    count_call(patches);
    memset(scores, 0, (size_t)patches * 3 * sizeof(*scores));
    for (uint32_t p = 0; p < patches; p++) {
        size_t at = (size_t)p * YAMNET_HOP, last = at + YAMNET_PATCH;

        if (fake_models.scores)
            fake_models.scores(pcm[at], scores + (size_t)p * 3);
        if (!vectors)
            continue;
        memset(vectors + (size_t)p * YAMNET_VECTOR, 0, YAMNET_VECTOR * sizeof(*vectors));
        vectors[(size_t)p * YAMNET_VECTOR] = pcm[at];
        vectors[(size_t)p * YAMNET_VECTOR + 1] = pcm[(last < n ? last : n) - 1];
    }
    return 0;
}
