/* store/parting/open_tasks.h - which tasks are a part's to do. Internal to store/parting/. */
#ifndef NIGHTSHIFT_STORE_PARTING_OPEN_TASKS_H
#define NIGHTSHIFT_STORE_PARTING_OPEN_TASKS_H

/* In SQL, of a row `t` of the table task. */
#define OPEN_TASKS                                                                       \
    "t.state = 'pending' AND t.wanted AND t.paused = 0 AND t.absent = 0 AND t.waits IS " \
    "NOT 'settling'"

#endif
