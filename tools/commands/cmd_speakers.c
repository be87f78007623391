/* nightshift speakers: who speaks, whose voice is heard elsewhere, and names for them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/read/find.h"
#include "tools/cli/cli.h"
#include "tools/demo_model.h"
#include "tools/export/escape.h"
#include "tools/recording.h"
#include "tools/search/search_absence.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/writer.h"
#include "workers/stages/stage_kind.h"

struct wanted {
    const char *like;
    uint32_t limit, group; /* group 0: any */
    bool everywhere, proposed;
};

#define TURNS_COLUMNS 11 /* "1,234 turns": names stand below each other */

/* ------------------------------------------------------------------------------- one of them */

struct one { /* owned: vector, name, proposed */
    const char *who;
    int64_t speaker_id;
    int as;           /* label as it is, label, name: 2, 1, 0 */
    uint64_t found;   /* of which there are so many */
    char labels[256]; /* of those that are there, for who asks for another */
    char model_hash[160];
    float *vector;
    size_t size;
    char *name, *proposed; /* "": none */
    bool everywhere;
    struct err err;
};

static void one_free(struct one *o)
{
    free(o->vector);
    free(o->name);
    free(o->proposed);
}

/* A label is one speaker's, whatever somebody named another one. */
static int take_one(void *arg, const struct find_speaker *row)
{
    struct one *o = arg;
    int as = strcmp(row->label, o->who) == 0 ? 2 : strcasecmp(row->label, o->who) == 0;

    if (o->found > 0 && as <= o->as) {
        o->found += as == o->as;
        return 0;
    }
    o->found = 1;
    o->as = as;
    one_free(o);
    o->vector = NULL;
    o->speaker_id = row->speaker_id;
    o->name = strdup(row->name);
    o->proposed = strdup(row->proposed);
    o->everywhere = row->everywhere;
    if (!o->name || !o->proposed)
        return err_set(&o->err, ERR_NOMEM, "out of memory");
    utf8_copy(o->model_hash, sizeof(o->model_hash), row->model_hash);
    o->size = row->vector_bytes / sizeof(float);
    if (o->size == 0)
        return 0;
    o->vector = malloc(o->size * sizeof(float));
    if (!o->vector)
        return err_set(&o->err, ERR_NOMEM, "out of memory");
    memcpy(o->vector, row->vector, o->size * sizeof(float));
    return 0;
}

static int take_label(void *arg, const struct find_speaker *row)
{
    struct one *o = arg;
    size_t n = strlen(o->labels);

    snprintf(o->labels + n, sizeof(o->labels) - n, "%s%s", n > 0 ? ", " : "", row->label);
    return 0;
}

/* "RECORDING/SPEAKER": the last slash parts them. */
static int find_one(struct store *st, const char *what, struct one *o, struct err *err)
{
    const char *slash = strrchr(what, '/');
    struct find_people people = {0};
    char *recording;
    int rc;

    if (!slash || slash == what || slash[1] == 0)
        return err_set(err, ERR_USAGE, "'%.200s' is not RECORDING/SPEAKER", what);
    recording = strndup(what, (size_t)(slash - what));
    rc = recording ? recording_find(st, recording, &people.media_id, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
    free(recording);
    people.who = o->who = slash + 1;
    people.vectors = true;
    if (rc == 0)
        rc = find_speakers(st, &people, take_one, o, err);
    if (rc == 0 && o->found == 0) {
        people.who = NULL;
        people.vectors = false;
        rc = find_speakers(st, &people, take_label, o, err);
        if (rc == 0)
            rc = err_set(err, ERR_MISSING,
                         o->labels[0] ? "'%.200s' is none of its speakers (%s)"
                                      : "'%.200s' is none of its speakers: it has none (see "
                                        "`nightshift enqueue --diarize`)%s",
                         slash + 1, o->labels);
    } else if (rc == 0 && o->found > 1) {
        rc = err_set(err, ERR_USAGE, "'%.200s' is the name of %llu of its speakers: give a label",
                     slash + 1, (unsigned long long)o->found);
    }
    if (o->err.code != 0)
        *err = o->err;
    return rc;
}

/* --------------------------------------------------------------------------- what people say */

/* All speakers are found before the first request is made. */
struct saying {
    struct request *requests; /* [count]; owned, with the names */
    uint32_t count;
};

static void saying_free(struct saying *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        free((char *)s->requests[i].speaker_name);
    free(s->requests);
}

/* Whom `confirm` or `deny` is about: the one that is proposed; a name that was confirmed can be
 * denied, too. */
static const char *choose_subject_name(const struct one *o, const char *verb, struct err *err)
{
    if (o->proposed[0])
        return o->proposed;
    if (strcmp(verb, "deny") == 0 && o->everywhere)
        return o->name;
    err_set(
        err, ERR_INPUT,
        "no name is proposed for that speaker. `nightshift speakers name --everywhere` gives one");
    return NULL;
}

/* name NULL: as is proposed. */
static int add_name_request(struct saying *s, struct store *st, const char *what, const char *verb,
                            const char *name, bool everywhere, struct err *err)
{
    struct one o = {0};
    int rc = find_one(st, what, &o, err);

    if (rc == 0 && !name && !(name = choose_subject_name(&o, verb, err)))
        rc = err_prefix(err, "'%.200s'", what);
    if (rc == 0) {
        char *kept = strdup(name);

        s->requests[s->count++] = (struct request){.type = REQUEST_NAME_SPEAKER,
                                                   .speaker_id = o.speaker_id,
                                                   .speaker_name = kept,
                                                   .everywhere = everywhere,
                                                   .denied = strcmp(verb, "deny") == 0};
        rc = kept ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    one_free(&o);
    return rc;
}

static void print_said(const struct request *rq)
{
    char *name = utf8_display(rq->speaker_name, strlen(rq->speaker_name));

    if (rq->denied)
        printf("The speaker is not %s: this name is not proposed again.\n", name ? name : "");
    else if (rq->everywhere)
        printf("The speaker is %s, who is known by this voice everywhere.\n", name ? name : "");
    else
        puts(rq->speaker_name[0] ? "The speaker has that name now, in this recording."
                                 : "The speaker has no name now.");
    free(name);
}

/* Each is a request of its own: what was said before a speaker who is gone holds. */
static int send_name_requests(struct cli *cli, const struct saying *s, struct err *err)
{
    struct request_reply reply = {0};
    struct writer *writer = NULL;
    uint64_t affected = 0;
    int rc = writer_open(cli->catalog, "speakers", 10000, cli->quiet, &writer, err);

    for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
        rc = writer_request(writer, &s->requests[i], &reply, err);
        affected += reply.affected;
        if (rc == 0 && !cli->json && !cli->quiet)
            print_said(&s->requests[i]);
    }
    writer_close(writer);
    if (rc == 0 && cli->json)
        printf("{\"affected\": %llu}\n", (unsigned long long)affected);
    return rc;
}

/* argv: the verb, then whom it is about. */
static int say_all(struct cli *cli, const struct wanted *w, int argc, char **argv)
{
    bool naming = strcmp(argv[0], "name") == 0, denying = strcmp(argv[0], "deny") == 0;
    struct saying s = {calloc((size_t)argc, sizeof(*s.requests)), 0};
    struct store *st = NULL;
    struct err err = {0};
    int rc = s.requests ? 0 : err_set(&err, ERR_NOMEM, "out of memory");

    if (rc == 0 && store_open(cli->catalog, STORE_READ, &st, &err) != 0) {
        saying_free(&s);
        return cli_fail("open the catalog", &err, NULL);
    }
    for (int i = 1; rc == 0 && i < (naming ? 2 : argc); i++)
        rc = add_name_request(&s, st, argv[i], argv[0], naming ? argv[2] : NULL,
                              naming ? w->everywhere && argv[2][0] : !denying, &err);
    store_close(st);
    if (rc == 0)
        rc = send_name_requests(cli, &s, &err);
    saying_free(&s);
    if (rc != 0)
        return cli_fail(naming ? "name the speaker" : "decide who the speaker is", &err,
                        "`nightshift speakers` lists them.");
    return cli_flush(EX_OK);
}

/* ------------------------------------------------------------------------------------ voices */

struct voice { /* owned strings */
    double likeness;
    int64_t speaker_id, media_id, speech_ms;
    char *path, *member, *label, *name;
};

struct voices {
    const struct one *of;
    size_t limit; /* 0: none */
    struct voice *list;
    size_t count, capacity;
    unsigned demo; /* of tools/demo_model.h */
    struct err err;
};

static void voice_free(struct voice *v)
{
    free(v->path);
    free(v->member);
    free(v->label);
    free(v->name);
}

static int by_likeness(const void *a, const void *b)
{
    const struct voice *x = a, *y = b;

    if (x->likeness != y->likeness)
        return x->likeness > y->likeness ? -1 : 1;
    return (x->speaker_id > y->speaker_id) - (x->speaker_id < y->speaker_id);
}

/* NAN when they cannot be compared. */
static double compute_voice_likeness(const struct one *o, const struct find_speaker *row)
{
    double dot = 0, xx = 0, yy = 0;

    if (row->vector_bytes != o->size * sizeof(float) || strcmp(row->model_hash, o->model_hash) != 0)
        return NAN;
    for (size_t i = 0; i < o->size; i++) {
        float y;

        memcpy(&y, (const char *)row->vector + i * sizeof(y), sizeof(y));
        dot += (double)o->vector[i] * y;
        xx += (double)o->vector[i] * o->vector[i];
        yy += (double)y * y;
    }
    return dot / sqrt(xx * yy);
}

/* Keeps the best: with a limit there is never room for more than some more than that. */
static int voice_room(struct voices *v)
{
    size_t capacity = v->capacity ? v->capacity * 2 : 64;
    struct voice *list;

    if (v->count < v->capacity)
        return 0;
    if (v->limit > 0 && v->count >= v->limit * 2) {
        qsort(v->list, v->count, sizeof(*v->list), by_likeness);
        while (v->count > v->limit)
            voice_free(&v->list[--v->count]);
        return 0;
    }
    list = realloc(v->list, capacity * sizeof(*list));
    if (!list)
        return err_set(&v->err, ERR_NOMEM, "out of memory");
    v->list = list;
    v->capacity = capacity;
    return 0;
}

static int take_voice(void *arg, const struct find_speaker *row)
{
    struct voices *v = arg;
    struct voice new = {.speaker_id = row->speaker_id,
                        .media_id = row->media_id,
                        .speech_ms = row->speech_ms,
                        .likeness = compute_voice_likeness(v->of, row)};

    if (row->speaker_id == v->of->speaker_id || !isfinite(new.likeness))
        return 0;
    if (voice_room(v) != 0)
        return 1;
    v->demo |= demo_model(row->model, row->model_hash);
    new.path = strdup(row->path);
    new.member = strdup(row->member);
    new.label = strdup(row->label);
    new.name = strdup(row->name);
    v->list[v->count++] = new;
    if (!new.path || !new.member || !new.label || !new.name)
        return err_set(&v->err, ERR_NOMEM, "out of memory");
    return 0;
}

static json_t *voice_json(const struct voice *v)
{
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:I, s:I}", "recording", (json_int_t)v->media_id,
                          "path", v->path, "member", v->member, "label", v->label, "speech_ms",
                          (json_int_t)v->speech_ms, "speaker_id", (json_int_t)v->speaker_id);

    if (o) {
        json_object_set_new(o, "name", v->name[0] ? json_string(v->name) : json_null());
        json_object_set_new(o, "likeness", json_real(v->likeness));
    }
    return o;
}

/* On one line, or, where that is too long, the speaker on a second one. */
static void print_voice(const struct voice *v)
{
    struct buf place = BUF_INIT, who = BUF_INIT;
    char length[TEXT_LEN];
    const char *name, *rest;
    char *shown;
    bool fits;

    buf_printf(&place, "%s%s%s", v->path, v->member[0] ? "//" : "", v->member);
    buf_printf(&who, "%s%s%s, %s", v->label, v->name[0] ? " " : "", v->name,
               text_length(v->speech_ms, length));
    name = buf_cstr(&place);
    rest = shown = who.len > 0 ? utf8_display(who.data, who.len) : NULL;
    if (name && rest) {
        fits = 8 + text_width(name) + 1 + text_width(rest) <= cli_columns(stdout);
        printf("%6.3f  ", v->likeness);
        cli_paint(stdout, "1", name);
        printf("%s%s\n", fits ? "/" : "\n        ", rest);
    }
    free(shown);
    buf_free(&place);
    buf_free(&who);
}

static void print_demo(unsigned demo)
{
    char line[160];

    snprintf(line, sizeof(line), "%s.", demo_model_made(demo));
    if (demo)
        cli_print(line, 0);
}

static void print_voices(const struct cli *cli, const struct voices *v)
{
    json_t *all = json_array();

    for (size_t i = 0; i < v->count; i++) {
        const struct voice *x = &v->list[i];

        if (cli->json) {
            json_array_append_new(all, voice_json(x));
            continue;
        }
        print_voice(x);
    }
    if (cli->json) {
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else if (v->count == 0) {
        puts("There is no other voice to compare it with.");
    } else {
        print_demo(v->demo);
    }
    json_decref(all);
}

/* A recording may lie below several of the paths: each speaker once, with the place there. */
struct once {
    find_speaker_fn fn;
    void *arg;
    struct store *store;
    const char *path; /* the one that is asked about */
    int64_t *ids;     /* [room]; the first `known`, of paths before, are sorted */
    size_t known, count, capacity;
    struct err err;
};

static int by_id(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

struct placed {
    struct once *once;
    struct find_speaker row;
    bool taken;
    int rc;
};

static int take_placed(void *arg, int64_t place_id, const char *path, const char *member)
{
    struct placed *p = arg;

    (void)place_id;
    p->row.path = path;
    p->row.member = member;
    p->taken = true;
    p->rc = p->once->fn(p->once->arg, &p->row);
    return 0;
}

static int take_once(void *arg, const struct find_speaker *row)
{
    struct once *o = arg;
    struct placed p = {.once = o, .row = *row};

    if (o->known > 0 && bsearch(&row->speaker_id, o->ids, o->known, sizeof(*o->ids), by_id))
        return 0;
    if (!list_grow(&o->ids, &o->capacity, o->count, sizeof(*o->ids)))
        return err_set(&o->err, ERR_NOMEM, "out of memory");
    o->ids[o->count++] = row->speaker_id;
    if (find_place(o->store, row->media_id, o->path, take_placed, &p, &o->err) != 0)
        return o->err.code;
    return p.taken ? p.rc : o->fn(o->arg, row);
}

static int at_path(struct store *st, struct find_people *people, const char *arg, struct once *once,
                   struct err *err)
{
    char *path = NULL, *shown = NULL;
    int rc = cli_place(arg, &path, err);

    if (rc == 0 && !(shown = utf8_display(path, strlen(path))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    people->path = once->path = shown;
    if (rc == 0)
        rc = search_check(st, &(struct search_wish){.path = shown}, err);
    if (rc == 0)
        rc = find_speakers(st, people, take_once, once, err);
    if (once->err.code != 0)
        *err = once->err;
    people->path = NULL;
    free(shown);
    free(path);
    return rc;
}

/* Calls fn for the speakers at or below each path, or all. */
static int for_each(struct store *st, bool vectors_only, int argc, char **argv, find_speaker_fn fn,
                    void *arg, struct err *err)
{
    struct find_people people = {.vectors_only = vectors_only};
    struct once once = {.fn = fn, .arg = arg, .store = st};
    int rc = 0;

    if (optind >= argc)
        return find_speakers(st, &people, fn, arg, err);
    for (int i = optind; rc == 0 && i < argc; i++) {
        rc = at_path(st, &people, argv[i], &once, err);
        once.known = once.count;
        if (once.count > 0)
            qsort(once.ids, once.count, sizeof(*once.ids), by_id);
    }
    free(once.ids);
    return rc;
}

static int list_similar_voices(struct cli *cli, const struct wanted *w, struct store *st, int argc,
                               char **argv)
{
    struct one o = {0};
    struct voices v = {.of = &o, .limit = w->limit};
    struct err err = {0};
    int status = EX_OK, rc = find_one(st, w->like, &o, &err);

    if (rc == 0 && o.size == 0)
        rc = err_set(&err, ERR_INPUT,
                     "that speaker never speaks alone long enough for a voice vector. Try another "
                     "label of the same person");
    if (rc == 0)
        rc = for_each(st, true, argc, argv, take_voice, &v, &err);
    if (rc != 0)
        status = cli_fail("compare voices", v.err.code != 0 ? &v.err : &err,
                          "`nightshift speakers` lists them.");
    if (rc == 0) {
        if (v.count > 0)
            qsort(v.list, v.count, sizeof(*v.list), by_likeness);
        while (v.limit > 0 && v.count > v.limit)
            voice_free(&v.list[--v.count]);
        print_voices(cli, &v);
    }
    while (v.count > 0)
        voice_free(&v.list[--v.count]);
    free(v.list);
    one_free(&o);
    return status;
}

/* --------------------------------------------------------------------------------- listing */

struct listing {
    const struct wanted *wanted;
    json_t *json; /* NULL: for people */
    int64_t media_id;
    uint64_t count;
    bool proposed, unmeasured; /* what is to be explained */
    unsigned demo;             /* of tools/demo_model.h */
};

static json_t *speaker_json(const struct find_speaker *row)
{
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:s, s:I}", "recording",
                          (json_int_t)row->media_id, "path", row->path, "member", row->member,
                          "label", row->label, "speech_ms", (json_int_t)row->speech_ms, "turns",
                          (json_int_t)row->turns, "model", row->model, "speaker_id",
                          (json_int_t)row->speaker_id);

    if (!o)
        return NULL;
    json_object_set_new(o, "name", row->name[0] ? json_string(row->name) : json_null());
    json_object_set_new(o, "everywhere", json_boolean(row->everywhere));
    json_object_set_new(o, "proposed", row->proposed[0] ? json_string(row->proposed) : json_null());
    json_object_set_new(o, "likeness", row->proposed[0] ? json_real(row->likeness) : json_null());
    json_object_set_new(o, "measured",
                        row->proposed[0] ? json_boolean(row->measured) : json_null());
    json_object_set_new(o, "group", row->group_id ? json_integer(row->group_id) : json_null());
    return o;
}

/* "Ana Ruiz", or what may be known of who has no name: "Ana Ruiz? (0.931), group 3 in 4
 * recordings". */
static char *who_it_is(const struct find_speaker *row)
{
    struct buf who = BUF_INIT;
    char *shown;

    buf_printf(&who, "%s", row->name);
    if (row->proposed[0])
        buf_printf(&who, "%s? (%.3f)", row->proposed, row->likeness);
    if (row->group_id)
        buf_printf(&who, "%sgroup %lld in %llu recordings", row->proposed[0] ? ", " : "",
                   (long long)row->group_id, (unsigned long long)row->group_recordings);
    shown = who.len > 0 ? utf8_display(who.data, who.len) : NULL;
    buf_free(&who);
    return shown;
}

static void print_speaker(struct listing *l, const struct find_speaker *row)
{
    char length[TEXT_LEN], turns[TEXT_LEN], counted[TEXT_LEN + 8], *who, *label;
    struct buf b = BUF_INIT;

    if (row->media_id != l->media_id) {
        cli_paint(stdout, "1", row->path);
        printf("%s%s\n", row->member[0] ? "//" : "", row->member);
        l->media_id = row->media_id;
    }
    snprintf(counted, sizeof(counted), "%s %s", text_count(row->turns, turns),
             text_plural(row->turns, "turn", "turns"));
    who = who_it_is(row);
    label = utf8_display(row->label, strlen(row->label));
    buf_printf(&b, "  %-11s %14s, %*s", label ? label : "", text_length(row->speech_ms, length),
               who && who[0] ? -TURNS_COLUMNS : 0, counted);
    if (who && who[0] && buf_cstr(&b)) {
        const size_t column = text_width(buf_cstr(&b)) + 2;

        printf("%s  ", buf_cstr(&b));
        cli_wrap(stdout, who, column, column);
    } else
        puts(buf_cstr(&b) ? buf_cstr(&b) : "");
    buf_free(&b);
    free(who);
    free(label);
}

static int list_row(void *arg, const struct find_speaker *row)
{
    struct listing *l = arg;

    if ((l->wanted->proposed && !row->proposed[0]) ||
        (l->wanted->group && row->group_id != l->wanted->group))
        return 0;
    l->count++;
    l->demo |= demo_model(row->model, row->model_hash);
    l->proposed = l->proposed || row->proposed[0];
    l->unmeasured = l->unmeasured || (row->proposed[0] && !row->measured);
    if (l->json)
        json_array_append_new(l->json, speaker_json(row));
    else
        print_speaker(l, row);
    return 0;
}

static void print_speaker_hints(const struct listing *l)
{
    if (l->proposed)
        cli_print("A name with a question mark is proposed: `nightshift speakers confirm` or "
                  "`deny` decides.",
                  0);
    print_demo(l->demo);
    if (l->unmeasured)
        cli_print("For that model nobody has measured which similarity means the same person.", 0);
}

/* Nobody was asked to, or it is still to be done. */
static int print_nobody(struct store *st, struct err *err)
{
    struct buf said = BUF_INIT;
    int rc = search_left(st, stage_diarize.name, "diarized", &said, err);
    const char *left = rc == 0 ? buf_cstr(&said) : NULL;

    if (rc == 0)
        printf("No speakers were found there.%s\n",
               left && left[0] ? left : " `nightshift enqueue --diarize` finds speakers.");
    buf_free(&said);
    return rc;
}

static int list_speakers(struct cli *cli, const struct wanted *w, struct store *st, int argc,
                         char **argv)
{
    struct listing l = {.wanted = w, .json = cli->json ? json_array() : NULL};
    struct err err = {0};
    int rc = for_each(st, false, argc, argv, list_row, &l, &err);

    if (rc == 0 && l.json) {
        json_dumpf(l.json, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (rc == 0 && l.count == 0 && (w->proposed || w->group)) {
        puts(w->group ? "That group has no voices there." : "No names are proposed there.");
    } else if (rc == 0 && l.count == 0) {
        rc = print_nobody(st, &err);
    } else if (rc == 0) {
        print_speaker_hints(&l);
    }
    json_decref(l.json);
    return rc != 0 ? cli_fail("list the speakers", &err, NULL) : EX_OK;
}

/* 0, or the status of a wrong use. argv: what stands behind the options. */
static int check_saying(struct cli *cli, const struct wanted *w, int argc, char **argv)
{
    bool naming = strcmp(argv[0], "name") == 0;

    if (naming ? argc != 3 || w->like : argc < 2 || w->like || w->everywhere)
        return cli_usage(cli, naming ? "name wants RECORDING/SPEAKER and the name (a folder called "
                                       "name is ./name)"
                                     : "confirm and deny want RECORDING/SPEAKER, and nothing else "
                                       "(a folder of that name is ./confirm)");
    if (naming && strchr(argv[2], '/'))
        return cli_usage(
            cli, "a name cannot have a slash, which separates a speaker from the recording");
    return 0;
}

static bool is_saying(const char *word)
{
    return strcmp(word, "name") == 0 || strcmp(word, "confirm") == 0 || strcmp(word, "deny") == 0;
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "like", 'l', wanted, like, "R/SPEAKER",
                   "voices like this one. R: a recording, as for `nightshift show`; SPEAKER: a "
                   "label or name"),
     .manual = "List the most similar voices in the whole catalog instead; 1 is the same voice. "
               "SPEAKER is a label or a name."},
    {COMMAND_VALUE(COMMAND_NUMBER, "limit", 'n', wanted, limit, "N",
                   "with --like, voices to show (default: 20; 0: all)"),
     .high = INT32_MAX},
    {COMMAND_SWITCH("everywhere", 'e', wanted, everywhere,
                    "with name: this is a person, in the whole archive")},
    {COMMAND_SWITCH("proposed", 'p', wanted, proposed, "only speakers with a proposed name")},
    {COMMAND_VALUE(COMMAND_NUMBER, "group", 'g', wanted, group, "N", "only voices of that group"),
     .low = 1, .high = INT32_MAX},
    {0},
};

const struct command command_speakers = {
    .name = "speakers",
    .usage = "[OPTION]... [PATH]...\n"
             "--like RECORDING/SPEAKER [OPTION]... [PATH]...\n"
             "name [--everywhere] RECORDING/SPEAKER NAME\n"
             "confirm RECORDING/SPEAKER...\n"
             "deny RECORDING/SPEAKER...",
    .about =
        "List who speaks in the recordings (at or below PATH), and for how long. This needs "
        "`nightshift enqueue --diarize`.\nWith --like: list the most similar voices in the catalog "
        "(1 is the same voice).\nWith name: name a speaker of one recording; '' removes the name. "
        "With --everywhere, Nightshift proposes that name wherever a similar voice speaks, until "
        "confirm or deny decides. Unnamed voices that are probably the same person form a group.",
    .options = options,
    .json = "as a JSON array",
    .quiet = "with name, confirm, deny: print only errors and warnings",
    .examples = "speakers /archive/1990\n"
                "speakers --like \"interview 12/SPEAKER_01\"\n"
                "speakers name \"interview 12/SPEAKER_01\" \"Ana Ruiz\" --everywhere\n"
                "speakers confirm \"interview 13/SPEAKER_00\"",
};

int cmd_speakers(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.limit = 20};
    struct store *st = NULL;
    struct err err = {0};
    int status = command_parse(cli, &command_speakers, &w, argc, argv);
    bool saying = status < 0 && optind < argc && is_saying(argv[optind]);

    if (status >= 0)
        return status;
    if (saying && (status = check_saying(cli, &w, argc - optind, argv + optind)) != 0)
        return status;
    if (!saying && w.everywhere)
        return cli_usage(cli, "--everywhere is for `nightshift speakers name`");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (saying)
        return say_all(cli, &w, argc - optind, argv + optind);
    if (store_open(cli->catalog, STORE_READ, &st, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    status = w.like ? list_similar_voices(cli, &w, st, argc, argv)
                    : list_speakers(cli, &w, st, argc, argv);
    store_close(st);
    return cli_flush(status);
}
