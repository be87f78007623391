/* Transcription behind stage.h: its models, and lanes of transcribe.h. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/asr_family.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/footprint.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/synthetic_load.h"
#include "workers/stages/transcribe/transcribe.h"

struct transcription {
    struct transcribe_params params;
    struct asr_model *model;
    struct silero *vad; /* NULL: no voice activity */
    struct asr_shape shape;
    struct transcriber *transcriber;
    struct spoken *spoken; /* lanes; owned */
};

/* A lane, and the callback for its result. */
struct spoken {
    struct spoken *next;
    struct transcription *of;
    struct lane *lane;
    stage_done done;
    void *done_arg;
};

static int load_transcribe_models(struct transcription *t, const struct stage_setup *setup,
                                  struct backend *be, const char *vad_file, struct err *err)
{
    const struct asr_setup asr = {setup->dir, setup->precision, setup->cache, .text = true};
    int rc = asr_family_of(setup->dir)->open(&asr, be, &t->model, err);

    if (rc == 0 && vad_file)
        rc = silero_load(vad_file, be, 0, &t->vad, err);
    if (rc == 0)
        transcribe_shape(&t->params, t->model->align_heads, &t->shape);
    return rc;
}

static int tune_with_drill(struct transcription *t, const struct stage_setup *setup,
                           uint32_t *slots, uint32_t *windows, struct err *err)
{
    struct stage *synthetic_load = NULL;
    int rc = synthetic_new(t->model, &t->shape, transcribe_rows(&t->params), &synthetic_load, err);

    if (rc == 0)
        rc = setup->tune(setup->tune_arg, synthetic_load, slots, windows, err);
    stage_close(synthetic_load);
    return rc;
}

static int make_room(struct transcription *t, const struct stage_setup *setup, struct err *err)
{
    uint32_t slots = setup->slots, windows = setup->windows;
    int rc = setup->tune ? tune_with_drill(t, setup, &slots, &windows, err) : 0;

    if (rc == 0)
        rc = transcriber_new(t->model, t->vad, &t->params, slots, windows, &t->transcriber, err);
    return rc;
}

static void transcription_close(void *self)
{
    struct transcription *t = self;

    transcriber_free(t->transcriber);
    silero_free(t->vad);
    if (t->model)
        t->model->ops->free(t->model);
    while (t->spoken) {
        struct spoken *next = t->spoken->next;

        free(t->spoken);
        t->spoken = next;
    }
    free(t);
}

static int transcription_open(const struct stage_setup *setup, struct backend *be, void **ret,
                              struct err *err)
{
    struct transcription *t = calloc(1, sizeof(*t));
    char *vad_file = NULL;
    int rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for a transcription");
    rc = transcribe_params_from_json(setup->params, &t->params, err);
    if (rc == 0)
        rc = silero_find_same(t->params.vad_model, t->params.vad_hash, &vad_file, err);
    if (rc == 0)
        rc = load_transcribe_models(t, setup, be, vad_file, err);
    if (rc == 0)
        rc = make_room(t, setup, err);
    free(vad_file);
    if (rc != 0)
        transcription_close(t);
    else
        *ret = t;
    return rc;
}

static uint32_t transcription_slots(const void *self)
{
    return transcriber_slots(((const struct transcription *)self)->transcriber);
}

static uint32_t transcription_windows(const void *self)
{
    return transcriber_windows(((const struct transcription *)self)->transcriber);
}

static const struct err *transcription_lack(const void *self)
{
    return transcriber_lack(((const struct transcription *)self)->transcriber);
}

static enum precision transcription_precision(const void *self)
{
    return ((const struct transcription *)self)->model->precision;
}

static enum cache_precision transcription_cache(const void *self)
{
    return ((const struct transcription *)self)->model->cache;
}

/* Only a GPU's backend records steps. */
static uint64_t transcription_footprint(const void *self, const struct backend *be)
{
    const struct transcription *t = self;
    const bool gpu = be->ops->record_begin != NULL;
    const struct footprint_device d = {gpu, be->info.deterministic, !gpu && backend_host_halves()};

    const struct asr_shape shape =
        footprint_shape(t->shape, &d, transcription_slots(t), transcription_windows(t));

    return footprint_bytes(t->model->ops->predict(t->model, d.halves, shape), t->vad != NULL, &d);
}

/* Without the vocabulary: of a model that names no heads for the words' times. */
static int transcription_predict(const struct stage_setup *setup, bool gpu, uint64_t *ret,
                                 struct err *err)
{
    const struct footprint_device d = {gpu, false, !gpu && backend_host_halves()};
    struct transcribe_params params;
    struct asr_shape shape;
    const struct asr_setup asr = {
        .dir = setup->dir,
        .precision = setup->precision == PRECISION_AUTO ? PRECISION_F32 : setup->precision,
        .cache = setup->cache,
    };
    uint32_t slots = setup->slots ? setup->slots : 1;
    uint64_t bytes = 0;
    int rc = transcribe_params_from_json(setup->params, &params, err);

    if (rc != 0)
        return rc;
    transcribe_shape(&params, 1, &shape);
    shape = footprint_shape(shape, &d, slots, setup->windows ? setup->windows : slots);
    rc = asr_family_of(setup->dir)->predict(&asr, d.halves, shape, &bytes, err);
    *ret = footprint_bytes(bytes, params.vad_model[0] != 0, &d);
    return rc;
}

static void remove_lane_entry(struct spoken *s)
{
    struct spoken **at = &s->of->spoken;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s);
}

static void on_lane(void *arg, const struct lane_result *r, const struct err *err)
{
    struct spoken *s = arg;
    struct stage_result result = {0};

    if (r)
        result = (struct stage_result){
            .language = r->language,
            .language_prob = r->language_prob,
            .end_sample = r->end_sample,
            .windows = r->windows,
            .segment_count = r->segment_count,
            .segments = r->segments,
            .account = r->account,
        };
    s->done(s->done_arg, r ? &result : NULL, err);
    remove_lane_entry(s);
}

static int transcription_add(void *self, const struct stage_work *work, stage_done done,
                             void *done_arg, struct stage_lane **ret, struct err *err)
{
    struct transcription *t = self;
    struct spoken *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a shard");
    *s = (struct spoken){.next = t->spoken, .of = t, .done = done, .done_arg = done_arg};
    t->spoken = s;
    rc = work->known_text ? transcriber_add_known_text(t->transcriber, work->start_sample,
                                                       work->known_text, work->known_text_source,
                                                       work->source, on_lane, s, &s->lane, err)
                          : transcriber_add(t->transcriber, work->start_sample, work->language,
                                            work->seed, work->source, on_lane, s, &s->lane, err);
    if (rc != 0)
        remove_lane_entry(s);
    else
        *ret = (struct stage_lane *)s;
    return rc;
}

static void transcription_remove(void *self, struct stage_lane *lane)
{
    struct transcription *t = self;
    struct spoken *s = (struct spoken *)lane;

    transcriber_remove(t->transcriber, s->lane);
    remove_lane_entry(s);
}

static int transcription_step(void *self, bool *progress, struct err *err)
{
    return transcriber_step(((struct transcription *)self)->transcriber, progress, err);
}

static void transcription_on_beat(void *self, void (*beat)(void *arg), void *arg)
{
    transcriber_on_beat(((struct transcription *)self)->transcriber, beat, arg);
}

static void transcription_stats(const void *self, uint32_t *lanes, uint32_t *windows,
                                int64_t *samples_done)
{
    transcriber_stats(((const struct transcription *)self)->transcriber, lanes, windows,
                      samples_done);
}

const struct stage_kind stage_transcribe = {
    .name = "transcribe",
    .cost = {.thread_s = 0.4}, /* with voice activity and word times */
    .params = &transcribe_table,
    .hears = true,
    .apart = true,
    .few_windows = true,
    .model_types = asr_model_types,
    .weights = true,
    .option = "model",
    .doing = "to transcribe",
    .model = MODEL_DEMO,
    .open = transcription_open,
    .synthetic_load = synthetic_open,
    .close = transcription_close,
    .slots = transcription_slots,
    .windows = transcription_windows,
    .lack = transcription_lack,
    .precision = transcription_precision,
    .cache = transcription_cache,
    .footprint = transcription_footprint,
    .predict = transcription_predict,
    .add = transcription_add,
    .remove = transcription_remove,
    .step = transcription_step,
    .on_beat = transcription_on_beat,
    .stats = transcription_stats,
};
