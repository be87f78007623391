/* tools/enqueue/stages/stage_params_words.h - the parameters of a stage, for people. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_PARAMS_WORDS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_PARAMS_WORDS_H

#include "base/buf.h"

/* Puts " (beam_size 5, word_timestamps)": the parameters that differ from the stage's defaults and
 * tell two stages of one model apart. Puts nothing if there are none. Leaves out files and other
 * stages, which are named by hashes. */
void stage_params_words(const char *stage, const char *params_json, struct buf *out);

#endif
