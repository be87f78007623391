/* Files whose bytes were all read: what they are, and whether they are what they were. */
#include <stdlib.h>

#include "base/utf8.h"
#include "store/requests/request_apply.h"

static int note(struct store *st, const struct request_verified *v, const char *now,
                struct err *err)
{
    char *path = utf8_display(v->path, v->path_len);
    int rc;

    if (!path)
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    rc = db_run(st, err,
                "INSERT INTO fixity (path_raw, path, size_bytes, mtime_ns, hash, first_at, "
                "verified_at, changed_at) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, iif(?7, NULL, ?6), iif(?7, ?6, NULL)) "
                "ON CONFLICT (path_raw) DO UPDATE SET size_bytes = ?3, mtime_ns = ?4, hash = ?5, "
                "first_at = iif(hash = ?5, first_at, ?6), "
                "verified_at = iif(?7, iif(hash = ?5, verified_at, NULL), ?6), "
                "changed_at = iif(?7, ifnull(changed_at, ?6), NULL)",
                "btiibti", v->path, v->path_len, path, (int64_t)v->size_bytes, v->mtime_ns, v->hash,
                sizeof(v->hash), now, (int64_t)v->changed);
    free(path);
    return rc;
}

int fixity_note(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc = 0;

    db_now(now);
    for (uint32_t i = 0; i < rq->count && rc == 0; i++)
        rc = note(st, &rq->verified[i], now, err);
    ret->affected += rc == 0 ? rq->count : 0;
    return rc;
}
