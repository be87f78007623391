#include "tools/enqueue/stages/other_words.h"

#include <string.h>

static const char *const tasks[] = {"transcribe", "translate", NULL};
const struct param_field other_words_task = {.name = "task",
                                             .kind = PARAM_CHOICE,
                                             PARAM_AT(other_words, task),
                                             .choices = tasks,
                                             .value = "TASK",
                                             .help = "transcribe (default) or translate"};

const struct param_field other_words_one_language = {
    .name = "one_language",
    .kind = PARAM_BOOL,
    PARAM_AT(other_words, one_language),
    .help = "detect one language for each shard (about five minutes)",
    .manual = "Detect one language for each shard, about five minutes, from its first speech. "
              "Without this, languages are detected for each stretch of speech."};

static const char *const qualities[] = {"best", "fast", NULL};
const struct param_field other_words_quality = {
    .name = "quality",
    .kind = PARAM_CHOICE,
    PARAM_AT(other_words, quality),
    .choices = qualities,
    .value = "WORD",
    .help = "best (default) or fast: one beam instead of five",
    .manual = "One of best and fast. best, the default, is --beam-size=5 and --best-of=5, as in "
              "other programs. fast is 1 and 1: some words are worse, and the decoder has a fifth "
              "of the work."};

const struct param_field *other_words_behind(const struct param_field *f)
{
    static const struct {
        const char *name;
        const struct param_field *other;
    } all[] = {{"translate", &other_words_task},
               {"multilingual", &other_words_one_language},
               {"best_of", &other_words_quality}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(f->name, all[i].name) == 0)
            return all[i].other;
    return NULL;
}
