#include "tools/search/search_last.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"

#define HEAD "nightshift search 1\n"
#define FILE_MAX (SEARCH_LAST_MAX * 80 + 8192)

void search_last_put(struct buf *list, int64_t media_id, int64_t start_ms, int64_t end_ms)
{
    if (list->len < FILE_MAX - 8192)
        buf_printf(list, "%lld %lld %lld\n", (long long)media_id, (long long)start_ms,
                   (long long)end_ms);
}

/* The file's folder; false: nothing says where that is. */
static bool put_state_folder(struct buf *to)
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

void search_last_keep(const char *catalog, struct buf *list)
{
    struct buf path = BUF_INIT, text = BUF_INIT;
    struct err ignored = {0};

    if (!list->failed && put_state_folder(&path) &&
        cli_make_directories(buf_cstr(&path), &ignored) == 0) {
        buf_printf(&path, "/last-search");
        buf_printf(&text, HEAD "%zu\n%s\n", strlen(catalog), catalog);
        buf_put(&text, list->data, list->len);
        if (!path.failed && !text.failed)
            replace_file(buf_cstr(&path), text.data, text.len, REPLACE_PRIVATE, &ignored);
    }
    buf_free(&path);
    buf_free(&text);
}

/* The file as a C string; false: there is none that can be read. */
static bool read_file(struct buf *to)
{
    struct buf path = BUF_INIT;
    FILE *f = NULL;
    char chunk[4096];
    size_t n;

    if (put_state_folder(&path)) {
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
