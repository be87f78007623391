/* workers/stages/synthetic_load.h - a synthetic load for a transcription's two networks, behind
 * stage.h. It asks of the device what a window asks, without decoding speech. Only measurements use
 * it.
 *
 * A lane is one window of noise (stage_work.synthetic_load, the same for all lanes that are there),
 * since the time does not depend on what is heard: it is encoded, then a prompt is fed, then tokens
 * are chosen and fed, the end like any other, so that every window has its length. There may be one
 * lane per slot. The first step encodes all of them, each later one is a step of the decoder for
 * all. They end together; an error removes them. In the decoder each has as many hypotheses as the
 * transcription has, of which one is another's copy each time. The rules of choice are like a
 * multilingual model's; no vocabulary is wanted.
 *
 * With `words` windows that end are aligned with their sound, as many at once as the session takes:
 * a text of as many tokens as were fed. A session without room for that leaves it out.
 *
 * `beside` is a run in its full course: each slot holds a window of an earlier synthetic load, that
 * must have had at least as many positions (ERR_USAGE), and the slots are at different ones, so
 * that they end batch by batch. A lane is one encoding and one window's steps of its slot: what is
 * left of the old window, and the new one up to where the old one was. So the next such synthetic
 * load goes on alike. The last batch's steps have no encoding beside them: with one batch in eight
 * of the slots, an eighth is measured as if one did after the other.
 *
 * It implements stage.h's close, slots, windows (if there is room), precision, add (ERR_USAGE: no
 * room, or the steps have begun) and step. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_SYNTHETIC_LOAD_H
#define NIGHTSHIFT_WORKERS_STAGES_SYNTHETIC_LOAD_H

#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/stages/stage.h"

/* Borrows a loaded model. shape: branches and alignment heads; rows: hypotheses of a window in a
 * step of the decoder, at most the branches, at least 1. There is room for lanes only after
 * synthetic_resize. */
int synthetic_new(struct asr_model *model, const struct asr_shape *shape, uint32_t rows,
                  struct stage **ret, struct err *err);
/* stage_kind.synthetic_load: setup.dir is a model's folder (with a slash), else a name of
 * whisper_preset, with random weights; of the rest only the precision counts. Lanes need
 * synthetic_resize first, as above. */
int synthetic_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
                   struct err *err);

/* Other room, without lanes: slots, and windows at once in the encoder (0: chosen); slots 0: none.
 * ERR_VRAM: so many do not fit, and there is none. */
int synthetic_resize(struct stage *synthetic_load, uint32_t slots, uint32_t windows,
                     struct err *err);

/* Aligns the windows that all slots hold after a synthetic load of this work, as `words` does.
 * ERR_USAGE: they do not hold them, or the model cannot. *ret: seconds. */
int synthetic_align(struct stage *synthetic_load, struct stage_synthetic work, double *ret,
                    struct err *err);

struct synthetic_meter {
    struct asr_times times; /* since there is this room */
    uint32_t positions;     /* of a window in the decoder, at most */
    uint32_t default_slots;
    uint64_t weight_bytes, slot_bytes;
    double encoder_flop; /* of one window: multiply-adds, twice */
    double step_bytes;   /* that a step of all slots must read: the decoder's weights, and each
                            slot's cross keys and values */
};

void synthetic_meter(const struct stage *synthetic_load, struct synthetic_meter *ret);

#endif
