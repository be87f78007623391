#include "tests/gpu/watch.h"

#include <stdlib.h>

#include "base/clock.h"

#define CONVS_MAX 256

static const struct backend_ops *real;
static struct backend_ops ops;
static struct watch seen;
static enum precision computed; /* where float32 or TF32 is asked for; AUTO: that */

/* Convolutions say what they are when they are made. */
static struct {
    const struct conv2d *conv;
    struct conv2d_spec spec;
} convs[CONVS_MAX];

static double bytes_of(struct tensor t)
{
    return (double)t.rows * (double)t.cols * (double)dtype_size(t.type);
}

#define TIMED(call)                         \
    do {                                    \
        int64_t began = clock_mono_ns();    \
        int outcome = (call);               \
                                            \
        seen.ns += clock_mono_ns() - began; \
        return outcome;                     \
    } while (0)

static enum precision asked(enum precision p)
{
    seen.asked |= 1u << p;
    return p <= PRECISION_TF32 && computed != PRECISION_AUTO ? computed : p;
}

/* ---- what is prepared */

static int linear_new(struct backend *be, enum precision precision, enum linear_use use,
                      int64_t rows, int64_t out, int64_t in, const float *w, const float *bias,
                      struct linear **ret, struct err *err)
{
    return real->linear_new(be, asked(precision), use, rows, out, in, w, bias, ret, err);
}

static int conv2d_new(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                      const float *w, const float *bias, struct conv2d **ret, struct err *err)
{
    int rc = real->conv2d_new(be, asked(precision), spec, w, bias, ret, err);
    size_t i = 0;

    if (rc != 0)
        return rc;
    while (i < CONVS_MAX && convs[i].conv)
        i++;
    if (i == CONVS_MAX)
        abort();
    convs[i].conv = *ret;
    convs[i].spec = *spec;
    return 0;
}

static void conv2d_free(struct backend *be, struct conv2d *c)
{
    for (size_t i = 0; c && i < CONVS_MAX; i++)
        if (convs[i].conv == c)
            convs[i].conv = NULL;
    real->conv2d_free(be, c);
}

/* ---- products */

static int linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                  struct tensor y, struct err *err)
{
    double weights = (double)x.cols * (double)y.cols;

    seen.flop += 2.0 * (double)x.rows * weights;
    seen.bytes += bytes_of(x) + bytes_of(y) * (epilogue_adds(epilogue) ? 2.0 : 1.0) +
                  weights * (double)dtype_size(x.type);
    TIMED(real->linear(be, l, x, epilogue, y, err));
}

static int conv2d(struct backend *be, struct conv2d *c, uint32_t images, uint32_t height,
                  uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                  struct err *err)
{
    double weights = 0.0;

    for (size_t i = 0; i < CONVS_MAX; i++)
        if (convs[i].conv == c)
            weights = (double)convs[i].spec.kernel_h * convs[i].spec.kernel_w * (double)y.cols *
                      (convs[i].spec.depthwise ? 1.0 : (double)x.cols);
    seen.flop += 2.0 * (double)y.rows * weights;
    seen.bytes += bytes_of(x) + bytes_of(y) * (epilogue_adds(epilogue) ? 2.0 : 1.0) +
                  weights * (double)dtype_size(x.type);
    TIMED(real->conv2d(be, c, images, height, width, x, epilogue, y, err));
}

static int lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
                const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
                struct err *err)
{
    double weights = 4.0 * (double)y.cols * ((double)x.cols + (double)h.cols);

    seen.flop += 2.0 * (double)x.rows * weights;
    seen.bytes += bytes_of(x) + bytes_of(y) + 4.0 * weights;
    TIMED(real->lstm(be, l, sequences, x, lengths, h, c, y, err));
}

static int attention_spans(struct backend *be, struct spans spans, uint32_t heads,
                           uint32_t head_size, float scale, struct tensor q, struct tensor k,
                           struct tensor v, const struct attention_bias *bias, struct tensor out,
                           struct err *err)
{
    for (uint32_t i = 0; i < spans.count; i++) {
        double n = spans.at[i + 1] - spans.at[i];

        seen.flop += 4.0 * n * n * heads * head_size;
    }
    seen.bytes += bytes_of(q) + bytes_of(k) + bytes_of(v) + bytes_of(out);
    TIMED(real->attention_spans(be, spans, heads, head_size, scale, q, k, v, bias, out, err));
}

/* ---- what only moves */

static int sync(struct backend *be, struct err *err) { TIMED(real->sync(be, err)); }

static int put(struct backend *be, struct tensor dst, const float *src, struct err *err)
{
    TIMED(real->put(be, dst, src, err));
}

static int collect(struct backend *be, uint32_t box, void *dst, size_t bytes, struct err *err)
{
    TIMED(real->collect(be, box, dst, bytes, err));
}

static int get(struct backend *be, float *dst, struct tensor src, struct err *err)
{
    TIMED(real->get(be, dst, src, err));
}

static int put_bytes(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    TIMED(real->write(be, dst, src, bytes, err));
}

static int get_bytes(struct backend *be, void *dst, const void *src, size_t bytes, struct err *err)
{
    TIMED(real->read(be, dst, src, bytes, err));
}

static int copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err)
{
    seen.bytes += bytes_of(dst) + bytes_of(src);
    TIMED(real->copy(be, dst, src, err));
}

static int layer_norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                      float epsilon, struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(y);
    TIMED(real->layer_norm(be, x, gamma, beta, epsilon, y, err));
}

static int embed(struct backend *be, struct tensor table, struct tensor positions,
                 const struct token_row *rows, struct tensor y, struct err *err)
{
    seen.bytes += 3.0 * bytes_of(y);
    TIMED(real->embed(be, table, positions, rows, y, err));
}

static int activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                    struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(y);
    TIMED(real->activate(be, f, x, y, err));
}

static int instance_norm(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                         struct tensor beta, float epsilon, struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(y);
    TIMED(real->instance_norm(be, windows, x, gamma, beta, epsilon, y, err));
}

static int max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                    struct tensor x, struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(y);
    TIMED(real->max_pool(be, windows, size, magnitudes, x, y, err));
}

static int resample(struct backend *be, struct resampling *r, uint32_t windows,
                    const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                    const struct tensor *beta, struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(y);
    TIMED(real->resample(be, r, windows, lengths, x, gamma, beta, y, err));
}

static int pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
                struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(kind == POOL_FIRST ? y : x) + bytes_of(y);
    TIMED(real->pool(be, kind, spans, x, y, err));
}

static int weighted_stats(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                          struct tensor weights, struct tensor y, struct err *err)
{
    seen.bytes += bytes_of(x) + bytes_of(weights) + bytes_of(y);
    TIMED(real->weighted_stats(be, windows, x, of, weights, y, err));
}

static int filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                       const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                       struct err *err)
{
    seen.bytes += 4.0 * (double)windows * (double)samples + bytes_of(out);
    TIMED(real->filter_bank(be, f, pcm, at, windows, samples, out, err));
}

static int gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                  struct err *err)
{
    seen.bytes += 2.0 * bytes_of(y);
    TIMED(real->gather(be, x, rows, y, err));
}

/* ---- */

void watch_install(struct backend *be, enum precision instead)
{
    if (real)
        abort();
    real = be->ops;
    ops = *real;
    seen = (struct watch){0};
    computed = instead;
    ops.linear_new = linear_new;
    ops.conv2d_new = conv2d_new;
    ops.conv2d_free = conv2d_free;
    ops.linear = linear;
    ops.conv2d = conv2d;
    ops.lstm = lstm;
    ops.attention_spans = attention_spans;
    ops.sync = sync;
    ops.put = put;
    ops.get = get;
    if (real->collect)
        ops.collect = collect;
    ops.write = put_bytes;
    ops.read = get_bytes;
    ops.copy = copy;
    ops.layer_norm = layer_norm;
    ops.embed = embed;
    ops.activate = activate;
    ops.instance_norm = instance_norm;
    ops.max_pool = max_pool;
    ops.resample = resample;
    ops.pool = pool;
    ops.weighted_stats = weighted_stats;
    ops.filter_bank = filter_bank;
    ops.gather = gather;
    be->ops = &ops;
}

void watch_remove(struct backend *be)
{
    be->ops = real;
    real = NULL;
}

struct watch watch_take(void)
{
    struct watch now = seen;

    seen = (struct watch){0};
    return now;
}
