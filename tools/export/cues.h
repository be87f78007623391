/* tools/export/cues.h - the texts of a transcript file, with their times: txt, srt, vtt, tsv, json.
 *
 * Takes what `nightshift export` and openai-whisper write, and what editors of subtitles make of
 * it: texts over several lines, cues without number or without an empty line before them, empty
 * lines inside a text. Tags (<i>, <v NAME>, {\an8}), times inside a text, settings of a cue, notes
 * and styles are no text. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_CUES_H
#define NIGHTSHIFT_TOOLS_EXPORT_CUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum cues_format { CUES_TXT, CUES_SRT, CUES_VTT, CUES_TSV, CUES_JSON };
/* The ending of its files, and the name of the format of export that it is. */
const char *cues_format_name(enum cues_format format);

struct cue {
    int64_t start_ms, end_ms; /* -1: not known; else 0 <= start <= end */
    size_t at, len;           /* of its text, in `text`, NUL-terminated; '\n' between lines */
    uint64_t line;            /* of the file, where it begins; of json, which one, from 1 */
    bool guarded;             /* json: it says what it replaces ("was"), which is */
    size_t was_at;            /* here in `text`, NUL-terminated */
};

#define CUES_LANGUAGE_LEN 16
struct cues { /* zero at first; owned: cues_free */
    struct cue *list;
    size_t count, capacity;
    struct buf text;
    char language[CUES_LANGUAGE_LEN]; /* json: what it says of itself; "" */
    int64_t recording;                /* json: the number that it says to be of; 0: none */
};
void cues_free(struct cues *c);

/* text: valid UTF-8, NUL-terminated. A cue whose times cannot be read has none. ERR_INPUT: not of
 * this format, with the line. ERR_NOMEM. The caller frees *ret even on error. */
int cues_parse(enum cues_format format, const char *text, struct cues *ret, struct err *err);

/* The time that s begins with, [[H:]M:]S[.mmm], also with a comma; *end is behind it. -1: none, or
 * more than a hundred thousand hours. */
int64_t cues_time(const char *s, const char **end);
/* That s is, and nothing else; -1 also for more than 59 seconds in minutes, or minutes in hours. */
int64_t cues_time_whole(const char *s);

#endif
