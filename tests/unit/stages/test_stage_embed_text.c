/* The stage of passages: those that the model cannot read whole are read in pieces. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/parity/embed/model.h"
#include "workers/models/bert/embedder.h"
#include "workers/stages/stage_embed_text.h"
#include "workers/stages/stage.h"

#define MOST 12u /* tokens, of which two are special ones */
#define SHORT "the archive"
#define LONG                                                                                      \
    "the archive of the south was heard again by the people of the old market and the end of it " \
    "is "
#define LETTERS \
    "\u6e2f\u53e3\u7684\u8001\u5e02\u573a\u5728\u5357\u8fb9\u7684\u57ce\u5e02\u91cc\u5f88\u4e45"

static struct backend *be;
static char dir[32];

static int setup(void **state)
{
    struct err e = {0};

    (void)state;
    snprintf(dir, sizeof(dir), "reading-XXXXXX");
    encoder_folder(&encoder_bert, dir);
    encoder_file(dir, "sentence_bert_config.json", "{\"max_seq_length\":12}");
    return backend_open_host(1, &be, &e);
}

static int teardown(void **state)
{
    (void)state;
    backend_close(be);
    encoder_remove(dir);
    return 0;
}

static struct embedder *load(void)
{
    struct embedder *m = NULL;
    struct err e = {0};

    assert_ok(embedder_load(dir, be, PRECISION_F32, &m, &e), e);
    assert_int_equal(embedder_max_tokens(m), MOST);
    return m;
}

static int64_t no_audio(void *arg)
{
    (void)arg;
    return 16000;
}

struct told {
    uint32_t n;
    float v[8][ENCODER_HIDDEN];
};

static void on_done(void *arg, const struct stage_result *r, const struct err *err)
{
    struct told *told = arg;

    assert_non_null(r);
    assert_null(err);
    assert_int_equal(r->vector_size, ENCODER_HIDDEN);
    told->n = r->vector_count;
    for (uint32_t i = 0; i < r->vector_count; i++)
        memcpy(told->v[i], r->vectors[i].values, sizeof(told->v[i]));
}

/* The stage's vectors of n texts, `windows` pieces in a call. */
static struct told read_all(const char *const *texts, uint32_t n, uint32_t windows)
{
    const struct stage_setup how = {.name = "embed-text",
                                    .dir = dir,
                                    .params = "{}",
                                    .precision = PRECISION_F32,
                                    .windows = windows};
    struct result_passage p[8] = {0};
    struct stage_work work = {.end = no_audio, .language = "", .passages = p, .passage_count = n};
    struct stage_lane *lane = NULL;
    struct stage *s = NULL;
    struct told told = {0};
    struct err e = {0};
    bool progress = true;

    for (uint32_t i = 0; i < n; i++)
        p[i].text = texts[i];
    assert_ok(stage_open(&how, be, &s, &e), e);
    assert_ok(stage_add(s, &work, on_done, &told, &lane, &e), e);
    while (progress)
        assert_ok(stage_step(s, &progress, &e), e);
    stage_close(s);
    assert_int_equal(told.n, n);
    return told;
}

static double cosine(const float *a, const float *b)
{
    double sum = 0;

    for (int i = 0; i < ENCODER_HIDDEN; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Nothing of a text is lost, and the model reads all of each piece. */
static void check_pieces(const struct embedder *m, const char *text, uint32_t least)
{
    struct pieces p = {0};
    struct err e = {0};
    char all[512] = "";
    uint32_t tokens;

    assert_ok(pieces_add(&p, m, "before", 4, &e), e);
    assert_ok(pieces_add(&p, m, text, 7, &e), e);
    assert_true(p.n >= 1 + least);
    assert_int_equal(p.of[0], 4);
    for (uint32_t i = 1; i < p.n; i++) {
        assert_int_equal(p.of[i], 7);
        assert_ok(embedder_count(m, p.text[i], &tokens, &e), e);
        assert_true(tokens <= MOST);
        strcat(all, p.text[i]);
    }
    assert_string_equal(all, text);
    pieces_free(&p);
}

TEST(a_passage_is_cut_where_it_must_be)
{
    struct embedder *m = load();

    check_pieces(m, SHORT, 1);
    check_pieces(m, "", 1);
    check_pieces(m, LONG "here", 2);
    check_pieces(m, LETTERS, 2);
    check_pieces(m, LETTERS LETTERS " " LETTERS, 4);
    check_pieces(m, "qxzqxzqxzqxzqxzqxzqxzqxzqxzqxzqxzqxzqxz", 1);
    embedder_free(m);
}

/* Pieces of LONG with something before each. */
static uint32_t pieces_with(const char *prompts)
{
    struct pieces p = {0};
    struct err e = {0};
    struct embedder *m;
    uint32_t n;

    encoder_file(dir, "config_sentence_transformers.json", prompts);
    m = load();
    assert_ok(pieces_add(&p, m, LONG "here", 0, &e), e);
    n = p.n;
    pieces_free(&p);
    embedder_free(m);
    encoder_file(dir, "config_sentence_transformers.json", NULL);
    return n;
}

TEST(a_prefix_takes_its_place)
{
    uint32_t none = pieces_with("{\"prompts\":{\"query\":\"\",\"passage\":\"\"}}");
    uint32_t some = pieces_with("{\"prompts\":{\"query\":\"\",\"passage\":\"the the the the \"}}");
    uint32_t all =
        pieces_with("{\"prompts\":{\"query\":\"\",\"passage\":\"the the the the the the the "
                    "the the the the the the the the the the \"}}");

    assert_true(some > none);
    assert_true(all >= some && all <= 16); /* not letter by letter */
}

TEST(a_long_passage_is_read_to_its_end)
{
    static const char *const texts[] = {SHORT, LONG "here", LONG "late", LETTERS "\u6e2f",
                                        LETTERS "\u573a"};
    struct told told = read_all(texts, 5, 0), one = read_all(texts, 5, 1);
    float v[ENCODER_HIDDEN];
    struct embedder *m = load();
    struct err e = {0};

    assert_memory_equal(&told, &one, sizeof(told)); /* whatever a call took */
    assert_ok(embedder_run(m, texts, 1, EMBED_PASSAGE, v, &e), e);
    assert_memory_equal(told.v[0], v, sizeof(v));
    for (uint32_t i = 0; i < 5; i++)
        assert_true(fabs(cosine(told.v[i], told.v[i]) - 1) < 1e-5);
    /* Only their last words differ, which the model does not read in one piece. */
    assert_true(cosine(told.v[1], told.v[2]) < 0.99999);
    assert_true(cosine(told.v[3], told.v[4]) < 0.99999);
    embedder_free(m);
}

TEST_MAIN(setup, teardown)
