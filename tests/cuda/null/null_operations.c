/* The table of operations: each is counted, remembers what it wrote, and does nothing. */
#include "tests/cuda/null/null.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Operations that compute nothing need few of their arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* ---- prepared objects: only the memory that they would take is theirs */

struct linear {
    uint64_t bytes;
};
struct conv2d {
    uint64_t bytes;
};
struct lstm {
    uint64_t bytes;
};
struct mel {
    uint64_t bytes;
};
struct filter_bank {
    uint64_t bytes;
};
struct resampling {
    uint64_t bytes;
};

/* Weights pass through the stages, too. */
static int take_weights(struct backend *be, const float *w, uint64_t count, uint32_t each,
                        uint64_t *bytes, struct err *err)
{
    *bytes = count * each;
    null_upload(null_of(be), NULL, w, count * sizeof(float));
    return null_take_bytes(be, *bytes, err);
}

#define FREE_OBJECT(name, type)                               \
    static void name(struct backend *be, struct type *object) \
    {                                                         \
        if (object)                                           \
            null_give_bytes(be, object->bytes);               \
        free(object);                                         \
    }
FREE_OBJECT(free_linear, linear)
FREE_OBJECT(free_conv2d, conv2d)
FREE_OBJECT(free_lstm, lstm)
FREE_OBJECT(free_mel, mel)
FREE_OBJECT(free_filter_bank, filter_bank)
FREE_OBJECT(free_resampling, resampling)

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "out of memory for a device that is pretended");
}

static int make_linear(struct backend *be, enum precision precision, enum linear_use use,
                       int64_t rows, int64_t out, int64_t in, const float *w, const float *bias,
                       struct linear **ret, struct err *err)
{
    struct linear *l = calloc(1, sizeof(*l));
    int rc = l ? take_weights(be, w, (uint64_t)(out * in), precision_weight_bytes(precision),
                              &l->bytes, err)
               : no_memory(err);

    if (rc != 0)
        free(l);
    else
        *ret = l;
    return rc;
}

static int make_conv2d(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                       const float *w, const float *bias, struct conv2d **ret, struct err *err)
{
    uint64_t count =
        (uint64_t)(spec->out * (spec->depthwise ? 1 : spec->in)) * spec->kernel_h * spec->kernel_w;
    struct conv2d *c = calloc(1, sizeof(*c));
    int rc = c ? take_weights(be, w, count, precision_weight_bytes(precision), &c->bytes, err)
               : no_memory(err);

    if (rc != 0)
        free(c);
    else
        *ret = c;
    return rc;
}

static int make_lstm(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                     const struct lstm_weights *w, struct lstm **ret, struct err *err)
{
    struct lstm *l = calloc(1, sizeof(*l));
    int rc = l ? take_weights(be, w->w_ih, (uint64_t)(4 * hidden * in), 4, &l->bytes, err)
               : no_memory(err);

    if (rc != 0)
        free(l);
    else
        *ret = l;
    return rc;
}

static int make_mel(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                    struct err *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : no_memory(err);
}

static int make_filter_bank(struct backend *be, const struct filter_bank_spec *spec,
                            struct filter_bank **ret, struct err *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : no_memory(err);
}

static int make_resampling(struct backend *be, const struct resample_spec *spec, const float *w,
                           struct resampling **ret, struct err *err)
{
    struct resampling *r = calloc(1, sizeof(*r));
    int rc = r ? take_weights(be, w, (uint64_t)spec->up * spec->taps, 4, &r->bytes, err)
               : no_memory(err);

    if (rc != 0)
        free(r);
    else
        *ret = r;
    return rc;
}

/* ---- operations */

static int compute_copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err)
{
    null_computed(be, NULL_CALL_copy, dst, MADE_UP_VECTORS);
    return 0;
}

static int compute_linear(struct backend *be, struct linear *l, struct tensor x,
                          enum epilogue epilogue, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_linear, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_layer_norm(struct backend *be, struct tensor x, struct tensor gamma,
                              struct tensor beta, float epsilon, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_layer_norm, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_add(struct backend *be, struct tensor y, struct tensor x, struct err *err)
{
    null_computed(be, NULL_CALL_add, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_embed(struct backend *be, struct tensor table, struct tensor positions,
                         const struct token_row *rows, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_embed, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_kv_fill(struct backend *be, struct kv kv, const uint32_t *slots,
                           uint32_t windows, struct tensor k, struct tensor v, struct err *err)
{
    null_operate(be, NULL_CALL_kv_fill);
    return 0;
}

static int compute_kv_append(struct backend *be, struct kv kv, const struct token_row *rows,
                             struct tensor k, struct tensor v, struct err *err)
{
    null_operate(be, NULL_CALL_kv_append);
    return 0;
}

static int compute_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                             struct tensor v, struct tensor out, struct err *err)
{
    null_computed(be, NULL_CALL_attention, out, MADE_UP_VECTORS);
    return 0;
}

static int compute_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                                  const struct token_row *rows, uint32_t keys, struct tensor out,
                                  struct err *err)
{
    null_computed(be, NULL_CALL_attention_rows, out, MADE_UP_VECTORS);
    return 0;
}

static int compute_attention_scores(struct backend *be, struct tensor q, struct kv kv,
                                    const struct token_row *rows, uint32_t head, uint32_t keys,
                                    struct tensor out, struct err *err)
{
    null_computed(be, NULL_CALL_attention_scores, out, MADE_UP_VECTORS);
    return 0;
}

static int compute_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                               const uint32_t *at, uint32_t windows, size_t samples,
                               struct tensor out, struct err *err)
{
    null_computed(be, NULL_CALL_filter_bank, out, MADE_UP_VECTORS);
    return 0;
}

static int compute_magnitude(struct backend *be, struct tensor x, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_magnitude, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_conv2d(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                          uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                          struct err *err)
{
    null_computed(be, NULL_CALL_conv2d, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_instance_norm(struct backend *be, uint32_t windows, struct tensor x,
                                 struct tensor gamma, struct tensor beta, float epsilon,
                                 struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_instance_norm, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                            struct tensor x, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_max_pool, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_resample(struct backend *be, struct resampling *r, uint32_t windows,
                            const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                            const struct tensor *beta, struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_resample, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
                        struct tensor y, struct err *err)
{
    null_computed(be, NULL_CALL_pool, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_weighted_stats(struct backend *be, uint32_t windows, struct tensor x,
                                  const uint32_t *of, struct tensor weights, struct tensor y,
                                  struct err *err)
{
    null_computed(be, NULL_CALL_weighted_stats, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                          struct err *err)
{
    null_computed(be, NULL_CALL_gather, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_attention_spans(struct backend *be, struct spans spans, uint32_t heads,
                                   uint32_t head_size, float scale, struct tensor q,
                                   struct tensor k, struct tensor v,
                                   const struct attention_bias *bias, struct tensor out,
                                   struct err *err)
{
    null_computed(be, NULL_CALL_attention_spans, out, MADE_UP_VECTORS);
    return 0;
}

static int compute_after(struct backend *be, struct backend *other, struct err *err)
{
    null_count(be, NULL_CALL_after);
    if (null_of(other)->idle_us > null_of(be)->idle_us)
        null_of(be)->idle_us = null_of(other)->idle_us;
    return 0;
}

static int compute_sync(struct backend *be, struct err *err)
{
    null_count(be, NULL_CALL_sync);
    null_wait_until(null_of(be), null_of(be)->idle_us);
    return 0;
}

static int compute_align(struct backend *be, struct tensor scores, uint32_t heads,
                         const struct align_window *windows, uint32_t n, struct tensor out,
                         struct err *err)
{
    null_computed(be, NULL_CALL_align, out, MADE_UP_ALIGNED);
    return 0;
}

/* Rows are evenly spread over the audio. */
static int compute_warp(struct backend *be, struct tensor matrix,
                        const struct align_window *windows, uint32_t n,
                        const struct align_hold *hold, struct tensor work, uint32_t *first_frame,
                        struct err *err)
{
    uint32_t *row = first_frame;

    null_operate(be, NULL_CALL_warp);
    for (uint32_t i = 0; i < n; row += windows[i++].rows)
        for (uint32_t k = 0; k < windows[i].length; k++)
            row[windows[i].path + k] = k * windows[i].frames / windows[i].length;
    null_stored(null_of(be), first_frame);
    return 0;
}

static int compute_mel(struct backend *be, struct mel *m, const struct audio *audio,
                       uint32_t windows, struct tensor out, struct err *err)
{
    for (uint32_t i = 0; i < windows; i++)
        null_upload(null_of(be), NULL, audio[i].pcm, audio[i].n * sizeof(float));
    null_computed(be, NULL_CALL_mel, out, MADE_UP_VECTORS);
    return 0;
}

/* The state in h and c stays what was written there. */
static int compute_lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
                        const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
                        struct err *err)
{
    null_computed(be, NULL_CALL_lstm, y, MADE_UP_VECTORS);
    return 0;
}

static int compute_activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                            struct err *err)
{
    enum made_up_kind scores = y.cols == 8 ? MADE_UP_SPEECH : MADE_UP_SCORES;

    null_computed(be, NULL_CALL_activate, y, f == ACTIVATION_SIGMOID ? scores : MADE_UP_VECTORS);
    return 0;
}

/* As gpu/cuda lays it out. */
static size_t get_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity)
{
    size_t values = (size_t)heads * 2 * capacity * BACKEND_HEAD_SIZE * dtype_size(type);
    size_t scales = type == DTYPE_I8 ? (size_t)heads * 2 * BACKEND_HEAD_SIZE * sizeof(float) : 0;

    return (values + scales + 63) / 64 * 64;
}

/* ---- opening and closing */

static void write_counts(const struct null_counts *c)
{
#define NAME_OF(name) #name
    static const char *const names[] = {NULL_CALLS(NAME_OF)};
    const char *file = getenv("NIGHTSHIFT_NULL_COUNTS");
    char path[4096];
    FILE *f;

    if (!file || snprintf(path, sizeof(path), "%s.%d", file, (int)getpid()) >= (int)sizeof(path))
        return;
    f = fopen(path, "ae");
    if (!f)
        return;
    for (int i = 0; i < NULL_CALL_COUNT; i++)
        fprintf(f, "%s %llu\n", names[i], (unsigned long long)c->calls[i]);
    fprintf(f, "bytes_up %llu\nbytes_down %llu\n", (unsigned long long)c->bytes_up,
            (unsigned long long)c->bytes_down);
    fprintf(f, "busy_us %llu\nwaited_us %llu\n", (unsigned long long)c->busy_us,
            (unsigned long long)c->waited_us);
    fclose(f);
}

static void add_counts(struct null_counts *to, const struct null_counts *from)
{
    for (int i = 0; i < NULL_CALL_COUNT; i++)
        to->calls[i] += from->calls[i];
    to->bytes_up += from->bytes_up;
    to->bytes_down += from->bytes_down;
    to->busy_us += from->busy_us;
    to->waited_us += from->waited_us;
}

static void free_home(struct null_home *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->block_count; i++)
        null_release_block(&h->blocks[i]);
    free(h->blocks);
    made_up_table_free(h->table);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static void close_device(struct backend *be)
{
    struct null_device *d = null_of(be);

    if (d->home) {
        pthread_mutex_lock(&d->home->lock);
        add_counts(&d->home->counts, &d->counts);
        pthread_mutex_unlock(&d->home->lock);
    }
    for (int i = 0; i < NULL_STAGES; i++)
        free(d->stage[i]);
    for (int i = 0; i < BACKEND_BOXES; i++)
        free(d->box[i].data);
    null_record_free(be, d->recorded);
    if (d->owner == d && d->home) {
        write_counts(&d->home->counts);
        free_home(d->home);
    }
    free(d);
}

static struct null_home *make_home(void)
{
    struct null_home *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    pthread_mutex_init(&h->lock, NULL);
    h->table = made_up_table_new();
    if (!h->table) {
        free_home(h);
        return NULL;
    }
    return h;
}

/* owner NULL: a device of its own. */
static int make_device(const struct backend_info *info, struct null_device *owner,
                       struct null_device **ret, struct err *err)
{
    struct null_device *d = calloc(1, sizeof(*d));
    const char *takes = getenv("NIGHTSHIFT_NULL_TAKES_US");

    if (!d)
        return no_memory(err);
    d->takes_us = takes ? strtol(takes, NULL, 10) : 0;
    d->base = (struct backend){.ops = &null_operations, .info = *info};
    d->base.forked = owner ? &owner->base : NULL;
    d->owner = owner ? owner : d;
    d->home = owner ? owner->home : make_home();
    for (int i = 0; i < NULL_STAGES; i++) {
        d->stage[i] = malloc(NULL_STAGE_BYTES);
        if (d->stage[i])
            memset(d->stage[i], 0, NULL_STAGE_BYTES); /* its pages are there from now on */
    }
    if (!d->home || !d->stage[0] || !d->stage[1] || !d->stage[2] || !d->stage[3]) {
        close_device(&d->base);
        return no_memory(err);
    }
    *ret = d;
    return 0;
}

int null_device_new(const struct backend_info *info, uint64_t budget, struct null_device **ret,
                    struct err *err)
{
    int rc = make_device(info, NULL, ret, err);

    if (rc == 0)
        (*ret)->base.budget = budget;
    return rc;
}

static int fork_device(struct backend *be, bool leads, struct backend **ret, struct err *err)
{
    struct null_device *d;
    int rc = make_device(&be->info, null_of(be)->owner, &d, err);

    (void)leads;
    null_count(be, NULL_CALL_fork);
    if (rc == 0)
        *ret = &d->base;
    return rc;
}

const struct backend_ops null_operations = {
    .close = close_device,
    .sync = compute_sync,
    .alloc = null_alloc,
    .release = null_release,
    .put = null_put,
    .get = null_get,
    .write = null_write,
    .read = null_read,
    .copy = compute_copy,
    .linear_new = make_linear,
    .linear_free = free_linear,
    .linear = compute_linear,
    .layer_norm = compute_layer_norm,
    .add = compute_add,
    .embed = compute_embed,
    .kv_bytes = get_kv_bytes,
    .kv_fill = compute_kv_fill,
    .kv_append = compute_kv_append,
    .attention = compute_attention,
    .attention_rows = compute_attention_rows,
    .attention_scores = compute_attention_scores,
    .align = compute_align,
    .warp = compute_warp,
    .mel_new = make_mel,
    .mel_free = free_mel,
    .mel = compute_mel,
    .filter_bank_new = make_filter_bank,
    .filter_bank_free = free_filter_bank,
    .filter_bank = compute_filter_bank,
    .rules_new = null_rules_new,
    .rules_free = null_rules_free,
    .choose = null_choose,
    .top = null_top,
    .lstm_new = make_lstm,
    .lstm_free = free_lstm,
    .lstm = compute_lstm,
    .magnitude = compute_magnitude,
    .conv2d_new = make_conv2d,
    .conv2d_free = free_conv2d,
    .conv2d = compute_conv2d,
    .activate = compute_activate,
    .instance_norm = compute_instance_norm,
    .max_pool = compute_max_pool,
    .resample_new = make_resampling,
    .resample_free = free_resampling,
    .resample = compute_resample,
    .pool = compute_pool,
    .weighted_stats = compute_weighted_stats,
    .gather = compute_gather,
    .attention_spans = compute_attention_spans,
    .follow = null_follow,
    .note = null_note,
    .post = null_post,
    .collect = null_collect,
    .posted = null_posted,
    .record_begin = null_record_begin,
    .record_end = null_record_end,
    .record_run = null_record_run,
    .record_free = null_record_free,
    .fork = fork_device,
    .after = compute_after,
};
