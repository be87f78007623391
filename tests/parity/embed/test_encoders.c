/* Sentence encoders against Hugging Face transformers: BERT and XLM-RoBERTa with made-up weights.
 * make_fixtures.py says what the files hold. Also: a vector does not depend on its company. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/common/files.h"
#include "tests/parity/embed/model.h"
#include "workers/models/bert/bert.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/files/weights.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/tokenizer.h"

#define TEXTS 27
#define STEP 3 /* of the lines of sentences.txt */
#define LINE_BYTES 1024

static char lines[TEXTS][LINE_BYTES];
static const char *texts[TEXTS];

static void read_texts(void)
{
    FILE *f = fopen(test_source_path("tests/parity/embed/sentences.txt"), "r");
    static char line[LINE_BYTES];

    assert_non_null(f);
    for (int i = 0; i < TEXTS * STEP && fgets(line, sizeof(line), f); i++) {
        line[strcspn(line, "\n")] = 0;
        if (i % STEP == 0) {
            memcpy(lines[i / STEP], line, sizeof(line));
            texts[i / STEP] = lines[i / STEP];
        }
    }
    assert_non_null(texts[TEXTS - 1]);
    fclose(f);
}

/* Largest difference in units of want's root mean square. */
static double relative(const float *got, const float *want, size_t n)
{
    double worst = 0, square = 0;

    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(got[i]));
        worst = distance_larger(worst, fabs((double)got[i] - (double)want[i]));
        square += (double)want[i] * (double)want[i];
    }
    return worst / sqrt(square / (double)n);
}

static void check_hidden(const struct encoder_shape *shape, const char *dir, struct backend *be)
{
    struct tokenizer *t = NULL;
    struct weights *w = NULL;
    struct bert_config config;
    struct bert *b = NULL;
    struct tensor hidden;
    struct err e = {0};
    json_t *json = NULL;
    int32_t *ids;
    size_t n;

    assert_ok(json_file_read(dir, "config.json", &json, &e), e);
    assert_ok(bert_config_read(json, &config, &e), e);
    json_decref(json);
    assert_ok(tokenizer_load(dir, &t, &e), e);
    assert_ok(weights_open(dir, &w, &e), e);
    assert_ok(bert_load(w, "", &config, be, PRECISION_F32, 0, &b, &e), e);
    weights_close(w);
    assert_ok(tokenizer_encode(t, texts[0], strlen(texts[0]), 64, &ids, &n, &e), e);
    {
        uint32_t at[2] = {0, (uint32_t)n};
        float *want =
            file_floats(n * ENCODER_HIDDEN, "tests/parity/embed/%s.hidden.f32", shape->name);
        float *got = malloc(n * ENCODER_HIDDEN * sizeof(*got));
        double differs;

        assert_ok(bert_run(b, (struct spans){at, 1}, ids, &hidden, &e), e);
        assert_ok(be->ops->get(be, got, hidden, &e), e);
        differs = relative(got, want, n * ENCODER_HIDDEN);
        print_message("%s: hidden states differ by %.2g of their root mean square\n", shape->name,
                      differs);
        assert_true(differs < 1e-5);
        free(want);
        free(got);
    }
    ids[0] = (int32_t)config.vocab;
    assert_int_equal(bert_run(b, (struct spans){(uint32_t[]){0, 2}, 1}, ids, &hidden, &e),
                     ERR_MODEL);
    assert_int_equal(bert_run(b, (struct spans){(uint32_t[]){0, 0}, 1}, ids, &hidden, &e),
                     ERR_MODEL);
    free(ids);
    tokenizer_free(t);
    bert_free(b);
}

/* got: [TEXTS][ENCODER_HIDDEN]. */
static struct embedder *compare_vectors(const char *dir, struct backend *be,
                                        enum precision precision, const char *fixture, double most,
                                        float *got)
{
    float *want =
        file_floats((size_t)TEXTS * ENCODER_HIDDEN, "tests/parity/embed/%s.vectors.f32", fixture);
    struct embedder *m = NULL;
    struct err e = {0};
    double differs;

    assert_ok(embedder_load(dir, be, precision, &m, &e), e);
    assert_int_equal(embedder_size(m), ENCODER_HIDDEN);
    assert_int_equal(embedder_max_tokens(m), 64);
    assert_ok(embedder_run(m, texts, TEXTS, EMBED_PASSAGE, got, &e), e);
    differs = relative(got, want, (size_t)TEXTS * ENCODER_HIDDEN);
    print_message("%s, %s%s: vectors differ by %.2g of their root mean square\n", fixture,
                  precision_name(precision), be->info.wide_batches ? ", many at once" : "",
                  differs);
    assert_true(differs < most);
    free(want);
    return m;
}

static void check_vectors(const char *dir, struct backend *be, enum precision precision,
                          const char *fixture, double most)
{
    float *got = malloc((size_t)TEXTS * ENCODER_HIDDEN * sizeof(*got));
    struct embedder *m = compare_vectors(dir, be, precision, fixture, most, got);
    struct err e = {0};

    for (int i = 0; i < TEXTS; i++) { /* alone, the same bit for bit */
        float alone[ENCODER_HIDDEN];

        assert_ok(embedder_run(m, &texts[i], 1, EMBED_PASSAGE, alone, &e), e);
        assert_memory_equal(alone, got + i * ENCODER_HIDDEN, sizeof(alone));
    }
    embedder_free(m);
    free(got);
}

/* As a GPU takes them: the texts of a batch as one matrix, each with its own attention and
 * positions. Sums come in another order than one by one, so the bits may differ. */
static void check_many_at_once(const char *dir, struct backend *be, enum precision precision,
                               const char *fixture, double most)
{
    const struct backend_info usual = be->info;
    float *got = malloc((size_t)TEXTS * ENCODER_HIDDEN * sizeof(*got));

    be->info.wide_batches = true;
    be->info.deterministic = false;
    embedder_free(compare_vectors(dir, be, precision, fixture, most, got));
    be->info = usual;
    free(got);
}

static void test_parity(void **state)
{
    const struct encoder_shape *shape = *state;
    char dir[] = "encoder-XXXXXX";
    struct backend *be = NULL;
    struct err e = {0};

    encoder_folder(shape, dir);
    assert_ok(backend_open_host(0, &be, &e), e);
    check_hidden(shape, dir, be);
    check_vectors(dir, be, PRECISION_F32, shape->name, 1e-5);
    check_many_at_once(dir, be, PRECISION_F32, shape->name, 1e-5);
    if (be->info.have & 1u << PRECISION_BF16) {
        check_vectors(dir, be, PRECISION_BF16, shape->name, 0.1);
        check_many_at_once(dir, be, PRECISION_BF16, shape->name, 0.1);
    }
    if (shape == &encoder_bert) {
        encoder_file(dir, "modules.json",
                     "[{\"idx\":0,\"path\":\"\",\"type\":\"sentence_transformers.models."
                     "Transformer\"},{\"idx\":1,\"path\":\"1_Pooling\",\"type\":"
                     "\"sentence_transformers.models.Pooling\"},{\"idx\":2,\"path\":"
                     "\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]");
        encoder_file(dir, "1_Pooling/config.json",
                     "{\"word_embedding_dimension\":48,\"pooling_mode_cls_token\":true,"
                     "\"pooling_mode_mean_tokens\":false}");
        check_vectors(dir, be, PRECISION_F32, "cls", 1e-5);
        check_many_at_once(dir, be, PRECISION_F32, "cls", 1e-5);
    }
    backend_close(be);
    encoder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"bert", test_parity, NULL, NULL, (void *)(uintptr_t)&encoder_bert},
        {"xlmr", test_parity, NULL, NULL, (void *)(uintptr_t)&encoder_xlmr},
    };

    read_texts();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
