/* In words, in 80 columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/text.h"
#include "tools/setup/setup.h"
#include "workers/models/files/model_dir.h"

#define LABEL 10

static void print_label_line(const char *label, struct buf *text)
{
    const char *words = buf_cstr(text);

    cli_paint(stdout, "1", label);
    printf("%*s", LABEL - (int)strlen(label), "");
    cli_wrap(stdout, words ? words : "", LABEL, LABEL);
    buf_free(text);
}

static void print_machine(const struct setup *s)
{
    struct buf text = BUF_INIT;

    buf_printf(&text, "%s", s->machine);
    print_label_line("Machine", &text);
}

static void print_whisper(const struct setup *s)
{
    const char *name = s->whisper->name;
    struct buf text = BUF_INIT;

    if (s->options->model)
        buf_printf(&text, "%s, as --model says.", name);
    else if (s->found && !s->part[0].path)
        buf_printf(&text, "%s, which is here, but not complete.", name);
    else if (s->found)
        buf_printf(&text, "%s, which is here.", name);
    else if (s->whisper != s->fitting)
        buf_printf(&text, "%s, the nearest to %s that the folder has.", name, s->fitting->name);
    else if (s->slow)
        buf_printf(&text, "%s, for this machine is slow.", name);
    else if (s->speed <= 0)
        buf_printf(&text, "%s, which fits this machine.", name);
    else
        buf_printf(&text, "%s: the best that does %d hours of sound in %d hours here.", name,
                   SETUP_HOURS, SETUP_NIGHT_HOURS);
    if (s->found && s->fitting < s->whisper) /* the better ones come first */
        buf_printf(&text, " This machine can do better: `nightshift setup --model %s`.",
                   s->fitting->name);
    print_label_line("Whisper", &text);
}

static void print_night(const struct setup *s)
{
    char length[TEXT_LEN];
    struct buf text = BUF_INIT;

    if (!s->fits)
        buf_printf(&text,
                   "%s does not fit into the free memory. Try a smaller one, such as `nightshift "
                   "setup --model tiny`.",
                   s->whisper->name);
    else if (s->speed <= 0)
        buf_printf(
            &text,
            "The speed of this machine is not known: `nightshift bench --model %s` measures it.",
            s->whisper->name);
    else
        buf_printf(&text, "%d hours of sound take %s%s to transcribe (%s).", SETUP_HOURS,
                   s->measured ? "" : "about ",
                   text_length((int64_t)(SETUP_HOURS * 3600000.0 / s->speed), length),
                   s->measured ? "as an earlier run here was"
                               : "an estimate: `nightshift bench` measures it");
    print_label_line("A night", &text);
}

static const char *state_of(const struct setup *s, const struct setup_part *p)
{
    if (p->path)
        return "here";
    if (!s->options->from)
        return "to fetch";
    return p->source ? "to take" : "lacking";
}

static void print_parts(const struct setup *s)
{
    char bytes[TEXT_LEN];

    putchar('\n');
    for (uint32_t i = 0; i < s->count; i++) {
        const struct setup_part *p = &s->part[i];

        printf("%-8s %-17s %7s  %-15s  %s\n", state_of(s, p), p->name, text_bytes(p->bytes, bytes),
               p->licence, p->what);
    }
    putchar('\n');
}

static void print_place(const char *label, uint64_t bytes, const char *folder, uint64_t free_bytes)
{
    char need[TEXT_LEN], room[TEXT_LEN],
        *shown = folder ? utf8_display(folder, strlen(folder)) : NULL;
    struct buf text = BUF_INIT;

    buf_printf(&text, "%s into %s; its disk has %s free", text_bytes(bytes, need),
               shown ? shown : "a folder that nothing names", text_bytes(free_bytes, room));
    print_label_line(label, &text);
    free(shown);
}

void setup_print(const struct setup *s, const struct setup_room *room)
{
    print_machine(s);
    print_whisper(s);
    print_night(s);
    print_parts(s);
    if (s->cache_bytes > 0)
        print_place("In all", s->cache_bytes, room->cache, room->cache_free);
    if (s->own_bytes > 0)
        print_place(s->cache_bytes > 0 ? "and" : "In all", s->own_bytes, room->own, room->own_free);
    fflush(stdout);
}

/* Whether enqueue takes it where none is named: no better one is here. */
static bool taken_by_itself(const struct setup *s)
{
    const struct model_name *m;

    for (uint32_t i = 0; (m = model_name_at(i)); i++)
        if (m->usual && model_dir_known(m->name))
            return m == s->whisper;
    return false;
}

/* "base, yamnet": those that are not in the folder of --save, or not here. How many. */
static uint32_t put_lacking(const struct setup *s, bool of_save, struct buf *text)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->count; i++)
        if (of_save ? !s->part[i].saved : !s->part[i].path)
            buf_printf(text, "%s%s", n++ ? ", " : "", s->part[i].name);
    return n;
}

static void print_saved(const struct setup *s)
{
    char *shown = utf8_display(s->options->save, strlen(s->options->save));
    const char *folder = shown ? shown : "the folder";
    struct buf lacking = BUF_INIT, text = BUF_INIT;
    const uint32_t n = put_lacking(s, true, &lacking);

    if (n == s->count)
        buf_printf(&text, "Nothing was copied into %s.", folder);
    else
        buf_printf(&text, "A copy is in %s.", folder);
    if (n > 0 && n < s->count)
        buf_printf(&text, " Not in it: %s.", buf_cstr(&lacking) ? buf_cstr(&lacking) : "");
    if (n < s->count)
        buf_printf(&text, " On a machine without network: `nightshift setup --offline=FOLDER`, "
                          "where FOLDER is that one.");
    cli_print(buf_cstr(&text), 0);
    buf_free(&text);
    buf_free(&lacking);
    free(shown);
}

static void print_lacking(const struct setup *s)
{
    struct buf text = BUF_INIT;

    buf_printf(&text, "Not here yet: ");
    put_lacking(s, false, &text);
    buf_printf(&text, ".%s",
               s->tried && !s->options->from ? " The same command resumes from here." : "");
    cli_print(buf_cstr(&text), 0);
    buf_free(&text);
}

static void print_run(const struct setup *s, const char *model)
{
    const uint32_t lacking = setup_lacking(s);
    struct buf text = BUF_INIT;

    if (lacking > 0) {
        buf_printf(&text, "You can begin without %s: nightshift run %s/path/to/your/recordings",
                   lacking > 1 ? "them" : "it", model);
        cli_print(buf_cstr(&text), 2);
        buf_free(&text);
        return;
    }
    printf("Next: nightshift run %s/path/to/your/recordings\n", model);
    printf("  or: nightshift run %s--diarize --sounds --embed /path/to/your/recordings\n", model);
}

void setup_print_next(const struct setup *s)
{
    char model[60];

    if (setup_lacking(s) == 0)
        puts("All of it is here.");
    else if (s->tried || s->part[0].path)
        print_lacking(s);
    if (s->options->save && (s->tried || setup_lacking(s) == 0))
        print_saved(s);
    if (!s->part[0].path)
        return;
    snprintf(model, sizeof(model), "--model %.40s ", s->whisper->name);
    if (taken_by_itself(s))
        model[0] = 0;
    print_run(s, model);
}

static json_t *part_json(const struct setup_part *p)
{
    char *path = p->path ? utf8_display(p->path, strlen(p->path)) : NULL;
    json_t *o = json_pack("{s:s, s:s?, s:s, s:s, s:I, s:b, s:s?, s:I, s:b, s:s?}", "name", p->name,
                          "id", p->id, "licence", p->licence, "for", p->what, "bytes",
                          (json_int_t)p->bytes, "here", (int)(p->path != NULL), "path", path,
                          "brought_bytes", (json_int_t)p->got_bytes, "saved", (int)p->saved,
                          "error", p->err.code ? p->err.msg : NULL);

    free(path);
    return o;
}

int setup_print_json(const struct setup *s)
{
    json_t *parts = json_array(), *o;

    for (uint32_t i = 0; i < s->count; i++)
        json_array_append_new(parts, part_json(&s->part[i]));
    o = json_pack("{s:b, s:s, s:s, s:b, s:f, s:s, s:I, s:o}", "ready", (int)(setup_lacking(s) == 0),
                  "machine", s->machine, "whisper", s->whisper->name, "fits", (int)s->fits,
                  "times_real_time", s->speed, "speed_is",
                  s->measured    ? "measured"
                  : s->speed > 0 ? "estimate"
                                 : "unknown",
                  "lacking_bytes", (json_int_t)(s->cache_bytes + s->own_bytes), "models", parts);
    if (!o)
        return cli_no_memory("say what is here");
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
    return EX_OK;
}
