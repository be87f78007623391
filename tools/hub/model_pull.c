/* nightshift model pull: a pull (hub.h), seen by the one who waits for it. */
#include "tools/hub/model_pull.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "tools/hub/hub_copy.h"
#include "tools/model_check.h"
#include "tools/cli/text.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"

#define LINE_MS 200       /* the line on a terminal is drawn so often */
#define LOG_LINE_MS 30000 /* and a line of its own is written so often where there is none */

/* ---- what is no id of the hub */

static const struct own_model {
    const char *name;
    int (*pull)(const struct hub_settings *s, const struct hub_watch *watch, struct hub_pulled *ret,
                struct err *err);
    const char *next; /* what is said at its end */
} own_models[] = {
    {SILERO_NAME, hub_pull_silero,
     "Next: nightshift enqueue /archive (voice activity is on by itself)"},
    {HUB_YAMNET, hub_pull_yamnet,
     "The weights are Google's (Apache-2.0), the names of sounds AudioSet's (CC BY-SA 4.0).\n"
     "Next: nightshift enqueue --sounds /archive"},
    {HUB_GE2E, hub_pull_ge2e,
     "Its networks were trained on real people; docs/how-to/tell-speakers-apart.md says how good "
     "they are.\n"
     "Their licences (MIT, Apache-2.0) are in segmentation/LICENSE and in the package.\n"
     "Next: nightshift enqueue --diarize=" HUB_GE2E " /archive"},
};

static const struct own_model *own_model(const char *name)
{
    for (size_t i = 0; i < sizeof(own_models) / sizeof(own_models[0]); i++)
        if (strcmp(name, own_models[i].name) == 0)
            return &own_models[i];
    return NULL;
}

/* ---- interrupted */

static volatile sig_atomic_t stopped;

static void on_signal(int signal) { stopped = signal; }

/* SIGPIPE too: a server that hangs up is an error, not an end. */
static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
#define CAUGHT (sizeof(caught) / sizeof(caught[0]))

static void catch_signals(struct sigaction was[CAUGHT])
{
    const struct sigaction catch = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < CAUGHT; i++)
        if (sigaction(caught[i], NULL, &was[i]) == 0 && was[i].sa_handler != SIG_IGN)
            sigaction(caught[i], caught[i] == SIGPIPE ? &ignore : &catch, NULL);
}

/* Nothing need be tidied up any more: a check of a large model ends at once. */
static void release_signals(const struct sigaction was[CAUGHT])
{
    for (size_t i = 0; i < CAUGHT; i++)
        sigaction(caught[i], &was[i], NULL);
}

/* ---- progress, on standard error */

struct show {
    bool quiet, terminal;
    bool line;            /* it stands on the terminal now */
    int64_t begun_ms;     /* the file that is on its way */
    uint64_t begun_bytes; /* what there was of it */
    int64_t shown_ms;
};

static void clear_line(struct show *s)
{
    if (s->line)
        fputs("\r\033[K", stderr);
    s->line = false;
}

/* "12 MB of 151 MB, 8.1 MB/s, 17 s left" */
static void how_far(const struct show *s, uint64_t have, uint64_t size, int64_t now, char *out,
                    size_t len)
{
    char a[TEXT_LEN], b[TEXT_LEN], c[TEXT_LEN], d[TEXT_LEN];
    const int64_t took_ms = now - s->begun_ms;
    const uint64_t got = have > s->begun_bytes ? have - s->begun_bytes : 0;
    double per_ms = took_ms > 0 ? (double)got / (double)took_ms : 0;

    text_bytes(have, a);
    text_bytes(size, b);
    if (took_ms < 1000 || per_ms <= 0)
        snprintf(out, len, "%s of %s", a, b);
    else
        snprintf(out, len, "%s of %s, %s/s, %s left", a, b,
                 text_bytes((uint64_t)(per_ms * 1000), c),
                 text_length((int64_t)((double)(size - have) / per_ms / 1000) * 1000, d));
}

static void print_download_progress(struct show *s, const char *file, uint64_t have, uint64_t size)
{
    const int64_t now = clock_mono_ms();
    char far[160], line[320], *fit;

    if (now - s->shown_ms < (s->terminal ? LINE_MS : LOG_LINE_MS))
        return;
    s->shown_ms = now;
    how_far(s, have, size, now, far, sizeof(far));
    if (!s->terminal) {
        fprintf(stderr, "  %-28s %s\n", file, far);
        return;
    }
    snprintf(line, sizeof(line), "  %-28.100s %s", file, far);
    fit = text_fit(line, cli_columns(stderr) - 1); /* a longer one could not be cleared */
    fprintf(stderr, "\r\033[K%s", fit ? fit : "");
    s->line = true;
    free(fit);
}

static void on_file(void *arg, enum hub_event event, const char *file, uint64_t have, uint64_t size)
{
    struct show *s = arg;
    char a[TEXT_LEN], b[TEXT_LEN];

    if (s->quiet)
        return;
    switch (event) {
    case HUB_HERE:
        break;
    case HUB_BEGIN:
        s->begun_ms = clock_mono_ms();
        s->begun_bytes = have;
        s->shown_ms = s->terminal ? 0 : s->begun_ms;
        if (have > 0)
            fprintf(stderr, "  %-28s goes on at %s of %s\n", file, text_bytes(have, a),
                    text_bytes(size, b));
        break;
    case HUB_STEP:
        print_download_progress(s, file, have, size);
        break;
    case HUB_DONE:
        clear_line(s);
        fprintf(stderr, "  %-28s %s\n", file, text_bytes(size, a));
        break;
    }
    fflush(stderr);
}

static void on_note(void *arg, const char *sentence)
{
    struct show *s = arg;

    clear_line(s);
    if (!s->quiet)
        cli_note("%s", sentence);
}

/* ---- the end of it */

static void print_next(const char *name, const struct hub_pulled *p, const char *stage, bool main)
{
    const struct own_model *own = own_model(name);
    char bytes[TEXT_LEN];
    char *path = utf8_display(p->path, strlen(p->path));

    if (p->fetched_bytes > 0)
        printf("Fetched: %s.\n", text_bytes(p->fetched_bytes, bytes));
    else
        puts("Nothing was fetched: all of it was here.");
    if (own)
        puts(own->next);
    else /* a name means the revision main, where that was fetched */
        printf("Next: nightshift enqueue --%s=%s /archive\n", stage_kind_find(stage)->option,
               main || !path ? name : path);
    free(path);
}

static int print_json(const struct hub_pulled *p, const struct model_check *c,
                      const struct err *err)
{
    json_t *o = model_check_json(c, err);

    if (!o)
        return cli_no_memory("say what was fetched");
    if (p->commit[0] != 0)
        json_object_set_new(o, "commit", json_string(p->commit));
    json_object_set_new(o, "fetched_bytes", json_integer((json_int_t)p->fetched_bytes));
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
    return EX_OK;
}

/* Checks the folder that was fetched as `model check` does. */
static int check_pulled_model(const struct cli *cli, const char *name, const struct hub_pulled *p,
                              bool main)
{
    const bool silero = strcmp(name, SILERO_NAME) == 0;
    struct model_check c;
    struct err err = {0};
    char doing[200];
    int status = EX_OK;

    snprintf(doing, sizeof(doing), "use '%.120s', though all of it was fetched", name);
    if (model_check(silero ? SILERO_NAME : p->path, &c, &err) != 0)
        status = cli_fail(doing, &err, NULL);
    if (cli->json && print_json(p, &c, &err) != EX_OK)
        status = EX_OSERR;
    if (!cli->json && !cli->quiet && status == EX_OK) {
        model_check_print(name, &c);
        print_next(name, p, c.stage, main);
    }
    model_check_free(&c);
    return cli_flush(status);
}

static int report_pull_failure(const char *name, const struct err *err)
{
    char doing[200];

    snprintf(doing, sizeof(doing), "pull '%.120s'", name);
    return cli_fail(doing, err,
                    err->code == ERR_CANCELLED
                        ? "The same command resumes from here; downloaded data is kept."
                        : NULL);
}

static int fetch_model(const struct hub_settings *s, const struct hub_watch *watch,
                       const char *name, const char *revision, struct hub_pulled *ret,
                       struct err *err)
{
    const struct own_model *own = own_model(name);
    const struct model_name *known = model_name_find(name);

    if (own)
        return own->pull(s, watch, ret, err);
    return hub_pull(s, known ? known->hub : name, revision ? revision : "main", watch, ret, err);
}

int model_fetch(bool quiet, bool offline, const char *name, const char *revision,
                struct hub_pulled *ret, struct err *err)
{
    struct show show = {.quiet = quiet, .terminal = isatty(STDERR_FILENO)};
    const struct hub_watch watch = {on_file, on_note, &show, &stopped};
    struct hub_settings settings = {0};
    struct sigaction was[CAUGHT] = {0};
    int rc;

    catch_signals(was);
    rc = hub_settings_read(&settings, err);
    settings.offline |= offline;
    if (rc == 0)
        rc = fetch_model(&settings, &watch, name, revision, ret, err);
    clear_line(&show);
    release_signals(was);
    hub_settings_free(&settings);
    return rc;
}

int model_copy(bool quiet, const char *from, const char *to, uint64_t *got_bytes, struct err *err)
{
    struct show show = {.quiet = quiet, .terminal = isatty(STDERR_FILENO)};
    const struct hub_watch watch = {on_file, on_note, &show, &stopped};
    struct sigaction was[CAUGHT] = {0};
    int rc;

    catch_signals(was);
    rc = hub_copy(from, to, &watch, got_bytes, err);
    clear_line(&show);
    release_signals(was);
    return rc;
}

int model_pull(const struct cli *cli, const char *name, const char *revision)
{
    const bool main = !revision || strcmp(revision, "main") == 0;
    struct hub_pulled pulled = {0};
    struct err err = {0};
    int status;

    if (own_model(name) && revision)
        return cli_usage(cli, "there is one %s; leave --revision out", name);
    if (model_fetch(cli->quiet, false, name, revision, &pulled, &err) != 0)
        status = report_pull_failure(name, &err);
    else
        status = check_pulled_model(cli, name, &pulled, main);
    hub_pulled_free(&pulled);
    return status;
}
