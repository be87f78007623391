#include "store/results/speakers.h"

#include <stdlib.h>

#include "base/list.h"
#include "store/corrections/settle.h"
#include "store/db.h"
#include "store/results/naming.h"
#include "store/results/overlap.h"
#include "store/results/parts.h"
#include "store/results/whole.h"

struct stretch {
    int64_t id, start_ms, end_ms; /* id: of the segment, or a word's place in its segment */
};

struct stretches {
    struct stretch *list; /* owned */
    size_t count, cap;
};

static int stretch_add(struct stretches *s, sqlite3_stmt *stmt, struct err *err)
{
    if (!list_grow(&s->list, &s->cap, s->count, sizeof(*s->list)))
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    s->list[s->count++] =
        (struct stretch){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                         sqlite3_column_int64(stmt, 2)};
    return 0;
}

/* Takes the rows of a query whose first step returned rc. */
static int stretches_take(struct store *st, sqlite3_stmt *stmt, int rc, struct stretches *s,
                          struct err *err)
{
    s->count = 0;
    while (rc == 1) {
        rc = stretch_add(s, stmt, err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc;
}

/* 0 when no diarization of the recording is settled. */
static int diarization_of(struct store *st, int64_t media_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = ? AND t.state = 'done' AND t.current AND s." DB_SETTLES,
                      "i", media_id);

    *ret = 0;
    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

/* The turns of a diarization, each with its speaker_id. */
static int turns_of(struct store *st, int64_t task_id, struct overlaps **ret, struct err *err)
{
    struct stretches s = {0};
    struct overlap_turn *turns;
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err, "SELECT speaker_id, start_ms, end_ms FROM turn WHERE task_id = ?",
                 "i", task_id);

    rc = stretches_take(st, stmt, rc, &s, err);
    turns = rc == 0 ? calloc(s.count + 1, sizeof(*turns)) : NULL;
    if (rc == 0 && !turns)
        rc = err_set(err, ERR_NOMEM, "catalog: out of memory");
    for (size_t i = 0; rc == 0 && i < s.count; i++)
        turns[i] = (struct overlap_turn){s.list[i].start_ms, s.list[i].end_ms, s.list[i].id};
    if (rc == 0)
        rc = overlap_make(turns, s.count, ret, err);
    free(turns);
    free(s.list);
    return rc;
}

/* Of a table of words. */
struct words_sql {
    const char *times, *speak;
};
#define WORDS_SQL(table)                                                                 \
    {                                                                                    \
        "SELECT idx, start_ms, end_ms FROM " table " WHERE segment_id = ? ORDER BY idx", \
            "UPDATE " table " SET speaker_id = nullif(?1, 0) "                           \
            "WHERE segment_id = ?2 AND idx BETWEEN ?3 AND ?4"                            \
    }

/* One statement for a run of words of one speaker. whose: of all of them, else 0. */
static int assign_words(struct store *st, const struct words_sql *sql, struct overlaps *a,
                        int64_t segment_id, int64_t whose, struct stretches *words, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    if (whose)
        return db_run(st, err, sql->speak, "iiii", whose, segment_id, (int64_t)0, INT64_MAX);
    rc = db_first(st, &stmt, err, sql->times, "i", segment_id);

    rc = stretches_take(st, stmt, rc, words, err);
    for (size_t i = 0, next; i < words->count && rc == 0; i = next) {
        const struct stretch *w = words->list;
        int64_t speaker = overlap_speaker(a, w[i].start_ms, w[i].end_ms, 0);

        for (next = i + 1; next < words->count; next++)
            if (overlap_speaker(a, w[next].start_ms, w[next].end_ms, 0) != speaker)
                break;
        rc = db_run(st, err, sql->speak, "iiii", speaker, segment_id, w[i].id, w[next - 1].id);
    }
    return rc;
}

/* Those that are seen, and those that the machine has of a corrected segment. */
static int assign_shard(struct store *st, const struct parts_turns *by, int64_t task_id,
                        uint32_t seq, struct err *err)
{
    static const struct words_sql seen = WORDS_SQL("word"), heard = WORDS_SQL("word_heard");
    struct stretches segments = {0}, words = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = parts_make(st, task_id, seq, by, err);

    if (rc == 0)
        rc = db_first(st, &stmt, err,
                      "SELECT g.segment_id, ifnull(" WHOLE_SOURCE_SPEAKER "?3), 0), 0 "
                      "FROM segment g WHERE g.task_id = ?1 AND g.seq = ?2",
                      "iii", task_id, (int64_t)seq, by->diarization);
    if (rc >= 0)
        rc = stretches_take(st, stmt, rc, &segments, err);
    for (size_t i = 0; i < segments.count && rc == 0; i++) {
        const struct stretch *g = &segments.list[i]; /* start_ms: whose it is */

        rc = assign_words(st, &seen, by->turns, g->id, g->start_ms, &words, err);
        if (rc == 0)
            rc = assign_words(st, &heard, by->turns, g->id, g->start_ms, &words, err);
    }
    free(segments.list);
    free(words.list);
    return rc;
}

int speakers_assign(struct store *st, int64_t media_id, int64_t task_id, uint32_t seq,
                    struct err *err)
{
    struct stretches shards = {0};
    struct parts_turns by = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = diarization_of(st, media_id, &by.diarization, err);

    if (rc < 0 || !by.diarization)
        return rc;
    rc = turns_of(st, by.diarization, &by.turns, err);
    if (rc == 0 && task_id)
        rc = assign_shard(st, &by, task_id, seq, err);
    else if (rc == 0)
        rc = db_first(st, &stmt, err,
                      "SELECT DISTINCT g.task_id, g.seq, 0 FROM task t "
                      "CROSS JOIN segment g ON g.task_id = t.task_id WHERE t.media_id = ?",
                      "i", media_id);
    if (rc >= 0 && !task_id)
        rc = stretches_take(st, stmt, rc, &shards, err);
    for (size_t i = 0; i < shards.count && rc == 0; i++)
        rc = assign_shard(st, &by, shards.list[i].id, (uint32_t)shards.list[i].start_ms, err);
    free(shards.list);
    overlap_free(by.turns);
    return rc;
}

int speakers_gone(struct store *st, int64_t media_id, struct err *err)
{
    struct stretches shards = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT DISTINCT g.task_id, g.seq, 0 FROM task t CROSS JOIN segment g "
                      "ON g.task_id = t.task_id AND g.part > 0 WHERE t.media_id = ?1 "
                      "AND NOT EXISTS (SELECT 1 FROM speaker WHERE media_id = ?1)",
                      "i", media_id);

    if (rc >= 0)
        rc = stretches_take(st, stmt, rc, &shards, err);
    for (size_t i = 0; i < shards.count && rc == 0; i++)
        rc = parts_make(st, shards.list[i].id, (uint32_t)shards.list[i].start_ms, NULL, err);
    free(shards.list);
    return rc;
}

int speakers_before(struct store *st, int64_t media_id, struct speakers_of *ret, struct err *err)
{
    int rc;

    *ret = (struct speakers_of){.media_id = media_id};
    rc = diarization_of(st, media_id, &ret->task_id, err);
    return rc < 0 || !ret->task_id ? rc : naming_of(st, ret->task_id, &ret->names, err);
}

int speakers_after(struct store *st, struct speakers_of *of, int rc, struct err *err)
{
    int64_t now = 0;

    if (rc >= 0)
        rc = diarization_of(st, of->media_id, &now, err);
    if (rc == 0 && now && now != of->task_id) {
        if (of->names)
            rc = naming_carry(st, of->names, now, err);
        if (rc == 0)
            rc = speakers_assign(st, of->media_id, 0, 0, err);
    }
    if (rc == 0 && !now)
        rc = speakers_gone(st, of->media_id, err);
    naming_free(of->names);
    of->names = NULL;
    return rc;
}
