#include "tools/cli/account.h"

#include <inttypes.h>

#include "tools/cli/text.h"

/* Whole `steps` of the speech that have a text; all of them only where none is without. */
static int64_t steps_of(const struct result_account *a, int64_t steps)
{
    const int64_t without = account_without(a);
    const double with = (double)(a->speech_ms - without) * (double)steps;
    const int64_t n = (int64_t)(with / (double)a->speech_ms);

    return without > 0 && n == steps ? steps - 1 : n;
}

double account_share(const struct result_account *a)
{
    return account_known(a) ? (double)steps_of(a, 10000) / 10000 : -1;
}

void account_say(const struct result_account *a, const char *where, struct buf *out)
{
    const int64_t tenths = steps_of(a, 1000);
    char length[TEXT_LEN];

    if (tenths == 1000)
        buf_printf(out, "100 %%");
    else
        buf_printf(out, "%" PRId64 ".%" PRId64 " %%", tenths / 10, tenths % 10);
    buf_printf(out, " of %s of speech has text", text_length(a->speech_ms, length));
    if (a->missing_ms > 0)
        buf_printf(out, "; %s has none (nightshift %s)", text_length(a->missing_ms, length), where);
    if (a->dropped_ms > 0)
        buf_printf(out, "%s the text of %s was not believed", a->missing_ms > 0 ? ", and" : ";",
                   text_length(a->dropped_ms, length));
}
