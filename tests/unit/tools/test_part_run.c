/* Runs of a part: what is written back, when it cannot be, and when two are at the same part. */
#include "tests/unit/store/fixture.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/replace.h"
#include "store/parting/parting.h"
#include "tools/parts/part_file.h"
#include "tools/parts/part_run.h"

#define FOLDER "parts"
#define PART FOLDER "/part-0000.db"

static void part_made(void)
{
    const struct parting_share share = {1, false, 0, 0};
    const struct parting_part p = {"00112233445566778899aabbccddeeff", 0, 1, &share, 1};
    struct store *st = catalog_new(), *part = NULL;
    int64_t job = job_begin(st, &stage_nano);
    struct err e = {0};
    uint32_t ms;

    job_add1(st, job, "/a/one.wav", "", 1);
    job_end(st, job, "/a");
    assert_ok(store_shard_length(st, 30000, 30000, &ms, &e), e);
    mkdir(FOLDER, 0777);
    unlink(PART);
    assert_ok(store_open("making.db", STORE_WRITE, &part, &e), e);
    assert_ok(parting_write(st, part, &p, &e), e);
    assert_ok(parting_snapshot(part, PART, &e), e);
    store_close(part);
    unlink("making.db");
    catalog_close(st);
}

static struct part_run *opened(int64_t every_ms)
{
    struct part_run *p = NULL;
    struct err e = {0};

    assert_ok(part_run_open(PART, every_ms, 0, &p, &e), e);
    return p;
}

static int ended(struct part_run *p, struct err *e)
{
    int rc = part_run_end(p, true, "", e);

    part_run_close(p);
    return rc;
}

/* A checkpoint more, as a run would. */
static void work(const struct part_run *p, uint32_t seq)
{
    static const char *const said[] = {"the boats came in"};
    struct store *st = NULL;
    struct err e = {0};

    assert_ok(store_open(part_run_catalog(p), STORE_WRITE, &st, &e), e);
    shard_put(st, 1, seq, said, 1);
    store_close(st);
}

static int64_t asked_of(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *stmt = NULL;
    int64_t n = -1;

    assert_int_equal(sqlite3_open_v2(PART, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static int64_t shards_there(void) { return asked_of("SELECT count(*) FROM shard"); }

/* Working folders that were left in the test's own. */
static size_t copies(void)
{
    DIR *d = opendir(".");
    const struct dirent *e;
    size_t n = 0;

    while (d && (e = readdir(d)))
        n += strncmp(e->d_name, "nightshift-part-", 16) == 0;
    closedir(d);
    return n;
}

/* While somebody writes: each file that is there is a whole one. */
TEST(written_back_meanwhile)
{
    struct part_run *p;
    struct err e = {0};
    uint32_t seq = 0;

    part_made();
    p = opened(20);
    while (shards_there() < 3 && seq < 5000)
        work(p, seq++);
    assert_true(shards_there() >= 3);
    assert_ok(ended(p, &e), e);
    assert_int_equal(shards_there(), seq);
    assert_int_equal(asked_of("SELECT count(*) FROM event WHERE kind = 'part-end'"), 1);
    assert_int_equal(copies(), 0);
}

/* Nowhere to write to: the copy stays, with all in it. */
TEST(the_folder_is_gone)
{
    struct part_run *p;
    struct err e = {0};

    part_made();
    p = opened(600);
    work(p, 0);
    assert_int_equal(rename(FOLDER, "gone"), 0);
    assert_true(ended(p, &e) < 0);
    assert_non_null(strstr(e.msg, "what is done lies in './nightshift-part-"));
    assert_int_equal(copies(), 1);
    assert_int_equal(rename("gone", FOLDER), 0);
    assert_int_equal(shards_there(), 0);
    assert_int_equal(system("cp nightshift-part-*/part.db " PART " && rm -r nightshift-part-*"), 0);
    assert_int_equal(shards_there(), 1);
}

/* It fails now, and later it does not. */
TEST(the_folder_comes_back)
{
    struct part_run *p;
    struct err e = {0};

    part_made();
    p = opened(60000);
    work(p, 0);
    assert_int_equal(rename(FOLDER, "gone"), 0);
    assert_int_equal(system("(sleep 0.3; mv gone " FOLDER ") &"), 0);
    assert_ok(ended(p, &e), e);
    assert_int_equal(shards_there(), 1);
    assert_int_equal(copies(), 0);
}

/* The file was taken away, not its folder: it is there again. */
TEST(the_part_is_gone)
{
    struct part_run *p;
    struct err e = {0};

    part_made();
    p = opened(60000);
    work(p, 0);
    assert_int_equal(unlink(PART), 0);
    assert_ok(ended(p, &e), e);
    assert_int_equal(shards_there(), 1);
}

/* The old try of a task that was requeued dies slowly: what it writes late does not undo the new.
 */
TEST(two_at_once)
{
    struct part_run *old, *new;
    struct err e = {0};

    part_made();
    old = opened(60000);
    work(old, 0);
    new = opened(60000);
    work(new, 0);
    work(new, 1);
    assert_ok(ended(new, &e), e);
    assert_int_equal(shards_there(), 2);
    assert_int_equal(ended(old, &e), ERR_CANCELLED);
    assert_int_equal(shards_there(), 2);
    assert_int_equal(asked_of("SELECT count(*) FROM event WHERE kind = 'part-try'"), 2);
    assert_int_equal(copies(), 0);
}

/* A new run begins between the old one's look at the mark and its rename: the rename fails, and
 * what the new one has read is what is there. */
TEST(no_rename_behind_the_fence)
{
    struct part_run *new;
    struct err e = {0};
    char *beside = NULL;
    int64_t tries;

    part_made();
    assert_ok(part_beside(PART, PART, &beside, &e), e); /* the old one, which has looked */
    new = opened(60000);
    tries = asked_of("SELECT count(*) FROM event WHERE kind = 'part-try'");
    assert_int_equal(tries, 1);
    assert_int_equal(replace_with(beside, PART, &e), ERR_MISSING);
    assert_int_equal(asked_of("SELECT count(*) FROM event WHERE kind = 'part-try'"), 1);
    e = (struct err){0};
    assert_ok(ended(new, &e), e);
}

/* ... and is told to stop as soon as it sees that. */
TEST(overtaken)
{
    struct part_run *old, *new;
    struct err e = {0};

    part_made();
    old = opened(50);
    new = opened(60000);
    while (!part_run_stopped(old))
        usleep(1000);
    assert_int_equal(ended(old, &e), ERR_CANCELLED);
    assert_ok(ended(new, &e), e);
}

/* A run that is killed says nothing, so the next one looks. */
TEST(failed_too_often)
{
    struct part_run *p = NULL;
    struct err e = {0};

    part_made();
    for (int i = 0; i < 2; i++) {
        assert_ok(part_run_open(PART, 60000, 2, &p, &e), e);
        assert_ok(part_run_end(p, false, "", &e), e);
        assert_int_equal(part_run_failed_tries(p), i + 1);
        part_run_close(p);
    }
    assert_int_equal(part_run_open(PART, 60000, 2, &p, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "2 tries of"));
    e = (struct err){0};
    assert_ok(part_run_open(PART, 60000, 3, &p, &e), e);
    work(p, 0); /* a checkpoint: it has not failed */
    assert_ok(part_run_end(p, false, "", &e), e);
    assert_int_equal(part_run_failed_tries(p), 2);
    part_run_close(p);
}

/* From the hand-over on a signal waits, and comes when the run is over at the latest. */
TEST(signals_wait)
{
    struct sigaction dies = {.sa_handler = SIG_DFL};
    struct part_run *p;
    struct err e = {0};

    part_made();
    p = opened(60000);
    part_run_hand_over(p);
    sigaction(SIGUSR1, &dies, NULL); /* as a loop leaves it */
    kill(getpid(), SIGUSR1);
    assert_ok(ended(p, &e), e);
}

static int home(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf " FOLDER " gone nightshift-part-*"),
                     0); /* of one that was killed */
    unsetenv("SLURM_TMPDIR");
    return setenv("TMPDIR", ".", 1);
}

TEST_MAIN(home, NULL)
