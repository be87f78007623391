#include "store/choice/main_place.h"

#include "store/choice/choice.h"

struct stand {
    bool absent, replaced;
};

static int stand_of(struct store *st, int64_t media_id, struct stand *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT places = 0, replaced FROM media WHERE media_id = ?",
                      "i", media_id);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "a place is of no recording");
    *ret = (struct stand){sqlite3_column_int(stmt, 0), sqlite3_column_int(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}

/* What follows for its tasks. */
static int follow(struct store *st, int64_t media_id, const struct stand *was, struct err *err)
{
    struct stand is = {0};
    int rc = stand_of(st, media_id, &is, err);

    if (rc == 0 && is.absent != was->absent)
        rc = db_run(st, err, "UPDATE task SET absent = ?2 WHERE media_id = ?1", "ii", media_id,
                    (int64_t)is.absent);
    return rc == 0 && is.replaced != was->replaced ? choice_apply(st, media_id, err) : rc;
}

static const char sql_came[] =
    "UPDATE media SET replaced = 0, places = places + 1, place_id = iif("
    " place_id IS NULL OR places = 0 OR "
    " (SELECT p.member_raw <> x'' FROM place p WHERE p.place_id = ?2) * 2 + (?2 > place_id) < "
    " (SELECT p.member_raw <> x'' FROM place p WHERE p.place_id = media.place_id) * 2 "
    " + (?2 < place_id), ?2, place_id) WHERE media_id = ?1";

int main_place_came(struct store *st, int64_t media_id, int64_t place_id, struct err *err)
{
    struct stand was = {0};
    int rc = stand_of(st, media_id, &was, err);

    if (rc == 0)
        rc = db_run(st, err, sql_came, "ii", media_id, place_id);
    return rc < 0 ? rc : follow(st, media_id, &was, err);
}

#define FOLDER(of) "rtrim(" of ".path, replace(" of ".path, '/', ''))"
static const char sql_went[] =
    "UPDATE media SET places = places - ?3, "
    "replaced = NOT EXISTS (SELECT 1 FROM place p WHERE p.media_id = ?1 "
    " AND p.state <> 'replaced'), "
    "place_id = iif(place_id <> ?2, place_id, ifnull("
    " (SELECT p.place_id FROM place p CROSS JOIN place gone ON gone.place_id = ?2 "
    "  WHERE p.media_id = ?1 AND (p.state = 'present' "
    "  OR (p.state = 'vanished' AND gone.state = 'replaced')) "
    "  ORDER BY p.state = 'present' DESC, p.gone_at DESC, p.member_raw <> x'', " FOLDER(
        "p") " = " FOLDER("gone") " DESC, p.place_id LIMIT 1), place_id)) WHERE media_id = ?1";

int main_place_went(struct store *st, int64_t media_id, int64_t place_id, bool was_present,
                    struct err *err)
{
    struct stand was = {0};
    int rc = stand_of(st, media_id, &was, err);

    if (rc == 0)
        rc = db_run(st, err, sql_went, "iii", media_id, place_id, (int64_t)was_present);
    return rc < 0 ? rc : follow(st, media_id, &was, err);
}
