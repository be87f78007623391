/* tools/enqueue/option_words.h - the options of one kind of stage as a recipe has them: a JSON list
 * of words ("--model=openai/whisper-small"), in the order of the options' tables, with absolute
 * paths. So the same command is known again, however its options were ordered, and from whichever
 * folder it was given. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_OPTION_WORDS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_OPTION_WORDS_H

#include <jansson.h>

#include "tools/enqueue/stages/enqueue_stages.h"

/* Does the wish name any option? */
bool said_anything(const struct enqueue_wish *w);
/* *ret newly allocated; kind: in stage_kinds. */
int said_options(const struct enqueue_wish *w, size_t kind, char **ret, struct err *err);
/* Puts the options as users typed them: " (--beam-size=2 --language=en)". Leaves out the model, and
 * puts nothing if there is no other option. stage: its name. */
void said_words(const char *options, const char *stage, struct buf *out);
/* Says them to a wish that holds nothing of this kind; `rest`: to one that does, and then the model
 * and voice activity alone, where it says nothing of these. The wish's strings lie in `keep`, a
 * list, from then on. ERR_CORRUPT: that is no such list; ERR_USAGE: one of them is none of this
 * version's. */
int said_again(const char *options, size_t kind, bool rest, struct enqueue_wish *w, json_t *keep,
               struct err *err);

#endif
