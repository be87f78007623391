/* Whisper as a family of asr_model.h. */
#include <pthread.h>

#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper_heads.h"
#include "workers/models/whisper/whisper_session.h"
#include "workers/models/whisper/whisper_vocabulary.h"
#include "workers/text/tokenizer/vocabulary.h"

#define PROMPT_MAX 4      /* start, language, task, no timestamps */
#define FRAME_SAMPLES 320 /* of an encoder position */

_Static_assert(WHISPER_WINDOW_SAMPLES <= ASR_WINDOW_MAX && PROMPT_MAX <= ASR_PROMPT_MAX,
               "what the stage has room for");

uint32_t whisper_prompt(const struct vocabulary *v, struct asr_task task, int32_t *ret)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    uint32_t n = 0;

    ret[n++] = ids->sot;
    if (vocabulary_multilingual(v)) {
        ret[n++] = task.language;
        ret[n++] = task.translate ? ids->translate : ids->transcribe;
    }
    if (!task.timestamps)
        ret[n++] = ids->no_timestamps;
    return n;
}

static int align(struct asr_session *s, uint32_t slot, const int32_t *tokens, uint32_t n,
                 uint32_t frames, float *matrix, double *logprob, struct err *err)
{
    const struct whisper *w = whisper_session_of(s)->w;

    return whisper_align(s, slot, tokens, n, frames, w->heads, w->asr.align_heads, matrix, logprob,
                         err);
}

static uint64_t predict(const struct asr_model *m, bool halves, struct asr_shape shape)
{
    return whisper_predict_bytes(whisper_config(m), m->precision, m->cache, halves, shape);
}

static const struct asr_ops ops = {
    .free = whisper_free,
    .default_slots = whisper_default_slots,
    .predict = predict,
    .meter = whisper_meter,
    .prompt = whisper_prompt,
    .session_new = whisper_session_new,
    .session_free = whisper_session_free,
    .session_rules = whisper_session_rules,
    .encode_begin = whisper_encode_begin,
    .encoded = whisper_encoded,
    .choose_begin = whisper_choose_begin,
    .choose_end = whisper_choose_end,
    .branch = whisper_branch,
    .align = align,
};

static uint32_t count_heads(const struct vocabulary *v, const struct whisper_config *c,
                            struct whisper_head *ret)
{
    uint32_t n = whisper_heads(v, c, ret, WHISPER_MAX_ALIGN_HEADS);

    return n < WHISPER_MAX_ALIGN_HEADS ? n : WHISPER_MAX_ALIGN_HEADS;
}

void whisper_describe(struct whisper *w, enum precision precision)
{
    w->asr = (struct asr_model){
        .ops = &ops,
        .window_samples = WHISPER_WINDOW_SAMPLES,
        .positions = w->config.max_target_positions,
        .vocab_size = w->config.vocab_size,
        .prompt_max = PROMPT_MAX,
        .align_heads = count_heads(NULL, &w->config, w->heads),
        .frame_samples = FRAME_SAMPLES,
        .language = "en",
        .precision = precision,
        .cache = cache_precision_resolve(CACHE_AUTO, precision),
    };
}

/* ---- the family */

struct reading {
    const char *dir;
    struct vocabulary *vocab;
    int rc; /* err has a word of optional files that are not there, too */
    struct err err;
};

static void *read_vocabulary(void *arg)
{
    struct reading *r = arg;

    r->rc = whisper_vocabulary(r->dir, &r->vocab, &r->err);
    return NULL;
}

/* Tens of thousands of tokens take as long as the weights of a small model: beside each other. */
static int load_both(const struct asr_setup *setup, struct backend *be, struct asr_model **ret,
                     struct err *err)
{
    struct reading r = {.dir = setup->dir};
    pthread_t reader;
    bool beside = pthread_create(&reader, NULL, read_vocabulary, &r) == 0;
    int rc = whisper_load(setup->dir, be, setup->precision, ret, err);
    struct whisper *w = rc == 0 ? whisper_of(*ret) : NULL;

    if (beside)
        pthread_join(reader, NULL);
    else if (w)
        read_vocabulary(&r);
    if (w && r.rc == 0) {
        w->asr.vocab = r.vocab;
        w->asr.align_heads = count_heads(r.vocab, &w->config, w->heads);
        return 0;
    }
    vocabulary_free(r.vocab);
    if (w) {
        whisper_free(*ret);
        *ret = NULL;
        *err = r.err;
        rc = r.rc;
    }
    return rc;
}

static int open_model(const struct asr_setup *setup, struct backend *be, struct asr_model **ret,
                      struct err *err)
{
    int rc = setup->text ? load_both(setup, be, ret, err)
                         : whisper_load(setup->dir, be, setup->precision, ret, err);

    if (rc == 0)
        whisper_keep(*ret, setup->cache);
    return rc;
}

static int check_weights(const struct weights *weights, const char *dir, const struct vocabulary *v,
                         uint32_t *positions, struct err *err)
{
    struct weight t, conv, place;

    if (!weights_find(weights, "model.decoder.embed_tokens.weight", &t) || t.rank != 2 ||
        !weights_find(weights, "model.decoder.embed_positions.weight", &place) || place.rank != 2 ||
        !weights_find(weights, "model.encoder.conv1.weight", &conv))
        return err_set(err, ERR_MODEL, "the weights in %s are not those of a Whisper model", dir);
    if (vocabulary_size(v) > t.dim[0])
        return err_set(err, ERR_MODEL,
                       "tokenizer.json has %u tokens and the weights have %llu; both must be of "
                       "one model",
                       vocabulary_size(v), (unsigned long long)t.dim[0]);
    *positions = place.dim[0] < UINT32_MAX ? (uint32_t)place.dim[0] : UINT32_MAX;
    return 0;
}

static int check_headers(const char *dir, const struct vocabulary *v, uint32_t *positions,
                         struct err *err)
{
    struct weights *weights = NULL;
    int rc = weights_open(dir, &weights, err);

    if (rc == 0)
        rc = check_weights(weights, dir, v, positions, err);
    weights_close(weights);
    return rc;
}

static int predict_unloaded(const struct asr_setup *setup, bool halves, struct asr_shape shape,
                            uint64_t *ret, struct err *err)
{
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS];
    struct whisper_config config;
    int rc = whisper_read_sizes(setup->dir, &config, err);

    if (rc != 0)
        return rc;
    if (shape.align_heads)
        shape.align_heads = count_heads(NULL, &config, heads);
    *ret = whisper_predict_bytes(&config, setup->precision,
                                 cache_precision_resolve(setup->cache, setup->precision), halves,
                                 shape);
    return 0;
}

const struct asr_family whisper_family = {
    .open = open_model,
    .vocabulary = whisper_vocabulary,
    .check = check_headers,
    .predict = predict_unloaded,
};
