#include "tools/parts/split.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/run/options.h"
#include "store/lock.h"
#include "store/parting/parting.h"
#include "store/read/read.h"
#include "tools/cli/cli.h"
#include "tools/parts/balance.h"
#include "tools/parts/part_file.h"
#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"

/* ---- how long a recording is that nobody has opened yet */

#define SILENCE_MS 10000 /* a split waits for none longer */

/* The length in ms that the container states, read by a sandboxed decoder process from member nth
 * of an archive, or ("") from the file itself. -1: it cannot be read here or in time, it does not
 * say, or the kernel would not sandbox the decoder. */
static int64_t length_of(const char *path, const char *member, uint32_t nth)
{
    const struct decoder_work work = {.member = member, .name = path, .nth = nth};
    const struct decoder_limits limits = {.silence_ms = SILENCE_MS};
    struct decoder_event event = {0};
    struct decoder *d = NULL;
    char unguarded[SANDBOX_WORDS];
    struct err err = {0};
    int64_t ret = -1;
    int file = sandbox_demand(false, unguarded, &err) == 0
                   ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                   : -1;

    if (file < 0)
        return -1;
    if (decoder_start(file, &work, &limits, &d, &err) == 0 && decoder_next(d, &event, &err) == 0 &&
        event.type == DECODER_INFO)
        ret = event.info.duration_ms;
    decoder_close(d);
    close(file);
    return ret;
}

/* ---- what a part holds, as JSON beside it: for people and for scripts */

struct manifest { /* borrowed */
    const char *split, *catalog;
    uint32_t number, parts;
    uint64_t cost_ms;
    const struct parting_share *shares;
    size_t share_count;
};

struct stages {
    json_t *list;
    bool no_memory;
};

static int add_stage(void *arg, const struct read_progress *p)
{
    struct stages *s = arg;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "stage", p->stage, "model", p->model,
                          "model_dir", p->model_dir, "model_hash", p->model_hash, "params",
                          p->params_json, "recordings", (json_int_t)(p->pending + p->waiting));

    s->no_memory = !o || json_array_append_new(s->list, o) != 0;
    return s->no_memory;
}

static json_t *cuts_of(const struct manifest *m)
{
    json_t *ret = json_array();

    for (size_t i = 0; ret && i < m->share_count; i++) {
        const struct parting_share *s = &m->shares[i];

        if (s->cut)
            json_array_append_new(
                ret, json_pack("{s:I, s:i, s:o}", "recording", (json_int_t)s->media_id,
                               "first_shard", (int)s->first, "last_shard",
                               s->end ? json_integer((json_int_t)s->end - 1) : json_null()));
    }
    return ret;
}

static int write_json_file(const json_t *o, const char *path, struct err *err)
{
    FILE *f = fopen(path, "we");
    bool well = f && json_dumpf(o, f, JSON_INDENT(2)) == 0 && putc('\n', f) != EOF;
    int error = errno;

    if (f && fclose(f) != 0 && well) {
        well = false;
        error = errno;
    }
    return well ? 0 : err_sys(err, error ? error : EIO, "'%s'", path);
}

/* st: the part's catalog. */
static int manifest_write(struct store *st, const struct manifest *m, const char *path,
                          struct err *err)
{
    struct stages s = {json_array(), false};
    char *catalog = utf8_display(m->catalog, strlen(m->catalog));
    char origin[PARTING_ID_LEN], name[32];
    int rc = parting_origin(st, origin, err);
    json_t *o = NULL;

    if (rc == 0 && s.list)
        rc = read_progress(st, add_stage, &s, err);
    snprintf(name, sizeof(name), "part-%04u.db", m->number);
    if (rc == 0)
        o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:i, s:I, s:f, s:O, s:o}", "file", name,
                      "part_of", origin, "split", m->split, "part", (int)m->number, "parts",
                      (int)m->parts, "catalog", catalog, "schema", store_schema_version(st),
                      "recordings", (json_int_t)m->share_count, "hours",
                      (double)m->cost_ms / 3600000.0, "stages", s.list, "cut", cuts_of(m));
    if (rc == 0 && (!o || s.no_memory))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = write_json_file(o, path, err);
    json_decref(o);
    json_decref(s.list);
    free(catalog);
    return rc;
}

/* ---- takes a catalog's open work apart into files */

#define TEXT_MS 1000u            /* what works on a text costs about as much as so much audio */
#define BYTES_PER_SECOND 16000.0 /* where no length is known: 128 kbit/s */

struct splitting {
    const struct split_wanted *w;
    struct split_done *ret;
    struct store *st;
    bool part;   /* it is a part itself, on whatever disk: nothing is written beside it */
    char *place; /* of this machine */
    uint32_t shard_ms;
    double bytes_per_ms;
    int64_t *media; /* of each recording */
    struct balance_recording *list;
    size_t count, capacity;
    struct balance balance;
    char split[PARTING_ID_LEN];
};

/* ------------------------------------------------------------------------------- what is to do */

static uint64_t cost_of(const struct splitting *s, const struct parting_work *w, int64_t length_ms)
{
    uint64_t ms =
        length_ms >= 0 ? (uint64_t)length_ms : (uint64_t)((double)w->size_bytes / s->bytes_per_ms);
    uint64_t end_ms = w->end ? (uint64_t)w->end * s->shard_ms : ms;

    if (w->end && end_ms < ms)
        ms = end_ms;
    ms -= (uint64_t)w->first * s->shard_ms < ms ? (uint64_t)w->first * s->shard_ms : ms;
    ms *= w->hearing;
    if (w->done_ms > 0)
        ms -= (uint64_t)w->done_ms < ms ? (uint64_t)w->done_ms : ms;
    return ms + w->texts * (uint64_t)TEXT_MS + 1; /* opening it costs something, too */
}

static int take_work(void *arg, const struct parting_work *w, struct err *err)
{
    struct splitting *s = arg;

    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 1024;
        int64_t *media = realloc(s->media, capacity * sizeof(*media));
        struct balance_recording *list = realloc(s->list, capacity * sizeof(*list));

        s->media = media ? media : s->media;
        s->list = list ? list : s->list;
        if (!media || !list)
            return err_no_memory(err, NULL);
        s->capacity = capacity;
    }
    s->media[s->count] = w->media_id;
    s->list[s->count++] = (struct balance_recording){
        .cost_ms = cost_of(s, w, w->duration_ms),
        .length_ms = w->hearing ? w->duration_ms : -1, /* a text is not cut */
        .first = w->first,
        .end = w->end,
    };
    s->ret->guessed += w->duration_ms < 0;
    return 0;
}

struct measuring { /* what nobody has opened yet */
    struct splitting *s;
    uint64_t from_ms; /* what costs less is guessed */
    size_t at;
};

static void measure_place_length(void *arg, const struct parting_place *p)
{
    *(int64_t *)arg = length_of(p->path, p->member, p->nth);
}

static int measure_one(void *arg, const struct parting_work *w, struct err *err)
{
    struct measuring *m = arg;
    struct balance_recording *r = &m->s->list[m->at++];
    int64_t length_ms = -1;
    int rc;

    if (w->duration_ms >= 0 || !w->hearing || r->cost_ms < m->from_ms)
        return 0;
    rc = parting_place(m->s->st, w->media_id, measure_place_length, &length_ms, err);
    if (rc < 0 && rc != ERR_EMPTY)
        return rc;
    *err = (struct err){0};
    if (length_ms < 0)
        return 0;
    r->length_ms = length_ms;
    r->cost_ms = cost_of(m->s, w, length_ms);
    m->s->ret->guessed--;
    return 0;
}

/* Those that may have to be cut: a guess may be off by half. There are four for each part at most,
 * and as a rule few or none. */
static int measure_long(struct splitting *s, const struct balance_rule *rule, struct err *err)
{
    struct measuring m = {.s = s, .from_ms = balance_most(s->list, s->count, rule) / 2};
    bool any = false;

    for (size_t i = 0; i < s->count && !any && m.from_ms; i++)
        any = s->list[i].length_ms < 0 && s->list[i].cost_ms >= m.from_ms;
    return any ? parting_work_each(s->st, measure_one, &m, err) : 0;
}

static int read_work(struct splitting *s, struct err *err)
{
    struct store_totals t;
    int rc = store_totals(s->st, &t, err);

    if (rc < 0)
        return rc;
    s->bytes_per_ms = t.archive.audio_known_ms > 0 && t.archive.bytes_known > 0
                          ? (double)t.archive.bytes_known / (double)t.archive.audio_known_ms
                          : BYTES_PER_SECOND / 1000;
    rc = parting_work_each(s->st, take_work, s, err);
    return rc == 0 && s->count == 0
               ? err_set(err, ERR_EMPTY, "nothing in '%s' is waiting to be done", s->w->catalog)
               : rc;
}

/* Which taking apart this is: of the same catalog in the same state, the same. */
static int name_it(struct splitting *s, struct err *err)
{
    struct hash *h = hash_new();
    char origin[PARTING_ID_LEN];
    uint8_t hash[HASH_BYTES];
    int rc = h ? parting_origin(s->st, origin, err) : err_no_memory(err, NULL);

    if (rc == 0) {
        hash_put(h, origin, sizeof(origin));
        hash_put(h, &s->shard_ms, sizeof(s->shard_ms));
        for (size_t i = 0; i < s->balance.count; i++) {
            const struct balance_piece *p = &s->balance.pieces[i];
            const int64_t of[] = {s->media[p->recording], p->part, p->cut, p->first, p->end};

            hash_put(h, of, sizeof(of));
        }
        hash_get(h, hash);
        hash_hex(hash, s->split);
    }
    hash_free(h);
    return rc;
}

/* ----------------------------------------------------------------------------------- the parts */

static int write_part_files(struct splitting *s, const char *local, const struct parting_part *p,
                            const char *whole, const char *manifest, struct err *err)
{
    struct manifest m = {.split = p->split,
                         .number = p->number,
                         .parts = p->parts,
                         .catalog = s->w->catalog,
                         .cost_ms = s->balance.loads[p->number],
                         .shares = p->shares,
                         .share_count = p->share_count};
    struct store *st = NULL;
    int rc = store_open(local, STORE_WRITE, &st, err);

    if (rc == 0)
        rc = parting_write(s->st, st, p, err);
    if (rc == 0)
        rc = parting_snapshot(st, whole, err);
    if (rc == 0)
        rc = manifest_write(st, &m, manifest, err);
    store_close(st);
    unlink(local);
    return rc;
}

static int publish_part_files(struct splitting *s, uint32_t number, const char *whole,
                              const char *manifest, struct err *err)
{
    char *db = part_name(s->w->output, number, ".db", err);
    char *json = db ? part_name(s->w->output, number, ".json", err) : NULL;
    struct stat info;
    int rc = json ? part_publish(manifest, json, err) : err->code;

    if (rc == 0)
        rc = part_publish(whole, db, err);
    if (rc == 0 && stat(db, &info) == 0)
        s->ret->bytes += (uint64_t)info.st_size;
    free(db);
    free(json);
    return rc;
}

static int write_part(struct splitting *s, const struct parting_part *p, struct err *err)
{
    char *local = part_path(s->place, "part.db", err);
    char *whole = local ? part_path(s->place, "whole.db", err) : NULL;
    char *manifest = whole ? part_path(s->place, "part.json", err) : NULL;
    int rc = manifest ? write_part_files(s, local, p, whole, manifest, err) : err->code;

    if (rc == 0)
        rc = publish_part_files(s, p->number, whole, manifest, err);
    if (manifest) {
        unlink(whole);
        unlink(manifest);
    }
    free(local);
    free(whole);
    free(manifest);
    return rc;
}

static int write_parts(struct splitting *s, struct err *err)
{
    const struct balance *b = &s->balance;
    struct parting_share *shares = calloc(b->count, sizeof(*shares));
    int rc = shares ? 0 : err_no_memory(err, NULL);

    for (size_t i = 0, next; i < b->count && rc == 0; i = next) {
        struct parting_part p = {s->split, b->pieces[i].part, b->parts, shares + i, 0};

        for (next = i; next < b->count && b->pieces[next].part == p.number; next++) {
            const struct balance_piece *piece = &b->pieces[next];

            shares[next] = (struct parting_share){s->media[piece->recording], piece->cut,
                                                  piece->first, piece->end};
        }
        p.share_count = next - i;
        rc = write_part(s, &p, err);
    }
    free(shares);
    return rc;
}

/* Refuses more parts than most_parts, such as the limit of a Slurm array. */
static int check_count(const struct splitting *s, struct err *err)
{
    const uint64_t most = s->w->most_parts, hour_ms = 3600000;
    uint64_t hours;

    if (!most || s->balance.parts <= most)
        return 0;
    hours = (s->balance.total_ms + most * hour_ms - 1) / (most * hour_ms);
    return err_set(err, ERR_LIMIT,
                   "that would be %u parts, of at most %u: --hours-per-part=%llu makes as few",
                   s->balance.parts, s->w->most_parts, (unsigned long long)hours);
}

/* Before there are any. */
static int note_out(struct splitting *s, struct err *err)
{
    bool before = false;
    int rc = parting_out(s->st, s->split, &before, err);

    if (rc == 0 && before)
        log_warn("parts of this catalog are out already, and not finished with (`nightshift merge "
                 "--finish`): what is in both is done twice");
    return rc;
}

static int split_open(struct splitting *s, struct err *err)
{
    struct balance_rule rule = {s->w->parts, s->w->part_hours * UINT64_C(3600000), 0};
    int rc = store_open(s->w->catalog, s->part ? STORE_READ : STORE_WRITE, &s->st, err);

    if (rc == 0)
        rc = store_shard_length(s->st, (uint32_t)s->w->shard_ms, SCHEDULER_SHARD_MS, &s->shard_ms,
                                err);
    rule.shard_ms = s->shard_ms;
    if (rc == 0)
        rc = read_work(s, err);
    if (rc == 0)
        rc = measure_long(s, &rule, err);
    if (rc == 0)
        rc = balance_make(s->list, s->count, &rule, &s->balance, err);
    if (rc < 0)
        return rc;
    rc = check_count(s, err);
    if (rc == 0)
        rc = name_it(s, err);
    if (rc == 0 && !s->part)
        rc = note_out(s, err);
    return rc == 0 ? write_parts(s, err) : rc;
}

static bool is_part(const char *catalog)
{
    struct parting_about about;
    struct store *st = NULL;
    struct err none = {0};
    bool is =
        store_open(catalog, STORE_READ, &st, &none) == 0 && parting_about(st, &about, &none) == 0;

    store_close(st);
    return is;
}

static int check_output(const char *dir, struct err *err)
{
    struct part_list there = {0};
    char *const operand[] = {(char *)dir};
    struct stat info;

    if (stat(dir, &info) == 0 && part_list_make(operand, 1, &there, err) == 0) {
        part_list_free(&there);
        return err_set(err, ERR_USAGE,
                       "the folder '%s' has parts already: merge them, then take another", dir);
    }
    *err = (struct err){0};
    return cli_make_directories(dir, err);
}

static void sum_up(const struct splitting *s)
{
    const struct balance *b = &s->balance;
    struct split_done *r = s->ret;

    r->parts = b->parts;
    r->recordings = s->count;
    r->cut = b->cut;
    r->cost_ms = b->total_ms;
    r->least_ms = b->parts ? b->loads[0] : 0;
    for (uint32_t i = 0; i < b->parts; i++) {
        r->most_ms = b->loads[i] > r->most_ms ? b->loads[i] : r->most_ms;
        r->least_ms = b->loads[i] < r->least_ms ? b->loads[i] : r->least_ms;
    }
}

int split_catalog(const struct split_wanted *w, struct split_done *ret, struct err *err)
{
    struct splitting s = {.w = w, .ret = ret};
    struct catalog_lock *lock = NULL;
    int rc;

    *ret = (struct split_done){0};
    if (access(w->catalog, F_OK) != 0)
        return err_set(err, ERR_MISSING, "there is no catalog '%s'", w->catalog);
    s.part = is_part(w->catalog);
    rc = check_output(w->output, err);
    if (rc == 0)
        rc = part_workplace(&s.place, err);
    if (rc == 0 && !s.part)
        rc = catalog_lock_take(w->catalog, "split", &lock, err);
    if (rc == 0)
        rc = split_open(&s, err);
    sum_up(&s);
    store_close(s.st);
    catalog_lock_release(lock);
    part_workplace_leave(s.place);
    free(s.media);
    free(s.list);
    balance_free(&s.balance);
    return rc;
}
