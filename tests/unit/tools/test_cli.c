/* Options, paths and the place of the catalog. */
#include "tests/common/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/command.h"

struct got {
    bool all;
    const char *limit, *max_files;
    int operands;
};

static int take_limit(void *at, const char *value, struct err *err)
{
    ((struct got *)at)->limit = value;
    return strcmp(value, "bad") == 0 ? err_set(err, ERR_USAGE, "not that") : 0;
}

static const struct command_option options[] = {
    {COMMAND_READ("limit", 'n', take_limit, "N", "how many")},
    {COMMAND_SWITCH("all", 0, got, all, "all")},
    {COMMAND_VALUE(COMMAND_TEXT, "max-files", 0, got, max_files, "N", "files")},
    {0}};

/* What is read is borrowed from the words of the last call. */
static int parse(struct cli *cli, struct got *g, bool json, const char *a, const char *b,
                 const char *c)
{
    const struct command command = {.name = "status",
                                    .usage = "",
                                    .about = "",
                                    .options = options,
                                    .json = json ? "as JSON" : NULL,
                                    .examples = "status"};
    static char words[4][64];
    char *argv[5] = {words[0]};
    const char *given[] = {a, b, c};
    int argc = 1, rc;

    snprintf(words[0], sizeof(words[0]), "status");
    for (int i = 0; i < 3 && given[i]; i++) {
        snprintf(words[argc], sizeof(words[argc]), "%s", given[i]);
        argv[argc] = words[argc];
        argc++;
    }
    *g = (struct got){0};
    rc = command_parse(cli, &command, g, argc, argv);
    g->operands = argc - optind;
    return rc;
}

TEST(options_are_taken)
{
    struct cli cli = {.command = "status"};
    struct got g;

    assert_int_equal(parse(&cli, &g, true, "-n", "5", "x"), -1);
    assert_string_equal(g.limit, "5");
    assert_int_equal(g.operands, 1);
    assert_int_equal(parse(&cli, &g, true, "x", "--limit=7", "--json"), -1);
    assert_string_equal(g.limit, "7");
    assert_true(cli.json);
    assert_int_equal(parse(&cli, &g, true, "--catalog", "f.db", "--all"), -1);
    assert_string_equal(cli.catalog, "f.db");
    assert_true(g.all);
    assert_int_equal(parse(&cli, &g, true, "--", "--all", NULL), -1);
    assert_false(g.all);
    assert_int_equal(g.operands, 1);
    cli_free(&cli);
}

/* As other programs spell them: before and behind operands; values and operands stay. */
TEST(underscores_in_options)
{
    struct cli cli = {.command = "status"};
    struct got g;

    assert_int_equal(parse(&cli, &g, true, "--max_files", "a_b", "c_d"), -1);
    assert_string_equal(g.max_files, "a_b");
    assert_int_equal(g.operands, 1);
    assert_int_equal(parse(&cli, &g, true, "c_d", "--max_files=a_b", NULL), -1);
    assert_string_equal(g.max_files, "a_b");
    assert_int_equal(g.operands, 1);
    assert_int_equal(parse(&cli, &g, true, "c_d", "--max_f", "--max_files"), -1);
    assert_string_equal(g.max_files, "--max_files");
    assert_int_equal(parse(&cli, &g, true, "--", "--max_files", NULL), -1);
    assert_null(g.max_files);
    assert_int_equal(parse(&cli, &g, true, "--max_fool", NULL, NULL), EX_USAGE);
    assert_int_equal(parse(&cli, &g, true, "--max_files", NULL, NULL), EX_USAGE);
    assert_int_equal(parse(&cli, &g, true, "--_", NULL, NULL), EX_USAGE);
    cli_free(&cli);
}

TEST(options_of_other_programs)
{
    static const struct option ours[] = {{"devices", required_argument, NULL, 'd'},
                                         {"device-memory", required_argument, NULL, 1},
                                         {0}};
    char out[CLI_OPTION_LEN];

    assert_string_equal(cli_no_long_option("--device=cuda", ours, out),
                        "there is no option '--device' here. `nightshift run --devices=LIST` says "
                        "which devices compute, such as cuda:0 or cpu");
    assert_string_equal(
        cli_no_long_option("--beam-size", ours, out),
        "there is no option '--beam-size' here. It is given when work is asked for, "
        "by `nightshift enqueue --beam-size`");
    assert_string_equal(cli_no_long_option("--devic", ours, out),
                        "'--devic' is short for several: --devices, --device-memory");
    assert_string_equal(cli_no_long_option("--devcies", ours, out),
                        "there is no option '--devcies'. Perhaps '--devices' was meant");
}

TEST(wrong_options_are_usage)
{
    static const char *const cases[][2] = {{"--limit", NULL}, {"-n", NULL},      {"-Z", NULL},
                                           {"--bogus", NULL}, {"--all=3", NULL}, {"-n", "bad"},
                                           {"--json", NULL},  {"--catalog", ""}, {"-c", NULL}};
    struct got g;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cli cli = {.command = "status"};

        assert_int_equal(parse(&cli, &g, false, cases[i][0], cases[i][1], NULL), EX_USAGE);
        cli_free(&cli);
    }
}

TEST(numbers_are_checked)
{
    static const char *const bad[] = {"",  "-1", "0",  "11",  "1x",
                                      "x", " 1", "+1", "1.5", "99999999999999999999"};
    struct err err = {0};
    uint32_t v = 42;
    int64_t ms = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(cli_u32("--n", bad[i], 1, 10, &v, &err), ERR_USAGE);
    assert_int_equal(v, 42);
    assert_non_null(strstr(err.msg, "--n"));
    assert_ok(cli_u32("--n", "10", 1, 10, &v, &err), err);
    assert_int_equal(v, 10);
    assert_int_equal(cli_length("--shard", "-5", 1, 1000, &ms, &err), ERR_USAGE);
    assert_int_equal(cli_length("--shard", "2s", 1, 1000, &ms, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "(more than 0, at most 1.0 s), not '2s'"));
    assert_int_equal(err.msg[strlen(err.msg) - 1], '\'');
    assert_int_equal(cli_length("--gap", "500", 0, 2000, &ms, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "(0.0 s to 2.0 s), not '500', which without a unit is sec"));
    assert_int_equal(cli_length("--shard", "0", 30000, 60000, &ms, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "(30 s to 1 min 00 s), not '0'"));
    assert_null(strstr(err.msg, "unit"));
    assert_int_equal(ms, 42);
    assert_ok(cli_length("--shard", "1s", 1, 1000, &ms, &err), err);
    assert_int_equal(ms, 1000);
}

static void is_absolute(const char *path, const char *want)
{
    struct err err = {0};
    char *ret = NULL, whole[700];

    assert_ok(cli_absolute(path, &ret, &err), err);
    if (want[0] == '/')
        snprintf(whole, sizeof(whole), "%s", want);
    else {
        char *here = realpath(".", NULL);

        snprintf(whole, sizeof(whole), "%s%s%s", here, want[0] ? "/" : "", want);
        free(here);
    }
    assert_string_equal(ret, whole);
    free(ret);
}

TEST(paths_become_absolute)
{
    char dir[] = "abs-XXXXXX", path[100], want[100];

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/real", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/link", dir);
    assert_int_equal(symlink("real", path), 0);
    is_absolute(".", "");
    is_absolute("/", "/");
    is_absolute("/no-such-thing-here", "/no-such-thing-here");
    is_absolute("/no-such-thing-here/either", "/no-such-thing-here/either");
    is_absolute("//usr//.//", "/usr");
    snprintf(want, sizeof(want), "%s/real", dir);
    is_absolute(path, want);
    snprintf(path, sizeof(path), "%s/link/gone/x.wav", dir);
    snprintf(want, sizeof(want), "%s/real/gone/x.wav", dir);
    is_absolute(path, want);
    snprintf(path, sizeof(path), "%s/link/gone/", dir);
    snprintf(want, sizeof(want), "%s/real/gone", dir);
    is_absolute(path, want);
    snprintf(path, sizeof(path), "%s/\xff\n.wav", dir);
    is_absolute(path, path);
}

TEST(the_catalog_is_found)
{
    struct cli cli = {.command = "status"};
    struct err err = {0};
    struct stat st;
    char dir[] = "cat-XXXXXX", *here = realpath(".", NULL), want[700];

    assert_non_null(mkdtemp(dir));
    unsetenv("NIGHTSHIFT_CATALOG");
    snprintf(want, sizeof(want), "%s/%s/share", here, dir);
    setenv("XDG_DATA_HOME", want, 1);
    snprintf(want, sizeof(want), "%s/%s/share/nightshift/nightshift.db", here, dir);
    assert_ok(cli_catalog(&cli, false, &err), err);
    assert_string_equal(cli.catalog, want);
    *strrchr(want, '/') = 0;
    assert_int_equal(stat(want, &st), -1); /* readers make nothing */
    cli_free(&cli);
    assert_ok(cli_catalog(&cli, true, &err), err);
    assert_int_equal(stat(want, &st), 0);
    cli_free(&cli);
    setenv("NIGHTSHIFT_CATALOG", "e.db", 1);
    assert_ok(cli_catalog(&cli, false, &err), err);
    snprintf(want, sizeof(want), "%s/e.db", here);
    assert_string_equal(cli.catalog, want);
    cli_free(&cli);
    cli.catalog = strdup("o.db"); /* the option counts more */
    assert_ok(cli_catalog(&cli, false, &err), err);
    snprintf(want, sizeof(want), "%s/o.db", here);
    assert_string_equal(cli.catalog, want);
    cli_free(&cli);
    unsetenv("NIGHTSHIFT_CATALOG");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    assert_int_equal(cli_catalog(&cli, false, &err), ERR_USAGE);
    free(here);
}

TEST(colour_needs_a_terminal)
{
    FILE *f = tmpfile();

    assert_non_null(f);
    assert_false(cli_color(f));
    assert_int_equal(cli_columns(f), 80);
    cli_paint(f, "31", "red");
    assert_int_equal(ftell(f), 3);
    fclose(f);
}

TEST_MAIN(NULL, NULL)
