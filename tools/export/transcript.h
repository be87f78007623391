/* tools/export/transcript.h - the words of a transcript file: txt, srt, vtt, tsv, json.
 *
 * Takes what `nightshift export` writes and what openai-whisper writes. The name's ending says
 * which; any other is plain text. Main thread or any other. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_TRANSCRIPT_H
#define NIGHTSHIFT_TOOLS_EXPORT_TRANSCRIPT_H

#include <stddef.h>

#include "base/err.h"
#include "tools/export/cues.h"

#define TRANSCRIPT_FILE_MAX ((size_t)64 << 20) /* bytes; weeks of talking have less */

/* Endings that hold transcripts, the most preferred first, NULL-terminated. */
extern const char *const transcript_endings[];

/* The file's cues; *format is what its name's ending says, CUES_TXT for any other. The caller frees
 * *ret even on error. ERR_MISSING, ERR_DENIED, ERR_IO: it cannot be read. ERR_INPUT: not UTF-8, or
 * not of its format. ERR_LIMIT: over TRANSCRIPT_FILE_MAX. */
int transcript_cues(const char *path, enum cues_format *format, struct cues *ret, struct err *err);
/* The same as one text, newly allocated, cues parted by line ends. language: what the file says of
 * itself, a code such as "en", "" when nothing. */
int transcript_read(const char *path, char **ret, char language[CUES_LANGUAGE_LEN],
                    struct err *err);

#endif
