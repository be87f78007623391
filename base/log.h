/* base/log.h - one line per event on standard error, or to a sink of the caller's.
 *
 * The only global of the program. Any thread may log; a line is written whole. The level and the
 * sink are set once, before threads start. */
#ifndef NIGHTSHIFT_BASE_LOG_H
#define NIGHTSHIFT_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* `line` has no newline and is valid only during the call. */
typedef void (*log_sink)(enum log_level level, const char *line, void *arg);

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
