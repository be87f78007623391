/* tests/unit/scheduler/fixture.h - a catalog with recordings for the fake worker, and runs on it.
 */
#ifndef NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FIXTURE_H
#define NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/control/control.h"
#include "scheduler/scheduler.h"
#include "store/lock.h"
#include "store/requests/request.h"
#include "store/store.h"
#include "tests/common/test.h"

#define CATALOG "run.db"
#define SHARD_MS 10000

static uint32_t fixture_most_shard_ms; /* of sounds; 0: any */
static uint32_t fixture_mixed_most_shard_ms;

static inline int quiet(void) { return getenv("NIGHTSHIFT_TEST_LOUD") == NULL; }
static inline void no_log(enum log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

static inline void fixture_reset(void)
{
    struct store *st = NULL;
    struct err e = {0};

    if (system("rm -rf state " CATALOG "*"))
        fail();
    assert_int_equal(mkdir("state", 0700), 0);
    assert_ok(store_open(CATALOG, STORE_WRITE, &st, &e), e);
    store_close(st);
    setenv("FAKE_STATE", "state", 1);
    unsetenv("FAKE_MODE");
    unsetenv("FAKE_SHARD_US");
    unsetenv("FAKE_FINALIZE");
    unsetenv("FAKE_TRACKS");
    fixture_most_shard_ms = fixture_mixed_most_shard_ms = 0;
    if (quiet())
        log_set_sink(no_log, NULL);
}

/* "fake@sounds" is a stage "sounds"; without '@' it transcribes. Vectors of text are of "fake". */
static inline struct store_stage fixture_stage(const char *model)
{
    static const struct store_stage source = {.name = "transcribe",
                                              .model = "fake",
                                              .model_dir = "/models/fake",
                                              .model_hash = "aa",
                                              .params_json = "{}"};
    const char *name = strchr(model, '@') ? strchr(model, '@') + 1 : "transcribe";

    return (struct store_stage){
        .name = name,
        .source = strcmp(name, "embed-text") == 0 ? &source : NULL,
        .model = model,
        .model_dir = "/models/fake",
        .model_hash = model[0] == 'b' ? "bb" : "aa",
        .params_json = strstr(model, "beams") ? "{\"beam_size\":5}" : "{}",
    };
}

static inline struct store_found fixture_found(const char *path, uint8_t id)
{
    struct store_found f = {
        .path = path,
        .path_len = strlen(path),
        .member = "",
        .nth = strstr(path, "/second-") != NULL,
        .size_bytes = 1000,
        .file_size_bytes = 1000,
        .inode = id,
    };
    const char *name = strrchr(path, '/') + 1;

    /* The same name is the same content, wherever it lies. */
    snprintf((char *)f.fingerprint, sizeof(f.fingerprint), "%.12s", name);
    f.fingerprint[15] = id;
    return f;
}

typedef int (*fixture_ask)(void *arg, const struct request *rq, struct request_reply *ret,
                           struct err *err);

/* Enqueues the paths through `ask`; the fingerprint is of the name alone when ids are 0. */
static inline int64_t fixture_enqueue(fixture_ask ask, void *arg, const char *const *paths,
                                      size_t n, const char *model)
{
    struct store_found *found = calloc(n, sizeof(*found));
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage(model),
                         .language = ""};
    struct request_reply reply = {0};
    struct err e = {0};
    int64_t job;
    size_t i;

    assert_ok(ask(arg, &rq, &reply, &e), e);
    job = reply.job_id;
    for (i = 0; i < n; i++)
        found[i] = fixture_found(paths[i], 0);
    rq = (struct request){
        .type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = found, .count = (uint32_t)n};
    assert_ok(ask(arg, &rq, &reply, &e), e);
    rq = (struct request){.type = REQUEST_ENQUEUE_END, .job_id = job};
    assert_ok(ask(arg, &rq, &reply, &e), e);
    free(found);
    return job;
}

static inline int ask_store(void *arg, const struct request *rq, struct request_reply *ret,
                            struct err *err)
{
    return request_apply(arg, rq, ret, err);
}

static inline int ask_run(void *arg, const struct request *rq, struct request_reply *ret,
                          struct err *err)
{
    return control_request(arg, rq, ret, err);
}

static inline void fixture_apply(const struct request *rq)
{
    struct catalog_lock *lock;
    struct request_reply reply;
    struct store *st;
    struct err e = {0};

    assert_ok(catalog_lock_take(CATALOG, "test", &lock, &e), e);
    assert_ok(store_open(CATALOG, STORE_WRITE, &st, &e), e);
    assert_ok(request_apply(st, rq, &reply, &e), e);
    store_close(st);
    catalog_lock_release(lock);
}

static inline void fixture_add(const char *const *paths, size_t n, const char *model)
{
    struct catalog_lock *lock;
    struct store *st;
    struct err e = {0};

    assert_ok(catalog_lock_take(CATALOG, "test", &lock, &e), e);
    assert_ok(store_open(CATALOG, STORE_WRITE, &st, &e), e);
    fixture_enqueue(ask_store, st, paths, n, model);
    store_close(st);
    catalog_lock_release(lock);
}

#define ADD_TO(model, ...)                                                       \
    do {                                                                         \
        const char *add_paths[] = {__VA_ARGS__};                                 \
        fixture_add(add_paths, sizeof(add_paths) / sizeof(add_paths[0]), model); \
    } while (0)
#define ADD(...) ADD_TO("fake", __VA_ARGS__)

/* Under a sanitizer everything takes longer, and most of all the start of a process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PATIENCE 4
#else
#define PATIENCE 1
#endif

/* Quick patience: what takes minutes in life takes tenths of a second here. */
static const struct scheduler_tuning quick = {
    .worker_program = FAKE_WORKER,
    .hello_ms = 5000 * PATIENCE,
    .ready_ms = 5000 * PATIENCE,
    .still_ms = 1500 * PATIENCE,
    .retry_base_ms = 20,
    .restart_base_ms = 10,
    .commit_ms = 20,
    .full_retry_ms = 50,
    .full_give_up_ms = 400,
};

/* What tools/ knows of a stage, as far as it matters to the fake worker. */
static inline void fixture_know(const char *name, const char *params_json,
                                struct scheduler_stage *ret)
{
    (void)params_json;
    ret->finalizes = strcmp(name, "diarize") == 0;
    ret->passage_chars = strcmp(name, "embed-text") == 0 ? 12 : 0;
    ret->most_shard_ms = strcmp(name, "sounds") == 0 ? fixture_most_shard_ms : 0;
    ret->mixed_most_shard_ms = fixture_mixed_most_shard_ms;
}

static inline struct scheduler_options fixture_options(const char *devices)
{
    return (struct scheduler_options){
        .catalog = CATALOG,
        .stage = fixture_know,
        .devices = devices,
        .shard_ms = SHARD_MS,
        .worker_silence_ms = 1500 * PATIENCE,
        .tuning = &quick,
    };
}

static inline int run_once(const char *devices, struct scheduler_result *r, struct err *e)
{
    struct scheduler_options o = fixture_options(devices);

    *e = (struct err){0};
    return scheduler_run(&o, r, e);
}

static inline struct scheduler_result run_all(const char *devices)
{
    struct scheduler_result r;
    struct err e;

    assert_ok(run_once(devices, &r, &e), e);
    return r;
}

/* A run in a process of its own. */
static inline pid_t run_child(const struct scheduler_options *o)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct scheduler_result r;
        struct err e = {0};
        int rc;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that failed leaves nothing behind */
        rc = scheduler_run(o, &r, &e);

        if (rc)
            fprintf(stderr, "run: %s\n", e.msg);
        _exit(rc ? err_exit_status(rc) : r.interrupted ? 99 : 0);
    }
    assert_true(pid > 0);
    return pid;
}

static inline int wait_child(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ------------------------------------------------------------------------- what is there now */

static inline sqlite3 *reader_open(void)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(CATALOG, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

static inline int64_t count_of(const char *sql)
{
    sqlite3 *db = reader_open();
    sqlite3_stmt *stmt = NULL;
    int64_t n;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

/* Every row of a query as lines of text; the caller frees it. */
static inline char *rows_of(const char *sql)
{
    sqlite3 *db = reader_open();
    sqlite3_stmt *stmt = NULL;
    char *out = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&out, &len);
    int i;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (i = 0; i < sqlite3_column_count(stmt); i++) {
            const unsigned char *s = sqlite3_column_text(stmt, i);

            fprintf(f, "%s|", s ? (const char *)s : "");
        }
        fputc('\n', f);
    }
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    fclose(f);
    return out;
}

/* Waits (30 s at most) until a query counts at least n. */
static inline void wait_count(const char *sql, int64_t n)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;

    while (count_of(sql) < n) {
        if (clock_mono_ms() > end)
            fail_msg("%s is still %lld", sql, (long long)count_of(sql));
        usleep(5000);
    }
}

/* -------------------------------------------------------------------------- what fakes wait for */

/* While the word "hold" stands in $FAKE_STATE the fake worker begins no shard, and is alive. */
static inline void leave_word(const char *word)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "state/%s", word);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static inline void take_word_back(const char *word)
{
    char path[128];

    snprintf(path, sizeof(path), "state/%s", word);
    assert_int_equal(unlink(path), 0);
}

/* What fakes have left under a word, in bytes: one for each lease of a recording in a stage
 * ("sounds:ok-2" is a pass for sounds, "+sounds:ok-2" listened to another), or answer of a
 * finalizer.
 */
static inline int count_left(const char *word)
{
    char path[600];
    struct stat st;

    snprintf(path, sizeof(path), "state/%s", word);
    return stat(path, &st) == 0 ? (int)st.st_size : 0;
}

/* Waits until a fake has left n words that begin so. */
static inline void wait_words(const char *begin, int n)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;

    for (;;) {
        DIR *dir = opendir("state");
        const struct dirent *d;
        int found = 0;

        assert_non_null(dir);
        while ((d = readdir(dir)))
            found += strncmp(d->d_name, begin, strlen(begin)) == 0;
        closedir(dir);
        if (found >= n)
            return;
        if (clock_mono_ms() > end)
            fail_msg("'%s' was left by %d of %d", begin, found, n);
        usleep(5000);
    }
}

/* Processes of a run: its workers and finalizers. */
static inline size_t children_of(pid_t parent, pid_t *ret, size_t max)
{
    char name[64];
    size_t n = 0;
    FILE *f;
    int pid;

    snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    f = fopen(name, "r");
    while (f && n < max && fscanf(f, "%d", &pid) == 1)
        ret[n++] = pid;
    if (f)
        fclose(f);
    return n;
}

static inline struct control *reach_run(void)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;
    struct control *c;
    struct err e = {0};

    while (control_connect(CATALOG, &c, &e) != 0) {
        if (clock_mono_ms() > end)
            fail_msg("no run: %s", e.msg);
        usleep(5000);
    }
    return c;
}

/* Asks the run that is on; select_job 0: about all. */
static inline void tell_run(enum request_type type, int64_t select_job)
{
    struct request rq = {.type = type, .select_job = select_job};
    struct request_reply reply;
    struct err e = {0};
    struct control *c = reach_run();

    assert_ok(control_request(c, &rq, &reply, &e), e);
    control_close(c);
}

/* Waits until a run that was told to stop, and cannot yet, has heard it. */
static inline void wait_draining(void)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;
    struct control *c = reach_run();
    struct control_live live = {0};
    struct err e = {0};

    do {
        assert_true(clock_mono_ms() < end);
        assert_ok(control_status(c, &live, &e), e);
    } while (!live.draining);
    control_close(c);
}

#endif
