#include "workers/media/resample.h"

#include "workers/audio/hearing.h"
#include "workers/media/decoder.h"
#include "workers/media/ffmpeg.h"

#define MIN_RATE_HZ 1000
#define MAX_RATE_HZ 6144000 /* DSD counts its bits as samples */
#define MAX_CHANNELS 63     /* libswresample's masks end there; more are averaged here */

static bool same_shape(const struct resampler *r, const AVFrame *f)
{
    return r->swr && r->rate_hz == f->sample_rate && r->format == f->format &&
           av_channel_layout_compare(&r->layout, &f->ch_layout) == 0;
}

/* Channels that nobody has named: the usual order for their number, as the ffmpeg tool guesses; and
 * where there is none for that number, their plain average. */
static int choose_layout(const AVFrame *f, AVChannelLayout *ret, bool *average)
{
    int n = f->ch_layout.nb_channels;

    *average = false;
    if (f->ch_layout.order != AV_CHANNEL_ORDER_UNSPEC)
        return av_channel_layout_copy(ret, &f->ch_layout);
    av_channel_layout_default(ret, n);
    if (ret->order == AV_CHANNEL_ORDER_UNSPEC) {
        *average = true;
        return av_channel_layout_from_mask(ret, (UINT64_C(1) << n) - 1);
    }
    return 0;
}

/* The one that is taken, from 0 on; -1: all are mixed. */
static int taken(const struct resampler *r, const AVFrame *f)
{
    return r->channel <= (uint32_t)f->ch_layout.nb_channels ? (int)r->channel - 1 : -1;
}

/* Of a mix that libswresample would make otherwise: a row for each channel that comes out. */
static void fill_matrix(const struct resampler *r, int channel, int n, double *ret)
{
    for (uint32_t c = 0; c < r->apart; c++)
        for (int i = 0; i < n; i++)
            ret[c * (uint32_t)n + (uint32_t)i] = i == (int)c;
    for (int i = 0; i < n && !r->apart; i++)
        ret[i] = channel < 0 ? 1.0 / n : i == channel;
}

static int out_channels(const struct resampler *r) { return r->apart ? (int)r->apart : 1; }

static int start(struct resampler *r, const AVFrame *f, struct err *err)
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
    if (rc >= 0 && n <= MAX_CHANNELS && (average || r->apart || taken(r, f) >= 0)) {
        fill_matrix(r, taken(r, f), n, matrix);
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

static int reserve(struct resampler *r, int samples, struct err *err)
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
static int convert(struct resampler *r, const uint8_t **in, int in_samples, resampler_sink sink,
                   void *arg, struct err *err)
{
    uint8_t *planes[1];
    int room = swr_get_out_samples(r->swr, in_samples);
    int n, rc;

    if (room < 0)
        return err_set(err, ERR_INPUT, "a frame of %d samples is too long", in_samples);
    rc = reserve(r, room < 4096 ? 4096 : room, err);
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
    int rc = r->swr ? convert(r, NULL, 0, sink, arg, err) : 0;

    swr_free(&r->swr);
    av_channel_layout_uninit(&r->layout);
    return rc;
}

static double sample_of(enum AVSampleFormat packed, const uint8_t *at)
{
    switch (packed) {
    case AV_SAMPLE_FMT_U8:
        return (*at - 128) / 128.0;
    case AV_SAMPLE_FMT_S16:
        return *(const int16_t *)(const void *)at / 32768.0;
    case AV_SAMPLE_FMT_S32:
        return *(const int32_t *)(const void *)at / 2147483648.0;
    case AV_SAMPLE_FMT_S64:
        return (double)*(const int64_t *)(const void *)at / 9223372036854775808.0;
    case AV_SAMPLE_FMT_FLT:
        return *(const float *)(const void *)at;
    case AV_SAMPLE_FMT_DBL:
        return *(const double *)(const void *)at;
    default:
        return 0;
    }
}

/* The plain average of more channels than libswresample takes, or one of them; *ret is r's. */
static int average_channels(struct resampler *r, const AVFrame *f, const uint8_t **ret,
                            struct err *err)
{
    const enum AVSampleFormat packed = av_get_packed_sample_fmt((enum AVSampleFormat)f->format);
    const bool planar = av_sample_fmt_is_planar((enum AVSampleFormat)f->format) != 0;
    const size_t bytes = (size_t)av_get_bytes_per_sample(packed);
    const size_t first = taken(r, f) < 0 ? 0 : (size_t)taken(r, f);
    const size_t all = (size_t)f->ch_layout.nb_channels, n = taken(r, f) < 0 ? all : first + 1;

    av_freep(&r->mono);
    r->mono = av_malloc_array((size_t)f->nb_samples, sizeof(*r->mono));
    if (!r->mono)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < (size_t)f->nb_samples; i++) {
        double sum = 0;

        for (size_t c = first; c < n; c++) {
            sum += sample_of(packed, planar ? f->extended_data[c] + i * bytes
                                            : f->extended_data[0] + (i * all + c) * bytes);
        }
        r->mono[i] = (float)(sum / (double)(n - first));
    }
    *ret = (const uint8_t *)r->mono;
    return 0;
}

int resampler_feed(struct resampler *r, const AVFrame *frame, resampler_sink sink, void *arg,
                   struct err *err)
{
    int rc = 0;

    if (!same_shape(r, frame)) {
        rc = resampler_flush(r, sink, arg, err);
        if (rc == 0)
            rc = start(r, frame, err);
    }
    if (rc == 0 && frame->ch_layout.nb_channels > MAX_CHANNELS) {
        const uint8_t *mono = NULL;

        rc = average_channels(r, frame, &mono, err);
        return rc != 0 ? rc : convert(r, &mono, frame->nb_samples, sink, arg, err);
    }
    return rc != 0 ? rc
                   : convert(r, (const uint8_t **)frame->extended_data, frame->nb_samples, sink,
                             arg, err);
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
