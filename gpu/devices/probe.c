#include "gpu/devices/probe.h"

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

/* The value of CUDA_VISIBLE_DEVICES that shows this device alone. A MIG instance has no UUID that
 * the run time takes there. */
static void make_visible(struct device *d, uint32_t ordinal)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");

    if (!list && !strstr(d->model, " MIG ")) {
        snprintf(d->visible, sizeof(d->visible), "%s", d->id);
        return;
    }
    if (!list) {
        snprintf(d->visible, sizeof(d->visible), "%u", ordinal);
        return;
    }
    for (uint32_t i = 0; i < ordinal && list; i++) {
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    if (list && strcspn(list, ",") < sizeof(d->visible))
        snprintf(d->visible, sizeof(d->visible), "%.*s", (int)strcspn(list, ","), list);
}

static void fill_sick_device(struct reading *r, const json_t *o, struct device *d)
{
    d->unusable = true;
    copy_printable_text(d->trouble, sizeof(d->trouble), get_text(r, o, "trouble"));
    if (d->id[0] == 0) /* not even that could be asked */
        snprintf(d->name, sizeof(d->name), "%s", d->label);
    r->nonsense |= d->trouble[0] == 0 || (d->id[0] != 0 && !nvidia_uuid_fits(d->id));
}

static void read_device(struct reading *r, const json_t *o)
{
    struct devices *all = r->d;
    struct device d = {.kind = DEVICE_CUDA, .speed = 1};
    const char *uuid = get_text(r, o, "uuid");
    const json_int_t ordinal = get_number(r, o, "ordinal", DEVICES_MAX);

    snprintf(d.name, sizeof(d.name), "cuda:%.50s", uuid);
    snprintf(d.id, sizeof(d.id), "%.50s", uuid);
    snprintf(d.label, sizeof(d.label), "cuda:%lld", (long long)ordinal);
    copy_printable_text(d.model, sizeof(d.model), get_text(r, o, "name"));
    d.major = (int)get_number(r, o, "major", 99);
    d.minor = (int)get_number(r, o, "minor", 99);
    d.memory_total = (uint64_t)get_number(r, o, "total", MEMORY_MAX);
    d.memory_free = (uint64_t)get_number(r, o, "free", MEMORY_MAX);
    d.precisions = (uint32_t)get_number(r, o, "precisions", UINT32_MAX);
    if (json_object_get(o, "place"))
        copy_printable_text(d.place, sizeof(d.place), get_text(r, o, "place"));
    make_visible(&d, (uint32_t)ordinal);
    if (json_object_get(o, "trouble"))
        fill_sick_device(r, o, &d);
    else
        r->nonsense |= !nvidia_uuid_fits(uuid) || d.memory_total == 0;
    r->nonsense |= d.memory_free > d.memory_total;
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

/* Where all of them are sick, the first one's trouble is why there is none. */
static void judge_sick_devices(struct devices *d, uint32_t first)
{
    for (uint32_t i = first; i < d->count; i++)
        if (!d->list[i].unusable)
            return;
    if (d->no_gpu.code == 0 && d->count > first)
        err_set(&d->no_gpu, ERR_DEVICE, "%s: %s", d->list[first].label, d->list[first].trouble);
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
        d->list[i].unusable |= d->no_gpu.code != 0;
    judge_sick_devices(d, first_device);
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

/* ----------------------------------------------------------------------------------- cards */

#define FIRST_LABEL "cuda:0" /* of a card that is visible alone */

struct card_probe {
    const struct probe_options *o;
    bool alone; /* nobody else looked at the libraries */
    const char *argv[CHILD_MOST][6];
    struct child_options child[CHILD_MOST];
    struct child_result result[CHILD_MOST];
    struct devices one; /* what the process of a card said */
};

static void plan_card(struct card_probe *p, size_t i, const char *visible)
{
    const char **argv = p->argv[i];

    argv[0] = "nightshift";
    argv[1] = "probe";
    argv[2] = p->alone ? "--alone" : "--card";
    argv[3] = visible;
    argv[4] = p->o->thorough ? "--thorough" : NULL;
    argv[5] = NULL;
    p->child[i] = (struct child_options){.program = p->o->program,
                                         .argv = argv,
                                         .limit_ms = limit_ms(p->o->thorough),
                                         .max_bytes = ANSWER_MAX,
                                         .stop = p->o->stop};
}

/* What was found of the card itself says more than that none can be used, but not more than that
 * its process crashed over it. */
#define NONE_USABLE "devices: "
static void name_trouble(struct devices *one)
{
    for (uint32_t i = 0; i < one->finding_count; i++) {
        const struct device_finding *f = &one->findings[i];

        if (f->state == FINDING_WELL || strcmp(f->name, FIRST_LABEL) != 0)
            continue;
        err_set(&one->no_gpu, ERR_DEVICE, "%s%s%s", f->found, f->todo[0] ? "; " : "", f->todo);
        return;
    }
}

/* NULL: it cannot be used, and p->one.no_gpu says why. Takes the answer. */
static const struct device *read_card(struct card_probe *p, size_t i, const char *uuid)
{
    struct child_result *r = &p->result[i];
    const struct device *ret = NULL;
    char fate[120];

    memset(&p->one, 0, sizeof(p->one));
    child_fate(&p->child[i], r, fate, sizeof(fate));
    probe_read((const char *)r->out.data, r->out.len, fate, r->words, &p->one);
    buf_free(&r->out);
    for (uint32_t k = 0; k < p->one.count && !ret; k++)
        if (strcmp(p->one.list[k].id, uuid) == 0)
            ret = &p->one.list[k];
    if (p->one.no_gpu.code == 0 && !ret)
        err_set(&p->one.no_gpu, ERR_DEVICE, "it is not there when it is asked for alone");
    else if (p->one.no_gpu.code == 0 && ret->unusable)
        err_set(&p->one.no_gpu, ERR_DEVICE, "%s", ret->trouble);
    else if (strncmp(p->one.no_gpu.msg, NONE_USABLE, strlen(NONE_USABLE)) == 0)
        name_trouble(&p->one);
    return p->one.no_gpu.code == 0 ? ret : NULL;
}

/* Where it called itself the first one, that is left out. */
static void make_sick(struct device *d, const struct err *why)
{
    const char *own = strstr(why->msg, FIRST_LABEL ": ");
    const size_t before = own ? (size_t)(own - why->msg) : 0;

    d->unusable = true;
    snprintf(d->trouble, sizeof(d->trouble), "%.*s%s", (int)before, why->msg,
             own ? own + strlen(FIRST_LABEL) + 2 : why->msg);
}

/* What was found of a card that was alone there, and called itself the first. */
static void add_card_findings(struct devices *ret, const struct devices *one, const char *label,
                              bool libraries)
{
    const size_t n = strlen(FIRST_LABEL);

    for (uint32_t i = 0; i < one->finding_count; i++) {
        const struct device_finding *f = &one->findings[i];
        const bool named = strcmp(f->name, FIRST_LABEL) == 0,
                   about = strncmp(f->found, FIRST_LABEL ": ", n + 2) == 0;
        char found[sizeof(f->found) + sizeof(one->list[0].label)];

        if (!named && !about && (!libraries || strcmp(f->name, "CUDA module") == 0))
            continue;
        snprintf(found, sizeof(found), "%s%s", about ? label : "", f->found + (about ? n : 0));
        devices_add_finding(ret, f->state, named ? label : f->name, found, f->wanted, f->todo);
    }
}

static int run_cards(struct card_probe *p, size_t n, struct err *err)
{
    bool stopped = false;

    if (child_run_all(p->child, p->result, n, err) != 0)
        return err_prefix(err, "looking at the GPUs");
    for (size_t i = 0; i < n; i++)
        stopped |= p->result[i].stopped;
    if (!stopped)
        return 0;
    for (size_t i = 0; i < n; i++)
        buf_free(&p->result[i].out);
    return err_set(err, ERR_CANCELLED, "interrupted while the GPUs were looked at");
}

/* Asks each of the listed devices, all at once. */
static int ask_cards(struct card_probe *p, uint32_t first, struct devices *ret, struct err *err)
{
    struct device *asked[CHILD_MOST];
    size_t n = 0;

    for (uint32_t i = first; i < ret->count; i++) {
        struct device *d = &ret->list[i];

        if (d->unusable || d->visible[0] == 0 || n == CHILD_MOST)
            continue;
        plan_card(p, n, d->visible);
        asked[n++] = d;
    }
    if (run_cards(p, n, err) != 0)
        return err->code;
    for (size_t i = 0; i < n; i++) {
        const struct device *d = read_card(p, i, asked[i]->id);

        if (d)
            asked[i]->memory_free = d->memory_free;
        else
            make_sick(asked[i], &p->one.no_gpu);
        if (d)
            add_card_findings(ret, &p->one, asked[i]->label, false);
    }
    return 0;
}

/* What was broken for all was one card's doing. */
static void forgive_findings(struct devices *ret, uint32_t first_finding)
{
    for (uint32_t i = first_finding; i < ret->finding_count; i++)
        if (ret->findings[i].state == FINDING_BROKEN)
            ret->findings[i].state = FINDING_WARNING;
    ret->no_gpu = (struct err){0};
}

/* The list could not be had, perhaps for one card of them: asks those that the kernel's driver
 * names. Their numbers are by their places on the bus then, which may be others than the run
 * time's. One without a UUID cannot be shown to a process alone, and is only named. Where none can
 * be used, all stays as it was. */
static int ask_system_cards(struct card_probe *p, const struct nvidia *hw, uint32_t first_finding,
                            struct devices *ret, struct err *err)
{
    static const struct err nameless = {.code = ERR_DEVICE,
                                        .msg = "the kernel's driver does not say its UUID"};
    struct device list[NVIDIA_CARDS], unnamed[NVIDIA_CARDS];
    size_t n = 0, well = 0, others = 0;

    for (uint32_t i = 0;
         i < hw->cards && n < CHILD_MOST && ret->count + n + others < DEVICES_MAX - 1; i++) {
        const struct nvidia_card *c = &hw->card[i];
        struct device *d = c->uuid[0] ? &list[n] : &unnamed[others];

        *d = (struct device){.kind = DEVICE_CUDA, .speed = 1};
        if (c->uuid[0] == 0) {
            snprintf(d->name, sizeof(d->name), "cuda:%u", i);
            snprintf(d->model, sizeof(d->model), "%s", c->model);
            snprintf(d->label, sizeof(d->label), "cuda:%u", i);
            make_sick(d, &nameless);
            others++;
            continue;
        }
        snprintf(d->name, sizeof(d->name), "cuda:%s", c->uuid);
        snprintf(d->id, sizeof(d->id), "%s", c->uuid);
        snprintf(d->visible, sizeof(d->visible), "%s", c->uuid);
        snprintf(d->model, sizeof(d->model), "%s", c->model);
        snprintf(d->label, sizeof(d->label), "cuda:%u", i);
        plan_card(p, n++, d->visible);
    }
    if (run_cards(p, n, err) != 0)
        return err->code;
    for (size_t i = 0; i < n; i++) {
        const struct device *d = read_card(p, i, list[i].id);
        struct device other = list[i];

        if (!d) {
            make_sick(&list[i], &p->one.no_gpu);
            continue;
        }
        if (well++ == 0)
            forgive_findings(ret, first_finding);
        list[i] = *d;
        memcpy(list[i].label, other.label, sizeof(other.label));
        memcpy(list[i].visible, other.visible, sizeof(other.visible));
        add_card_findings(ret, &p->one, list[i].label, well == 1);
    }
    for (size_t i = 0; well > 0 && i < n; i++)
        ret->list[ret->count++] = list[i];
    for (size_t i = 0; well > 0 && i < others; i++)
        ret->list[ret->count++] = unnamed[i];
    return 0;
}

static void name_sick_devices(struct devices *ret, uint32_t first)
{
    char found[400];

    for (uint32_t i = first; i < ret->count; i++) {
        const struct device *d = &ret->list[i];

        if (d->trouble[0] == 0)
            continue;
        snprintf(found, sizeof(found), "%s%sit is left out: %s", d->model, d->model[0] ? ", " : "",
                 d->trouble);
        devices_add_finding(ret, FINDING_WARNING, d->label, found, "a GPU that answers",
                            "look for it in `nvidia-smi` and `dmesg`; restart the machine. If it "
                            "fails again, have the card repaired or replaced");
    }
    judge_sick_devices(ret, first);
}

static int ask_each(const struct probe_options *o, const struct nvidia *hw, uint32_t first,
                    uint32_t first_finding, struct devices *ret, struct err *err)
{
    const bool listed = ret->no_gpu.code == 0 && ret->count > first + 1,
               hidden = ret->count == first && hw->cards > 1 && !getenv("CUDA_VISIBLE_DEVICES");
    struct card_probe *p;
    int rc;

    if (!listed && !hidden)
        return 0;
    p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NOMEM, "no memory for what the GPUs say");
    p->o = o;
    p->alone = hidden;
    rc = listed ? ask_cards(p, first, ret, err) : ask_system_cards(p, hw, first_finding, ret, err);
    free(p);
    return rc;
}

int probe_run(const struct probe_options *o, const struct nvidia *hw, struct devices *ret,
              struct err *err)
{
    const char *const argv[] = {"nightshift", "probe", o->thorough ? "--thorough" : NULL, NULL};
    const struct child_options c = {.program = o->program,
                                    .argv = argv,
                                    .limit_ms = limit_ms(o->thorough),
                                    .max_bytes = ANSWER_MAX,
                                    .stop = o->stop};
    const uint32_t first = ret->count, first_finding = ret->finding_count;
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
    if (ask_each(o, hw, first, first_finding, ret, err) != 0)
        return err->code;
    name_sick_devices(ret, first);
    return 0;
}

/* ------------------------------------------------------------------------------- the child */

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

static void put_device(FILE *out, const struct cuda_device *d, uint64_t free_bytes)
{
    json_t *o =
        json_pack("{s:I, s:o, s:o, s:i, s:i, s:I, s:I, s:I}", "ordinal", (json_int_t)d->ordinal,
                  "name", make_json_text(d->name), "uuid", make_json_text(d->uuid), "major",
                  d->major, "minor", d->minor, "total", (json_int_t)d->memory_total, "free",
                  (json_int_t)free_bytes, "precisions", (json_int_t)d->have);

    if (o && d->place[0] != 0)
        json_object_set_new(o, "place", make_json_text(d->place));
    if (o && d->trouble[0] != 0)
        json_object_set_new(o, "trouble", make_json_text(d->trouble));
    flush_json_line(out, o ? json_pack("{s:o}", "device", o) : NULL);
}

static void put_finding(void *arg, const struct cuda_finding *f)
{
    flush_json_line(arg,
                    json_pack("{s:{s:i, s:o, s:o, s:o, s:o}}", "finding", "state", f->state, "name",
                              make_json_text(f->name), "found", make_json_text(f->found), "wanted",
                              make_json_text(f->wanted), "do", make_json_text(f->todo)));
}

/* How much is to be looked at in this process. touches: devices, too. */
static unsigned parts_of(const struct probe_request *q, bool touches)
{
    unsigned parts = q->card && !q->alone ? 0 : CUDA_CHECK_LIBRARIES;

    if (touches)
        parts |= CUDA_CHECK_DEVICES | (q->thorough ? CUDA_CHECK_OPERATIONS : 0);
    return parts;
}

static void look_at_module(const struct probe_request *q, const struct cuda_module *m, FILE *out)
{
    static struct cuda_device list[DEVICES_MAX];
    struct err err = {0};
    uint32_t n = 0;
    bool touches;

    flush_json_line(out, json_pack("{s:o, s:o}", "module", make_json_text(q->module), "built_for",
                                   make_json_text(m->built_for)));
    put_doing(out, "devices were asked for");
    if (m->devices(list, DEVICES_MAX - 1, &n, &err) != 0)
        put_error(out, &err);
    /* A process of a card sees it alone; a module that shows all even so is asked for all. */
    touches = n > 0 && (q->card || n == 1);
    if (touches)
        put_doing(out, "a device was asked for its memory");
    for (uint32_t i = 0; i < n && i < DEVICES_MAX - 1; i++)
        put_device(out, &list[i],
                   touches && !list[i].trouble[0] ? m->free_memory(list[i].ordinal) : 0);
    put_doing(out, touches && q->thorough ? "operations were tried" : "libraries were looked at");
    /* Without any device the check says why. */
    m->check(parts_of(q, touches || n == 0), put_finding, out);
}

int probe_write(const struct probe_request *q, FILE *out)
{
    const struct cuda_module *m = NULL;
    struct err err = {0};

    /* Before anything of NVIDIA's is opened: it reads this once. */
    if (q->card && setenv("CUDA_VISIBLE_DEVICES", q->card, 1) != 0)
        return -1;
    put_doing(out, "the CUDA module was opened");
    if (cuda_module_load(q->module, &m, &err) != 0)
        put_error(out, &err);
    else
        look_at_module(q, m, out);
    flush_json_line(out, json_pack("{s:b}", "end", 1));
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}
