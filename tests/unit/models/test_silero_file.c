/* Where the voice activity model is looked for, and which one it is. */
#include "tests/common/test.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "workers/models/silero/silero.h"

static char root[PATH_MAX - 256];

static int setup(void **state)
{
    (void)state;
    if (!getcwd(root, sizeof(root)))
        return -1;
    mkdir("models", 0755);
    mkdir("models/" SILERO_NAME, 0755);
    mkdir("empty", 0755);
    unlink("models/" SILERO_NAME "/" SILERO_FILE);
    file_text("mine.bin", "abc");
    setenv("XDG_DATA_HOME", "/nowhere", 1);
    return 0;
}

static void found(const char *name, const char *rel)
{
    char want[PATH_MAX], *have = NULL;
    struct err e;

    snprintf(want, sizeof(want), "%s/%s", root, rel);
    assert_ok(silero_find(name, &have, &e), e);
    assert_string_equal(have, want);
    free(have);
}

TEST(finding)
{
    char models[PATH_MAX], *have = NULL;
    struct err e;

    snprintf(models, sizeof(models), "%s/models", root);
    setenv("NIGHTSHIFT_MODELS", models, 1);
    assert_int_equal(silero_find(SILERO_NAME, &have, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "nightshift model pull silero-vad"));
    assert_non_null(strstr(e.msg, models));
    file_text("models/" SILERO_NAME "/" SILERO_FILE, "");
    found(SILERO_NAME, "models/" SILERO_NAME "/" SILERO_FILE);
    found("./models/" SILERO_NAME, "models/" SILERO_NAME "/" SILERO_FILE);
    found("models/" SILERO_NAME "/" SILERO_FILE, "models/" SILERO_NAME "/" SILERO_FILE);
    found("mine.bin", "mine.bin");
    mkdir(SILERO_NAME, 0755); /* right here: not what the plain name means */
    file_text(SILERO_NAME "/" SILERO_FILE, "");
    found(SILERO_NAME, "models/" SILERO_NAME "/" SILERO_FILE);
    found("./" SILERO_NAME, SILERO_NAME "/" SILERO_FILE);
    unlink("models/" SILERO_NAME "/" SILERO_FILE);
    assert_int_equal(silero_find(SILERO_NAME, &have, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, models));
    assert_int_equal(silero_find("./empty", &have, &e), ERR_MODEL);
    assert_int_equal(silero_find("../models/" SILERO_NAME, &have, &e), ERR_MODEL);
    assert_int_equal(silero_find("", &have, &e), ERR_MODEL);
    assert_int_equal(silero_find("/dev/null", &have, &e), ERR_MODEL);
    assert_null(have);
}

TEST(hashing)
{
    char hash[33] = "untouched";
    struct err e;

    assert_int_equal(silero_hash("absent", hash, &e), ERR_MODEL);
    assert_int_equal(silero_hash("empty", hash, &e), ERR_MODEL);
    assert_int_equal(silero_hash("/dev/null", hash, &e), ERR_MODEL);
    assert_string_equal(hash, "untouched");
    assert_ok(silero_hash("mine.bin", hash, &e), e);
    assert_string_equal(hash, "06b05ab6733a618578af5f94892f3950"); /* xxhsum -H2 */
    file_text("nothing", "");
    assert_ok(silero_hash("nothing", hash, &e), e);
    assert_string_equal(hash, "99aa06d3014798d86001c324468d497f");
}

TEST_MAIN(setup, NULL)
