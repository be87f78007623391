/* scheduler/control/control_socket.h - a run's local socket: its address, and what goes over it
 * beside the store's requests and replies. */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_SOCKET_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- the address of a run's local socket.
 *
 * The socket lies beside the catalog as FILE.sock. A socket's address holds 108 bytes, a path may
 * have thousands: so it is always addressed through the open directory, as
 * /proc/self/fd/N/FILE.sock, and a name that is too long even for that becomes ".nightshift-<hash
 * of the name>.sock", which both sides compute alike. */

struct control_path {
    int dir;                 /* open (O_PATH); control_path_close closes it */
    char name[64];           /* within it */
    struct sockaddr_un addr; /* valid while dir is open */
};

/* ERR_MISSING when the catalog's directory does not exist. */
int control_path_open(const char *catalog, struct control_path *ret, struct err *err);
void control_path_close(struct control_path *p);

/* Binds and listens with mode 0600, replacing a stale socket: the caller holds the catalog's lock,
 * so that whoever left it is dead. A file that is no socket stays, and is an error. Returns the
 * descriptor (non-blocking, close-on-exec) or an error. */
int control_path_listen(const struct control_path *p, struct err *err);
void control_path_unlink(const struct control_path *p);

/* Is the peer of a connected socket the same user (or root)? */
int control_peer_check(int fd, struct err *err);

enum control_type {
    CONTROL_REQUEST = 100,
    CONTROL_REPLY,
    CONTROL_ERROR, /* i32 code, string */
    CONTROL_STATUS,
    CONTROL_LIVE,
};

#define CONTROL_DEVICES 64u

struct control_device {
    char name[48]; /* "cuda:0", "cpu #2" */
    bool ready;    /* its worker takes work */
    bool left;     /* it is left to others (run --idle), */
    char user[32]; /*   of whom this is known: "pid 4711"; "" */
    /* The driver's figures for the whole device; -1: not known. */
    int64_t percent, celsius, milliwatts, used_bytes, total_bytes;
    char health[160]; /* by the driver, for people: "slowed down: it is too hot"; "" well */
};

struct control_live { /* what only the run knows */
    uint32_t pid, workers;
    /* The workers that take work. A worker's results are in the catalog before it stops being
     * counted (unless the catalog cannot be written, or the run is told to stop at once). Its
     * process ends some moments later, and frees the device's memory. */
    uint32_t workers_ready;
    int64_t started_ms;      /* wall clock */
    uint64_t audio_done_ms;  /* in this run, by the heartbeats */
    double speed;            /* times real time, of the last minutes */
    int64_t low_ms, high_ms; /* until its end; -1 unknown */
    bool draining;
    char note[64];        /* what it waits for: "paused", "resting until 22:00"; "" nothing */
    char hours[64];       /* at which it works: "22:00-06:00, until 07:00"; "" at any */
    char work[240];       /* a recording in work, its name for people, cut to that; "" none is */
    int64_t work_percent; /* of it; -1: too short to tell */
    uint32_t work_more;   /* others in work */
    struct control_device device[CONTROL_DEVICES];
    uint32_t devices; /* of them; a run of more tells of the first */
};

void control_live_put(struct buf *out, const struct control_live *m);
int control_live_get(const uint8_t *data, size_t len, struct control_live *ret, struct err *err);
void control_error_put(struct buf *out, const struct err *e);
/* Returns the code that was sent, or ERR_PROTOCOL; *err has the sentence. */
int control_error_get(const uint8_t *data, size_t len, struct err *err);

#endif
