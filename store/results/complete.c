/* The end of a task: with its last shard, or, for diarization, when the recording as a whole has
 * been looked at. */
#include "store/results/complete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/reading/publish.h"
#include "store/parting/share.h"
#include "store/register/register.h"
#include "store/register/voices.h"
#include "store/choice.h"
#include "store/results/found.h"
#include "store/results/naming.h"

#define FINALIZES "(SELECT " DB_FINALIZES " FROM stage s WHERE s.stage_id = task.stage_id)"

int complete_read(struct store *st, int64_t task_id, struct complete_task *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.media_id, t.shards_done, ifnull(t.shards_total, 0), t.state, "
                      "t.waits, s." DB_FINALIZES ", s." DB_TRANSCRIBES
                      " FROM task t CROSS JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.task_id = ?1",
                      "i", task_id);

    if (rc != 1)
        return rc;
    *ret = (struct complete_task){
        .task_id = task_id,
        .media_id = sqlite3_column_int64(stmt, 0),
        .done = sqlite3_column_int64(stmt, 1),
        .total = sqlite3_column_int64(stmt, 2),
        .is_pending = strcmp(db_text(stmt, 3), "pending") == 0,
        .is_failed = strcmp(db_text(stmt, 3), "failed") == 0,
        .is_done = strcmp(db_text(stmt, 3), "done") == 0,
        .waits_source = strcmp(db_text(stmt, 4), "source") == 0,
        .waits_finalizing = strcmp(db_text(stmt, 4), "settling") == 0,
        .finalizes = sqlite3_column_int(stmt, 5),
        .transcribes = sqlite3_column_int(stmt, 6),
    };
    sqlite3_reset(stmt);
    return 1;
}

static bool may_end(const struct complete_task *t, int64_t done)
{
    if (t->total == 0 || done < t->total)
        return false;
    if (t->finalizes)
        return (t->is_pending || t->is_failed) && !t->waits_source && !t->waits_finalizing;
    return !t->is_done && !t->waits_source;
}

/* Columns of a task to which a shard's account is added; speech, dropped and missing are numbers of
 * parameters. */
#define ADD_ACCOUNT(speech, dropped, missing)                                         \
    "speech_ms = iif(" speech " < 0, speech_ms, ifnull(speech_ms, 0) + " speech "), " \
    "dropped_ms = dropped_ms + " dropped ", missing_ms = missing_ms + " missing

/* The task is done now; so may be all that is wanted of its recording. */
static int count_done(struct store *st, int64_t task_id, int64_t media_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM task WHERE task_id = ?1 AND wanted AND NOT EXISTS "
                      "(SELECT 1 FROM task WHERE media_id = ?2 AND wanted AND state <> 'done')",
                      "ii", task_id, media_id);

    st->completing.tasks++;
    st->completing.recordings += rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : choice_apply(st, media_id, err);
}

/* One that finalizes waits for that. more: shards beside those counted, of so much audio and with
 * this account. 1: it was so. */
static int end_complete_task(struct store *st, const struct complete_task *t, int64_t more,
                             int64_t audio_ms, const struct result_account *a, const char *now,
                             struct err *err)
{
    int rc = db_run(
        st, err,
        "UPDATE task SET shards_done = shards_done + ?2, "
        "audio_done_ms = audio_done_ms + ?3, shards_total = ?4, state = ?5, "
        "waits = ifnull(?6, waits), settled_at = ?7, "
        "silent = ?8 AND missing_ms + ?11 = 0 "
        "AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.task_id = ?1), " ADD_ACCOUNT(
            "?9", "?10",
            "?11") ", "
                   "retry_at = NULL, error_code = NULL, error = NULL WHERE task_id = ?1 AND "
                   "(SELECT count(*) FROM shard h WHERE h.task_id = ?1 AND h.seq < ?4) = ?4",
        "iiiitttiiii", t->task_id, more, audio_ms, t->total, t->finalizes ? "pending" : "done",
        t->finalizes ? "settling" : NULL, t->finalizes ? NULL : now, (int64_t)t->transcribes,
        a->speech_ms, a->dropped_ms, a->missing_ms);
    bool ended = rc == 0 && sqlite3_changes(st->db) > 0;

    if (ended && t->finalizes && (t->done == 0 || !t->is_pending))
        rc = choice_apply(st, t->media_id, err);
    else if (ended && !t->finalizes)
        rc = count_done(st, t->task_id, t->media_id, err);
    return rc == 0 && ended ? 1 : rc;
}

/* ended: as end() has it. */
static int check_shares_after_end(struct store *st, const struct complete_task *t, int ended,
                                  struct err *err)
{
    if (ended < 0)
        return ended;
    return ended == 1 && !t->finalizes ? 0 : share_check(st, t->task_id, err);
}

int complete_shard(struct store *st, const struct complete_task *t, int64_t audio_ms,
                   const struct result_account *a, const char *now, struct err *err)
{
    int rc = may_end(t, t->done + 1) ? end_complete_task(st, t, 1, audio_ms, a, now, err) : 0;
    bool begins = rc == 0 && t->done == 0;

    if (rc == 0)
        rc = db_run(
            st, err,
            "UPDATE task SET shards_done = shards_done + 1, "
            "audio_done_ms = audio_done_ms + ?2, shards_total = nullif(?3, 0), " ADD_ACCOUNT(
                "?4", "?5", "?6") " WHERE task_id = ?1",
            "iiiiii", t->task_id, audio_ms, t->total, a->speech_ms, a->dropped_ms, a->missing_ms);
    if (rc == 0 && begins)
        rc = choice_apply(st, t->media_id, err);
    return check_shares_after_end(st, t, rc, err);
}

int complete_check(struct store *st, int64_t task_id, const char *now, struct err *err)
{
    static const struct result_account none = {.speech_ms = -1};
    struct complete_task t;
    int rc = complete_read(st, task_id, &t, err);

    if (rc != 1)
        return rc;
    return check_shares_after_end(
        st, &t, may_end(&t, t.done) ? end_complete_task(st, &t, 0, 0, &none, now, err) : 0, err);
}

int complete_forget(struct store *st, int64_t task_id, uint32_t shards, struct naming_change *ret,
                    struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t media_id;
    int rc = db_first(st, &stmt, err,
                      "SELECT media_id FROM task WHERE task_id = ?1 AND state = 'done' "
                      "AND shards_done < ?2 AND " FINALIZES,
                      "ii", task_id, (int64_t)shards);

    if (rc != 1)
        return rc;
    media_id = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    rc = naming_before(st, media_id, ret, err);
    if (rc == 0)
        rc = naming_drop_shards(st, task_id, err);
    return rc < 0 ? naming_after(st, ret, rc, err) : 1;
}

/* *task_id: the next one behind it. 0: none. */
static int next_cancelled(struct store *st, int64_t *task_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.task_id FROM (SELECT DISTINCT task_id FROM voice "
                      "WHERE task_id > ?) v CROSS JOIN task t ON t.task_id = v.task_id "
                      "WHERE t.state = 'cancelled' ORDER BY 1 LIMIT 1",
                      "i", *task_id);

    if (rc != 1)
        return rc;
    *task_id = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 1;
}

static int drop_cancelled(struct store *st, int64_t task_id, struct err *err)
{
    struct complete_task t = {0};
    int rc = complete_read(st, task_id, &t, err);

    if (rc != 1)
        return rc;
    rc = naming_drop_shards(st, task_id, err);
    if (rc == 0)
        rc = db_run(st, err, "UPDATE task SET waits = NULL WHERE task_id = ?", "i", task_id);
    if (rc == 0)
        rc = choice_apply(st, t.media_id, err);
    if (rc == 0)
        rc = reading_due(st, t.media_id, err);
    if (rc >= 0)
        rc = reading_publish_due(st, err);
    return rc < 0 ? rc : voices_match(st, err);
}

int store_drop_cancelled(struct store *st, struct err *err)
{
    int64_t task_id = 0;
    int rc;

    /* One at a time: a long recording's voices are hundreds of megabytes. Nothing is written, and
     * nobody waited for, when there is none. */
    while ((rc = next_cancelled(st, &task_id, err)) == 1) {
        rc = db_enter(st, err);
        if (rc == 0)
            rc = db_leave(st, drop_cancelled(st, task_id, err), err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int check_people(const struct result_people *p, struct err *err)
{
    for (uint32_t i = 0; i < p->speaker_count; i++) {
        const struct result_speaker *s = &p->speakers[i];

        if (s->speech_ms < 0 || (s->values && (!p->size || p->size > FOUND_MAX_SIZE ||
                                               !found_finite(s->values, p->size))))
            return err_set(err, ERR_INPUT, "speaker %u is impossible", i);
    }
    for (uint32_t i = 0; i < p->turn_count; i++) {
        const struct result_turn *t = &p->turns[i];

        if (t->start_ms < 0 || t->end_ms < t->start_ms || t->speaker >= p->speaker_count)
            return err_set(err, ERR_INPUT, "turn %u is impossible", i);
    }
    return 0;
}

struct finalizing {
    int64_t task_id, media_id;
    bool wanted;
};

/* Skips a task that was finalized already, cancelled or forgotten, or has shards to do again. */
static int finalizing_of(struct store *st, int64_t task_id, bool cancelled_too,
                         struct finalizing *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT media_id, (state = 'pending' AND waits IS 'settling') OR "
                      "(?2 AND state = 'cancelled' AND shards_done = shards_total) FROM task "
                      "WHERE task_id = ?1",
                      "ii", task_id, (int64_t)cancelled_too);

    if (rc != 1)
        return rc;
    *ret = (struct finalizing){task_id, sqlite3_column_int64(stmt, 0), sqlite3_column_int(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}

/* ids: of the rows that were made, in the same order. */
static int put_speakers(struct store *st, const struct finalizing *of,
                        const struct result_people *people, int64_t *ids, struct err *err)
{
    char label[32];
    int rc = 0;

    /* If each source is one speaker, the speaker gets the source's label: "channel 2". */
    for (uint32_t i = 0; i < people->speaker_count && rc == 0; i++) {
        const struct result_speaker *s = &people->speakers[i];

        snprintf(label, sizeof(label), "SPEAKER_%02u", i);
        rc = db_run(
            st, err,
            "INSERT INTO speaker (task_id, media_id, label, speech_ms, vector) VALUES (?1, "
            "?2, ifnull((SELECT label FROM source WHERE task_id = ?1 AND source = ?6), ?3), "
            "?4, nullif(?5, x''))",
            "iitibi", of->task_id, of->media_id, label, s->speech_ms, (const void *)s->values,
            s->values ? people->size * sizeof(float) : 0, (int64_t)i + 1);
        ids[i] = sqlite3_last_insert_rowid(st->db);
    }
    return rc;
}

static int put_turns(struct store *st, int64_t task_id, const struct result_people *people,
                     const int64_t *ids, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < people->turn_count && rc == 0; i++) {
        const struct result_turn *t = &people->turns[i];

        rc = db_run(st, err,
                    "INSERT INTO turn (task_id, idx, start_ms, end_ms, speaker_id) "
                    "VALUES (?, ?, ?, ?, ?)",
                    "iiiii", task_id, (int64_t)i, t->start_ms, t->end_ms, ids[t->speaker]);
    }
    return rc;
}

/* In place of speakers whose names were kept for these: they come before those of another
 * diarization, which counted meanwhile. */
static int put_all(struct store *st, const struct finalizing *of,
                   const struct result_people *people, int64_t *ids, struct err *err)
{
    struct naming *kept = NULL, *names = NULL;
    int rc = naming_of(st, of->task_id, &kept, err);

    if (rc == 0)
        rc = naming_read(st, of->media_id, &names, err);
    if (rc == 0)
        rc = register_drop(st, of->task_id, err);
    if (rc == 0)
        rc = put_speakers(st, of, people, ids, err);
    if (rc == 0)
        rc = put_turns(st, of->task_id, people, ids, err);
    if (rc == 0 && kept)
        rc = naming_give(st, kept, ids, people, err);
    if (rc == 0 && names)
        rc = naming_give(st, names, ids, people, err);
    naming_free(kept);
    naming_free(names);
    return rc;
}

static int store_finalized_people(struct store *st, int64_t task_id,
                                  const struct result_people *people, bool cancelled_too,
                                  int64_t *ids, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    struct finalizing of = {0};
    int rc = finalizing_of(st, task_id, cancelled_too, &of, err);

    if (rc < 0 || !of.wanted)
        return rc;
    db_now(now);
    rc = put_all(st, &of, people, ids, err);
    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM voice WHERE task_id = ?", "i", task_id);
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE task SET state = 'done', waits = NULL, settled_at = ?2, "
                    "retry_at = NULL, error_code = NULL, error = NULL WHERE task_id = ?1",
                    "it", task_id, now);
    if (rc == 0)
        rc = count_done(st, task_id, of.media_id, err);
    if (rc == 0)
        rc = choice_voices_changed(st, of.media_id, task_id, err);
    if (rc >= 0)
        rc = reading_publish_due(st, err);
    return rc < 0 ? rc : voices_match(st, err);
}

static int finalize_recording(struct store *st, int64_t task_id, const struct result_people *people,
                              bool cancelled_too, struct err *err)
{
    int64_t *ids;
    int rc = check_people(people, err);

    if (rc < 0)
        return err_prefix(err, "task %lld", (long long)task_id);
    ids = calloc(people->speaker_count + (size_t)1, sizeof(*ids));
    if (!ids)
        return err_no_memory(err, "catalog");
    rc = db_enter(st, err);
    if (rc == 0)
        rc =
            db_leave(st, store_finalized_people(st, task_id, people, cancelled_too, ids, err), err);
    free(ids);
    return rc;
}

int store_finalized(struct store *st, int64_t task_id, const struct result_people *people,
                    struct err *err)
{
    return finalize_recording(st, task_id, people, false, err);
}

int store_finalized_there(struct store *st, int64_t task_id, const struct result_people *people,
                          struct err *err)
{
    return finalize_recording(st, task_id, people, true, err);
}
