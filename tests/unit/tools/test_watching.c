/* Which files of a watched folder are whole. */
#include "tests/common/test.h"

#include "tools/enqueue/watching.h"

#define NOW INT64_C(1800000000000)

static bool settled(int64_t modified_ms, int64_t changed_ms)
{
    const struct stat st = {
        .st_mtim = {(NOW - modified_ms) / 1000, (NOW - modified_ms) % 1000 * 1000000},
        .st_ctim = {(NOW - changed_ms) / 1000, (NOW - changed_ms) % 1000 * 1000000}};

    return watching_settled(&st, 30000, NOW);
}

TEST(a_file_settles)
{
    assert_true(settled(30000, 30000));
    assert_false(settled(29999, 60000));
    assert_false(settled(INT64_C(31536000000), 10)); /* cp -p gives it its old time in the end */
    assert_false(settled(0, 0));
    assert_false(settled(-1000, -1000)); /* a server's clock */
    assert_true(settled(-3600000, -3600000));
    assert_true(watching_settled(&(struct stat){.st_mtim = {INT64_MAX, 0}}, 30000, NOW));
}

TEST(names_of_what_is_not_finished)
{
    static const char *const unfinished[] = {".talk.wav.Zk3x9q", "talk.wav.part", "TALK.TMP",
                                             "talk.crdownload", ".part"};
    static const char *const whole[] = {
        "talk.wav", "part", "a.part.wav", ".hidden.wav", ".Zk3x9q", "talk.wav.Zk3x9q", ""};

    for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++)
        if (!watching_unfinished(unfinished[i]))
            fail_msg("'%s' was taken", unfinished[i]);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (watching_unfinished(whole[i]))
            fail_msg("'%s' was left", whole[i]);
}

TEST_MAIN(NULL, NULL)
