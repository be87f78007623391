/* Files that take the place of others, or leave them alone. */
#include "tests/common/test.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/replace.h"

static void put(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
}

static void assert_holds(const char *path, const char *wanted)
{
    char got[64] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof(got) - 1, f), strlen(wanted));
    fclose(f);
    assert_string_equal(got, wanted);
}

static void assert_nothing_left(void)
{
    glob_t found;

    assert_int_equal(glob("*" REPLACE_BESIDE "*", 0, NULL, &found), GLOB_NOMATCH);
}

static void in_a_folder(void)
{
    char dir[] = "/tmp/test-replace-XXXXXX";

    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
}

static void leave_folder(void)
{
    char dir[256];

    assert_non_null(getcwd(dir, sizeof(dir)));
    for (const char *const *p = (const char *const[]){"a", "b", "c", NULL}; *p; p++)
        (void)unlink(*p);
    assert_int_equal(rmdir(dir), 0);
}

TEST(a_file_is_another)
{
    struct err e = {0};
    struct stat st;

    in_a_folder();
    assert_int_equal(replace_file("a", "new\n", 4, REPLACE_THEIRS, &e), 0);
    assert_holds("a", "new\n");
    put("b", "old, and longer\n", 16);
    assert_int_equal(chmod("b", 0640), 0);
    assert_int_equal(replace_file("b", "new\n", 4, REPLACE_THEIRS, &e), 0);
    assert_holds("b", "new\n");
    assert_int_equal(stat("b", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(replace_file("c", "new\n", 4, REPLACE_PRIVATE, &e), 0);
    assert_int_equal(stat("c", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_nothing_left();
    leave_folder();
}

TEST(what_stays_as_it_is)
{
    struct err e = {0};

    in_a_folder();
    put("a", "SQLite format 3\0and a page", 26);
    assert_int_equal(replace_file("a", "new\n", 4, REPLACE_THEIRS, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "a catalog perhaps"));
    assert_int_equal(symlink("a", "b"), 0);
    assert_int_equal(replace_file("b", "new\n", 4, REPLACE_THEIRS, &e), ERR_USAGE);
    assert_int_equal(symlink("nowhere", "c"), 0);
    assert_int_equal(replace_file("c", "new\n", 4, REPLACE_THEIRS, &e), ERR_USAGE);
    assert_int_equal(replace_file(".", "new\n", 4, REPLACE_THEIRS, &e), ERR_USAGE);
    assert_int_equal(replace_file("/dev/null", "new\n", 4, REPLACE_THEIRS, &e), ERR_USAGE);
    assert_int_equal(replace_file("none/a", "new\n", 4, REPLACE_THEIRS, &e), ERR_MISSING);
    assert_nothing_left();
    assert_int_equal(replace_file("a", "new\n", 4, REPLACE_OURS, &e), 0);
    assert_holds("a", "new\n");
    leave_folder();
}

TEST(in_steps)
{
    struct err e = {0};
    char *beside = NULL;

    in_a_folder();
    put("a", "new\n", 4);
    put("b", "old\n", 4);
    assert_int_equal(replace_beside("b", &beside, &e), 0);
    assert_int_equal(replace_copy("a", beside, &e), 0);
    assert_holds("b", "old\n");
    assert_int_equal(replace_with(beside, "b", &e), 0);
    assert_holds("b", "new\n");
    assert_int_equal(replace_beside("b", &beside, &e), 0);
    assert_int_equal(replace_copy("none", beside, &e), ERR_MISSING);
    assert_int_equal(replace_with(beside, "b", &e), ERR_MISSING);
    assert_holds("b", "new\n");
    assert_nothing_left();
    leave_folder();
}

/* Nobody's link leads the writing elsewhere. */
TEST(beside_is_a_new_file)
{
    struct err e = {0};
    char beside[128], host[65] = "";

    in_a_folder();
    put("b", "old\n", 4);
    gethostname(host, sizeof(host) - 1);
    snprintf(beside, sizeof(beside), "a" REPLACE_BESIDE "%s-%ld", host, (long)getpid());
    assert_int_equal(symlink("b", beside), 0);
    assert_int_equal(replace_file("a", "new\n", 4, REPLACE_THEIRS, &e), 0);
    assert_holds("a", "new\n");
    assert_holds("b", "old\n");
    assert_true(replace_copy("a", "b", &e) < 0);
    assert_holds("b", "old\n");
    assert_nothing_left();
    leave_folder();
}

TEST_MAIN(NULL, NULL)
