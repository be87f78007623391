/* Sound embeddings behind stage.h: a vector of CLAP's audio tower for each window of 10 s. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/clap/clap.h"
#include "workers/stages/footprint.h"
#include "workers/stages/hearing_params.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/windowed.h"

#define SAMPLES_PER_MS 16
#define CLAP_VALUES 512 /* of a vector, as it is published */

/* A lane's own. */
struct embedded {
    float *values; /* [count][size] */
    struct result_vector *vectors;
    uint32_t count, capacity;
};

struct embed_audio_params {
    /* 10000: from one window of 10 s to the next; not more, or it would skip sound */
    uint32_t hop_ms;
    struct hearing_words hearing;
};

struct embedding {
    struct windowed *windowed; /* first: windowed.h */
    struct embed_audio_params params;
    enum precision precision;
    struct clap *model;
    struct clap_audio *audio; /* [batch] */
    float *vectors;           /* [batch][size] */
};

static int room_for(struct embedded *e, uint32_t size, struct err *err)
{
    uint32_t capacity = 2 * e->capacity + 32;
    float *values;
    struct result_vector *vectors;

    if (e->count < e->capacity)
        return 0;
    values = realloc(e->values, (size_t)capacity * size * sizeof(*values));
    if (values)
        e->values = values;
    vectors = realloc(e->vectors, capacity * sizeof(*vectors));
    if (vectors)
        e->vectors = vectors;
    if (!values || !vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u vectors", capacity);
    e->capacity = capacity;
    return 0;
}

static int store_audio_vector(const struct embedding *m, const struct windowed_item *it,
                              const float *values, struct err *err)
{
    uint32_t size = clap_size(m->model);
    struct embedded *e = it->state;
    int64_t start = it->first * m->params.hop_ms;
    int rc = room_for(e, size, err);

    if (rc != 0)
        return rc;
    memcpy(e->values + (size_t)e->count * size, values, size * sizeof(*values));
    e->vectors[e->count++] =
        (struct result_vector){.start_ms = start, .end_ms = start + it->samples / SAMPLES_PER_MS};
    return 0;
}

/* Without the zeros behind a last window: short audio is repeated instead. */
static int embed_audio_windows(void *arg, const struct windowed_item *items, uint32_t n,
                               struct err *err)
{
    struct embedding *m = arg;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        m->audio[i] = (struct clap_audio){items[i].pcm, (size_t)items[i].samples};
    rc = clap_run_audio(m->model, m->audio, n, m->vectors, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = store_audio_vector(m, &items[i], m->vectors + (size_t)i * clap_size(m->model), err);
    return rc;
}

static int collect_audio_vectors(void *arg, void *state, struct stage_result *ret, struct err *err)
{
    const struct embedding *m = arg;
    struct embedded *e = state;
    uint32_t size = clap_size(m->model);

    (void)err;
    for (uint32_t i = 0; i < e->count; i++)
        e->vectors[i].values = e->values + (size_t)i * size;
    ret->vector_count = e->count;
    ret->vector_size = e->count ? size : 0;
    ret->vectors = e->vectors;
    return 0;
}

static void free_embed_state(void *arg, void *state)
{
    struct embedded *e = state;

    (void)arg;
    free(e->values);
    free(e->vectors);
}

/* ---- opening */

static void embedding_close(void *self)
{
    struct embedding *m = self;

    windowed_free(m->windowed);
    clap_free(m->model);
    free(m->audio);
    free(m->vectors);
    free(m);
}

static int make_room(struct embedding *m, struct err *err)
{
    const struct windowed_plan plan = {
        .what = "sound embeddings",
        .window = CLAP_SAMPLES,
        .hop = (int64_t)m->params.hop_ms * SAMPLES_PER_MS,
        .state_bytes = sizeof(struct embedded),
        .run = embed_audio_windows,
        .finish = collect_audio_vectors,
        .drop = free_embed_state,
        .arg = m,
    };
    uint32_t batch = clap_windows(m->model);

    m->audio = calloc(batch, sizeof(*m->audio));
    m->vectors = malloc((size_t)batch * clap_size(m->model) * sizeof(*m->vectors));
    if (!m->audio || !m->vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u windows of sound", batch);
    return windowed_new(&plan, batch, &m->windowed, err);
}

static int embedding_open(const struct stage_setup *setup, struct backend *be, void **ret,
                          struct err *err)
{
    struct embedding *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return err_set(err, ERR_NOMEM, "no memory for sound embeddings");
    rc = param_table_from_json(stage_embed_audio.params, setup->params, &m->params, err);
    if (rc == 0)
        rc = backend_precision(be, setup->precision, &m->precision, err);
    if (rc == 0)
        rc =
            clap_load(setup->dir, be, setup->precision, CLAP_AUDIO, setup->windows, &m->model, err);
    if (rc == 0)
        rc = make_room(m, err);
    if (rc != 0)
        embedding_close(m);
    else
        *ret = m;
    return rc;
}

static enum precision embedding_precision(const void *self)
{
    return ((const struct embedding *)self)->precision;
}

static uint64_t predict_embed_bytes(enum precision p, uint32_t windows, bool gpu)
{
    return clap_predict_bytes(CLAP_AUDIO, p, windows) + (gpu ? FOOTPRINT_GPU_BYTES : 0);
}

static uint64_t embedding_footprint(const void *self, const struct backend *be)
{
    return predict_embed_bytes(embedding_precision(self), windowed_stage_slots(self),
                               be->ops->record_begin != NULL);
}

static int embedding_predict(const struct stage_setup *setup, bool gpu, uint64_t *ret,
                             struct err *err)
{
    (void)err;
    /* AUTO takes at most what float32 does. */
    *ret =
        predict_embed_bytes(setup->precision == PRECISION_AUTO ? PRECISION_F32 : setup->precision,
                            setup->windows ? setup->windows : 1, gpu);
    return 0;
}

/* ---- parameters and models */

static const struct param_field fields[] = {
    {.name = "hop_ms",
     .kind = PARAM_U32,
     PARAM_AT(embed_audio_params, hop_ms),
     .low = 100,
     .high = 10000},
    HEARING_FIELDS(embed_audio_params),
};

static const struct embed_audio_params usual = {.hop_ms = 10000, .hearing = HEARING_USUAL};

static int check_embedding(const void *params, struct err *err)
{
    return hearing_check(&((const struct embed_audio_params *)params)->hearing, err);
}

static const struct param_table table = {.what = "sound embedding",
                                         PARAM_TABLE(embed_audio_params, fields, &usual),
                                         .check = check_embedding};

static const struct model_file files[] = {
    {"config.json", false},
    {"preprocessor_config.json", true},
    {"tokenizer.json", true},
};
static const char *const model_types[] = {"clap", NULL};

static uint32_t embedding_bytes_per_s(const char *params)
{
    struct embed_audio_params p;
    struct err ignored = {0};

    if (param_table_from_json(&table, params, &p, &ignored) != 0)
        return 0;
    return STAGE_VECTOR_BYTES(CLAP_VALUES) * 1000u / p.hop_ms + 1;
}

const struct stage_kind stage_embed_audio = {
    WINDOWED_STAGE,
    .name = "embed-audio",
    .cost = {0.25, 62, 0.05},
    .params = &table,
    .hears = true,
    .tail = CLAP_SAMPLES,
    .bytes_per_s = embedding_bytes_per_s,
    .model_types = model_types,
    STAGE_FILES(files),
    .weights = true,
    .option = "embed-audio",
    .help = "vectors of the sound, for search by description (model: laion/clap-htsat-unfused)",
    .manual = "Vectors of the sound, for search by description (model: laion/clap-htsat-unfused).",
    .doing = "to embed as sound",
    .model = "laion/clap-htsat-unfused",
    .hub = "laion/clap-htsat-unfused",
    .open = embedding_open,
    .close = embedding_close,
    .precision = embedding_precision,
    .footprint = embedding_footprint,
    .predict = embedding_predict,
};
