#include "tests/unit/workers/files.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/common/test.h"

char *files_path(const char *name)
{
    char dir[2048], path[4096];

    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return strdup(path);
}

char *files_sample(const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "tests/samples/%s", name);
    return strdup(test_source_path(rel));
}

static void write_all(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

char *files_model(void)
{
    static const char *const files[] = {"config.json", "classes.csv", "tokenizer.json",
                                        "model.safetensors"};
    char *dir = files_path("model"), path[4200];

    mkdir(dir, 0777);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
        write_all(path, "{}", 2);
    }
    return dir;
}

char *files_wav(const char *name, const int16_t *pcm, uint32_t n)
{
    return files_wav_of(name, pcm, n, 1);
}

char *files_wav_of(const char *name, const int16_t *pcm, uint32_t frames, uint16_t channels)
{
    uint32_t n = frames * channels;
    char *path = files_path(name);
    struct buf b = BUF_INIT;

    buf_put(&b, "RIFF", 4);
    buf_put_u32(&b, 36 + 2 * n);
    buf_put(&b, "WAVEfmt ", 8);
    buf_put_u32(&b, 16);
    buf_put_u16(&b, 1);
    buf_put_u16(&b, channels);
    buf_put_u32(&b, 16000);
    buf_put_u32(&b, 32000u * channels);
    buf_put_u16(&b, (uint16_t)(2 * channels));
    buf_put_u16(&b, 16);
    buf_put(&b, "data", 4);
    buf_put_u32(&b, 2 * n);
    for (uint32_t i = 0; i < n; i++)
        buf_put_u16(&b, (uint16_t)pcm[i]);
    assert_false(b.failed);
    write_all(path, b.data, b.len);
    buf_free(&b);
    return path;
}
