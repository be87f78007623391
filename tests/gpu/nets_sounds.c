/* Which sounds there are: YAMNet, a patch each 0.48 s; and CLAP's audio tower, ten seconds after
 * ten seconds. */
#include "tests/gpu/nets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/common/formula_weights.h"
#include "tests/common/test.h"
#include "tests/parity/clap/model.h"
#include "tests/unit/models/yamnet_model.h"
#include "workers/models/clap/clap.h"
#include "workers/models/yamnet/yamnet.h"

#define RATE_HZ 16000.0

/* A tone that rises and falls, in noise; the noise is the formula's. */
static float *make_recording(size_t n)
{
    float *pcm = clap_noise("recording", n, 0.02f);

    for (size_t i = 0; i < n; i++) {
        double t = (double)i / RATE_HZ;
        double tone = sin(6.2831853 * (600.0 + 300.0 * sin(1.1 * t)) * t);

        pcm[i] += (float)(0.3 * tone * (0.5 + 0.5 * sin(7.0 * t)));
    }
    return pcm;
}

/* ---- YAMNet */

struct sounds {
    struct net_model model;
    struct yamnet *net;
    float *pcm;
    float *vectors, *scores; /* [at_once] of each */
    uint32_t classes;
};

/* The real weights, where they are. */
static const char *yamnet_folder(const struct net_setup *s)
{
    const char *real = test_shared_path("models/yamnet");

    return s->published && access(real, R_OK) == 0 ? real : NET_FOLDER;
}

static void yamnet_make(const struct net_setup *s)
{
    struct formula *f = yamnet_model();

    if (yamnet_folder(s) == (const char *)NET_FOLDER)
        yamnet_model_write(f, NET_FOLDER);
    formula_free(f);
}

static void sounds_close(struct net_model *m)
{
    struct sounds *y = (struct sounds *)m;

    yamnet_free(y->net);
    free(y->pcm);
    free(y->vectors);
    free(y->scores);
    free(y);
}

static int sounds_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                       struct err *err)
{
    struct sounds *y = net_memory(1, sizeof(*y));
    int rc = yamnet_load(yamnet_folder(s), be, s->at_once, &y->net, err);

    *ret = &y->model;
    if (rc != 0) {
        sounds_close(&y->model);
        return rc;
    }
    y->classes = yamnet_classes(y->net);
    y->model.values = YAMNET_VECTOR + y->classes;
    y->pcm = make_recording(YAMNET_PATCH + (size_t)(s->items - 1) * YAMNET_HOP);
    y->vectors = net_memory((size_t)s->at_once * YAMNET_VECTOR, sizeof(float));
    y->scores = net_memory((size_t)s->at_once * y->classes, sizeof(float));
    return 0;
}

static int sounds_run(struct net_model *m, uint32_t first, uint32_t n, float *ret, struct err *err)
{
    struct sounds *y = (struct sounds *)m;
    int rc = yamnet_run(y->net, y->pcm + (size_t)first * YAMNET_HOP,
                        YAMNET_PATCH + (size_t)(n - 1) * YAMNET_HOP, y->scores, y->vectors, err);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        float *item = ret + i * m->values;

        memcpy(item, y->vectors + i * YAMNET_VECTOR, YAMNET_VECTOR * sizeof(float));
        memcpy(item + YAMNET_VECTOR, y->scores + i * y->classes, y->classes * sizeof(float));
    }
    return rc;
}

const struct net net_yamnet = {
    .small = "YAMNet",
    .published = "YAMNet",
    .items = "patches",
    .seconds = (double)YAMNET_HOP / RATE_HZ,
    .make = yamnet_make,
    .open = sounds_open,
    .run = sounds_run,
    .close = sounds_close,
};

/* ---- CLAP */

struct tower {
    struct net_model model;
    struct clap *net;
    float *pcm;               /* of all */
    struct clap_audio *audio; /* [items] */
};

static void clap_make(const struct net_setup *s)
{
    static const struct clap_shape speck = {"speck", 16, 1920, 128, 16, 2, {2, 1}, {2, 2}, false};
    struct clap_shape shape = s->published ? clap_published : speck;
    struct formula *f;

    shape.text = false;
    f = clap_model(&shape);
    if (clap_model_write(&shape, f, NET_FOLDER) != 0)
        abort();
    formula_free(f);
}

static void tower_close(struct net_model *m)
{
    struct tower *t = (struct tower *)m;

    clap_free(t->net);
    free(t->pcm);
    free(t->audio);
    free(t);
}

/* Whole windows where they are measured; else of every length, down to a twentieth of a second. */
static size_t length_of(const struct net_setup *s, uint32_t i)
{
    static const size_t samples[] = {CLAP_SAMPLES, 41000, 800, 100001, 16000};

    return s->measured ? CLAP_SAMPLES : samples[i % (sizeof(samples) / sizeof(samples[0]))];
}

static int tower_open(const struct net_setup *s, struct backend *be, struct net_model **ret,
                      struct err *err)
{
    struct tower *t = net_memory(1, sizeof(*t));
    int rc = clap_load(NET_FOLDER, be, s->precision, CLAP_AUDIO, s->at_once, &t->net, err);

    *ret = &t->model;
    if (rc != 0) {
        tower_close(&t->model);
        return rc;
    }
    t->model.values = clap_size(t->net);
    t->pcm = make_recording((size_t)s->items * CLAP_SAMPLES);
    t->audio = net_memory(s->items, sizeof(*t->audio));
    for (uint32_t i = 0; i < s->items; i++)
        t->audio[i] = (struct clap_audio){t->pcm + (size_t)i * CLAP_SAMPLES, length_of(s, i)};
    return 0;
}

static int tower_run(struct net_model *m, uint32_t first, uint32_t n, float *ret, struct err *err)
{
    struct tower *t = (struct tower *)m;

    return clap_run_audio(t->net, t->audio + first, n, ret, err);
}

const struct net net_clap_audio = {
    .small = "CLAP audio, 2 stages",
    .published = "CLAP audio (htsat-unfused)",
    .items = "windows",
    .seconds = 10.0,
    .choice = true,
    .make = clap_make,
    .open = tower_open,
    .run = tower_run,
    .close = tower_close,
};
