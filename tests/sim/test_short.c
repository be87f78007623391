/* Some thousands of short recordings, as bench_short has them by the hundred thousand: each is done
 * once, and what one costs does not grow with how many there were. No time is measured. */
#include "tests/sim/short_run.h"

#define RECORDINGS 4000
#define STATEMENTS_EACH 75     /* of SQL, triggers' too: 70 of two segments each */
#define HEAP_GROWTH (2u << 20) /* the backlog is longer and shorter; 1 KiB for each is more */

static int child_status(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(many_short_recordings)
{
    double each;

    setenv("SWIFT_SPEED", "0", 1);
    short_catalog(RECORDINGS);
    assert_int_equal(child_status(short_run(RECORDINGS)), 0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), RECORDINGS);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), RECORDINGS);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 2 * RECORDINGS);
    catalog_audit();
    assert_int_equal(short_count->results, RECORDINGS);
    each = (double)short_count->statements / RECORDINGS;
    print_message("%.1f statements for a recording; heap %llu KiB, later %llu KiB\n", each,
                  short_count->heap_begin >> 10, short_count->heap_later >> 10);
    if (each > STATEMENTS_EACH)
        fail_msg("%.1f statements for a recording", each);
    if (short_count->heap_later > short_count->heap_begin + HEAP_GROWTH)
        fail_msg("the heap grew by %llu KiB",
                 (short_count->heap_later - short_count->heap_begin) >> 10);
}

TEST_MAIN(NULL, NULL)
