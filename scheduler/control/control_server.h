/* scheduler/control/control_server.h - the run's side of the local socket.
 *
 * Bounded: so many clients, one frame in memory for each, one question at a time (nothing further
 * is read while an answer waits to be taken). Who does not take its answer, or has no whole request
 * ready in time, is closed; when there are too many, the one that has been idle longest. A client
 * that is in an enqueue may be silent between two requests, and stays. Loop thread only. */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_SERVER_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "scheduler/control/control.h"

#define CONTROL_CLIENTS_MAX 32u
#define CONTROL_PATIENCE_MS 20000
#define CONTROL_AGAIN_MS 50 /* until what could not be done now is tried again */

struct control_server;

struct control_handler { /* copied */
    /* Applies a request: 0 and *ret, or an error that the client is told, or 1: there is more to
     * do, and it is called again from the loop with the same rq and *work (NULL at first), so that
     * a request of a million rows does not hold the loop. 2: the same, after a moment. */
    int (*request)(void *arg, const struct request *rq, struct request_work **work,
                   struct request_reply *ret, struct err *err);
    void (*status)(void *arg, struct control_live *ret);
    void *arg;
    uint32_t patience_ms; /* for a whole request to come, or an answer to be taken; 0: the above */
};

/* The caller holds the catalog's lock and keeps the loop. */
int control_server_start(uv_loop_t *loop, const char *catalog, const struct control_handler *h,
                         struct control_server **ret, struct err *err);
/* Is an enqueue between its begin and its end? Its client would rather not lose the run. */
bool control_server_busy(const struct control_server *s);
/* Is a request half done? */
bool control_server_working(const struct control_server *s);
/* Closes all, drops what is half done and removes the socket; the store must still be open. The
 * memory goes when the loop has run once more. NULL is fine. */
void control_server_stop(struct control_server *s);

#endif
