/* tools/enqueue/enqueue_work.h - what the parts of an enqueue share: what is wanted, what came of
 * it, and how it speaks. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_WORK_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_ENQUEUE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/enqueue/found/batch.h"
#include "tools/enqueue/found/dry_run.h"
#include "tools/enqueue/found/walk.h"
#include "tools/enqueue/groups.h"

#define UNDECODABLE_TOLD 32

struct dry_run;
struct writer;

struct enqueue_options {
    const char *catalog; /* absolute: it and the files beside it are never enqueued */
    const char *const *include, *const *exclude; /* NULL-terminated, or NULL */
    bool follow, one_file_system;
    bool hidden;       /* also hidden files and folders */
    bool all;          /* also what does not look like a recording */
    bool unsandboxed;  /* archives are read also where nothing would hold the decoders */
    bool has_priority; /* what is found comes when `priority` says, also what is to be done already
                        */
    int64_t priority;  /* enum store_priority */
    int64_t stable_ms; /* over 0: what happened to anything in so long is left for another time */
    int64_t as_of_ms;  /* when it must have been stable; 0: when it is looked at */
    bool quiet, progress;
    struct dry_run_lines *lines; /* of a dry run; or NULL */
    struct groups *groups; /* one job for each stage of each; what came of them is noted there */
    const char *command_line;
};

struct enqueue_result {
    /* Counts of each group's first job, but tasks of all jobs; a dry run has no tasks. */
    struct store_enqueue_counts counts;
    uint64_t files;    /* looked at */
    uint64_t found;    /* recordings, before the catalog has counted them */
    uint64_t archives; /* looked into */
    uint64_t left_alone, excluded, links, specials;
    uint64_t skipped[SKIP_REASONS]; /* for their names; a folder counts as one */
    uint64_t undecodable;           /* recordings of kinds that nothing here can decode */
    uint64_t unreadable_files, unreadable_folders, bad_archives, bad_members;
    uint64_t troubles_before; /* of these, those that were so before, and are not said again */
    uint64_t unstable;
    uint64_t reread, reread_bytes; /* files that were read whole, to tell them from others */
    uint64_t told_apart;           /* places that were taken for another recording's before */
    uint32_t missing_roots;
    bool through_run;    /* a run is on, and has been told */
    bool vanish_skipped; /* too much was left out to say what has vanished */
};

/* One enqueue while it goes on; a value of enqueue_paths. */
struct enqueue_work {
    const struct enqueue_options *o;
    struct enqueue_result *r;
    struct set {
        struct batch *of[STAGE_COUNT]; /* one for each stage */
    } * sets;                          /* one for each group */
    struct batch *first;               /* what is not about a stage goes with it */
    const struct set *now;             /* of what is looked at, */
    const struct groups_group *group;  /* and its group */
    struct writer *writer;
    struct store *known; /* in a dry run; borrowed; NULL: nothing is known */
    struct dry_run *dry_run;
    void *learned;    /* of identity.c */
    int64_t shown_ms; /* when the progress line was drawn last */
    bool line;        /* it stands on the terminal now */
    uint32_t lines;
    const char *told[UNDECODABLE_TOLD]; /* sentences about such kinds */
    bool sandbox_tried;
};

/* NULL: nothing is known. The writer's store is asked for anew each time: it changes when a run
 * ends meanwhile. */
struct store *enqueue_known(const struct enqueue_work *q);

void enqueue_clear_line(struct enqueue_work *q);
void enqueue_progress(struct enqueue_work *q, const char *path, size_t len);
/* One line about a path on standard error. */
void enqueue_say(struct enqueue_work *q, const char *path, size_t path_len, const char *member,
                 uint32_t nth, const char *what);
/* In a dry run: one that is not taken, and why. */
void enqueue_skip(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                  uint32_t nth, const char *why);
/* And one that is; recordings: an archive's that is known as it is, else 0. */
void enqueue_take(struct enqueue_work *q, const char *path, size_t path_len, const char *member,
                  uint32_t nth, uint32_t recordings, const char *why);
/* Says it, and leaves it in the catalog; nothing at or below the path is called vanished. */
int enqueue_trouble_at(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                       uint32_t nth, const struct err *why, struct err *err);
/* A recording of a kind that nothing here can decode: left in the catalog, and said once for each
 * kind. An archive whose other members were read does not count as unread for this. */
int enqueue_undecodable(struct enqueue_work *q, const struct walk_entry *e, const char *member,
                        uint32_t nth, const char *sentence, struct err *err);
/* A file or folder that could not be, for this errno. */
int enqueue_unreadable(struct enqueue_work *q, const struct walk_entry *e, int error,
                       struct err *err);

#endif
