/* tools/cli/complete.h - what a word of the command line may become, for the shell: the hidden
 * command `nightshift complete WORD...` prints what the last WORD may be, a line each. If it prints
 * nothing, the shell completes names of files. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_COMPLETE_H
#define NIGHTSHIFT_TOOLS_CLI_COMPLETE_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

struct complete {              /* borrowed from argv */
    const char *word, *before; /* before: the one in front of it; "" none */
    size_t keep;               /* bytes of word that stay in front of a value: "--model=" */
};

/* Prints the candidate if what is typed begins it. */
void complete_put(const struct complete *c, const char *candidate);
/* Puts the values that `option` (getopt's) may have. */
typedef void (*complete_values)(const struct complete *c, int option, void *arg);
/* Options, or the values of the one whose value the word is: then true. values NULL: not known. */
bool complete_options(struct complete *c, const struct option *longs, complete_values values,
                      void *arg);

#endif
