#include "tools/cli/complete.h"

#include <stdio.h>
#include <string.h>

void complete_put(const struct complete *c, const char *candidate)
{
    const char *typed = c->word + c->keep;

    if (strncmp(candidate, typed, strlen(typed)) == 0)
        printf("%.*s%s\n", (int)c->keep, c->word, candidate);
}

/* word: "-m" or "--model", of n bytes. */
static bool is_option_word(const struct option *o, const char *word, size_t n)
{
    if (strncmp(word, "--", 2) != 0)
        return n == 2 && o->val == word[1];
    return strlen(o->name) == n - 2 && strncmp(o->name, word + 2, n - 2) == 0;
}

/* The option whose value is being typed, behind a '=' or as a word of its own; NULL: none is. */
static const struct option *of_value(struct complete *c, const struct option *longs)
{
    const char *word = c->word, *end = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;

    if (end)
        c->keep = (size_t)(end - word) + 1;
    else {
        word = c->before;
        end = word + strlen(word);
    }
    for (; *word == '-' && longs->name; longs++)
        if (is_option_word(longs, word, (size_t)(end - word)) &&
            (longs->has_arg == required_argument ||
             (c->keep > 0 && longs->has_arg == optional_argument)))
            return longs;
    return NULL;
}

bool complete_options(struct complete *c, const struct option *longs, complete_values values,
                      void *arg)
{
    const struct option *o = of_value(c, longs);
    char name[80];

    if (o && values)
        values(c, o->val, arg);
    for (; !o && *c->word == '-' && c->keep == 0 && longs->name; longs++) {
        snprintf(name, sizeof(name), "--%s%s", longs->name,
                 longs->has_arg == required_argument ? "=" : "");
        complete_put(c, name);
    }
    return o != NULL;
}
