/* Energies of mel bins, in float64, a thread for each few frames: whatever their number, the values
 * are the same, bit for bit. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/fft.h"
#include "gpu/host/host.h"

#define BLOCK 16 /* frames that a thread takes at once: some 0.1 ms */

/* Of a thread. */
struct desk {
    double *frame; /* [mel.fft]; 0 past the frame's samples */
    double *power; /* [mel.fft / 2 + 1] */
    double *bin;   /* [bins] */
    double *scratch;
};

struct filter_bank {
    struct filter_bank_spec spec;
    struct fft *fft;
    struct mel_filters *filters;
    double *window; /* [frame] */
    struct desk *desks;
    uint32_t threads; /* desks */
};

static int make_desk(const struct filter_bank *f, struct desk *b, struct err *err)
{
    b->frame = calloc(f->spec.mel.fft, sizeof(double));
    b->power = calloc(fft_bins(f->fft), sizeof(double));
    b->bin = calloc(f->spec.mel.bins, sizeof(double));
    b->scratch = calloc(fft_scratch(f->fft), sizeof(double));
    if (!b->frame || !b->power || !b->bin || !b->scratch)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    return 0;
}

static int prepare(struct filter_bank *f, struct err *err)
{
    int rc = fft_new(f->spec.mel.fft, &f->fft, err);

    if (rc == 0)
        rc = mel_filters_new(&f->spec.mel, &f->filters, err);
    if (rc != 0)
        return rc;
    f->window = calloc(f->spec.frame, sizeof(*f->window));
    f->desks = calloc(f->threads, sizeof(*f->desks));
    if (!f->window || !f->desks)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    filter_bank_window(&f->spec, f->window);
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
    rc = prepare(f, err);
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
    fft_free(f->fft);
    mel_filters_free(f->filters);
    for (uint32_t i = 0; f->desks && i < f->threads; i++) {
        free(f->desks[i].frame);
        free(f->desks[i].power);
        free(f->desks[i].bin);
        free(f->desks[i].scratch);
    }
    free(f->desks);
    free(f->window);
    free(f);
}

/* Sample i - before of a window of n; silence beyond it. */
static inline double sample(const float *pcm, size_t n, size_t i, size_t before)
{
    return i < before || i - before >= n ? 0.0 : (double)pcm[i - before];
}

/* The samples of a frame that begins at `at`, of a window with so much silence before it, as they
 * are transformed. */
static void load_frame(const struct filter_bank *f, const float *pcm, size_t n, size_t at,
                       size_t silence, double *ret)
{
    const struct filter_bank_spec *s = &f->spec;
    double mean = 0.0, before;

    for (size_t i = 0; i < s->frame && s->less_mean; i++)
        mean += sample(pcm, n, at + i, silence);
    mean /= s->frame;
    before = sample(pcm, n, at, silence) - mean;
    for (size_t i = 0; i < s->frame; i++) {
        double x = sample(pcm, n, at + i, silence) - mean;

        ret[i] = (x - s->pre_emphasis * before) * s->scale * f->window[i];
        before = x;
    }
}

static void run_frame(const struct filter_bank *f, const struct desk *b, const float *pcm, size_t n,
                      size_t i, float *ret)
{
    const struct filter_bank_spec *s = &f->spec;

    load_frame(f, pcm, n, i * s->step, s->centred ? s->frame / 2 : 0, b->frame);
    fft_power(f->fft, b->frame, b->scratch, b->power);
    mel_filters_apply(f->filters, b->power, b->bin);
    for (uint32_t k = 0; k < s->mel.bins; k++)
        ret[k] = (float)(s->logarithm ? log(fmax(b->bin[k], s->floor)) : b->bin[k]);
}

static void centre(float *rows, size_t frames, size_t bins)
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

    if (apart == 0 || apart % f->spec.step != 0 || f->spec.centred)
        return 0;
    return apart / f->spec.step < frames ? frames - apart / f->spec.step : 0;
}

int host_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                     const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                     struct err *err)
{
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

        for (size_t i = first < known ? known : first; i < frames && i < first + BLOCK; i++)
            run_frame(f, desk, (const float *)pcm.data + at[window], samples, i,
                      rows + (window * frames + i) * bins);
    }
    for (uint32_t w = 1; w < windows; w++) {
        const size_t known = shared_frames(f, at, w, frames);

        memcpy(rows + w * frames * bins, rows + (w * frames - known) * bins,
               known * bins * sizeof(*rows));
    }
#pragma omp parallel for schedule(dynamic) num_threads(windows > 1 ? f->threads : 1)
    for (size_t w = 0; w < (f->spec.centre ? windows : 0); w++)
        centre(rows + w * frames * bins, frames, bins);
    return 0;
}
