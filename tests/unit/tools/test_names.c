/* Under which names transcripts are written, and that nothing leads out of the output folder. */
#include "tests/common/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/export/names.h"
#include "tools/export/outdir.h"

static char *give(struct names_used *u, const char *base, const char *path, const char *member,
                  int64_t id)
{
    static char out[4096];
    struct err err = {0};
    char *name = NULL;

    assert_ok(
        names_give(u, base, path, strlen(path), member, strlen(member), id, "txt", &name, &err),
        err);
    snprintf(out, sizeof(out), "%s", name);
    free(name);
    return out;
}

TEST(folders_are_kept)
{
    struct names_used *u = NULL;
    struct err err = {0};

    assert_ok(names_used_new(&u, &err), err);
    assert_string_equal(give(u, "/a", "/a/1990/tape.mp3", "", 1), "1990/tape.txt");
    assert_string_equal(give(u, "/a", "/a/box.zip", "in/side.wav", 2), "box.zip/in/side.txt");
    assert_string_equal(give(u, "/a", "/a/box.zip", "inner.zip//x.wav", 3),
                        "box.zip/inner.zip/x.txt");
    assert_string_equal(give(u, "/a", "/a/no suffix", "", 4), "no suffix.txt");
    assert_string_equal(give(u, "/a", "/a/.hidden", "", 5), ".hidden.txt");
    assert_string_equal(give(u, "", "/x/y.ogg", "", 6), "x/y.txt");
    assert_string_equal(give(u, "/x/y", "/x/yz/t.ogg", "", 7), "x/yz/t.txt"); /* not below it */
    assert_string_equal(give(u, "/", "/x/z.ogg", "", 8), "x/z.txt");
    names_used_free(u);
}

TEST(collisions_get_longer_names)
{
    struct names_used *u = NULL;
    struct err err = {0};

    assert_ok(names_used_new(&u, &err), err);
    assert_string_equal(give(u, "/a", "/a/t.mp3", "", 1), "t.txt");
    assert_string_equal(give(u, "/a", "/a/t.wav", "", 2), "t.wav.txt");
    assert_string_equal(give(u, "/a", "/a/T.MP3", "", 3), "T.MP3.txt");
    assert_string_equal(give(u, "/a", "/a/t.mp3", "", 4), "t.mp3.4.txt");
    assert_string_equal(give(u, "/a", "/a/t.mp3", "", 4), "t.mp3.4-3.txt");
    names_used_free(u);
}

/* What follows the last dot is an ending, unless a blank is in it. */
TEST(endings)
{
    struct names_used *u = NULL;
    struct err err = {0};

    assert_int_equal(names_stem("/a.b/tape.wav"), 9);
    assert_int_equal(names_stem("/a.b/tape"), 9);
    assert_int_equal(names_stem("/a.b/.wav"), 9);
    assert_int_equal(names_stem("/a.b/tape.wav (2)"), 17);
    assert_ok(names_used_new(&u, &err), err);
    assert_string_equal(give(u, "/a", "/a/t.tar", "take.wav (2)", 2), "t.tar/take.wav (2).txt");
    assert_string_equal(give(u, "/a", "/a/t.tar", "take.wav", 1), "t.tar/take.txt");
    names_used_free(u);
}

TEST(many_names_stay_different)
{
    struct names_used *u = NULL;
    struct err err = {0};
    char path[64];

    assert_ok(names_used_new(&u, &err), err);
    for (int i = 0; i < 20000; i++) {
        char want[64];

        snprintf(path, sizeof(path), "/a/%d.wav", i);
        snprintf(want, sizeof(want), "%d.txt", i);
        assert_string_equal(give(u, "/a", path, "", i), want);
    }
    assert_string_equal(give(u, "/a", "/a/7.mp3", "", 99999), "7.mp3.txt");
    names_used_free(u);
}

/* What a hostile archive may call its members. */
TEST(nothing_leads_out)
{
    static const char *const members[] = {"../../etc/passwd",
                                          "/etc/passwd",
                                          "a/../../../b.wav",
                                          "..",
                                          ".",
                                          "//..//..//x",
                                          "..\\..\\x.wav",
                                          "a\nb\x1b[2J.wav",
                                          "\xff\xfe.wav",
                                          "\xc2\x9b"
                                          "2J.wav",
                                          "....//..",
                                          "x/./y/.wav"};
    struct names_used *u = NULL;
    struct err err = {0};

    assert_ok(names_used_new(&u, &err), err);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const char *name = give(u, "/a", "/a/z.zip", members[i], (int64_t)i + 1);

        assert_int_equal(strncmp(name, "z.zip/", 6), 0);
        assert_null(strstr(name, "/../"));
        assert_null(strstr(name, "/./"));
        assert_null(strstr(name, "//"));
        for (const char *s = name; *s; s++)
            assert_true((unsigned char)*s >= 0x20 && *s != '\\' && *s != 0x7F);
    }
    assert_string_equal(give(u, "/a", "/a/y.zip", "../../etc/passwd", 50),
                        "y.zip/__/__/etc/passwd.txt");
    names_used_free(u);
}

/* Disks of Windows and shares refuse characters and ends of names, and read others as devices. */
TEST(names_may_be_copied_anywhere)
{
    static const char *const table[][2] = {
        {"/a/9:30 \"why?\" <a|b>*.wav", "9_30 _why__ _a_b__.txt"},
        {"/a/back\\slash.wav", "back_slash.txt"},
        {"/a/etc./Vol. 1 /t.wav", "etc_/Vol. 1_/t.txt"},
        {"/a/.../t.wav", ".._/t.txt"},
        {"/a/tape..wav", "tape..txt"},
        {"/a/CON.wav", "CON_.txt"},
        {"/a/aux/Lpt9/nul.tape.wav", "aux_/Lpt9_/nul_.tape.txt"},
        {"/a/com1 .wav", "com1_ .txt"},
        {"/a/com\xC2\xB2.wav", "com\xC2\xB2_.txt"},
        {"/a/conin$.wav", "conin$_.txt"},
        {"/a/contra/com0/lpt10/auxiliary.wav", "contra/com0/lpt10/auxiliary.txt"},
        {"/a/x\xE2\x80\xAEgnp.wav", "x___gnp.txt"},
        {"/a/y\xE2\x81\xA6.wav", "y___.txt"},
        {"/a/\xE2\x80\x9Cz\xE2\x80\x9D.wav", "\xE2\x80\x9Cz\xE2\x80\x9D.txt"},
    };
    struct names_used *u = NULL;
    struct err err = {0};

    assert_ok(names_used_new(&u, &err), err);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(give(u, "/a", table[i][0], "", (int64_t)i + 1), table[i][1]);
    assert_string_equal(give(u, "/a", "/a/box./t.zip", "nul/ a .wav", 50),
                        "box_/t.zip/nul_/ a .txt");
    /* What differed in these alone goes on to have files of its own. */
    assert_string_equal(give(u, "/a", "/a/x?y.wav", "", 60), "x_y.txt");
    assert_string_equal(give(u, "/a", "/a/x:y.wav", "", 61), "x_y.wav.txt");
    assert_string_equal(give(u, "/a", "/a/x|y.wav", "", 62), "x_y.wav.62.txt");
    /* In capitals, and composed or not. */
    assert_string_equal(give(u, "/a", "/a/\xC3\x89t\xC3\xA9.wav", "", 70), "\xC3\x89t\xC3\xA9.txt");
    assert_string_equal(give(u, "/a", "/a/\xC3\xA9t\xC3\x89.mp3", "", 71),
                        "\xC3\xA9t\xC3\x89.mp3.txt");
    assert_string_equal(give(u, "/a", "/a/e\xCC\x81te\xCC\x81.ogg", "", 72),
                        "e\xCC\x81te\xCC\x81.ogg.txt");
    names_used_free(u);
}

TEST(long_components_are_cut_between_characters)
{
    struct names_used *u = NULL;
    struct err err = {0};
    char path[700] = "/a/";

    for (int i = 0; i < 300; i++)
        memcpy(path + 3 + 2 * i, "\xC3\xA9", 3);
    assert_ok(names_used_new(&u, &err), err);
    assert_int_equal(strlen(give(u, "/a", path, "", 1)), 200 + 4);
    names_used_free(u);
}

TEST(the_common_folder)
{
    static const char *const paths[] = {"/a/b/c/1.wav", "/a/b/cc/2.wav", "/a/b/c/d/3.wav"};
    struct err err = {0};
    char *base = NULL;

    for (size_t i = 0; i < 3; i++)
        assert_ok(names_common(&base, paths[i], strlen(paths[i]), &err), err);
    assert_string_equal(base, "/a/b");
    assert_ok(names_common(&base, "/a/b.wav", 8, &err), err);
    assert_string_equal(base, "/a");
    assert_ok(names_common(&base, "/x", 2, &err), err);
    assert_string_equal(base, "");
    free(base);
}

static char *content(const char *path)
{
    static char out[256];
    int fd = open(path, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, out, sizeof(out) - 1);
    close(fd);
    assert_true(n >= 0);
    out[n] = 0;
    return out;
}

TEST(files_are_replaced_whole)
{
    char dir[] = "outdir-XXXXXX", path[128];
    struct outdir *d = NULL;
    struct err err = {0};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/new/er", dir);
    assert_ok(outdir_open(path, &d, &err), err);
    assert_ok(outdir_write(d, "a/b.txt", "one", 3, &err), err);
    assert_ok(outdir_flush(d, &err), err);
    assert_ok(outdir_write(d, "a/b.txt", "two!", 4, &err), err);
    assert_ok(outdir_flush(d, &err), err);
    assert_int_equal(outdir_files(d), 2);
    snprintf(path, sizeof(path), "%s/new/er/a/b.txt", dir);
    assert_string_equal(content(path), "two!");
    /* A file in the way of a folder, and a folder in the way of a file. */
    assert_int_equal(outdir_write(d, "a/b.txt/c.txt", "x", 1, &err), ERR_INPUT);
    assert_int_equal(outdir_write(d, "a", "x", 1, &err), ERR_INPUT);
    assert_string_equal(content(path), "two!");
    outdir_close(d);
}

TEST(links_are_not_followed)
{
    char dir[] = "outdir-XXXXXX", path[128];
    struct outdir *d = NULL;
    struct err err = {0};
    struct stat st;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/outside", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/out", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_ok(outdir_open(path, &d, &err), err);
    snprintf(path, sizeof(path), "%s/out/link", dir);
    assert_int_equal(symlink("../outside", path), 0);
    assert_int_equal(outdir_write(d, "link/x.txt", "x", 1, &err), ERR_INPUT);
    snprintf(path, sizeof(path), "%s/outside/x.txt", dir);
    assert_int_equal(stat(path, &st), -1);
    /* A link where the file belongs is replaced, not written through. */
    snprintf(path, sizeof(path), "%s/out/y.txt", dir);
    assert_int_equal(symlink("../outside/y.txt", path), 0);
    assert_ok(outdir_write(d, "y.txt", "y", 1, &err), err);
    assert_ok(outdir_flush(d, &err), err);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    outdir_close(d);
}

static unsigned count_files(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    unsigned n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

TEST(groups_are_whole_or_gone)
{
    char dir[] = "outdir-XXXXXX", name[32], path[128];
    struct outdir *d = NULL;
    struct err err = {0};
    sigset_t before, after;

    assert_non_null(mkdtemp(dir));
    assert_ok(outdir_open(dir, &d, &err), err);
    sigprocmask(SIG_BLOCK, NULL, &before);
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof(name), "%d.txt", i);
        assert_ok(outdir_write(d, name, name, strlen(name), &err), err);
    }
    assert_true(outdir_files(d) > 0 && outdir_files(d) < 1500); /* in groups */
    assert_ok(outdir_flush(d, &err), err);
    assert_int_equal(outdir_files(d), 1500);
    assert_int_equal(count_files(dir), 1500);
    snprintf(path, sizeof(path), "%s/1234.txt", dir);
    assert_string_equal(content(path), "1234.txt");
    /* What is not flushed is gone, and what it would have replaced stays. */
    assert_ok(outdir_write(d, "1234.txt", "new", 3, &err), err);
    assert_ok(outdir_write(d, "other.txt", "new", 3, &err), err);
    outdir_close(d);
    assert_int_equal(count_files(dir), 1500);
    assert_string_equal(content(path), "1234.txt");
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

TEST(a_large_file_comes_in_pieces)
{
    char dir[] = "outdir-XXXXXX", path[128];
    struct outdir *d = NULL;
    struct err err = {0};

    assert_non_null(mkdtemp(dir));
    assert_ok(outdir_open(dir, &d, &err), err);
    assert_ok(outdir_write(d, "a.txt", "a", 1, &err), err);
    assert_ok(outdir_begin(d, "media/b.opus", &err), err);
    assert_int_equal(outdir_files(d), 1); /* the group does not wait for it */
    assert_ok(outdir_append(d, "one ", 4, &err), err);
    assert_ok(outdir_append(d, "two", 3, &err), err);
    assert_ok(outdir_end(d, &err), err);
    assert_ok(outdir_write(d, "c.txt", "c", 1, &err), err);
    assert_ok(outdir_flush(d, &err), err);
    snprintf(path, sizeof(path), "%s/media/b.opus", dir);
    assert_string_equal(content(path), "one two");
    assert_ok(outdir_begin(d, "media/b.opus", &err), err);
    assert_ok(outdir_append(d, "three", 5, &err), err);
    outdir_drop(d);
    outdir_drop(d);
    assert_int_equal(outdir_begin(d, "media", &err), ERR_INPUT);
    assert_string_equal(content(path), "one two");
    assert_ok(outdir_begin(d, "d.opus", &err), err);
    outdir_close(d);
    assert_int_equal(count_files(dir), 3);
}

/* ^C between two pieces: the process ends of it, and nothing is left. */
TEST(a_signal_ends_it_between_pieces)
{
    char dir[] = "outdir-XXXXXX";
    int status;
    pid_t child;

    assert_non_null(mkdtemp(dir));
    child = fork();
    if (child == 0) {
        struct outdir *d = NULL;
        struct err err = {0};

        signal(SIGINT, SIG_DFL);
        if (outdir_open(dir, &d, &err) == 0 && outdir_begin(d, "a", &err) == 0 &&
            outdir_append(d, "a", 1, &err) == 0 && raise(SIGINT) == 0)
            (void)outdir_append(d, "b", 1, &err);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_int_equal(count_files(dir), 0);
}

TEST(half_made_files_of_the_dead_go)
{
    char dir[] = "outdir-XXXXXX", name[5][256], host[65] = "";
    struct outdir *d = NULL;
    struct err err = {0};
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_non_null(mkdtemp(dir));
    gethostname(host, sizeof(host) - 1);
    snprintf(name[0], sizeof(name[0]), "%s/.nightshift-%s-%ld-7.tmp", dir, host, (long)child);
    snprintf(name[1], sizeof(name[1]), "%s/.nightshift-%s-%ld-7.tmp", dir, host, (long)getppid());
    snprintf(name[2], sizeof(name[2]), "%s/.nightshift-%s-%ld-7.tmp.txt", dir, host, (long)child);
    snprintf(name[3], sizeof(name[3]), "%s/.nightshift-%s--1-7.tmp", dir, host);
    snprintf(name[4], sizeof(name[4]), "%s/.nightshift-%s2-%ld-7.tmp", dir, host, (long)child);
    for (int i = 0; i < 5; i++)
        close(open(name[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    assert_ok(outdir_open(dir, &d, &err), err);
    outdir_close(d);
    assert_int_equal(count_files(dir), 4);
    assert_int_equal(access(name[0], F_OK), -1);
}

static void remember(void *arg, const char *name, const struct err *why)
{
    assert_int_equal(why->code, ERR_INPUT);
    snprintf(arg, 64, "%s", name);
}

TEST(one_bad_name_does_not_stop_the_group)
{
    char dir[] = "outdir-XXXXXX", path[128], failed[64] = "";
    struct outdir *d = NULL;
    struct err err = {0};

    assert_non_null(mkdtemp(dir));
    assert_ok(outdir_open(dir, &d, &err), err);
    assert_ok(outdir_write(d, "a", "1", 1, &err), err);
    assert_ok(outdir_write(d, "b", "2", 1, &err), err);
    snprintf(path, sizeof(path), "%s/a", dir); /* somebody else is quicker */
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(count_files(dir), 3); /* a, and two half-made ones */
    outdir_on_failure(d, remember, failed);
    assert_ok(outdir_flush(d, &err), err);
    assert_string_equal(failed, "a");
    assert_int_equal(outdir_files(d), 1);
    snprintf(path, sizeof(path), "%s/b", dir);
    assert_string_equal(content(path), "2");
    assert_int_equal(count_files(dir), 2);
    outdir_close(d);
}

TEST_MAIN(NULL, NULL)
