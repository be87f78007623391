/* tools/export/subtitles.h - a transcript as subtitles that people can read: what is on the screen
 * at once, in which lines, and from when to when.
 *
 * A cue has one speaker. Never more columns, lines or time than the limits, never less time and gap
 * than they say; no two cues overlap. Reading speed is held as far as there is time: where people
 * speak faster than that for longer, a cue has all the time there is before the next one, which
 * comes at most SUBTITLE_LATE_MS late for it. Cues are in the order of segments, also where people
 * speak at once: a file with other words in between would not come back (tools/correct). Text is
 * broken where sense breaks. docs/reference/formats.md names the published guidelines. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_H

#include "base/buf.h"
#include "base/err.h"
#include "tools/export/document.h"

#define SUBTITLE_LATE_MS 700

struct subtitle_limits {            /* 0: as usual in the language */
    uint32_t line_columns, lines;   /* East Asian wide characters are two columns */
    double cps;                     /* characters a second */
    int64_t min_ms, max_ms, gap_ms; /* how long a cue lasts; between two cues: < 0 none */
};
/* The limits with what is 0 filled in for the language ("es", "" unknown). */
struct subtitle_limits subtitle_usual(struct subtitle_limits l, const char *language);

struct subtitle_piece { /* what no line is broken in: a word, or an East Asian character */
    size_t at, len;     /* of `text` */
    int64_t start_ms, end_ms;
    uint32_t columns, characters;
    const char *speaker; /* of the document; "" unknown */
    bool blank, line;    /* a blank or a line break is before it; not before a cue's first */
    bool timed;          /* a word of the recogniser begins with it, and that is its time */
};
struct subtitle {
    int64_t start_ms, end_ms;
    const char *speaker; /* of the document; "" unknown */
    bool turn;           /* the speaker is another one than before */
    bool label_line;     /* with labels: "[NAME]" has a line of its own */
    size_t first, count; /* pieces; none: a sound */
    const char *sound;   /* of the document; NULL: speech */
};
struct subtitles { /* zero at first; owned: subtitles_free */
    struct subtitle *list;
    size_t count;
    struct subtitle_piece *pieces;
    size_t piece_count;
    struct buf text; /* without control characters */
};
void subtitles_free(struct subtitles *s);

/* labels: the names of speakers are part of the text, "[NAME] ", at each turn. sounds: those of the
 * document, as cues where nothing is said. Speakers and sounds are borrowed from d. */
int subtitles_make(const struct document *d, const struct subtitle_limits *limits, bool labels,
                   bool sounds, struct subtitles *ret, struct err *err);

#endif
