/* tools/score/score_der.h - `nightshift score --der`: how much of the time who speaks is wrong, of
 * one RTTM file against another. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_SCORE_DER_H
#define NIGHTSHIFT_TOOLS_SCORE_SCORE_DER_H

#include "tools/cli/cli.h"
#include "tools/score/der.h"

/* Recordings are those of the reference, found in the hypothesis by name; where either file has one
 * alone, they are taken for the same. Prints; returns the exit status. */
int score_der(const struct cli *cli, const char *reference, const char *hypothesis,
              const struct der_params *p);

#endif
