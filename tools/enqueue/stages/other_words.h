/* tools/enqueue/stages/other_words.h - options of `enqueue` that say in other words what parameters
 * of a transcription are to be: of no stage's table, and in --help and the manual beside those that
 * they stand for. Any thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_OTHER_WORDS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_OTHER_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/stages/param_table.h"

struct other_words {
    uint32_t task;    /* 0 transcribe, 1 translate */
    uint32_t quality; /* 0 best, 1 fast */
    bool one_language;
};

/* Its fields. */
extern const struct param_field other_words_task;         /* for --translate */
extern const struct param_field other_words_one_language; /* for no --multilingual */
extern const struct param_field other_words_quality;      /* for --beam-size and --best-of */

/* The option that follows this field of transcribe_table; NULL: none does. */
const struct param_field *other_words_behind(const struct param_field *f);

#endif
