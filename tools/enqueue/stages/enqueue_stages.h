/* tools/enqueue/stages/enqueue_stages.h - all that one enqueue asks for: a transcription, and
 * beside it who speaks, which sounds there are, and vectors to search by. One stage each, one job
 * each.
 *
 * Main thread. Strings are borrowed from the wish (enqueue_wish.h), and so from argv. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGES_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGES_H

#include "tools/enqueue/stages/enqueue_stage.h"
#include "tools/enqueue/stages/enqueue_wish.h"

/* The stages, all owned: enqueue_stages_free. */
struct enqueue_stages {
    struct store_stage stages[STAGE_COUNT];
    uint32_t count;
    char note[700];                /* for people: what they may not have expected; "" nothing */
    struct store_stage transcribe; /* also when it is only the source of another */
    struct enqueue_stage own[STAGE_COUNT];
};

/* Finds models and checks them as far as their headers say. known: the catalog, or NULL. The wish
 * is told what was found where it says nothing: the models, and whether there is voice activity.
 * *doing says in a few words what failed; "" when it is the options. The caller frees *ret even on
 * error. */
int enqueue_stages_find(struct enqueue_wish *w, struct store *known, struct enqueue_stages *ret,
                        char doing[200], struct err *err);
/* One stage of stage_kinds alone, without a catalog, for whoever measures it: ret->stages[0].
 * model: its name or folder; "": the usual one. The rest as in enqueue_stages_find. */
int enqueue_stages_one(size_t which, const char *model, struct enqueue_stages *ret, char doing[200],
                       struct err *err);
void enqueue_stages_free(struct enqueue_stages *s);

/* "to transcribe with whisper-nano" */
void enqueue_stage_words(const struct store_stage *s, struct buf *out);

#endif
