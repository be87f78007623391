/* tools/enqueue/summary.h - what an enqueue has found and asked for, for people and as JSON, on
 * standard output. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_SUMMARY_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_SUMMARY_H

#include "tools/enqueue/again.h"
#include "tools/enqueue/enqueue.h"

struct summary {
    const struct enqueue_result *result;
    const struct groups *groups;
    const struct again *again; /* what is done again; in a dry run, what would be */
    bool dry_run;
    bool allowed; /* it was said that this be so */
    bool listed;  /* standard output has begun with what dry_run_lines_add wrote */
    bool up_to;   /* patterns may leave out some of that */
};

void summary_print(const struct summary *s);
void summary_json(const struct summary *s);
/* That nothing was done, since it would be done again: {"again": [...]}. */
void summary_refused_json(const struct again *a);

#endif
