#include "scheduler/catalog_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "scheduler/run/report.h"
#include "store/files.h"

/* Later commits would be lost when the last process closes the file. */
void catalog_watch_place(struct run *run)
{
    if (run->catalog.astray.code || store_in_place(run->st, &run->catalog.astray) == 0)
        return;
    report_event(run, LOG_ERROR, "%s; stopping", run->catalog.astray.msg);
    run_fail(run, &run->catalog.astray);
}

static void tell_of_log(struct run *run, bool waiting, uint64_t log_bytes, uint64_t free_bytes)
{
    unsigned long long log_mb = log_bytes / 1000000, free_mb = free_bytes / 1000000;
    struct err err = {0};
    char who[160], text[480];

    store_log_readers(run->st, who, sizeof(who));
    if (waiting)
        snprintf(
            text, sizeof(text),
            "%llu MB are left on the catalog's disk, and its log of %llu MB cannot be emptied "
            "while %s reads it: nothing new is started until that ends, or there is more space",
            free_mb, log_mb, who);
    else
        snprintf(text, sizeof(text),
                 "the catalog's log has grown to %llu MB, and grows on while %s reads in one "
                 "transaction: close it",
                 log_mb, who);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "log-held", 0, "", text, &err), &err);
    run_note_commit(run);
}

static void tell_of_disk(struct run *run, uint64_t free_bytes)
{
    struct err err = {0};
    char text[200];

    snprintf(
        text, sizeof(text),
        "%llu MB are left on the catalog's disk: nothing new is started until there is more space",
        (unsigned long long)free_bytes / 1000000);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "disk-full", 0, "", text, &err), &err);
    run_note_commit(run);
}

/* A reader that was forgotten keeps the catalog's log from being emptied. */
void catalog_watch_log(struct run *run, int64_t now)
{
    struct disk_space_limits limits = {run->tune.log_bytes, run->tune.free_bytes,
                                       run->tune.full_bytes};
    uint64_t log_bytes, free_bytes, all_bytes;
    struct err err = {0};

    if (now < run->catalog.disk_space_due_ms || run->tick.mode == RUN_ENDING)
        return;
    run->catalog.disk_space_due_ms = now + run->tune.room_ms;
    log_bytes = store_log_bytes(run->st);
    /* That it could not be emptied its length tells, and what else is wrong the next commit. */
    if (log_bytes > limits.log_bytes && store_log_empty(run->st, &err) == 0)
        log_bytes = 0;
    if (store_log_room(run->st, &free_bytes, &all_bytes, &err))
        return;
    if (limits.full_bytes > all_bytes / 20) /* a small disk is no reason to wait */
        limits.full_bytes = all_bytes / 20;
    switch (disk_space_look(&run->catalog.disk_space, &limits, log_bytes, free_bytes)) {
    case DISK_SPACE_HELD:
        tell_of_log(run, false, log_bytes, free_bytes);
        break;
    case DISK_SPACE_SHORT:
        tell_of_log(run, true, log_bytes, free_bytes);
        break;
    case DISK_SPACE_FULL:
        tell_of_disk(run, free_bytes);
        break;
    case DISK_SPACE_AGAIN:
        report_event(run, LOG_INFO, "there is space on the catalog's disk again; continuing");
        break;
    case DISK_SPACE_NOTHING:
        break;
    }
}

/* All that the open file holds goes to another one, and the run ends with that: whatever else went
 * wrong, this is what somebody must know. */
void catalog_watch_rescue(struct run *run)
{
    struct err err = {0};
    char *path = NULL;

    if (store_rescue(run->st, &path, &err) == 0)
        err_set(&run->failure, run->catalog.astray.code,
                "%s; the whole catalog, with what this run did, is now in '%s' beside it: move "
                "that to the catalog's place%s and try again",
                run->catalog.astray.msg, strrchr(path, '/') + 1,
                run->catalog.astray.code == ERR_CHANGED
                    ? " (what lies there, with its -wal, away first)"
                    : "");
    else
        err_set(&run->failure, run->catalog.astray.code,
                "%s, and what this run did could not be saved beside it: %s",
                run->catalog.astray.msg, err.msg);
    free(path);
}
