/* One recording all the way through, on each device: by the program itself, as its users call it,
 * with a catalog in a folder that is removed again. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "gpu/devices/child.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/trial.h"
#include "tools/doctor/kept_words.h"
#include "workers/models/files/model_dir.h"

#define OUTPUT_MAX (1u << 16)

static const char wanted[] = "the words of the trial recording";
static const char todo[] =
    "if a line above is broken, begin there; else try `nightshift run --verbose --devices %s` with "
    "a recording of yours, and leave the device out (--devices) when it fails";

struct trial {
    struct doctor *d;
    const struct device *device;
    char folder[PATH_MAX / 2], recording[PATH_MAX], catalog[PATH_MAX];
    char error[300]; /* what the catalog says went wrong; "" */
    struct buf text;
};

/* ---------------------------------------------------------------------------------- folder */

static int make_folder(struct trial *t, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    int why = 0;
    FILE *f;

    snprintf(t->folder, sizeof(t->folder), "%s/nightshift-doctor-XXXXXX",
             tmp && tmp[0] == '/' && strlen(tmp) < PATH_MAX / 4 ? tmp : "/tmp");
    if (!mkdtemp(t->folder)) {
        why = errno;
        err_sys(err, why, "a folder for the trial, '%s'", t->folder);
        t->folder[0] = 0;
        return err->code;
    }
    snprintf(t->recording, sizeof(t->recording), "%s/trial.ogg", t->folder);
    f = fopen(t->recording, "wbe");
    if (!f)
        return err_sys(err, errno, "writing '%s'", t->recording);
    /* A full disk may show in the one call or in the other; a part of it would be called broken. */
    if (fwrite(trial_recording, 1, trial_recording_len, f) != trial_recording_len)
        why = errno ? errno : EIO;
    if (fclose(f) != 0 && why == 0)
        why = errno;
    return why == 0 ? 0 : err_sys(err, why, "writing '%s'", t->recording);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    remove(path); /* what cannot be removed is no reason to leave the rest */
    return 0;
}

static void remove_folder(struct trial *t)
{
    if (t->folder[0] != 0)
        nftw(t->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* --------------------------------------------------------------------------------- running */

/* A command of this program; its end as a sentence in *err. */
static int run_nightshift(struct trial *t, const char *const *argv, struct err *err)
{
    const struct child_options o = {
        .argv = argv, .limit_ms = t->d->limit_ms, .max_bytes = OUTPUT_MAX, .stop = t->d->stop};
    struct child_result r;
    char fate[120];

    if (child_run(&o, &r, err) != 0)
        return err->code;
    child_fate(&o, &r, fate, sizeof(fate));
    buf_free(&r.out);
    if (r.stopped)
        return err_set(err, ERR_CANCELLED, "interrupted");
    if (fate[0] == 0)
        return 0;
    return err_set(err, ERR_CRASH, "`nightshift %s` %s%s%s", argv[1], fate,
                   r.words[0] != 0 ? ": " : "", r.words);
}

static int enqueue_trial_recording(struct trial *t, struct err *err)
{
    /* The recording is ours, and of words that the demo's model knows. */
    const char *const argv[] = {"nightshift", "enqueue",  "--quiet",   "--allow-unsandboxed",
                                "--model",    MODEL_DEMO, "--catalog", t->catalog,
                                t->recording, NULL};

    return run_nightshift(t, argv, err);
}

static int run_trial_queue(struct trial *t, struct err *err)
{
    const char *const argv[] = {"nightshift",    "run",
                                "--quiet",       "--no-progress",
                                "--strict",      "--allow-unsandboxed",
                                "--attempts=1",  "--devices",
                                t->device->name, "--slots=1",
                                "--decoders=1",  "--catalog",
                                t->catalog,      NULL};

    return run_nightshift(t, argv, err);
}

/* --------------------------------------------------------------------------------- reading */

static int take_text(void *arg, const struct read_segment *row)
{
    struct trial *t = arg;

    buf_printf(&t->text, "%s ", row->text);
    return 0;
}

static int take_recording(void *arg, const struct read_recording *row)
{
    struct trial *t = arg;

    utf8_copy(t->error, sizeof(t->error), row->error);
    return 0;
}

static int read_back(struct trial *t, struct err *err)
{
    const struct read_filter all = {.limit = 1};
    struct store *st = NULL;
    int rc = store_open(t->catalog, STORE_READ, &st, err);

    if (rc == 0)
        rc = read_recordings(st, &all, take_recording, t, err);
    if (rc == 0)
        rc = read_segments(st, 1, 0, take_text, t, err);
    store_close(st);
    return rc;
}

/* --------------------------------------------------------------------------------- judging */

static void say_broken(struct trial *t, const char *name, const char *why)
{
    char what[400];

    snprintf(what, sizeof(what), todo, t->device->label);
    doctor_finding(t->d, FINDING_BROKEN, name, wanted, what, "%s", why);
}

static void report_trial_text(struct trial *t, const char *name, int64_t ms)
{
    const char *heard = buf_cstr(&t->text);
    unsigned count, kept = kept_words(TRIAL_TEXT, heard ? heard : "", &count);
    char why[600];

    /* Another precision may change a word; a device that computes nonsense keeps hardly any. */
    if (kept * 4 >= count * 3) {
        doctor_finding(t->d, FINDING_WELL, name, NULL, NULL,
                       "a recording of 6 s went all the way in %.1f s: %u of %u words",
                       (double)ms / 1000, kept, count);
        return;
    }
    snprintf(why, sizeof(why), "%u of %u words: '%.300s' where '%s' was said", kept, count,
             heard ? heard : "", TRIAL_TEXT);
    say_broken(t, name, why);
}

static void try_device(struct trial *t)
{
    char name[40], why[700];
    int64_t began = clock_mono_ms(), ms;
    struct err err = {0}, other = {0};
    int rc;

    snprintf(name, sizeof(name), "trial %.9s", t->device->label);
    snprintf(t->catalog, sizeof(t->catalog), "%s/%s.db", t->folder, t->device->label);
    t->error[0] = 0;
    buf_clear(&t->text);
    rc = enqueue_trial_recording(t, &err);
    if (rc == 0)
        rc = run_trial_queue(t, &err);
    ms = clock_mono_ms() - began;
    if (rc == ERR_CANCELLED)
        return;
    if (rc == 0)
        rc = read_back(t, &err);
    else
        (void)read_back(t, &other); /* it may know more */
    if (rc == 0 && t->error[0] == 0) {
        report_trial_text(t, name, ms);
        return;
    }
    snprintf(why, sizeof(why), "%s%s%s", t->error, t->error[0] != 0 && rc != 0 ? "; " : "",
             rc != 0 ? err.msg : "");
    say_broken(t, name, why);
}

void doctor_trials(struct doctor *d, const struct devices *all)
{
    struct trial t = {.d = d};
    struct err err = {0};

    if (make_folder(&t, &err) != 0)
        doctor_finding(d, FINDING_BROKEN, "trial", "a folder for a catalog of a moment",
                       "set TMPDIR to a folder that you may write and that has room", "%s",
                       err.msg);
    else
        for (uint32_t i = 0; i < all->count && !*d->stop; i++)
            if (!all->list[i].unusable) {
                t.device = &all->list[i];
                try_device(&t);
            }
    remove_folder(&t);
    buf_free(&t.text);
}
