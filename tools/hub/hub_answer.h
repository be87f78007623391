/* tools/hub/hub_answer.h - one answer of a server while it arrives, and a status as a sentence.
 * hub_http.c's own. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_ANSWER_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_ANSWER_H

#include "tools/hub/hub_http.h"

/* Where an answer's body goes: one of the two, or nowhere. */
struct hub_answer {
    struct buf *body;
    struct hub_part *part;
    void (*on_bytes)(void *arg); /* after bytes of part were written */
    void *arg;

    long status; /* of the last response that began */
    bool own;    /* it comes from the server itself, not from where it redirected to */
    uint64_t header_bytes, dropped_bytes;
    bool settled;           /* where the body belongs in part */
    int64_t range_from;     /* of Content-Range; -1: none */
    int64_t content_length; /* -1: none */
    uint32_t retry_after_s; /* 0: not said */
    struct hub_head linked; /* what the server itself says of the file; kept across redirects */
    char etag[HUB_FIELD_MAX];
    char reason[HUB_FIELD_MAX]; /* X-Error-Code */
    enum { HUB_FINE, HUB_TOO_LONG, HUB_BAD_RANGE, HUB_WRITE_FAILED, HUB_NO_MEMORY } trouble;
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
