/* workers/models/bench.h - how fast a model runs here, and how near that is to what the machine
 * can.
 *
 * The peak is a large matrix product in the same precision, measured in turn with the model, so
 * that other load on the machine falls on both alike; every figure is a median. One thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_BENCH_H
#define NIGHTSHIFT_WORKERS_MODELS_BENCH_H

#include <stdint.h>

#include "base/err.h"
#include "workers/models/whisper/whisper.h"

struct backend;

struct bench_params {
    const char *model; /* "nano", "tiny" ... of bench_preset (random weights), or a directory */
    enum precision precision; /* AUTO: as a run would choose */
    uint32_t slots;           /* 0: as a run would choose */
    const uint32_t *ladder;   /* NULL, or numbers of slots to try first: the fastest is measured */
    uint32_t ladder_count;    /* those that do not fit end it */
    uint32_t windows;         /* that the encoder takes at once; 0: as a run would choose */
    uint32_t tokens;          /* decoded per window, after a prompt of 4; 0: 100 */
    uint32_t rounds;          /* 0: 5 */
};

struct bench_result {
    enum precision precision;
    uint32_t slots, windows, tokens, rounds;
    uint64_t weight_bytes, slot_bytes;
    double load_s;
    double mel_ms, encoder_ms, cross_ms; /* per window */
    double step_ms;                      /* per decoder step of all slots */
    double step_gbytes_s;                /* weights and caches read per second in such a step */
    double encoder_gflop;                /* multiply-adds of one window, twice */
    double encoder_gflops_s;
    double peak_gflops_s; /* the large product, same type, same moments */
    double encoder_share; /* of that peak */
    double
        windows_per_second; /* everything: log-mel, encoder, prompt and tokens with their choice */
    double times_real_time; /* 30 s windows: 30 x that */
    /* The two halves of it, each as if the other took no time: log-mel, encoder and the decoder's
     * keys and values; prompt and tokens. */
    double encoder_windows_s, decoder_windows_s;
};

/* nano, tiny, base, small, medium, large-v3, large-v3-turbo. ERR_USAGE names them. */
int bench_preset(const char *name, struct whisper_config *ret, struct err *err);
/* The i-th preset's name; NULL past the last. */
const char *bench_preset_name(uint32_t i);

/* GFLOP/s of a 2048 x 2048 x 2048 product, median of `rounds`; where that takes less than a
 * millisecond, of an 8192 x 8192 x 8192 one, several in a row. ERR_MODEL when the device does not
 * compute in that precision. */
int bench_peak(struct backend *be, enum precision precision, uint32_t rounds, double *ret,
               struct err *err);

/* GB/s, read and written, of copying 64 MiB (1 GiB where that is brief) on the device: the best of
 * five. */
int bench_bandwidth(struct backend *be, double *ret, struct err *err);

int bench_run(struct backend *be, const struct bench_params *params, struct bench_result *ret,
              struct err *err);

#endif
