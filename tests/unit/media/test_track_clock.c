/* The arithmetic of a track's clock: what is silence, what is jitter, what is a jump. */
#include "tests/common/test.h"
#include "workers/media/track/ear.h"

#define HOUR ((int64_t)3600 * 16000)
#define RATE 44100
#define FRAME 1024

static struct track_clock new_clock(void) { return (struct track_clock){.longest_hole = HOUR}; }

/* When the nth frame begins, at 16 kHz. */
static int64_t time_of(int64_t n) { return n * FRAME * 16000 / RATE; }

static int64_t feed(struct track_clock *c, int64_t time, bool lost)
{
    return track_clock_frame(c, time, FRAME, RATE, lost);
}

TEST(whole_sound_gets_no_silence)
{
    struct track_clock c = new_clock();

    for (int64_t n = 0; n < 1000000; n++) /* six hours: nothing adds up */
        assert_int_equal(feed(&c, time_of(n), false), 0);
    assert_in_range(track_clock_next(&c), time_of(1000000) - 1, time_of(1000000) + 1);
}

TEST(a_late_track_begins_late)
{
    struct track_clock c = new_clock();

    assert_int_equal(feed(&c, 78400, false), 78400);
    assert_int_equal(c.first, 78400);
    assert_int_equal(feed(&c, 78400 + time_of(1), false), 0);
}

TEST(a_track_that_begins_before_the_file_does_begins_with_it)
{
    struct track_clock c = new_clock();

    assert_int_equal(feed(&c, -300, false), 0);
    assert_int_equal(feed(&c, -300 + time_of(1), false), 0);
}

TEST(a_hole_is_silence)
{
    struct track_clock c = new_clock();

    (void)feed(&c, 0, false);
    assert_in_range(feed(&c, time_of(1) + 20 * 16000, false), 20 * 16000 - 1, 20 * 16000 + 1);
    assert_int_equal(c.lost, 0);
    assert_int_equal(feed(&c, time_of(2) + 20 * 16000, false), 0);
}

TEST(lost_packets_are_silence_even_if_they_are_short)
{
    struct track_clock c = new_clock();

    (void)feed(&c, 0, false);
    assert_in_range(feed(&c, time_of(2), true), time_of(1) - 1, time_of(1) + 1);
    assert_in_range(c.lost, time_of(1) - 1, time_of(1) + 1);
}

TEST(jitter_is_not_followed)
{
    struct track_clock c = new_clock();

    for (int64_t n = 0; n < 10000; n++)
        assert_int_equal(feed(&c, time_of(n) + (n % 3 - 1) * 1000, false), 0);
}

/* The sound card is 0.1 % slow, or fast: a minute an hour is 3.6 s. */
static void drift(int sign)
{
    struct track_clock c = new_clock();
    int64_t worst = 0, off;

    for (int64_t n = 0; n < 155000; n++) { /* an hour */
        int64_t true_time = time_of(n) + sign * time_of(n) / 1000;

        (void)feed(&c, true_time, false);
        off = track_clock_next(&c) - time_of(1) - true_time;
        off = off < 0 ? -off : off;
        worst = off > worst ? off : worst;
    }
    assert_in_range(worst, 0, 800); /* 50 ms */
}

TEST(drift_is_followed)
{
    drift(1);
    drift(-1);
}

TEST(a_jump_back_goes_on)
{
    struct track_clock c = new_clock();
    int64_t last;

    for (int64_t n = 0; n < 1000; n++)
        (void)feed(&c, time_of(n), false);
    last = track_clock_next(&c);
    for (int64_t n = 0; n < 1000; n++)
        assert_int_equal(feed(&c, time_of(n), false), 0);
    assert_in_range(track_clock_next(&c), last + time_of(1000) - 2, last + time_of(1000) + 2);
    assert_int_equal(c.jumps, 1);
    assert_int_equal(c.jump_at, last);
    assert_int_equal(c.jump_by, -last);
    assert_true(feed(&c, time_of(1000) + 16000, false) > 15900); /* a hole behind it is one */
}

TEST(hours_are_a_jump)
{
    struct track_clock c = new_clock();

    (void)feed(&c, 0, false);
    assert_int_equal(feed(&c, 13 * HOUR, false), 0);
    assert_int_equal(c.jumps, 1);
    assert_int_equal(feed(&c, 13 * HOUR + time_of(1), false), 0);
    assert_int_equal(c.jumps, 1);
}

TEST(no_time_is_no_hole)
{
    struct track_clock c = new_clock();

    for (int64_t n = 0; n < 100; n++)
        assert_int_equal(feed(&c, n % 10 ? TRACK_CLOCK_UNKNOWN : time_of(n), false), 0);
    assert_in_range(track_clock_next(&c), time_of(100) - 1, time_of(100) + 1);
}

TEST(hostile_times_overflow_nothing)
{
    static const int64_t times[] = {INT64_MAX, INT64_MIN + 1,    INT64_MAX / 2,
                                    -1,        (int64_t)1 << 59, 0};
    struct track_clock c = new_clock();

    for (int i = 0; i < 600; i++) {
        int64_t n = track_clock_frame(&c, times[i % 6], FRAME, i % 7 ? RATE : 8000, i % 2);

        assert_true(n <= HOUR && n > -16000);
    }
    assert_true(track_clock_end(&c, INT64_MAX) == 0);
}

TEST(a_time_far_away_is_doubted)
{
    struct track_clock c = new_clock();

    (void)feed(&c, 0, false);
    assert_false(track_clock_doubts(&c, time_of(1)));
    assert_false(track_clock_doubts(&c, time_of(1) + 15900));
    assert_false(track_clock_doubts(&c, TRACK_CLOCK_UNKNOWN));
    assert_false(track_clock_doubts(&c, INT64_MAX));
    assert_true(track_clock_doubts(&c, time_of(1) + 16100));
    assert_true(track_clock_doubts(&c, time_of(1) - 16100));
}

TEST(a_rate_may_change)
{
    struct track_clock c = new_clock();

    assert_int_equal(track_clock_frame(&c, 0, 8000, 8000, false), 0);
    assert_int_equal(track_clock_frame(&c, 16000, 48000, 48000, false), 0);
    assert_int_equal(track_clock_next(&c), 32000);
}

TEST(the_end_may_be_lost)
{
    struct track_clock c = new_clock();

    (void)feed(&c, 0, false);
    assert_in_range(track_clock_end(&c, time_of(1) + 16000), 15999, 16001);
    assert_in_range(c.lost, 15999, 16001);
    assert_int_equal(track_clock_end(&c, time_of(1)), 0);
}

TEST_MAIN(NULL, NULL)
