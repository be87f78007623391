/* The machine, the choice, and what is here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "tools/hub/hub.h"
#include "tools/hub/hub_copy.h"
#include "tools/model_check.h"
#include "tools/plan/plan.h"
#include "tools/setup/setup.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"

/* Beside Whisper: what --vad, --diarize, --sounds and --embed take where none is named. */
static const struct setup_part others[] = {
    {.name = SILERO_NAME,
     .file = SILERO_FILE,
     .licence = "MIT",
     .what = "where somebody speaks",
     .bytes = 1239748},
    {.name = HUB_GE2E,
     .licence = "MIT, Apache-2.0",
     .what = "who speaks (--diarize)",
     .bytes = 21300000},
    {.name = HUB_YAMNET,
     .licence = "Apache-2.0",
     .what = "which sounds (--sounds)",
     .bytes = 14000000},
    {.name = "all-MiniLM-L6-v2",
     .id = "sentence-transformers/all-MiniLM-L6-v2",
     .licence = "Apache-2.0",
     .what = "search by meaning (--embed)",
     .bytes = 92000000},
};

/* ---- the machine, and the choice */

/* The best first; the medium one is slower than the turbo, and not as good. */
static const char *const fitting[] = {"large-v3-turbo", "small", "base"};

static void describe_machine(const struct plan *p, struct setup *s)
{
    struct buf text = {.max = sizeof(s->machine) - 1};

    for (uint32_t i = 0; i < p->picked->count; i++) {
        const struct device *d = &p->picked->list[i];
        char part[PLACEMENT_SIZE];

        buf_printf(&text, "%s%s", i ? "; " : "", d->model[0] ? d->model : d->label);
        if (d->kind == DEVICE_CPU)
            buf_printf(&text, ", %u threads", cpu_threads(p->picked->count));
        buf_printf(&text, ", %s free", placement_size(d->memory_free, part));
    }
    if (p->all->expects_gpu && p->all->no_gpu.code != 0)
        buf_printf(&text, "; no GPU can be used: `nightshift doctor` says why");
    snprintf(s->machine, sizeof(s->machine), "%s", buf_cstr(&text) ? buf_cstr(&text) : "");
    buf_free(&text);
}

/* How a model would do here. *night: all the hours in one, or on a GPU of which nobody knows how
 * fast it is. */
static int try_model(struct setup *s, const char *catalog, const char *name, bool *night,
                     struct err *err)
{
    const struct plan_options o = {
        .catalog = catalog, .model = name, .allow_cpu = ALLOW_CPU_ALWAYS};
    struct plan p;
    bool gpu = false;
    int rc = plan_make(&o, &p, err);

    if (rc == 0) {
        describe_machine(&p, s);
        s->speed = 0;
        s->fits = s->measured = false;
        for (uint32_t i = 0; i < p.picked->count; i++)
            gpu |= p.picked->list[i].kind != DEVICE_CPU;
        for (uint32_t i = 0; i < p.stage_count; i++) {
            const struct plan_stage *stage = &p.stages[i];

            if (strcmp(stage->name, stage_transcribe.name) != 0)
                continue;
            for (uint32_t k = 0; stage->on && k < p.picked->count; k++)
                s->fits |= stage->on[k].fits;
            s->speed = stage->speed;
            s->measured = stage->measured && stage->speed > 0;
            break;
        }
    }
    plan_free(&p);
    *night = s->fits && (s->speed * SETUP_NIGHT_HOURS >= SETUP_HOURS || (gpu && s->speed <= 0));
    return rc;
}

/* The best that does the night; else the smallest. */
static int choose_model(struct setup *s, const char *catalog, struct err *err)
{
    const size_t n = sizeof(fitting) / sizeof(fitting[0]);
    bool night = false;
    int rc = 0;

    for (size_t i = 0; rc == 0 && !night && i < n; i++) {
        rc = try_model(s, catalog, fitting[i], &night, err);
        s->fitting = model_name_find(fitting[i]);
    }
    s->slow = !night;
    return rc;
}

/* The best of OpenAI's, else another that somebody has chosen once: those stand behind them. */
static const struct model_name *whisper_here(void)
{
    const struct model_name *m;

    for (uint32_t i = 0; (m = model_name_at(i)); i++)
        if (model_dir_known(m->name))
            return m;
    return NULL;
}

/* ---- the folder of --offline */

/* A folder of that name there, also in a folder of models, or a cache's. */
static char *find_source(const char *folder, const char *name)
{
    static const char *const below[] = {"", "/models"};
    char path[4096], *dir = NULL;
    struct err none = {0};
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        if (snprintf(path, sizeof(path), "%s%s", folder, below[i]) >= (int)sizeof(path) ||
            model_dir_find_below(path, name, &dir, &none) != 0)
            continue;
        if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
            return dir;
        free(dir); /* a file of whisper.cpp's */
        dir = NULL;
    }
    return NULL;
}

static char *find_file_source(const char *folder, const struct setup_part *p)
{
    static const char *const below[] = {"", "/models"};
    char path[4096];
    struct stat st;

    for (size_t i = 0; i < 2; i++) {
        int n = snprintf(path, sizeof(path), "%s%s/%s/%s", folder, below[i], p->name, p->file);

        if (n >= (int)sizeof(path) || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        *strrchr(path, '/') = 0;
        return strdup(path);
    }
    return NULL;
}

static char *source_of(const char *folder, const struct setup_part *p)
{
    const char *tail = p->id ? strchr(p->id, '/') : NULL;
    char *ret = p->file ? find_file_source(folder, p) : find_source(folder, p->name);

    if (!ret && p->id)
        ret = find_source(folder, p->id);
    if (!ret && p->also)
        ret = find_source(folder, p->also);
    return !ret && tail ? find_source(folder, tail + 1) : ret;
}

static struct setup_part whisper_part(const struct model_name *m)
{
    return (struct setup_part){.name = m->name,
                               .id = m->hub,
                               .also = m->ct2,
                               .licence = m->licence,
                               .what = m->usual ? "what is said" : "what is said in English",
                               .bytes = m->bytes};
}

static bool is_in(const char *folder, const struct model_name *m)
{
    const struct setup_part p = whisper_part(m);
    char *source = source_of(folder, &p);

    free(source);
    return source != NULL;
}

/* The fitting one, else the next smaller one that the folder has, else the next larger one. */
static const struct model_name *choose_from(const char *folder, const struct model_name *m)
{
    const struct model_name *at, *larger = NULL;
    bool smaller = false;

    for (uint32_t i = 0; (at = model_name_at(i)); i++) {
        smaller |= at == m;
        if (!at->usual || !is_in(folder, at))
            continue;
        if (smaller)
            return at;
        larger = at;
    }
    return larger ? larger : m;
}

/* ---- what is here */

/* In this machine's places: one may stand in the folder that is carried over. */
static char *find_here(const struct setup_part *p)
{
    struct err none = {0};
    char *path = NULL;

    if (p->file)
        (void)model_dir_find_file(p->name, p->file, false, &path, &none);
    else if (model_dir_find_placed(p->name, &path, &none) != 0 && p->id)
        (void)model_dir_find_placed(p->id, &path, &none);
    if (path && setup_whole(p, path, &none) == 0)
        return path;
    free(path);
    return NULL;
}

int setup_whole(const struct setup_part *p, const char *path, struct err *err)
{
    if (!p->file)
        return model_whole(stage_of_model(path), path, err);
    return silero_verify_file(path, err);
}

static void add_part(struct setup *s, const struct setup_part *like)
{
    struct setup_part *p = &s->part[s->count++];

    *p = *like;
    p->path = find_here(p);
    if (p->path)
        return;
    if (s->options->from)
        p->source = source_of(s->options->from, p);
    if (p->source) /* it may have other weights than those that would be fetched */
        p->bytes = hub_copy_bytes(p->source);
    if (p->id && !s->options->from)
        s->cache_bytes += p->bytes;
    else if (!s->options->from || p->source)
        s->own_bytes += p->bytes;
}

static int choose_whisper(struct setup *s, const char *catalog, struct err *err)
{
    const struct setup_options *o = s->options;
    bool night;
    int rc = 0;

    if (o->model) {
        s->whisper = model_name_find(o->model);
        if (!s->whisper)
            return err_set(err, ERR_USAGE,
                           "'%.80s' is none of Whisper's names (tiny, base, small, medium, "
                           "large-v3, turbo, distil-large-v3, small.en and others). Another model "
                           "is fetched by `nightshift model pull ORG/NAME`",
                           o->model);
    } else {
        s->whisper = whisper_here();
        s->found = s->whisper != NULL;
        rc = choose_model(s, catalog, err);
        if (!s->whisper)
            s->whisper = o->from ? choose_from(o->from, s->fitting) : s->fitting;
    }
    if (rc == 0 && s->whisper != s->fitting)
        rc = try_model(s, catalog, s->whisper->name, &night, err);
    return rc;
}

int setup_look(const struct setup_options *o, const char *catalog, struct setup *ret,
               struct err *err)
{
    struct setup_part whisper;
    struct stat st;
    int rc;

    *ret = (struct setup){.options = o};
    if (o->from && (stat(o->from, &st) != 0 || !S_ISDIR(st.st_mode)))
        return err_set(err, ERR_MISSING, "there is no folder '%.300s'", o->from);
    rc = choose_whisper(ret, catalog, err);
    if (rc != 0)
        return rc;
    whisper = whisper_part(ret->whisper);
    add_part(ret, &whisper);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        add_part(ret, &others[i]);
    return 0;
}

void setup_free(struct setup *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->part[i].path);
        free(s->part[i].source);
    }
    s->count = 0;
}

uint32_t setup_lacking(const struct setup *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->count; i++)
        n += !s->part[i].path;
    return n;
}
