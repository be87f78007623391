#include "scheduler/control/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"
#include "store/lock.h"
#include "workers/wire/fields.h"

/* ---- the address of a run's local socket */

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

/* ---- what goes over a run's local socket, beside the store's requests and replies */

#define SPEED_MAX UINT64_C(1000000000000) /* times real time; more is no speed */

/* A speed goes as thousandths. */
struct live {
    struct control_live m;
    uint64_t thousandths;
    struct control_device *devices; /* read: its own; written: m.device */
};

static const struct field device_list[] = {
    FIELD_CHARS(control_device, name),
    FIELD_BOOL(control_device, ready),
    FIELD_BOOL(control_device, left),
    FIELD_CHARS(control_device, user),
    FIELD_I64(control_device, percent, -1, 100),
    FIELD_I64(control_device, celsius, -1, 1000),
    FIELD_I64(control_device, milliwatts, -1, INT64_MAX),
    FIELD_I64(control_device, used_bytes, -1, INT64_MAX),
    FIELD_I64(control_device, total_bytes, -1, INT64_MAX),
    FIELD_CHARS(control_device, health),
};

static const struct field live_list[] = {
    FIELD_U32(live, m.pid, 0, UINT32_MAX),
    FIELD_U32(live, m.workers, 0, UINT32_MAX),
    FIELD_U32(live, m.workers_ready, 0, UINT32_MAX),
    FIELD_I64(live, m.started_ms, INT64_MIN, INT64_MAX),
    FIELD_U64(live, m.audio_done_ms, UINT64_MAX),
    FIELD_U64(live, thousandths, SPEED_MAX * 1000),
    FIELD_I64(live, m.low_ms, -1, INT64_MAX),
    FIELD_I64(live, m.high_ms, -1, INT64_MAX),
    FIELD_BOOL(live, m.draining),
    FIELD_CHARS(live, m.note),
    FIELD_CHARS(live, m.hours),
    FIELD_CHARS(live, m.work),
    FIELD_I64(live, m.work_percent, -1, 100),
    FIELD_U32(live, m.work_more, 0, UINT32_MAX),
    FIELD_ARRAY(live, devices, m.devices, CONTROL_DEVICES, device_list),
};

static const struct fields live_fields = FIELDS("status", live, live_list, NULL);

void control_live_put(struct buf *out, const struct control_live *m)
{
    struct live live = {.m = *m};

    live.devices = live.m.device;
    if (m->speed > 0 && m->speed <= (double)SPEED_MAX)
        live.thousandths = (uint64_t)(m->speed * 1000);
    fields_put(out, &live_fields, &live);
}

int control_live_get(const uint8_t *data, size_t len, struct control_live *ret, struct err *err)
{
    struct live live;

    if (fields_get(data, len, &live_fields, &live, err))
        return err_set(err, err->code, "the run's status is not understood");
    *ret = live.m;
    for (uint32_t i = 0; i < ret->devices; i++)
        ret->device[i] = live.devices[i];
    ret->speed = (double)live.thousandths / 1000;
    fields_free(&live_fields, &live);
    return 0;
}

/* An error and its message in raw bytes, because it may name a file. */
struct said {
    int code;
    const char *text;
};

static const struct field said_list[] = {
    FIELD_CODE(said, code, ERR_LAST, -1),
    FIELD_NAME(said, text, 4096),
};

static const struct fields said_fields = FIELDS("error", said, said_list, NULL);

void control_error_put(struct buf *out, const struct err *e)
{
    const struct said said = {e->code, e->msg};

    fields_put(out, &said_fields, &said);
}

int control_error_get(const uint8_t *data, size_t len, struct err *err)
{
    struct said said;
    char *shown;

    if (fields_get(data, len, &said_fields, &said, err))
        return err_set(err, err->code, "the run's answer is not understood");
    shown = utf8_display(said.text, strlen(said.text));
    err_set(err, shown ? said.code : ERR_NOMEM, "%s", shown ? shown : "no memory for an answer");
    free(shown);
    fields_free(&said_fields, &said);
    return err->code;
}
