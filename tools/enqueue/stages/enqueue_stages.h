/* tools/enqueue/stages/enqueue_stages.h - all that one enqueue asks for: a transcription, and
 * beside it who speaks, which sounds there are, and vectors to search by. One stage each, one job
 * each.
 *
 * Main thread. Strings are borrowed from argv. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGES_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGES_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/complete.h"
#include "tools/enqueue/stages/enqueue_stage.h"
#include "workers/stages/stage_kind.h"

/* Values of these options for getopt. */
#define ENQUEUE_NO_TRANSCRIBE 1999
#define ENQUEUE_STAGES_FIRST 2000
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
    bool anew; /* the transcription is made of the options, also where they say nothing of it */
    /* Of the others, as stage_kinds: */
    const char *other[STAGE_COUNT];  /* their models; "": the usual one; NULL: not asked for */
    const char *behind[STAGE_COUNT]; /* the argument behind one without a model; NULL: none */
    struct enqueue_wish_option options[ENQUEUE_STAGES_OPTIONS];
    size_t count;
    struct enqueue_params params; /* of the transcription */
};

void enqueue_wish_init(struct enqueue_wish *w);
/* As enqueue_params_options; one more than ENQUEUE_STAGES_OPTIONS at most. */
size_t enqueue_wish_options(const struct enqueue_wish *w, struct option *ret);
bool enqueue_wish_knows(int option);
/* value NULL: an option whose value may be left out came without. next: the argument behind it, or
 * NULL. ERR_USAGE with a sentence. */
int enqueue_wish_take(struct enqueue_wish *w, int option, const char *value, const char *next,
                      struct err *err);
/* Names of models that are here, for a stage. */
void enqueue_stage_values(const struct stage_kind *kind, const struct complete *c);
/* The same, or the choices that a parameter has. option: also 'm'. */
void enqueue_wish_values(const struct enqueue_wish *w, int option, const struct complete *c);
/* The name of an option that says how to transcribe; NULL: there is none. */
const char *enqueue_wish_transcribes(const struct enqueue_wish *w);
/* Options that do nothing without another, or exclude each other: ERR_USAGE. */
int enqueue_wish_agree(const struct enqueue_wish *w, struct err *err);
/* The part of --help, at most 80 columns wide. */
void enqueue_wish_help(const struct enqueue_wish *w, struct buf *out);

/* The stages, all owned: enqueue_stages_free. */
struct enqueue_stages {
    struct store_stage stages[STAGE_COUNT];
    uint32_t count;
    char note[700];                /* for people: what they may not have expected; "" nothing */
    char model_note[700];          /* that a model which comes with the program was taken; "" no */
    struct store_stage transcribe; /* also when it is only the source of another */
    struct enqueue_stage own[STAGE_COUNT];
    char *model; /* of a transcription that the catalog has */
};

/* Finds models and checks them as far as their headers say. known: the catalog, or NULL. Where no
 * option says how to transcribe, and other stages are asked for, the transcription is `last`
 * (borrowed), or, where that is NULL, the one that the catalog had last. *doing says in a few words
 * what failed; "" when it is the options. What *ret holds is to be freed in any case. */
int enqueue_stages_find(struct enqueue_wish *w, struct store *known, const struct store_stage *last,
                        struct enqueue_stages *ret, char doing[200], struct err *err);
/* One stage of stage_kinds alone, without a catalog, for whoever measures it: ret->stages[0].
 * model: its name or folder; "": the usual one. As above. */
int enqueue_stages_one(size_t which, const char *model, struct enqueue_stages *ret, char doing[200],
                       struct err *err);
void enqueue_stages_free(struct enqueue_stages *s);

/* The parameters of a stage that works on a transcription, made to work on this one. *ret newly
 * allocated. */
int enqueue_stage_on(const struct stage_kind *k, const struct store_stage *source,
                     const char *params_json, char **ret, struct err *err);

/* "to transcribe with whisper-nano" */
void enqueue_stage_words(const struct store_stage *s, struct buf *out);

#endif
