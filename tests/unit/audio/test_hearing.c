/* Which tracks and channels are heard, as people say it. */
#include <stdio.h>
#include <string.h>

#include "tests/common/test.h"
#include "workers/audio/hearing.h"

static struct hearing_words words_of(const char *channels, const char *tracks)
{
    struct hearing_words w = {{0}, {0}};

    snprintf(w.channels, sizeof(w.channels), "%s", channels);
    snprintf(w.tracks, sizeof(w.tracks), "%s", tracks);
    return w;
}

static struct hearing heard(const char *channels, const char *tracks)
{
    const struct hearing_words w = words_of(channels, tracks);
    struct hearing h = {7, 7, 7};
    struct err e = {0};

    assert_ok(hearing_read(&w, &h, &e), e);
    return h;
}

static void refused(const char *channels, const char *tracks, const char *why)
{
    const struct hearing_words w = words_of(channels, tracks);
    struct hearing h;
    struct err e = {0};

    assert_int_equal(hearing_read(&w, &h, &e), ERR_USAGE);
    if (!strstr(e.msg, why))
        fail_msg("'%s' instead of '%s'", e.msg, why);
}

TEST(words_become_numbers)
{
    const struct hearing usual = heard("mix", "best"), one = heard("2", "32");

    assert_int_equal(usual.channels, HEARING_MIX);
    assert_int_equal(usual.channel, 0);
    assert_int_equal(usual.tracks, 0);
    assert_int_equal(one.channels, HEARING_MIX);
    assert_int_equal(one.channel, 2);
    assert_int_equal(one.tracks, 0x80000000u);
    assert_int_equal(heard("64", "best").channel, 64);
    assert_int_equal(heard("auto", "all").channels, HEARING_AUTO);
    assert_int_equal(heard("auto", "all").tracks, HEARING_ALL);
    assert_int_equal(heard("split", "1,3,10").channels, HEARING_SPLIT);
    assert_int_equal(heard("split", "1,3,10").tracks, 1 | 4 | 512);
}

TEST(other_words_are_refused)
{
    static const char *const channels[] = {"",   "0",       "01", "-1",  "1,2",
                                           "65", "9999999", "2 ", "MIX", "best"};
    static const char *const tracks[] = {"33", "mix", "0", "2,1", "1,1", "1,", ",1", "1,,2", "1 2"};

    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++)
        refused(channels[i], "best", "channels");
    for (size_t i = 0; i < sizeof(tracks) / sizeof(tracks[0]); i++)
        refused("mix", tracks[i], "tracks");
}

TEST_MAIN(NULL, NULL)
