/* Text embeddings behind stage.h: a vector for each passage of a recording's transcript. A lane is
 * a recording's passages; calls are filled from many lanes, oldest first. A passage of which the
 * model could not read the end is embedded in pieces, and has the mean of their vectors. */
#include "workers/stages/stage_embed_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/backend.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/files/weight_layout.h"
#include "workers/stages/footprint.h"
#include "workers/stages/stage_kind.h"

#define BATCH_GPU 256 /* pieces of a call: some 25,000 tokens */
#define BATCH_HOST 16 /* a second or two with a small model: the engine shows that it lives */
#define TOKENS 128    /* of a passage, about */

/* ---- passages in pieces */

static bool within_letter(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* The offset at which to cut n bytes, more than 0; 0: they are one letter. */
static size_t find_cut_point(const char *s, size_t n)
{
    size_t mid = n / 2, at;

    for (size_t d = 0; d <= n / 4; d++) {
        if (mid + d < n && s[mid + d] == ' ')
            return mid + d;
        if (d < mid && s[mid - d] == ' ')
            return mid - d;
    }
    for (at = mid; at > 0 && within_letter(s[at]); at--)
        ;
    if (at > 0)
        return at;
    for (at = mid; at < n && within_letter(s[at]); at++)
        ;
    return at < n ? at : 0;
}

/* Tokens that a piece may have: what is put before it takes some of the model's, and of a prefix
 * that takes more than half of them the text's end is left away, as the model does. */
static int find_limit(struct pieces *p, const struct embedder *m, struct err *err)
{
    uint32_t prefix = 0, none = 0, most = embedder_max_tokens(m);
    int rc = embedder_count(m, embedder_prefix(m, EMBED_PASSAGE), &prefix, err);

    if (rc == 0)
        rc = embedder_count(m, "", &none, err);
    if (rc == 0)
        p->limit = prefix - none > most / 2 ? most - most / 2 : most - (prefix - none);
    return rc;
}

/* Takes over text. */
static int add_text_piece(struct pieces *p, char *text, uint32_t of, struct err *err)
{
    if (p->n == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 16;
        char **texts = realloc(p->text, capacity * sizeof(*texts));
        uint32_t *ofs;

        if (texts)
            p->text = texts;
        ofs = texts ? realloc(p->of, capacity * sizeof(*ofs)) : NULL;
        if (!ofs) {
            free(text);
            return err_set(err, ERR_NOMEM, "no memory for %u pieces of passages", capacity);
        }
        p->of = ofs;
        p->capacity = capacity;
    }
    p->text[p->n] = text;
    p->of[p->n++] = of;
    return 0;
}

/* Each call halves n, so that it is not deep. */
static int add_part(struct pieces *p, const struct embedder *m, const char *s, size_t n,
                    uint32_t of, struct err *err)
{
    char *text = strndup(s, n);
    uint32_t tokens = 0;
    size_t cut = 0;
    int rc;

    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for a passage");
    rc = embedder_count(m, text, &tokens, err);
    if (rc == 0 && tokens > p->limit)
        cut = find_cut_point(s, n);
    if (rc == 0 && cut == 0)
        return add_text_piece(p, text, of, err);
    free(text);
    if (rc == 0)
        rc = add_part(p, m, s, cut, of, err);
    return rc != 0 ? rc : add_part(p, m, s + cut, n - cut, of, err);
}

int pieces_add(struct pieces *p, const struct embedder *m, const char *text, uint32_t of,
               struct err *err)
{
    int rc = p->limit ? 0 : find_limit(p, m, err);

    return rc != 0 ? rc : add_part(p, m, text, strlen(text), of, err);
}

void pieces_free(struct pieces *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        free(p->text[i]);
    free(p->text);
    free(p->of);
    *p = (struct pieces){0};
}

/* ---- the stage */

struct passages {
    struct passages *next; /* oldest first */
    struct stage_work work;
    stage_done done;
    void *done_arg;
    struct pieces pieces;          /* owned */
    uint32_t embedded;             /* pieces that have been read */
    float *values;                 /* owned: [passage_count][size] */
    struct result_vector *vectors; /* owned: [passage_count] */
};

struct embed_text_params {
    uint32_t chars;  /* 400: of a passage, about */
    char source[80]; /* the transcription: "<model hash>/<hash of its parameters>" */
};

struct reading {
    struct embed_text_params params;
    enum precision precision;
    struct embedder *model;
    uint32_t batch;
    const char **texts; /* [batch] */
    float *values;      /* [batch][size] */
    struct passages *lanes;
    uint32_t lane_count, flying;
    int64_t samples_done;
    struct err lack;
    void (*beat)(void *arg);
    void *beat_arg;
};

/* ---- opening */

static void passages_free(struct passages *p)
{
    pieces_free(&p->pieces);
    free(p->values);
    free(p->vectors);
    free(p);
}

static void reading_close(void *self)
{
    struct reading *r = self;

    while (r->lanes) {
        struct passages *next = r->lanes->next;

        passages_free(r->lanes);
        r->lanes = next;
    }
    embedder_free(r->model);
    free(r->texts);
    free(r->values);
    free(r);
}

static uint32_t batch_of(const struct stage_setup *setup, bool gpu)
{
    if (setup->windows)
        return setup->windows;
    return gpu ? BATCH_GPU : BATCH_HOST;
}

static int make_room(struct reading *r, struct err *err)
{
    r->texts = calloc(r->batch, sizeof(*r->texts));
    r->values = malloc((size_t)r->batch * embedder_size(r->model) * sizeof(*r->values));
    if (!r->texts || !r->values)
        return err_set(err, ERR_NOMEM, "no memory for %u passages", r->batch);
    return 0;
}

static int reading_open(const struct stage_setup *setup, struct backend *be, void **ret,
                        struct err *err)
{
    struct reading *r = calloc(1, sizeof(*r));
    int rc;

    if (!r)
        return err_set(err, ERR_NOMEM, "no memory for text embeddings");
    r->batch = batch_of(setup, be->info.wide_batches);
    rc = param_table_from_json(stage_embed_text.params, setup->params, &r->params, err);
    if (rc == 0)
        rc = backend_precision(be, setup->precision, &r->precision, err);
    if (rc == 0)
        rc = embedder_load(setup->dir, be, setup->precision, &r->model, err);
    if (rc == 0)
        rc = make_room(r, err);
    if (rc != 0)
        reading_close(r);
    else
        *ret = r;
    return rc;
}

/* ---- lanes */

static int fill_lane(const struct reading *r, const struct stage_work *work, struct passages *p,
                     struct err *err)
{
    uint32_t n = work->passage_count;
    size_t size = embedder_size(r->model);
    int rc = 0;

    p->values = malloc((n ? n : 1) * size * sizeof(*p->values));
    p->vectors = calloc(n ? n : 1, sizeof(*p->vectors));
    if (!p->values || !p->vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u passages", n);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        p->vectors[i] = (struct result_vector){work->passages[i].start_ms, work->passages[i].end_ms,
                                               p->values + i * size};
        rc = pieces_add(&p->pieces, r->model, work->passages[i].text, i, err);
    }
    return rc;
}

static int reading_add(void *self, const struct stage_work *work, stage_done done, void *done_arg,
                       struct stage_lane **ret, struct err *err)
{
    struct reading *r = self;
    struct passages **end = &r->lanes, *p = calloc(1, sizeof(*p));
    int rc;

    if (!p)
        return err_set(err, ERR_NOMEM, "no memory for a recording's passages");
    rc = fill_lane(r, work, p, err);
    if (rc != 0) {
        passages_free(p);
        return rc;
    }
    p->work = *work;
    p->done = done;
    p->done_arg = done_arg;
    while (*end)
        end = &(*end)->next;
    *end = p;
    r->lane_count++;
    *ret = (struct stage_lane *)p;
    return 0;
}

static void unlink_lane(struct reading *r, struct passages *p)
{
    struct passages **at = &r->lanes;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    r->lane_count--;
}

static void reading_remove(void *self, struct stage_lane *lane)
{
    struct reading *r = self;
    struct passages *p = (struct passages *)lane;

    unlink_lane(r, p);
    passages_free(p);
}

static void report_passages(struct reading *r, struct passages *p)
{
    struct stage_result result = {
        .language = "",
        .end_sample = p->work.end(p->work.end_arg),
        .windows = p->work.passage_count,
        .vector_count = p->work.passage_count,
        .vector_size = p->work.passage_count ? embedder_size(r->model) : 0,
        .vectors = p->vectors,
        .account.speech_ms = -1,
    };

    r->samples_done += result.end_sample;
    p->done(p->done_arg, &result, NULL);
}

/* From the list's head again after each: done may add and remove lanes. */
static bool tell_ended(struct reading *r)
{
    struct passages *p = r->lanes;
    bool any = false;

    while (p) {
        if (p->embedded < p->pieces.n) {
            p = p->next;
            continue;
        }
        any = true;
        unlink_lane(r, p);
        report_passages(r, p);
        passages_free(p);
        p = r->lanes;
    }
    return any;
}

/* ---- running */

static uint32_t gather_text_pieces(struct reading *r)
{
    uint32_t n = 0;

    for (struct passages *p = r->lanes; p; p = p->next)
        for (uint32_t i = p->embedded; i < p->pieces.n && n < r->batch; i++)
            r->texts[n++] = p->pieces.text[i];
    return n;
}

static void to_length_1(float *v, size_t n)
{
    double all = 0;

    for (size_t i = 0; i < n; i++)
        all += (double)v[i] * v[i];
    for (size_t i = 0; i < n && all > 0; i++)
        v[i] = (float)(v[i] / sqrt(all));
}

/* Adds the vector of the lane's next piece to its passage's. A passage in one piece keeps the
 * vector unchanged. */
static void take_piece(struct passages *p, const float *v, size_t size)
{
    const uint32_t *of = p->pieces.of, i = p->embedded++;
    float *to = p->values + of[i] * size;
    bool first = i == 0 || of[i - 1] != of[i], last = i + 1 == p->pieces.n || of[i + 1] != of[i];

    if (first)
        memcpy(to, v, size * sizeof(*to));
    for (size_t k = 0; !first && k < size; k++)
        to[k] += v[k];
    if (last && !first)
        to_length_1(to, size);
}

/* The n vectors to the passages that gather took them from. */
static void deal_out(struct reading *r, uint32_t n)
{
    size_t size = embedder_size(r->model);
    uint32_t at = 0;

    for (struct passages *p = r->lanes; p; p = p->next)
        for (; p->embedded < p->pieces.n && at < n; at++)
            take_piece(p, r->values + at * size, size);
}

static int reading_step(void *self, bool *progress, struct err *err)
{
    struct reading *r = self;
    uint32_t n = gather_text_pieces(r);
    int rc = 0;

    *progress = n > 0;
    if (n) {
        r->flying = n;
        rc = embedder_run(r->model, r->texts, n, EMBED_PASSAGE, r->values, err);
        r->flying = 0;
        if (rc == 0)
            deal_out(r, n);
        if (rc == ERR_VRAM && r->batch > 1) {
            r->lack = *err;
            r->batch /= 2;
            rc = 0;
        }
        if (r->beat)
            r->beat(r->beat_arg);
    }
    if (rc == 0 && tell_ended(r))
        *progress = true;
    return rc;
}

/* ---- what is said of it */

static uint32_t reading_slots(const void *self) { return ((const struct reading *)self)->batch; }

static const struct err *reading_lack(const void *self)
{
    return &((const struct reading *)self)->lack;
}

static enum precision reading_precision(const void *self)
{
    return ((const struct reading *)self)->precision;
}

static uint64_t reading_footprint(const void *self, const struct backend *be)
{
    const struct reading *r = self;

    return embedder_predict_bytes(r->model, r->batch * TOKENS) +
           (be->ops->record_begin ? FOOTPRINT_GPU_BYTES : 0);
}

/* The weights as they lie in their files, which is what they take in float32, and half as much
 * again for what is computed with them. */
static int reading_predict(const struct stage_setup *setup, bool gpu, uint64_t *ret,
                           struct err *err)
{
    struct weight_layout l = {0};
    uint64_t bytes = 0;
    int rc = weight_layout_find(setup->dir, &l, err);

    for (uint32_t i = 0; rc == 0 && i < l.file_count; i++) {
        char path[4096];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", setup->dir, l.file[i]);
        if (stat(path, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    weight_layout_free(&l);
    if (rc == 0)
        *ret = bytes + bytes / 2 + (gpu ? FOOTPRINT_GPU_BYTES : 0);
    else
        rc = err->code = ERR_MODEL;
    return rc;
}

static void reading_on_beat(void *self, void (*beat)(void *arg), void *arg)
{
    struct reading *r = self;

    r->beat = beat;
    r->beat_arg = arg;
}

static void reading_stats(const void *self, uint32_t *lanes, uint32_t *windows,
                          int64_t *samples_done)
{
    const struct reading *r = self;

    *lanes = r->lane_count;
    *windows = r->flying;
    *samples_done = r->samples_done;
}

/* ---- parameters and models */

#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(embed_text_params, key)

static const struct param_field fields[] = {
    {FIELD(chars, U32), .low = 20, .high = 10000},
    {FIELD(source, TEXT)},
};

static const struct embed_text_params usual = {.chars = 400};

static const struct param_table table = {.what = "text embedding",
                                         PARAM_TABLE(embed_text_params, fields, &usual)};

static const struct model_file files[] = {
    {"config.json", false},
    {"tokenizer.json", false},
    {"modules.json", true},
    {"1_Pooling/config.json", true},
    {"sentence_bert_config.json", true},
    {"config_sentence_transformers.json", true},
};
static const char *const model_types[] = {"bert", "roberta", "xlm-roberta", "camembert", NULL};

static uint32_t reading_chars(const char *params)
{
    struct embed_text_params p = usual;
    struct err ignored = {0};

    (void)param_table_from_json(&table, params, &p, &ignored);
    return p.chars;
}

const struct stage_kind stage_embed_text = {
    .name = "embed-text",
    .cost = {0.01, 4.6, 0.01},
    .params = &table,
    .passage_chars = reading_chars,
    .model_types = model_types,
    STAGE_FILES(files),
    .weights = true,
    .option = "embed",
    .help = "vectors of the text, for search by meaning (model: all-MiniLM-L6-v2)",
    .doing = "to embed as text",
    .model = "all-MiniLM-L6-v2",
    .hub = "sentence-transformers/all-MiniLM-L6-v2",
    .open = reading_open,
    .close = reading_close,
    .slots = reading_slots,
    .windows = reading_slots,
    .lack = reading_lack,
    .precision = reading_precision,
    .footprint = reading_footprint,
    .predict = reading_predict,
    .add = reading_add,
    .remove = reading_remove,
    .step = reading_step,
    .on_beat = reading_on_beat,
    .stats = reading_stats,
};
