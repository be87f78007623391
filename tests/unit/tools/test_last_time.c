/* What an enqueue compares with last time: paths, and stages in words. */
#include "tests/common/test.h"

#include "base/buf.h"
#include "tools/enqueue/path_list.h"
#include "tools/enqueue/stages/stage_differ.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/transcribe/transcribe_params.h"

/* In the order of bytes: '-' and '.' come before '/'. */
static const struct {
    const char *path;
    int other;
} list[] = {{"/a", 0}, {"/a-b", 0}, {"/a.b/c", 0}, {"/a/b", 0}, {"/a/b/c/d", 0}, {"/b", 0}};
static const char *const root[] = {"/"};

static const char *of(const void *element)
{
    return element ? *(const char *const *)element : "none";
}

TEST(the_nearest_at_or_above)
{
    static const struct {
        const char *path, *nearest;
    } cases[] = {{"/a", "/a"},
                 {"/a/", "/a"},
                 {"/a/x", "/a"},
                 {"/a/b", "/a/b"},
                 {"/a/bc", "/a"},
                 {"/a/b/c", "/a/b"},
                 {"/a/b/c/d/e/f", "/a/b/c/d"},
                 {"/a-b/c", "/a-b"},
                 {"/a-", "none"},
                 {"/a.b", "none"},
                 {"/a.b/c/d", "/a.b/c"},
                 {"/", "none"},
                 {"/c", "none"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path = cases[i].path;
        const size_t n = strlen(path);

        assert_string_equal(of(paths_nearest(PATHS_OF(list, 6), path, n)), cases[i].nearest);
        assert_string_equal(of(paths_nearest(PATHS_OF(root, 1), path, n)), "/");
        assert_null(paths_nearest(PATHS_OF(list, 0), path, n));
    }
}

TEST(the_first_below)
{
    static const struct {
        const char *path, *below;
    } cases[] = {{"/", "/a"},          {"/a", "/a/b"},   {"/a.b", "/a.b/c"}, {"/a/b", "/a/b/c/d"},
                 {"/a/b/c/d", "none"}, {"/a-b", "none"}, {"/b", "none"},     {"/a/b/c", "/a/b/c/d"},
                 {"/A", "none"},       {"/c", "none"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(
            of(paths_below(PATHS_OF(list, 6), cases[i].path, strlen(cases[i].path))),
            cases[i].below);
    assert_null(paths_below(PATHS_OF(root, 1), "/", 1));
    assert_int_equal(paths_above("/a/b", 4), 2);
    assert_int_equal(paths_above("/a", 2), 1);
    assert_int_equal(paths_above("/", 1), 0);
}

/* ------------------------------------------------------------------------------- in words */

static void differ(const struct store_stage *was, const struct store_stage *now, const char *words)
{
    struct buf b = BUF_INIT;

    stage_differ(was, now, &b);
    assert_string_equal(b.len ? buf_cstr(&b) : "", words);
    buf_free(&b);
}

static struct store_stage transcription(struct transcribe_params *p, char **json)
{
    struct err e = {0};

    assert_ok(transcribe_params_to_json(p, json, &e), e);
    return (struct store_stage){"transcribe", "small", "/m", "aa", *json, NULL};
}

/* Of the defaults, and of these with some parameters set. */
#define PARAMS(words, set)             \
    do {                               \
        struct transcribe_params p;    \
        char *one = NULL, *two = NULL; \
        struct store_stage was, now;   \
                                       \
        transcribe_params_default(&p); \
        was = transcription(&p, &one); \
        set;                           \
        now = transcription(&p, &two); \
        differ(&was, &now, words);     \
        differ(&now, &now, "");        \
        free(one);                     \
        free(two);                     \
    } while (0)

static void set_vad(struct transcribe_params *p, const char *hash)
{
    strcpy(p->vad_model, "silero-vad");
    strcpy(p->vad_hash, hash);
}

TEST(parameters_that_differ)
{
    PARAMS("beam_size 5 instead of 1", p.beam_size = 5);
    PARAMS("language 'es' instead of none", strcpy(p.language, "es"));
    PARAMS("beam_size 2 instead of 1, word_timestamps on",
           (p.beam_size = 2, p.word_timestamps = true));
    PARAMS("voice activity on", set_vad(&p, "0123456789abcdef0123456789abcdef"));
    PARAMS("temperatures 0.25 instead of 0,0.2,0.4,0.6,0.8,1",
           (p.temperatures[0] = 0.25f, p.temperature_count = 1));
    PARAMS("no_speech_threshold 0.55 instead of 0.6", p.no_speech_threshold = 0.55f);
    PARAMS("initial_prompt 'A very ...so many pages.' instead of none",
           strcpy(p.initial_prompt, "A very long story of so many pages."));
}

TEST(what_is_named_by_a_hash)
{
    struct transcribe_params p;
    char *one = NULL, *two = NULL, *off = NULL;
    struct store_stage was, now, without;
    struct store_stage text = {"embed-text", "e5", "/e", "ee", "{\"source\":\"aa/bb\"}", NULL};
    struct store_stage other = text, unknown = {"smells", "nose", "/n", "nn", "{}", NULL};

    transcribe_params_default(&p);
    without = transcription(&p, &off);
    set_vad(&p, "0123456789abcdef0123456789abcdef");
    was = transcription(&p, &one);
    set_vad(&p, "fedcba9876543210fedcba9876543210");
    now = transcription(&p, &two);
    differ(&was, &now, "another voice activity model");
    differ(&was, &without, "voice activity off");
    now.model_hash = "bb";
    now.params_json = was.params_json;
    differ(&was, &now, "the files of the model small have changed");
    now.model = "large";
    differ(&was, &now, "model large instead of small");
    now.params_json = without.params_json;
    differ(&was, &now, "model large instead of small, voice activity off");
    other.params_json = "{\"source\":\"aa/cc\"}";
    differ(&text, &other, "of another transcription");
    other = unknown;
    other.params_json = "{\"nostrils\":3}";
    differ(&unknown, &other, "its parameters");
    was.params_json = "{\"of a later version\":1}";
    differ(&was, &without, "other parameters");
    free(one);
    free(two);
    free(off);
}

TEST_MAIN(NULL, NULL)
