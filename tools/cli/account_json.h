/* tools/cli/account_json.h - an account as the programs' JSON has it. */
#ifndef NIGHTSHIFT_TOOLS_CLI_ACCOUNT_JSON_H
#define NIGHTSHIFT_TOOLS_CLI_ACCOUNT_JSON_H

#include <jansson.h>

#include "tools/cli/account.h"

/* null where it is not known. NULL: no memory. */
static inline json_t *account_json(const struct result_account *a)
{
    return account_known(a)
               ? json_pack("{s:I, s:I, s:I, s:f}", "speech_ms", (json_int_t)a->speech_ms,
                           "dropped_ms", (json_int_t)a->dropped_ms, "missing_ms",
                           (json_int_t)a->missing_ms, "text_share", account_share(a))
               : json_null();
}

#endif
