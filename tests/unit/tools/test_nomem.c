/* Memory that runs out at every allocation in turn of what commands are made of. */
#include "tests/common/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "tests/common/nomem.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/found/walk.h"
#include "tools/export/names.h"
#include "tools/export/outdir.h"
#include "tools/search/fuse.h"
#include "tools/cli/text.h"

static int note(void *arg, const struct walk_entry *e, struct err *err)
{
    (void)err;
    assert_int_equal(e->kind, WALK_FILE);
    ++*(int *)arg;
    return 0;
}

static int walk_all(void *arg, struct err *err)
{
    int files = 0;
    const struct walk_options o = {.follow = true, .entry = note, .arg = &files};
    struct walk *w = NULL;
    char *root = NULL;
    int rc = cli_absolute(arg, &root, err);

    assert_true(rc == 0 || !root);
    if (rc == 0)
        rc = walk_new(&o, &w, err);
    assert_true(rc == 0 || !w);
    if (rc == 0)
        rc = walk_root(w, root, err);
    assert_true(rc != 0 || files == 4);
    walk_free(w);
    free(root);
    return rc;
}

/* A folder that was left out for want of memory would be files that nobody hears of. */
TEST(walk)
{
    char root[] = "walked";

    mkdir(root, 0777);
    mkdir("walked/a", 0777);
    mkdir("walked/a/b", 0777);
    file_text("walked/1", "");
    file_text("walked/a/2", "");
    file_text("walked/a/3", "");
    file_text("walked/a/b/4", "");
    unlink("walked/c");
    assert_int_equal(symlink("a/b", "walked/c"), 0);
    assert_true(nomem_each(walk_all, root) > 8);
}

static int absolute(void *arg, struct err *err)
{
    char *path = NULL;
    int rc = cli_absolute(arg, &path, err);

    assert_true(rc == 0 || !path);
    free(path);
    return rc;
}

TEST(absolute_paths)
{
    char gone[] = "not/there/../any.wav", there[] = ".";

    assert_true(nomem_each(absolute, gone) > 1);
    assert_true(nomem_each(absolute, there) > 0);
}

static int find_catalog(void *arg, struct err *err)
{
    struct cli cli = {.command = "status"};
    int rc = cli_catalog(&cli, false, err);

    (void)arg;
    cli_free(&cli);
    return rc;
}

TEST(catalog)
{
    unsetenv("NIGHTSHIFT_CATALOG");
    setenv("XDG_DATA_HOME", "/tmp", 1);
    assert_true(nomem_each(find_catalog, NULL) > 0);
    setenv("NIGHTSHIFT_CATALOG", "some.db", 1);
    assert_true(nomem_each(find_catalog, NULL) > 0);
}

static int give_names(void *arg, struct err *err)
{
    static const char *const paths[] = {"/a/b/tape.wav", "/a/b/tape.mp3", "/a/c/d.ogg"};
    struct names_used *u = NULL;
    char *base = NULL, *name = NULL;
    int rc = names_used_new(&u, err);

    (void)arg;
    assert_true(rc == 0 || !u);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = names_common(&base, paths[i], strlen(paths[i]), err);
    for (int i = 0; rc == 0 && i < 6; i++, name = NULL) {
        const char *path = paths[i % 3];

        rc = names_give(u, base, path, strlen(path), "", 0, i, "txt", &name, err);
        assert_true(rc == 0 || !name);
        free(name);
    }
    free(base);
    names_used_free(u);
    return rc;
}

TEST(names) { assert_true(nomem_each(give_names, NULL) > 10); }

static int write_files(void *arg, struct err *err)
{
    struct outdir *d = NULL;
    int rc = outdir_open(arg, &d, err);

    assert_true(rc == 0 || !d);
    if (rc == 0)
        rc = outdir_write(d, "a/b.txt", "text", 4, err);
    if (rc == 0)
        rc = outdir_write(d, "c.txt", "text", 4, err);
    if (rc == 0)
        rc = outdir_flush(d, err);
    assert_true(rc != 0 || outdir_files(d) == 2);
    outdir_close(d);
    return rc;
}

TEST(outdir)
{
    char path[] = "out";

    assert_true(nomem_each(write_files, path) > 3);
}

static int fuse_lists(void *arg, struct err *err)
{
    static const struct fuse_item a[] = {{1, 0, 10}, {2, 0, 10}}, b[] = {{2, 5, 20}, {3, 0, 10}};
    const struct fuse_item *const lists[] = {a, b};
    const size_t counts[] = {2, 2};
    struct fuse_hit *hits = NULL;
    size_t n = 0;
    int rc = fuse(lists, counts, 2, &hits, &n, err);

    (void)arg;
    assert_true(rc == 0 ? n == 3 : !hits && n == 0);
    free(hits);
    return rc;
}

TEST(rankings) { assert_true(nomem_each(fuse_lists, NULL) > 0); }

static int fit(void *arg, struct err *err)
{
    char *one = text_fit(arg, 20), *two = one ? text_fit_lines(arg, 20) : NULL;
    int rc = two ? 0 : err_set(err, ERR_NOMEM, "text");

    free(one);
    free(two);
    return rc;
}

TEST(texts)
{
    char s[] = "many words of a text that has to be fitted into twenty columns";

    assert_true(nomem_each(fit, s) > 2);
}

TEST_MAIN(NULL, NULL)
