/* tools/export/document.h - what a recording's file is made of: its transcript, and all that the
 * catalog has beside it. Values; whoever fills one says how long they live (read_document.h). Pure;
 * any thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_DOCUMENT_H
#define NIGHTSHIFT_TOOLS_EXPORT_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "workers/results.h"

struct document_word {
    int64_t start_ms, end_ms;
    const char *text;    /* with its leading blank */
    double probability;  /* NAN unknown */
    const char *speaker; /* "" unknown */
};
struct document_segment { /* in the order of time; times as models gave them */
    int64_t start_ms, end_ms;
    const char *text, *language, *speaker; /* "" unknown */
    const char *heard; /* the machine's words where people corrected them, else NULL */
    double avg_logprob, no_speech_prob, compression_ratio, temperature; /* NAN unknown */
    double speech_prob;                                                 /* NAN: not measured */
    uint32_t attempts;                                                  /* 0 unknown */
    const char *reason;                /* why it was tried again or doubted; "" */
    const struct document_word *words; /* word_count of them */
    size_t word_count;
};
struct document_turn {
    int64_t start_ms, end_ms;
    const char *speaker, *label; /* speaker: the name, else the label */
};
struct document_sound {
    int64_t start_ms, end_ms;
    const char *name; /* of the class */
    double score;
};
struct document_tag {
    const char *source, *key, *value;
};
struct document_chapter {
    int64_t start_ms, end_ms;
    const char *title; /* "" without one */
};

struct document {            /* texts: valid UTF-8, which may have control characters; "" unknown */
    int64_t id, duration_ms; /* duration -1 unknown */
    const char *path, *member, *state, *language, *title, *recorded_on, *damage;
    const char *left_out;         /* tracks and channels that were not heard */
    const char *made;             /* demo_model_made(demo) */
    unsigned demo;                /* it is made with these of tools/demo_model.h */
    bool no_sound;                /* it is a film without a sound track */
    enum store_textless textless; /* why a transcription that is done has no text */
    bool dropped;                 /* the segments are those that were not believed */
    const struct document_segment *segments;
    const struct document_turn *turns;
    const struct document_sound *sounds;
    const struct document_tag *tags;
    const struct document_chapter *chapters;
    const struct result_channel *channels;
    size_t segment_count, turn_count, sound_count, tag_count, chapter_count, channel_count;
};

/* Are the segment's words its text still? Somebody may have corrected that since. */
bool document_words_are_text(const struct document_segment *s);
/* Does the reason say more than that it was tried again, with success? */
bool document_doubted(const char *reason);
/* Name of the file or member, without folders and without its ending: where, and how many bytes. */
const char *document_name(const struct document *d, size_t *len);

#endif
