/* base/log.h - one line per event on standard error, or to a sink of the caller's.
 *
 * The only global of the program. Any thread may log; a line is written whole. The level and the
 * sink are set once, before threads start. */
#ifndef NIGHTSHIFT_BASE_LOG_H
#define NIGHTSHIFT_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* The format of lines on standard error. */
enum log_format {
    LOG_TEXT,    /* "warning: the text" */
    LOG_JOURNAL, /* "<4>warning: the text": systemd takes the number (of syslog) for the priority */
    /* {"at": "2026-11-24T21:00:00.000Z", "level": "warning", "pid": 4711, "process": "run",
     * "text": "the text"}; level: error, warning, info or debug */
    LOG_JSON,
};
#define LOG_FORMAT_VARIABLE "NIGHTSHIFT_LOG_FORMAT"

/* `line` has no newline and is valid only during the call. */
typedef void (*log_sink)(enum log_level level, const char *line, void *arg);

/* First thing in a process, whose name this is ("worker"; borrowed): the format is what
 * $NIGHTSHIFT_LOG_FORMAT says, else the journal's where standard error is that (JOURNAL_STREAM). */
void log_begin(const char *process);
/* "text", "journal" or "json", here and in processes that are started from now on. False: none. */
bool log_set_format(const char *name);
enum log_format log_format(void);
void log_set_level(enum log_level level);    /* LOG_INFO at first */
void log_set_sink(log_sink sink, void *arg); /* NULL: standard error */
/* "error: ", "warning: ", "" or "debug: ": standard error's lines have it, a sink's do not. */
const char *log_level_label(enum log_level level);

void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif
