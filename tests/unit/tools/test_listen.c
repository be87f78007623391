/* What browsers play as it lies, by the names that the catalog has for containers and codecs. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "tests/common/test.h"

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

static int copy(const char *path, const uint8_t *fingerprint, struct buf *out, struct err *err)
{
    const struct read_origin origin = {
        .path_raw = path, .path_raw_len = strlen(path), .fingerprint = fingerprint};

    buf_clear(out);
    return listen_copy(&origin, put, out, err);
}

/* What was transcribed, or nothing. */
TEST(a_copy_is_what_was_transcribed)
{
    static char bytes[400000]; /* more than its fingerprint looks at */
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint8_t fingerprint[16];
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

TEST_MAIN(NULL, NULL)
