/* tools/enqueue/stages/stage_differ.h - in what two stages of one kind differ, for people. Pure. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_DIFFER_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_DIFFER_H

#include "base/buf.h"
#include "store/store.h"

/* "model small instead of tiny, beam_size 5 instead of 1, voice activity on"; what is named by its
 * hash alone is said in other words. A stage of a later version differs in "its parameters". */
void stage_differ(const struct store_stage *was, const struct store_stage *now, struct buf *out);

#endif
