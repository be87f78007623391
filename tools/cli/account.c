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
        buf_printf(out, "%s the text of %s was rejected", a->missing_ms > 0 ? ", and" : ";",
                   text_length(a->dropped_ms, length));
}

bool textless_say(const uint64_t counts[TEXTLESS_KINDS], enum store_textless kind, struct buf *out)
{
    const uint64_t n = counts[kind];
    char count[TEXT_LEN];
    const char *have = text_plural(n, "recording has", "recordings have");

    if (n == 0)
        return false;
    text_count(n, count);
    if (kind == TEXTLESS_SILENT)
        buf_printf(out, "nobody speaks in %s %s", count, text_plural(n, "recording", "recordings"));
    else if (kind == TEXTLESS_UNKNOWN)
        buf_printf(out, "%s %s no text", count, have);
    else
        buf_printf(out, "%s %s %sonly rejected text: nightshift show --dropped", count, have,
                   kind == TEXTLESS_UNBELIEVED ? "speech but " : "");
    return true;
}

const char *textless_why(enum store_textless kind)
{
    static const char *const sentences[] = {
        [TEXTLESS_SILENT] = "Nobody speaks in it.",
        [TEXTLESS_UNBELIEVED] = "Somebody speaks in it, but all of its text was rejected.",
        [TEXTLESS_DOUBTFUL] = "All of its text was rejected.",
        [TEXTLESS_UNKNOWN] = "It has no text.",
        [TEXTLESS_KINDS] = "",
    };

    return sentences[kind];
}

uint64_t textless_all(const uint64_t counts[TEXTLESS_KINDS])
{
    uint64_t sum = 0;

    for (int i = 0; i < TEXTLESS_KINDS; i++)
        sum += counts[i];
    return sum;
}
