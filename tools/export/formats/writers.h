/* tools/export/formats/writers.h - who writes each format: `write` of its row in formats.c. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMATS_WRITERS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMATS_WRITERS_H

#include "tools/export/format.h"

#define WRITER(name)                                                                            \
    int write_##name(const struct document *d, const struct format_options *o, struct buf *out, \
                     struct err *err)
WRITER(txt);   /* one line a segment */
WRITER(srt);   /* cues, laid out (subtitles.h), or plain: one for each segment */
WRITER(vtt);   /* the same; with words, a time for each in its cue, unless the text was corrected */
WRITER(ebutt); /* EBU-TT-D, laid out always */
WRITER(tsv);   /* Whisper's own, start and end in milliseconds, and the speaker behind the text */
WRITER(json);  /* one object, with lists of segments, turns, sounds, tags and chapters */
WRITER(rttm);  /* speakers' turns, no text; blanks in names become '_', which part the fields */

WRITER(csv);      /* start, end, speaker, text */
WRITER(ohms);     /* WebVTT with a cue for each segment and its speaker */
WRITER(eaf);      /* ELAN: tiers of speakers, and of their words */
WRITER(textgrid); /* Praat: the same */
WRITER(iiif);     /* a manifest with a page of W3C annotations */
WRITER(docx);     /* into an empty buffer */

WRITER(whisper_json); /* one object as openai-whisper writes it, with WhisperX's speakers */

#endif
