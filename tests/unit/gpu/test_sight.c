/* What the driver sees of GPUs: through a library that is there in part, refuses, lies, hangs or
 * crashes, and lines that nobody should believe. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spawn.h"
#include "gpu/devices/child.h"
#include "gpu/gpu_sample.h"
#include "tests/common/files.h"
#include "tests/common/test.h"

#define CONTROL "nvml.txt"
#define A "GPU-aaaa"
#define B "GPU-bbbb"

static struct gpu_sample seen[2];
static char words[300];

/* As `nightshift probe --watch` has it. */
static int child(int argc, char **argv)
{
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");

    if (!spawn_begun(STDOUT_FILENO) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !out)
        return 1;
    return gpu_sample_write(strtol(argv[3], NULL, 10), (const char *const *)argv + 4,
                            (size_t)argc - 4, out) != 0;
}

/* Lines until one was seen `looks` times or the limit is over. The last line's kind. */
static enum gpu_sample_line watch(const char *library, const char *control, unsigned looks,
                                  struct child_result *r)
{
    static const char *const argv[] = {"test", "probe", "--watch", "20", A, B, NULL};
    struct child_options o = {.argv = argv, .limit_ms = 300, .max_bytes = 1 << 20};
    enum gpu_sample_line said = GPU_SAMPLE_NONSENSE;
    unsigned seen_lines = 0;
    struct err err = {0};

    file_text(CONTROL, control);
    setenv("FAKE_NVML", CONTROL, 1);
    setenv("LD_LIBRARY_PATH", library, 1);
    /* As long as a slow machine needs for what is awaited. */
    for (; seen_lines < looks || said == GPU_SAMPLE_NONSENSE; o.limit_ms *= 2) {
        const char *line, *end;

        if (o.limit_ms > 100000)
            fail_msg("nothing was said");
        memset(seen, 0x55, sizeof(seen));
        words[0] = 0;
        seen_lines = 0;
        said = GPU_SAMPLE_NONSENSE;
        assert_ok(child_run(&o, r, &err), err);
        line = (const char *)r->out.data;
        for (;
             line && (end = memchr(line, '\n', r->out.len - (size_t)(line - (char *)r->out.data)));
             line = end + 1) {
            said = gpu_sample_read(line, (size_t)(end - line), seen, 2, words, sizeof(words));
            if (said == GPU_SAMPLE_NONSENSE)
                fail_msg("nonsense: %.*s", (int)(end - line), line);
            seen_lines += said == GPU_SAMPLE_SEEN;
        }
        buf_free(&r->out);
        if (!r->timed_out)
            break; /* it ended by itself */
    }
    return said;
}

#define GOOD \
    B " 7 1000 9000 41 55500 2 300:0 301:0 -302:25\n" A " 87 5000 8000 71 412000 1 4711:86\n"

TEST(good_values_in_another_order)
{
    struct child_result r;

    assert_int_equal(watch(NVML_ALL, "well\n" GOOD, 2, &r), GPU_SAMPLE_SEEN);
    assert_int_equal(seen[0].percent, 87);
    assert_int_equal(seen[0].celsius, 71);
    assert_int_equal(seen[0].milliwatts, 412000);
    assert_int_equal(seen[0].used_bytes, 5000);
    assert_int_equal(seen[0].total_bytes, 8000);
    assert_true(seen[0].lists);
    assert_int_equal(seen[0].process_count, 1);
    assert_int_equal(seen[0].process[0].pid, 4711);
    assert_true(seen[0].process[0].computes);
    assert_int_equal(seen[0].process[0].percent, 86);
    assert_int_equal(seen[1].celsius, 41);
    assert_int_equal(seen[1].process_count, 3);
    assert_int_equal(seen[1].process[2].pid, 302); /* it draws */
    assert_false(seen[1].process[2].computes);
    assert_int_equal(seen[1].process[2].percent, 25);
}

TEST(how_well_it_is)
{
    struct child_result r;
    const struct gpu_health *h = &seen[0].health;

    watch(NVML_ALL, "well\n" GOOD "+" A " 101 7 2 3 1 0 8 16\n", 1, &r);
    assert_int_equal(h->slowed, GPU_SLOWED_HEAT | GPU_SLOWED_OVERHEATED | GPU_SLOWED_POWER_LIMIT);
    assert_int_equal(h->ecc_corrected, 7);
    assert_int_equal(h->ecc_uncorrected, 2);
    assert_int_equal(h->rows_remapped, 3);
    assert_true(h->rows_pending);
    assert_false(h->rows_failed);
    assert_int_equal(h->lanes, 8);
    assert_int_equal(h->lanes_most, 16);
    assert_int_equal(seen[1].health.slowed, 0);
    assert_int_equal(seen[1].health.lanes_most, 0);
    watch(NVML_ALL, "refuse\n" GOOD "+" A " 101 7 2 3 1 0 8 16 79\n", 1, &r);
    assert_int_equal(h->slowed, -1);
    assert_int_equal(h->ecc_uncorrected, -1);
    assert_int_equal(h->rows_remapped, -1);
    assert_false(h->rows_pending);
    assert_int_equal(h->lanes_most, 0);
    assert_int_equal(h->xid_count, 0);
    watch(NVML_FEW, "well\n" GOOD, 1, &r);
    assert_int_equal(h->slowed, -1);
    /* Figures that cannot be. */
    watch(NVML_ALL,
          "well\n" GOOD "+" A " 18446744073709551615 18446744073709551615 18446744073709551615 "
          "4294967295 0 1 4294967295 1\n",
          1, &r);
    assert_int_equal(h->slowed, GPU_SLOWED_ANY);
    assert_int_equal(h->ecc_corrected, -1);
    assert_int_equal(h->rows_remapped, -1);
    assert_true(h->rows_failed);
    assert_int_equal(h->lanes_most, 0);
}

TEST(errors_that_the_driver_reports)
{
    static const char *const argv[] = {"test", "probe", "--watch", "20", A, B, NULL};
    const struct child_options o = {.argv = argv, .limit_ms = 1000, .max_bytes = 1 << 20};
    struct child_result r;
    struct err err = {0};
    unsigned told = 0;

    file_text(CONTROL, "well\n" GOOD "+" B " 0 0 0 0 0 0 16 16 79 48 79\n");
    setenv("FAKE_NVML", CONTROL, 1);
    setenv("LD_LIBRARY_PATH", NVML_ALL, 1);
    assert_ok(child_run(&o, &r, &err), err);
    buf_put(&r.out, "", 1);
    for (char *save = NULL, *line = strtok_r((char *)r.out.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (gpu_sample_read(line, strlen(line), seen, 2, words, sizeof(words)) != GPU_SAMPLE_SEEN ||
            seen[1].health.xid_count == 0)
            continue;
        told++; /* all in one look, and never again */
        assert_int_equal(seen[0].health.xid_count, 0);
        assert_int_equal(seen[1].health.xid_count, 3);
        assert_int_equal(seen[1].health.xid[0], 79);
        assert_int_equal(seen[1].health.xid[1], 48);
        assert_int_equal(seen[1].health.xid[2], 79);
    }
    buf_free(&r.out);
    assert_int_equal(told, 1);
}

TEST(functions_that_are_missing)
{
    struct child_result r;

    assert_int_equal(watch(NVML_FEW, "well\n" GOOD, 1, &r), GPU_SAMPLE_SEEN);
    assert_int_equal(seen[0].percent, -1);
    assert_int_equal(seen[0].celsius, GPU_SAMPLE_COLD);
    assert_int_equal(seen[0].milliwatts, -1);
    assert_int_equal(seen[0].total_bytes, 0);
    assert_true(seen[0].lists);
    assert_int_equal(seen[0].process[0].pid, 4711);
    assert_int_equal(watch(NVML_NONE, "well\n", 0, &r), GPU_SAMPLE_ERROR);
    assert_non_null(strstr(words, "no NVML that this program knows"));
}

TEST(a_library_that_refuses)
{
    struct child_result r;

    assert_int_equal(watch(NVML_ALL, "noinit\n", 0, &r), GPU_SAMPLE_ERROR);
    assert_string_equal(words, "NVML does not begin: Driver Not Loaded (9)");
    assert_int_equal(r.status, 0);
    assert_int_equal(watch(NVML_ALL, "refuse\n" GOOD, 1, &r), GPU_SAMPLE_SEEN);
    assert_int_equal(seen[0].percent, -1);
    assert_int_equal(seen[0].celsius, GPU_SAMPLE_COLD);
    assert_int_equal(seen[0].milliwatts, -1);
    assert_int_equal(seen[0].total_bytes, 0);
    assert_false(seen[0].lists);
    /* Of a GPU that it does not know. */
    assert_int_equal(watch(NVML_ALL, "well\n" A " 1 2 3 4 5 0\n", 1, &r), GPU_SAMPLE_SEEN);
    assert_int_equal(seen[0].celsius, 4);
    assert_int_equal(seen[1].celsius, GPU_SAMPLE_COLD);
    assert_false(seen[1].lists);
}

TEST(numbers_that_cannot_be)
{
    struct child_result r;

    assert_int_equal(watch(NVML_ALL,
                           "well\n" A " 4294967295 9000 8000 4294967295 4294967295 4294967295 "
                           "4711:4000000000\n" B " 101 18446744073709551615 18446744073709551615 "
                           "300 10000001 0\n",
                           2, &r),
                     GPU_SAMPLE_SEEN);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(seen[i].percent, -1);
        assert_int_equal(seen[i].celsius, GPU_SAMPLE_COLD);
        assert_int_equal(seen[i].milliwatts, -1);
        assert_int_equal(seen[i].total_bytes, 0);
        assert_int_equal(seen[i].used_bytes, 0);
    }
    /* It says that there are four milliards, and names one. */
    assert_true(seen[0].lists);
    assert_in_range(seen[0].process_count, 1, GPU_SAMPLE_PROCESSES);
    assert_int_equal(seen[0].process[0].pid, 4711);
    assert_int_equal(seen[0].process[0].percent, -1);
    /* What it prints does not come between the lines. */
    assert_int_equal(watch(NVML_ALL, "print\n" GOOD, 1, &r), GPU_SAMPLE_SEEN);
    assert_int_equal(seen[0].celsius, 71);
}

TEST(calls_that_hang_and_crash)
{
    struct child_result r;

    assert_int_equal(watch(NVML_ALL, "hang\n" GOOD, 0, &r), GPU_SAMPLE_BEGUN);
    assert_true(r.timed_out);
    assert_int_equal(watch(NVML_ALL, "crash\n" GOOD, 0, &r), GPU_SAMPLE_BEGUN);
    assert_false(r.timed_out);
    assert_int_not_equal(r.status, 0);
}

static enum gpu_sample_line read_one(const char *line)
{
    memset(seen, 0x55, sizeof(seen));
    return gpu_sample_read(line, strlen(line), seen, 1, words, sizeof(words));
}

TEST(lines_that_are_not_believed)
{
    static const char *const lines[] = {"",
                                        "x",
                                        "[]",
                                        "null",
                                        "{}",
                                        "{\"gpus\":{}}",
                                        "{\"gpus\":[]}",
                                        "{\"gpus\":[{},{}]}",
                                        "{\"error\":5}",
                                        "{\"driver\":null}",
                                        "{\"gpus\":[{}],\"gpus\":[{}]}"};
    static const char *const unknown[] = {
        "{\"gpus\":[null]}", "{\"gpus\":[[]]}",
        "{\"gpus\":[{\"percent\":\"1\",\"celsius\":1.5,\"milliwatts\":-1,\"used\":1}]}",
        "{\"gpus\":[{\"percent\":101,\"celsius\":201,\"milliwatts\":99999999,\"total\":5,"
        "\"used\":6}]}",
        "{\"gpus\":[{\"total\":5,\"processes\":{}}]}"};

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (read_one(lines[i]) != GPU_SAMPLE_NONSENSE)
            fail_msg("believed: %s", lines[i]);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(read_one(unknown[i]), GPU_SAMPLE_SEEN);
        if (seen[0].percent != -1 || seen[0].celsius != GPU_SAMPLE_COLD ||
            seen[0].milliwatts != -1 || seen[0].total_bytes != 0 || seen[0].lists)
            fail_msg("believed: %s", unknown[i]);
    }
    assert_int_equal(read_one("{\"error\":\"bad\\u001b[2J\"}"), GPU_SAMPLE_ERROR);
    assert_string_equal(words, "bad\\x1B[2J");
    assert_int_equal(read_one("{\"gpus\":[{\"processes\":[{},{\"pid\":-5},{\"pid\":7,\"percent\":"
                              "900,\"computes\":1},5,null]}]}"),
                     GPU_SAMPLE_SEEN);
    assert_true(seen[0].lists);
    assert_int_equal(seen[0].process_count, 1);
    assert_int_equal(seen[0].process[0].pid, 7);
    assert_int_equal(seen[0].process[0].percent, -1);
    assert_false(seen[0].process[0].computes);
}

int main(int argc, char **argv)
{
    if (argc > 4 && strcmp(argv[1], "probe") == 0)
        return child(argc, argv);
    return suite_run(NULL, NULL);
}
