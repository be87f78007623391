/* Requests to a run from other commands, and what hostile or clumsy peers do to its socket. */
#include <sys/socket.h>
#include <sys/un.h>

#include "scheduler/control/control_socket.h"
#include "tests/common/golden.h"
#include "tests/unit/scheduler/fixture.h"
#include "workers/wire/frame.h"

static struct request_reply ask(struct control *c, enum request_type type, const char *path)
{
    struct request rq = {.type = type, .select_path = path};
    struct request_reply reply = {0};
    struct err e = {0};

    assert_ok(control_request(c, &rq, &reply, &e), e);
    return reply;
}

/* A run in another process that goes on until it is told to stop. */
static pid_t start_watch(const char *devices)
{
    static struct scheduler_options o;

    o = fixture_options(devices);
    o.watch = true;
    return run_child(&o);
}

static void stop(pid_t pid)
{
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
}

TEST(enqueue_reaches_the_run)
{
    const char *more[] = {"/a/ok-4", "/a/ok-5"}, *again[] = {"/a/ok-3", "/b/ok-9"};
    struct control *c;
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-3");
    pid = start_watch("cpu");
    c = reach_run();
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    fixture_enqueue(ask_run, c, more, 2, "fake");
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 3);
    /* Another stage: the worker is set up anew. */
    fixture_enqueue(ask_run, c, again, 2, "b");
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 5);
    control_close(c);
    stop(pid);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 3 + 4 + 5 + 3 + 9);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 2 * (3 + 4 + 5 + 3 + 9));
}

TEST(a_run_waits_for_an_enqueue_that_has_begun)
{
    struct scheduler_options o = fixture_options("cpu");
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage("fake"),
                         .language = ""};
    struct store_found found = fixture_found("/a/ok-6", 0);
    struct request_reply reply;
    struct control *c;
    struct err e = {0};
    int64_t job;
    pid_t pid;

    fixture_reset();
    leave_word("hold");
    ADD("/a/ok-5");
    pid = run_child(&o);
    c = reach_run();
    assert_ok(control_request(c, &rq, &reply, &e), e);
    take_word_back("hold");
    job = reply.job_id;
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    usleep(300000);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    rq = (struct request){.type = REQUEST_ENQUEUE_ADD, .job_id = job, .found = &found, .count = 1};
    assert_ok(control_request(c, &rq, &reply, &e), e);
    rq = (struct request){.type = REQUEST_ENQUEUE_END, .job_id = job};
    assert_ok(control_request(c, &rq, &reply, &e), e);
    assert_int_equal(wait_child(pid), 0);
    control_close(c);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 2);
}

TEST(cancel_stops_what_is_running)
{
    struct control *c;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-2000", "/b/slow-1000", "/c/ok-3");
    pid = start_watch("cpu");
    c = reach_run();
    wait_count("SELECT count(*) FROM shard", 2);
    assert_int_equal(ask(c, REQUEST_CANCEL, "/a").affected, 1);
    assert_int_equal(ask(c, REQUEST_CANCEL, "/b").affected, 1);
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), 2);
    /* What was done before stays, and retry goes on from there. */
    assert_true(count_of("SELECT count(*) FROM shard") >= 5);
    assert_true(count_of("SELECT count(*) FROM shard") < 1000);
    assert_int_equal(ask(c, REQUEST_RETRY, "/b").affected, 1);
    wait_count("SELECT count(*) FROM shard JOIN task USING (task_id) WHERE state = 'pending'", 1);
    control_close(c);
    stop(pid);
}

/* Nobody writes here but who must: a request, that what waits be in the catalog before it. */
static int64_t shards_now(struct control *c)
{
    ask(c, REQUEST_RESUME, "/");
    return count_of("SELECT count(*) FROM shard");
}

TEST(pause_lets_go_of_the_device)
{
    struct scheduler_options o = fixture_options("cpu");
    int64_t end = clock_mono_ms() + 30000 * PATIENCE, before;
    struct scheduler_tuning t = quick;
    struct control_live live;
    struct control *c;
    struct err e = {0};
    pid_t pid, worker;

    fixture_reset();
    ADD("/a/slow-50", "/a/ok-2");
    t.commit_ms = 600000;
    o.tuning = &t;
    o.watch = true;
    pid = run_child(&o);
    c = reach_run();
    while (shards_now(c) < 2)
        assert_true(clock_mono_ms() < end);
    ask(c, REQUEST_PAUSE, NULL);
    do {
        usleep(1000);
        assert_ok(control_status(c, &live, &e), e);
        assert_true(clock_mono_ms() < end);
    } while (live.workers_ready);
    /* What it finished after the request is written by the time that it is not counted. */
    before = count_of("SELECT count(*) FROM shard");
    assert_int_equal(shards_now(c), before);
    assert_int_equal(live.pid, pid);
    assert_int_equal(live.workers, 1);
    while (children_of(pid, &worker, 1)) {
        usleep(1000);
        assert_true(clock_mono_ms() < end);
    }
    assert_int_equal(shards_now(c), before);
    ask(c, REQUEST_RESUME, NULL);
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 2);
    control_close(c);
    stop(pid);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 52);
}

TEST(one_directory_is_paused)
{
    struct control *c;
    int64_t before;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-400", "/b/ok-2");
    pid = start_watch("cpu");
    c = reach_run();
    wait_count("SELECT count(*) FROM shard", 2);
    assert_int_equal(ask(c, REQUEST_PAUSE, "/a").affected, 1);
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    before = count_of("SELECT count(*) FROM shard");
    assert_true(before < 100); /* it ended at a checkpoint, long before its end */
    usleep(200000);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), before);
    ask(c, REQUEST_RESUME, "/a");
    wait_count("SELECT count(*) FROM shard", before + 3);
    control_close(c);
    stop(pid);
}

TEST(a_paused_catalog_is_not_run)
{
    struct request rq = {.type = REQUEST_PAUSE};
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-2");
    fixture_apply(&rq);
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    rq.type = REQUEST_RESUME;
    fixture_apply(&rq);
    run_all("cpu");
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 2);
}

TEST(retry_during_a_run)
{
    struct scheduler_options o = fixture_options("cpu");
    struct control *c;
    pid_t pid;

    fixture_reset();
    ADD("/a/ioonce-2", "/a/ok-1");
    o.watch = true;
    o.attempts = 1;
    pid = run_child(&o);
    c = reach_run();
    wait_count("SELECT count(*) FROM task WHERE state = 'failed'", 1);
    assert_int_equal(ask(c, REQUEST_RETRY, NULL).affected, 1);
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 2);
    control_close(c);
    stop(pid);
}

/* Its second death alone in the run, but the first one since. */
TEST(retry_forgives_deaths)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct control *c;
    pid_t pid;

    fixture_reset();
    ADD("/a/crash-1");
    t.retry_base_ms = 3600000; /* a retry comes sooner */
    o.tuning = &t;
    o.watch = true;
    pid = run_child(&o);
    c = reach_run();
    for (int deaths = 2; deaths <= 6; deaths += 2) {
        wait_count("SELECT count(*) FROM event WHERE kind = 'worker-died'", deaths);
        assert_int_equal(count_of("SELECT suspect FROM task WHERE state = 'pending'"), 2);
        assert_int_equal(ask(c, REQUEST_RETRY, NULL).affected, 1);
    }
    control_close(c);
    stop(pid);
}

/* Thousands of tasks: in pieces, between which the run goes on; and one answer. */
TEST(a_large_request_is_answered_once)
{
    enum { MANY = 9000 };
    static char names[MANY][24];
    static const char *paths[MANY + 1] = {"/a/slow-30000"}; /* longer than all of this lasts */
    struct control *c;
    pid_t pid;

    fixture_reset();
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "/b/ok-1%04d0", i);
        paths[i + 1] = names[i];
    }
    for (size_t i = 0; i <= MANY; i += 3000)
        fixture_add(paths + i, i + 3000 <= MANY ? 3000 : MANY + 1 - i, "fake");
    pid = start_watch("cpu");
    c = reach_run();
    wait_count("SELECT count(*) FROM shard", 1);
    assert_int_equal(ask(c, REQUEST_CANCEL, "/b").affected, MANY);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), MANY);
    assert_int_equal(ask(c, REQUEST_RETRY, "/b").affected, MANY);
    assert_int_equal(ask(c, REQUEST_CANCEL, NULL).affected, MANY + 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 0);
    control_close(c);
    stop(pid);
}

/* Somebody else's sqlite3 shell: holds the catalog for so long, and says when it begins. */
static pid_t hold_catalog(unsigned seconds)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        sqlite3 *db;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sqlite3_open(CATALOG, &db) != SQLITE_OK)
            _exit(1);
        sqlite3_busy_timeout(db, 10000);
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
            write(ready[1], &byte, 1) != 1)
            _exit(2);
        sleep(seconds);
        _exit(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* While the run waits for somebody's lock nobody listens to the workers: that is not their silence.
 */
TEST(a_run_that_was_held_blames_no_worker)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    const char *more = "/a/ok-2";
    struct control *c;
    pid_t pid, holder;

    fixture_reset();
    ADD("/a/ok-1");
    o.worker_silence_ms = 2000;
    o.watch = true;
    t.busy_ms = 10000;
    o.tuning = &t;
    pid = run_child(&o);
    c = reach_run();
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    holder = hold_catalog(5);
    assert_int_equal(ask(c, REQUEST_RESUME, "/").affected, 0);
    assert_int_equal(wait_child(holder), 0);
    fixture_enqueue(ask_run, c, &more, 1, "fake");
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 2);
    control_close(c);
    stop(pid);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 0);
}

/* A shell in a transaction, for longer than a full disk would be waited out. */
TEST(a_locked_catalog_is_waited_for)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct control *c;
    pid_t pid, holder;

    fixture_reset();
    ADD("/a/slow-50", "/a/ok-2");
    t.busy_ms = 50;
    o.tuning = &t;
    pid = run_child(&o);
    c = reach_run();
    wait_count("SELECT count(*) FROM shard", 1);
    holder = hold_catalog(3);
    assert_int_equal(ask(c, REQUEST_RESUME, "/").affected, 0); /* waits, too */
    control_close(c);
    assert_int_equal(wait_child(holder), 0);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 52);
}

/* What a walk found to be gone waits for its return, also when it was queued already. */
TEST(what_vanished_is_not_tried)
{
    struct scheduler_options o = fixture_options("cpu");
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage("fake"),
                         .language = ""};
    const char *root = "/gone";
    struct request_reply reply;
    struct control *c;
    struct err e = {0};
    pid_t pid;

    fixture_reset();
    leave_word("hold");
    ADD("/a/ok-20", "/a/ok-21", "/a/ok-22", "/a/ok-23", "/a/ok-24", "/a/ok-25", "/a/ok-26",
        "/a/ok-27", "/gone/missing-1");
    pid = run_child(&o);
    c = reach_run();
    wait_words("transcribe:", 1); /* it was leased */
    assert_ok(control_request(c, &rq, &reply, &e), e);
    rq = (struct request){
        .type = REQUEST_ENQUEUE_END, .job_id = reply.job_id, .roots = &root, .root_count = 1};
    assert_ok(control_request(c, &rq, &reply, &e), e);
    assert_int_equal(reply.counts.vanished, 1);
    control_close(c);
    take_word_back("hold");
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 8);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending' AND absent"), 1);
}

/* A cancelled recording's retry is not waited for. */
TEST(a_cancelled_retry_is_not_waited_for)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct control *c;
    pid_t pid;

    fixture_reset();
    ADD("/a/io-1");
    t.retry_base_ms = 600000;
    o.tuning = &t;
    pid = run_child(&o);
    c = reach_run();
    wait_count("SELECT count(*) FROM task WHERE retry_at IS NOT NULL", 1);
    assert_int_equal(ask(c, REQUEST_CANCEL, NULL).affected, 1);
    control_close(c);
    assert_int_equal(wait_child(pid), 0);
}

/* ------------------------------------------------------------------------------- the socket */

TEST(a_status_makes_sense_or_is_refused)
{
    struct control_live m = {.pid = 1,
                             .speed = 12.5,
                             .low_ms = -1,
                             .high_ms = -1,
                             .note = "resting until 22:00",
                             .hours = "22:00-06:00",
                             .work = "/a/one.wav",
                             .work_percent = 45,
                             .work_more = 3,
                             .device = {{.name = "cuda:0",
                                         .ready = true,
                                         .percent = 87,
                                         .celsius = 71,
                                         .milliwatts = 412000,
                                         .used_bytes = 5,
                                         .total_bytes = 9,
                                         .health = "at its power limit"},
                                        {.name = "cpu",
                                         .left = true,
                                         .user = "pid 4711",
                                         .percent = -1,
                                         .celsius = -1,
                                         .milliwatts = -1,
                                         .used_bytes = -1,
                                         .total_bytes = -1}},
                             .devices = 2},
                        got;
    struct buf b = BUF_INIT;
    struct err e = {0};

    control_live_put(&b, &m);
    golden_holds(CONTROL_LIVE, "live", &b);
    assert_ok(control_live_get(b.data, b.len, &got, &e), e);
    assert_true(got.speed == 12.5);
    assert_string_equal(got.note, "resting until 22:00");
    assert_string_equal(got.hours, "22:00-06:00");
    assert_string_equal(got.work, "/a/one.wav");
    assert_int_equal(got.work_percent, 45);
    assert_int_equal(got.work_more, 3);
    assert_int_equal(got.devices, 2);
    assert_memory_equal(got.device, m.device, sizeof(m.device));
    memset(b.data + 28, 0xFF, 8); /* the speed */
    assert_int_equal(control_live_get(b.data, b.len, &got, &e), ERR_PROTOCOL);
    buf_clear(&b);
    m.speed = 1e300;
    control_live_put(&b, &m);
    assert_ok(control_live_get(b.data, b.len, &got, &e), e);
    assert_true(got.speed == 0);
    buf_free(&b);
}

TEST(an_error_comes_as_it_was_said)
{
    const struct err full = {ERR_FULL, "the disk is full"};
    struct buf b = BUF_INIT;
    struct err e = {0};

    control_error_put(&b, &full);
    golden_holds(CONTROL_ERROR, "error", &b);
    assert_int_equal(control_error_get(b.data, b.len, &e), ERR_FULL);
    assert_string_equal(e.msg, full.msg);
    buf_free(&b);
}

static int raw_connect(void)
{
    struct control_path p;
    struct err e = {0};
    int fd;

    assert_ok(control_path_open(CATALOG, &p, &e), e);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&p.addr, sizeof(p.addr)), 0);
    control_path_close(&p);
    return fd;
}

static void still_answers(void)
{
    struct control *c = reach_run();
    struct control_live live;
    struct err e = {0};

    assert_ok(control_status(c, &live, &e), e);
    control_close(c);
}

TEST(hostile_peers_are_closed)
{
    static uint8_t junk[70000];
    struct frame_reader in = {0};
    struct buf b = BUF_INIT;
    struct frame f;
    struct err e = {0};
    struct stat st;
    char byte;
    pid_t pid;
    int fd, i;

    fixture_reset();
    ADD("/a/ok-1");
    pid = start_watch("cpu");
    still_answers();
    assert_int_equal(stat(CATALOG ".sock", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* Bytes that are no frame: told so, and closed. */
    memset(junk, 'x', sizeof(junk));
    fd = raw_connect();
    assert_true(send(fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0);
    assert_int_equal(frame_read_fd(fd, &in, 5000, &f, &e), 0);
    assert_int_equal(f.type, CONTROL_ERROR);
    assert_int_equal(control_error_get(f.payload, f.len, &e), ERR_PROTOCOL);
    frame_reader_free(&in);
    close(fd);
    still_answers();
    /* A request that is none, and a message that nobody knows. */
    for (i = 0; i < 2; i++) {
        fd = raw_connect();
        memset(&in, 0, sizeof(in));
        assert_int_equal(frame_write_fd(fd, i ? 77 : CONTROL_REQUEST, "abc", 3, &e), 0);
        assert_int_equal(frame_read_fd(fd, &in, 5000, &f, &e), 0);
        assert_int_equal(f.type, CONTROL_ERROR);
        assert_int_equal(read(fd, &byte, 1), 0);
        frame_reader_free(&in);
        close(fd);
    }
    /* Half a frame, and then the peer goes. */
    fd = raw_connect();
    frame_put(&b, CONTROL_STATUS, junk, 60000);
    assert_true(send(fd, b.data, 1000, MSG_NOSIGNAL) == 1000);
    still_answers();
    close(fd);
    buf_free(&b);
    still_answers();
    stop(pid);
    assert_int_equal(access(CATALOG ".sock", F_OK), -1);
}

/* Who is connected and asks nothing is in nobody's way, and hears it when it asks too late. */
TEST(idle_peers_make_room)
{
    enum { MANY = 40 };
    struct control_live live;
    struct control *first;
    struct err e = {0};
    int i, fd[MANY];
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-1");
    pid = start_watch("cpu");
    first = reach_run();
    assert_ok(control_status(first, &live, &e), e);
    for (i = 0; i < MANY; i++)
        fd[i] = raw_connect();
    still_answers();
    assert_int_equal(control_status(first, &live, &e), ERR_TIMEOUT);
    assert_non_null(strstr(e.msg, "idle"));
    control_close(first);
    for (i = 0; i < MANY; i++)
        close(fd[i]);
    stop(pid);
}

/* Enqueues that have begun are not idle: whoever comes then is told to wait. */
TEST(a_run_that_is_busy_says_so)
{
    enum { MANY = 32 };
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage("fake"),
                         .language = ""};
    struct control *c[MANY], *one_more;
    struct request_reply reply;
    struct control_live live;
    struct err e = {0};
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-1");
    pid = start_watch("cpu");
    for (int i = 0; i < MANY; i++) {
        c[i] = reach_run();
        assert_ok(control_request(c[i], &rq, &reply, &e), e);
    }
    one_more = reach_run();
    assert_int_equal(control_status(one_more, &live, &e), ERR_LOCKED);
    assert_ptr_equal(strstr(e.msg, "busy: 32 commands"), e.msg);
    control_close(one_more);
    for (int i = 0; i < MANY; i++) {
        rq = (struct request){.type = REQUEST_ENQUEUE_END, .job_id = i + 2};
        assert_ok(control_request(c[i], &rq, &reply, &e), e);
        control_close(c[i]);
    }
    stop(pid);
}

/* Nothing, or half a request: each is told, and closed, in its time. An enqueue is left to its
 * walk, but not to half a request. */
TEST(silent_peers_are_closed)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage("fake"),
                         .language = ""};
    struct request_reply reply;
    struct control *enqueue;
    struct err e = {0};
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-1");
    t.request_ms = 300;
    o.tuning = &t;
    o.watch = true;
    pid = run_child(&o);
    enqueue = reach_run();
    assert_ok(control_request(enqueue, &rq, &reply, &e), e);
    for (int sent = 0; sent < 3; sent++) {
        struct frame_reader in = {0};
        struct frame f;
        char byte;
        int fd = raw_connect();

        if (sent == 1)
            assert_int_equal(send(fd, "NSF1", 4, MSG_NOSIGNAL), 4);
        if (sent == 2) { /* an answered one is idle again */
            assert_ok(frame_write_fd(fd, CONTROL_STATUS, NULL, 0, &e), e);
            assert_ok(frame_read_fd(fd, &in, 30000 * PATIENCE, &f, &e), e);
            assert_int_equal(f.type, CONTROL_LIVE);
        }
        assert_ok(frame_read_fd(fd, &in, 30000 * PATIENCE, &f, &e), e);
        assert_int_equal(f.type, CONTROL_ERROR);
        assert_int_equal(control_error_get(f.payload, f.len, &e), ERR_TIMEOUT);
        /* With what was not read before it, it is reset. */
        assert_true(read(fd, &byte, 1) <= 0);
        frame_reader_free(&in);
        close(fd);
    }
    rq = (struct request){.type = REQUEST_ENQUEUE_END, .job_id = reply.job_id};
    e = (struct err){0};
    assert_ok(control_request(enqueue, &rq, &reply, &e), e);
    control_close(enqueue);
    stop(pid);
}

/* A peer that asks without end and never reads must neither block the run nor fill its memory. */
TEST(a_peer_that_does_not_listen)
{
    struct buf b = BUF_INIT;
    int64_t end;
    size_t sent = 0;
    pid_t pid;
    int fd, i;

    fixture_reset();
    ADD("/a/slow-30");
    pid = start_watch("cpu");
    still_answers();
    fd = raw_connect();
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (i = 0; i < 1000; i++)
        frame_put(&b, CONTROL_STATUS, NULL, 0);
    end = clock_mono_ms() + 1000;
    while (clock_mono_ms() < end && sent < (64u << 20)) {
        ssize_t n = send(fd, b.data, b.len, MSG_NOSIGNAL);

        if (n > 0)
            sent += (size_t)n;
        else
            usleep(1000);
    }
    /* The kernel's buffers took some; the run stopped reading. */
    assert_true(sent < (64u << 20));
    wait_count("SELECT count(*) FROM task WHERE state = 'done'", 1);
    still_answers();
    close(fd);
    buf_free(&b);
    stop(pid);
}

TEST(a_stale_socket_is_replaced)
{
    struct scheduler_options o = fixture_options("cpu");
    struct control *c;
    struct err e = {0};
    pid_t pid;

    fixture_reset();
    assert_int_equal(control_connect(CATALOG, &c, &e), ERR_EMPTY);
    ADD("/a/hang-2");
    o.worker_silence_ms = 600000;
    pid = run_child(&o);
    still_answers();
    kill(pid, SIGKILL);
    wait_child(pid);
    assert_int_equal(access(CATALOG ".sock", F_OK), 0);
    assert_int_equal(control_connect(CATALOG, &c, &e), ERR_EMPTY);
    pid = run_child(&o);
    still_answers();
    kill(pid, SIGKILL);
    wait_child(pid);
}

TEST(what_is_no_socket_is_left_alone)
{
    struct control_path path;
    struct err e = {0};
    FILE *f;

    fixture_reset();
    f = fopen(CATALOG ".sock", "w");
    assert_non_null(f);
    fclose(f);
    assert_ok(control_path_open(CATALOG, &path, &e), e);
    assert_true(control_path_listen(&path, &e) < 0);
    assert_non_null(strstr(e.msg, CATALOG ".sock"));
    control_path_unlink(&path);
    assert_int_equal(access(CATALOG ".sock", F_OK), 0);
    control_path_close(&path);
}

/* Paths far longer than a socket's address. */
TEST(long_paths_have_sockets_too)
{
    char name[256], dir[1024], path[2048];
    struct control_path a, b;
    struct err e = {0};
    int i, fd;

    memset(name, 'd', 200);
    name[200] = 0;
    snprintf(dir, sizeof(dir), "state");
    for (i = 0; i < 3; i++) {
        snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), "/%s", name);
        assert_true(mkdir(dir, 0700) == 0 || access(dir, X_OK) == 0);
    }
    for (i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, i ? name : "c.db");
        assert_ok(control_path_open(path, &a, &e), e);
        fd = control_path_listen(&a, &e);
        assert_true(fd >= 0);
        assert_ok(control_path_open(path, &b, &e), e);
        assert_string_equal(a.name, b.name);
        close(fd);
        fd = control_path_listen(&b, &e); /* a stale one in the way */
        assert_true(fd >= 0);
        close(fd);
        control_path_unlink(&b);
        control_path_close(&a);
        control_path_close(&b);
    }
    assert_int_equal(control_path_open("/nonexistent/x.db", &a, &e), ERR_MISSING);
}

TEST_MAIN(NULL, NULL)
