/* store/read/find.h - what `speakers` and `search` read from the catalog beside transcripts:
 * speakers and their turns, sounds, passages and their vectors.
 *
 * Any store_mode, the store's thread. Rows are borrowed during the callback, which ends the reading
 * by returning a value other than 0 (as in store/read/read.h). If a recording has several results
 * of one kind, the current one is read. */
#ifndef NIGHTSHIFT_STORE_READ_FIND_H
#define NIGHTSHIFT_STORE_READ_FIND_H

#include "store/read/read.h"
#include "store/read/scope.h"

struct find_speaker {
    int64_t speaker_id, media_id, task_id;
    const char *path, *member;
    const char *label, *name; /* name "": none */
    int64_t speech_ms;
    uint64_t turns;
    const char *model, *model_hash;
    const void *vector; /* little-endian float32, perhaps not aligned; NULL: none, or not wanted */
    size_t vector_bytes;
    /* Not with vectors_only. */
    const char *proposed; /* of the register's people, whom the voice is like; "": nobody */
    double likeness;
    bool measured;             /* of that model it is known what a likeness means */
    bool everywhere;           /* the name is a person's in the register, and holds there, too */
    int64_t group_id;          /* of voices without a name, probably of one person; 0: none */
    uint64_t group_recordings; /* in so many */
};
typedef int (*find_speaker_fn)(void *arg, const struct find_speaker *row);

struct find_people {
    const char *path;  /* as read_filter; NULL: all */
    int64_t media_id;  /* 0: all */
    const char *who;   /* label or name, upper and lower case of ASCII alike; NULL: all */
    bool vectors;      /* rows have theirs; then all rows are held in memory with them */
    bool vectors_only; /* those that have one, with it, in any order: none is held */
};
/* In the order of path, member and label (by its length, then its bytes: SPEAKER_11 is before
 * SPEAKER_100). */
int find_speakers(struct store *st, const struct find_people *people, find_speaker_fn fn, void *arg,
                  struct err *err);

/* Is a channel or track of a recording called so, which stands where nobody was told apart? */
int find_source(struct store *st, const char *label, bool *ret, struct err *err);

/* Is anything said in that language? *have: languages that there are, as "en, es", when there is
 * not; owned by the caller. */
int find_language(struct store *st, const char *code, bool *ret, char **have, struct err *err);

struct find_turn {
    int64_t start_ms, end_ms;
    const char *speaker; /* name, or label */
    const char *label;
};
typedef int (*find_turn_fn)(void *arg, const struct find_turn *row);
/* Reads the turns of one recording, in order. */
int find_turns(struct store *st, int64_t media_id, find_turn_fn fn, void *arg, struct err *err);

typedef int (*find_tag_fn)(void *arg, const struct result_tag *row);
/* Reads the tags of one recording: first those that people set ("csv"), then its bext, its
 * container and the others, and its chapters last, in order. */
int find_tags(struct store *st, int64_t media_id, find_tag_fn fn, void *arg, struct err *err);

typedef int (*find_channel_fn)(void *arg, const struct result_channel *row);
/* How much sound its channels have: by track and channel. None of a recording that was never
 * decoded to its end. */
int find_channels(struct store *st, int64_t media_id, find_channel_fn fn, void *arg,
                  struct err *err);

/* ------------------------------------------------------------------------------------ search */

struct find_sound {
    int64_t media_id, start_ms, end_ms;
    const char *path, *member;
    const char *name; /* of its class */
    double score;
};
typedef int (*find_sound_fn)(void *arg, const struct find_sound *row);
/* Sounds of classes whose name has the text in it, upper and lower case of ASCII alike; the surest
 * first. limit 0: none. */
int find_sounds(struct store *st, const char *name, const struct scope *scope, uint64_t limit,
                find_sound_fn fn, void *arg, struct err *err);
/* Is there any? Stops at the first one. */
int find_sound_heard(struct store *st, const char *name, const struct scope *scope, bool *ret,
                     struct err *err);

/* The surest of them in one recording that reaches into [start_ms, end_ms]; none: fn is not called.
 */
int find_sound_near(struct store *st, int64_t media_id, const char *name, int64_t start_ms,
                    int64_t end_ms, find_sound_fn fn, void *arg, struct err *err);

struct find_passage {
    int64_t media_id;
    const char *path, *member;
    struct result_passage passage; /* text "": the vector is of its sound */
};
typedef int (*find_passage_fn)(void *arg, const struct find_passage *row);
/* One row of the table embedding; none when it is gone, or not current: fn is not called. */
int find_passage(struct store *st, int64_t embedding_id, find_passage_fn fn, void *arg,
                 struct err *err);

/* The sounds of a recording in the order of their beginnings; path and member are "". */
int find_sounds_of(struct store *st, int64_t media_id, find_sound_fn fn, void *arg,
                   struct err *err);

/* Calls fn with a recording's place at or below a path (as read_filter): its main place if that is
 * there, else the oldest present one. If there is none, fn is not called. */
typedef int (*find_place_fn)(void *arg, int64_t place_id, const char *path, const char *member);
int find_place(struct store *st, int64_t media_id, const char *path, find_place_fn fn, void *arg,
               struct err *err);

/* The classes of sound of a recording, those heard longest first; limit 0: all. */
struct find_heard {
    const char *name;
    int64_t heard_ms, first_ms; /* in sum; where it begins first */
};
typedef int (*find_heard_fn)(void *arg, const struct find_heard *row);
int find_heard(struct store *st, int64_t media_id, uint64_t limit, find_heard_fn fn, void *arg,
               struct err *err);

/* The newest stage of a name with the model that made most of the current vectors, in audio: so
 * one that has only begun, or is of one folder, does not hide an archive. Owned,
 * store_stage_row_free. ERR_EMPTY: none has any vectors. */
int find_stage(struct store *st, const char *name, struct store_stage_row *ret, struct err *err);

/* How much of what lies at or below a path (as read_filter), in audio, has current vectors of that
 * kind by another model than the stage's: what a search by that one cannot find. */
int find_other_vectors(struct store *st, const struct store_stage_row *stage, const char *path,
                       int64_t *ret_ms, struct err *err);

/* Who says most of a stretch of the current transcription, who else speaks in it, what and in which
 * language; nothing is said there: fn is not called. */
#define FIND_SPEAKERS_MOST 16 /* of a stretch; who comes later is counted only */
struct find_said {
    const char *speaker;         /* the name, else the label, else the source's; "": unknown */
    const char *label;           /* "": unknown */
    const char *language, *text; /* of that speaker's first segment; of the first segment of all */
    const char *const *speakers; /* all who are known, each once, in the order of appearance */
    size_t speaker_count, more;
};
typedef int (*find_said_fn)(void *arg, const struct find_said *row);
int find_said(struct store *st, int64_t media_id, int64_t start_ms, int64_t end_ms, find_said_fn fn,
              void *arg, struct err *err);

#endif
