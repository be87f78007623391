/* tools/hub/hub_answer.h - a server, one answer of it while it arrives, and a status as a sentence.
 */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_ANSWER_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HUB_FIELD_MAX 128

struct hub_server {
    const char *base;     /* its address */
    const char *token;    /* NULL: none */
    const char *variable; /* that names another server; and where people read about the model: */
    const char *page;     /* both for messages */
};

/* A server's headers about a file. */
struct hub_head {
    char etag[HUB_FIELD_MAX];   /* X-Linked-Etag, else ETag; "": none */
    char commit[HUB_FIELD_MAX]; /* X-Repo-Commit; "": none */
    int64_t size_bytes;         /* X-Linked-Size, else Content-Length; -1: not said */
};

/* A file on its way. */
struct hub_part {
    const char *name;
    int fd;
    uint64_t size_bytes, have_bytes, got_bytes;
    uint64_t at; /* where it begins in the server's file; 0: it is that file, from its beginning */
};

/* The target of an answer's body: one of the two, or none. */
struct hub_answer {
    struct buf *body;
    struct hub_part *part;
    void (*on_bytes)(void *arg); /* after bytes of part were written */
    void *arg;

    long status; /* of the last response that began */
    bool own;    /* it comes from the server itself, not from where it redirected to */
    uint64_t header_bytes, dropped_bytes;
    bool is_placed;         /* where the body belongs in part */
    int64_t range_from;     /* of Content-Range; -1: none */
    int64_t content_length; /* -1: none */
    uint32_t retry_after_s; /* 0: not said */
    struct hub_head linked; /* what the server itself says of the file; kept across redirects */
    char etag[HUB_FIELD_MAX];
    char reason[HUB_FIELD_MAX]; /* X-Error-Code */
    enum {
        HUB_FINE,
        HUB_TOO_LONG,
        HUB_BAD_RANGE,
        HUB_NO_PARTS,
        HUB_WRITE_FAILED,
        HUB_NO_MEMORY
    } trouble;
    int errnum; /* of HUB_WRITE_FAILED */
};

/* Before each request of one exchange. */
void hub_answer_begin(struct hub_answer *a, bool own);
/* libcurl's callbacks; arg: struct hub_answer. */
size_t hub_answer_header(char *line, size_t one, size_t n, void *arg);
size_t hub_answer_body(char *data, size_t one, size_t n, void *arg);

/* A status from 400 on that trying again does not mend. */
int hub_answer_refused(const struct hub_answer *a, const struct hub_server *server,
                       struct err *err);

#endif
