/* tools/report/report.h - the morning's page: what the last runs did, and what is left; as text,
 * JSON or HTML. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_REPORT_REPORT_H
#define NIGHTSHIFT_TOOLS_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "scheduler/control/control_socket.h"
#include "store/runs.h"
#include "store/store.h"

#define REPORT_DOUBTS 5u  /* of as many recordings */
#define REPORT_NAMED 8u   /* recordings of a kind of news; the others are counted */
#define REPORT_EVENTS 12u /* of devices, the first ones; the others are counted */
#define REPORT_STEPS 96u  /* of a device's time, at most */

struct report_step { /* some stretches of a device's time, one after the other */
    int64_t at_ms, span_ms, busy_ms, audio_ms;
    uint64_t memory_bytes, predicted_bytes; /* the most; 0: unknown */
    /* By the driver, of all who used it; -1: not known. */
    int64_t seen_ms; /* so long it was looked at: 0 or more, as left_ms */
    int64_t left_ms; /* to others */
    int64_t load_ms, energy_j, celsius, used_bytes;
};

struct report_device {
    char *name;
    struct report_step sum;   /* of all runs of the report */
    uint32_t slots, windows;  /* as they were last; 0: unknown */
    struct report_step *step; /* by time: step[i].at_ms = from_ms + i * step_ms, nothing left out */
    size_t steps;
};

struct report_item { /* a recording; texts printable */
    char *path, *stage, *reason;
};

struct report_news {   /* what happened to recordings, and is not mended */
    char *kind, *code; /* as read_failure has them */
    const char *mend;  /* what may be done about it; static; "": the reasons say it */
    uint64_t fresh, before;
    struct report_item item[REPORT_NAMED]; /* of the fresh ones, those of one reason together */
    size_t items;
};

struct report_event { /* what befell a device; text printable */
    int64_t at_ms;
    char *kind, *device, *text;
};

struct report_doubt {
    char *path, *text, *reason; /* printable; path with its member */
    char *why;                  /* the reason in sentences */
    int64_t start_ms;
};

struct report {
    char *catalog;         /* printable */
    int64_t now_ms;        /* wall clock, as all times of day here */
    struct store_run *run; /* the oldest first; texts owned, printable */
    size_t runs;
    bool on; /* the last of them is on, and live is good */
    struct control_live live;
    int64_t from_ms, to_ms; /* from the first one's begin to the last one's end, or now */
    /* The end of the run before these, after which results are new; "": there is none. */
    char since[CLOCK_ISO_LEN];
    uint64_t done, failed; /* recordings, in these runs */
    int64_t audio_ms;
    int64_t work_ms; /* in which any device had work, in these runs */
    int64_t step_ms;
    struct report_device *device;
    size_t devices;
    struct report_event event[REPORT_EVENTS]; /* of devices, in these runs, the oldest first */
    size_t events, more_events;
    struct store_totals totals;
    /* Counts of what was transcribed since. */
    uint64_t textless[TEXTLESS_KINDS];
    struct result_account account;
    unsigned demo;            /* something was made with these of tools/demo_model.h, at any time */
    uint64_t high;            /* of the recordings to do, those of high priority */
    int64_t left_ms;          /* audio still to be heard, as far as it can be told; -1: it cannot */
    int64_t low_ms, high_ms;  /* until all is done, of work; -1 unknown */
    struct report_news *news; /* the gravest kind first */
    size_t kinds;
    struct report_doubt doubt[REPORT_DOUBTS];
    size_t doubts;
};

/* Reports the catalog's last n runs (1 at least). The caller frees *ret even on error. */
int report_make(const char *catalog, uint64_t n, struct report *ret, struct err *err);
void report_free(struct report *r);

/* Times real time, of the whole: while any device worked; 0 unknown. */
double report_speed(const struct report *r);
/* Did the devices hear more than there is, one stage after the other? */
bool report_per_stage(const struct report *r);
/* "all done" ...: why a run ended, for people. */
const char *report_why(const struct report *r, const struct store_run *run);
/* "Tue 24 Nov, 22:00", local. */
#define REPORT_TIME 40
char *report_time(int64_t wall_ms, char ret[REPORT_TIME]);
/* The same with the year, once for each run: reports are kept. */
char *report_begin(int64_t wall_ms, char ret[REPORT_TIME]);
/* Its end, "now" while it is on: "06:00", or with the day where it began on another one. */
const char *report_until(const struct report *r, const struct store_run *run,
                         char ret[REPORT_TIME]);

/* Percent of the time in which the driver looked, or watts; -1: not known. */
double report_load(const struct report_step *s);
double report_watts(const struct report_step *s);

/* The remedy for a failure (read_failure's kind and code); "": its reason says it. */
const char *report_mend(const char *kind, const char *code);
/* The stages that failed for an item of x; "": the file itself is at fault. */
const char *report_stage(const struct report_news *x, const struct report_item *item);
/* Was any device at work? */
bool report_worked(const struct report *r);
/* The word for a kind in reports: "gone" for "absent". */
const char *report_kind(const char *kind);
/* Its place among the others, the gravest first: 0 ... */
unsigned report_rank(const char *kind);
/* Puts earlier failures, "2 failed, 1 damaged"; false: there are none. Files that are gone were
 * reported once, and are left out. */
bool report_before(const struct report *r, struct buf *out);

/* Each appends; a buffer that failed stays failed. Text fits `columns`. */
void report_text(const struct report *r, unsigned columns, struct buf *out);
void report_json(const struct report *r, struct buf *out);
void report_html(const struct report *r, struct buf *out);

#endif
