#include "tools/writer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "scheduler/control/control.h"
#include "store/lock.h"
#include "tools/cli/cli.h"

struct writer {
    char *catalog, *purpose;
    int wait_ms;
    bool quiet;
    /* Either lock and a writing store, or control and a reading one. */
    struct catalog_lock *lock;
    struct control *control;
    struct store *store;
};

static void let_go(struct writer *w)
{
    if (w->control)
        control_close(w->control);
    w->control = NULL;
    if (w->store)
        store_close(w->store);
    w->store = NULL;
    catalog_lock_release(w->lock);
    w->lock = NULL;
}

/* 0: w writes, by itself or through a run. ERR_LOCKED: a command that listens to nobody holds the
 * catalog, or a run that is just starting or ending. */
static int take_hold(struct writer *w, struct err *err)
{
    struct err other = {0};
    int rc = catalog_lock_take(w->catalog, w->purpose, &w->lock, err);

    if (rc == 0)
        rc = store_open(w->catalog, STORE_WRITE, &w->store, err);
    else if (rc == ERR_LOCKED && control_connect(w->catalog, &w->control, &other) == 0) {
        err->code = 0;
        err->msg[0] = 0;
        rc = store_open(w->catalog, STORE_READ, &w->store, err);
    }
    if (rc != 0)
        let_go(w);
    return rc;
}

static int take_hold_waiting(struct writer *w, struct err *err)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    int64_t deadline = clock_mono_ms() + w->wait_ms;
    bool said = false;

    for (;;) {
        int rc = take_hold(w, err);

        if (rc != ERR_LOCKED || clock_mono_ms() >= deadline)
            return rc;
        if (!said && !w->quiet && clock_mono_ms() > deadline - w->wait_ms + 500) {
            cli_note("%s. Waiting for it ...", err->msg);
            said = true;
        }
        nanosleep(&pause, NULL);
    }
}

int writer_open(const char *catalog, const char *purpose, int wait_ms, bool quiet,
                struct writer **ret, struct err *err)
{
    struct writer *w = calloc(1, sizeof(*w));
    int rc;

    if (w) {
        w->catalog = strdup(catalog);
        w->purpose = strdup(purpose);
        w->wait_ms = wait_ms;
        w->quiet = quiet;
    }
    if (!w || !w->catalog || !w->purpose)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else
        rc = take_hold_waiting(w, err);
    if (rc != 0) {
        writer_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void writer_close(struct writer *w)
{
    if (!w)
        return;
    let_go(w);
    free(w->catalog);
    free(w->purpose);
    free(w);
}

bool writer_through_run(const struct writer *w) { return w->control != NULL; }

struct store *writer_store(struct writer *w) { return w->store; }

static bool connection_lost(int code)
{
    return code == ERR_EMPTY || code == ERR_IO || code == ERR_PROTOCOL || code == ERR_TIMEOUT;
}

int writer_request(struct writer *w, const struct request *rq, struct request_reply *ret,
                   struct err *err)
{
    int rc;

    if (!w->control)
        return request_apply(w->store, rq, ret, err);
    rc = control_request(w->control, rq, ret, err);
    if (!connection_lost(rc))
        return rc;
    let_go(w);
    rc = take_hold_waiting(w, err);
    if (rc != 0)
        return rc;
    return w->control ? control_request(w->control, rq, ret, err)
                      : request_apply(w->store, rq, ret, err);
}
