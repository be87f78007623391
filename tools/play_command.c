#include "tools/play_command.h"

#include <string.h>

#include "tools/cli/shell.h"

#define STEP_MS 100 /* tenths of seconds are told */
#define LONGEST_MS (INT64_MAX / 2)

static int64_t bounded(int64_t ms) { return ms < 0 ? 0 : ms > LONGEST_MS ? LONGEST_MS : ms; }

static void put_seconds(struct buf *out, const char *option, int64_t ms)
{
    buf_printf(out, " %s %lld.%lld", option, (long long)(ms / 1000),
               (long long)(ms % 1000 / STEP_MS));
}

static void put_stretch(const struct play *p, struct buf *out)
{
    int64_t from = bounded(bounded(p->start_ms) - PLAY_AROUND_MS) / STEP_MS * STEP_MS;
    int64_t to = (bounded(p->end_ms) + PLAY_AROUND_MS + STEP_MS - 1) / STEP_MS * STEP_MS;

    buf_printf(out, "ffplay");
    put_seconds(out, "-ss", from);
    put_seconds(out, "-t", to > from ? to - from : 0);
    buf_printf(out, " -autoexit ");
}

/* bsdtar takes a name for a pattern. */
static void put_pattern(struct buf *out, const char *name, size_t len)
{
    struct buf pattern = BUF_INIT;

    for (size_t i = 0; i < len; i++) {
        if (name[i] && strchr("*?[]^$\\", name[i]))
            buf_put(&pattern, "\\", 1);
        buf_put(&pattern, name + i, 1);
    }
    out->failed |= pattern.failed;
    shell_quote(out, pattern.data ? (const void *)pattern.data : "", pattern.len);
    buf_free(&pattern);
}

/* The first member of that name, which may begin with a '-'. */
static void put_unpack(struct buf *out, const char *name, size_t len)
{
    buf_printf(out, " -- ");
    put_pattern(out, name, len);
    buf_printf(out, " | ");
}

static void put_member(const struct play *p, struct buf *out)
{
    const char *name = p->member, *at = memmem(name, p->member_len, "//", 2);
    size_t outer = at ? (size_t)(at - name) : 0, rest = p->member_len - outer - 2;

    buf_printf(out, "bsdtar -xqOf ");
    shell_quote(out, p->path, p->path_len);
    if (outer == 0 || rest == 0) {
        put_unpack(out, name, p->member_len);
        return;
    }
    put_unpack(out, name, outer);
    buf_printf(out, "bsdtar -xqOf -");
    put_unpack(out, at + 2, rest);
}

static bool ends_in(const struct play *p, size_t before, const char *end)
{
    size_t n = strlen(end), len = p->path_len - before;

    return before <= p->path_len && len > n && memcmp((const char *)p->path + len - n, end, n) == 0;
}

/* A recording that was compressed by itself is the one member `data` of what is no archive to
 * bsdtar; only the file's name tells it from a `data` in a compressed archive. */
static bool is_compressed_alone(const struct play *p)
{
    static const char *const ends[] = {".gz", ".bz2", ".xz", ".lzma", ".lz", ".zst", ".lz4", ".Z"};

    if (p->member_len != 4 || memcmp(p->member, "data", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_in(p, 0, ends[i]))
            return !ends_in(p, strlen(ends[i]), ".tar");
    return false;
}

bool play_command(const struct play *p, struct buf *out)
{
    if (p->nth > 0 || memchr(p->path, 0, p->path_len) ||
        (p->member_len > 0 && memchr(p->member, 0, p->member_len)))
        return false;
    if (p->member_len == 0) {
        put_stretch(p, out);
        shell_quote(out, p->path, p->path_len);
        return true;
    }
    if (is_compressed_alone(p)) {
        buf_printf(out, "bsdcat ");
        shell_quote(out, p->path, p->path_len);
        buf_printf(out, " | ");
    } else {
        put_member(p, out);
    }
    put_stretch(p, out);
    buf_put(out, "-", 1);
    return true;
}
