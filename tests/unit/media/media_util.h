/* tests/unit/media/media_util.h - inputs made by the tools of the trade, and decoders run to their
 * end. Programs that use it start with MEDIA_TEST_MAIN, since they are their own decoder. */
#ifndef NIGHTSHIFT_TESTS_MEDIA_UTIL_H
#define NIGHTSHIFT_TESTS_MEDIA_UTIL_H

#include <stdbool.h>

#include "tests/common/test.h"
#include "workers/media/decoder.h"

#define MEDIA_TEST_MAIN(tests)                             \
    int main(int argc, char **argv)                        \
    {                                                      \
        if (argc > 1 && strcmp(argv[1], "decoder") == 0) { \
            return decoder_main(argc, argv);               \
        }                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);  \
    }

/* Runs a shell command; fails the test when it fails. Output goes to command.log. */
void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Skips the running test, saying so, unless every program of the list ("ffmpeg zip") is there. */
#define need_tools(list)                                \
    do {                                                \
        if (!have_tools(list)) {                        \
            print_message("skipped: needs %s\n", list); \
            skip();                                     \
        }                                               \
    } while (0)
bool have_tools(const char *list);
bool have_file(const char *path);

/* Everything that one decoder said. */
struct outcome {
    int rc; /* 0, or the error's code */
    struct err err;
    bool has_info, has_end;
    bool told_again;          /* the info, at the end */
    struct decoder_info info; /* its tags are owned, its sources are in labels */
    char labels[RESULT_SOURCES_MAX][RESULT_SOURCE_LABEL_MAX + 1];
    struct decoder_end end; /* end.damage points to damage, end.channels is NULL */
    char damage[1024];
    struct result_channel channels[RESULT_CHANNELS_MAX];
    int16_t *pcm; /* samples of each source, interleaved */
    size_t samples;
    int64_t first_sample;          /* of pcm[0]; -1: none */
    struct decoder_entry *entries; /* members and messages are owned */
    size_t entry_count;
};

struct ask {
    const char *member;
    uint32_t nth;
    int64_t skip_samples;
    bool want_hash;
    const uint8_t *fingerprint;
    struct hearing hearing;
    struct decoder_limits limits;
    bool discard; /* do not keep the samples, count them */
};

struct outcome decode_path(const char *path, const struct ask *ask); /* ask NULL: plain */
struct outcome list_path(const char *path, const struct decoder_limits *limits);
void outcome_free(struct outcome *o);

/* The value of the first tag of this source and key, or NULL. */
const char *tag_of(const struct outcome *o, const char *source, const char *key);

/* The entry of that name, or NULL. */
const struct decoder_entry *entry_of(const struct outcome *o, const char *member);

/* How many ms of sound the account has for a channel; -1: it was not decoded. Asserts that there is
 * a row, whether it says "heard". */
int64_t sound_of(const struct outcome *o, uint32_t track, uint32_t channel, bool heard);

/* Asserts that it failed with this code and that its sentence holds these words. */
void assert_sentence(const struct outcome *o, int code, const char *words);

/* The file's content; free it. */
uint8_t *slurp(const char *path, size_t *len);

/* A small recording: `seconds` of a tone, mono, signed 16 bit, in a WAV file. */
void write_tone(const char *path, int rate_hz, double seconds);

#endif
