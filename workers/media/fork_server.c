#include "workers/media/fork_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spawn.h"

/* starter                     server
 *    | -- 1 byte, descriptors --> |     forks
 *    | <-- its number, or -errno  |
 * over a socket that keeps messages apart; its end is the server's. */
#define ORDERS_FD 3
#define FIRST_FD 2 /* of a process's own files */
#define ANSWER_MS 10000

struct fork_server {
    pid_t pid;
    int sock;
};

union order_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * FORK_SERVER_FILES)];
};

/* --- the starter's side --- */

int fork_server_open(const char *program, const char *const argv[], struct fork_server **ret)
{
    struct fork_server *s = calloc(1, sizeof(*s));
    int ends[2], rc;

    if (!s)
        return ENOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        rc = errno;
        free(s);
        return rc;
    }
    rc = spawn_start(program, argv, (int[]){SPAWN_NULL, SPAWN_NULL, STDERR_FILENO, ends[1]}, 4,
                     &s->pid);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        free(s);
        return rc;
    }
    s->sock = ends[0];
    *ret = s;
    return 0;
}

static int send_order(int sock, const int files[], size_t count)
{
    union order_control control = {0};
    char byte = 1;
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    ssize_t sent;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(c), files, sizeof(int) * count);
    do {
        sent = sendmsg(sock, &m, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == 1 ? 0 : errno;
}

/* The process's number, or a negative errno value. A server that does not answer is given up: it
 * has nothing else to do. */
static pid_t get_answer(int sock)
{
    struct pollfd f = {.fd = sock, .events = POLLIN};
    pid_t answer;
    int ready;

    do {
        ready = poll(&f, 1, ANSWER_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0 || recv(sock, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer))
        return -EPIPE;
    return answer != 0 ? answer : -EPIPE;
}

int fork_server_start(struct fork_server *s, const int files[], size_t count, pid_t *ret)
{
    pid_t answer;
    int rc;

    if (count == 0 || count > FORK_SERVER_FILES)
        return EINVAL;
    rc = send_order(s->sock, files, count);
    answer = rc == 0 ? get_answer(s->sock) : 0;
    if (answer == -EPIPE) /* what it answers later would be taken for the next one's */
        shutdown(s->sock, SHUT_RDWR);
    if (rc == ECONNRESET || rc == ENOTCONN)
        return EPIPE;
    if (rc != 0)
        return rc;
    if (answer < 0)
        return -answer;
    setpgid(answer, answer); /* the child does the same: either may be first */
    *ret = answer;
    return 0;
}

int fork_server_close(struct fork_server *s)
{
    int status;

    if (!s)
        return -1;
    close(s->sock);
    status = spawn_end(s->pid, -1);
    free(s);
    return status;
}

/* --- the server's side --- */

/* How many descriptors came with it: 0 at the starter's end, -1 when this is no such socket. */
static int get_order(int files[FORK_SERVER_FILES])
{
    union order_control control;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c;
    size_t bytes;
    ssize_t got;

    do {
        got = recvmsg(ORDERS_FD, &m, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 && errno != ECONNRESET ? -1 : 0;
    c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return -1;
    bytes = c->cmsg_len - CMSG_LEN(0);
    memcpy(files, CMSG_DATA(c), bytes);
    return (int)(bytes / sizeof(int));
}

/* Through copies up there, out of the way of the numbers that are wanted. False: none are left. */
static bool place_files(const int files[], int count)
{
    for (int i = 0; i < count; i++) {
        int copy = fcntl(files[i], F_DUPFD_CLOEXEC, FIRST_FD + FORK_SERVER_FILES + i);

        if (copy < 0 || copy != FIRST_FD + FORK_SERVER_FILES + i)
            return false;
    }
    for (int i = 0; i < count; i++)
        if (dup2(FIRST_FD + FORK_SERVER_FILES + i, FIRST_FD + i) < 0)
            return false;
    return close_range((unsigned)(FIRST_FD + count), ~0u, 0) == 0;
}

/* Like fork, but the child's parent is our parent; the C library has no call for that. Safe because
 * this process has one thread, which holds none of the library's locks. */
static pid_t fork_sibling(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

int fork_server_main(int (*child)(void))
{
    int files[FORK_SERVER_FILES];
    int count = 0;

    if (!spawn_begun(ORDERS_FD))
        return 0;
    while ((count = get_order(files)) > 0) {
        pid_t pid = fork_sibling();

        if (pid == 0) {
            setpgid(0, 0);
            return place_files(files, count) ? child() : 1;
        }
        pid = pid < 0 ? -errno : pid;
        for (int i = 0; i < count; i++)
            close(files[i]);
        if (send(ORDERS_FD, &pid, sizeof(pid), MSG_NOSIGNAL) != (ssize_t)sizeof(pid))
            break;
    }
    return count < 0 ? -1 : 0;
}
