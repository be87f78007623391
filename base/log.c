#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    enum log_level level;
    log_sink sink;
    void *arg;
} state = {.level = LOG_INFO};

void log_set_level(enum log_level level) { state.level = level; }

void log_set_sink(log_sink sink, void *arg)
{
    state.sink = sink;
    state.arg = arg;
}

/* What comes from outside (a decoder's words, a file's name) must not steer a terminal. Escapes are
 * for those who know where the text came from; here a blank is enough. */
static void defuse(char *line)
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

void log_at(enum log_level level, const char *fmt, ...)
{
    char line[1200];
    va_list ap;
    size_t n;

    if (level > state.level)
        return;
    n = (size_t)snprintf(line, sizeof(line), "%s", state.sink ? "" : log_level_label(level));
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
    va_end(ap);
    defuse(line);
    if (state.sink) {
        state.sink(level, line, state.arg);
        return;
    }
    n = strlen(line);
    line[n++] = '\n';
    /* One write, so that lines of several processes on one terminal do not mix. */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}
