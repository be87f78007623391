/* Who speaks: PyanNet; and whose voice it is: ResNet34, GE2E. An item is a window of ten seconds;
 * in a recording there is one each second. */
#include "tests/gpu/nets.h"

#include <stdlib.h>
#include <string.h>

#include "tests/parity/diarization/networks.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint.h"

#define SHORT_SAMPLES 32000 /* of a small speaker encoder's windows: an emulator's time */
#define MASKS 3             /* of a window */
#define TILE 16             /* windows whose sound is heard at once where they are measured */
#define SOUND_BYTES (NETWORK_SAMPLES * sizeof(float))

/* ---- what they hear */

struct sounds {
    float *pcm;
    size_t *at; /* [items]: where they begin */
};

/* Measured: of one recording, a second apart, so that each has nine tenths of the one before it. */
static struct sounds make_sounds(const struct net_setup *s)
{
    uint32_t pieces = s->measured ? (s->items + 9) / 10 + 1 : s->items;
    struct sounds ret = {net_memory(pieces, SOUND_BYTES), net_memory(s->items, sizeof(*ret.at))};

    for (uint32_t i = 0; i < pieces; i++)
        network_sound(i, ret.pcm + (size_t)i * NETWORK_SAMPLES);
    for (size_t i = 0; i < s->items; i++)
        ret.at[i] = i * (s->measured ? PYANNET_STEP : NETWORK_SAMPLES);
    return ret;
}

static void free_sounds(struct sounds *s)
{
    free(s->pcm);
    free(s->at);
}

static void write_network(struct network *n)
{
    network_write(n, NET_FILE, 0);
    network_free(n);
}

/* ---- segmentation */

struct segmentation {
    struct net_model model;
    struct pyannet *net;
    struct sounds sounds;
    uint8_t *sets; /* measured: what a stage asks for; else NULL, and the log-probabilities */
};

static void pyannet_make(const struct net_setup *s)
{
    write_network(network_segmentation(s->published ? "pyannet" : "tiny"));
}

static void pyannet_close(struct net_model *m)
{
    struct segmentation *p = (struct segmentation *)m;

    pyannet_free(p->net);
    free_sounds(&p->sounds);
    free(p->sets);
    free(p);
}

static int pyannet_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                        struct err *err)
{
    struct segmentation *p = net_memory(1, sizeof(*p));
    int rc = pyannet_load(NET_FILE, be, s->at_once, &p->net, err);

    p->model.values = (size_t)PYANNET_FRAMES * PYANNET_CLASSES;
    p->sounds = make_sounds(s);
    if (s->measured)
        p->sets = net_memory(s->at_once, PYANNET_FRAMES);
    *ret = &p->model;
    if (rc != 0)
        pyannet_close(&p->model);
    return rc;
}

static int run_segmentation(struct net_model *m, uint32_t first, uint32_t n, float *ret,
                            struct err *err)
{
    struct segmentation *p = (struct segmentation *)m;

    if (p->sets)
        return pyannet_run(p->net, p->sounds.pcm, p->sounds.at + first, n, p->sets, err);
    return pyannet_scores(p->net, p->sounds.pcm, p->sounds.at + first, n, ret, err);
}

const struct net net_pyannet = {
    .small = "PyanNet, 8 filters",
    .published = "PyanNet (segmentation 3.1)",
    .items = "windows",
    .seconds = 1.0,
    .make = pyannet_make,
    .open = pyannet_open,
    .run = run_segmentation,
    .close = pyannet_close,
};

/* ---- voices */

struct voices {
    struct net_model model;
    struct voiceprint *net;
    size_t samples; /* of a window */
    struct sounds sounds;
    bool measured; /* windows come in tiles, as the stage hears them */
    float weights[MASKS][NETWORK_MASK_FRAMES];
    struct voice_mask *masks; /* [at_once * MASKS]: of a call */
};

static void resnet_make(const struct net_setup *s)
{
    write_network(network_resnet(s->published ? "resnet34" : "speck"));
}

static void ge2e_make(const struct net_setup *s)
{
    write_network(network_ge2e(s->published ? "ge2e" : "little"));
}

static void voices_close(struct net_model *m)
{
    struct voices *v = (struct voices *)m;

    voiceprint_free(v->net);
    free_sounds(&v->sounds);
    free(v->masks);
    free(v);
}

static int voices_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                       struct err *err)
{
    struct voices *v = net_memory(1, sizeof(*v));
    uint32_t tiles = (s->at_once + TILE - 1) / TILE;
    size_t samples = s->published ? NETWORK_SAMPLES : SHORT_SAMPLES;
    size_t longest = samples + (s->measured ? (TILE - 1) * PYANNET_STEP : 0);
    int rc = voiceprint_load(NET_FILE, be, s->measured ? tiles : s->at_once, longest, &v->net, err);

    v->measured = s->measured;
    v->samples = samples;
    v->sounds = make_sounds(s);
    for (uint32_t i = 0; i < MASKS; i++)
        network_mask(i, v->weights[i]); /* all, some of it, and all by fractions */
    v->masks = net_memory((size_t)s->at_once * MASKS, sizeof(*v->masks));
    for (uint32_t i = 0; i < s->at_once * MASKS; i++)
        v->masks[i] = (struct voice_mask){.window = i / MASKS, .weights = v->weights[i % MASKS]};
    for (uint32_t i = MASKS - 1; !s->measured && i < s->at_once * MASKS; i += MASKS) {
        v->masks[i].begin = SHORT_SAMPLES / 4; /* a part of the window */
        v->masks[i].length = SHORT_SAMPLES / 2;
    }
    for (uint32_t i = 0; s->measured && i < s->at_once * MASKS; i++) {
        v->masks[i].window = i / MASKS / TILE;
        v->masks[i].begin = i / MASKS % TILE * PYANNET_STEP;
        v->masks[i].length = (uint32_t)v->samples;
    }
    *ret = &v->model;
    if (rc == 0)
        v->model.values = (size_t)MASKS * voiceprint_size(v->net);
    else
        voices_close(&v->model);
    return rc;
}

static int voices_run(struct net_model *m, uint32_t first, uint32_t n, float *ret, struct err *err)
{
    struct voices *v = (struct voices *)m;
    uint32_t whole = n / TILE * TILE;
    size_t at[64], values = v->model.values;
    int rc = 0;

    if (!v->measured)
        return voiceprint_run(v->net, v->sounds.pcm, v->sounds.at + first, v->samples, n, v->masks,
                              n * MASKS, NETWORK_MASK_FRAMES, ret, err);
    for (uint32_t i = 0; i < whole / TILE; i++)
        at[i] = v->sounds.at[first + i * TILE];
    if (whole > 0)
        rc = voiceprint_run(v->net, v->sounds.pcm, at, v->samples + (TILE - 1) * PYANNET_STEP,
                            whole / TILE, v->masks, whole * MASKS, NETWORK_MASK_FRAMES, ret, err);
    if (rc == 0 && n > whole)
        rc = voiceprint_run(v->net, v->sounds.pcm, &v->sounds.at[first + whole],
                            v->samples + (n - whole - 1) * PYANNET_STEP, 1, v->masks,
                            (n - whole) * MASKS, NETWORK_MASK_FRAMES, ret + whole * values, err);
    return rc;
}

const struct net net_resnet = {
    .small = "ResNet, 4 channels",
    .published = "ResNet34, 3 voices a window",
    .narrow = true,
    .items = "windows",
    .seconds = 1.0,
    .make = resnet_make,
    .open = voices_open,
    .run = voices_run,
    .close = voices_close,
};

const struct net net_ge2e = {
    .small = "GE2E, 2 layers of 48",
    .published = "GE2E, 3 voices a window",
    .items = "windows",
    .seconds = 1.0,
    .make = ge2e_make,
    .open = voices_open,
    .run = voices_run,
    .close = voices_close,
};
