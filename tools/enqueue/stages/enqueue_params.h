/* tools/enqueue/stages/enqueue_params.h - the options of `enqueue` that say how recordings are
 * transcribed: those of the stage's table, and what is said in other words than its parameters are.
 *
 * Main thread. Strings are borrowed from argv. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_PARAMS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/enqueue/stages/enqueue_vad.h"
#include "tools/enqueue/stages/other_words.h"
#include "tools/cli/param_option.h"
#include "workers/stages/transcribe/transcribe.h"

#define ENQUEUE_PARAMS_MAX 64

struct enqueue_option {
    const struct param_field *field;
    char name[PARAM_OPTION_LEN];
    bool given;
    const char *value; /* as it was given; NULL: it takes none */
};

struct enqueue_params {
    struct transcribe_params params;
    struct enqueue_vad vad;
    struct other_words other;
    struct enqueue_option options[ENQUEUE_PARAMS_MAX];
    size_t count;
};

void enqueue_params_init(struct enqueue_params *p);
/* f: of the stage's table, or of other_words.h. ERR_USAGE with a sentence. */
int enqueue_params_take(struct enqueue_params *p, const struct param_field *f, const char *value,
                        struct err *err);
/* Once all are taken: the defaults that depend on others. */
void enqueue_params_resolve(struct enqueue_params *p);
/* Once all are taken and it is decided whether there is voice activity (params.vad_model): options
 * that exclude each other, or that do nothing without another, are ERR_USAGE. */
int enqueue_params_agree(const struct enqueue_params *p, struct err *err);
/* Was any option given that is about voice activity, beside --vad itself? Its name, or NULL. */
const char *enqueue_params_vad_option(const struct enqueue_params *p);
/* Says the option of this name, unless it was said; value: static. */
void enqueue_params_say(struct enqueue_params *p, const char *name, const char *value);
/* Was --multilingual given? */
bool enqueue_params_many_languages(const struct enqueue_params *p);
/* The name of an option that was given, of whatever group; NULL: none was. */
const char *enqueue_params_given(const struct enqueue_params *p);

#endif
