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

/* The parameters of a stage beside a transcription, made to hear what this one hears, and, where it
 * works on one, to work on it. *ret newly
 * allocated. */
int enqueue_stage_on(const struct stage_kind *k, const struct store_stage *source,
                     const char *params_json, char **ret, struct err *err);

/* What a stage hears beside a transcription that hears this: the same, but for those that hear the
 * mix of what others hear apart. */
struct hearing_words enqueue_hearing(const struct stage_kind *k, struct hearing_words words);

/* "to transcribe with whisper-nano" */
void enqueue_stage_words(const struct store_stage *s, struct buf *out);

#endif
