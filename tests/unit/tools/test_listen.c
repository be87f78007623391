/* What browsers play as it lies, by the names that the catalog has for containers and codecs. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "tests/common/test.h"
#include "tests/unit/media/media_util.h"

#include "base/hash.h"
#include "tools/export/html/listen.h"
#include "workers/media/stream/fingerprint.h"

TEST(what_browsers_play)
{
    static const struct {
        const char *container, *codec, *path;
        bool played, film;
    } table[] = {
        {"wav", "pcm_s16le", "/a.wav", true, false},
        {"wav", "adpcm_ms", "/a.wav", false, false},
        {"w64", "pcm_s16le", "/a.w64", false, false},
        {"mp3", "mp3", "/a", true, false},
        {"ogg", "speex", "/a.ogg", false, false},
        {"mp4", "aac", "/a.m4a", true, false},
        {"mp4", "aac", "/a.MP4", true, true},
        {"mp4", "ac3", "/a.mp4", false, true},
        {"mov", "aac", "/a.mov", false, false}, /* not in every browser */
        {"matroska", "opus", "/a.webm", true, true},
        {"matroska", "opus", "/a.mkv", false, false},
        {"", "", "", false, false},
        {"mp4", "a codec whose name is longer than any that has one", "/a.mp4", false, true},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_int_equal(listen_is_played(table[i].container, table[i].codec, table[i].path),
                         table[i].played);
        assert_int_equal(listen_is_film(table[i].path), table[i].film);
    }
}

static int put(void *arg, const void *data, size_t n, struct err *err)
{
    (void)err;
    buf_put(arg, data, n);
    return 0;
}

static int copy_of(const char *path, const uint8_t *fingerprint, const uint8_t *hash,
                   struct buf *out, struct err *err)
{
    const struct read_origin origin = {
        .path_raw = path, .path_raw_len = strlen(path), .fingerprint = fingerprint, .hash = hash};

    buf_clear(out);
    return listen_copy(&origin, put, out, err);
}

static int copy(const char *path, const uint8_t *fingerprint, struct buf *out, struct err *err)
{
    return copy_of(path, fingerprint, NULL, out, err);
}

/* What was transcribed, or nothing. */
TEST(a_copy_is_what_was_transcribed)
{
    static char bytes[400000]; /* more than its fingerprint looks at */
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint8_t fingerprint[16], whole[16];
    int fd;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * i >> 7);
    file_write("tape.wav", bytes, sizeof(bytes));
    fd = open("tape.wav", O_RDONLY | O_CLOEXEC);
    assert_ok(fingerprint_fd(fd, sizeof(bytes), fingerprint, &err), err);
    close(fd);
    assert_ok(copy("tape.wav", fingerprint, &out, &err), err);
    assert_int_equal(out.len, sizeof(bytes));
    assert_memory_equal(out.data, bytes, sizeof(bytes));
    hash_of(bytes, sizeof(bytes), whole);
    assert_ok(copy("tape.wav", whole, &out, &err), err);
    /* Where no fingerprint looks: its hash is known. */
    assert_ok(copy_of("tape.wav", fingerprint, whole, &out, &err), err);
    bytes[20000] ^= 1;
    file_write("tape.wav", bytes, sizeof(bytes));
    assert_int_equal(copy_of("tape.wav", fingerprint, whole, &out, &err), ERR_CHANGED);
    bytes[20000] ^= 1;
    bytes[0] ^= 1;
    file_write("tape.wav", bytes, sizeof(bytes));
    assert_int_equal(copy("tape.wav", fingerprint, &out, &err), ERR_CHANGED);
    assert_says(err.msg, "not the file any more that was transcribed");
    bytes[0] ^= 1;
    file_write("tape.wav", bytes, sizeof(bytes) - 1);
    assert_int_equal(copy("tape.wav", fingerprint, &out, &err), ERR_CHANGED);
    assert_int_equal(copy(".", fingerprint, &out, &err), ERR_CHANGED);
    assert_int_equal(mkfifo("pipe", 0666), 0);
    assert_int_equal(copy("pipe", fingerprint, &out, &err), ERR_CHANGED);
    assert_int_equal(out.len, 0);
    assert_int_equal(copy("gone.wav", fingerprint, &out, &err), ERR_MISSING);
    unlink("pipe");
    buf_free(&out);
}

/* The waveform of a member, or of a file where there is none. */
static int hear(struct listen_archive *a, const char *path, const char *member,
                const uint8_t *fingerprint, struct buf *svg, struct err *err)
{
    const struct read_origin origin = {.path_raw = path,
                                       .path_raw_len = strlen(path),
                                       .member_raw = member,
                                       .member_raw_len = strlen(member),
                                       .present = true,
                                       .fingerprint = fingerprint};

    buf_clear(svg);
    return listen_to(a, &origin, svg, NULL, NULL, err);
}

/* Recordings of an archive one after the other are one reading of it; in any order they sound as
 * they do by themselves. */
TEST(an_archive_is_read_on)
{
    static const char *const names[] = {"t0.wav", "t1.wav", "t2.wav"};
    static const char *const kinds[][2] = {{"t.tgz", "tar czf t.tgz t0.wav t1.wav t2.wav"},
                                           {"t.tar", "tar cf t.tar t0.wav t1.wav t2.wav"}};
    struct buf plain[3] = {BUF_INIT, BUF_INIT, BUF_INIT}, svg = BUF_INIT;
    struct listen_archive none = {0};
    struct err err = {0};

    need_tools("tar gzip");
    for (int i = 0; i < 3; i++) {
        write_tone(names[i], 8000 + 4000 * i, 0.5 + i);
        sh("head -c %d /dev/zero >>%s", 8000 * i, names[i]);
    }
    for (size_t k = 0; k < 2; k++) {
        static const int order[] = {0, 2, 1, 2};
        struct listen_archive a = {0};
        const struct unpacker *first = NULL;
        struct outcome listed;

        sh("rm -f %s; %s", kinds[k][0], kinds[k][1]);
        listed = list_path(kinds[k][0], NULL);
        assert_int_equal(listed.entry_count, 3);
        for (size_t i = 0; i < 4; i++) {
            const struct decoder_entry *e = &listed.entries[order[i]];

            assert_ok(hear(&none, e->member, "", e->fingerprint, &plain[order[i]], &err), err);
            assert_ok(hear(&a, kinds[k][0], e->member, e->fingerprint, &svg, &err), err);
            assert_int_equal(svg.len, plain[order[i]].len);
            assert_memory_equal(svg.data, plain[order[i]].data, svg.len);
            if (i == 0)
                first = a.unpacker;
            assert_true((a.unpacker != NULL) == (k == 0 && i != 2)); /* t1 was behind */
            assert_true(i != 1 || a.unpacker == first);
        }
        assert_int_equal(hear(&a, kinds[k][0], "t1.wav", listed.entries[0].fingerprint, &svg, &err),
                         ERR_CHANGED);
        listen_archive_close(&a);
        outcome_free(&listed);
    }
    assert_null(none.unpacker);
    for (int i = 0; i < 3; i++)
        buf_free(&plain[i]);
    buf_free(&svg);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        return decoder_main(argc, argv);
    return suite_run(NULL, NULL);
}
