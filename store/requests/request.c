#include "store/requests/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "base/utf8.h"
#include "store/reading/publish.h"
#include "store/register/register.h"
#include "store/register/voices.h"
#include "store/requests/request_apply.h"
#include "store/results/naming.h"
#include "store/results/tags.h"

#define SPEAKER_NAME_MAX 1000

static int reject_request(struct err *err, const char *what)
{
    return err_set(err, ERR_INPUT, "request: %s", what);
}

static int check_name(const void *path, size_t path_len, const void *member, size_t member_len,
                      struct err *err)
{
    if (!path || path_len == 0 || path_len > REQUEST_MAX_PATH || *(const char *)path != '/')
        return reject_request(err, "a path that is not absolute");
    if (memchr(path, 0, path_len) || (member_len && (!member || memchr(member, 0, member_len))))
        return reject_request(err, "a name with a zero byte");
    if (member_len > REQUEST_MAX_PATH)
        return reject_request(err, "a member's name that is too long");
    return 0;
}

static int check_paths(const char *const *list, uint32_t count, struct err *err)
{
    if (count && !list)
        return reject_request(err, "no list of paths");
    for (uint32_t i = 0; i < count; i++)
        if (!list[i] || list[i][0] != '/')
            return reject_request(err, "a path that is not absolute");
    return 0;
}

static int check_stage(const struct store_stage *s, struct err *err)
{
    if (!s->name || !*s->name || !s->model || !s->model_dir || !s->model_hash || !s->params_json)
        return reject_request(err, "a job without a stage");
    return 0;
}

static int check_begin(const struct request *rq, struct err *err)
{
    const struct store_stage *s = &rq->stage, *source = store_stage_source(s);
    int rc = check_stage(s, err);

    if (rc == 0)
        rc = check_paths(rq->roots, rq->root_count, err);
    if (rc == 0 && (rq->priority < STORE_LOW || rq->priority > STORE_HIGH))
        rc = reject_request(err, "an impossible priority");
    if (rc < 0 || !source)
        return rc;
    if (store_stage_source(source))
        return reject_request(err, "a stage that works on a stage that works on another");
    rc = check_stage(source, err);
    if (rc == 0 && strcmp(s->name, source->name) == 0)
        rc = reject_request(err, "a stage that works on one of its own kind");
    return rc;
}

static int check_recipe(const struct request *rq, struct err *err)
{
    if (!rq->stage.name || !*rq->stage.name || !rq->stage.model_hash)
        return reject_request(err, "a recipe of no stage");
    return check_paths(rq->roots, rq->root_count, err);
}

static int check_add(const struct request *rq, struct err *err)
{
    int rc = 0;

    if (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->found))
        return reject_request(err, "too many recordings at once");
    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        const struct store_found *f = &rq->found[i];

        rc = check_name(f->path, f->path_len, f->member, f->member_len, err);
        if (rc == 0 && (f->size_bytes > INT64_MAX || f->file_size_bytes > INT64_MAX))
            rc = reject_request(err, "an impossible size");
    }
    return rc;
}

static int check_troubles(const struct request *rq, struct err *err)
{
    int rc = 0;

    if (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->troubles))
        return reject_request(err, "too many troubles at once");
    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        const struct request_trouble *t = &rq->troubles[i];

        rc = check_name(t->path, t->path_len, t->member, t->member_len, err);
        if (rc == 0 && !t->message)
            rc = reject_request(err, "a trouble without a message");
    }
    return rc;
}

/* "SPEAKER_07", in any case: the machine's own names. */
static bool is_label(const char *name)
{
    static const char begin[] = "SPEAKER_";
    size_t n = sizeof(begin) - 1;

    return strncasecmp(name, begin, n) == 0 && name[n] &&
           strspn(name + n, "0123456789") == strlen(name + n);
}

static bool has_controls(const char *text, const char *but)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < 0x20 && !strchr(but, *p)) || *p == 0x7F ||
            (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0))
            return true;
    return false;
}

/* Names are printed, and stand behind a slash where a speaker is asked for. */
static int check_speaker(const struct request *rq, struct err *err)
{
    size_t n = rq->speaker_name ? strlen(rq->speaker_name) : SIZE_MAX;

    if (n > SPEAKER_NAME_MAX || !utf8_valid(rq->speaker_name, n))
        return reject_request(err, "a speaker's name that is too long, or no UTF-8");
    if (has_controls(rq->speaker_name, ""))
        return reject_request(err, "a speaker's name with control characters");
    if (strchr(rq->speaker_name, '/'))
        return reject_request(err,
                              "a speaker's name with a slash, which parts it from its recording's");
    if (is_label(rq->speaker_name))
        return reject_request(err,
                              "a name that is a label: it would be taken for another speaker's");
    if ((rq->everywhere || rq->denied) && (!n || (rq->everywhere && rq->denied)))
        return reject_request(err,
                              "who is known everywhere, or denied, has a name, and is not both");
    return 0;
}

static int check_text(const char *text, size_t most, const char *but, struct err *err)
{
    size_t n = text ? strlen(text) : SIZE_MAX;

    if (n > most || !utf8_valid(text, n) || has_controls(text, but))
        return reject_request(err, "a tag that is too long, no UTF-8 or with control characters");
    return 0;
}

static int check_descriptions(const struct request *rq, struct err *err)
{
    int rc = 0;

    if (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->descriptions))
        return reject_request(err, "too many descriptions at once");
    for (uint32_t i = 0; i < rq->count; i++) {
        const struct request_description *d = &rq->descriptions[i];

        if (d->value_count > REQUEST_MAX_VALUES || (d->value_count && !d->values))
            return reject_request(err, "too many values of one recording");
        for (uint32_t k = 0; k < d->value_count && rc == 0; k++) {
            rc = check_text(d->values[k].key, RESULT_TAG_KEY_MAX, "", err);
            if (rc == 0 && !d->values[k].key[0])
                rc = reject_request(err, "a tag without a key");
            if (rc == 0)
                rc = check_text(d->values[k].value, RESULT_TAG_VALUE_MAX, "\t\n", err);
        }
    }
    return rc;
}

static int check_verified(const struct request *rq, struct err *err)
{
    int rc = 0;

    if (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->verified))
        return reject_request(err, "too many files at once");
    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        rc = check_name(rq->verified[i].path, rq->verified[i].path_len, NULL, 0, err);
        if (rc == 0 && rq->verified[i].size_bytes > INT64_MAX)
            rc = reject_request(err, "an impossible size");
    }
    return rc;
}

static int check_who(const char *who, struct err *err)
{
    size_t n = who ? strlen(who) : 0;

    if (!n || n > SPEAKER_NAME_MAX || !utf8_valid(who, n) || has_controls(who, ""))
        return reject_request(err, "of nobody, or of a name that cannot be printed");
    return 0;
}

static int check_correction(const struct request_correction *c, struct err *err)
{
    size_t n = c->text ? strlen(c->text) : SIZE_MAX;

    if (!c->heard || n > REQUEST_CORRECTION_MAX || !utf8_valid(c->text, n))
        return reject_request(err, "a correction that is too long, or no UTF-8");
    return has_controls(c->text, "\t\n\r")
               ? reject_request(err, "a correction with control characters")
               : 0;
}

static int check_corrections(const struct request *rq, struct err *err)
{
    size_t n = rq->source ? strlen(rq->source) : SIZE_MAX;
    int rc = check_who(rq->made_by, err);

    if (rc == 0 && (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->corrections)))
        rc = reject_request(err, "too many corrections at once");
    if (rc == 0 &&
        (n > REQUEST_MAX_PATH || !utf8_valid(rq->source, n) || has_controls(rq->source, "")))
        rc = reject_request(err, "corrections from something that cannot be printed");
    for (uint32_t i = 0; i < rq->count && rc == 0; i++)
        rc = check_correction(&rq->corrections[i], err);
    return rc;
}

static int check_erase(const struct request *rq, struct err *err)
{
    bool person = rq->speaker_name && rq->speaker_name[0];

    if (rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->ids))
        return reject_request(err, "too much to erase at once");
    if (person ? rq->count || rq->undo : !rq->count)
        return reject_request(err, "recordings, a person or marks are erased, one of them");
    return rq->made_by && rq->made_by[0] ? check_who(rq->made_by, err) : 0;
}

static int check_request(const struct request *rq, struct err *err)
{
    int rc;

    switch (rq->type) {
    case REQUEST_ENQUEUE_BEGIN:
        return check_begin(rq, err);
    case REQUEST_ENQUEUE_ADD:
        return check_add(rq, err);
    case REQUEST_ENQUEUE_SAME:
    case REQUEST_ENQUEUE_KNOWN:
        return rq->count > REQUEST_MAX_FOUND || (rq->count && !rq->place_ids)
                   ? reject_request(err, "too many places at once")
                   : 0;
    case REQUEST_ENQUEUE_TROUBLE:
        return check_troubles(rq, err);
    case REQUEST_ENQUEUE_END:
        rc = check_paths(rq->roots, rq->root_count, err);
        return rc < 0 ? rc : check_paths(rq->unread, rq->unread_count, err);
    case REQUEST_RETRY:
    case REQUEST_CANCEL:
    case REQUEST_DISMISS:
    case REQUEST_PAUSE:
    case REQUEST_RESUME:
    case REQUEST_PRIORITY:
        if (rq->priority < STORE_LOW || rq->priority > STORE_HIGH)
            return reject_request(err, "an impossible priority");
        if (rq->select_path && rq->select_path[0] != '/')
            return reject_request(err, "a path that is not absolute");
        return rq->select_job < 0 ? reject_request(err, "an impossible job") : 0;
    case REQUEST_FORGET:
    case REQUEST_PIN:
        if (rq->select_path && rq->select_path[0] != '/')
            return reject_request(err, "a path that is not absolute");
        return rq->stage_id < 0 || rq->select_job ? reject_request(err, "an impossible stage") : 0;
    case REQUEST_NAME_SPEAKER:
        return check_speaker(rq, err);
    case REQUEST_DESCRIBE:
        return check_descriptions(rq, err);
    case REQUEST_VERIFIED:
        return check_verified(rq, err);
    case REQUEST_CORRECT:
        return check_corrections(rq, err);
    case REQUEST_CORRECT_DECIDE:
        return check_who(rq->made_by, err);
    case REQUEST_RECIPE:
        return check_recipe(rq, err);
    case REQUEST_ERASE:
        return check_erase(rq, err);
    }
    return reject_request(err, "of a type that this version does not know");
}

int apply_ids_add(struct apply_ids *ids, int64_t id, struct err *err)
{
    if (!list_grow(&ids->list, &ids->capacity, ids->count, sizeof(*ids->list)))
        return err_no_memory(err, "catalog");
    ids->list[ids->count++] = id;
    return 0;
}

static int apply_descriptions(struct store *st, const struct request *rq, struct request_reply *ret,
                              struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < rq->count && rc == 0; i++) {
        const struct request_description *d = &rq->descriptions[i];
        bool known = false;

        rc = tags_describe(st, d->media_id, d->values, d->value_count, &known, err);
        ret->affected += known;
    }
    return rc;
}

static int name_speaker(struct store *st, const struct request *rq, struct err *err)
{
    if (rq->denied)
        return register_deny(st, rq->speaker_id, rq->speaker_name, err);
    return rq->everywhere ? register_confirm(st, rq->speaker_id, rq->speaker_name, err)
                          : naming_set(st, rq->speaker_id, rq->speaker_name, err);
}

static int apply_request(struct request_work *w, struct err *err)
{
    struct request_reply *ret = &w->reply;
    const struct request *rq = w->rq;
    struct store *st = w->st;
    int rc;

    switch (rq->type) {
    case REQUEST_ENQUEUE_BEGIN:
        return enqueue_begin(st, rq, ret, err);
    case REQUEST_ENQUEUE_ADD:
        return enqueue_add(st, rq, ret, err);
    case REQUEST_ENQUEUE_SAME:
    case REQUEST_ENQUEUE_KNOWN:
        return enqueue_same(st, rq, ret, err);
    case REQUEST_ENQUEUE_TROUBLE:
        return enqueue_trouble(st, rq, err);
    case REQUEST_ENQUEUE_END:
        return enqueue_end(w, err);
    case REQUEST_FORGET:
    case REQUEST_PIN:
        return forget_apply(w, err);
    case REQUEST_NAME_SPEAKER:
        rc = name_speaker(st, rq, err);
        ret->affected = rc == 0;
        return rc;
    case REQUEST_DESCRIBE:
        return apply_descriptions(st, rq, ret, err);
    case REQUEST_VERIFIED:
        return fixity_note(st, rq, ret, err);
    case REQUEST_CORRECT:
        return correct_put(st, rq, ret, err);
    case REQUEST_CORRECT_DECIDE:
        return correct_decide(st, rq, ret, err);
    case REQUEST_RECIPE:
        return recipe_apply(st, rq, 0, ret, err);
    case REQUEST_ERASE:
        return erase_apply(st, rq, ret, err);
    default:
        return select_apply(w, err);
    }
}

int request_begin(struct store *st, const struct request *rq, struct request_work **ret,
                  struct err *err)
{
    struct request_work *w;
    int rc = check_request(rq, err);

    if (rc < 0)
        return rc;
    w = calloc(1, sizeof(*w));
    if (!w)
        return err_no_memory(err, "request");
    w->st = st;
    w->rq = rq;
    w->reply.job_id = rq->job_id;
    *ret = w;
    return 0;
}

int request_step(struct request_work *w, struct request_reply *ret, struct err *err)
{
    int rc = db_enter(w->st, err);

    if (rc < 0)
        return rc;
    rc = apply_request(w, err);
    if (rc >= 0) {
        int published = reading_publish_due(w->st, err);

        if (published == 0)
            published = voices_match(w->st, err);
        rc = published < 0 ? published : rc;
    }
    rc = db_leave(w->st, rc, err);
    w->begun = true;
    if (rc == 0 && w->rq->type == REQUEST_ERASE)
        w->reply.log_kept = !erase_wipe(w->st);
    if (rc == 0)
        *ret = w->reply;
    return rc;
}

void request_work_free(struct request_work *w)
{
    if (!w)
        return;
    free(w->rows.list);
    free(w->troubles.list);
    free(w);
}

int request_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                  struct err *err)
{
    struct request_work *w = NULL;
    int rc = request_begin(st, rq, &w, err);

    if (!w)
        return rc;
    do
        rc = request_step(w, ret, err);
    while (rc == 1);
    request_work_free(w);
    return rc;
}

/* ---- files whose bytes were all read: what they are, and whether they are what they were */

static int store_fixity(struct store *st, const struct request_verified *v, const char *now,
                        struct err *err)
{
    char *path = utf8_display(v->path, v->path_len);
    int rc;

    if (!path)
        return err_no_memory(err, "catalog");
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
        rc = store_fixity(st, &rq->verified[i], now, err);
    ret->affected += rc == 0 ? rq->count : 0;
    return rc;
}

/* ---- what is to be done with a file, or a folder and all that is below it: rows of the table
 * recipe */

/* Removes the settings of folders below. */
static int forget_below(struct store *st, const char *path, const char *kind, struct err *err)
{
    struct db_prefix below = {0};
    int rc = db_prefix(path, strlen(path), &below, err);

    if (rc < 0)
        return rc;
    rc = db_run(st, err, "DELETE FROM recipe WHERE path_raw >= ?1 AND path_raw < ?2 AND kind = ?3",
                "bbt", below.low, below.len, below.high, below.len, kind);
    db_prefix_free(&below);
    return rc;
}

static int store_recipe(struct store *st, const struct request *rq, const char *path,
                        int64_t job_id, struct err *err)
{
    size_t len = strlen(path);
    char *shown = utf8_display(path, len);
    int rc;

    if (!shown)
        return err_no_memory(err, "catalog");
    rc = db_run(st, err,
                "INSERT INTO recipe (path_raw, kind, path, options, model_hash, job_id) "
                "VALUES (?, ?, ?, ?, ?, nullif(?, 0)) ON CONFLICT (path_raw, kind) DO UPDATE SET "
                "options = excluded.options, model_hash = excluded.model_hash, "
                "job_id = ifnull(excluded.job_id, job_id)",
                "btttti", path, len, rq->stage.name, shown, rq->options, rq->stage.model_hash,
                job_id);
    free(shown);
    return rc;
}

int recipe_apply(struct store *st, const struct request *rq, int64_t job_id,
                 struct request_reply *ret, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < rq->root_count; i++) {
        const char *path = rq->roots[i];

        if (rq->replaces)
            rc = forget_below(st, path, rq->stage.name, err);
        if (rc == 0 && rq->options)
            rc = store_recipe(st, rq, path, job_id, err);
        else if (rc == 0)
            rc = db_run(st, err, "DELETE FROM recipe WHERE path_raw = ?1 AND kind = ?2", "bt", path,
                        strlen(path), rq->stage.name);
        if (rc == 0 && !rq->options)
            ret->affected += (uint64_t)sqlite3_changes64(st->db);
    }
    return rc;
}
