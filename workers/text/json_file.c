#include "workers/text/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

#define CHUNK_BYTES (1u << 16)

static int too_large(const char *name, struct err *err)
{
    return err_set(err, ERR_MODEL, "%s is over %u MiB: no model has such a file", name,
                   JSON_FILE_MAX_BYTES >> 20);
}

static int read_all(int fd, const char *path, struct buf *ret, struct err *err)
{
    ssize_t n;

    do {
        uint8_t *p = buf_reserve(ret, CHUNK_BYTES);

        if (!p)
            return err_set(err, ERR_NOMEM, "no memory to read %s", path);
        n = read(fd, p, CHUNK_BYTES);
        if (n < 0 && errno != EINTR)
            return err_set(err, ERR_MODEL, "%s: %s", path, strerror(errno));
        ret->len += n > 0 ? (size_t)n : 0;
        if (ret->len > JSON_FILE_MAX_BYTES)
            return too_large(path, err);
    } while (n != 0);
    return 0;
}

int json_file_slurp(const char *dir, const char *name, struct buf *ret, struct err *err)
{
    char path[PATH_MAX];
    int fd, rc;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the path %.80s... is too long", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    rc = read_all(fd, path, ret, err);
    close(fd);
    return rc;
}

static int parse_json_text(const char *name, const char *text, size_t len, bool list, json_t **ret,
                           struct err *err)
{
    json_error_t why;
    json_t *root;

    if (len > JSON_FILE_MAX_BYTES)
        return too_large(name, err);
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return err_set(err, ERR_MODEL, "%s, line %d: %s", name, why.line, why.text);
    if (list ? !json_is_array(root) : !json_is_object(root)) {
        json_decref(root);
        return err_set(err, ERR_MODEL, "%s is not a JSON %s", name, list ? "list" : "object");
    }
    *ret = root;
    return 0;
}

int json_file_parse(const char *name, const char *text, size_t len, json_t **ret, struct err *err)
{
    return parse_json_text(name, text, len, false, ret, err);
}

static int read_as(const char *dir, const char *name, bool list, json_t **ret, struct err *err)
{
    struct buf text = BUF_INIT;
    int rc = json_file_slurp(dir, name, &text, err);

    if (rc == 0)
        rc = parse_json_text(name, (const char *)text.data, text.len, list, ret, err);
    if (rc != 0)
        utf8_display_err(err);
    buf_free(&text);
    return rc;
}

int json_file_read(const char *dir, const char *name, json_t **ret, struct err *err)
{
    return read_as(dir, name, false, ret, err);
}

int json_file_read_list(const char *dir, const char *name, json_t **ret, struct err *err)
{
    return read_as(dir, name, true, ret, err);
}

int json_file_need(const char *dir, const char *name, json_t **ret, struct err *err)
{
    int rc = json_file_read(dir, name, ret, err);

    return rc == ERR_MISSING || rc == ERR_DENIED ? (err->code = ERR_MODEL) : rc;
}
