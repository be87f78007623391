/* tests/unit/store/fault_vfs.h - SQLite's files through a shim that fails the Nth call.
 *
 * fault_install first of all in main. Then: arm, do something, disarm. Single thread. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STORE_FAULT_VFS_H
#define NIGHTSHIFT_TESTS_UNIT_STORE_FAULT_VFS_H

#include <stdbool.h>

enum fault_kind {
    FAULT_NONE,
    FAULT_WRITE_FULL,  /* a write finds no space */
    FAULT_WRITE_IO,    /* a write fails */
    FAULT_WRITE_SHORT, /* a write is torn: half of it lands, then it fails */
    FAULT_SYNC,        /* fsync fails */
    FAULT_READ,        /* a read fails */
    FAULT_OPEN,        /* a file cannot be opened */
    FAULT_SHM,         /* the shared memory of the log cannot be mapped */
    FAULT_TRUNCATE,
    FAULT_SQLITE_MALLOC,
    FAULT_OUR_MALLOC, /* of tests/common/nomem.h; once, never lasting */
    FAULT_KINDS,
};
extern const char *const fault_names[FAULT_KINDS];

void fault_install(void);
/* The nth call (from 1) of that kind fails; `lasting`: and all after it. */
void fault_arm(enum fault_kind kind, unsigned nth, bool lasting);
/* True when a fault was given since fault_arm. */
bool fault_disarm(void);

#endif
