/* What may be done about what failed. */
#include <string.h>

#include "tools/report/report.h"

static const struct mend {
    const char *kind, *code, *what; /* code NULL: any */
} mends[] = {
    {"failed", "input",
     "Play it. If it cannot be played, bring another copy and enqueue that, or dismiss it: "
     "nightshift cancel --failed PATH"},
    {"failed", "missing", ""},
    {"failed", "denied", ""},
    {"failed", "changed", ""},
    {"failed", "limit", "It is larger than one recording may be: cut it, and enqueue the parts."},
    {"failed", "io", "Look at the disk or the network share, then: nightshift retry"},
    {"failed", "stalled", "Look at the disk or the network share, then: nightshift retry"},
    {"failed", "timeout", "Try again: nightshift retry. If it hangs again, bring another copy."},
    {"failed", "crash", "Try again: nightshift retry. If it dies again, bring another copy."},
    {"failed", "nomem", "Free memory or take fewer --decoders, then: nightshift retry"},
    {"failed", "vram", "Take fewer --slots or --precision int8, then: nightshift retry"},
    {"failed", "model", "nightshift doctor says what is wrong with the model."},
    {"failed", "device",
     "nightshift doctor says what is wrong with the device; then: nightshift retry"},
    {"failed", NULL, "Try again: nightshift retry"},
    {"damaged", NULL, "What could be read has its text. Enqueue a better copy if there is one."},
    {"absent", NULL, "If it is gone for good: nightshift cancel PATH"},
    {"no sound", NULL, "It counts as done."},
    {"unreadable", "input",
     "What else is in an archive is in the catalog. Where one is damaged, bring another copy."},
    {"unreadable", "limit", "Unpack it by hand, and enqueue what comes out."},
    {"unreadable", "denied", "Let the user of enqueue read it, and enqueue its folder again."},
    {"unreadable", NULL, "Look at the disk or the network share, and enqueue its folder again."},
    {"changed", NULL, "When it is back: nightshift verify"},
};

const char *report_mend(const char *kind, const char *code)
{
    for (size_t i = 0; i < sizeof(mends) / sizeof(mends[0]); i++)
        if (strcmp(mends[i].kind, kind) == 0 &&
            (!mends[i].code || strcmp(mends[i].code, code) == 0))
            return mends[i].what;
    return "nightshift status --failures says why";
}

static const struct {
    const char *kind, *words;
} kinds[] = {{"changed", "changed"}, {"failed", "failed"}, {"unreadable", "unreadable"},
             {"damaged", "damaged"}, {"absent", "gone"},   {"no sound", "no sound"}};

unsigned report_rank(const char *kind)
{
    unsigned i = 0;

    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].kind, kind) != 0)
        i++;
    return i;
}

const char *report_kind(const char *kind)
{
    const unsigned i = report_rank(kind);

    return i < sizeof(kinds) / sizeof(kinds[0]) ? kinds[i].words : kind;
}

const char *report_stage(const struct report_news *x, const struct report_item *item)
{
    static const char *const of_file[] = {"input", "limit", "missing", "changed", "denied"};

    for (size_t i = 0; i < sizeof(of_file) / sizeof(of_file[0]); i++)
        if (strcmp(of_file[i], x->code) == 0)
            return "";
    return item->stage;
}
