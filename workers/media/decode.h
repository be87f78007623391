/* workers/media/decode.h - one recording from a stream of bytes to 16 kHz PCM.
 *
 * Runs inside the decoder process (and in the tests, without one). One thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_DECODE_H
#define NIGHTSHIFT_WORKERS_MEDIA_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/media/decoder.h"
#include "workers/media/stream/stream.h"

struct decode_task {
    /* Before the first samples; for a recording of no length before the end. Once more at the end
     * where other tracks were heard, or are there, than were known. */
    int (*info)(void *arg, const struct decoder_info *info, struct err *err);
    /* At most 16000 samples at a time, of all sources together, from skip_samples on. */
    int (*pcm)(void *arg, const int16_t *pcm, size_t n, int64_t at_sample, struct err *err);
    /* With every packet, since those below skip_samples give nothing else to tell. */
    struct stream_pulse pulse;
    void *arg; /* a callback's negative code ends the decoding with it */
    int64_t skip_samples;
    struct hearing hearing;
};

/* Remarks on a recording at its end. Texts are "" if there is nothing to say. */
struct decode_remarks {
    char damage[400]; /* what was wrong, though audio came out */
    char clock[160];  /* where its clock jumps */
    int64_t length;   /* at 16 kHz: of its pictures, where they go on behind the sound; else 0 */
    struct result_channel channels[RESULT_CHANNELS_MAX];
    uint32_t channel_count;
};

/* Decodes `in` (borrowed) to its end. total_samples and remarks are set; nothing else. */
int decode_stream(struct stream *in, const struct decode_task *task, int64_t *total_samples,
                  struct decode_remarks *remarks, struct err *err);

#endif
