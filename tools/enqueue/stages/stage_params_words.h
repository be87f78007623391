/* tools/enqueue/stages/stage_params_words.h - the parameters of a stage, for people. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_PARAMS_WORDS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_STAGE_PARAMS_WORDS_H

#include "base/buf.h"

/* " (beam_size 5, word_timestamps)": those that are not the stage's defaults, by which two stages
 * of one model are told apart; nothing where there are none. Of files and of other stages, which
 * are named by hashes, other names tell. */
void stage_params_words(const char *stage, const char *params_json, struct buf *out);

#endif
