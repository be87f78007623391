/* A worker process at its edges: no audio, no memory, a decoder that lies. */
#include "tests/unit/workers/play.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "tests/common/nomem.h"
#include "gpu/backend.h"
#include "workers/media/fork_server.h"
#include "workers/media/wire.h"
#include "workers/process/worker.h"

/* Every allocation up to this number, then as many in each power of e. Sanitizers are slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPARSE 2
#define STORMS 3
#else
#define SPARSE 3
#define STORMS 5
#endif

/* ---- a decoder that says what no decoder says */

/* Signs of life and nothing else, as while skipping to the middle of a very long recording. */
static int pulse(void)
{
    struct err e = {0};

    while (frame_write_fd(3, WIRE_PULSE, NULL, 0, &e) == 0)
        usleep(50000);
    return 0;
}

static int lie(void)
{
    struct decoder_info info = {.duration_ms = INT64_MAX,
                                .sample_rate_hz = UINT32_MAX,
                                .channels = UINT32_MAX,
                                .tracks = UINT32_MAX,
                                .container = "wav",
                                .codec = "pcm"};
    struct decoder_end end = {.complete = true, .damage = ""};
    struct buf b = BUF_INIT;
    struct err e = {0};
    int rc;

    wire_put_info(&b, &info);
    rc = frame_write_fd(3, WIRE_INFO, b.data, b.len, &e);
    buf_clear(&b);
    wire_put_end(&b, &end);
    if (rc == 0)
        rc = frame_write_fd(3, WIRE_END, b.data, b.len, &e);
    buf_free(&b);
    return rc == 0 ? 0 : 1;
}

static bool is_trial(void)
{
    struct frame_reader in = {0};
    struct wire_request request;
    struct frame f;
    struct err e = {0};
    bool ret = false;

    if (frame_read_fd(3, &in, 10000, &f, &e) == 0 &&
        wire_get_request(f.payload, f.len, &request, &e) == 0) {
        ret = request.task == WIRE_TASK_SANDBOX;
        wire_request_free(&request);
    }
    frame_reader_free(&in);
    return ret;
}

static int answer_trial(bool short_of_memory)
{
    const struct sandbox_report report = {.seccomp = true};
    struct err e = {0}, shortage;
    struct buf b = BUF_INIT;
    int rc;

    err_set(&shortage, ERR_NOMEM, "out of memory");
    if (short_of_memory)
        wire_put_error(&b, &shortage);
    else
        wire_put_sandbox(&b, &report);
    rc = frame_write_fd(3, short_of_memory ? WIRE_ERROR : WIRE_SANDBOX, b.data, b.len, &e);
    buf_free(&b);
    return rc == 0 ? 0 : 1;
}

static int say_it(void)
{
    const char *how = getenv("EDGES_LIE");

    if (is_trial())
        return answer_trial(how && strcmp(how, "short") == 0);
    return how && strcmp(how, "pulses") == 0 ? pulse() : lie();
}

static bool dispatch(int argc, char **argv, int *status)
{
    const char *fail = getenv("EDGES_FAIL_ALLOCATION");

    if (argc > 1 && strcmp(argv[1], "decoder") == 0 && getenv("EDGES_LIE")) {
        *status = strcmp(getenv("EDGES_LIE"), "unloaded") == 0 ? EX_UNAVAILABLE
                                                               : fork_server_main(say_it);
        return true;
    }
    if (argc > 1 && strcmp(argv[1], "worker") == 0 && fail)
        nomem_fail(strtol(fail, NULL, 10));
    return play_dispatch(argc, argv, status);
}

/* ---- helpers */

static char *sample(const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "tests/samples/%s", name);
    return strdup(test_source_path(rel));
}

static const struct msg_lease_end *whole(struct play *p, const char *path, uint32_t shard_ms)
{
    struct msg_lease m = play_lease_of(p, path, shard_ms);

    play_put_lease(p, &m);
    play_send(p);
    return play_until_end(p, m.lease_id);
}

static char *own_file(const char *name, const void *bytes, size_t len)
{
    char dir[2048], path[4096];
    FILE *f;

    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return strdup(path);
}

/* A wav of 16 kHz mono with n samples: a tone, which is neither silence nor speech. */
static char *own_wav(const char *name, uint32_t n)
{
    struct buf b = BUF_INIT;
    char *path;

    buf_put(&b, "RIFF", 4);
    buf_put_u32(&b, 36 + 2 * n);
    buf_put(&b, "WAVEfmt ", 8);
    buf_put_u32(&b, 16);
    buf_put_u16(&b, 1);
    buf_put_u16(&b, 1);
    buf_put_u32(&b, 16000);
    buf_put_u32(&b, 32000);
    buf_put_u16(&b, 2);
    buf_put_u16(&b, 16);
    buf_put(&b, "data", 4);
    buf_put_u32(&b, 2 * n);
    for (uint32_t i = 0; i < n; i++)
        buf_put_u16(&b, (uint16_t)(i % 80 < 40 ? 3000 : -3000));
    assert_false(b.failed);
    path = own_file(name, b.data, b.len);
    buf_free(&b);
    return path;
}

/* ---- tests */

TEST(no_audio_is_a_result)
{
    char *none = own_wav("none.wav", 0), *one = own_wav("one.wav", 1);
    const struct msg_lease_end *end;
    struct play p;

    play_ready(&p, &(struct play_options){.slots = 1, .decoders = 1});
    for (uint64_t id = 1; id <= 2; id++) {
        end = whole(&p, id == 1 ? none : one, 1000);
        assert_int_equal(end->code, 0);
        assert_true(end->reached_end && end->has_hash);
        assert_int_equal(end->total_ms, 0);
        assert_int_equal(end->shards, 1);
        assert_int_equal(play_shards(&p, id), 1);
        assert_int_equal(play_shard(&p, id, 0)->segment_count, 0);
        assert_int_equal(play_shard(&p, id, 0)->start_ms, 0);
        assert_int_equal(play_shard(&p, id, 0)->end_ms, 0);
        assert_string_equal(play_shard(&p, id, 0)->language, "");
    }
    assert_true(play_until_end(&p, 1)->damage[0] != 0); /* said, though it is no failure */
    play_quit(&p);
    free(none);
    free(one);
}

/* A recording may claim any length, rate and number of channels. */
TEST(a_lying_recording_does_not_cost_the_worker)
{
    char *path = sample("01_en_short.wav");
    struct play p;

    setenv("EDGES_LIE", "numbers", 1);
    play_ready(&p, &(struct play_options){.slots = 1, .decoders = 1});
    unsetenv("EDGES_LIE");
    assert_int_equal(whole(&p, path, 20000)->code, 0);
    assert_int_equal(p.media_count, 1); /* play checks each message as the scheduler does */
    assert_int_equal(p.media[0].duration_ms, -1);
    assert_int_equal(p.media[0].sample_rate_hz, 0);
    assert_int_equal(p.media[0].channels, 0);
    play_quit(&p);
    free(path);
}

/* As where FFmpeg was removed, or updated by halves: whatever number it is asked for by. */
static void break_ffmpeg(void)
{
    char name[64], dir[2048];

    for (int major = 50; major < 80; major++) {
        snprintf(name, sizeof(name), "libavutil.so.%d", major);
        free(own_file(name, "", 0));
    }
    assert_non_null(getcwd(dir, sizeof(dir)));
    setenv("LD_LIBRARY_PATH", dir, 1);
}

TEST(a_library_that_is_missing_is_told)
{
    struct play p;

    setenv("EDGES_LIE", "unloaded", 1);
    break_ffmpeg();
    play_start(&p, &(struct play_options){.slots = 1, .decoders = 1});
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("EDGES_LIE");
    while (play_step(&p))
        assert_false(p.ready);
    assert_int_equal(p.fatal, ERR_LIBRARY);
    assert_non_null(strstr(p.fatal_message, "trying a decoder: FFmpeg cannot be opened"));
    assert_int_equal(WEXITSTATUS(play_wait(&p)), EX_UNAVAILABLE);
    play_free(&p);
}

/* Where their libraries cannot be opened no recording is to blame: nobody gets a lease. */
TEST(a_worker_without_decoders_is_not_ready)
{
    struct play p;

    setenv("EDGES_LIE", "unloaded", 1);
    play_start(&p, &(struct play_options){.slots = 1, .decoders = 1});
    unsetenv("EDGES_LIE");
    while (play_step(&p))
        assert_false(p.ready);
    assert_int_equal(p.fatal, ERR_IO);
    assert_non_null(strstr(p.fatal_message, "trying a decoder"));
    assert_int_equal(WEXITSTATUS(play_wait(&p)), EX_IOERR);
    play_free(&p);
    setenv("EDGES_LIE", "short", 1); /* which passes, and is waited for then */
    play_ready(&p, &(struct play_options){.slots = 1, .decoders = 1});
    unsetenv("EDGES_LIE");
    play_quit(&p);
}

/* A watchdog takes work in hand of which nothing moves for a worker that hangs. */
TEST(a_decoder_that_skips_is_at_work)
{
    char *path = sample("01_en_short.wav");
    struct msg_lease m;
    uint64_t before;
    uint32_t beats;
    struct play p;

    setenv("EDGES_LIE", "pulses", 1);
    play_ready(&p, &(struct play_options){.slots = 1, .decoders = 1});
    unsetenv("EDGES_LIE");
    m = play_lease_of(&p, path, 20000);
    play_put_lease(&p, &m);
    play_send(&p);
    for (before = p.beat.decoded_ms; p.beat.decoded_ms == before;)
        assert_true(play_step(&p));
    for (int i = 0; i < 2; i++) {
        before = p.beat.decoded_ms;
        for (beats = p.beats; p.beats < beats + 2;)
            assert_true(play_step(&p));
        assert_true(p.beat.decoded_ms > before);
    }
    play_put_cancel(&p, m.lease_id);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, ERR_CANCELLED);
    play_quit(&p);
    free(path);
}

static bool environment_has(pid_t pid, const char *what)
{
    char path[64], text[65536];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    f = fopen(path, "rb");
    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    for (size_t i = 0; i < n; i += strlen(text + i) + 1)
        if (strcmp(text + i, what) == 0)
            return true;
    return false;
}

/* Idle compute threads sleep soon, unless somebody has chosen otherwise. */
TEST(threads_sleep_when_idle)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    char *kept = policy ? strdup(policy) : NULL;
    struct play p;

    unsetenv("OMP_WAIT_POLICY");
    play_ready(&p, &(struct play_options){0});
    assert_true(environment_has(p.pid, "OMP_WAIT_POLICY=passive"));
    assert_true(environment_has(p.pid, "GOMP_SPINCOUNT=500"));
    play_quit(&p);
    setenv("OMP_WAIT_POLICY", "active", 1);
    play_ready(&p, &(struct play_options){.slots = 1});
    assert_true(environment_has(p.pid, "OMP_WAIT_POLICY=active"));
    play_quit(&p);
    unsetenv("OMP_WAIT_POLICY");
    backend_host_sleep_when_idle(NULL); /* as `run` does, for its workers */
    assert_string_equal(getenv("OMP_WAIT_POLICY"), "passive");
    unsetenv("GOMP_SPINCOUNT");
    if (kept)
        setenv("OMP_WAIT_POLICY", kept, 1);
    else
        unsetenv("OMP_WAIT_POLICY");
    free(kept);
}

#define STORM_SHARD_MS 15000
#define STORM_LEASES 10
static const char *const storm_names[] = {"12_en_long_90s.mp3", "13_es_long_45s.ogg",
                                          "01_en_short.wav"};

/* What the test has said about a lease. */
struct said {
    bool capped, cancelled;
    uint32_t cap;
};

/* A lease's results are the reference's, and all that was wanted is there unless it was given up.
 */
static void check_storm(const struct play *p, const struct play *reference, uint64_t id,
                        const struct said *said, bool drained)
{
    const struct msg_lease_end *end = NULL, *want = NULL;
    uint64_t name = (id - 1) % 3 + 1;
    uint32_t last;

    for (uint32_t i = 0; i < p->end_count; i++)
        if (p->ends[i].lease_id == id) {
            assert_null(end); /* never twice */
            end = &p->ends[i];
        }
    for (uint32_t i = 0; i < reference->end_count; i++)
        if (reference->ends[i].lease_id == name)
            want = &reference->ends[i];
    assert_non_null(end);
    assert_non_null(want);
    if (end->code != 0 && (end->code != ERR_CANCELLED || !(said->cancelled || drained)))
        fail_msg("lease %llu: %d (%s)", (unsigned long long)id, end->code, end->message);
    last = said->capped && said->cap < want->shards - 1 ? said->cap : want->shards - 1;
    for (uint32_t k = 0; k < want->shards; k++) {
        const struct msg_shard_done *got = play_shard(p, id, k);

        if (got)
            play_same(play_shard(reference, name, k), got);
        else
            assert_false(end->code == 0 && k <= last);
    }
}

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

static void storm(const struct play *reference, uint64_t seed)
{
    struct said said[STORM_LEASES + 1] = {{0}};
    bool drained = false;
    struct play p;

    print_message("storm with seed %llu\n", (unsigned long long)seed);
    play_ready(&p, &(struct play_options){.slots = 2, .decoders = 4, .pcm_bytes = 1});
    while (p.end_count < STORM_LEASES) {
        uint64_t id = 1 + draw(&seed, STORM_LEASES);
        uint32_t what = draw(&seed, 12);

        if (p.next_lease <= STORM_LEASES && what < 6) {
            char *path = sample(storm_names[(p.next_lease - 1) % 3]);
            struct msg_lease m = play_lease_of(&p, path, STORM_SHARD_MS);

            play_put_lease(&p, &m);
            free(path);
        } else if (id < p.next_lease && what == 6) {
            uint32_t cap = draw(&seed, 6);

            said[id].cap = said[id].capped && said[id].cap < cap ? said[id].cap : cap;
            said[id].capped = true;
            play_put_cap(&p, id, cap);
        } else if (id < p.next_lease && what == 7) {
            said[id].cancelled = true;
            play_put_cancel(&p, id);
        } else if (p.next_lease > STORM_LEASES && what == 8 && draw(&seed, 4) == 0) {
            drained = true;
            play_put_empty(&p, MSG_DRAIN);
        }
        play_send(&p);
        if (p.next_lease > 2 && what > 2)
            assert_true(play_step(&p));
    }
    for (uint64_t id = 1; id <= STORM_LEASES; id++)
        check_storm(&p, reference, id, &said[id], drained);
    play_quit(&p);
}

/* Leases, caps, cancels and drains at any moment, more decoders than windows, no room for audio:
 * every lease ends, once, and what was computed is what an undisturbed worker computes. */
TEST(whatever_is_said_leases_end_and_results_are_right)
{
    struct play reference;

    play_ready(&reference, &(struct play_options){.slots = 4, .decoders = 2});
    for (int i = 0; i < 3; i++) {
        char *path = sample(storm_names[i]);

        assert_int_equal(whole(&reference, path, STORM_SHARD_MS)->code, 0);
        free(path);
    }
    for (uint64_t seed = 1; seed <= STORMS; seed++)
        storm(&reference, seed);
    play_quit(&reference);
}

/* One worker whose nth allocation fails; false when it had fewer. */
static bool with_failing_allocation(long n, const char *path, const struct msg_shard_done *want)
{
    const struct msg_shard_done *got;
    struct msg_lease m;
    struct play p;
    char text[32];
    bool clean;
    int status;

    snprintf(text, sizeof(text), "%ld", n);
    setenv("EDGES_FAIL_ALLOCATION", text, 1);
    play_start(&p, &(struct play_options){.slots = 2, .decoders = 1});
    unsetenv("EDGES_FAIL_ALLOCATION");
    m = play_lease_of(&p, path, 300000);
    play_put_lease(&p, &m);
    play_send(&p);
    while (!p.end_count && play_step(&p))
        ;
    play_put_empty(&p, MSG_QUIT);
    play_send(&p);
    play_until_gone(&p);
    status = play_wait(&p);
    if (!WIFEXITED(status) ||
        (p.fatal ? WEXITSTATUS(status) == 0
                 : WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EX_OSERR &&
                       WEXITSTATUS(status) != WORKER_EXIT_DEVICE))
        fail_msg("allocation %ld: wait status %#x after '%s'", n, status, p.fatal_message);
    got = play_shard(&p, m.lease_id, 0);
    if (got)
        play_same(want, got); /* right or not at all */
    clean = got && p.end_count && p.ends[0].code == 0 && !p.fatal && WEXITSTATUS(status) == 0;
    for (uint32_t i = 0; i < p.failed_count; i++)
        assert_int_equal(p.failed[i].code, ERR_NOMEM);
    play_free(&p);
    return !clean;
}

TEST(without_memory_a_worker_says_so_and_leaves)
{
    char *path = sample("01_en_short.wav");
    uint32_t faults = 0;
    struct play p;

    play_ready(&p, &(struct play_options){.slots = 2, .decoders = 1});
    whole(&p, path, 300000);
    for (long n = 1; n < 40000; n += 1 + n / SPARSE)
        faults += with_failing_allocation(n, path, play_shard(&p, 1, 0));
    assert_true(faults > 10);
    play_quit(&p);
    free(path);
}

int main(int argc, char **argv)
{
    int status;

    if (dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
