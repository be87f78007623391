#include "scheduler/control/control_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/lock.h"

static uint64_t fnv1a(const char *s)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001B3u;
    return h;
}

int control_path_open(const char *catalog, struct control_path *ret, struct err *err)
{
    char *full, *slash, *name;
    int rc;

    rc = catalog_sibling(catalog, ".sock", &full, err);
    if (rc)
        return rc;
    slash = strrchr(full, '/');
    name = slash ? slash + 1 : full;
    memset(ret, 0, sizeof(*ret));
    if (strlen(name) < sizeof(ret->name))
        memcpy(ret->name, name, strlen(name) + 1);
    else
        snprintf(ret->name, sizeof(ret->name), ".nightshift-%016llx.sock",
                 (unsigned long long)fnv1a(name));
    if (slash)
        *name = 0; /* keeps the slash: "/" alone is a directory too */
    ret->dir = open(slash ? full : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (ret->dir < 0)
        rc = err_sys(err, errno, "the directory of the catalog");
    free(full);
    if (rc)
        return rc;
    ret->addr.sun_family = AF_UNIX;
    snprintf(ret->addr.sun_path, sizeof(ret->addr.sun_path), "/proc/self/fd/%d/%s", ret->dir,
             ret->name);
    return 0;
}

void control_path_close(struct control_path *p)
{
    if (p->dir >= 0)
        close(p->dir);
    p->dir = -1;
}

/* Only a socket: anything else of this name is somebody's. 0 or an errno. */
static int remove_socket(const struct control_path *p)
{
    struct stat info;

    if (fstatat(p->dir, p->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(info.st_mode))
        return EEXIST;
    return unlinkat(p->dir, p->name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

int control_path_listen(const struct control_path *p, struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why;

    if (fd < 0)
        return err_sys(err, errno, "the run's socket");
    /* Before bind: the file then comes into being with this mode, whatever the umask. */
    why = fchmod(fd, 0600) == 0 ? remove_socket(p) : errno;
    if (why == 0 &&
        (bind(fd, (const struct sockaddr *)&p->addr, sizeof(p->addr)) != 0 || listen(fd, 16) != 0))
        why = errno;
    if (why) {
        if (why == EEXIST)
            err_set(err, ERR_INPUT, "'%s' lies where the run's socket belongs: move it away",
                    p->name);
        else
            err_sys(err, why, "the run's socket '%s'", p->name);
        close(fd);
        return err->code;
    }
    return fd;
}

void control_path_unlink(const struct control_path *p) { remove_socket(p); }

int control_peer_check(int fd, struct err *err)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return err_sys(err, errno, "who is at the run's socket");
    if (peer.uid != geteuid() && peer.uid != 0)
        return err_set(err, ERR_DENIED, "the catalog's run belongs to another user (uid %u)",
                       (unsigned)peer.uid);
    return 0;
}
