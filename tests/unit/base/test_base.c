/* The few things that everything stands on. */
#include "tests/common/test.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/utf8.h"

TEST(err_keeps_the_code)
{
    struct err e = {0};

    assert_int_equal(err_sys(&e, ENOSPC, "write '%s'", "a.db"), ERR_FULL);
    assert_int_equal(err_prefix(&e, "shard %d", 3), ERR_FULL);
    assert_string_equal(e.msg, "shard 3: write 'a.db': No space left on device");
}

TEST(err_no_memory_says_what_for)
{
    struct err e = {0};

    assert_int_equal(err_no_memory(&e, "catalog"), ERR_NOMEM);
    assert_int_equal(e.code, ERR_NOMEM);
    assert_string_equal(e.msg, "catalog: out of memory");
    assert_int_equal(err_no_memory(&e, NULL), ERR_NOMEM);
    assert_string_equal(e.msg, "out of memory");
}

TEST(err_prefix_survives_long_messages)
{
    struct err e = {0};
    char big[2000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    err_set(&e, ERR_INPUT, "%s", big);
    for (int i = 0; i < 10; i++)
        assert_int_equal(err_prefix(&e, "%s", big), ERR_INPUT);
    assert_true(strlen(e.msg) < sizeof(e.msg));
}

TEST(err_names_round_trip)
{
    for (int code = ERR_LAST; code <= 0; code++) {
        assert_string_not_equal(err_name(code), "unknown");
        assert_int_equal(err_from_name(err_name(code)), code);
    }
    assert_string_equal(err_name(-999), "unknown");
}

TEST(buf_round_trip)
{
    struct buf b = BUF_INIT;
    struct reader r;
    char *s;

    buf_put_u8(&b, 7);
    buf_put_u16(&b, 0xBEEF);
    buf_put_u32(&b, 0xDEADBEEF);
    buf_put_i64(&b, -5);
    buf_put_f32(&b, 1.5f);
    buf_put_str(&b, "añb");
    r = reader_of(b.data, b.len);
    assert_int_equal(reader_u8(&r), 7);
    assert_int_equal(reader_u16(&r), 0xBEEF);
    assert_int_equal(reader_u32(&r), 0xDEADBEEF);
    assert_true(reader_i64(&r) == -5);
    assert_true(reader_f32(&r) == 1.5f);
    s = reader_str(&r, 100);
    assert_string_equal(s, "añb");
    assert_true(reader_done(&r));
    free(s);
    buf_free(&b);
}

/* Every number has one form, and no other is read. */
TEST(packed_numbers)
{
    static const uint64_t numbers[] = {0,     1,          127,        128,       16383,
                                       16384, UINT32_MAX, 1ull << 62, UINT64_MAX};
    static const size_t bytes[] = {1, 1, 1, 2, 2, 3, 5, 9, 10};
    static const struct {
        uint8_t data[12];
        size_t len;
    } wrong[] = {{{0x80}, 1},    /* it ends too early */
                 {{0x80, 0}, 2}, /* it is longer than it needs to be */
                 {{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2}, 10}, /* 65 bits */
                 {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, 11}};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct buf b = {.packed = true};
        struct reader r;

        buf_put_u64(&b, numbers[i]);
        buf_put_f32(&b, 1.5f);
        buf_put_str(&b, "añb");
        assert_int_equal(b.len, bytes[i] + 4 + 1 + 4);
        r = reader_of(b.data, b.len);
        r.packed = true;
        assert_true(reader_u64(&r) == numbers[i]);
        assert_true(reader_f32(&r) == 1.5f);
        assert_non_null(reader_bytes(&r, 4, &(size_t){0}));
        assert_true(reader_done(&r));
        r = reader_of(b.data, b.len);
        r.packed = true;
        reader_u32(&r);
        assert_int_equal(r.failed, numbers[i] > UINT32_MAX);
        buf_free(&b);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct reader r = reader_of(wrong[i].data, wrong[i].len);

        r.packed = true;
        assert_int_equal(reader_u64(&r), 0);
        assert_true(r.failed);
    }
}

TEST(reader_never_runs_over)
{
    const uint8_t data[] = {0xFF, 0xFF, 0xFF, 0xFF, 'a', 'b'};
    struct reader r = reader_of(data, sizeof(data));
    size_t n = 99;

    assert_null(reader_bytes(&r, SIZE_MAX, &n));
    assert_int_equal(n, 0);
    assert_true(r.failed);
    assert_int_equal(reader_u64(&r), 0);
    assert_false(reader_done(&r));
}

TEST(reader_str_refuses_nul)
{
    const uint8_t data[] = {3, 0, 0, 0, 'a', 0, 'b'};
    struct reader r = reader_of(data, sizeof(data));

    assert_null(reader_str(&r, 100));
    assert_true(r.failed);
}

TEST(buf_respects_its_bound)
{
    struct buf b = {.max = 10};

    buf_put(&b, "0123456789", 10);
    assert_false(b.failed);
    buf_put(&b, "x", 1);
    assert_true(b.failed);
    assert_int_equal(b.len, 10);
    buf_free(&b);
}

TEST(utf8_forms)
{
    char *s;
    char small[4];

    assert_true(utf8_valid("añ\xF0\x9F\x98\x80", 7));
    assert_false(utf8_valid("\xC0\x80", 2));
    assert_false(utf8_valid("\xED\xA0\x80", 3));
    assert_false(utf8_valid("a\xE2\x82", 3));
    s = utf8_display("a\nb\xE9.mp3\x1B[31m", 13);
    assert_string_equal(s, "a\\nb\\xE9.mp3\\x1B[31m");
    free(s);
    s = utf8_display("x\xE2\x80\xAE"
                     "3pm.exe",
                     11);
    assert_string_equal(s, "x\\xE2\\x80\\xAE3pm.exe");
    free(s);
    s = utf8_display_nth("a\xE9.mp3", 6, 0);
    assert_string_equal(s, "a\\xE9.mp3");
    free(s);
    s = utf8_display_nth("a\xE9.mp3", 6, UINT32_MAX);
    assert_string_equal(s, "a\\xE9.mp3 (4294967296)");
    free(s);
    s = utf8_repair("a\xE2\x82z\xFF", 5);
    assert_string_equal(s, "a\xEF\xBF\xBDz\xEF\xBF\xBD");
    free(s);
    utf8_copy(small, sizeof(small), "aéé");
    assert_string_equal(small, "aé");
}

static void keep_line(enum log_level level, const char *line, void *arg)
{
    (void)level;
    utf8_copy(arg, 64, line);
}

TEST(log_lets_no_control_through)
{
    char line[64] = "";

    log_set_sink(keep_line, line);
    log_info("%s", "a\x1B[2Jb\nc\xC2\x9B"
                   "d \xC3\xA9");
    log_set_sink(NULL, NULL);
    assert_string_equal(line, "a [2Jb c  d \xC3\xA9");
}

/* What log_at writes to standard error, which is a file meanwhile. */
static void logged(const char *format, char *ret, size_t size)
{
    int kept = dup(STDERR_FILENO), fd = memfd_create("log", MFD_CLOEXEC);
    ssize_t n;

    assert_true(log_set_format(format));
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    log_warn("%s", "a \"quote\", a \\ and \xFF\n");
    dup2(kept, STDERR_FILENO);
    n = pread(fd, ret, size - 1, 0);
    assert_true(n > 0);
    ret[n] = 0;
    close(kept);
    close(fd);
}

TEST(log_formats)
{
    char line[400], pid[32];
    struct stat st;
    int pipe_ends[2], kept;

    log_begin("run");
    logged("text", line, sizeof(line));
    assert_string_equal(line, "warning: a \"quote\", a \\ and \xFF \n");
    logged("journal", line, sizeof(line));
    assert_string_equal(line, "<4>warning: a \"quote\", a \\ and \xFF \n");
    logged("json", line, sizeof(line));
    snprintf(pid, sizeof(pid), "\"pid\": %ld, ", (long)getpid());
    assert_memory_equal(line, "{\"at\": \"20", 10);
    assert_non_null(strstr(line, pid));
    assert_non_null(strstr(line, "\"level\": \"warning\", "));
    assert_non_null(strstr(line, "\"process\": \"run\", \"text\": \"a \\\"quote\\\", a "
                                 "\\\\ and \xEF\xBF\xBD \"}\n"));
    assert_false(log_set_format("xml"));
    log_begin("worker"); /* which was started by one with that format */
    assert_int_equal(log_format(), LOG_JSON);
    unsetenv(LOG_FORMAT_VARIABLE);
    assert_int_equal(pipe(pipe_ends), 0);
    kept = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    assert_int_equal(fstat(STDERR_FILENO, &st), 0);
    snprintf(line, sizeof(line), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", line, 1);
    log_begin("run");
    dup2(kept, STDERR_FILENO);
    assert_int_equal(log_format(), LOG_JOURNAL);
    log_begin("run"); /* standard error is another file than systemd gave */
    assert_int_equal(log_format(), LOG_TEXT);
    unsetenv("JOURNAL_STREAM");
    close(kept);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

TEST(clock_times_of_files)
{
    const struct timespec usual = {1767225599, 123456789}, early = {-2, 500000000},
                          last = {9223372036, 854775807}, late = {9223372036, 854775808},
                          year_2446 = {15032385535, 0}, never = {INT64_MIN, 0};

    assert_int_equal(clock_ns_of(&usual), INT64_C(1767225599123456789));
    assert_int_equal(clock_ns_of(&early), -1500000000);
    assert_int_equal(clock_ns_of(&last), INT64_MAX);
    assert_int_equal(clock_ns_of(&late), INT64_MAX);
    assert_int_equal(clock_ns_of(&year_2446), INT64_MAX);
    assert_int_equal(clock_ns_of(&never), INT64_MIN);
}

TEST(clock_forms)
{
    char iso[CLOCK_ISO_LEN], hms[CLOCK_HMS_LEN];

    clock_iso8601(0, iso);
    assert_string_equal(iso, "1970-01-01T00:00:00.000Z");
    clock_iso8601(1767225599123, iso);
    assert_string_equal(iso, "2025-12-31T23:59:59.123Z");
    clock_hms(3723450, hms);
    assert_string_equal(hms, "1:02:03.450");
    clock_hms(62003, hms);
    assert_string_equal(hms, "1:02.003");
}

static enum cpu_isa isa_asked(const char *name)
{
    setenv("NIGHTSHIFT_CPU", name, 1);
    return cpu_isa();
}

/* What is asked for lowers the choice and never raises it. */
TEST(cpu_is_no_more_than_asked)
{
    enum cpu_isa most;

    unsetenv("NIGHTSHIFT_CPU");
    most = cpu_isa();
    assert_int_equal(isa_asked("plain"), CPU_PLAIN);
    assert_int_equal(isa_asked("avx2"), most < CPU_AVX2 ? most : CPU_AVX2);
    assert_int_equal(isa_asked("avx512"), most < CPU_AVX512 ? most : CPU_AVX512);
    assert_int_equal(isa_asked("anything"), most);
    unsetenv("NIGHTSHIFT_CPU");
}

static uint32_t threads_said(const char *n, uint32_t processes)
{
    setenv("OMP_NUM_THREADS", n, 1);
    return cpu_threads(processes);
}

TEST(threads_are_as_many_as_said)
{
    uint32_t here = cpu_processors();

    assert_true(here >= 1);
    assert_int_equal(threads_said("1", 1), 1);
    assert_int_equal(threads_said("3", 1), 3);
    assert_int_equal(threads_said("3", 2), 3); /* of each engine */
    assert_int_equal(threads_said("99999999999999999999", 1), CPU_THREADS_MOST);
    assert_int_equal(threads_said("-1", 1), here);
    assert_int_equal(threads_said("none", 1), here);
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(cpu_threads(1), here);
    assert_int_equal(cpu_threads(2), here > 1 ? here / 2 : 1);
    assert_int_equal(cpu_threads(here + 1), 1);
}

struct counts {
    uint32_t of[300];
};

static void count(void *arg, uint32_t part) { ((struct counts *)arg)->of[part]++; }

TEST(every_part_once)
{
    for (uint32_t threads = 0; threads < 40; threads++)
        for (uint32_t parts = 0; parts <= 300; parts += 75) {
            struct counts c = {{0}};

            threads_run(threads, parts, count, &c);
            for (uint32_t i = 0; i < 300; i++)
                assert_int_equal(c.of[i], i < parts);
        }
}

TEST(threads_as_said)
{
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(threads_available(), 3);
    setenv("OMP_NUM_THREADS", "600", 1);
    assert_int_equal(threads_available(), THREADS_MOST);
    setenv("OMP_NUM_THREADS", "none", 1);
    assert_true(threads_available() >= 1 && threads_available() <= THREADS_MOST);
    unsetenv("OMP_NUM_THREADS");
    assert_true(threads_available() >= 1 && threads_available() <= THREADS_MOST);
}

TEST(lists_that_grow)
{
    uint32_t *list = NULL;
    size_t room = 0, doublings = 0;

    for (size_t n = 0; n < 1000; n++) {
        size_t before = room;

        assert_true(list_grow(&list, &room, n, sizeof(*list)));
        assert_true(room > n && (room == before || before == n));
        doublings += room != before;
        list[n] = (uint32_t)n;
    }
    assert_in_range(doublings, 2, 11);
    for (size_t n = 0; n < 1000; n++)
        assert_int_equal(list[n], n);
    room = SIZE_MAX / 8; /* twice as many of 4 bytes are more than there can be */
    assert_false(list_grow(&list, &room, room, sizeof(*list)));
    assert_int_equal(room, SIZE_MAX / 8);
    assert_int_equal(list[999], 999);
    free(list);
}

static void put(const char *path, const char *text)
{
    char command[600];
    FILE *f;

    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", path);
    assert_int_equal(system(command), 0);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define MIB (UINT64_C(1) << 20)

/* The machine's; a group's, and that of one further up, whichever is lower; a container, which sees
 * its own group as the root. */
TEST(memory_of_machine_and_groups)
{
    struct memory m;

    assert_int_equal(system("rm -rf m"), 0);
    memory_look_in("m", &m);
    assert_true(m.total == 0 && m.available == 0 && m.limit == 0);
    put("m/proc/meminfo", "MemTotal:       8388608 kB\nMemFree:          204800 kB\n"
                          "MemAvailable:   4194304 kB\nBuffers:          100000 kB\n");
    memory_look_in("m", &m);
    assert_true(m.total == 8192 * MIB && m.available == 4096 * MIB && m.limit == 0);
    put("m/proc/self/cgroup", "4:memory:/else\n0::/a.slice/b.service\n");
    put("m/sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
    memory_look_in("m", &m);
    assert_true(m.total == 8192 * MIB && m.available == 4096 * MIB && m.limit == 0);
    put("m/sys/fs/cgroup/a.slice/memory.max", "2147483648\n");
    put("m/sys/fs/cgroup/a.slice/memory.current", "1073741824\n");
    put("m/sys/fs/cgroup/a.slice/memory.stat", "anon 5\nactive_file 9\ninactive_file 104857600\n");
    memory_look_in("m", &m);
    assert_true(m.total == 2048 * MIB && m.available == 1124 * MIB && m.limit == 2048 * MIB);
    put("m/sys/fs/cgroup/a.slice/b.service/memory.max", "1073741824\n");
    put("m/sys/fs/cgroup/a.slice/b.service/memory.current", "1073741825\n");
    memory_look_in("m", &m);
    assert_true(m.total == 1024 * MIB && m.available == 1 && m.limit == 1024 * MIB);
    put("m/proc/self/cgroup", "0::/\n");
    put("m/sys/fs/cgroup/memory.max", "536870912\n");
    memory_look_in("m", &m);
    assert_true(m.total == 512 * MIB && m.available == 512 * MIB && m.limit == 512 * MIB);
    put("m/proc/self/cgroup", "0::/../../elsewhere\n"); /* outside of what is seen */
    memory_look_in("m", &m);
    assert_int_equal(m.limit, 512 * MIB);
    memory_look(&m);
    assert_true(m.total > 0 && m.available > 0 && m.available <= m.total);
}

TEST_MAIN(NULL, NULL)
