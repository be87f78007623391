#include "workers/media/track/resample.h"

#include <string.h>

#include "workers/audio/channels.h"
#include "workers/media/decoder.h"

/* ---- the samples of a decoded frame as FFmpeg lays them out */

/* One channel of a frame. */
struct frame_channel {
    const uint8_t *first;
    size_t stride; /* bytes from one sample to the next */
    enum AVSampleFormat packed;
};

static struct frame_channel frame_channel(const AVFrame *f, int channel)
{
    const enum AVSampleFormat packed = av_get_packed_sample_fmt((enum AVSampleFormat)f->format);
    const size_t bytes = (size_t)av_get_bytes_per_sample(packed);

    if (av_sample_fmt_is_planar((enum AVSampleFormat)f->format))
        return (struct frame_channel){f->extended_data[channel], bytes, packed};
    return (struct frame_channel){f->extended_data[0] + (size_t)channel * bytes,
                                  (size_t)f->ch_layout.nb_channels * bytes, packed};
}

#define VALUES 512 /* that are taken from a frame at once */

#define TAKE_VALUES(type, value)                        \
    for (size_t i = 0; i < n; i++, at += step) {        \
        const type x = *(const type *)(const void *)at; \
                                                        \
        ret[i] = (value);                               \
    }                                                   \
    break

/* Samples from, from + every, ...: n of them; full scale is 1. A loop for each format: this is done
 * for all channels of all files. */
static void frame_values(struct frame_channel c, size_t from, size_t every, size_t n, double *ret)
{
    const uint8_t *at = c.first + from * c.stride;
    const size_t step = every * c.stride;

    switch (c.packed) {
    case AV_SAMPLE_FMT_U8:
        TAKE_VALUES(uint8_t, (x - 128) / 128.0);
    case AV_SAMPLE_FMT_S16:
        TAKE_VALUES(int16_t, x / 32768.0);
    case AV_SAMPLE_FMT_S32:
        TAKE_VALUES(int32_t, x / 2147483648.0);
    case AV_SAMPLE_FMT_S64:
        TAKE_VALUES(int64_t, (double)x / 9223372036854775808.0);
    case AV_SAMPLE_FMT_FLT:
        TAKE_VALUES(float, (double)x);
    case AV_SAMPLE_FMT_DBL:
        TAKE_VALUES(double, x);
    default:
        memset(ret, 0, n * sizeof(*ret));
    }
}

/* How many of them lie before `to`, at most VALUES. */
static size_t count_values(size_t from, size_t every, size_t to)
{
    const size_t n = (to - from + every - 1) / every;

    return n < VALUES ? n : VALUES;
}

/* Four sums, which do not wait for each other. */
static double sum_products(const double *a, const double *b, size_t n)
{
    double sum[4] = {0};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* ---- resampling */

#define MIN_RATE_HZ 1000
#define MAX_RATE_HZ 6144000 /* DSD counts its bits as samples */
#define MAX_CHANNELS 63     /* libswresample's masks end there; more are averaged here */

static bool same_shape(const struct resampler *r, const AVFrame *f)
{
    return r->swr && r->rate_hz == f->sample_rate && r->format == f->format &&
           av_channel_layout_compare(&r->layout, &f->ch_layout) == 0;
}

/* libswresample knows the mix of one and two channels. With more channels their names do not
 * matter: fill_matrix has the weights. */
static int choose_layout(const AVFrame *f, AVChannelLayout *ret, bool *average)
{
    int n = f->ch_layout.nb_channels;

    *average = n > 2;
    if (n > 2)
        return av_channel_layout_from_mask(ret, (UINT64_C(1) << n) - 1);
    if (f->ch_layout.order != AV_CHANNEL_ORDER_UNSPEC)
        return av_channel_layout_copy(ret, &f->ch_layout);
    av_channel_layout_default(ret, n);
    return 0;
}

#define BESIDE_CENTRE 0.35 /* what another channel counts */

/* The place of the centre among its channels; -1: none is named so. */
static int centre_of(const AVFrame *f)
{
    const uint64_t mask = f->ch_layout.order == AV_CHANNEL_ORDER_NATIVE ? f->ch_layout.u.mask : 0;
    int n = 0;

    if (!(mask & AV_CH_FRONT_CENTER))
        return -1;
    for (uint64_t below = mask & (AV_CH_FRONT_CENTER - 1); below; below &= below - 1)
        n++;
    return n;
}

/* The one that is taken, from 0 on; -1: all are mixed. */
static int find_selected_channel(const struct resampler *r, const AVFrame *f)
{
    return r->channel <= (uint32_t)f->ch_layout.nb_channels ? (int)r->channel - 1 : -1;
}

/* The weights of a mix that differs from libswresample's: a row for each output channel. */
static void fill_matrix(const struct resampler *r, const AVFrame *f, double *ret)
{
    const int channel = find_selected_channel(r, f), n = f->ch_layout.nb_channels,
              centre = centre_of(f);
    const double beside = centre < 0 ? 1 : BESIDE_CENTRE, sum = 1 + (n - 1) * beside;

    for (uint32_t c = 0; c < r->apart; c++)
        for (int i = 0; i < n; i++)
            ret[c * (uint32_t)n + (uint32_t)i] = i == (int)c;
    for (int i = 0; i < n && !r->apart; i++)
        ret[i] = channel >= 0 ? i == channel : i == centre || centre < 0 ? 1 / sum : beside / sum;
}

static int out_channels(const struct resampler *r) { return r->apart ? (int)r->apart : 1; }

static int start_resampler(struct resampler *r, const AVFrame *f, struct err *err)
{
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO, out = {0}, in = {0};
    double matrix[MAX_CHANNELS * HEARING_SOURCES_MAX];
    bool average;
    enum AVSampleFormat format = (enum AVSampleFormat)f->format;
    int n = f->ch_layout.nb_channels;
    int rc;

    if (f->sample_rate < MIN_RATE_HZ || f->sample_rate > MAX_RATE_HZ)
        return err_set(err, ERR_INPUT, "a sample rate of %d Hz is not audio", f->sample_rate);
    if (n < 1)
        return err_set(err, ERR_INPUT, "%d channels are none", n);
    if (n > MAX_CHANNELS) {
        average = false;
        format = AV_SAMPLE_FMT_FLT;
        rc = av_channel_layout_copy(&in, &mono);
    } else {
        rc = choose_layout(f, &in, &average);
    }
    if (rc >= 0)
        rc = r->apart ? av_channel_layout_from_mask(&out, (UINT64_C(1) << r->apart) - 1)
                      : av_channel_layout_copy(&out, &mono);
    if (rc >= 0) {
        rc = swr_alloc_set_opts2(&r->swr, &out, AV_SAMPLE_FMT_S16, DECODER_RATE_HZ, &in, format,
                                 f->sample_rate, 0, NULL);
    }
    if (rc >= 0 && n <= MAX_CHANNELS && (average || r->apart || find_selected_channel(r, f) >= 0)) {
        fill_matrix(r, f, matrix);
        rc = swr_set_matrix(r->swr, matrix, n);
    }
    if (rc >= 0)
        rc = swr_init(r->swr);
    av_channel_layout_uninit(&in);
    av_channel_layout_uninit(&out);
    if (rc >= 0) {
        r->rate_hz = f->sample_rate;
        r->format = f->format;
        rc = av_channel_layout_copy(&r->layout, &f->ch_layout);
    }
    if (rc < 0) {
        swr_free(&r->swr);
        return rc == AVERROR(ENOMEM)
                   ? err_set(err, ERR_NOMEM, "out of memory")
                   : err_set(err, ERR_INPUT, "%d channels at %d Hz cannot be mixed to one", n,
                             f->sample_rate);
    }
    return 0;
}

static int reserve_output(struct resampler *r, int samples, struct err *err)
{
    if (samples > r->out_cap) {
        av_freep(&r->out);
        r->out_cap = 0;
        r->out = av_malloc_array((size_t)samples, sizeof(*r->out) * (size_t)out_channels(r));
        if (!r->out)
            return err_set(err, ERR_NOMEM, "out of memory");
        r->out_cap = samples;
    }
    return 0;
}

/* in NULL: gives what is inside. */
static int resample_samples(struct resampler *r, const uint8_t **in, int in_samples,
                            resampler_sink sink, void *arg, struct err *err)
{
    uint8_t *planes[1];
    int capacity = swr_get_out_samples(r->swr, in_samples);
    int n, rc;

    if (capacity < 0)
        return err_set(err, ERR_INPUT, "a frame of %d samples is too long", in_samples);
    rc = reserve_output(r, capacity < 4096 ? 4096 : capacity, err);
    if (rc != 0)
        return rc;
    planes[0] = (uint8_t *)r->out;
    n = swr_convert(r->swr, planes, r->out_cap, in, in_samples);
    if (n < 0) {
        return n == AVERROR(ENOMEM) ? err_set(err, ERR_NOMEM, "out of memory")
                                    : err_set(err, ERR_INPUT, "the audio cannot be resampled");
    }
    return n > 0 ? sink(arg, r->out, (size_t)n, err) : 0;
}

int resampler_flush(struct resampler *r, resampler_sink sink, void *arg, struct err *err)
{
    int rc = r->swr ? resample_samples(r, NULL, 0, sink, arg, err) : 0;

    swr_free(&r->swr);
    av_channel_layout_uninit(&r->layout);
    return rc;
}

/* The plain average of more channels than libswresample takes, or one of them; *ret is r's. */
static int average_channels(struct resampler *r, const AVFrame *f, const uint8_t **ret,
                            struct err *err)
{
    const size_t first = find_selected_channel(r, f) < 0 ? 0 : (size_t)find_selected_channel(r, f);
    const size_t all = (size_t)f->ch_layout.nb_channels,
                 n = find_selected_channel(r, f) < 0 ? all : first + 1;

    av_freep(&r->mono);
    r->mono = av_malloc_array((size_t)f->nb_samples, sizeof(*r->mono));
    if (!r->mono)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t at = 0, count; at < (size_t)f->nb_samples; at += count) {
        double sum[VALUES] = {0}, value[VALUES];

        count = count_values(at, 1, (size_t)f->nb_samples);
        for (size_t c = first; c < n; c++) {
            frame_values(frame_channel(f, (int)c), at, 1, count, value);
            for (size_t i = 0; i < count; i++)
                sum[i] += value[i];
        }
        for (size_t i = 0; i < count; i++)
            r->mono[at + i] = (float)(sum[i] / (double)(n - first));
    }
    *ret = (const uint8_t *)r->mono;
    return 0;
}

#define OPPOSED_STEP \
    3 /* every so many samples are looked at: it is done for each frame of stereo */

#define LOUDER 2 /* so many times the power: they change places, and the phase with them */

/* Do its two channels cancel out? Then the louder one, from 0 on; -1: they do not. */
static int find_opposed_channel(struct resampler *r, const AVFrame *f)
{
    const struct frame_channel first = frame_channel(f, 0), second = frame_channel(f, 1);
    double left = 0, right = 0, both = 0, a[VALUES], b[VALUES];

    for (size_t at = 0, n; at < (size_t)f->nb_samples; at += n * OPPOSED_STEP) {
        n = count_values(at, OPPOSED_STEP, (size_t)f->nb_samples);
        frame_values(first, at, OPPOSED_STEP, n, a);
        frame_values(second, at, OPPOSED_STEP, n, b);
        left += sum_products(a, a, n);
        right += sum_products(b, b, n);
        both += 2 * sum_products(a, b, n);
    }
    both += left + right; /* of (a + b)^2 */
    if (!(both < 0.1 * (left + right)))
        return -1; /* also where a sample is not finite */
    left *= r->louder == 1 ? LOUDER : 1;
    right *= r->louder == 2 ? LOUDER : 1;
    r->louder = left >= right ? 1 : 2;
    return r->louder - 1;
}

/* Both channels become that one. */
static int copy_channel(AVFrame *f, int from, struct err *err)
{
    const enum AVSampleFormat packed = av_get_packed_sample_fmt((enum AVSampleFormat)f->format);
    const size_t bytes = (size_t)av_get_bytes_per_sample(packed), n = (size_t)f->nb_samples;
    int rc = av_frame_make_writable(f);

    if (rc < 0)
        return rc == AVERROR(ENOMEM) ? err_set(err, ERR_NOMEM, "out of memory")
                                     : err_set(err, ERR_INPUT, "the audio cannot be mixed");
    if (av_sample_fmt_is_planar((enum AVSampleFormat)f->format)) {
        memcpy(f->extended_data[!from], f->extended_data[from], n * bytes);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(f->extended_data[0] + (2 * i + (size_t)!from) * bytes,
               f->extended_data[0] + (2 * i + (size_t)from) * bytes, bytes);
    return 0;
}

/* An inverted cable, or half a recording with one, would leave nothing in the mix. */
static int guard_mix(struct resampler *r, AVFrame *f, struct err *err)
{
    int from = -1;

    if (!r->apart && !r->channel && f->ch_layout.nb_channels == 2)
        from = find_opposed_channel(r, f);
    return from < 0 ? 0 : copy_channel(f, from, err);
}

int resampler_feed(struct resampler *r, AVFrame *frame, resampler_sink sink, void *arg,
                   struct err *err)
{
    int rc = guard_mix(r, frame, err);

    if (rc != 0)
        return rc;
    if (!same_shape(r, frame)) {
        rc = resampler_flush(r, sink, arg, err);
        if (rc == 0)
            rc = start_resampler(r, frame, err);
    }
    if (rc == 0 && frame->ch_layout.nb_channels > MAX_CHANNELS) {
        const uint8_t *mono = NULL;

        rc = average_channels(r, frame, &mono, err);
        return rc != 0 ? rc : resample_samples(r, &mono, frame->nb_samples, sink, arg, err);
    }
    return rc != 0 ? rc
                   : resample_samples(r, (const uint8_t **)frame->extended_data, frame->nb_samples,
                                      sink, arg, err);
}

void resampler_shorten(struct resampler *r, int n)
{
    if (r->swr) /* what cannot be shortened is only early */
        (void)swr_set_compensation(r->swr, -n, n * 50);
}

void resampler_free(struct resampler *r)
{
    swr_free(&r->swr);
    av_channel_layout_uninit(&r->layout);
    av_freep(&r->out);
    av_freep(&r->mono);
    r->out_cap = 0;
}

/* ---- how long each channel has sound */

#define BLOCKS_A_SECOND 20
#define STEP 3 /* every so many samples are looked at: it is done for all channels of all files */

void sound_meter_end(struct sound_meter *m)
{
    for (uint32_t c = 0; c < m->now && m->looked > 0; c++)
        if (channel_level_of(m->squares[c] / m->looked) < CHANNEL_QUIET_DB)
            m->sound_us[c] += (int64_t)m->filled * 1000000 / m->rate_hz;
    memset(m->squares, 0, sizeof(m->squares));
    m->filled = m->looked = 0;
}

static double sum_squares(struct frame_channel c, size_t from, size_t to)
{
    double sum = 0, value[VALUES];

    for (size_t n; from < to; from += n * STEP) {
        n = count_values(from, STEP, to);
        frame_values(c, from, STEP, n, value);
        sum += sum_products(value, value, n);
    }
    return sum;
}

/* All of one block. */
static void add_block_energy(struct sound_meter *m, const AVFrame *f, int from, int n)
{
    for (uint32_t c = 0; c < m->now; c++)
        m->squares[c] += sum_squares(frame_channel(f, (int)c), (size_t)from, (size_t)(from + n));
    m->filled += n;
    m->looked += (n + STEP - 1) / STEP;
}

void sound_meter_feed(struct sound_meter *m, const AVFrame *f)
{
    const int all = f->ch_layout.nb_channels, block = f->sample_rate / BLOCKS_A_SECOND;
    const uint32_t n = all < 0                           ? 0
                       : all > (int)HEARING_CHANNELS_MAX ? HEARING_CHANNELS_MAX
                                                         : (uint32_t)all;

    if (block < 1) /* no audio */
        return;
    if (m->rate_hz != f->sample_rate || m->now != n) {
        sound_meter_end(m);
        m->rate_hz = f->sample_rate;
        m->now = n;
        m->channels = n > m->channels ? n : m->channels;
    }
    for (int at = 0, take; at < f->nb_samples; at += take) {
        const int left = f->nb_samples - at, capacity = block - m->filled;

        take = left < capacity ? left : capacity;
        add_block_energy(m, f, at, take);
        if (m->filled == block)
            sound_meter_end(m);
    }
}
