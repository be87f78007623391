/* store/read/read.h - what the command line reads from the catalog: recordings, transcripts,
 * search.
 *
 * Any store_mode, the store's thread. Rows are handed to a callback; everything in a row is
 * borrowed and valid during that call only. A callback that returns non-zero ends the reading, and
 * its value is what the function returns (use positive values to stop in good order). Callbacks may
 * call other functions of this header on the same store. Texts are valid UTF-8; paths are in
 * display form (base/utf8.h), with the exact bytes beside it where a file may be opened. */
#ifndef NIGHTSHIFT_STORE_READ_READ_H
#define NIGHTSHIFT_STORE_READ_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct read_recording {
    int64_t media_id;
    const char *path,
        *member; /* of its main place: the oldest one that is present, else the last that was */
    const void *path_raw, *member_raw; /* the second of a name with " (2)", as in `member` */
    size_t path_raw_len, member_raw_len;
    uint32_t places; /* present ones; 0: vanished */
    uint64_t size_bytes;
    int64_t duration_ms; /* -1 unknown */
    /* "done", "failed", "cancelled", "paused", "absent", "waiting", "started", "pending" */
    const char *state;
    const char *language;                  /* spoken most, "" unknown */
    const char *title, *container, *codec; /* "" unknown */
    const char *damage;                    /* "" whole */
    const char *left_out;                  /* tracks and channels that are not heard; "" none */
    /* The error of the failed task that is wanted, or of its last attempt; "" */
    const char *error_code, *error;
    uint64_t segments, shards_done, shards_total; /* total 0: unknown */
    /* The state of the transcription that read_segments hands out: "done", "started" (it has some
     * shards), "pending", "failed", "cancelled"; "": none was asked for. */
    const char *transcript;
    bool asked;                /* for anything, and that was not forgotten: else it has no state */
    bool forgotten;            /* a transcription was asked for where it lies, and it has none */
    bool no_sound;             /* it is a film without a sound track */
    const char *stages;        /* the names of those that are done, "diarize, sounds"; "" none */
    bool diarized;             /* a diarization of it is done */
    const char *recorded_on;   /* "2003", "2003-05", "2003-05-17"; "" unknown */
    const char *recorded_from; /* the tag that told it: "bext:origination_date"; "" unknown */
};
typedef int (*read_recording_fn)(void *arg, const struct read_recording *row);

struct read_filter {
    const char *path;  /* display form of a file or a directory; NULL: all */
    const char *state; /* as above; NULL: all */
    bool with_results; /* only those of which at least one shard is done */
    int64_t after;     /* media_id greater than this */
    uint64_t limit;    /* 0: none */
};
/* In the order of media_id. */
int read_recordings(struct store *st, const struct read_filter *filter, read_recording_fn fn,
                    void *arg, struct err *err);

/* How well a name ("path", "path//member") fits what is looked for: 1 best, larger ones less, 0 not
 * at all; or an error code. */
typedef int (*read_fit_fn)(void *arg, const char *name);
/* One recording by what a user types: its number, its absolute path, else the one whose name fits
 * best. ERR_MISSING: none. ERR_USAGE: several do; each (at most 20) was handed to `candidate` (may
 * be NULL). */
int read_find(struct store *st, const char *what, read_fit_fn fit, void *fit_arg,
              read_recording_fn candidate, void *arg, int64_t *ret, struct err *err);
int read_recording_by_id(struct store *st, int64_t media_id, read_recording_fn fn, void *arg,
                         struct err *err); /* ERR_MISSING */

/* The recording that lies at a place, or lay there last: path in exact bytes, absolute; member as
 * it is shown, "" of a plain file. ERR_MISSING: none. ERR_USAGE: an archive, and no member. */
int read_place(struct store *st, const char *path, const char *member, int64_t *ret,
               struct err *err);
typedef int (*read_place_fn)(void *arg, int64_t media_id, const char *path, const char *member);
int read_places(struct store *st, read_place_fn fn, void *arg, struct err *err); /* in no order */
/* All places of a recording that hold nothing else now: the main one first, then those that are
 * present, in the order of path and member. */
struct read_other;
typedef int (*read_other_fn)(void *arg, const struct read_other *row);
int read_places_of(struct store *st, int64_t media_id, read_other_fn fn, void *arg,
                   struct err *err);

/* The places that are not their recordings' main ones, also those that vanished, in the order of
 * media_id and place_id. */
struct read_other {
    int64_t media_id, place_id;
    const char *path, *member;
    const void *path_raw, *member_raw; /* as struct read_recording has them */
    size_t path_raw_len, member_raw_len;
    uint32_t nth;
    bool present;
};
int read_others(struct store *st, read_other_fn fn, void *arg, struct err *err);

struct read_origin {                   /* what a decoder is given, of a recording's main place */
    const void *path_raw, *member_raw; /* exact bytes; the member "" of a plain file */
    size_t path_raw_len, member_raw_len;
    uint32_t nth;               /* which of the members of that name, 0 ... */
    bool present;               /* it was there when its folder was enqueued last */
    const uint8_t *fingerprint; /* [16]: of its bytes, the same wherever it lies */
    const uint8_t *hash;        /* [16]: XXH3-128 of all of them; NULL: not known */
};
typedef int (*read_origin_fn)(void *arg, const struct read_origin *row);
int read_origin(struct store *st, int64_t media_id, read_origin_fn fn, void *arg,
                struct err *err); /* ERR_MISSING */

struct read_file { /* one on disk, with whatever recordings are in it */
    const void *path_raw;
    size_t path_raw_len;
    const char *path;
    uint64_t size_bytes;  /* when it was enqueued last */
    int64_t mtime_ns;     /* -1 unknown */
    const uint8_t *hash;  /* [16]: XXH3-128 of its bytes as they were; NULL: not known yet */
    const uint8_t *heard; /* [16]: of what its recording's results are of; NULL: not known */
};
typedef int (*read_file_fn)(void *arg, const struct read_file *row);
/* Those that are present, at or below a raw absolute path (NULL: all): first those that were never
 * verified, then whichever was so longest ago. */
int read_files(struct store *st, const char *path, read_file_fn fn, void *arg, struct err *err);

struct read_segment {
    int64_t segment_id, media_id;
    int64_t start_ms, end_ms;
    const char *text;
    const char *heard; /* the machine's words where people corrected them; NULL: `text` is those */
    const char *language;
    const char *speaker; /* without a diarization, the source's label; "" unknown */
    double avg_logprob, no_speech_prob, compression_ratio, temperature; /* NAN unknown */
    double speech_prob;                                                 /* NAN: not measured */
    uint32_t attempts;                                                  /* 0 unknown */
    const char *reason; /* why it was tried again, doubted or dropped; "" */
    bool has_words;     /* read_words has some */
    const char *path, *member;
    const char *snippet; /* search: text with the marks around what matched; else NULL */
};
typedef int (*read_segment_fn)(void *arg, const struct read_segment *row);

/* The transcript of one recording in order, but for segments in which nothing is said as people
 * corrected them. stage_id 0: the one that is current. */
int read_segments(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn,
                  void *arg, struct err *err);

/* The same as the machine has it, whatever people corrected: `text` is its words, `heard` NULL. It
 * includes segments that read_segments leaves out because people removed all their words. */
int read_heard(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn, void *arg,
               struct err *err);

/* Reads the texts that the machine dropped, in order; the same stage. segment_id is 0. A text of ""
 * means that somebody speaks and no text came. */
int read_dropped(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn,
                 void *arg, struct err *err);

/* How much of its speech the current transcription has as text; speech_ms -1: not measured. */
int read_account(struct store *st, int64_t media_id, struct result_account *ret, struct err *err);

struct read_word {
    int64_t start_ms, end_ms;
    const char *text;    /* with its leading blank */
    double probability;  /* NAN unknown */
    const char *speaker; /* "" unknown */
};
typedef int (*read_word_fn)(void *arg, const struct read_word *row);
/* The words of one segment in order. The callback reads nothing itself. */
int read_words(struct store *st, int64_t segment_id, read_word_fn fn, void *arg, struct err *err);

struct read_result { /* what a recording has of one stage, or is to have */
    int64_t stage_id;
    const char *stage, *model, *model_hash, *params_json;
    const char *state; /* as read_recording's, "settling" and "started" */
    bool current, wanted, pinned;
};
typedef int (*read_result_fn)(void *arg, const struct read_result *row);
/* By kind, the newest stage first. */
int read_results(struct store *st, int64_t media_id, read_result_fn fn, void *arg, struct err *err);

struct read_search {
    const char *text;                  /* as store/search/query.h has it */
    const char *path;                  /* as read_filter */
    const char *speaker;               /* name or label, as find_people.who; NULL: anybody */
    const char *language;              /* of the segment; NULL: any */
    const char *sound;                 /* a class with this in its name is heard ... */
    int64_t sound_ms;                  /* ... at most so far from it; sound NULL: not asked */
    const char *mark_begin, *mark_end; /* "[" and "]" when NULL */
    uint64_t limit, offset;            /* limit 0: none */
    bool by_time;                      /* by recording and position, instead of best first */
};
/* ERR_USAGE: the text cannot be understood, with the place. */
int read_search(struct store *st, const struct read_search *search, read_segment_fn fn, void *arg,
                struct err *err);
/* Parses a typed query, with words as the catalog's index splits them (query_parse). */
struct query;
int read_query(struct store *st, const char *text, struct query **ret, size_t *at, struct err *err);
/* Words that the index finds in a text of any kind. */
int read_word_count(struct store *st, const char *text, size_t *ret, struct err *err);

/* A shortest stretch in which all of something is said (store/search/within.h). */
struct read_span {
    int64_t media_id, start_ms, end_ms;
    const char *path, *member;
    const char *language;        /* of the first segment */
    const char *speaker;         /* who says most of these segments; "" unknown */
    const char *const *speakers; /* all who are known, each once, in the order of appearance */
    size_t speaker_count;
    size_t segments;            /* in which something was found: so many are in the texts */
    const char *text, *snippet; /* theirs, with " ... " between; marks as of read_segment */
};
typedef int (*read_span_fn)(void *arg, const struct read_span *row);

struct read_failure {
    const char *kind; /* "failed", "damaged", "absent", "unreadable", "changed"; "no sound" */
    const char *path, *member;
    const char *code, *reason; /* code: err_name; "" for damaged */
    const char *stage, *at;    /* "" unknown; at: ISO-8601 UTC */
    int64_t media_id;          /* 0: unreadable, changed in an archive */
    uint32_t attempts;
};
typedef int (*read_failure_fn)(void *arg, const struct read_failure *row);
int read_failures(struct store *st, const char *kind /* NULL: all */, uint64_t limit,
                  read_failure_fn fn, void *arg, struct err *err);
/* Films without sound that were opened after `since` (as clock_iso8601 has it), of the kind
 * "no sound", which is none of `failures`. */
int read_no_sound(struct store *st, const char *since, read_failure_fn fn, void *arg,
                  struct err *err);

struct read_event {
    int64_t event_id;
    const char *at, *kind, *device, *text, *path; /* "" none */
    int64_t media_id;
    int64_t at_ms; /* the same time, wall clock */
};
typedef int (*read_event_fn)(void *arg, const struct read_event *row);
/* Those with id > after, oldest first; with last > 0, only the newest `last` of them. */
int read_events(struct store *st, int64_t after, uint64_t last, read_event_fn fn, void *arg,
                struct err *err);

/* What befell devices since `since` (as clock_iso8601 has it), oldest first: those that were
 * disabled, came back, or are worth a warning. */
int read_device_events(struct store *st, const char *since, read_event_fn fn, void *arg,
                       struct err *err);

struct read_job {
    int64_t job_id;
    const char *created_at, *ended_at; /* "" : the walk is on, or was interrupted */
    const char *command, *stage, *model, *language;
    const char *priority; /* "" : nothing was said */
    struct store_enqueue_counts counts;
    uint64_t tasks_pending, tasks_done, tasks_failed, tasks_cancelled; /* of the tasks it created */
    uint64_t with_tasks; /* of all jobs, so many have such, or a walk that has not ended */
};
typedef int (*read_job_fn)(void *arg, const struct read_job *row);
int read_jobs(struct store *st, read_job_fn fn, void *arg, struct err *err);

struct read_progress { /* one stage */
    int64_t stage_id;
    int64_t source_id; /* the stage whose results it works on; 0: none */
    const char *stage, *model, *model_dir, *model_hash, *params_json;
    /* These count wanted tasks. The others are `superseded`: asked for with other settings
     * since. */
    uint64_t tasks, pending, done, failed, cancelled, paused, absent, unknown, superseded;
    uint64_t waiting;  /* for their source's tasks */
    uint64_t settling; /* pending ones whose shards are all there */
    int64_t audio_known_ms, audio_done_ms;
    int64_t audio_left_ms;  /* of the pending ones, as far as their durations are known */
    uint64_t bytes_pending; /* of the pending ones */
};
typedef int (*read_progress_fn)(void *arg, const struct read_progress *row);
int read_progress(struct store *st, read_progress_fn fn, void *arg, struct err *err);
/* Counts a stage's superseded tasks whose results are not current either. Reads all of the stage
 * that is not current. */
int read_unused(struct store *st, int64_t stage_id, uint64_t *ret, struct err *err);

#endif
