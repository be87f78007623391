#include "store/register/voices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/register/groups.h"
#include "store/register/likeness.h"

#define SIZE_MOST 65536u /* values of a vector, in a catalog that anybody may have written */

/* --------------------------------------------------------------------------------- the voices */

struct vectors {   /* owned */
    float *values; /* [count][size], each of length 1 */
    size_t size, count, capacity;
};

struct voice {
    int64_t speaker_id, media_id, group;
    bool due;
};

struct person {
    int64_t person_id;
    bool due;
    size_t begin, denied, end; /* of the register's vectors: theirs, then those that are not */
};

/* The voices and people of one model. */
struct space {
    const struct likeness_measure *measure;
    struct vectors of_voices, of_people;
    struct voice *voices; /* owned */
    size_t voice_count, voice_room;
    struct person *people; /* owned */
    size_t person_count, person_room;
    float *mean; /* of one person's; owned */
};

static void space_free(struct space *s)
{
    free(s->of_voices.values);
    free(s->of_people.values);
    free(s->voices);
    free(s->people);
    free(s->mean);
}

/* 1: it is the last one now; 0: what is there is none, or of another size than the first. */
static int add_vector(struct vectors *v, size_t *size, sqlite3_stmt *stmt, int column,
                      struct err *err)
{
    const void *blob = sqlite3_column_blob(stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(stmt, column) / sizeof(float);

    if (*size == 0)
        *size = n;
    if (!blob || n == 0 || n > SIZE_MOST || n != *size)
        return 0;
    v->size = n;
    if (!list_grow(&v->values, &v->capacity, v->count, n * sizeof(float)))
        return err_no_memory(err, "catalog");
    memcpy(v->values + v->count * n, blob, n * sizeof(float));
    if (likeness_unit(v->values + v->count * n, n) < 0)
        return 0;
    v->count++;
    return 1;
}

/* Unnamed speakers of model ?1 who speak for at least ?2 ms. */
#define WITHOUT_A_NAME                                                                            \
    "FROM speaker k CROSS JOIN task t ON t.task_id = k.task_id CROSS JOIN stage s ON s.stage_id " \
    "= t.stage_id WHERE s." DB_FINALIZES                                                          \
    " AND s.model_hash = ?1 AND t.current AND t.state = 'done'"                                   \
    " AND k.name IS NULL AND k.vector IS NOT NULL AND k.speech_ms >= ?2"

static int read_voices(struct store *st, const char *model_hash, struct space *s, size_t *size,
                       struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT k.speaker_id, k.media_id, ifnull(k.group_id, 0), "
                      "EXISTS (SELECT 1 FROM speaker_due d WHERE d.speaker_id = k.speaker_id), "
                      "k.vector " WITHOUT_A_NAME " ORDER BY k.speaker_id",
                      "ti", model_hash, (int64_t)LIKENESS_LEAST_MS);

    while (rc == 1) {
        rc = add_vector(&s->of_voices, size, stmt, 4, err);
        if (rc == 1 && !list_grow(&s->voices, &s->voice_room, s->voice_count, sizeof(*s->voices)))
            rc = err_no_memory(err, "catalog");
        if (rc == 1)
            s->voices[s->voice_count++] =
                (struct voice){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                               sqlite3_column_int64(stmt, 2), sqlite3_column_int(stmt, 3)};
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc;
}

static int add_person(struct space *s, sqlite3_stmt *stmt, size_t *size, struct err *err)
{
    int64_t person_id = sqlite3_column_int64(stmt, 0);
    struct person *p = s->person_count ? &s->people[s->person_count - 1] : NULL;
    size_t at = s->of_people.count;
    int rc = add_vector(&s->of_people, size, stmt, 3, err);

    if (rc != 1)
        return rc;
    if (!p || p->person_id != person_id) {
        if (!list_grow(&s->people, &s->person_room, s->person_count, sizeof(*s->people)))
            return err_no_memory(err, "catalog");
        p = &s->people[s->person_count++];
        *p = (struct person){person_id, sqlite3_column_int(stmt, 1), at, at, at};
    }
    p->end = at + 1;
    if (!sqlite3_column_int(stmt, 2))
        p->denied = at + 1;
    return 0;
}

static int read_people(struct store *st, const char *model_hash, struct space *s, size_t *size,
                       struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT v.person_id, "
                      "EXISTS (SELECT 1 FROM person_due d WHERE d.person_id = v.person_id), "
                      "v.denied, v.vector FROM person_voice v WHERE v.model_hash = ? "
                      "AND v.vector IS NOT NULL ORDER BY v.person_id, v.denied, v.person_voice_id",
                      "t", model_hash);

    while (rc == 1) {
        rc = add_person(s, stmt, size, err);
        if (rc < 0)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------ who is it like */

static double most_alike(const struct space *s, const float *voice, size_t begin, size_t end)
{
    double most = -INFINITY;

    for (size_t i = begin; i < end; i++)
        most = fmax(most, likeness_product(s->of_people.values + i * s->of_people.size, voice,
                                           s->of_people.size));
    return most;
}

/* Their mean: its product with a voice is the mean of the likenesses. */
static void take_mean(struct space *s, const struct person *p)
{
    size_t size = s->of_people.size;

    for (size_t k = 0; k < size; k++) {
        double sum = 0;

        for (size_t i = p->begin; i < p->denied; i++)
            sum += s->of_people.values[i * size + k];
        s->mean[k] = (float)(sum / (double)(p->denied - p->begin));
    }
}

static int match_person_to_voices(struct store *st, struct space *s, const struct person *p,
                                  double from, struct err *err)
{
    size_t size = s->of_people.size;
    int rc = 0;

    if (p->denied == p->begin)
        return 0;
    take_mean(s, p);
    for (size_t i = 0; i < s->voice_count && rc == 0; i++) {
        const float *voice = s->of_voices.values + i * size;
        double is;

        if (!p->due && !s->voices[i].due)
            continue;
        is = likeness_product(s->mean, voice, size);
        if (is < from || (p->end > p->denied && most_alike(s, voice, p->denied, p->end) >=
                                                    most_alike(s, voice, p->begin, p->denied)))
            continue;
        rc = db_run(st, err,
                    "INSERT INTO person_like (speaker_id, person_id, likeness) VALUES (?, ?, ?)",
                    "iid", s->voices[i].speaker_id, p->person_id, is);
    }
    return rc;
}

/* Pairs from the least likeness that would do among few; how many there are is looked at when they
 * are read. */
static int compare_all(struct store *st, struct space *s, struct err *err)
{
    double from = likeness_name_from(s->measure, 1);
    int rc = 0;

    s->mean = calloc(s->of_people.size + 1, sizeof(*s->mean));
    if (!s->mean)
        return err_no_memory(err, "catalog");
    for (size_t i = 0; i < s->person_count && rc == 0; i++)
        rc = match_person_to_voices(st, s, &s->people[i], from, err);
    return rc;
}

/* -------------------------------------------------------------------------------------- groups */

/* From where on a model's voices were grouped last; 0: never. */
static int grouped_from(struct store *st, const char *model_hash, double *from, int64_t *last,
                        struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err,
                 "SELECT ifnull((SELECT group_from FROM voice_model WHERE model_hash = ?), 0), "
                 "(SELECT ifnull(max(last_group), 0) FROM voice_model)",
                 "t", model_hash);

    if (rc != 1)
        return rc;
    *from = sqlite3_column_double(stmt, 0);
    *last = sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    return 0;
}

static int put_model(struct store *st, const char *model_hash, const struct space *s, size_t voices,
                     double from, int64_t last, struct err *err)
{
    size_t people = 0;

    for (size_t i = 0; i < s->person_count; i++)
        people += s->people[i].denied > s->people[i].begin;
    return db_run(st, err,
                  "INSERT OR REPLACE INTO voice_model (model_hash, measured, voices, people, "
                  "name_from, group_from, last_group) VALUES (?, ?, ?, ?, ?, ?, ?)",
                  "tiiiddi", model_hash, (int64_t)(s->measure ? 1 : 0), (int64_t)voices,
                  (int64_t)people, likeness_name_from(s->measure, people), from, last);
}

static int write_groups(struct store *st, const struct space *s, const struct groups_voice *to,
                        struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->voice_count && rc == 0; i++)
        if (to[i].group != s->voices[i].group)
            rc =
                db_run(st, err, "UPDATE speaker SET group_id = nullif(?2, 0) WHERE speaker_id = ?1",
                       "ii", s->voices[i].speaker_id, to[i].group);
    return rc;
}

/* Anew where there are so many more now that another likeness is asked for. */
static int group_voices(struct store *st, const char *model_hash, const struct space *s,
                        struct err *err)
{
    struct groups_voice *list = calloc(s->voice_count + 1, sizeof(*list));
    double from = likeness_group_from(s->measure, s->voice_count), before = 0;
    int64_t last = 0;
    int rc =
        list ? grouped_from(st, model_hash, &before, &last, err) : err_no_memory(err, "catalog");

    for (size_t i = 0; rc == 0 && i < s->voice_count; i++) {
        bool anew = s->voices[i].due || from != before;

        list[i] = (struct groups_voice){s->voices[i].media_id, anew ? 0 : s->voices[i].group,
                                        s->of_voices.values + i * s->of_voices.size, anew};
    }
    if (rc == 0 && isfinite(from))
        rc = groups_match(list, s->voice_count, s->of_voices.size, from, &last, err);
    if (rc == 0)
        rc = write_groups(st, s, list, err);
    if (rc == 0)
        rc = put_model(st, model_hash, s, s->voice_count, from, last, err);
    free(list);
    return rc;
}

/* ------------------------------------------------------------------------------------- in turn */

/* The voices are not read if no person is known, nothing was grouped before, and so many voices
 * cannot be grouped. */
static int without_reading(struct store *st, const char *model_hash, const struct space *s,
                           bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    double before = 0, from = INFINITY;
    size_t voices = 0;
    int64_t last = 0;
    int rc = db_first(st, &stmt, err, "SELECT count(*) " WITHOUT_A_NAME, "ti", model_hash,
                      (int64_t)LIKENESS_LEAST_MS);

    *ret = false;
    if (rc == 1) {
        voices = (size_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
        from = likeness_group_from(s->measure, voices);
        rc = grouped_from(st, model_hash, &before, &last, err);
    }
    if (rc < 0 || s->person_count > 0 || isfinite(from) || (before > 0 && isfinite(before)))
        return rc;
    *ret = true;
    return put_model(st, model_hash, s, voices, from, last, err);
}

static int match_model(struct store *st, const char *model_hash, struct err *err)
{
    struct space s = {.measure = likeness_measure_of(model_hash)};
    bool done = false;
    size_t size = 0;
    int rc = read_people(st, model_hash, &s, &size, err);

    if (rc == 0)
        rc = without_reading(st, model_hash, &s, &done, err);
    if (rc < 0 || done) {
        space_free(&s);
        return rc;
    }
    if (rc == 0)
        rc = read_voices(st, model_hash, &s, &size, err);
    if (rc == 0)
        rc = compare_all(st, &s, err);
    if (rc == 0)
        rc = group_voices(st, model_hash, &s, err);
    space_free(&s);
    return rc;
}

static int any_due(struct store *st, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 WHERE EXISTS (SELECT 1 FROM speaker_due) "
                      "OR EXISTS (SELECT 1 FROM person_due)",
                      "");

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

/* The models of what changed, one after the other: *model is the one before, and freed. */
static int next_model(struct store *st, char **model, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT min(model_hash) FROM (SELECT s.model_hash FROM speaker_due d "
                      "CROSS JOIN speaker k USING (speaker_id) CROSS JOIN task t USING (task_id) "
                      "CROSS JOIN stage s USING (stage_id) UNION ALL SELECT v.model_hash "
                      "FROM person_due d CROSS JOIN person_voice v USING (person_id)) "
                      "WHERE model_hash > ?",
                      "t", *model ? *model : "");

    free(*model);
    *model = NULL;
    if (rc != 1)
        return rc;
    if (sqlite3_column_type(stmt, 0) != SQLITE_NULL) {
        *model = db_dup(stmt, 0);
        if (!*model)
            rc = err_no_memory(err, "catalog");
    }
    sqlite3_reset(stmt);
    return rc < 0 ? rc : *model != NULL;
}

int voices_match(struct store *st, struct err *err)
{
    static const char *const before[] = {
        "DELETE FROM person_like WHERE speaker_id IN (SELECT speaker_id FROM speaker_due)",
        "DELETE FROM person_like WHERE person_id IN (SELECT person_id FROM person_due)",
        "UPDATE speaker SET group_id = NULL WHERE group_id IS NOT NULL "
        "AND speaker_id IN (SELECT speaker_id FROM speaker_due)"};
    char *model = NULL;
    bool due;
    int rc = any_due(st, &due, err);

    if (rc < 0 || !due)
        return rc;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]) && rc == 0; i++)
        rc = db_run(st, err, before[i], "");
    if (rc == 0)
        while ((rc = next_model(st, &model, err)) == 1)
            if ((rc = match_model(st, model, err)) < 0)
                break;
    free(model);
    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM speaker_due", "");
    return rc == 0 ? db_run(st, err, "DELETE FROM person_due", "") : rc;
}
