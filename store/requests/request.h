/* store/requests/request.h - every change that a command other than `run` makes, as a value.
 *
 * Without a run, the command takes the lock and applies its requests to the catalog itself. While
 * a run is on, it sends the same requests over the run's local socket
 * (scheduler/control/control.h), and the scheduler applies them. One meaning, one piece of code. */
#ifndef NIGHTSHIFT_STORE_REQUESTS_REQUEST_H
#define NIGHTSHIFT_STORE_REQUESTS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "store/store.h"

enum request_type {
    REQUEST_ENQUEUE_BEGIN = 1, /* a new job */
    REQUEST_ENQUEUE_ADD,       /* recordings found, up to REQUEST_MAX_FOUND; one commit */
    REQUEST_ENQUEUE_SAME,      /* places that the walker knows to be unchanged: only seen again */
    REQUEST_ENQUEUE_END,       /* the walk is over: places under its roots not seen are vanished */
    REQUEST_RETRY,             /* failed (and cancelled) tasks become pending again */
    REQUEST_CANCEL,            /* pending tasks become cancelled */
    REQUEST_PAUSE,             /* nothing new is leased ... */
    REQUEST_RESUME,            /* ... until this */
    REQUEST_ENQUEUE_TROUBLE,   /* what the walker could not read: rows of the view `failures` */
    /* Like SAME (place_ids), and adds the job's stage to recordings that lack it. So another model
     * can be used on unchanged files without reading them again. */
    REQUEST_ENQUEUE_KNOWN,
    REQUEST_NAME_SPEAKER, /* who a speaker of one recording is, or is not */
    REQUEST_DESCRIBE,     /* what people say of recordings, up to REQUEST_MAX_FOUND; one commit */
    REQUEST_VERIFIED,     /* files whose bytes were all read, up to REQUEST_MAX_FOUND; one commit */
    /* Results go, with all that was found: those of stage_id and what was made of them, of which
     * nothing may still be to be done (ERR_INPUT); 0: those that are neither current nor asked for.
     * The next best of their kind are current then. */
    REQUEST_FORGET,
    REQUEST_PIN, /* results of stage_id are current, whatever is asked for later; 0: none is pinned
                  */
    REQUEST_CORRECT,        /* what segments are to read, up to REQUEST_MAX_FOUND; one commit */
    REQUEST_CORRECT_DECIDE, /* one correction: whether it holds */
    REQUEST_PRIORITY,       /* pending tasks, and the job if one is named, have this priority */
    REQUEST_DISMISS,        /* failed tasks, and what waits for one of them, become cancelled */
    REQUEST_RECIPE,         /* what is to be done with files and folders, without an enqueue */
    /* Recordings (ids), or whoever has this name, go for good; or (undo) marks (ids) that keep
     * recordings from being taken again. One commit, whose pages are wiped (requests/erase.h). */
    REQUEST_ERASE,
};

/* One request fits one frame: flush a batch at so many recordings or at REQUEST_SOFT_BYTES of paths
 * and members, whichever comes first. */
#define REQUEST_MAX_FOUND 4096
#define REQUEST_SOFT_BYTES (4u << 20)
#define REQUEST_MAX_PATH 65536 /* bytes of one path, member or text */

struct request_trouble { /* forgotten when the same path is found again, or not met any more */
    const void *path;    /* raw bytes, absolute */
    size_t path_len;
    const void *member; /* raw bytes; empty: the file or directory itself */
    size_t member_len;
    uint32_t nth; /* which of the members of that name, 0 ... */
    int code;     /* ERR_... */
    const char *message;
};

/* All values of a key take the place of all that were said before. */
struct request_description {
    int64_t media_id;
    const struct store_said *values;
    uint32_t value_count; /* at most REQUEST_MAX_VALUES */
};
#define REQUEST_MAX_VALUES 1000

struct request_verified {
    const void *path; /* raw bytes, absolute */
    size_t path_len;
    uint64_t size_bytes; /* as it was read */
    int64_t mtime_ns;
    bool changed;     /* its bytes have another hash than this */
    uint8_t hash[16]; /* XXH3-128, canonical: of its bytes, or, when changed, of those before */
};

/* A segment of a current transcription (docs/how-to/correct-texts.md). ERR_INPUT, and nothing of
 * the request is done: it is none any more, the machine's words of it are others than these, or it
 * reads otherwise by now than `was`, and not as it is to read either: a request that comes twice
 * changes nothing the second time. */
struct request_correction {
    int64_t segment_id;
    const char *heard; /* the machine's words of it, as whoever asks read them */
    /* The new text: UTF-8, in which all white space is single blanks. The words of `heard`
     * restore the machine's text. No words mean that nothing is said there. */
    const char *text;
    bool confirmed; /* somebody listened: it is right as it stands in `text`, no doubt any more */
    const char
        *was; /* what it read when whoever asks decided that, byte for byte; NULL: whatever */
};
#define REQUEST_CORRECTION_MAX 16384 /* bytes of `text`: more than anybody says in a segment */

struct request {
    enum request_type type;
    /* ENQUEUE_BEGIN */
    const char *command_line; /* for the job's row; display form */
    struct store_stage stage;
    const char *language; /* hint for its tasks, "" = by the parameters */
    /* BEGIN, RECIPE: from now on the recipe of `roots` for the stage's kind (stage.name), made with
     * the model of stage.model_hash: a list of words as of tools/enqueue/option_words.h. A walk
     * that is cut short has set it, too. NULL: BEGIN leaves recipes as they are, RECIPE removes
     * it. */
    const char *options;
    bool replaces;     /* also what lies below has no other one any more */
    bool has_priority; /* all that is found has `priority`, also what is to be done already */
    /* ENQUEUE_* after BEGIN */
    int64_t job_id;
    const struct store_found *found; /* ADD */
    const int64_t *place_ids;        /* SAME, KNOWN */
    /* ADD, KNOWN: no task of the stage's source is made: a recording gets one of the stage itself
     * only where the source's is done, or waits to be done. */
    bool keep_source;
    /* ADD, KNOWN: no task where another stage of its kind, or of its source's, is wanted. */
    bool keep_other;
    const struct request_trouble *troubles;
    uint32_t count;
    /* END: roots that were walked whole (raw absolute paths); a root that could not be read is not
     * among them, so that an unplugged disk makes nothing vanish. Paths below `unread` neither: put
     * there folders and archives that could not be read to their end. A walk that skipped names by
     * a filter must send SAME for what it skipped, or leave the root out. */
    const char *const *roots;
    uint32_t root_count;
    const char *const *unread;
    uint32_t unread_count;
    int64_t priority; /* PRIORITY, BEGIN: enum store_priority */
    /* RETRY, CANCEL, PAUSE, RESUME, PRIORITY, and without a job FORGET and PIN: which tasks. All
     * empty: every one. ERR_MISSING: the catalog knows nothing at or below the path, or has no such
     * job. */
    int64_t select_job;      /* 0: any */
    const char *select_path; /* raw and absolute: a file, a directory, ARCHIVE//MEMBER; NULL: any */
    int64_t stage_id;        /* FORGET, PIN. ERR_MISSING: there is none */
    /* NAME_SPEAKER */
    int64_t speaker_id;
    const char *speaker_name; /* UTF-8 without control characters; "" takes the name away */
    bool
        everywhere; /* the name is that of a person whom the register (store/register) knows then */
    bool denied;    /* the speaker is not who has this name in the register */
    /* DESCRIBE; `count` of them. Recordings that the catalog does not have are passed over. */
    const struct request_description *descriptions;
    const struct request_verified *verified;      /* VERIFIED; `count` of them */
    const struct request_correction *corrections; /* CORRECT; `count` of them */
    const int64_t *ids; /* ERASE; `count` of them. ERR_MISSING: there is no such one */
    /* ERASE, also "": who. CORRECT, DECIDE: who, and for people, from what: "file interview.srt",
     * "replace", "at 0:12.400". UTF-8 without control characters; made_by is not empty; DECIDE has
     * no source. */
    const char *made_by, *source;
    int64_t correction_id; /* DECIDE. ERR_INPUT: there is none */
    /* DECIDE: it holds no more; else, of one in conflict, it does: the words that stand there now
     * are replaced by it. ERR_INPUT: it is not in conflict, or no words are near. */
    bool undo;
};

struct request_reply {
    int64_t job_id; /* ENQUEUE_BEGIN */
    /* ADD: a bit for each of `found`, the lowest first, that was left out: it looks like a
     * recording that lies elsewhere, or was erased, and has no hash that tells whether it is. It is
     * to be read whole and asked for again. Or it was erased, as store_meet knows then, and counts
     * has it. Zeros behind unproven_len bytes. */
    uint8_t unproven[REQUEST_MAX_FOUND / 8];
    size_t unproven_len;
    struct store_enqueue_counts counts; /* ENQUEUE_ADD, _SAME, _END: of this request alone */
    bool log_kept;                      /* ERASE: somebody reads; what went is in FILE-wal still */
    uint64_t affected; /* NAME_SPEAKER: speakers; ERASE: recordings, speakers or marks; DESCRIBE:
                          recordings; VERIFIED: files; CORRECT: segments that read otherwise now, or
                          were confirmed; DECIDE: corrections; RETRY, CANCEL, DISMISS, PAUSE,
                          RESUME, PRIORITY: recordings; FORGET, PIN: tasks; ADD, SAME, KNOWN: tasks
                          that had failed for want of the file, and are pending again */
};

/* An END, RETRY, CANCEL, PAUSE, RESUME, PRIORITY, FORGET or PIN of very many rows is committed in
 * pieces, so that the log stays small and readers see it go on; after an error what was done stays,
 * and the same request again does the rest. Every other one is one commit: on error nothing
 * changed. */
int request_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                  struct err *err);

/* The same for who has other things to do between the pieces. rq is borrowed until
 * request_work_free. Other requests may be applied in between. request_step: 1: call it again; 0:
 * done, and *ret is the answer. Not within store_begin. */
struct request_work;
int request_begin(struct store *st, const struct request *rq, struct request_work **ret,
                  struct err *err);
int request_step(struct request_work *w, struct request_reply *ret, struct err *err);
void request_work_free(struct request_work *w); /* NULL is fine */

/* Codec for the socket. A decoded request owns what it points to: free it with request_free, which
 * accepts a zeroed request. *ret is zeroed on failure. */
void request_put(struct buf *out, const struct request *rq);
int request_get(const uint8_t *data, size_t len, struct request *ret, struct err *err);
void request_free(struct request *rq);
void request_reply_put(struct buf *out, const struct request_reply *r);
int request_reply_get(const uint8_t *data, size_t len, struct request_reply *ret, struct err *err);

/* Tells the walker what the catalog knows of a path. Any store_mode. ERR_EMPTY: never seen, or an
 * archive whose listing was cut short: read it. `same` in the caller is: size, mtime, inode and
 * device all equal. An archive's members are counted under its path: place_ids of all of them come
 * back when the archive itself is the same. */
struct store_known {
    uint64_t file_size_bytes; /* of the file on disk (of the archive for members) */
    int64_t mtime_ns;
    uint64_t inode, device;
    int64_t *place_ids; /* owned; the file itself, or the members */
    uint32_t count;
    bool has_task_all; /* of every one of them the stage is what is wanted already */
    bool unproven;     /* one of them is to be read, whatever its times are */
};
int store_known_path(struct store *st, const void *path, size_t len,
                     const struct store_stage *stage, struct store_known *ret, struct err *err);
void store_known_free(struct store_known *k);

/* Was the same said of the same path before? Any store_mode. */
int store_trouble_known(struct store *st, const struct request_trouble *t, bool *ret,
                        struct err *err);

/* Has the recording no place left, or did a run not find it? Then it is back where it is met.
 * place_id 0: media_id says which. Any store_mode. */
int store_back(struct store *st, int64_t place_id, int64_t media_id, bool *ret, struct err *err);

/* Tells which recording an ADD of the file would find. Any store_mode. */
struct store_met {
    int64_t media_id;    /* the recording with its fingerprint and size; 0: there is none */
    uint8_t content[16]; /* the hash of all bytes of that */
    bool has_content;    /* it is known */
    int64_t place_id;    /* its place; 0: that is new */
    int64_t place_media; /* and what that held */
    uint64_t place_size; /* of the file there, when it was seen last */
    int64_t place_mtime; /* as of struct store_found */
    uint64_t place_inode, place_device;
    int64_t place_seen_s;          /* when that was, in seconds of Unix time */
    bool place_unproven;           /* nobody has read whether it holds what it is said to hold */
    uint8_t place_fingerprint[16]; /* of what it held */
    bool place_has_content;        /* the hash of all bytes of that is known */
    int64_t erased_id;             /* the mark of a recording that was erased; 0: none */
    bool erased_sure;              /* it is that one; else its bytes must be read to know */
    char erased_at[CLOCK_ISO_LEN];
};
int store_meet(struct store *st, const struct store_found *f, struct store_met *ret,
               struct err *err);

/* Hands out the plain files that may have a recording's bytes: those that hold it, or held it last.
 * The main place comes first; other files of unknown content come last. Any store_mode. fn ends the
 * reading by returning other than 0. */
struct store_origin {
    const char *path; /* valid during the call */
    uint64_t size_bytes;
    int64_t mtime_ns;
    uint64_t inode, device;
};
typedef int (*store_origin_fn)(void *arg, const struct store_origin *o);
int store_origins(struct store *st, int64_t media_id, store_origin_fn fn, void *arg,
                  struct err *err);

/* The places of which an END would say that they have vanished, but for those that were seen. Any
 * store_mode. fn ends the reading by returning other than 0. places: that its recording has. */
/* 1: the catalog has a present place at or below this path; 0: it has none. Any store_mode. */
int store_has_below(struct store *st, const char *path, size_t len, struct err *err);

typedef int (*store_present_fn)(void *arg, int64_t place_id, int64_t media_id, uint64_t places,
                                struct err *err);
int store_present(struct store *st, const struct request *end, store_present_fn fn, void *arg,
                  struct err *err);

#endif
