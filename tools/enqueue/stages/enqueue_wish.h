/* tools/enqueue/stages/enqueue_wish.h - what the options of one enqueue say: how to transcribe, and
 * which stages are wanted beside that. The options are made of the stages' tables.
 *
 * Main thread. Strings are borrowed from argv. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_WISH_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_WISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/cli/command.h"
#include "tools/enqueue/stages/enqueue_params.h"
#include "tools/cli/param_option.h"
#include "workers/stages/stage_kind.h"

#define ENQUEUE_STAGES_OPTIONS 64

struct enqueue_wish_option {
    size_t stage;                    /* in stage_kinds */
    const struct param_field *field; /* NULL: the option that asks for the stage */
    char name[PARAM_OPTION_LEN];
    bool given; /* of a field, */
    const char *value;
};

struct enqueue_wish {
    const char *model; /* of the transcription; NULL: not said */
    bool no_transcribe;
    bool hears;    /* what the transcription hears is known, also where it is not done itself */
    bool times;    /* who tells speakers apart has times made for the words that are there */
    bool on_known; /* and it is one that the catalog has */
    bool kept[STAGE_COUNT]; /* its options are a recipe's: what is not here any more is said so */
    /* The other stages, indexed as stage_kinds: */
    const char *other[STAGE_COUNT];  /* their models; "": the usual one; NULL: not asked for */
    const char *behind[STAGE_COUNT]; /* the argument behind one without a model; NULL: none */
    struct enqueue_wish_option options[ENQUEUE_STAGES_OPTIONS];
    size_t count;
    struct enqueue_params params; /* of the transcription */
    struct enqueue_vad vad;       /* of the diarization */
};

void enqueue_wish_init(struct enqueue_wish *w);
/* The options of a wish, as a command's: --model, those of the stages' tables, --no-transcribe. */
extern const struct command_option enqueue_wish_table[];
/* Asks for a stage beside the transcription. value NULL: its usual model. next: the argument behind
 * it, or NULL. ERR_USAGE with a sentence. */
int enqueue_wish_ask(struct enqueue_wish *w, size_t stage, const char *value, const char *next,
                     struct err *err);
/* Takes a parameter of such a stage. ERR_USAGE with a sentence. */
int enqueue_wish_take(struct enqueue_wish *w, size_t stage, const struct param_field *f,
                      const char *value, struct err *err);
/* Names of models that are here, for the option's stage. */
void enqueue_stage_values(const struct complete *c, const struct command_option *o);
/* The name of an option that says how to transcribe; NULL: there is none. */
const char *enqueue_wish_transcribes(const struct enqueue_wish *w);
/* Is any stage asked for beside the transcription? And one that works on that (NULL: none)? */
bool enqueue_wish_other(const struct enqueue_wish *w);
const struct stage_kind *enqueue_wish_on_source(const struct enqueue_wish *w);
/* Does it say whether a stage has voice activity? f NULL: it does not. */
bool enqueue_wish_is_vad(const struct param_field *f);
/* Says of such a stage (in stage_kinds) that it has, unless something was said. */
void enqueue_wish_say_vad(struct enqueue_wish *w, size_t stage);
/* The parameters of a stage (in stage_kinds) as the options say them, but for the model of voice
 * activity, which w->vad says. *ret newly allocated. */
int enqueue_wish_params(const struct enqueue_wish *w, size_t stage, void **ret, struct err *err);
/* Options that do nothing without another, or exclude each other: ERR_USAGE. */
int enqueue_wish_agree(const struct enqueue_wish *w, struct err *err);
#endif
