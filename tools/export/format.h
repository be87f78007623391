/* tools/export/format.h - a format of export: what it needs, and who writes it.
 *
 * A new one is a file in formats/ (or a folder beside it, when it is much) and a row of
 * formats.c. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMAT_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMAT_H

#include "base/buf.h"
#include "base/err.h"
#include "tools/export/document.h"
#include "tools/export/subtitles.h"

/* The parts of a document that a format needs. Without FORMAT_TEXT there is a file of every
 * recording in which speakers were told apart, transcribed or not. */
enum {
    FORMAT_TEXT = 1,
    FORMAT_WORDS = 2, /* of the segments */
    FORMAT_TURNS = 4,
    FORMAT_SOUNDS = 8,
    FORMAT_TAGS = 16, /* chapters, and how much sound its channels have */
};

/* Options that users may give beside the format; its row says which of them it takes. */
enum {
    FORMAT_OPTION_WORDS = 1,  /* --words: a time for each word */
    FORMAT_OPTION_LAYOUT = 2, /* --style, --max-...: how its cues are made */
    FORMAT_OPTION_SOUNDS = 4, /* --sounds: in brackets where nobody speaks */
    FORMAT_OPTION_MEDIA = 8,  /* --media, --no-waveform, --allow-unsandboxed: sound beside it */
    FORMAT_OPTION_URL = 16,   /* --url: where the files will be published */
};
enum format_media {
    FORMAT_MEDIA_LINK, /* what a page plays: the recording where it lies */
    FORMAT_MEDIA_COPY,
    FORMAT_MEDIA_OPUS,
    FORMAT_MEDIA_NONE,
};
struct format_options {
    unsigned given; /* FORMAT_OPTION_...: what somebody asked for */
    bool words, sounds;
    bool plain; /* a cue is a segment, on one line */
    struct subtitle_limits limits;
    enum format_media media;
    bool waveform, unsandboxed;
    const char *output; /* the export's folder, as the user gave it */
    const char *url;    /* valid UTF-8, http or https, without a slash at its end; NULL */
};

struct store;
struct outdir;
struct read_recording;

/* A format that is one folder for a whole export, with pages that know of each other. */
struct format_folder {
    const char *first; /* the page to open, below the folder */
    /* *ret: its state until close. Store and folder outlive it. */
    int (*open)(struct store *st, struct outdir *out, const struct format_options *o, void **ret,
                struct err *err);
    /* Once for each recording that was asked for, also one without a transcript; `name` is what
     * names_give gave it, with the format's ending. An error ends the export, but for ERR_INPUT and
     * ERR_LIMIT: this recording has no page, and the others go on. */
    int (*recording)(void *state, const struct read_recording *r, const char *name,
                     struct err *err);
    int (*finish)(void *state, struct err *err); /* after the last, of an export without error */
    void (*close)(void *state);                  /* NULL is fine */
};

struct format {
    const char *name;   /* of --format */
    const char *ending; /* of its files' names, without the first dot */
    const char *about;  /* for --help, behind the name: at most 56 columns */
    unsigned needs;     /* FORMAT_TEXT ... */
    unsigned takes;     /* FORMAT_OPTION_WORDS ... */
    bool dropped;       /* can say that its texts are what was not believed */
    bool notes;         /* has a place for the document's `made` */
    /* Writes the file of one recording into `out`, which is empty. Fields missing in the document
     * are unknown. Control characters and the format's own marks are made harmless. ERR_LIMIT,
     * ERR_NOMEM; the caller checks whether the buffer failed. NULL: a folder writes it. */
    int (*write)(const struct document *d, const struct format_options *o, struct buf *out,
                 struct err *err);
    const struct format_folder *folder; /* NULL: a file for each recording */
};

#endif
