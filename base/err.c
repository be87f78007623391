#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const struct {
    int code;
    int exit_status;
    const char *name;
} table[] = {
    {0, EX_OK, "ok"},
    {ERR_NOMEM, EX_OSERR, "nomem"},
    {ERR_IO, EX_IOERR, "io"},
    {ERR_FULL, EX_CANTCREAT, "full"},
    {ERR_INPUT, EX_DATAERR, "input"},
    {ERR_MISSING, EX_NOINPUT, "missing"},
    {ERR_DENIED, EX_NOPERM, "denied"},
    {ERR_CHANGED, EX_DATAERR, "changed"},
    {ERR_LIMIT, EX_DATAERR, "limit"},
    {ERR_LOCKED, EX_TEMPFAIL, "locked"},
    {ERR_VERSION, EX_DATAERR, "version"},
    {ERR_CORRUPT, EX_DATAERR, "corrupt"},
    {ERR_MODEL, EX_CONFIG, "model"},
    {ERR_DEVICE, EX_UNAVAILABLE, "device"},
    {ERR_VRAM, EX_UNAVAILABLE, "vram"},
    {ERR_TIMEOUT, EX_TEMPFAIL, "timeout"},
    {ERR_PROTOCOL, EX_PROTOCOL, "protocol"},
    {ERR_EMPTY, EX_NOINPUT, "empty"},
    {ERR_CANCELLED, EX_TEMPFAIL, "cancelled"},
    {ERR_USAGE, EX_USAGE, "usage"},
    {ERR_CRASH, EX_SOFTWARE, "crash"},
    {ERR_LIBRARY, EX_UNAVAILABLE, "library"},
    {ERR_STALLED, EX_TEMPFAIL, "stalled"},
};

#define TABLE_LEN (sizeof(table) / sizeof(table[0]))

/* A message that filled its array may end within a character: drop that character's bytes. */
static void trim_partial_char(struct err *err)
{
    size_t n = strlen(err->msg);

    if (n < sizeof(err->msg) - 1)
        return;
    while (n && ((unsigned char)err->msg[n - 1] & 0xC0) == 0x80)
        n--;
    if (n && ((unsigned char)err->msg[n - 1] & 0xC0) == 0xC0)
        n--;
    err->msg[n] = 0;
}

static void format_error_message(struct err *err, int code, const char *fmt, va_list ap)
{
    err->code = code;
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    trim_partial_char(err);
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    format_error_message(err, code, fmt, ap);
    va_end(ap);
    return code;
}

int err_no_memory(struct err *err, const char *what)
{
    return what ? err_set(err, ERR_NOMEM, "%s: out of memory", what)
                : err_set(err, ERR_NOMEM, "out of memory");
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    char head[sizeof(err->msg)], tail[sizeof(err->msg)];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    vsnprintf(head, sizeof(head), fmt, ap);
    va_end(ap);
    memcpy(tail, err->msg, sizeof(tail));
    n = strlen(head);
    if (n > sizeof(head) - 3)
        n = sizeof(head) - 3;
    memcpy(err->msg, head, n);
    memcpy(err->msg + n, ": ", 3);
    n += 2;
    snprintf(err->msg + n, sizeof(err->msg) - n, "%s", tail);
    trim_partial_char(err);
    return err->code;
}

int err_sys(struct err *err, int errnum, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    size_t n;

    va_start(ap, fmt);
    format_error_message(err, err_from_errno(errnum), fmt, ap);
    va_end(ap);
    n = strlen(err->msg);
    snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror_r(errnum, text, sizeof(text)));
    trim_partial_char(err);
    return err->code;
}

int err_from_errno(int errnum)
{
    switch (errnum) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ERR_NOMEM;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ERR_FULL;
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return ERR_MISSING;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EAGAIN:
        return ERR_EMPTY;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    default:
        return ERR_IO;
    }
}

const char *err_name(int code)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (table[i].code == code)
            return table[i].name;
    return "unknown";
}

int err_from_name(const char *name)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].code;
    return 0;
}

int err_exit_status(int code)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (table[i].code == code)
            return table[i].exit_status;
    return EX_SOFTWARE;
}
