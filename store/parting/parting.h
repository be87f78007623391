/* store/parting/parting.h - a catalog's open work as catalogs of their own, and back.
 *
 * A *part* is a catalog like any other, that holds the rows which a run needs for some of the
 * recordings: paths, stages, tasks, and what those tasks have done already; no media. Its settings
 * say whose part it is (docs/reference/catalog-tables.md, `setting`). If a recording is cut, each
 * part has a *share* of it: a run of shards. Its tasks are never done in the part, but paused when
 * their shards are there. Stages that need such a recording as a whole (diarization, passages of
 * its text) are left to the catalog that the part comes from.
 *
 * Rows find each other by what they are (content, model and parameters), not by their numbers, so
 * parts may come back in any order and several times. The store's thread only. */
#ifndef NIGHTSHIFT_STORE_PARTING_PARTING_H
#define NIGHTSHIFT_STORE_PARTING_PARTING_H

#include "store/store.h"

#define PARTING_ID_LEN 33 /* 32 hexadecimal digits and the NUL */

/* ------------------------------------------------------------------------------- taking apart */

/* A recording with work that can be done now, or after other work of the same recording. */
struct parting_work {
    int64_t media_id;
    int64_t duration_ms; /* -1 unknown */
    uint64_t size_bytes;
    uint32_t hearing;    /* open tasks that hear it */
    uint32_t texts;      /* open tasks that work on its text */
    int64_t done_ms;     /* what those that hear it have done, each for itself */
    uint32_t first, end; /* the shards that are asked for here: 0 and 0 (all), but in a part */
};
/* Each of them, ascending media_id. fn returning other than 0 ends it with that. Work of a catalog
 * that is paused as a whole counts, too. */
typedef int (*parting_work_fn)(void *arg, const struct parting_work *w, struct err *err);
int parting_work_each(struct store *st, parting_work_fn fn, void *arg, struct err *err);

struct parting_share {
    int64_t media_id;
    bool cut;            /* else: all that is open of it */
    uint32_t first, end; /* of a cut one: its shards up to before `end`; 0: to the last */
};

struct parting_part {
    const char *split;                  /* 32 hexadecimal digits: which taking apart this is */
    uint32_t number, parts;             /* 0 ... parts - 1 */
    const struct parting_share *shares; /* ascending media_id */
    size_t share_count;
};
/* The identity of the catalog that this catalog's parts belong to. It is the catalog's own or, in a
 * part, that of the catalog it comes from; parts of a part come back to that one, too. */
int parting_origin(struct store *st, char ret[PARTING_ID_LEN], struct err *err);
/* Fills `to`, a new and empty catalog, with a part of `from`: one commit. The same catalog and the
 * same part always give the same rows. ERR_INPUT: `to` is not empty. */
int parting_write(struct store *from, struct store *to, const struct parting_part *p,
                  struct err *err);

/* Notes in a catalog that this taking apart of it is out, or (NULL) that nothing is any more: so
 * long its checkpoints stay where they are (store_shard_length). *before: something was out. */
int parting_out(struct store *st, const char *split, bool *before, struct err *err);
/* A place of a recording. Texts are valid within the call. ERR_EMPTY: nowhere. */
struct parting_place {
    const char *path, *member; /* raw bytes; member "": the file itself */
    uint32_t nth;
};
typedef void (*parting_place_fn)(void *arg, const struct parting_place *p);
int parting_place(struct store *st, int64_t media_id, parting_place_fn fn, void *arg,
                  struct err *err);

/* ---------------------------------------------------------------------------------- and back */

struct parting_about { /* of a part */
    char origin[PARTING_ID_LEN], split[PARTING_ID_LEN];
    uint32_t number, parts;
    uint64_t recordings, done, failed; /* tasks; of shares those whose shards are there */
    uint64_t open;                     /* tasks that are neither */
    uint32_t tries;                    /* runs of it that began */
    uint32_t failed_tries;             /* that ended in no order, and left no checkpoint behind */
    bool last_failed;                  /* the last is one of these: or it is on */
};
/* ERR_INPUT: it is no part. */
int parting_about(struct store *part, struct parting_about *ret, struct err *err);

struct parting_merged {
    uint64_t shards;   /* that came in */
    uint64_t known;    /* that were here already */
    uint64_t segments; /* of those that came in */
    uint64_t tasks;    /* that became done by it */
    uint64_t failed;   /* that failed in the part, and are failed here now */
    uint64_t strange;  /* tasks that this catalog does not have (any more) */
};
/* Takes over what a part (open for reading) has done: all of it in one commit, or nothing.
 * ERR_INPUT: of another catalog, cut otherwise, or impossible values. */
int parting_merge(struct store *to, struct store *part, struct parting_merged *ret,
                  struct err *err);

/* Beginning and end of a run of a part, in its journal. `text`: for people, where it runs; before
 * it stands how many shards are done, which parting_about reads. */
int parting_try_begins(struct store *part, const char *text, struct err *err);
int parting_try_ends(struct store *part, const char *text, struct err *err);

/* All that is committed in st as one file without a log, at a path where nothing is. Another
 * process may be writing st. On an error there is no file. */
int parting_snapshot(struct store *st, const char *path, struct err *err);

#endif
