/* workers/models/clap/clap.h - sounds and their descriptions as vectors of one space: CLAP
 * (laion/clap-htsat-unfused and its like, Hugging Face's layout) on one device.
 *
 * Audio: 10 s, resampled from 16 to 48 kHz (so there is nothing above 8 kHz), shorter audio
 * repeated as Hugging Face's "repeatpad" does; log-mel of 64 bins -> Swin transformer (HTSAT) ->
 * projection. Text: RoBERTa -> projection. 512 values, L2-normalised. A result does not depend on
 * the rest of a call (bit for bit on the host). One thread at a time. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"
#include "workers/models/clap/clap_config.h"

#define CLAP_MAX_WINDOWS 1024 /* of a call */

struct backend;
struct clap;

enum { CLAP_AUDIO = 1, CLAP_TEXT = 2 }; /* which towers are loaded */

/* dir: as model_dir_find gives it. windows: that a call takes at most; 0: chosen. They share the
 * device's work where it has wide_batches and is not deterministic, and are computed one after
 * another elsewhere. Each tower is run once, so that what the device takes for that is taken now.
 * ERR_MODEL names the file and the problem. be borrowed. */
int clap_load(const char *dir, struct backend *be, enum precision precision, unsigned towers,
              uint32_t windows, struct clap **ret, struct err *err);
void clap_free(struct clap *c); /* NULL is fine */
uint32_t clap_size(const struct clap *c);
uint32_t clap_windows(const struct clap *c);
/* Bytes of device memory of the published model at the given precision: a prediction for planning.
 * windows: 1 on a device that takes one at a time. */
uint64_t clap_predict_bytes(unsigned towers, enum precision precision, uint32_t windows);
/* n <= clap_windows windows; ret: [n][clap_size]. ERR_MODEL when something computed is no number.
 */
int clap_run_audio(struct clap *c, const struct clap_audio *audio, uint32_t n, float *ret,
                   struct err *err);
/* texts: UTF-8; any number; too long ones are cut where the model ends. ret: [n][clap_size]. */
int clap_run_text(struct clap *c, const char *const *texts, uint32_t n, float *ret,
                  struct err *err);

#endif
