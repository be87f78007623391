/* The walker, on real directories. */
#include "tests/common/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tools/enqueue/found/walk.h"

struct place {
    char *root; /* absolute */
    struct buf said;
    const char *vanish; /* removed when `when` is met */
    const char *when;
};

static const char *const kinds[] = {"file",    "skipped",    "excluded",  "link",
                                    "special", "other-disk", "unreadable"};

/* One line for each entry: kind, path below the root, '-' when not included. */
static int note(void *arg, const struct walk_entry *e, struct err *err)
{
    struct place *p = arg;

    (void)err;
    buf_printf(&p->said, "%s %s%s%s\n", kinds[e->kind], e->below, e->directory ? "/" : "",
               e->kind == WALK_FILE && !e->included ? " -" : "");
    assert_int_equal(strlen(e->path), e->path_len);
    assert_int_equal(e->path[0], '/');
    if (e->kind == WALK_FILE) {
        struct stat st;
        int fd = e->dir >= 0 ? openat(e->dir, e->name, O_RDONLY) : open(e->path, O_RDONLY);

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_ino, e->st->st_ino);
        close(fd);
    }
    if (p->when && strcmp(e->below, p->when) == 0)
        assert_int_equal(unlink(p->vanish), 0);
    return 0;
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    char dir[] = "walk-XXXXXX";

    if (!p || !mkdtemp(dir))
        return -1;
    p->root = realpath(dir, NULL);
    *state = p;
    return p->root && chdir(p->root) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    struct place *p = *state;

    buf_free(&p->said);
    free(p->root);
    free(p);
    return chdir("..");
}

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    assert_true(fd >= 0);
    close(fd);
}

static void folder(const char *path) { assert_int_equal(mkdir(path, 0777), 0); }

static const char *walked(struct place *p, struct walk_options o)
{
    struct walk *w = NULL;
    struct err err = {0};

    o.entry = note;
    o.arg = p;
    buf_clear(&p->said);
    assert_ok(walk_new(&o, &w, &err), err);
    assert_ok(walk_root(w, p->root, &err), err);
    walk_free(w);
    return p->said.len > 0 ? buf_cstr(&p->said) : "";
}

TEST_BOTH(order_is_files_first_and_sorted, set_up, tear_down)
{
    folder("b");
    folder("a");
    touch("z.wav");
    touch("c.wav");
    touch("b/2");
    touch("b/10");
    touch("a/x");
    assert_string_equal(walked(*state, (struct walk_options){0}),
                        "file c.wav\nfile z.wav\nfile a/x\nfile b/10\nfile b/2\n");
}

TEST_BOTH(names_that_are_skipped, set_up, tear_down)
{
    folder("$RECYCLE.BIN");
    touch("$RECYCLE.BIN/a.wav");
    folder(".git");
    touch(".git/b.wav");
    touch(".c.wav");
    touch("d.wav");
    touch("d.wav.part");
    assert_string_equal(walked(*state, (struct walk_options){0}),
                        "skipped $RECYCLE.BIN/\nskipped .c.wav\nskipped .git/\nfile d.wav\n"
                        "skipped d.wav.part\n");
    assert_string_equal(walked(*state, (struct walk_options){.hidden = true}),
                        "skipped $RECYCLE.BIN/\nfile .c.wav\nfile d.wav\nskipped d.wav.part\n"
                        "file .git/b.wav\n");
}

TEST_BOTH(odd_names, set_up, tear_down)
{
    touch("new\nline.wav");
    touch("\xff\xfe.wav");
    touch("-rf");
    touch(" ");
    assert_string_equal(walked(*state, (struct walk_options){0}),
                        "file  \nfile -rf\nfile new\nline.wav\nfile \xff\xfe.wav\n");
}

TEST_BOTH(links_are_left_alone, set_up, tear_down)
{
    folder("real");
    touch("real/a.wav");
    assert_int_equal(symlink("real", "to-folder"), 0);
    assert_int_equal(symlink("real/a.wav", "to-file"), 0);
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_int_equal(symlink("self", "self"), 0);
    assert_int_equal(symlink("..", "real/up"), 0);
    assert_string_equal(walked(*state, (struct walk_options){0}),
                        "link dangling\nlink self\nlink to-file\nlink to-folder/\n"
                        "file real/a.wav\nlink real/up/\n");
}

/* Followed: the loop ends, each folder is entered once, and by its real path if it has one here. */
TEST_BOTH(links_are_followed_once, set_up, tear_down)
{
    struct place *p = *state;
    char outside[300];

    folder("in");
    folder("out");
    folder("in/real");
    touch("in/real/a.wav");
    touch("out/b.wav");
    assert_int_equal(symlink("real", "in/again"), 0);
    assert_int_equal(symlink("..", "in/real/up"), 0);
    assert_int_equal(symlink("../out", "in/out"), 0);
    assert_int_equal(symlink("real/a.wav", "in/file.wav"), 0);
    assert_int_equal(symlink("self", "in/self"), 0);
    snprintf(outside, sizeof(outside), "%s/in", p->root);
    free(p->root);
    p->root = strdup(outside);
    assert_string_equal(walked(p, (struct walk_options){.follow = true}),
                        "file file.wav\nlink self\nfile real/a.wav\nfile out/b.wav\n");
}

TEST_BOTH(pipes_and_sockets_are_not_opened, set_up, tear_down)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_int_equal(mkfifo("pipe.wav", 0666), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    close(fd);
    assert_string_equal(walked(*state, (struct walk_options){0}),
                        "special pipe.wav\nspecial sock\n");
}

TEST_BOTH(patterns_choose, set_up, tear_down)
{
    const char *const include[] = {"*.mp3", "keep/*.wav", NULL};
    const char *const exclude[] = {"tmp/", "*secret*", "a/b/c.mp3", NULL};

    folder("a");
    folder("a/b");
    folder("keep");
    folder("tmp");
    touch("1.MP3");
    touch("1.wav");
    touch("tmp/2.mp3");
    touch("a/secrets.mp3");
    touch("a/b/c.mp3");
    touch("a/b/d.mp3");
    touch("keep/3.wav");
    assert_string_equal(
        walked(*state, (struct walk_options){.include = include, .exclude = exclude}),
        "file 1.MP3\nfile 1.wav -\nexcluded tmp/\nexcluded a/secrets.mp3\nexcluded a/b/c.mp3\n"
        "file a/b/d.mp3\nfile keep/3.wav\n");
}

TEST(patterns_fit)
{
    assert_true(walk_fits("*.wav", "a/b/C.WAV", false));
    assert_false(walk_fits("*.wav", "a.wav/b", false));
    assert_true(walk_fits("a/*", "a/b/c", false));
    assert_true(walk_fits("/a", "a", true));
    assert_true(walk_fits("tmp/", "x/tmp", true));
    assert_false(walk_fits("tmp/", "x/tmp", false));
    assert_false(walk_fits("", "x", false));
    assert_true(walk_fits("[ab].wav", "dir/b.wav", false));
    assert_true(walk_fits("\xff*", "\xff.wav", false));
}

/* A file that goes away while its directory is walked is simply not there. */
TEST_BOTH(vanished_while_walking, set_up, tear_down)
{
    struct place *p = *state;

    touch("1");
    touch("2");
    touch("3");
    p->when = "1";
    p->vanish = "2";
    assert_string_equal(walked(p, (struct walk_options){0}), "file 1\nfile 3\n");
}

TEST_BOTH(a_root_that_is_a_file_or_missing, set_up, tear_down)
{
    struct place *p = *state;
    struct walk_options o = {.entry = note, .arg = p};
    struct walk *w = NULL;
    struct err err = {0};
    char path[300];

    touch("a.wav");
    assert_ok(walk_new(&o, &w, &err), err);
    snprintf(path, sizeof(path), "%s/a.wav", p->root);
    assert_ok(walk_root(w, path, &err), err);
    assert_string_equal(buf_cstr(&p->said), "file a.wav\n");
    snprintf(path, sizeof(path), "%s/b.wav", p->root);
    assert_int_equal(walk_root(w, path, &err), ERR_MISSING);
    /* The same folder twice in one walk is entered once. */
    buf_clear(&p->said);
    assert_ok(walk_root(w, p->root, &err), err);
    assert_ok(walk_root(w, p->root, &err), err);
    assert_string_equal(buf_cstr(&p->said), "file a.wav\n");
    walk_free(w);
}

static int stop_at_once(void *arg, const struct walk_entry *e, struct err *err)
{
    (void)arg;
    (void)e;
    return err_set(err, ERR_FULL, "stop");
}

TEST_BOTH(the_callback_stops_it, set_up, tear_down)
{
    struct place *p = *state;
    struct walk_options o = {.entry = stop_at_once};
    struct walk *w = NULL;
    struct err err = {0};

    touch("a");
    touch("b");
    assert_ok(walk_new(&o, &w, &err), err);
    assert_int_equal(walk_root(w, p->root, &err), ERR_FULL);
    walk_free(w);
}

/* Deeper than names fit into a path: reported, and the rest goes on. */
TEST_BOTH(deeper_than_a_path, set_up, tear_down)
{
    struct place *p = *state;
    char name[201];
    int here = open(".", O_RDONLY | O_DIRECTORY);
    const char *said;

    memset(name, 'd', 200);
    name[200] = 0;
    touch("a.wav");
    for (int i = 0; i < 25; i++) {
        folder(name);
        assert_int_equal(chdir(name), 0);
    }
    assert_int_equal(fchdir(here), 0);
    close(here);
    said = walked(p, (struct walk_options){0});
    assert_non_null(strstr(said, "file a.wav\n"));
    assert_non_null(strstr(said, "unreadable "));
}

TEST_BOTH(many_files_in_one_folder, set_up, tear_down)
{
    struct place *p = *state;
    char name[32], last[32] = "";
    const char *said;
    int n = 0;

    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "%d", i * 7919 % 5000);
        touch(name);
    }
    said = walked(p, (struct walk_options){0});
    for (; *said; n++) {
        size_t len = strcspn(said, "\n");

        assert_int_equal(strncmp(said, "file ", 5), 0);
        snprintf(name, sizeof(name), "%.*s", (int)len - 5, said + 5);
        assert_true(strcmp(last, name) < 0);
        snprintf(last, sizeof(last), "%s", name);
        said += len + 1;
    }
    assert_int_equal(n, 5000);
}

/* Root reads everything, so a child does it as nobody. */
TEST_BOTH(folders_that_may_not_be_read, set_up, tear_down)
{
    struct place *p = *state;
    int status;
    pid_t pid;

    folder("closed");
    touch("closed/a.wav");
    folder("open");
    touch("open/b.wav");
    assert_int_equal(chmod("closed", 0), 0);
    assert_int_equal(chmod(".", 0755), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool same;

        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(TEST_SKIPPED);
        if (access(p->root, R_OK | X_OK) != 0)
            _exit(TEST_SKIPPED); /* a folder above it is closed to nobody */
        same = strcmp(walked(p, (struct walk_options){0}),
                      "unreadable closed/\nfile open/b.wav\n") == 0;
        if (!same)
            print_error("%s", buf_cstr(&p->said));
        _exit(same ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    chmod("closed", 0755);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == TEST_SKIPPED) {
        print_message("skipped: nobody may not look into the build folder here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_MAIN(NULL, NULL)
