/* workers/models/pyannote/sinc.h - SincNet's band-pass filters, computed from what they learn.
 *
 * Ravanelli and Bengio, "Speaker Recognition from Raw Waveform with SincNet" (2018): a filter is
 * the difference of two sinc functions, of which only the two edges of its band are learned. The
 * second half of the filters are the same bands shifted by a quarter period (odd functions), as
 * Pariente et al., "Filterbank design for end-to-end speech separation" (2020). */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_SINC_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_SINC_H

#include <stdint.h>

#define SINC_WIDTH 251
#define SINC_RATE_HZ 16000

/* low, band: [n] in Hz, as they are in a checkpoint: 50 Hz are added to each. ret:
 * [2n][SINC_WIDTH]. */
void sinc_filters(const float *low, const float *band, uint32_t n, float *ret);

#endif
