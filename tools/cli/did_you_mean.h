/* tools/cli/did_you_mean.h - what was meant by a word that is none of those that there are. Pure;
 * any thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_DID_YOU_MEAN_H
#define NIGHTSHIFT_TOOLS_CLI_DID_YOU_MEAN_H

#include <stddef.h>

/* The one of `names` that differs by a slip or two of the fingers, or that begins with what was
 * typed; NULL when none does, or several do equally. */
const char *did_you_mean(const char *typed, const char *const *names, size_t n);

/* The sentence about it: "there is no command 'serach'. Perhaps 'search' was meant", without its
 * full stop. `what`: "command", "option"; `mark` stands before each name ("--"). */
#define DID_YOU_MEAN_LEN 400
char *did_you_mean_sentence(const char *what, const char *mark, const char *typed,
                            const char *const *names, size_t n, char out[DID_YOU_MEAN_LEN]);

#endif
