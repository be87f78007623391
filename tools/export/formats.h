/* tools/export/formats.h - a transcript as the text of a file. Pure: into a buffer, piece by piece.
 *
 * txt: one line a segment. srt, vtt: cues. tsv: Whisper's own (start and end in milliseconds).
 * json: one object, with the words that there are, and lists of turns, sounds, tags and chapters.
 * rttm: speakers' turns, no text. Line breaks and control characters inside a segment become
 * blanks; what would end a cue or begin a tag is escaped as the format has it. Any thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMATS_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/complete.h"

enum format { FORMAT_TXT, FORMAT_SRT, FORMAT_VTT, FORMAT_TSV, FORMAT_JSON, FORMAT_RTTM };

/* By name; -1: none. And back: also the suffix of its files. */
int format_from_name(const char *name);
const char *format_name(enum format format);
/* As values of --format; a complete_values. */
void format_values(const struct complete *c, int option, void *arg);

struct format_recording { /* valid UTF-8; "" unknown */
    int64_t id, duration_ms;
    const char *path, *member, *state, *language, *title, *recorded_on, *damage;
    const char *left_out; /* tracks and channels that were not heard */
    bool dropped;         /* the segments are those that were not believed: vtt and json say so */
};
struct format_word {
    int64_t start_ms, end_ms;
    const char *text; /* with its leading blank */
    double probability;
    const char *speaker;   /* "" unknown */
    size_t at, speaker_at; /* of whoever fills it */
};
struct format_segment {
    int64_t start_ms, end_ms;
    const char *text, *language, *speaker;
    const char *heard; /* the machine's words where people corrected them, else NULL */
    double avg_logprob, no_speech_prob, compression_ratio, temperature; /* NAN unknown */
    double speech_prob;                                                 /* NAN: not measured */
    uint32_t attempts;                                                  /* 0 unknown */
    const char *reason; /* why it was tried again or doubted; "" */
    const struct format_word *words;
    size_t word_count;
    bool time_words; /* vtt: a time inside the cue for each word, unless the text was corrected */
};

void format_begin(struct buf *out, enum format format, const struct format_recording *r);
/* index counts the segments of this transcript from 0. */
void format_segment(struct buf *out, enum format format, uint64_t index,
                    const struct format_segment *s);
/* json: ends the list before this one, which had n entries, and begins another; nothing in the
 * other formats. The first list is begun already: the segments. */
void format_list(struct buf *out, enum format format, const char *name, uint64_t n);

struct format_turn {
    int64_t start_ms, end_ms;
    const char *speaker, *label; /* speaker: the name, else the label */
};
/* A speaker's turn: a line of rttm, an entry of json's list, and nothing in the other formats.
 * index counts from 0. Blanks in rttm's names become '_': fields are separated by them. The
 * recording's name is that of its file or member, without its extension. */
void format_turn(struct buf *out, enum format format, const struct format_recording *r,
                 uint64_t index, const struct format_turn *t);

struct format_sound {
    int64_t start_ms, end_ms;
    const char *name; /* of the class */
    double score;
};
/* An entry of json's list, and nothing in the other formats. */
void format_sound(struct buf *out, enum format format, uint64_t index,
                  const struct format_sound *s);
struct format_tag {
    const char *source, *key, *value;
};
struct format_chapter {
    int64_t start_ms, end_ms;
    const char *title;
};
/* As format_sound. */
void format_tag(struct buf *out, enum format format, uint64_t index, const struct format_tag *t);
void format_chapter(struct buf *out, enum format format, uint64_t index,
                    const struct format_chapter *c);
/* n: entries of the last list. */
void format_end(struct buf *out, enum format format, uint64_t n);

/* A JSON string with its quotes. */
void format_json_string(struct buf *out, const char *s);

#endif
