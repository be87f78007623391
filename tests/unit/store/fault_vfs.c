#include "tests/unit/store/fault_vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/nomem.h"

const char *const fault_names[FAULT_KINDS] = {
    "none", "disk full", "write",      "torn write",      "fsync",      "read",
    "open", "shm",       "truncation", "sqlite's malloc", "our malloc",
};

static struct {
    enum fault_kind kind;
    unsigned left;
    bool lasting, given;
} fault;

static bool strikes(enum fault_kind kind)
{
    if (fault.kind != kind)
        return false;
    if (fault.left > 1) {
        fault.left--;
        return false;
    }
    if (fault.given && !fault.lasting)
        return false;
    fault.given = true;
    return true;
}

void fault_arm(enum fault_kind kind, unsigned nth, bool lasting)
{
    fault.kind = kind;
    fault.left = nth;
    fault.lasting = lasting;
    fault.given = false;
    nomem_fail(kind == FAULT_OUR_MALLOC ? nth : 0);
}

bool fault_disarm(void)
{
    fault.kind = FAULT_NONE;
    return nomem_end() || fault.given;
}

struct file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct, in the memory that SQLite gave */
};

#define REAL(f) (((struct file *)(f))->real)

static int f_close(sqlite3_file *f) { return REAL(f)->pMethods->xClose(REAL(f)); }

static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    if (strikes(FAULT_READ))
        return SQLITE_IOERR_READ;
    return REAL(f)->pMethods->xRead(REAL(f), p, n, at);
}

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (strikes(FAULT_WRITE_FULL))
        return SQLITE_FULL;
    if (strikes(FAULT_WRITE_IO))
        return SQLITE_IOERR_WRITE;
    if (strikes(FAULT_WRITE_SHORT)) {
        REAL(f)->pMethods->xWrite(REAL(f), p, n / 2, at);
        return SQLITE_IOERR_WRITE;
    }
    return REAL(f)->pMethods->xWrite(REAL(f), p, n, at);
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    if (strikes(FAULT_TRUNCATE))
        return SQLITE_IOERR_TRUNCATE;
    return REAL(f)->pMethods->xTruncate(REAL(f), size);
}

/* Nothing is really synchronised: no power cut comes, and thousands of rounds want to be short. */
static int f_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return strikes(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return REAL(f)->pMethods->xFileSize(REAL(f), n);
}
static int f_lock(sqlite3_file *f, int k) { return REAL(f)->pMethods->xLock(REAL(f), k); }
static int f_unlock(sqlite3_file *f, int k) { return REAL(f)->pMethods->xUnlock(REAL(f), k); }
static int f_reserved(sqlite3_file *f, int *r)
{
    return REAL(f)->pMethods->xCheckReservedLock(REAL(f), r);
}
static int f_control(sqlite3_file *f, int op, void *arg)
{
    return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}
static int f_sector(sqlite3_file *f) { return REAL(f)->pMethods->xSectorSize(REAL(f)); }
static int f_traits(sqlite3_file *f) { return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f)); }
static int f_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **p)
{
    if (strikes(FAULT_SHM))
        return SQLITE_IOERR_SHMMAP;
    return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, p);
}
static int f_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return REAL(f)->pMethods->xShmLock(REAL(f), at, n, flags);
}
static void f_shm_barrier(sqlite3_file *f) { REAL(f)->pMethods->xShmBarrier(REAL(f)); }
static int f_shm_unmap(sqlite3_file *f, int del)
{
    return REAL(f)->pMethods->xShmUnmap(REAL(f), del);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_reserved,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_traits,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs shim;

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct file *file = (struct file *)f;
    int rc;

    (void)v;
    file->base.pMethods = NULL;
    if (strikes(FAULT_OPEN))
        return SQLITE_CANTOPEN;
    file->real = (sqlite3_file *)(file + 1);
    rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
    if (rc == SQLITE_OK)
        file->base.pMethods = &methods;
    return rc;
}

static sqlite3_mem_methods real_memory;

static void *m_malloc(int n)
{
    return strikes(FAULT_SQLITE_MALLOC) ? NULL : real_memory.xMalloc(n);
}

static void *m_realloc(void *p, int n)
{
    return strikes(FAULT_SQLITE_MALLOC) ? NULL : real_memory.xRealloc(p, n);
}

void fault_install(void)
{
    sqlite3_mem_methods memory;

    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    memory = real_memory;
    memory.xMalloc = m_malloc;
    memory.xRealloc = m_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
    sqlite3_initialize();
    real_vfs = sqlite3_vfs_find(NULL);
    shim = *real_vfs;
    shim.zName = "fault";
    shim.pNext = NULL;
    shim.szOsFile = real_vfs->szOsFile + (int)sizeof(struct file);
    shim.xOpen = v_open;
    sqlite3_vfs_register(&shim, 1);
}
