/* FFmpeg is opened when it is wanted, and not before: whoever does not decode does not wait for its
 * libraries. */
#include <stdio.h>
#include <string.h>

#include "tests/common/test.h"
#include "workers/media/ffmpeg.h"

static bool is_loaded(const char *library)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[4096];
    bool found = false;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        found |= strstr(line, library) != NULL;
    fclose(f);
    return found;
}

static void comes_when_opened(void **state)
{
    struct err err = {0};

    (void)state;
    assert_false(is_loaded("libavformat"));
    assert_false(is_loaded("libavcodec"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, ffmpeg_open(&err));
        assert_true(is_loaded("libavformat"));
        assert_true(is_loaded("libavcodec"));
    }
    assert_int_equal(12, av_rescale_q(3, (AVRational){4, 1}, (AVRational){1, 1}));
    assert_non_null(avcodec_find_decoder(AV_CODEC_ID_MP3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_when_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
