#include "tools/search/search_last.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli.h"

#define HEAD "nightshift search 1\n"
#define FILE_MAX (SEARCH_LAST_MAX * 80 + 8192)

void search_last_put(struct buf *list, int64_t media_id, int64_t start_ms, int64_t end_ms)
{
    if (list->len < FILE_MAX - 8192)
        buf_printf(list, "%lld %lld %lld\n", (long long)media_id, (long long)start_ms,
                   (long long)end_ms);
}

/* The file's folder; false: nothing says where that is. */
static bool folder(struct buf *to)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && state[0] == '/')
        buf_printf(to, "%s/nightshift", state);
    else if (home && home[0] == '/')
        buf_printf(to, "%s/.local/state/nightshift", home);
    else
        return false;
    return buf_cstr(to) != NULL;
}

static bool write_file(const char *path, const char *catalog, const struct buf *list)
{
    int fd;
    FILE *f;
    bool whole;

    unlink(path); /* of one that was killed */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    fprintf(f, HEAD "%zu\n%s\n", strlen(catalog), catalog);
    if (list->len > 0)
        fwrite(list->data, 1, list->len, f);
    whole = !ferror(f);
    return fclose(f) == 0 && whole;
}

void search_last_keep(const char *catalog, struct buf *list)
{
    struct buf dir = BUF_INIT, path = BUF_INIT, temp = BUF_INIT;
    struct err ignored = {0};

    if (!list->failed && folder(&dir) && cli_make_directories(buf_cstr(&dir), &ignored) == 0) {
        buf_printf(&path, "%s/last-search", buf_cstr(&dir));
        buf_printf(&temp, "%s/last-search.%ld", buf_cstr(&dir), (long)getpid());
        if (buf_cstr(&path) && buf_cstr(&temp) &&
            (!write_file(buf_cstr(&temp), catalog, list) ||
             rename(buf_cstr(&temp), buf_cstr(&path)) != 0))
            unlink(buf_cstr(&temp));
    }
    buf_free(&dir);
    buf_free(&path);
    buf_free(&temp);
}

/* The file as a C string; false: there is none that can be read. */
static bool read_file(struct buf *to)
{
    struct buf path = BUF_INIT;
    FILE *f = NULL;
    char chunk[4096];
    size_t n;

    if (folder(&path)) {
        buf_printf(&path, "/last-search");
        f = buf_cstr(&path) ? fopen(buf_cstr(&path), "re") : NULL;
    }
    to->max = FILE_MAX;
    while (f && (n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_put(to, chunk, n);
    if (f)
        fclose(f);
    buf_free(&path);
    return f && !to->failed && buf_cstr(to) && strlen(buf_cstr(to)) == to->len;
}

/* Behind the head and the catalog's name; NULL: it is no such file, or of another catalog. */
static const char *hits_of(const char *text, const char *catalog)
{
    size_t n = strlen(catalog);
    char *end;

    if (strncmp(text, HEAD, sizeof(HEAD) - 1) != 0 ||
        strtoull(text + sizeof(HEAD) - 1, &end, 10) != n || *end != '\n' ||
        strncmp(end + 1, catalog, n) != 0 || end[1 + n] != '\n')
        return NULL;
    return end + 2 + n;
}

int search_last_find(const char *catalog, uint64_t n, int64_t *media_id, int64_t *start_ms,
                     struct err *err)
{
    struct buf text = BUF_INIT;
    const char *at = read_file(&text) ? hits_of(buf_cstr(&text), catalog) : NULL;
    char *end;
    int rc = 0;

    if (!at)
        rc = err_set(err, ERR_MISSING, "no search of yours in this catalog is remembered");
    for (uint64_t i = 1; rc == 0 && i < n && *at; i++) {
        at += strcspn(at, "\n");
        at += *at != 0;
    }
    if (rc == 0 && (n == 0 || *at == 0))
        rc = err_set(err, ERR_MISSING, "the last search had no hit %llu", (unsigned long long)n);
    if (rc == 0) {
        *media_id = strtoll(at, &end, 10);
        *start_ms = strtoll(end, NULL, 10);
    }
    buf_free(&text);
    return rc;
}
