#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#define LINE 1200

static struct {
    enum log_level level;
    enum log_format format;
    const char *process;
    pid_t pid; /* asked once: a decoder may not any more */
    log_sink sink;
    void *arg;
} state = {.level = LOG_INFO, .process = "nightshift"};

static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static bool format_of(const char *name, enum log_format *ret)
{
    static const char *const names[] = {"text", "journal", "json"};

    for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *ret = (enum log_format)i;
            return true;
        }
    return false;
}

void log_begin(const char *process)
{
    state.process = process;
    state.pid = getpid();
    if (!format_of(getenv(LOG_FORMAT_VARIABLE), &state.format))
        state.format = is_journal() ? LOG_JOURNAL : LOG_TEXT;
}

bool log_set_format(const char *name)
{
    return format_of(name, &state.format) && setenv(LOG_FORMAT_VARIABLE, name, 1) == 0;
}

enum log_format log_format(void) { return state.format; }

void log_set_level(enum log_level level) { state.level = level; }

void log_set_sink(log_sink sink, void *arg)
{
    state.sink = sink;
    state.arg = arg;
}

/* Text from outside (a decoder's words, a file's name) must not control a terminal. A caller that
 * knows the text's source can escape it; here a blank is enough. */
static void blank_control_chars(char *line)
{
    unsigned char *p = (unsigned char *)line;

    for (; *p; p++)
        if (*p < 0x20 || *p == 0x7F)
            *p = ' ';
        else if (p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            p[0] = p[1] = ' ';
}

const char *log_level_label(enum log_level level)
{
    static const char *const labels[] = {"error: ", "warning: ", "", "debug: "};

    return labels[level];
}

/* Appends the line as the inside of a JSON string. Invalid UTF-8 becomes U+FFFD. */
static void put_json(const char *line, struct buf *out)
{
    char *valid = utf8_repair(line, strlen(line));

    for (const char *p = valid; p && *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_put_u8(out, '\\');
        buf_put_u8(out, (uint8_t)*p);
    }
    free(valid);
}

static void put_line(enum log_level level, const char *line, struct buf *out)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    static const int priorities[] = {3, 4, 6, 7}; /* of syslog */
    char at[CLOCK_ISO_LEN];

    if (state.format == LOG_JSON) {
        clock_iso8601(clock_wall_ms(), at);
        buf_printf(out,
                   "{\"at\": \"%s\", \"level\": \"%s\", \"pid\": %ld, \"process\": \"%s\", "
                   "\"text\": \"",
                   at, levels[level], (long)state.pid, state.process);
        put_json(line, out);
        buf_printf(out, "\"}\n");
        return;
    }
    if (state.format == LOG_JOURNAL)
        buf_printf(out, "<%d>", priorities[level]);
    buf_printf(out, "%s%s\n", log_level_label(level), line);
}

void log_at(enum log_level level, const char *fmt, ...)
{
    struct buf out = BUF_INIT;
    char line[LINE];
    va_list ap;

    if (level > state.level)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    blank_control_chars(line);
    if (state.sink) {
        state.sink(level, line, state.arg);
        return;
    }
    put_line(level, line, &out);
    /* One write, so that lines of several processes on one terminal do not mix. If memory ran out,
     * half a line is better than none. */
    if (out.len > 0 && write(STDERR_FILENO, out.data, out.len) < 0)
        out.failed = true; /* nobody is there who could be told */
    buf_free(&out);
}
