#include "tools/hub/hub_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HEADERS_MAX_BYTES (256u << 10)
#define DROPPED_MAX_BYTES (64u << 10) /* of a page that nobody reads */
#define RETRY_AFTER_MAX_S 60

void hub_answer_begin(struct hub_answer *a, bool own)
{
    a->own = own;
    a->status = 0;
    a->header_bytes = a->dropped_bytes = 0;
    a->trouble = HUB_FINE;
}

/* ---- headers */

static void new_response(struct hub_answer *a, const char *line)
{
    const char *blank = strchr(line, ' ');

    a->status = blank ? strtol(blank, NULL, 10) : 0;
    a->range_from = a->content_length = -1;
    a->retry_after_s = 0;
    a->is_placed = false;
    a->etag[0] = a->reason[0] = 0;
}

/* A value that is too long is none. */
static void copy_header_value(char out[HUB_FIELD_MAX], const char *value)
{
    size_t n = strlen(value);

    if (n < HUB_FIELD_MAX)
        memcpy(out, value, n + 1);
    else
        out[0] = 0;
}

/* Digits alone, up to `end`; -1 otherwise. */
static int64_t parse_header_number(const char *value, char end)
{
    char *stop;
    long long v;

    errno = 0;
    v = strtoll(value, &stop, 10);
    return value[0] >= '0' && value[0] <= '9' && *stop == end && errno == 0 ? (int64_t)v : -1;
}

static void take_field(struct hub_answer *a, const char *name, const char *value)
{
    if (strcasecmp(name, "content-length") == 0)
        a->content_length = parse_header_number(value, 0);
    else if (strcasecmp(name, "content-range") == 0)
        a->range_from =
            strncasecmp(value, "bytes ", 6) == 0 ? parse_header_number(value + 6, '-') : -1;
    else if (strcasecmp(name, "retry-after") == 0 && parse_header_number(value, 0) > 0)
        a->retry_after_s = (uint32_t)(parse_header_number(value, 0) < RETRY_AFTER_MAX_S
                                          ? parse_header_number(value, 0)
                                          : RETRY_AFTER_MAX_S);
    else if (strcasecmp(name, "etag") == 0)
        copy_header_value(a->etag, value);
    else if (strcasecmp(name, "x-error-code") == 0)
        copy_header_value(a->reason, value);
    else if (a->own && strcasecmp(name, "x-linked-etag") == 0)
        copy_header_value(a->linked.etag, value);
    else if (a->own && strcasecmp(name, "x-repo-commit") == 0)
        copy_header_value(a->linked.commit, value);
    else if (a->own && strcasecmp(name, "x-linked-size") == 0)
        a->linked.size_bytes = parse_header_number(value, 0);
}

size_t hub_answer_header(char *line, size_t one, size_t n, void *arg)
{
    struct hub_answer *a = arg;
    char text[1024], *value;
    size_t end;

    a->header_bytes += n * one;
    if (a->header_bytes > HEADERS_MAX_BYTES) {
        a->trouble = HUB_TOO_LONG;
        return 0;
    }
    if (n * one >= sizeof(text))
        return n * one; /* none that we read is so long */
    memcpy(text, line, n * one);
    text[n * one] = 0;
    if (strncmp(text, "HTTP/", 5) == 0)
        new_response(a, text);
    value = strchr(text, ':');
    if (value) {
        *value++ = 0;
        value += strspn(value, " \t");
        for (end = strlen(value); end > 0 && strchr(" \t\r\n", value[end - 1]); end--)
            value[end - 1] = 0;
        take_field(a, text, value);
    }
    return n * one;
}

/* ---- bodies */

static bool write_all(struct hub_answer *a, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t wrote = pwrite(a->part->fd, data, n, (off_t)a->part->have_bytes);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            a->trouble = HUB_WRITE_FAILED;
            a->errnum = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        data += wrote;
        n -= (size_t)wrote;
        a->part->have_bytes += (uint64_t)wrote;
        a->part->got_bytes += (uint64_t)wrote;
    }
    return true;
}

/* The first bytes of a file say where in it they belong. */
static bool place_range(struct hub_answer *a)
{
    if (a->status == 206) {
        if (a->range_from < 0 || (uint64_t)a->range_from != a->part->at + a->part->have_bytes) {
            a->trouble = HUB_BAD_RANGE;
            return false;
        }
    } else if (a->part->at > 0) { /* the file may be many times as long as what is wanted of it */
        a->trouble = HUB_NO_PARTS;
        return false;
    } else if (a->part->have_bytes > 0) { /* it sends no parts: begin again */
        if (ftruncate(a->part->fd, 0) != 0) {
            a->trouble = HUB_WRITE_FAILED;
            a->errnum = errno;
            return false;
        }
        a->part->have_bytes = 0;
    }
    a->is_placed = true;
    return true;
}

static bool take_part(struct hub_answer *a, const char *data, size_t n)
{
    if (!a->is_placed && !place_range(a))
        return false;
    if (n > a->part->size_bytes - a->part->have_bytes) {
        a->trouble = HUB_TOO_LONG;
        return false;
    }
    if (!write_all(a, data, n))
        return false;
    a->on_bytes(a->arg);
    return true;
}

size_t hub_answer_body(char *data, size_t one, size_t n, void *arg)
{
    struct hub_answer *a = arg;

    n *= one;
    if (a->part && (a->status == 200 || a->status == 206))
        return take_part(a, data, n) ? n : 0;
    if (a->body && a->status == 200) {
        buf_put(a->body, data, n);
        if (!a->body->failed)
            return n;
        a->trouble = HUB_TOO_LONG;
        return 0;
    }
    a->dropped_bytes += n;
    return a->dropped_bytes <= DROPPED_MAX_BYTES ? n : 0;
}

/* ---- refusals */

static int not_allowed(const struct hub_answer *a, const struct hub_server *server, struct err *err)
{
    const bool with_token = server->token != NULL;

    if (strcasecmp(a->reason, "GatedRepo") == 0 || (a->status == 403 && with_token))
        return err_set(err, ERR_DENIED,
                       "its owners give it only to those who accept its licence (HTTP %ld). Try "
                       "this: accept it on %.200s, and set HF_TOKEN to %s",
                       a->status, server->page,
                       with_token ? "a token that may read such models" : "a token of yours");
    if (with_token)
        return err_set(err, ERR_DENIED,
                       "the server does not accept the token, or there is no such model (HTTP "
                       "%ld). Try %.200s in a browser, and another HF_TOKEN",
                       a->status, server->page);
    return err_set(err, ERR_DENIED,
                   "there is no such public model (HTTP %ld). Try %.200s in a browser for its "
                   "name; for a private one, or one with a licence to accept, set HF_TOKEN",
                   a->status, server->page);
}

int hub_answer_refused(const struct hub_answer *a, const struct hub_server *server, struct err *err)
{
    if (!a->own)
        return err_set(err, ERR_PROTOCOL,
                       "the place that the server redirects to does not give it (HTTP %ld). Try "
                       "again later, or another %s",
                       a->status, server->variable);
    if (a->status == 401 || a->status == 403)
        return not_allowed(a, server, err);
    if ((a->status == 404 || a->status == 410) && strcasecmp(a->reason, "RevisionNotFound") == 0)
        return err_set(err, ERR_MISSING,
                       "the server has the model, but no such revision (HTTP %ld). Try another "
                       "--revision, or none",
                       a->status);
    if (a->status == 404 || a->status == 410)
        return err_set(err, ERR_MISSING,
                       "the server has no such model (HTTP %ld). Try %.200s in a browser for its "
                       "name",
                       a->status, server->page);
    return err_set(err, ERR_PROTOCOL,
                   "the server answers with HTTP %ld. Try again later, or another %s", a->status,
                   server->variable);
}
