/* scheduler/control/control_path.h - the address of a run's local socket.
 *
 * The socket lies beside the catalog as FILE.sock. A socket's address holds 108 bytes, a path may
 * have thousands: so it is always addressed through the open directory, as
 * /proc/self/fd/N/FILE.sock, and a name that is too long even for that becomes
 * ".nightshift-<hash of the name>.sock", which both sides compute alike. */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_PATH_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_PATH_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

struct control_path {
    int dir;                 /* open (O_PATH); control_path_close closes it */
    char name[64];           /* within it */
    struct sockaddr_un addr; /* valid while dir is open */
};

/* ERR_MISSING when the catalog's directory does not exist. */
int control_path_open(const char *catalog, struct control_path *ret, struct err *err);
void control_path_close(struct control_path *p);

/* Binds and listens with mode 0600, replacing a stale socket: the caller holds the catalog's lock,
 * so that whoever left it is dead. What is no socket stays, and is an error. Returns the descriptor
 * (non-blocking, close-on-exec) or an error. */
int control_path_listen(const struct control_path *p, struct err *err);
void control_path_unlink(const struct control_path *p);

/* Is the peer of a connected socket the same user (or root)? */
int control_peer_check(int fd, struct err *err);

#endif
