/* base/err.h - the one error type of the program.
 *
 * A function that can fail returns 0 or one of the negative codes below, and fills the caller's
 * struct err (its last argument, never NULL). Each level adds what it was doing with err_prefix
 * and never replaces the code. Nothing here allocates; any thread may use its own struct err.
 *
 * A code exists only because somebody decides differently on it. */
#ifndef NIGHTSHIFT_BASE_ERR_H
#define NIGHTSHIFT_BASE_ERR_H

enum {
    ERR_NOMEM = -1,      /* host memory, descriptors or processes: it is tried again */
    ERR_IO = -2,         /* the disk or a pipe failed: tried again, then the run stops */
    ERR_FULL = -3,       /* no space left: the run stops, nothing is lost */
    ERR_INPUT = -4,      /* this file is bad: not tried again */
    ERR_MISSING = -5,    /* this path does not exist (any more) */
    ERR_DENIED = -6,     /* no permission */
    ERR_CHANGED = -7,    /* the file is not the one that was enqueued */
    ERR_LIMIT = -8,      /* an input wants more than its bound (zip bomb, endless stream) */
    ERR_LOCKED = -9,     /* another process holds the catalog */
    ERR_VERSION = -10,   /* written by another version of the program */
    ERR_CORRUPT = -11,   /* the catalog itself is damaged: stop, tell the user */
    ERR_MODEL = -12,     /* the model cannot be used: the run stops before it starts */
    ERR_DEVICE = -13,    /* the device is lost: the worker leaves and is started again */
    ERR_VRAM = -14,      /* device memory: halve the batch and go on */
    ERR_TIMEOUT = -15,   /* no sign of life: kill and try again */
    ERR_PROTOCOL = -16,  /* the peer does not speak our protocol: close it */
    ERR_EMPTY = -17,     /* nothing there now (not a fault) */
    ERR_CANCELLED = -18, /* somebody asked us to stop */
    ERR_USAGE = -19,     /* the user's command line is wrong */
    ERR_CRASH = -20,     /* a process of ours died over it: tried alone, then quarantined */
    ERR_LIBRARY = -21,   /* a library is not here or not whole: stop, the user is to install it */
    ERR_STALLED = -22,   /* what a file lies on does not answer: others go on, it waits long */
    ERR_LAST = ERR_STALLED,
};

struct err {
    int code;      /* 0, or the code that was returned */
    char msg[496]; /* one sentence, no newline, valid UTF-8 when its arguments are */
};

/* Sets code and message; returns code, so that `return err_set(...)` reads well. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets ERR_NOMEM, "what: out of memory"; what NULL: "out of memory". Returns the code. */
int err_no_memory(struct err *err, const char *what);

/* Puts "what: " before the message; returns the code that is there. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Like err_set, with the code and the text of an errno value appended (": No space left ..."). */
int err_sys(struct err *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The code an errno value maps to (ENOSPC -> ERR_FULL, EACCES -> ERR_DENIED, ...). */
int err_from_errno(int errnum);

/* "input", "vram", ...; as stored in the catalog's error_code columns. "ok" for 0. */
const char *err_name(int code);

/* The code of a name that err_name gave; 0 when there is none. */
int err_from_name(const char *name);

/* The sysexits.h status with which a command ends on this code. */
int err_exit_status(int code);

#endif
