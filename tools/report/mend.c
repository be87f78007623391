/* What may be done about what failed. */
#include <string.h>

#include "tools/report/report.h"

static const struct mend {
    const char *kind, *code, *what; /* code NULL: any */
} mends[] = {
    {"failed", "input",
     "it holds no sound that can be decoded, or is damaged: play it, bring "
     "another copy, and enqueue that; or dismiss it: nightshift cancel --failed PATH"},
    {"failed", "missing", "bring the file back, then nightshift retry"},
    {"failed", "denied", "let the user of the run read it, then nightshift retry"},
    {"failed", "changed", "it is another file than was enqueued: nightshift enqueue its folder"},
    {"failed", "limit", "it is larger than one recording may be: cut it, and enqueue the parts"},
    {"failed", "io", "look at the disk or the network share, then nightshift retry"},
    {"failed", "timeout", "nightshift retry; if it hangs again, bring another copy"},
    {"failed", "crash", "nightshift retry; if it dies again, bring another copy"},
    {"failed", "nomem", "free memory or take fewer --decoders, then nightshift retry"},
    {"failed", "vram", "fewer --slots or --precision int8, then nightshift retry"},
    {"failed", "model", "nightshift doctor says what is wrong with the model"},
    {"failed", "device",
     "nightshift doctor says what is wrong with the device, then nightshift "
     "retry"},
    {"failed", NULL, "nightshift retry"},
    {"damaged", NULL, "what could be read is there; enqueue a better copy if there is one"},
    {"absent", NULL, "bring it back and enqueue its folder, or nightshift cancel"},
    {"unreadable", "input",
     "what could be read of it is there; unpack it by hand or bring another "
     "copy, and enqueue that"},
    {"unreadable", "limit", "unpack it by hand, and enqueue what comes out"},
    {"unreadable", "denied", "let the user of enqueue read it, and enqueue its folder again"},
    {"unreadable", NULL, "look at the disk or the network share, and enqueue its folder again"},
    {"changed", NULL, "other bytes than before: bring it back from a copy, then nightshift verify"},
};

const char *report_mend(const char *kind, const char *code)
{
    for (size_t i = 0; i < sizeof(mends) / sizeof(mends[0]); i++)
        if (strcmp(mends[i].kind, kind) == 0 &&
            (!mends[i].code || strcmp(mends[i].code, code) == 0))
            return mends[i].what;
    return "nightshift status --failures says why";
}
