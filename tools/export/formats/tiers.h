/* tools/export/formats/tiers.h - a transcript as linguists' programs have it: a tier for each
 * speaker, whose spans follow each other without overlap. Pure. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMATS_TIERS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMATS_TIERS_H

#include "base/buf.h"
#include "base/err.h"
#include "tools/export/document.h"

struct tiers_span {
    int64_t start_ms, end_ms; /* start < end */
    const char *text;         /* of the document, as it is there */
    size_t parent;            /* of a word: its segment's span in the tier */
};
struct tier {
    char *name, *words_name; /* on one line; each once in the whole, compared as they are */
    struct tiers_span *spans, *words;
    size_t count, word_count;
};
struct tiers { /* zero at first; owned: tiers_free */
    struct tier *list;
    size_t count;
    int64_t end_ms; /* of the recording, and not before any span */
};
void tiers_free(struct tiers *t);
/* Texts are borrowed from d. What is not known who says it is in the tier "transcript". Spans that
 * would overlap in a tier begin later; those of which nothing is left then last a millisecond. */
int tiers_make(const struct document *d, struct tiers *ret, struct err *err);

#endif
