/* workers/models/whisper/whisper_vocabulary.h - the tokens of a Whisper model, in any layout.
 *
 * Hugging Face's files are read as they are (vocabulary.h). Other layouts say the same in other
 * ways: CTranslate2's config.json has the suppressed tokens and the alignment heads under names of
 * its own, and vocabulary.json or vocabulary.txt is the list of tokens where there is no
 * tokenizer.json. whisper.cpp's file has the text tokens; which special tokens follow them is a
 * matter of how many there are. An adapter has its base's. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_VOCABULARY_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_VOCABULARY_H

#include "base/err.h"

struct vocabulary;

/* model: a path as model_dir_find returns it. ERR_MODEL names the file and what is wrong in it. */
int whisper_vocabulary(const char *model, struct vocabulary **ret, struct err *err);

#endif
