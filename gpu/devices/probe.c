#include "gpu/devices/probe.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/devices/child.h"
#include "gpu/devices/cuda_load.h"

#define SECONDS 60
#define THOROUGH 5 /* times as long */
#define ANSWER_MAX (1u << 20)
#define MEMORY_MAX ((json_int_t)1 << 60)

static const char crash_todo[] =
    "look at `nvidia-smi` and `dmesg`; update or reinstall the NVIDIA driver and the CUDA "
    "libraries, or restart the machine";

struct reading {
    struct devices *d;
    uint32_t first; /* of its devices in the list */
    char doing[80];
    bool ended, nonsense;
};

/* ---------------------------------------------------------------------------------- values */

/* Cut to its place, and printable: text of a process that may have gone wrong. */
static void copy_printable_text(char *dst, size_t cap, const char *s)
{
    char *shown = utf8_display(s, strlen(s));

    utf8_copy(dst, cap, shown ? shown : "");
    free(shown);
}

void devices_add_finding(struct devices *d, enum finding_state state, const char *name,
                         const char *found, const char *wanted, const char *todo)
{
    struct device_finding *f = &d->findings[d->finding_count];

    if (d->finding_count == DEVICES_FINDINGS)
        return;
    d->finding_count++;
    *f = (struct device_finding){.state = state};
    copy_printable_text(f->name, sizeof(f->name), name);
    copy_printable_text(f->found, sizeof(f->found), found);
    copy_printable_text(f->wanted, sizeof(f->wanted), wanted);
    copy_printable_text(f->todo, sizeof(f->todo), todo);
}

static const char *get_text(struct reading *r, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    r->nonsense |= s == NULL;
    return s ? s : "";
}

static json_int_t get_number(struct reading *r, const json_t *o, const char *key, json_int_t max)
{
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < 0 || n > max) {
        r->nonsense = true;
        return 0;
    }
    return n;
}

/* ----------------------------------------------------------------------------------- lines */

/* It becomes a worker's argument and a key in the catalog. */
static bool uuid_fits(const char *s)
{
    size_t n = strlen(s);

    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-')
            return false;
    return n >= 5 && n < 48;
}

static void read_device(struct reading *r, const json_t *o)
{
    struct devices *all = r->d;
    struct device d = {.kind = DEVICE_CUDA, .speed = 1};
    const char *uuid = get_text(r, o, "uuid");

    snprintf(d.name, sizeof(d.name), "cuda:%.50s", uuid);
    snprintf(d.id, sizeof(d.id), "%.50s", uuid);
    snprintf(d.label, sizeof(d.label), "cuda:%lld",
             (long long)get_number(r, o, "ordinal", DEVICES_MAX));
    copy_printable_text(d.model, sizeof(d.model), get_text(r, o, "name"));
    d.major = (int)get_number(r, o, "major", 99);
    d.minor = (int)get_number(r, o, "minor", 99);
    d.memory_total = (uint64_t)get_number(r, o, "total", MEMORY_MAX);
    d.memory_free = (uint64_t)get_number(r, o, "free", MEMORY_MAX);
    d.precisions = (uint32_t)get_number(r, o, "precisions", UINT32_MAX);
    r->nonsense |= !uuid_fits(uuid) || d.memory_total == 0 || d.memory_free > d.memory_total;
    for (uint32_t i = r->first; i < all->count; i++)
        r->nonsense |=
            strcmp(all->list[i].name, d.name) == 0 || strcmp(all->list[i].label, d.label) == 0;
    if (r->nonsense || all->count >= DEVICES_MAX - 1) /* the last place is the processor's */
        return;
    all->list[all->count++] = d;
}

static void read_finding(struct reading *r, const json_t *o)
{
    json_int_t state = get_number(r, o, "state", FINDING_BROKEN);
    const char *name = get_text(r, o, "name"), *found = get_text(r, o, "found"),
               *wanted = get_text(r, o, "wanted"), *todo = get_text(r, o, "do");

    if (!r->nonsense)
        devices_add_finding(r->d, (enum finding_state)state, name, found, wanted, todo);
}

static void read_error(struct reading *r, const json_t *o)
{
    int code = err_from_name(get_text(r, o, "code"));
    char message[400];

    copy_printable_text(message, sizeof(message), get_text(r, o, "message"));
    if (r->d->no_gpu.code == 0 && !r->nonsense)
        err_set(&r->d->no_gpu, code != 0 ? code : ERR_DEVICE, "%s", message);
}

static void read_line(struct reading *r, const char *line, size_t len)
{
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL), *v;
    char text[300];

    if (r->ended || !json_is_object(o)) {
        r->nonsense = true;
    } else if ((v = json_object_get(o, "device"))) {
        read_device(r, v);
    } else if ((v = json_object_get(o, "finding"))) {
        read_finding(r, v);
    } else if ((v = json_object_get(o, "error"))) {
        read_error(r, v);
    } else if (json_object_get(o, "doing")) {
        copy_printable_text(r->doing, sizeof(r->doing), get_text(r, o, "doing"));
    } else if (json_object_get(o, "module")) {
        snprintf(text, sizeof(text), "%.200s, for %.80s", get_text(r, o, "module"),
                 get_text(r, o, "built_for"));
        devices_add_finding(r->d, FINDING_WELL, "CUDA module", text, "", "");
    } else if (json_is_true(json_object_get(o, "end"))) {
        r->ended = true;
    } else {
        r->nonsense = true;
    }
    json_decref(o);
}

/* ---------------------------------------------------------------------------------- answer */

static void read_lines(struct reading *r, const char *s, size_t len)
{
    while (len > 0 && !r->nonsense) {
        const char *end = memchr(s, '\n', len);

        if (!end) { /* cut off: the fate says why, or it is nonsense */
            r->ended = false;
            return;
        }
        read_line(r, s, (size_t)(end - s));
        len -= (size_t)(end - s) + 1;
        s = end + 1;
    }
}

/* The child's own end, as a finding. */
static void find_fate(struct reading *r, const char *fate, const char *words)
{
    char found[500], at[100] = "", said[300] = "";

    if (r->doing[0] != 0)
        snprintf(at, sizeof(at), " while %s", r->doing);
    if (words[0] != 0)
        snprintf(said, sizeof(said), "; last words: %s", words);
    if (fate[0] != 0)
        snprintf(found, sizeof(found), "the CUDA libraries %s%s%s", fate, at, said);
    else
        snprintf(found, sizeof(found), "the CUDA libraries made `nightshift probe` talk nonsense%s",
                 at);
    devices_add_finding(r->d, FINDING_BROKEN, "CUDA", found, "libraries that can be looked at",
                        crash_todo);
}

/* The first broken finding is why. */
static void judge_probe_findings(struct devices *d, uint32_t first_device, uint32_t first_finding)
{
    for (uint32_t i = first_finding; i < d->finding_count; i++) {
        const struct device_finding *f = &d->findings[i];

        if (f->state != FINDING_BROKEN)
            continue;
        d->no_gpu.code = 0; /* what is broken says more than that no device was found */
        err_set(&d->no_gpu, ERR_DEVICE, "%s%s%s", strcmp(f->name, "CUDA") != 0 ? f->name : "",
                strcmp(f->name, "CUDA") != 0 ? ": " : "", f->found);
        if (f->wanted[0] != 0 && strcmp(f->name, "CUDA") != 0)
            err_set(&d->no_gpu, ERR_DEVICE, "%s: %s; wanted: %s", f->name, f->found, f->wanted);
        break;
    }
    if (d->no_gpu.code == 0 && d->count == first_device)
        err_set(&d->no_gpu, ERR_MISSING, "the CUDA run time finds no device");
    for (uint32_t i = first_device; i < d->count; i++)
        d->list[i].unusable = d->no_gpu.code != 0;
}

void probe_read(const char *answer, size_t len, const char *fate, const char *words,
                struct devices *ret)
{
    struct reading r = {.d = ret, .first = ret->count};
    uint32_t first_finding = ret->finding_count;

    read_lines(&r, answer, len);
    if (fate[0] != 0 || r.nonsense || !r.ended)
        find_fate(&r, fate, words);
    judge_probe_findings(ret, r.first, first_finding);
}

static int64_t limit_ms(bool thorough)
{
    const char *s = getenv("NIGHTSHIFT_PROBE_SECONDS");
    long n = s ? strtol(s, NULL, 10) : 0;

    return (n > 0 && n <= 3600 ? n : SECONDS) * 1000 * (thorough ? THOROUGH : 1);
}

int probe_run(const struct probe_options *o, struct devices *ret, struct err *err)
{
    const char *const argv[] = {"nightshift", "probe", o->thorough ? "--thorough" : NULL, NULL};
    const struct child_options c = {.program = o->program,
                                    .argv = argv,
                                    .limit_ms = limit_ms(o->thorough),
                                    .max_bytes = ANSWER_MAX,
                                    .stop = o->stop};
    struct child_result r;
    char fate[120];

    if (child_run(&c, &r, err) != 0)
        return err_prefix(err, "looking at the CUDA libraries");
    if (r.stopped) {
        buf_free(&r.out);
        return err_set(err, ERR_CANCELLED, "interrupted while the CUDA libraries were looked at");
    }
    child_fate(&c, &r, fate, sizeof(fate));
    probe_read((const char *)r.out.data, r.out.len, fate, r.words, ret);
    buf_free(&r.out);
    return 0;
}

/* Strings of libraries: what is no UTF-8 must not cost the line. */
static json_t *make_json_text(const char *s)
{
    json_t *ret = json_string(s ? s : "");

    return ret ? ret : json_string("(unreadable)");
}

/* Each line is flushed, so that it is there when the next step crashes. Takes the object. */
static void flush_json_line(FILE *out, json_t *object)
{
    if (object && json_dumpf(object, out, JSON_COMPACT) == 0)
        fputc('\n', out);
    fflush(out);
    json_decref(object);
}

static void put_doing(FILE *out, const char *what)
{
    flush_json_line(out, json_pack("{s:s}", "doing", what));
}

static void put_error(FILE *out, const struct err *err)
{
    flush_json_line(out, json_pack("{s:{s:s, s:o}}", "error", "code", err_name(err->code),
                                   "message", make_json_text(err->msg)));
}

static void put_device(FILE *out, const struct cuda_device *d)
{
    flush_json_line(out,
                    json_pack("{s:{s:I, s:o, s:o, s:i, s:i, s:I, s:I, s:I}}", "device", "ordinal",
                              (json_int_t)d->ordinal, "name", make_json_text(d->name), "uuid",
                              make_json_text(d->uuid), "major", d->major, "minor", d->minor,
                              "total", (json_int_t)d->memory_total, "free",
                              (json_int_t)d->memory_free, "precisions", (json_int_t)d->have));
}

static void put_finding(void *arg, const struct cuda_finding *f)
{
    flush_json_line(arg,
                    json_pack("{s:{s:i, s:o, s:o, s:o, s:o}}", "finding", "state", f->state, "name",
                              make_json_text(f->name), "found", make_json_text(f->found), "wanted",
                              make_json_text(f->wanted), "do", make_json_text(f->todo)));
}

int probe_write(const char *module, bool thorough, FILE *out)
{
    static struct cuda_device list[DEVICES_MAX];
    const struct cuda_module *m = NULL;
    struct err err = {0};
    uint32_t n = 0;

    put_doing(out, "the CUDA module was opened");
    if (cuda_module_load(module, &m, &err) != 0) {
        put_error(out, &err);
    } else {
        flush_json_line(out, json_pack("{s:o, s:o}", "module", make_json_text(module), "built_for",
                                       make_json_text(m->built_for)));
        put_doing(out, "devices were asked for");
        if (m->devices(list, DEVICES_MAX - 1, &n, &err) != 0)
            put_error(out, &err);
        else
            for (uint32_t i = 0; i < n && i < DEVICES_MAX - 1; i++)
                put_device(out, &list[i]);
        put_doing(out, thorough ? "operations were tried" : "libraries were looked at");
        m->check(thorough, put_finding, out);
    }
    flush_json_line(out, json_pack("{s:b}", "end", 1));
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}
