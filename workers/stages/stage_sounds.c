/* Sounds behind stage.h: YAMNet's scores of each patch of 0.96 s, every 0.48 s, as sounds.
 *
 * A class is heard in a patch where its score reaches the threshold, and while patches in which it
 * is heard overlap or have at most `max_gap_ms` between them, that is one sound, whose score is the
 * highest. One that goes on over a shard's end is two: each shard's is a result of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/yamnet/yamnet.h"
#include "workers/stages/footprint.h"
#include "workers/stages/hearing_params.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/windowed.h"

#define SAMPLES_PER_MS 16
#define PATCH_MS 960
#define HOP_MS (YAMNET_HOP / SAMPLES_PER_MS)

/* A lane's own. */
struct noted {
    struct result_sound *open; /* [classes]: the sound that may go on; name NULL: none */
    struct result_sound *sounds;
    uint32_t count, capacity;
    float *values; /* [vector_count][YAMNET_VECTOR], where they are kept */
    struct result_vector *vectors;
    uint32_t vector_count, vector_room;
};

struct sounds_params {
    float threshold;     /* 0.3: a class is heard where its score reaches it */
    uint32_t max_gap_ms; /* 960: shorter gaps of one class are closed */
    uint32_t min_ms;     /* 0: shorter sounds are left out */
    struct hearing_words hearing;
    bool vectors; /* false: keep YAMNet's own vectors, one for each 0.48 s, too */
};

struct listening {
    struct windowed *windowed; /* first: windowed.h */
    struct sounds_params params;
    struct yamnet *model;
    float *scores;  /* [batch][classes] */
    float *vectors; /* [batch][YAMNET_VECTOR]; NULL: not wanted */
};

/* ---- sounds */

static int add_sound(struct noted *n, const struct result_sound *s, struct err *err)
{
    if (n->count == n->capacity) {
        uint32_t capacity = 2 * n->capacity + 64;
        struct result_sound *more = realloc(n->sounds, capacity * sizeof(*more));

        if (!more)
            return err_set(err, ERR_NOMEM, "no memory for %u sounds", capacity);
        n->sounds = more;
        n->capacity = capacity;
    }
    n->sounds[n->count++] = *s;
    return 0;
}

static int close_sound(const struct listening *l, struct noted *n, uint32_t class_id,
                       struct err *err)
{
    struct result_sound s = n->open[class_id];

    n->open[class_id].name = NULL;
    if (!s.name || s.end_ms - s.start_ms < l->params.min_ms)
        return 0;
    return add_sound(n, &s, err);
}

/* The class is detected from start to end. Calls come in the order of patches. */
static int record_sound(const struct listening *l, struct noted *n, uint32_t class_id,
                        int64_t start, int64_t end, float score, struct err *err)
{
    struct result_sound *s = &n->open[class_id];
    int rc;

    if (s->name && start - s->end_ms <= l->params.max_gap_ms) {
        s->end_ms = end;
        s->score = result_probability(fmaxf(s->score, score));
        return 0;
    }
    rc = close_sound(l, n, class_id, err);
    *s = (struct result_sound){start, end, class_id, yamnet_class_name(l->model, class_id),
                               result_probability(score)};
    return rc;
}

/* The patch's own length, or to the recording's end. */
static int64_t patch_end(const struct windowed_item *it, uint32_t patch)
{
    int64_t start = (it->first + patch) * HOP_MS;
    int64_t heard = (it->samples - (int64_t)patch * YAMNET_HOP) / SAMPLES_PER_MS;

    return start + (heard < PATCH_MS ? heard : PATCH_MS);
}

static int hear_patch(const struct listening *l, const struct windowed_item *it, uint32_t patch,
                      struct err *err)
{
    uint32_t classes = yamnet_classes(l->model);
    const float *scores = l->scores + (size_t)patch * classes;
    int rc = 0;

    for (uint32_t c = 0; rc == 0 && c < classes; c++)
        if (scores[c] >= l->params.threshold)
            rc = record_sound(l, it->state, c, (it->first + patch) * HOP_MS, patch_end(it, patch),
                              scores[c], err);
    return rc;
}

/* ---- vectors */

static int room_for_vector(struct noted *n, struct err *err)
{
    uint32_t capacity = 2 * n->vector_room + 64;
    float *values;
    struct result_vector *vectors;

    if (n->vector_count < n->vector_room)
        return 0;
    values = realloc(n->values, (size_t)capacity * YAMNET_VECTOR * sizeof(*values));
    if (values)
        n->values = values;
    vectors = realloc(n->vectors, capacity * sizeof(*vectors));
    if (vectors)
        n->vectors = vectors;
    if (!values || !vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u vectors", capacity);
    n->vector_room = capacity;
    return 0;
}

/* Scales the vector to length 1. A vector of zeros has no direction, and is left out. */
static int keep_vector(const struct listening *l, const struct windowed_item *it, uint32_t patch,
                       struct err *err)
{
    const float *from = l->vectors + (size_t)patch * YAMNET_VECTOR;
    struct noted *n = it->state;
    double sum = 0;
    float *to;
    int rc = room_for_vector(n, err);

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < YAMNET_VECTOR; i++)
        sum += (double)from[i] * (double)from[i];
    if (!(sum > 0))
        return 0;
    to = n->values + (size_t)n->vector_count * YAMNET_VECTOR;
    for (uint32_t i = 0; i < YAMNET_VECTOR; i++)
        to[i] = (float)((double)from[i] / sqrt(sum));
    n->vectors[n->vector_count++] = (struct result_vector){.start_ms = (it->first + patch) * HOP_MS,
                                                           .end_ms = patch_end(it, patch)};
    return 0;
}

/* ---- running */

static int detect_sounds(void *arg, const struct windowed_item *items, uint32_t n, struct err *err)
{
    struct listening *l = arg;
    struct noted *noted = items[0].state;
    int rc =
        yamnet_run(l->model, items[0].pcm, (size_t)items[0].samples, l->scores, l->vectors, err);

    (void)n; /* 1: a stretch */
    if (rc == 0 && !noted->open)
        noted->open = calloc(yamnet_classes(l->model), sizeof(*noted->open));
    if (rc == 0 && !noted->open)
        return err_set(err, ERR_NOMEM, "no memory for sounds");
    for (uint32_t p = 0; rc == 0 && p < items[0].windows; p++) {
        rc = hear_patch(l, &items[0], p, err);
        if (rc == 0 && l->vectors)
            rc = keep_vector(l, &items[0], p, err);
    }
    return rc;
}

static int by_start(const void *a, const void *b)
{
    const struct result_sound *x = a, *y = b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    return x->class_id < y->class_id ? -1 : x->class_id > y->class_id;
}

static int collect_sounds(void *arg, void *state, struct stage_result *ret, struct err *err)
{
    const struct listening *l = arg;
    struct noted *n = state;
    int rc = 0;

    for (uint32_t c = 0; rc == 0 && n->open && c < yamnet_classes(l->model); c++)
        rc = close_sound(l, n, c, err);
    if (rc != 0)
        return rc;
    if (n->count)
        qsort(n->sounds, n->count, sizeof(*n->sounds), by_start);
    for (uint32_t i = 0; i < n->vector_count; i++)
        n->vectors[i].values = n->values + (size_t)i * YAMNET_VECTOR;
    ret->sound_count = n->count;
    ret->sounds = n->sounds;
    ret->vector_count = n->vector_count;
    ret->vector_size = n->vector_count ? YAMNET_VECTOR : 0;
    ret->vectors = n->vectors;
    return 0;
}

static void free_sound_state(void *arg, void *state)
{
    struct noted *n = state;

    (void)arg;
    free(n->open);
    free(n->sounds);
    free(n->values);
    free(n->vectors);
}

/* ---- opening */

static void listening_close(void *self)
{
    struct listening *l = self;

    windowed_free(l->windowed);
    yamnet_free(l->model);
    free(l->scores);
    free(l->vectors);
    free(l);
}

static int make_room(struct listening *l, struct err *err)
{
    const struct windowed_plan plan = {
        .what = "sounds",
        .window = YAMNET_PATCH,
        .hop = YAMNET_HOP,
        .joined = true,
        .state_bytes = sizeof(struct noted),
        .run = detect_sounds,
        .finish = collect_sounds,
        .drop = free_sound_state,
        .arg = l,
    };
    uint32_t batch = yamnet_patches(l->model);

    l->scores = malloc((size_t)batch * yamnet_classes(l->model) * sizeof(*l->scores));
    if (l->params.vectors)
        l->vectors = malloc((size_t)batch * YAMNET_VECTOR * sizeof(*l->vectors));
    if (!l->scores || (l->params.vectors && !l->vectors))
        return err_set(err, ERR_NOMEM, "no memory for %u patches of sound", batch);
    return windowed_new(&plan, batch, &l->windowed, err);
}

static int listening_open(const struct stage_setup *setup, struct backend *be, void **ret,
                          struct err *err)
{
    struct listening *l = calloc(1, sizeof(*l));
    int rc;

    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for sounds");
    rc = param_table_from_json(stage_sounds.params, setup->params, &l->params, err);
    if (rc == 0)
        rc = yamnet_load(setup->dir, be, setup->windows, &l->model, err);
    if (rc == 0)
        rc = make_room(l, err);
    if (rc != 0)
        listening_close(l);
    else
        *ret = l;
    return rc;
}

static uint64_t predict_sounds_bytes(uint32_t windows, bool gpu)
{
    return yamnet_predict_bytes(windows) + (gpu ? FOOTPRINT_GPU_BYTES : 0);
}

static uint64_t listening_footprint(const void *self, const struct backend *be)
{
    return predict_sounds_bytes(windowed_stage_slots(self), be->ops->record_begin != NULL);
}

static int listening_predict(const struct stage_setup *setup, bool gpu, uint64_t *ret,
                             struct err *err)
{
    (void)err;
    *ret = predict_sounds_bytes(setup->windows ? setup->windows : 1, gpu);
    return 0;
}

/* ---- parameters and models */

#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(sounds_params, key)
#define HOUR_MS 3600000

static const struct param_field fields[] = {
    {FIELD(threshold, FLOAT), .high = 1},  {FIELD(max_gap_ms, U32), .high = HOUR_MS},
    {FIELD(min_ms, U32), .high = HOUR_MS}, {FIELD(vectors, BOOL)},
    HEARING_FIELDS(sounds_params),
};

static const struct sounds_params usual = {
    .threshold = 0.3f, .max_gap_ms = 960, .hearing = HEARING_USUAL};

static int check_sounds(const void *params, struct err *err)
{
    /* At 0 every class of every patch would be a sound. */
    if (((const struct sounds_params *)params)->threshold <= 0)
        return err_set(err, ERR_USAGE, "threshold is 0: every class would be heard everywhere");
    return hearing_check(&((const struct sounds_params *)params)->hearing, err);
}

static const struct param_table table = {
    .what = "sounds", PARAM_TABLE(sounds_params, fields, &usual), .check = check_sounds};

static const struct model_file files[] = {{"config.json", false}, {"classes.csv", false}};
static const char *const model_types[] = {"yamnet", NULL};

static uint32_t listening_bytes_per_s(const char *params)
{
    struct sounds_params p;
    struct err ignored = {0};

    if (param_table_from_json(&table, params, &p, &ignored) != 0 || !p.vectors)
        return 0;
    return STAGE_VECTOR_BYTES(YAMNET_VECTOR) * 16000u / YAMNET_HOP + 1;
}

const struct stage_kind stage_sounds = {
    WINDOWED_STAGE,
    .name = "sounds",
    .cost = {0.27, 22, 0.07},
    .params = &table,
    .hears = true,
    .tail = YAMNET_PATCH,
    .bytes_per_s = listening_bytes_per_s,
    .model_types = model_types,
    STAGE_FILES(files),
    .weights = true,
    .option = "sounds",
    .help = "speech, music, applause, laughter and others (model: yamnet)",
    .manual = "Which sounds there are: speech, music, applause, laughter, sirens and others "
              "(model: yamnet).",
    .doing = "to listen to for sounds",
    .model = "yamnet",
    .hub = "yamnet",
    .open = listening_open,
    .close = listening_close,
    .precision = windowed_stage_f32,
    .footprint = listening_footprint,
    .predict = listening_predict,
};
