/* workers/models/files/model_dir.h - where a model's files are, and which model they are.
 *
 * A model is named by a directory (or a file of whisper.cpp's), by a name in the models directories
 * ($NIGHTSHIFT_MODELS, $XDG_DATA_HOME/nightshift/models, the installed share/nightshift/models, and
 * the source tree's when run from a build), or by a Hub id ("openai/whisper-tiny") in the Hugging
 * Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub; refs/main, then any snapshot).
 * The short names below ("small") stand for such a folder of the models directories, or
 * for the ids that they have. Nothing is ever fetched here. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_MODEL_DIR_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_MODEL_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MODEL_DEMO "whisper-nano" /* comes with the program; knows some 330 words */
#define MODEL_HASH_LEN 33         /* 32 hex digits and the NUL */

/* The directory, or the file that is the model, newly allocated, absolute. ERR_MODEL naming every
 * place that was looked in. */
int model_dir_find(const char *name, char **ret, struct err *err);

/* Under which name a model that people know by a short one is here: that one in a
 * models directory, or one of its Hub ids. A literal; NULL: it is none of these, or not here. */
const char *model_dir_known(const char *name);
/* Like model_dir_find, but `name` is not a path: searches only the places above. */
int model_dir_find_placed(const char *name, char **ret, struct err *err);
/* In a folder that is no place of this machine's, as one that was carried over: `name` in it as in
 * a models directory, or as a Hub id in it or its folder "hub" as in a cache. *ret as of
 * model_dir_find. ERR_MODEL: it is not there. */
int model_dir_find_below(const char *folder, const char *name, char **ret, struct err *err);

/* A model that is one file: `name` is the name of a directory with `file` in the models directories
 * or, with `here`, first of all the path of that file or of such a directory, which is another one
 * wherever a program is started. *ret as of model_dir_find. */
int model_dir_find_file(const char *name, const char *file, bool here, char **ret, struct err *err);

/* XXH3-128 over names, sizes and bytes of the files that decide results (config.json,
 * generation_config.json, preprocessor_config.json, tokenizer.json, of a sentence encoder also
 * modules.json, 1_Pooling/config.json, sentence_bert_config.json and
 * config_sentence_transformers.json, of CTranslate2's the lists of tokens, and the weights in
 * whichever layout they are: weight_layout.h), hex. Reads the whole weights: about a second per 3
 * GB. Also checks that the files are there: ERR_MODEL. */
int model_dir_hash(const char *dir, char ret[MODEL_HASH_LEN], struct err *err);

/* The same of other files, in this order; with `weights` those of weight_layout.h after them. An
 * optional one that is not there adds nothing. */
struct model_file {
    const char *name; /* in the folder; may lie in a folder of it */
    bool optional;
};
int model_dir_hash_files(const char *dir, const struct model_file *files, size_t n, bool weights,
                         char ret[MODEL_HASH_LEN], struct err *err);

/* The hash of a model that is one file: XXH3-128 of its bytes, hex. ERR_MODEL as above. */
int model_dir_hash_file(const char *file, char ret[MODEL_HASH_LEN], struct err *err);

/* Calls fn for each model found in the models directories and the Hugging Face cache. */
int model_dir_list(void (*fn)(void *arg, const char *name, const char *dir), void *arg,
                   struct err *err);

/* The folder for fetched models, which need not exist. *ret newly allocated. ERR_USAGE: the
 * environment names no such folder. */
int model_dir_cache(char **ret, struct err *err); /* the Hugging Face cache */
int model_dir_own(char **ret, struct err *err);   /* this user's models directory */

/* ---- the Whisper models that people know by a short name ("small", "large-v3", "turbo")
 *
 * It says where they are on Hugging Face, their size and their licence. Constant; any thread. */

struct model_name {
    const char *name;    /* as OpenAI's program and faster-whisper have it */
    const char *also;    /* another one, as "turbo"; NULL: none */
    const char *hub;     /* the id on Hugging Face that a pull fetches */
    const char *ct2;     /* that of the same weights for faster-whisper, used where it is here */
    uint64_t bytes;      /* of a pull, about */
    const char *licence; /* as Hugging Face has it */
    bool usual;          /* of OpenAI's, for many languages: is taken where none is named. Others
                            ("small.en",          "distil-large-v3") know English alone, or that best. */
};

/* The i-th, the best first; NULL behind the last. */
const struct model_name *model_name_at(uint32_t i);
/* By its name or its other one; NULL: there is no such. */
const struct model_name *model_name_find(const char *name);

#endif
