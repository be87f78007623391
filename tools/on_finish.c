#include "tools/on_finish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "tools/cli/cli.h"
#include "tools/report/report.h"

#define COLUMNS 78 /* of a mail */
#define LOOK_US 20000
#define KILLED_MS 5000

static void put_count(const char *name, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    setenv(name, text, 1);
}

static void put_environment(const char *catalog, const struct scheduler_result *r, uint64_t left,
                            const struct err *failure)
{
    setenv("NIGHTSHIFT_CATALOG", catalog, 1);
    setenv("NIGHTSHIFT_WHY", failure->code || !r->why ? "failed" : r->why, 1);
    setenv("NIGHTSHIFT_REASON", failure->code ? failure->msg : "", 1);
    put_count("NIGHTSHIFT_DONE", r->recordings_done);
    put_count("NIGHTSHIFT_FAILED", r->recordings_failed);
    put_count("NIGHTSHIFT_LEFT", left);
}

/* Writes what the command reads: the report, or why the catalog cannot be read. *left: recordings
 * still to do. */
static void write_report(const char *catalog, const struct err *failure, struct buf *out,
                         uint64_t *left)
{
    struct report report;
    struct err err = {0};

    if (failure->code)
        buf_printf(out, "The run failed: %s\n\n", failure->msg);
    if (access(catalog, F_OK) != 0) /* which the failure says */
        return;
    if (report_make(catalog, 1, &report, &err) == 0) {
        report_text(&report, COLUMNS, out);
        *left = report.totals.archive.pending;
    } else {
        buf_printf(out, "There is no report: %s\n", err.msg);
    }
    report_free(&report);
}

/* A file that is nowhere: a command that reads nothing of it is no broken pipe. -1: errno. */
static int as_file(const struct buf *b)
{
    int fd = memfd_create("report", MFD_CLOEXEC);
    size_t at = 0;

    while (fd >= 0 && at < b->len) {
        ssize_t n = write(fd, b->data + at, b->len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int64_t limit_ms(void)
{
    const char *text = getenv("NIGHTSHIFT_ON_FINISH_SECONDS");
    char *end = NULL;
    long s = text ? strtol(text, &end, 10) : 0;

    return (text && end != text && *end == 0 && s > 0 && s <= 86400 ? s : ON_FINISH_SECONDS) * 1000;
}

static void wait_for(pid_t pid)
{
    const int64_t limit = limit_ms(), end = clock_mono_ms() + limit;
    bool ended;
    int status;

    while (!(ended = spawn_ended(pid)) && clock_mono_ms() < end)
        usleep(LOOK_US);
    status = spawn_end(pid, KILLED_MS);
    if (!ended)
        log_warn("--on-finish: the command was ended after %lld s", (long long)limit / 1000);
    else if (status >= 0 && WIFSIGNALED(status))
        log_warn("--on-finish: the command was ended by signal %d", WTERMSIG(status));
    else if (status >= 0 && WEXITSTATUS(status) != 0)
        log_warn("--on-finish: the command left with %d", WEXITSTATUS(status));
}

void on_finish(const char *command, const char *catalog, const struct scheduler_result *r,
               const struct err *failure)
{
    const char *const argv[] = {"sh", "-c", command, NULL};
    struct buf b = BUF_INIT;
    uint64_t left = r->recordings_left;
    int file, rc;
    pid_t pid;

    write_report(catalog, failure, &b, &left);
    put_environment(catalog, r, left, failure);
    fflush(stdout);
    file = b.failed ? -1 : as_file(&b);
    rc = file < 0 ? (b.failed ? ENOMEM : errno)
                  : spawn_start("/bin/sh", argv, (const int[]){file, STDERR_FILENO, STDERR_FILENO},
                                3, &pid);
    if (file >= 0)
        close(file);
    buf_free(&b);
    if (rc)
        log_warn("--on-finish: the command cannot be started: %s", strerror(rc));
    else
        wait_for(pid);
}
