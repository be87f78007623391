/* Words quoted for a shell, and the commands that play something, read back by real shells. */
#include "tests/common/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tools/play_command.h"
#include "tools/cli/shell.h"

#define FOUND 4096

/* What standard output of `SHELL -c COMMAND` is; the shell's name may have options. */
static size_t output_of(const char *shell, const char *command, char ret[FOUND])
{
    struct buf line = BUF_INIT;
    FILE *f;
    size_t n;

    setenv("COMMAND_OF_TEST", command, 1);
    buf_printf(&line, "PATH=\"$PWD/programs:$PATH\" exec %s -c \"$COMMAND_OF_TEST\"", shell);
    f = popen(buf_cstr(&line), "r");
    assert_non_null(f);
    n = fread(ret, 1, FOUND, f);
    assert_int_equal(pclose(f), 0);
    buf_free(&line);
    return n;
}

static bool have_bash(void) { return system("bash -c : >/dev/null 2>&1") == 0; }

/* `word` is read back as these bytes. */
static void reads_back(const char *shell, const char *bytes)
{
    struct buf command = BUF_INIT;
    char found[FOUND];
    size_t n;

    buf_printf(&command, "printf '%%s' ");
    shell_quote(&command, bytes, strlen(bytes));
    n = output_of(shell, buf_cstr(&command), found);
    if (n != strlen(bytes) || memcmp(found, bytes, n) != 0)
        fail_msg("%s reads %s as '%.*s'", shell, (const char *)command.data, (int)n, found);
    buf_free(&command);
}

static const char *const plain[] = {"",
                                    "tape 3.wav",
                                    "it's",
                                    "'",
                                    "''''",
                                    "\"quoted\"",
                                    "$HOME ${x} $(rm -rf /) `id`",
                                    "back\\slash\\n \\",
                                    "-rf",
                                    "--",
                                    "*?[a-z]{b,c}~ !x #y ;|&<>()",
                                    "ñandú, Größe, 日本, 🎙",
                                    "a\\303\\251"};
static const char *const odd[] = {"two\nlines",
                                  "tab\there",
                                  "\x1b[2J",
                                  "caf\xe9.wav",
                                  "\xff\xfe",
                                  "caf\xe9' $(id) \\1",
                                  "\xc3\xa9\xc3",
                                  "\x7f",
                                  "\xc2\x9b"
                                  "31m",
                                  "\xe9"
                                  "7 digits follow",
                                  "end\n",
                                  "'\n'"};

TEST(names_are_read_back_by_any_shell)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        reads_back("sh", plain[i]);
}

TEST(odd_names_are_read_back_by_bash)
{
    if (!have_bash())
        skip();
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        reads_back("bash", odd[i]);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        reads_back("bash", plain[i]);
}

/* What is put can be printed: no byte of it is a control character, and it is UTF-8 that a terminal
 * shows. */
TEST(what_is_quoted_can_be_shown)
{
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct buf out = BUF_INIT;

        shell_quote(&out, odd[i], strlen(odd[i]));
        for (size_t k = 0; k < out.len; k++)
            assert_true(out.data[k] >= 0x20 && out.data[k] != 0x7F);
        assert_null(strstr(buf_cstr(&out), "\xc2\x9b"));
        buf_free(&out);
    }
}

/* ------------------------------------------------------------------------------------ commands */

static void put_program(const char *name)
{
    char path[64];
    FILE *f;

    mkdir("programs", 0777);
    snprintf(path, sizeof(path), "programs/%s", name);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n[ -t 0 ] || cat\nprintf '%s'\nprintf '<%%s>' \"$@\"\n", name);
    fclose(f);
    assert_int_equal(chmod(path, 0777), 0);
}

static int put_programs(void **state)
{
    (void)state;
    put_program("ffplay");
    put_program("bsdtar");
    put_program("bsdcat");
    return 0;
}

static struct play of(const char *path, const char *member, int64_t start_ms, int64_t end_ms)
{
    return (struct play){path, strlen(path), member, strlen(member), 0, start_ms, end_ms};
}

/* Which programs the shell starts with which words, one behind the other. */
static void plays(struct play p, const char *want)
{
    struct buf command = BUF_INIT;
    char found[FOUND];
    size_t n;

    buf_printf(&command, "{ ");
    assert_true(play_command(&p, &command));
    buf_printf(&command, "; } </dev/null");
    n = output_of(have_bash() ? "bash" : "sh", buf_cstr(&command), found);
    if (n != strlen(want) || memcmp(found, want, n) != 0)
        fail_msg("'%s' is\n%.*s, not\n%s", (const char *)command.data, (int)n, found, want);
    buf_free(&command);
}

TEST(a_file_is_played_with_a_second_around)
{
    plays(of("/a/b c's.wav", "", 755200, 759300),
          "ffplay<-ss><754.2><-t><6.1><-autoexit></a/b c's.wav>");
    plays(of("/a.wav", "", 300, 1250), "ffplay<-ss><0.0><-t><2.3><-autoexit></a.wav>");
    plays(of("/a.wav", "", 10049, 10051), "ffplay<-ss><9.0><-t><2.1><-autoexit></a.wav>");
}

TEST(a_member_is_unpacked_on_the_way)
{
    plays(of("/a b.zip", "-take (1).mp3", 5000, 6000),
          "bsdtar<-xqOf></a b.zip><--><-take (1).mp3>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.zip", "x[1]*?^$\\.mp3", 5000, 6000),
          "bsdtar<-xqOf></a.zip><--><x\\[1\\]\\*\\?\\^\\$\\\\.mp3>"
          "ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.zip", "in ner.zip//one.mp3", 5000, 6000),
          "bsdtar<-xqOf></a.zip><--><in ner.zip>bsdtar<-xqOf><-><--><one.mp3>"
          "ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.zip", "//one.mp3", 5000, 6000),
          "bsdtar<-xqOf></a.zip><--><//one.mp3>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.zip", "one//", 5000, 6000),
          "bsdtar<-xqOf></a.zip><--><one//>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
}

TEST(what_was_compressed_by_itself_is_unpacked)
{
    plays(of("/a.wav.gz", "data", 5000, 6000),
          "bsdcat</a.wav.gz>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.tar.gz", "data", 5000, 6000),
          "bsdtar<-xqOf></a.tar.gz><--><data>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of("/a.gz", "date", 5000, 6000),
          "bsdtar<-xqOf></a.gz><--><date>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
    plays(of(".gz", "data", 5000, 6000),
          "bsdtar<-xqOf><.gz><--><data>ffplay<-ss><4.0><-t><3.0><-autoexit><->");
}

TEST(what_no_command_reaches_has_none)
{
    struct play second = of("/a.zip", "one.mp3", 0, 1), nul = of("/a.zip", "one.mp3", 0, 1);
    struct buf out = BUF_INIT;

    second.nth = 1;
    assert_false(play_command(&second, &out));
    nul.path = "/a\0b.wav";
    nul.path_len = 8;
    assert_false(play_command(&nul, &out));
    nul = of("/a.zip", "", 0, 1);
    nul.member = "a\0b";
    nul.member_len = 3;
    assert_false(play_command(&nul, &out));
    assert_int_equal(out.len, 0);
}

/* A catalog may hold any numbers. */
TEST(impossible_times_are_bounded)
{
    struct play p[] = {of("/a", "", INT64_MAX, INT64_MIN), of("/a", "", INT64_MIN, INT64_MAX),
                       of("/a", "", -5, -1)};

    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
        struct buf out = BUF_INIT;

        assert_true(play_command(&p[i], &out));
        assert_null(strstr(buf_cstr(&out), " -ss -"));
        assert_null(strstr(buf_cstr(&out), " -t -"));
        buf_free(&out);
    }
}

TEST_MAIN(put_programs, NULL)
