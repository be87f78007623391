#include "store/register/register.h"

static int person_of(struct store *st, const char *name, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT person_id FROM person WHERE name = ?", "t", name);

    *ret = 0;
    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

int register_say(struct store *st, int64_t speaker_id, int64_t person_id, bool denied,
                 struct err *err)
{
    int rc =
        db_run(st, err,
               "INSERT OR IGNORE INTO person_voice (person_id, media_id, speaker_id, denied, "
               "model_hash, vector) SELECT ?2, k.media_id, k.speaker_id, ?3, s.model_hash, "
               "k.vector FROM speaker k JOIN task t USING (task_id) "
               "JOIN stage s USING (stage_id) WHERE k.speaker_id = ?1 "
               "AND (?3 OR k.name = (SELECT name FROM person WHERE person_id = ?2) COLLATE NOCASE)",
               "iii", speaker_id, person_id, (int64_t)denied);

    /* It takes the place of what is left of a diarization by the same model. */
    return rc < 0 ? rc
                  : db_run(st, err,
                           "DELETE FROM person_voice WHERE speaker_id IS NULL AND person_id = ?2 "
                           "AND denied = ?3 AND (media_id, model_hash) = (SELECT media_id, "
                           "model_hash FROM person_voice WHERE speaker_id = ?1 AND person_id = ?2)",
                           "iii", speaker_id, person_id, (int64_t)denied);
}

/* Whatever was said before. */
static int store_person_decision(struct store *st, int64_t speaker_id, int64_t person_id,
                                 bool denied, struct err *err)
{
    int rc = register_say(st, speaker_id, person_id, denied, err);

    return rc < 0 ? rc
                  : db_run(st, err,
                           "UPDATE person_voice SET denied = ?3 "
                           "WHERE speaker_id = ?1 AND person_id = ?2",
                           "iii", speaker_id, person_id, (int64_t)denied);
}

static int must_be(struct store *st, int64_t speaker_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err, "SELECT 1 FROM speaker WHERE speaker_id = ?", "i", speaker_id);

    if (rc == 0)
        return err_set(err, ERR_INPUT, "there is no speaker %lld any more", (long long)speaker_id);
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int register_confirm(struct store *st, int64_t speaker_id, const char *name, struct err *err)
{
    int64_t person_id = 0;
    int rc = must_be(st, speaker_id, err);

    if (rc == 0)
        rc = db_run(st, err, "INSERT OR IGNORE INTO person (name) VALUES (?)", "t", name);
    if (rc == 0)
        rc = person_of(st, name, &person_id, err);
    /* Renaming takes the speaker out of whoever else it was. */
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE speaker SET name = (SELECT name FROM person WHERE person_id = ?2) "
                    "WHERE speaker_id = ?1",
                    "ii", speaker_id, person_id);
    return rc == 0 ? store_person_decision(st, speaker_id, person_id, false, err) : rc;
}

int register_deny(struct store *st, int64_t speaker_id, const char *name, struct err *err)
{
    int64_t person_id = 0;
    int rc = must_be(st, speaker_id, err);

    if (rc == 0)
        rc = person_of(st, name, &person_id, err);
    if (rc == 0 && !person_id)
        rc = err_set(err, ERR_INPUT, "nobody in the register is called '%.200s'", name);
    if (rc == 0)
        rc = store_person_decision(st, speaker_id, person_id, true, err);
    /* By the name that was said: with the last voice the person may be gone. */
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE speaker SET name = NULL WHERE speaker_id = ?1 "
                    "AND name = ?2 COLLATE NOCASE",
                    "it", speaker_id, name);
    return rc;
}

int register_drop(struct store *st, int64_t task_id, struct err *err)
{
    int rc = db_run(st, err,
                    "INSERT OR IGNORE INTO speaker_due SELECT speaker_id FROM speaker "
                    "WHERE task_id <> ?1 AND group_id IN (SELECT group_id FROM speaker "
                    "WHERE task_id = ?1 AND group_id IS NOT NULL) "
                    "GROUP BY group_id HAVING count(*) = 1",
                    "i", task_id);

    return rc < 0 ? rc : db_run(st, err, "DELETE FROM speaker WHERE task_id = ?", "i", task_id);
}
