/* store/store.h - the catalog: one SQLite file, and the only code that speaks SQL to it.
 *
 * A store is one connection, used by one thread. STORE_WRITE must hold the catalog's lock
 * (store/lock.h): there is one writer at a time. STORE_READ may be opened at any moment, also while
 * a run is on; it never writes, never checkpoints.
 *
 * A call that returns 0 and writes has committed (unless it says otherwise); on error nothing
 * changed. ERR_FULL, ERR_CORRUPT and ERR_VERSION stop a run. Strings handed out are owned as each
 * struct says. Terms: a *recording* (table media) is content; a *place* is a path (and member)
 * where it was seen; a *stage* is a processing step with its model and parameters; a *task* is one
 * recording under one stage; a *shard* is one checkpointed piece of a task. */
#ifndef NIGHTSHIFT_STORE_STORE_H
#define NIGHTSHIFT_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/results.h"

#define STORE_APPLICATION_ID 0x4E534854 /* "NSHT" */

struct store;
enum store_mode { STORE_READ, STORE_WRITE };

/* WRITE creates the file and its directories if need be, and migrates. READ on a missing file:
 * ERR_MISSING. A newer user_version, or a development version's: ERR_VERSION (READ: an older one
 * too, which a writer migrates);
 * another application_id: ERR_INPUT; not a database: ERR_CORRUPT; read-only place: ERR_DENIED. */
int store_open(const char *path, enum store_mode mode, struct store **ret, struct err *err);
void store_close(struct store *st);
const char *store_path(const struct store *st);
/* All reads until store_let_go see one moment. A search that looks up thousands of rows takes
 * half the time, because not every look-up is a transaction. Do not hold it for long, because
 * the log of a run cannot be emptied meanwhile. Does nothing (*held false) in other modes than
 * STORE_READ, or if already held. store_let_go takes what store_hold set. */
int store_hold(struct store *st, bool *held, struct err *err);
void store_let_go(struct store *st, bool held);
/* How long a call waits for somebody else's transaction before it is ERR_LOCKED; 10 s at first. */
void store_patience(struct store *st, uint32_t ms);
int store_schema_version(struct store *st);
const char *store_sqlite_version(void);

/* ------------------------------------------------------------- enqueue (see
 * store/requests/request.h) */

/* One recording as the walker found it. All borrowed. */
struct store_found {
    const void *path; /* raw bytes, absolute, no NUL */
    size_t path_len;
    const void *member; /* raw bytes; empty for a plain file */
    size_t member_len;
    uint32_t nth;        /* which of the members of that name, 0 ... */
    uint64_t size_bytes; /* of the recording */
    /* These describe the file on disk: for a member, its archive. */
    uint64_t file_size_bytes;
    int64_t mtime_ns;
    uint64_t inode, device;
    uint8_t fingerprint[16];
    /* The XXH3-128 of all bytes, where they were read: without it a recording of more than
     * STORE_WHOLE_BYTES is never taken for one that lies elsewhere. */
    bool has_hash;
    uint8_t hash[16];
    /* The recording of the same fingerprint and size, where a file of it was read whole as well; 0:
     * none. It keeps that hash, unless it has one. */
    int64_t met_media;
    uint8_t met_hash[16];
    /* That hash was taken to be this file's own, which has moved: should the place that it moved
     * from hold something again, that is read. */
    bool moved;
};

/* Up to so many bytes a fingerprint is of all of them (workers/media/stream/fingerprint.h). */
#define STORE_WHOLE_BYTES (256u << 10)

struct store_stage {         /* what an enqueue wants done */
    const char *name;        /* "transcribe" */
    const char *model;       /* as the user named it */
    const char *model_dir;   /* as it was resolved */
    const char *model_hash;  /* hex */
    const char *params_json; /* canonical */
    /* Stages that work on another one's results (embed-text on a transcription): that one, whose
     * name is NULL when there is none. It is made, too, if the catalog has it not; a task of this
     * stage is runnable when that one's task of the same recording is done. */
    const struct store_stage *source;
};

/* NULL when it has none. */
static inline const struct store_stage *store_stage_source(const struct store_stage *s)
{
    return s->source && s->source->name ? s->source : NULL;
}

struct store_enqueue_counts {
    uint64_t seen;    /* recordings found this time */
    uint64_t added;   /* new content at new places: new recordings */
    uint64_t places;  /* new places of recordings known already */
    uint64_t changed; /* places whose content is another one now */
    uint64_t unchanged;
    uint64_t vanished; /* places under the roots that are not there any more */
    uint64_t gone;     /* and recordings that are nowhere any more with these */
    uint64_t back;    /* recordings that had no place left, or no run found: they are there again */
    uint64_t waiting; /* recordings of which something that nobody could do waits again */
    uint64_t tasks;   /* new tasks, also of old recordings (another stage or model) */
    uint64_t lacking; /* got no task, for want of their source's (request.h: keep_source) */
    /* Tasks of the job's stage that were asked for before, and in another way since: */
    uint64_t restored; /* they are done, and their results current now */
    uint64_t reasked;  /* they wait again */
    uint64_t instead;  /* recordings that waited for another stage of the kind, or failed it: they
                        * go by this one */
    uint64_t erased;   /* left out, not in `seen`: erased for good */
};

/* ------------------------------------------------------------------------- running */

enum store_priority { STORE_LOW = -1, STORE_NORMAL, STORE_HIGH };
/* "low", "normal", "high"; and back: false, it is none. */
const char *store_priority_name(int priority);
bool store_priority_of(const char *name, int64_t *ret);

/* A task that has work left. Owned strings: store_task_free. */
struct store_task {
    int64_t task_id, media_id, stage_id, job_id;
    char *path, *member; /* of a place that was present at the last enqueue; raw bytes */
    uint32_t nth;        /* which of the members of that name, 0 ... */
    char *language;      /* hint of its enqueue; "" = by the stage's parameters */
    uint64_t size_bytes;
    uint8_t fingerprint[16];
    bool has_hash;
    int64_t duration_ms;   /* -1 unknown */
    uint32_t shards_total; /* 0: not known yet */
    uint32_t skip_count;   /* shards that are done, ascending */
    uint32_t *skip;
    uint32_t suspect; /* deaths over it in a row, without a result in between */
    uint32_t sources; /* that it hears by themselves; 0: one, or nobody knows yet */
    bool left_out;    /* it is known not to hear all of it */
    int priority;     /* enum store_priority */
    int64_t position; /* store_position of them */
    /* The shards that are asked for, up to before `end`: 0 and 0 (all), but in a part of a catalog
     * (parting/parting.h). */
    uint32_t first, end;
};
void store_task_free(struct store_task *t);

/* When its turn comes: the least first, those of a higher priority before all others, among equals
 * the lower id. Below 2^48 ids there is room for it. */
static inline int64_t store_position(int64_t task_id, int priority)
{
    return task_id - (int64_t)priority * (INT64_C(1) << 48);
}

/* Runnable tasks of a stage (pending, not paused, with a present place, retry time passed, waiting
 * neither for their source nor for being finalized) with turn > after in the order of turns; at
 * most max; none while the whole catalog is paused. *n may be 0. ret[0..n) are the caller's. */
int store_runnable(struct store *st, int64_t stage_id, int64_t after, int64_t now_ms,
                   struct store_task *ret, size_t max, size_t *n, struct err *err);
/* The task of one recording under a stage, if it is runnable now as above; else *found is false. */
int store_runnable_of(struct store *st, int64_t stage_id, int64_t media_id, int64_t now_ms,
                      struct store_task *ret, bool *found, struct err *err);
/* The priority of the first of them; below STORE_LOW when there is none. */
int store_first_priority(struct store *st, int64_t stage_id, int64_t now_ms, int *ret,
                         struct err *err);
/* Recordings of high priority that are still to be done. */
int store_high(struct store *st, uint64_t *ret, struct err *err);
/* When the next task that waits for a retry becomes runnable: the earliest such time after now_ms
 * (what is due already is runnable, or leased); INT64_MAX when none waits. */
int store_next_retry(struct store *st, int64_t now_ms, int64_t *ret, struct err *err);
/* Other places of the same recording, for when the first cannot be opened: the k-th present place,
 * 0-based. ERR_EMPTY when there is none. Frees and replaces t->path and t->member; sets t->nth. */
int store_task_place(struct store *st, struct store_task *t, uint32_t k, struct err *err);

/* Which catalog it is: 32 hexadecimal digits, drawn when it was made; of a part (store/parting) its
 * own. ERR_CORRUPT. */
#define STORE_IDENTITY_LEN 33 /* with the NUL */
int store_identity(struct store *st, char ret[STORE_IDENTITY_LEN], struct err *err);

/* The nominal length of a shard, on which results depend: the catalog keeps that of its first run.
 * wanted 0: what it keeps, else `otherwise`. ERR_USAGE: it has results of another length than
 * wanted. Writes when the catalog has none, or no results yet. */
int store_shard_length(struct store *st, uint32_t wanted_ms, uint32_t otherwise_ms, uint32_t *ret,
                       struct err *err);

struct store_vector {
    int64_t start_ms, end_ms;
    const char *text;    /* of a passage; NULL: of sound */
    const float *values; /* [size], of length 1 */
    uint32_t size;
};

struct store_shard_result {
    int64_t task_id;
    uint32_t seq;
    int64_t start_ms, end_ms;
    const char *language; /* "" none */
    double language_prob;
    uint32_t windows, wall_ms;
    const char *device;
    const char *done_at; /* ISO-8601; NULL: now */
    const struct result_segment *segments;
    size_t segment_count;
    struct result_account account;
    const struct result_sound *sounds;
    size_t sound_count;
    const struct store_vector *vectors;
    size_t vector_count;
    const struct result_voices *voices; /* NULL: no stage that hears voices */
    uint32_t shards;                    /* as by store_task_total after it; 0: not known */
};

/* Many shards' results may share one commit: begin, calls, commit (synchronous=FULL). Inside,
 * nothing is durable until store_commit returned 0. A call that fails inside undoes all since
 * store_begin: every further call fails too, until store_commit (which fails) or store_rollback,
 * which forgets everything since store_begin. After store_begin_apart a call that fails undoes
 * itself alone, unless the disk is full or broken; for that each call keeps what it changes, which
 * takes a tenth longer. */
int store_begin(struct store *st, struct err *err);
int store_begin_apart(struct store *st, struct err *err);
int store_commit(struct store *st, struct err *err);
void store_rollback(struct store *st);
/* How many tasks became done through this connection since it was opened, and how many recordings
 * with them, of which nothing is to be done any more: committed ones. One that is done, asked for
 * again and done again counts twice. */
struct store_completed {
    uint64_t tasks, recordings;
};
struct store_completed store_completed(const struct store *st);

/* Segments, their words, what was dropped, and the 'done' mark together. A shard that is done
 * already is left as it is (a worker that was given up for dead may still deliver), and so is a
 * task that waits for its source, or that was forgotten. ERR_INPUT: impossible values. */
int store_shard_done(struct store *st, const struct store_shard_result *r, struct err *err);

struct store_stage_row;

/* ---------------------------------------------------------------------------- finalizing
 *
 * A task of a stage that finalizes ("diarize") is not done with its last shard: it stays pending,
 * is not runnable any more, and is done with store_finalized. */

/* Such tasks whose shards are all there, id > after, ascending, at most max; their files may be
 * absent. *n may be 0. ret[i].skip is empty. None while the catalog is paused or before their
 * retry's time. */
int store_unfinalized(struct store *st, int64_t stage_id, int64_t after, int64_t now_ms,
                      struct store_task *ret, size_t max, size_t *n, struct err *err);
/* The stages that have such tasks, ascending id. Free each, then the array. */
int store_stages_unfinalized(struct store *st, int64_t now_ms, struct store_stage_row **ret,
                             size_t *n, struct err *err);
/* Calls fn for each shard's voices, seq > after (-1: all), ascending. fn returning other than 0
 * ends it with that. ERR_INPUT: a shard's are damaged. */
typedef int (*store_voices_fn)(void *arg, int64_t seq, const struct result_voices *v,
                               struct err *err);
int store_voices_read(struct store *st, int64_t task_id, int64_t after, store_voices_fn fn,
                      void *arg, struct err *err);

/* Speakers (labels SPEAKER_00 ...) and turns of a task; gives the recording's segments and words
 * their speakers, drops the shards' voices, and the task is done: one commit. A task that is not
 * (any more) to be finalized is left as it is. ERR_INPUT: impossible values.
 * Names that people gave to speakers of the recording's former diarization are carried over by the
 * time that turns share (store/results/naming.h).
 *
 * A segment, and each word for itself, gets the speaker whose turns overlap it longest, else that
 * of a turn nearby (store/reading/overlap.h); where the words have others speak, the segment is
 * parted. If a recording has several diarizations, the current one counts. Shards of a
 * transcription that come later get theirs as they come. */
int store_finalized(struct store *st, int64_t task_id, const struct result_people *people,
                    struct err *err);
/* The same of what a part finalized, with all of its shards. A task that was cancelled here is
 * done, too, as a transcription of which nothing is left to do: the shards come without voices, and
 * who retries could not finalize them again. */
int store_finalized_there(struct store *st, int64_t task_id, const struct result_people *people,
                          struct err *err);
/* Makes what people read of a recording anew: of the first behind *media_id that has a
 * transcription. Writes what differs; *changed: something did, which is a fault of whoever wrote
 * the catalog. *media_id 0 then: there is none. ERR_INPUT: a result is damaged, of the recording
 * *media_id. */
int store_publish_next(struct store *st, int64_t *media_id, bool *changed, struct err *err);
/* Indexes every text anew: whoever changed one by hand has left the index behind. */
int store_index_texts(struct store *st, struct err *err);
/* Drops what was heard for tasks that were cancelled before they were finalized, shards and all, so
 * that who retries them has them heard again: one commit each. No run may have them in hand. */
int store_drop_cancelled(struct store *st, struct err *err);

/* ---------------------------------------------------------------------------- passages
 *
 * Input of stages that work on a transcription. Neighbouring segments of the source stage's task
 * are joined to passages of about `chars` characters. A pause of more than 10 s begins a new
 * one; a segment is cut only if a message to a worker could not hold it. They depend on the
 * transcription alone, not on the speakers found by then. Texts are UTF-8 (invalid bytes are
 * repaired), of at most 60000 bytes. ERR_INPUT: no such transcription that is done, or
 * impossible times. Owned: store_passages_free. */
int store_passages(struct store *st, int64_t task_id, uint32_t chars, struct result_passage **ret,
                   size_t *n, struct err *err);
void store_passages_free(struct result_passage *p, size_t n);

/* ---------------------------------------------------------------------------- texts that are there
 *
 * Reuses text in a transcription that times its words. Reads the text of shards [first, last]
 * from another transcription of the same recording, model and language hint, if that one is done
 * and has these parameters. Empty if there is none. ERR_INPUT: a result is impossible. Owned:
 * store_known_text_free. */
struct store_known_text {
    struct result_known_text *shards;
    uint32_t count;
};
int store_known_text(struct store *st, int64_t task_id, const char *params, uint32_t first,
                     uint32_t last, struct store_known_text *ret, struct err *err);
void store_known_text_free(struct store_known_text *t); /* a zeroed one is fine */

struct store_media_info { /* the container's word */
    int64_t duration_ms;  /* -1: it has none. Does not replace what decoding has found */
    uint32_t sample_rate_hz, channels;
    const char *container, *codec;
    const struct result_tag *tags;    /* all that the file has; its title is among them */
    uint32_t tag_count, audio_tracks; /* of the last 0: unknown, or none */
    bool no_sound;                    /* it is none: a film without sound */
};
struct store_media_end { /* it was decoded to its end */
    int64_t total_ms;
    const uint8_t *content_hash; /* [16]; NULL: not computed */
    const char *damage;          /* "": whole; NULL: somebody else says it */
    const char *clock;           /* "" or NULL: it does not jump; else an event, once */
    /* The channels that were found; 0: not known. If a track was not decoded this time, the catalog
     * keeps what it knows of its channels. */
    const struct result_channel *channels;
    uint32_t channel_count;
};
/* Stores what decoding found out about a recording; either may be NULL. ERR_INPUT: a negative
 * length. Nothing is done for one that was erased. */
int store_media(struct store *st, int64_t media_id, const struct store_media_info *info,
                const struct store_media_end *end, struct err *err);
/* The sources that are heard of a recording, and a text that names the tracks and channels that are
 * left out; "" or NULL: none. A task whose stage hears the sources by themselves keeps them and
 * left_out; one that hears their mix has no sources, and keeps mix_left_out. */
struct store_heard {
    const struct result_source *sources;
    uint32_t count; /* 0: one */
    const char *left_out, *mix_left_out;
};
int store_task_heard(struct store *st, int64_t task_id, const struct store_heard *heard,
                     struct err *err);
/* A tag that people set on a recording: valid UTF-8, at most RESULT_TAG_KEY_MAX and _VALUE_MAX
 * bytes. */
struct store_said {
    const char *key;   /* without control characters, not empty */
    const char *value; /* tab and newline are well; "" takes away what was said under that key */
};
/* The task's number of shards is known; it becomes 'done' when so many are done. */
int store_task_total(struct store *st, int64_t task_id, uint32_t shards, struct err *err);

/* A failed attempt. The pure rule of scheduler/plan/retry.h has decided: retry_at_ms >= 0 leaves
 * the task pending until then; -1 makes it 'failed' with this reason. */
int store_task_failed(struct store *st, int64_t task_id, int code, const char *message,
                      int64_t retry_at_ms, struct err *err);
/* The recording of a task that has failed; 0: it has not. */
int store_task_failed_media(struct store *st, int64_t task_id, int64_t *ret, struct err *err);
/* Both 0 of one that was forgotten. */
int store_task_attempts(struct store *st, int64_t task_id, uint32_t *attempts, uint32_t *suspect,
                        struct err *err);
/* A process died over it, for the `deaths`th time in a row. While it is pending it is not runnable
 * before retry_at_ms; 0: as it was. */
int store_task_suspect(struct store *st, int64_t task_id, uint32_t deaths, int64_t retry_at_ms,
                       struct err *err);

/* Journal for people: table event. kind: "run-start", "run-end", "worker-died", "quarantined" ...
 */
/* Nothing is noted of a recording that was erased. */
int store_event(struct store *st, const char *kind, int64_t media_id /* 0: none */,
                const char *device, const char *text, struct err *err);

struct store_stage_row { /* owned: store_stage_row_free */
    int64_t stage_id;
    char *name, *model, *model_dir, *model_hash, *params_json;
    int64_t source_id; /* the stage on whose results it works; 0 none */
};
/* The stages that have runnable tasks, ascending id. Free each, then the array. */
int store_stages_runnable(struct store *st, int64_t now_ms, struct store_stage_row **ret, size_t *n,
                          struct err *err);
void store_stage_row_free(struct store_stage_row *s);

/* The whole archive. Every recording counts once, however many stages hear it. */
struct store_archive {
    /* Every recording of which anything was asked for is in exactly one of these, as the view
     * `recordings` has it; pending: begun or not. */
    uint64_t pending, waiting, paused, absent, done, failed, cancelled;
    uint64_t unknown;       /* of pending, those whose duration nobody knows yet */
    uint64_t bytes_unknown; /* their size */
    uint64_t bytes_known;   /* of all others */
    int64_t audio_known_ms; /* of these; */
    int64_t audio_done_ms;  /*   as much of it as all stages heard that are to; */
    int64_t audio_left_ms;  /*   and what is left of those in pending */
};

struct store_totals {
    uint64_t recordings, places;
    uint64_t vanished; /* places, also old names of what is there */
    struct store_archive archive;
    /* Every task is in exactly one of these. pending: runnable, now or after a retry's wait, or to
     * be finalized; absent: pending, but no place of its recording is present; paused: pending
     * and paused by itself; waiting: pending, for its source's task of the same recording, which is
     * not done (it may have failed). */
    uint64_t tasks_pending, tasks_done, tasks_failed, tasks_cancelled, tasks_paused, tasks_absent;
    uint64_t tasks_waiting;
    uint64_t damaged;  /* recordings */
    uint64_t troubles; /* paths that the walker could not read (failures, kind unreadable) */
    uint64_t shards_done, segments;
    int64_t audio_known_ms; /* durations known of recordings with tasks, each task once */
    int64_t audio_done_ms;  /* of done shards */
    int64_t audio_left_ms;  /* of tasks_pending, as far as their durations are known */
    uint64_t tasks_unknown; /* of tasks_pending, those whose duration nobody knows yet */
    uint64_t bytes_pending; /* of tasks_pending */
    bool paused;            /* the whole catalog */
    /* Sums over current transcriptions, as far as they were measured; speech_ms 0: none was. */
    struct result_account account;
};
int store_totals(struct store *st, struct store_totals *ret, struct err *err);
/* Does the whole catalog rest? */
int store_is_paused(struct store *st, bool *ret, struct err *err);
/* Is anything pending that is not paused, absent or waiting, now or after a retry's wait, or to be
 * finalized? */
int store_is_pending(struct store *st, bool *ret, struct err *err);
uint64_t store_archive_all(const struct store_archive *a); /* recordings; pure */
/* Recordings of which every place has vanished. */
int store_gone(struct store *st, uint64_t *ret, struct err *err);
/* Recordings with tracks or channels that what is seen of them has not heard. */
int store_left_out(struct store *st, uint64_t *ret, struct err *err);
/* Recordings without any sound track. */
int store_no_sound(struct store *st, uint64_t *ret, struct err *err);
/* Why a recording that is transcribed and has sound has no text. */
enum store_textless {
    TEXTLESS_SILENT,     /* neither voice activity nor the model heard anybody */
    TEXTLESS_UNBELIEVED, /* voice activity hears somebody; the text is dropped, or missing */
    TEXTLESS_DOUBTFUL,   /* texts are dropped, and voice activity hears nobody, or was not asked */
    TEXTLESS_UNKNOWN,    /* no text came, and voice activity was not asked */
    TEXTLESS_KINDS,      /* as many there are; of one recording: it has a text, or no sound */
};
/* Counts the recordings with sound and without text, by reason, and sums how much of the speech has
 * a text. Only transcriptions made after `since` count (as clock_iso8601 writes it; "": all). */
int store_textless(struct store *st, const char *since, uint64_t ret[TEXTLESS_KINDS],
                   struct err *err);
struct store_textless_row {
    int64_t media_id;
    enum store_textless kind;
    const char *path, *member; /* of its main place, borrowed during the call */
};
typedef int (*store_textless_fn)(void *arg, const struct store_textless_row *row);
/* Those of which texts are dropped, or speech is missing; by kind and place. fn ends it by
 * returning other than 0, which is handed on. */
int store_textless_each(struct store *st, store_textless_fn fn, void *arg, struct err *err);
int store_textless_of(struct store *st, int64_t media_id, enum store_textless *ret,
                      struct err *err);
int store_account(struct store *st, const char *since, struct result_account *ret, struct err *err);

#endif
