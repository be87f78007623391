/* What browsers play as it lies, by the names that the catalog has for containers and codecs. */
#include "tests/common/test.h"

#include "tools/export/html/listen.h"

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

TEST_MAIN(NULL, NULL)
