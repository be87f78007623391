/* Nights of a year on a clock that changes to summer time and back: when a run works, and when it
 * ends; and days on which somebody else uses the GPU. */
#include "tests/common/test.h"

#include <time.h>

#include "base/clock.h"
#include "scheduler/plan/rest.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
/* 2026, UTC. */
#define NEW_YEAR INT64_C(1767225600000)
#define SUMMER INT64_C(1774746000000) /* 29 March, 01:00: 02:00 becomes 03:00 */
#define WINTER INT64_C(1792890000000) /* 25 October, 01:00: 03:00 becomes 02:00 */

static int32_t berlin(int64_t ms) { return ms >= SUMMER && ms < WINTER ? 7200 : 3600; }
static int32_t utc(int64_t ms)
{
    (void)ms;
    return 0;
}
/* Ahead of Greenwich by more than half a day, and by no whole hour. */
static int32_t chatham(int64_t ms) { return ms >= SUMMER && ms < WINTER ? 45900 : 49500; }

static int64_t minutes_of_day(int64_t ms, hours_zone zone)
{
    return (ms + (int64_t)zone(ms) * 1000) / MINUTE % 1440;
}

static struct hours hours_of(const char *between, const char *until)
{
    struct hours h = {0};

    assert_true(!between || hours_parse_between(between, &h));
    assert_true(!until || hours_parse_until(until, &h));
    return h;
}

TEST(what_is_a_time_of_day)
{
    static const char *const no_until[] = {"",     "24:00", "7:60",   "07:0",   "07:000", "-1",
                                           "7:-1", "x",     "07:00 ", "007:00", "7.30",   "07:"};
    static const char *const no_between[] = {"",      "22:00",        "22:00-",       "-06:00",
                                             "22-22", "22:00-22",     "22:00-06:00 ", "22:00--6",
                                             "25-6",  "22:00-06:00-7"};
    struct hours h = hours_of("22:00-6", "7");
    char text[HOURS_TEXT];

    assert_true(h.until && h.between);
    assert_int_equal(h.end, 420);
    assert_int_equal(h.opens, 1320);
    assert_int_equal(h.shuts, 360);
    hours_text(h.end, text);
    assert_string_equal(text, "07:00");
    h = (struct hours){0};
    for (size_t i = 0; i < sizeof(no_until) / sizeof(no_until[0]); i++)
        if (hours_parse_until(no_until[i], &h))
            fail_msg("'%s' was taken", no_until[i]);
    for (size_t i = 0; i < sizeof(no_between) / sizeof(no_between[0]); i++)
        if (hours_parse_between(no_between[i], &h))
            fail_msg("'%s' was taken", no_between[i]);
    assert_false(h.until || h.between);
}

/* Minute by minute through a year: how long each night was, and that nothing was done by day. */
static void year_of(const char *between, hours_zone zone, int64_t usual, int64_t spring,
                    int64_t autumn)
{
    const struct hours h = hours_of(between, NULL);
    int64_t open = 0, nights = 0;
    bool before = hours_look(&h, 0, NEW_YEAR + 12 * HOUR, zone) == HOURS_OPEN;

    assert_false(before);
    for (int64_t at = NEW_YEAR + 12 * HOUR; at < NEW_YEAR + 365 * DAY; at += MINUTE) {
        bool now = hours_look(&h, 0, at, zone) == HOURS_OPEN;

        if (now)
            assert_false(minutes_of_day(at, zone) >= h.shuts && minutes_of_day(at, zone) < h.opens);
        if (before && !now) {
            const int64_t wanted = at >= SUMMER && at < SUMMER + 12 * HOUR   ? spring
                                   : at >= WINTER && at < WINTER + 12 * HOUR ? autumn
                                                                             : usual;
            assert_int_equal(open, wanted);
            nights++;
        }
        open = now ? (before ? open : 0) + 1 : open;
        before = now;
    }
    assert_in_range(nights, 363, 365);
}

TEST(a_year_of_nights)
{
    year_of("22:00-06:00", berlin, 480, 420, 540);
    year_of("22:00-06:00", utc, 480, 480, 480);
    year_of("23:59-00:01", berlin, 2, 2, 2);
}

TEST(by_day)
{
    const struct hours h = hours_of("09:30-17:00", NULL);
    int64_t open = 0;

    for (int64_t at = NEW_YEAR; at < NEW_YEAR + DAY; at += MINUTE)
        open += hours_look(&h, 0, at, utc) == HOURS_OPEN;
    assert_int_equal(open, 450);
    assert_int_equal(hours_look(&h, 0, NEW_YEAR + 570 * MINUTE - 1, utc), HOURS_SHUT);
    assert_int_equal(hours_look(&h, 0, NEW_YEAR + 570 * MINUTE, utc), HOURS_OPEN);
    assert_int_equal(hours_look(&h, 0, NEW_YEAR + 1020 * MINUTE - 1, utc), HOURS_OPEN);
    assert_int_equal(hours_look(&h, 0, NEW_YEAR + 1020 * MINUTE, utc), HOURS_SHUT);
}

TEST(until_the_morning)
{
    const int64_t evening = NEW_YEAR + 21 * HOUR; /* 22:00 in Berlin */

    assert_int_equal(hours_next(420, evening, berlin), NEW_YEAR + 30 * HOUR);
    assert_int_equal(hours_next(420, evening + 1, berlin), NEW_YEAR + 30 * HOUR);
    /* At that very minute it is the next day's. */
    assert_int_equal(hours_next(1320, evening, berlin), evening + DAY);
    assert_int_equal(hours_next(1320, evening - 1, berlin), evening);
    /* The night is an hour shorter, or longer. */
    assert_int_equal(hours_next(420, SUMMER - 4 * HOUR, berlin), SUMMER + 4 * HOUR);
    assert_int_equal(hours_next(420, WINTER - 4 * HOUR, berlin), WINTER + 5 * HOUR);
    /* 02:30 is left out: 03:00 it is. And what is there twice comes the first time. */
    assert_int_equal(hours_next(150, SUMMER - 4 * HOUR, berlin), SUMMER);
    assert_int_equal(hours_next(150, WINTER - 4 * HOUR, berlin), WINTER - HOUR / 2);
    /* Begun in the hour that comes again: its second time is the next one. */
    assert_int_equal(hours_next(150, WINTER - HOUR / 4, berlin), WINTER + HOUR / 2);
    assert_int_equal(hours_next(120, WINTER - HOUR / 4, berlin), WINTER);
    assert_int_equal(hours_next(150, WINTER + HOUR / 2, berlin), WINTER + DAY + HOUR / 2);
    assert_int_equal(hours_next(420, NEW_YEAR, chatham), NEW_YEAR + (420 - 825 + 1440) * MINUTE);
}

TEST(every_start_of_a_year_ends)
{
    const hours_zone zones[] = {utc, berlin, chatham};

    for (size_t z = 0; z < 3; z++)
        for (int64_t at = NEW_YEAR; at < NEW_YEAR + 365 * DAY; at += 47 * MINUTE + 1) {
            const int64_t end = hours_next(420, at, zones[z]);
            const struct hours h = hours_of(NULL, "07:00");

            assert_int_equal(minutes_of_day(end, zones[z]), 420);
            assert_in_range(end - at, 1, 25 * HOUR);
            assert_int_equal(hours_look(&h, end, end - 1, zones[z]), HOURS_OPEN);
            assert_int_equal(hours_look(&h, end, end, zones[z]), HOURS_OVER);
        }
}

/* The machine's own zone, as $TZ has it. */
TEST(the_clock_on_the_wall)
{
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    for (int64_t at = NEW_YEAR; at < NEW_YEAR + 365 * DAY; at += HOUR / 4)
        assert_int_equal(clock_zone_s(at), berlin(at));
    unsetenv("TZ");
    tzset();
}

#define SECOND INT64_C(1000)

static const struct idle_times usual = {IDLE_BUSY_MS, IDLE_FREE_MS, IDLE_BLIND_MS};

/* Every two seconds from `from` on. How often it changed, and whether it is left in the end. */
static int look_for(struct idle *i, enum idle_sees sees, int64_t *at, int64_t span, bool *left)
{
    int changes = 0;

    for (const int64_t end = *at + span; *at < end; *at += 2 * SECOND) {
        const bool now = idle_look(i, &usual, sees, *at);

        changes += now != *left;
        *left = now;
    }
    return changes;
}

TEST(a_gpu_that_others_use)
{
    struct idle i = {0};
    int64_t at = NEW_YEAR;
    bool left = false;

    assert_int_equal(look_for(&i, IDLE_FREE, &at, HOUR, &left), 0);
    /* What is over soon is borne: a desktop that draws, a look at the wrong moment. */
    assert_int_equal(look_for(&i, IDLE_USED, &at, 8 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_FREE, &at, 2 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_USED, &at, 8 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_FREE, &at, 2 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_USED, &at, HOUR, &left), 1);
    assert_true(left);
    /* Pauses that are shorter than what is waited for change nothing, however many. */
    for (int k = 0; k < 20; k++) {
        assert_int_equal(look_for(&i, IDLE_FREE, &at, 298 * SECOND, &left), 0);
        assert_int_equal(look_for(&i, k % 2 ? IDLE_USED : IDLE_BLIND, &at, 2 * SECOND, &left), 0);
    }
    assert_int_equal(look_for(&i, IDLE_FREE, &at, HOUR, &left), 1);
    assert_false(left);
    /* Nothing seen for less than a minute is nothing; for more, others may be there. */
    assert_int_equal(look_for(&i, IDLE_BLIND, &at, 58 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_FREE, &at, 2 * SECOND, &left), 0);
    assert_int_equal(look_for(&i, IDLE_BLIND, &at, HOUR, &left), 1);
    assert_true(left);
}

TEST(the_first_look_decides)
{
    struct idle i = {0};

    assert_true(idle_look(&i, &usual, IDLE_USED, NEW_YEAR));
    i = (struct idle){0};
    assert_false(idle_look(&i, &usual, IDLE_FREE, NEW_YEAR));
    i = (struct idle){0};
    assert_true(idle_look(&i, &usual, IDLE_BLIND, NEW_YEAR)); /* not yet */
    assert_false(idle_look(&i, &usual, IDLE_FREE, NEW_YEAR + 1));
}

TEST(who_uses_a_gpu)
{
    static const struct idle_process ours = {100, true, 90}, theirs = {200, true, 0},
                                     desktop = {300, false, 9}, game = {301, false, 10};
    static const struct {
        struct idle_process process[3];
        uint32_t count;
        uint32_t worker;
        int percent;
        bool other_numbers;
        enum idle_sees sees;
        uint32_t who;
    } cases[] = {
        {{{0}}, 0, 0, 0, false, IDLE_FREE, 0},
        {{ours}, 1, 100, 99, false, IDLE_FREE, 0},
        {{ours, theirs}, 2, 100, 99, false, IDLE_USED, 200},
        {{theirs}, 1, 0, 0, false, IDLE_USED, 200},
        {{ours}, 1, 0, 0, false, IDLE_USED, 100}, /* nobody's that we know */
        {{ours, desktop}, 2, 100, 99, false, IDLE_FREE, 0},
        {{ours, game}, 2, 100, 99, false, IDLE_USED, 301},
        /* While we hold still, any load is others'. */
        {{desktop}, 1, 0, 9, false, IDLE_FREE, 0},
        {{desktop}, 1, 0, 10, false, IDLE_USED, 0},
        {{{0}}, 0, 0, -1, false, IDLE_FREE, 0},
        /* In a container one that computes is ours, if any is; whose shares they are nobody knows.
         */
        {{theirs}, 1, 100, 99, true, IDLE_FREE, 0},
        {{theirs, ours}, 2, 100, 99, true, IDLE_USED, 0},
        {{theirs}, 1, 0, 0, true, IDLE_USED, 0},
        {{theirs, game}, 2, 100, 99, true, IDLE_FREE, 0},
    };
    uint32_t who;

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const struct idle_gpu g = {true,
                                   cases[k].process,
                                   cases[k].count,
                                   cases[k].percent,
                                   cases[k].worker,
                                   cases[k].other_numbers};

        if (idle_judge(&g, &who) != cases[k].sees || who != cases[k].who)
            fail_msg("case %zu", k);
    }
    assert_int_equal(idle_judge(&(struct idle_gpu){.percent = 90}, &who), IDLE_BLIND);
}

TEST_MAIN(NULL, NULL)
