/* Energies of mel bins, in float64, a thread for each few frames: whatever their number, the values
 * are the same, bit for bit. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/host/host.h"

#define FFT_MAX 65536 /* samples that are transformed at once */
#define MAX_STAGES 16 /* 4^8 = FFT_MAX */
#define BLOCK 16      /* frames that a thread takes at once: some 30 us */

/* Buffers of one thread. */
struct desk {
    void *scratch; /* of the kernel */
    double *bin;   /* [frames at once][bins] */
    float *heard;  /* the samples of so many frames */
};

struct filter_bank {
    struct filter_bank_spec spec;
    uint8_t radix[MAX_STAGES]; /* of the transform's stages */
    uint32_t stages;
    struct mel_filters *filters;
    double *tables;      /* the window's [frame], cosines and sines, [fft] each */
    uint32_t *ranges;    /* the filters' [bins] twice */
    struct bank_job job; /* but for what is one call's */
    struct desk *desks;
    uint32_t threads; /* desks */
};

/* Samples from the first frame's beginning to the last one's end. */
static size_t count_spanned_samples(const struct filter_bank_spec *s, uint32_t frames)
{
    return (size_t)(frames - 1) * s->step + s->frame;
}

/* The factors of half the transform's length, largest stages first. ERR_USAGE: one is above 5. */
static int choose_stages(struct filter_bank *f, struct err *err)
{
    static const uint8_t radices[] = {4, 2, 3, 5};
    const uint32_t n = f->spec.mel.fft;
    uint32_t left = n / 2;

    if (n < 2 || n > FFT_MAX || n % 2)
        return err_set(err, ERR_USAGE, "no Fourier transform of %u values", n);
    for (size_t i = 0; i < sizeof(radices); i++)
        for (; left % radices[i] == 0; left /= radices[i])
            f->radix[f->stages++] = radices[i];
    return left == 1 ? 0 : err_set(err, ERR_USAGE, "no Fourier transform of %u values", n);
}

static int make_desk(const struct filter_bank *f, struct desk *d, struct err *err)
{
    d->scratch = aligned_alloc(64, KERNEL_BANK_BYTES(f->spec.mel.fft));
    d->bin = calloc((size_t)KERNEL_BANK_FRAMES * f->spec.mel.bins, sizeof(double));
    d->heard = calloc(count_spanned_samples(&f->spec, KERNEL_BANK_FRAMES), sizeof(float));
    if (!d->scratch || !d->bin || !d->heard)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    return 0;
}

static int make_tables(struct filter_bank *f, struct err *err)
{
    const struct filter_bank_spec *s = &f->spec;
    double *cosine, *sine;

    f->tables = calloc(s->frame + 2 * (size_t)s->mel.fft, sizeof(double));
    f->ranges = calloc(2 * (size_t)s->mel.bins, sizeof(*f->ranges));
    if (!f->tables || !f->ranges)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    cosine = f->tables + s->frame;
    sine = cosine + s->mel.fft;
    filter_bank_window(s, f->tables);
    for (uint32_t k = 0; k < s->mel.fft; k++) {
        double angle = 2.0 * 3.14159265358979323846 * k / s->mel.fft;

        cosine[k] = cos(angle);
        sine[k] = sin(angle);
    }
    f->job = (struct bank_job){.spec = s,
                               .window = f->tables,
                               .cosine = cosine,
                               .sine = sine,
                               .first = f->ranges,
                               .count = f->ranges + s->mel.bins};
    f->job.radix = f->radix;
    f->job.stages = f->stages;
    mel_filters_ranges(f->filters, f->ranges, f->ranges + s->mel.bins, &f->job.weight);
    return 0;
}

static int prepare_filter_bank(struct filter_bank *f, struct err *err)
{
    int rc = choose_stages(f, err);

    if (rc == 0)
        rc = mel_filters_new(&f->spec.mel, &f->filters, err);
    if (rc == 0)
        rc = make_tables(f, err);
    if (rc != 0)
        return rc;
    f->desks = calloc(f->threads, sizeof(*f->desks));
    if (!f->desks)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    for (uint32_t i = 0; rc == 0 && i < f->threads; i++)
        rc = make_desk(f, &f->desks[i], err);
    return rc;
}

int host_filter_bank_new(struct backend *be, const struct filter_bank_spec *spec,
                         struct filter_bank **ret, struct err *err)
{
    struct filter_bank *f;
    int rc;

    if (!filter_bank_fits(spec))
        return host_shape(err, "filter_bank_new");
    f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    f->spec = *spec;
    f->threads = (uint32_t)host_of(be)->threads;
    rc = prepare_filter_bank(f, err);
    if (rc != 0) {
        host_filter_bank_free(be, f);
        return rc;
    }
    *ret = f;
    return 0;
}

void host_filter_bank_free(struct backend *be, struct filter_bank *f)
{
    (void)be;
    if (!f)
        return;
    mel_filters_free(f->filters);
    for (uint32_t i = 0; f->desks && i < f->threads; i++) {
        free(f->desks[i].scratch);
        free(f->desks[i].bin);
        free(f->desks[i].heard);
    }
    free(f->desks);
    free(f->tables);
    free(f->ranges);
    free(f);
}

/* Sample i of a window of n, which may lie beyond its ends. */
static float read_padded_sample(const struct filter_bank_spec *s, const float *pcm, int64_t n,
                                int64_t i)
{
    if (s->place == FRAME_MIRRORED)
        i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    return i < 0 || i >= n ? 0.0f : pcm[i];
}

/* The samples [at, at + count) of a window of n to d->heard. */
static void load_frame_samples(const struct filter_bank_spec *s, const struct desk *d,
                               const float *pcm, int64_t n, int64_t at, size_t count)
{
    float *heard = d->heard;

    if (at >= 0 && at + (int64_t)count <= n)
        memcpy(heard, pcm + at, count * sizeof(*heard));
    else
        for (size_t i = 0; i < count; i++)
            heard[i] = read_padded_sample(s, pcm, n, at + (int64_t)i);
    for (size_t i = 0; i < count; i++)
        heard[i] = filter_bank_sample(heard[i]);
}

/* Frames [i, i + count) of a window of n samples. */
static void run_frames(const struct host *h, const struct filter_bank *f, const struct desk *d,
                       const float *pcm, size_t n, size_t i, uint32_t count, float *ret)
{
    const struct filter_bank_spec *s = &f->spec;
    struct bank_job job = f->job;

    job.frames = count;
    load_frame_samples(s, d, pcm, (int64_t)n, (int64_t)(i * s->step) - filter_bank_before(s),
                       count_spanned_samples(s, count));
    job.pcm = d->heard;
    job.scratch = d->scratch;
    job.bins = d->bin;
    h->kernels->filter_bank(&job);
    for (size_t k = 0; k < (size_t)count * s->mel.bins; k++)
        ret[k] = (float)(s->logarithm ? log(fmax(d->bin[k], s->floor) + s->offset) : d->bin[k]);
}

static void subtract_bin_means(float *rows, size_t frames, size_t bins)
{
    double mean[FILTER_BANK_MAX_BINS] = {0};

    for (size_t i = 0; i < frames; i++)
        for (size_t b = 0; b < bins; b++)
            mean[b] += (double)rows[i * bins + b];
    for (size_t b = 0; b < bins; b++)
        mean[b] /= (double)frames;
    for (size_t i = 0; i < frames; i++)
        for (size_t b = 0; b < bins; b++)
            rows[i * bins + b] = (float)((double)rows[i * bins + b] - mean[b]);
}

/* How many frames of window w are the last ones of the window before, which lies `step`s earlier.
 */
static size_t shared_frames(const struct filter_bank *f, const uint32_t *at, uint32_t w,
                            size_t frames)
{
    uint32_t apart = w > 0 && at[w] > at[w - 1] ? at[w] - at[w - 1] : 0;

    if (apart == 0 || apart % f->spec.step != 0 || f->spec.place != FRAME_WITHIN)
        return 0;
    return apart / f->spec.step < frames ? frames - apart / f->spec.step : 0;
}

int host_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                     const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                     struct err *err)
{
    const struct host *h = host_of(be);
    const size_t frames = filter_bank_frames(&f->spec, samples), bins = f->spec.mel.bins;
    const size_t each = (frames + BLOCK - 1) / BLOCK;
    float *rows = out.data;

    if (!filter_bank_shapes(&f->spec, pcm, at, windows, samples, out))
        return host_shape(err, "filter_bank");
    if (be->rehearsing)
        return 0;
#pragma omp parallel for schedule(dynamic) num_threads(f->threads)
    for (size_t k = 0; k < windows * each; k++) {
        const size_t window = k / each, first = k % each * BLOCK;
        const struct desk *desk = &f->desks[omp_get_thread_num()];
        const size_t known = shared_frames(f, at, (uint32_t)window, frames);
        const size_t end = first + BLOCK < frames ? first + BLOCK : frames;

        for (size_t i = first < known ? known : first; i < end; i += h->kernels->bank_frames) {
            const size_t left = end - i, most = h->kernels->bank_frames;

            run_frames(h, f, desk, (const float *)pcm.data + at[window], samples, i,
                       (uint32_t)(left < most ? left : most), rows + (window * frames + i) * bins);
        }
    }
    for (uint32_t w = 1; w < windows; w++) {
        const size_t known = shared_frames(f, at, w, frames);

        memcpy(rows + w * frames * bins, rows + (w * frames - known) * bins,
               known * bins * sizeof(*rows));
    }
#pragma omp parallel for schedule(dynamic) num_threads(windows > 1 ? f->threads : 1)
    for (size_t w = 0; w < (f->spec.centre ? windows : 0); w++)
        subtract_bin_means(rows + w * frames * bins, frames, bins);
    return 0;
}
