/* tools/cli/account.h - how much of the speech has a text, as people and programs are told. Pure.
 */
#ifndef NIGHTSHIFT_TOOLS_CLI_ACCOUNT_H
#define NIGHTSHIFT_TOOLS_CLI_ACCOUNT_H

#include "base/buf.h"
#include "store/store.h"
#include "workers/results.h"

/* Is there anything to tell: was it measured, and does anybody speak? */
static inline bool account_known(const struct result_account *a) { return a->speech_ms > 0; }
static inline int64_t account_without(const struct result_account *a)
{
    return a->dropped_ms + a->missing_ms;
}

/* Part of the speech that has a text: 0 to 1, rounded down to four digits, as the column
 * recordings.text_share. -1: not known. */
double account_share(const struct result_account *a);
/* "99.6 % of 12 h 34 min of speech has text; 40 s has none (nightshift doubts --missing), and the
 * text of 10 s was not believed". Rounded down: "100 %" says that no speech is without text. It is
 * known. where: what lists it, behind "nightshift ". */
void account_say(const struct result_account *a, const char *where, struct buf *out);

/* Why recordings have no text, of one reason: "1 recording has speech but no text that is believed:
 * nightshift show --dropped", "nobody speaks in 2 recordings". Puts nothing where there is none:
 * false. */
bool textless_say(const uint64_t counts[TEXTLESS_KINDS], enum store_textless kind, struct buf *out);
/* A sentence about one recording, a literal; "" for TEXTLESS_KINDS. */
const char *textless_why(enum store_textless kind);
uint64_t textless_all(const uint64_t counts[TEXTLESS_KINDS]);

#endif
