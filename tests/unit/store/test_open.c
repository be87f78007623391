/* Opening: the file that is none, the newer one, read-only places, the lock, readers beside a
 * writer. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/lock.h"
#include "store/files.h"
#include "store/migrate.h"
#include "tests/common/files.h"
#include "tests/unit/store/fixture.h"

static void sql(const char *file, const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void expect(const char *file, enum store_mode mode, int code, const char *words)
{
    struct store *st = NULL;
    struct err e = {0};

    assert_int_equal(store_open(file, mode, &st, &e), code);
    assert_null(st);
    if (!strstr(e.msg, words))
        print_error("'%s' lacks '%s'\n", e.msg, words);
    assert_non_null(strstr(e.msg, words));
    assert_null(strchr(e.msg, '\n'));
}

TEST(from_empty)
{
    struct store *st = catalog_new();

    assert_int_equal(store_schema_version(st), migrations_last);
    assert_int_equal(store_path(st)[0], '/');
    assert_int_equal(count_of("PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(count_of("SELECT count(*) FROM sqlite_schema WHERE type = 'table' "
                              "AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'segment_fts%' "
                              "AND sql NOT LIKE '%STRICT%'"),
                     0);
    assert_string_equal(text_of("PRAGMA journal_mode"), "wal");
    catalog_close(st);
    /* An empty file, and a catalog in directories that do not exist yet. */
    catalog_remove();
    file_text(CATALOG, "");
    expect(CATALOG, STORE_READ, ERR_INPUT, "empty");
    catalog_close(catalog_open(STORE_WRITE));
    struct err e = {0};
    assert_ok(store_open("new/deep/c.db", STORE_WRITE, &st, &e), e);
    store_close(st);
    unlink("new/deep/c.db");
    rmdir("new/deep");
    rmdir("new");
}

/* SQLite would read all recordings by them once there are many. */
TEST(of_few_recordings_no_statistics_are_taken)
{
    struct store *st = catalog_new();
    struct store_found f = found_at("/a/1.wav", "", 1);
    int64_t job = job_begin(st, &stage_nano);

    job_add(st, job, &f, 1);
    job_end(st, job, "/a");
    catalog_close(st);
    assert_int_equal(count_of("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'"), 0);
}

/* With room for `room` files more. */
static int open_within(enum store_mode mode, int room, struct err *e)
{
    int lowest = dup(STDIN_FILENO), rc;
    struct store *st = NULL;
    struct rlimit was, few;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)(lowest + room);
    close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    rc = store_open(CATALOG, mode, &st, e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    store_close(st);
    return rc;
}

/* Whichever file it is that is one too many: it is no matter of permissions. */
TEST(no_more_files_may_be_opened)
{
    catalog_close(catalog_new());
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
        struct err e = {0};
        int room = 0;

        while (open_within((enum store_mode)mode, room, &e) != 0) {
            if (e.code != ERR_NOMEM || !strstr(e.msg, "may not open more files: raise its limit"))
                fail_msg("%d, with %d: '%s'", mode, room, e.msg);
            e = (struct err){0};
            assert_true(++room < 10);
        }
        assert_true(room >= 2);
    }
}

TEST(not_a_catalog)
{
    catalog_remove();
    expect("absent.db", STORE_READ, ERR_MISSING, "nightshift enqueue");
    expect("no/such/place.db", STORE_READ, ERR_MISSING, "nightshift enqueue");
    expect(".", STORE_READ, ERR_INPUT, "not a file");
    expect(".", STORE_WRITE, ERR_INPUT, "not a file");
    file_text(CATALOG, "This is a text, and certainly not a database of any kind at all. "
                       "It must be longer than the header of one, so it goes on and on.");
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++)
        expect(CATALOG, (enum store_mode)mode, ERR_CORRUPT, "not an SQLite database");
    catalog_remove();
    sql(CATALOG, "CREATE TABLE t (a); PRAGMA user_version = 3");
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++)
        expect(CATALOG, (enum store_mode)mode, ERR_INPUT, "not a nightshift catalog");
    /* It is left as it was. */
    assert_string_equal(text_of("PRAGMA journal_mode"), "delete");
}

TEST(another_version)
{
    store_close(catalog_new());
    sql(CATALOG, "PRAGMA user_version = 999");
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++)
        expect(CATALOG, (enum store_mode)mode, ERR_VERSION,
               "written by a newer nightshift (schema 999, this one knows ");
    sql(CATALOG, "PRAGMA user_version = 24");
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++)
        expect(CATALOG, (enum store_mode)mode, ERR_VERSION,
               "written by a development version of nightshift (schema 24), and no release reads "
               "it: move it away and enqueue its folders again");
    sql(CATALOG, "PRAGMA user_version = -1");
    expect(CATALOG, STORE_READ, ERR_CORRUPT, "none of ours");
}

TEST(damaged)
{
    struct store *st = catalog_new();
    struct store_found f[100];
    static char names[100][64];
    struct request_reply r;
    struct err e = {0};
    struct stat info;
    int fd, rc = 0;

    int64_t job = job_begin(st, &stage_nano);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof(names[i]), "/archive/a rather long directory/file %03d.wav", i);
        f[i] = found_at(names[i], "", (uint64_t)i);
    }
    job_add(st, job, f, 100);
    store_close(st);
    st = NULL;
    fd = open(CATALOG, O_RDWR);
    fstat(fd, &info);
    for (off_t at = info.st_size / 8192 * 4096; at < info.st_size; at += 4096)
        assert_int_equal(pwrite(fd, "garbage garbage garbage garbage!", 32, at), 32);
    close(fd);
    rc = store_open(CATALOG, STORE_WRITE, &st, &e);
    if (rc == 0)
        rc = request_apply(
            st,
            &(struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = f, .count = 100},
            &r, &e);
    assert_int_equal(rc, ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "damaged"));
    store_close(st);
}

/* Root may write anywhere, so these run as another user. */
static void as_nobody(void (*body)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && (setegid(65534) != 0 || seteuid(65534) != 0))
            _exit(99);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define must(condition)                                                                 \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, e.msg); \
            _exit(1);                                                                   \
        }                                                                               \
    } while (0)

static void read_only_body(void)
{
    struct catalog_lock *lock = NULL;
    struct store *st = NULL;
    struct store_totals totals;
    struct err e = {0};

    must(store_open("ro/" CATALOG, STORE_READ, &st, &e) == 0);
    must(store_totals(st, &totals, &e) == 0 && totals.recordings == 1);
    store_close(st);
    st = NULL;
    must(store_open("ro/" CATALOG, STORE_WRITE, &st, &e) == ERR_DENIED);
    must(strstr(e.msg, "ro/" CATALOG) && strstr(e.msg, "read-only"));
    must(catalog_lock_take("ro/" CATALOG, "run", &lock, &e) == ERR_DENIED);
    must(catalog_make_directory("ro/new/" CATALOG, &e) == ERR_DENIED);
    must(strstr(e.msg, "ro/new': Permission denied"));
    must(access("ro/" CATALOG "-wal", F_OK) != 0 && access("ro/" CATALOG "-shm", F_OK) != 0);
}

static void read_only_with_log_body(void)
{
    struct store *st = NULL;
    struct err e = {0};

    must(store_open("ro/" CATALOG, STORE_READ, &st, &e) == ERR_DENIED);
    must(strstr(e.msg, "copy both files"));
}

TEST(read_only_place)
{
    struct store *st = catalog_new();

    job_add1(st, job_begin(st, &stage_nano), "/a/1.wav", "", 1);
    store_close(st);
    mkdir("ro", 0755);
    assert_int_equal(rename(CATALOG, "ro/" CATALOG), 0);
    chmod("ro/" CATALOG, 0444);
    chmod("ro", 0555);
    as_nobody(read_only_body);
    chmod("ro", 0755);
    file_text("ro/" CATALOG "-wal", "a log that was not finished");
    chmod("ro", 0555);
    as_nobody(read_only_with_log_body);
    chmod("ro", 0755);
    unlink("ro/" CATALOG "-wal");
    unlink("ro/" CATALOG);
    rmdir("ro");
}

TEST(lock_between_processes)
{
    struct catalog_lock *lock = NULL, *other = NULL;
    struct err e = {0};
    char holder[160], c;
    int ready[2], go[2], status;
    pid_t pid;

    catalog_remove();
    assert_int_equal(catalog_lock_holder(CATALOG, holder, sizeof(holder), &e), ERR_EMPTY);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (pid == 0) {
        if (catalog_lock_take(CATALOG, "run", &lock, &e) != 0)
            _exit(1);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) < 0)
            _exit(2);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(catalog_lock_take(CATALOG, "enqueue", &lock, &e), ERR_LOCKED);
    snprintf(holder, sizeof(holder), "another `nightshift run` (pid %ld, since ", (long)pid);
    assert_ptr_equal(strstr(e.msg, holder), e.msg);
    assert_ok(catalog_lock_holder(CATALOG, holder, sizeof(holder), &e), e);
    assert_ptr_equal(strstr(holder, "`nightshift run` (pid "), holder);
    /* By another name of the same file. */
    assert_int_equal(symlink(CATALOG, "link.db"), 0);
    assert_int_equal(catalog_lock_take("./link.db", "enqueue", &lock, &e), ERR_LOCKED);
    unlink("link.db");
    /* However it dies. */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_ok(catalog_lock_take(CATALOG, "enqueue", &lock, &e), e);
    assert_int_equal(catalog_lock_take(CATALOG, "run", &other, &e), ERR_LOCKED);
    catalog_lock_release(lock);
    assert_int_equal(catalog_lock_holder(CATALOG, holder, sizeof(holder), &e), ERR_EMPTY);
    assert_ok(catalog_lock_take(CATALOG, "run", &lock, &e), e);
    catalog_lock_release(lock);
    catalog_lock_release(NULL);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

static char *read_file(const char *name, char *ret, size_t cap)
{
    FILE *f = fopen(name, "r");

    assert_non_null(f);
    ret[fread(ret, 1, cap - 1, f)] = 0;
    fclose(f);
    return ret;
}

static void expect_no_lock(const char *word)
{
    struct catalog_lock *lock = NULL;
    struct err e = {0};

    assert_int_equal(catalog_lock_take(CATALOG, "run", &lock, &e), ERR_INPUT);
    assert_non_null(strstr(e.msg, word));
    assert_non_null(strstr(e.msg, CATALOG ".lock"));
}

/* What lies in the lock's place and is none is left as it is, whatever it is. */
TEST(a_foreign_lock_file_is_not_touched)
{
    static const char text[] = "a letter, and the only copy of it";
    struct catalog_lock *lock = NULL;
    struct err e = {0};
    char now[300];

    catalog_remove();
    file_text("letter", text);
    assert_int_equal(symlink("letter", CATALOG ".lock"), 0);
    expect_no_lock("no plain file");
    assert_string_equal(read_file("letter", now, sizeof(now)), text);
    unlink(CATALOG ".lock");
    assert_int_equal(link("letter", CATALOG ".lock"), 0);
    expect_no_lock("somebody's");
    assert_string_equal(read_file("letter", now, sizeof(now)), text);
    unlink(CATALOG ".lock");
    unlink("letter");
    assert_int_equal(symlink("made", CATALOG ".lock"), 0);
    expect_no_lock("no plain file");
    assert_int_equal(access("made", F_OK), -1);
    unlink(CATALOG ".lock");
    assert_int_equal(mkfifo(CATALOG ".lock", 0600), 0);
    expect_no_lock("no plain file");
    assert_int_equal(catalog_lock_holder(CATALOG, now, sizeof(now), &e), ERR_INPUT);
    unlink(CATALOG ".lock");
    /* Half a holder's lines are ours: it died, or its disk was full. */
    file_text(CATALOG ".lock", "pi");
    assert_ok(catalog_lock_take(CATALOG, "run", &lock, &e), e);
    assert_ptr_equal(strstr(read_file(CATALOG ".lock", now, sizeof(now)), "pid "), now);
    catalog_lock_release(lock);
    assert_string_equal(read_file(CATALOG ".lock", now, sizeof(now)), "");
}

/* A command holds it for moments, another run for the night. */
TEST(a_run_waits_for_a_command_and_not_for_a_run)
{
    static const char *const purposes[] = {"pause", "run"};
    struct catalog_lock *lock = NULL;
    struct err e = {0};
    int ready[2], status;
    pid_t holder;
    char byte = 0;

    for (int i = 0; i < 2; i++) {
        catalog_remove();
        assert_int_equal(pipe(ready), 0);
        holder = fork();
        if (holder == 0) {
            if (catalog_lock_take(CATALOG, purposes[i], &lock, &e) != 0 ||
                write(ready[1], &byte, 1) != 1)
                _exit(1);
            usleep(400000);
            catalog_lock_release(lock);
            _exit(0);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        close(ready[1]);
        if (i == 0) {
            assert_ok(catalog_lock_inherit(CATALOG, "run", &lock, &e), e);
            catalog_lock_release(lock);
        } else {
            assert_int_equal(catalog_lock_inherit(CATALOG, "run", &lock, &e), ERR_LOCKED);
            assert_int_equal(kill(holder, 0), 0); /* at once */
            assert_int_equal(waitpid(holder, &status, WNOHANG), 0);
        }
        assert_int_equal(waitpid(holder, &status, 0), holder);
        assert_int_equal(status, 0);
    }
}

/* What people said is not everybody's to read; one that exists keeps the mode that it was given. */
TEST(a_new_catalog_is_private)
{
    const mode_t before = umask(0);
    struct store *st = NULL;
    struct stat info;
    struct err e = {0};

    catalog_remove();
    for (int i = 0; i < 2; i++) {
        assert_ok(store_open(CATALOG, STORE_WRITE, &st, &e), e);
        assert_int_equal(stat(CATALOG, &info), 0);
        assert_int_equal(info.st_mode & 0777, i ? 0640 : 0600);
        assert_int_equal(stat(CATALOG "-wal", &info), 0);
        assert_int_equal(info.st_mode & 0777, i ? 0640 : 0600);
        store_close(st);
        assert_int_equal(chmod(CATALOG, 0640), 0);
    }
    umask(before);
    catalog_remove();
}

/* kill -9 of a run between the fork of a worker and its exec: the child has the lock for a while.
 */
TEST(a_child_of_who_was_killed_is_waited_for)
{
    struct catalog_lock *lock = NULL;
    struct err e = {0};
    int ready[2], status;
    pid_t holder;
    char byte = 0;

    catalog_remove();
    assert_int_equal(pipe(ready), 0);
    holder = fork();
    if (holder == 0) {
        if (catalog_lock_take(CATALOG, "run", &lock, &e) != 0)
            _exit(1);
        if (fork() == 0) {
            usleep(300000);
            _exit(0);
        }
        if (write(ready[1], &byte, 1) != 1)
            _exit(2);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    kill(holder, SIGKILL);
    assert_int_equal(waitpid(holder, &status, 0), holder);
    assert_int_equal(catalog_lock_take(CATALOG, "enqueue", &lock, &e), ERR_LOCKED); /* at once */
    assert_ok(catalog_lock_inherit(CATALOG, "run", &lock, &e), e);
    catalog_lock_release(lock);
}

/* Readers see what is committed, write nothing, and leave the log to the writer. */
TEST(readers_beside_a_writer)
{
    struct store *w = catalog_new(), *r;
    struct store_totals totals;
    struct request_reply reply;
    struct err e = {0};
    struct stat before, after;
    int64_t job = job_begin(w, &stage_nano);

    job_add1(w, job, "/a/1.wav", "", 1);
    r = catalog_open(STORE_READ);
    assert_ok(store_totals(r, &totals, &e), e);
    assert_int_equal(totals.recordings, 1);
    assert_int_equal(request_apply(r, &(struct request){.type = REQUEST_PAUSE}, &reply, &e),
                     ERR_DENIED);
    assert_int_equal(store_begin(r, &e), ERR_DENIED);
    assert_int_equal(store_event(r, "x", 0, NULL, "y", &e), ERR_DENIED);
    assert_ok(store_begin(w, &e), e);
    job_add1(w, job, "/a/2.wav", "", 2);
    assert_ok(store_totals(r, &totals, &e), e);
    assert_int_equal(totals.recordings, 1);
    assert_ok(store_commit(w, &e), e);
    assert_ok(store_totals(r, &totals, &e), e);
    assert_int_equal(totals.recordings, 2);
    /* The writer goes first: the reader, now the last one, must not fold the log into the file. */
    store_close(w);
    assert_int_equal(stat(CATALOG "-wal", &before), 0);
    assert_true(before.st_size > 0);
    store_close(r);
    assert_int_equal(stat(CATALOG "-wal", &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    w = catalog_open(STORE_WRITE);
    store_close(w);
    assert_int_equal(stat(CATALOG "-wal", &after), -1);
}

/* With its directory, too; and where nothing can be written any more, that is said. */
TEST(a_catalog_that_is_gone_is_copied)
{
    struct store *st = NULL, *copy = NULL;
    struct store_totals totals;
    struct err e = {0};
    char *path = NULL;

    assert_ok(store_open("gone/" CATALOG, STORE_WRITE, &st, &e), e);
    job_add1(st, job_begin(st, &stage_nano), "/a/1.wav", "", 1);
    assert_ok(store_in_place(st, &e), e);
    assert_int_equal(system("rm -r gone"), 0);
    assert_int_equal(store_in_place(st, &e), ERR_MISSING);
    assert_ok(store_rescue(st, &path, &e), e);
    assert_ok(store_open(path, STORE_READ, &copy, &e), e);
    assert_ok(store_totals(copy, &totals, &e), e);
    assert_int_equal(totals.recordings, 1);
    store_close(copy);
    free(path);
    path = NULL;
    assert_int_equal(system("rm -r gone && touch gone"), 0);
    assert_int_equal(store_in_place(st, &e), ERR_MISSING);
    assert_true(store_rescue(st, &path, &e) < 0);
    assert_null(path);
    store_close(st);
    unlink("gone");
}

/* A reader that stays in its transaction keeps the log from being emptied, and is named. */
TEST(a_reader_holds_the_log)
{
    struct store *st = catalog_new();
    int ready[2], go[2], status;
    uint64_t before, room, all;
    char name[64], who[160], byte = 0;
    struct err e = {0};
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    job_begin(st, &stage_nano);
    assert_true(store_log_bytes(st) > 0);
    assert_ok(store_log_empty(st, &e), e);
    assert_int_equal(store_log_bytes(st), 0);
    store_log_readers(st, who, sizeof(who));
    assert_string_equal(who, "another program");
    pid = fork();
    if (pid == 0) {
        sqlite3 *db;

        if (sqlite3_open(CATALOG, &db) != SQLITE_OK ||
            sqlite3_exec(db, "BEGIN; SELECT count(*) FROM job", NULL, NULL, NULL) != SQLITE_OK ||
            write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    job_begin(st, &stage_nano);
    before = store_log_bytes(st);
    assert_true(before > 0);
    assert_int_equal(store_log_empty(st, &e), ERR_LOCKED);
    job_begin(st, &stage_nano);
    assert_true(store_log_bytes(st) > before);
    snprintf(name, sizeof(name), "test_store_open (pid %ld)", (long)pid);
    store_log_readers(st, who, sizeof(who));
    assert_string_equal(who, name);
    assert_ok(store_log_room(st, &room, &all, &e), e);
    assert_true(room > 0 && all >= room);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    e = (struct err){0};
    assert_ok(store_log_empty(st, &e), e);
    assert_int_equal(store_log_bytes(st), 0);
    catalog_close(st);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

/* A writer that was killed leaves a log and no index that can be trusted. */
TEST(after_a_kill)
{
    struct store *st;
    struct store_totals totals;
    struct err e = {0};
    int status;
    pid_t pid;

    catalog_remove();
    pid = fork();
    if (pid == 0) {
        st = catalog_open(STORE_WRITE);
        job_add1(st, job_begin(st, &stage_nano), "/a/1.wav", "", 1);
        if (store_begin(st, &e) != 0)
            _exit(1);
        job_add1(st, 1, "/a/2.wav", "", 2);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    unlink(CATALOG "-shm");
    st = catalog_open(STORE_READ);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.recordings, 1);
    store_close(st);
    st = catalog_open(STORE_WRITE);
    assert_ok(store_totals(st, &totals, &e), e);
    assert_int_equal(totals.recordings, 1);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
