/* Sentence encoders: what a folder's files decide, and files that cannot be. The vectors themselves
 * are held against transformers in tests/parity/embed. */
#include "tests/common/test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/parity/embed/model.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/files/model_dir.h"

#define MODULES "modules.json"
#define POOLING "1_Pooling/config.json"
#define LIMITS "sentence_bert_config.json"
#define PROMPTS "config_sentence_transformers.json"
#define TYPE "sentence_transformers.models."
#define TRANSFORMER "{\"path\":\"\",\"type\":\"" TYPE "Transformer\"}"
#define POOL "{\"path\":\"1_Pooling\",\"type\":\"" TYPE "Pooling\"}"

static struct backend *be;
static char dir[32];

static int setup(void **state)
{
    struct err e = {0};

    (void)state;
    snprintf(dir, sizeof(dir), "embedder-XXXXXX");
    encoder_folder(&encoder_bert, dir);
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
    return m;
}

static void refused(const char *says)
{
    struct embedder *m = NULL;
    struct err e = {0};

    assert_int_equal(embedder_load(dir, be, PRECISION_F32, &m, &e), ERR_MODEL);
    assert_null(m);
    assert_says(e.msg, says);
}

static void refused_with(const char *name, const char *text, const char *says)
{
    encoder_file(dir, name, text);
    refused(says);
}

/* The vector of one text. */
static void vector_of(const struct embedder *m, const char *text, enum embed_as as,
                      float v[ENCODER_HIDDEN])
{
    struct err e = {0};

    assert_ok(embedder_run((struct embedder *)(uintptr_t)m, &text, 1, as, v, &e), e);
}

static double distance(const float *a, const float *b)
{
    double worst = 0;

    for (int i = 0; i < ENCODER_HIDDEN; i++)
        worst = distance_larger(worst, fabs((double)a[i] - (double)b[i]));
    return worst;
}

TEST_BOTH(test_pooling, setup, teardown)
{
    static const char *const same[] = {"{\"pooling_mode_mean_tokens\":true}",
                                       "{\"pooling_mode_mean_sqrt_len_tokens\":true}",
                                       "{\"pooling_mode\":\"mean\"}"};
    static const char *const other[] = {"{\"pooling_mode_cls_token\":true}",
                                        "{\"pooling_mode_max_tokens\":true}",
                                        "{\"pooling_mode\":\"cls\"}"};
    float plain[ENCODER_HIDDEN], v[ENCODER_HIDDEN];
    struct embedder *m = load();

    vector_of(m, "the archive", EMBED_PASSAGE, plain);
    embedder_free(m);
    encoder_file(dir, MODULES, "[" TRANSFORMER "," POOL "]");
    for (int i = 0; i < 6; i++) {
        encoder_file(dir, POOLING, i < 3 ? same[i] : other[i - 3]);
        m = load();
        vector_of(m, "the archive", EMBED_PASSAGE, v);
        assert_true(i < 3 ? distance(v, plain) < 1e-6 : distance(v, plain) > 0.01);
        embedder_free(m);
    }
}

/* The prefix and the text are one text. */
static void check_prefix(const char *text, enum embed_as as, const char *prefix)
{
    float with[ENCODER_HIDDEN], written[ENCODER_HIDDEN];
    struct embedder *m = load(), *plain;
    char both[256];

    assert_string_equal(embedder_prefix(m, as), prefix);
    vector_of(m, text, as, with);
    embedder_free(m);
    snprintf(both, sizeof(both), "%s%s", prefix, text);
    encoder_file(dir, PROMPTS, "{\"prompts\":{\"query\":\"\",\"passage\":\"\"}}");
    plain = load();
    vector_of(plain, both, as, written);
    embedder_free(plain);
    encoder_file(dir, PROMPTS, NULL);
    assert_memory_equal(with, written, sizeof(with));
}

#define NAMED(name)                                                                           \
    "{\"model_type\":\"bert\",\"vocab_size\":900,\"hidden_size\":48,\"num_hidden_layers\":3," \
    "\"num_attention_heads\":3,\"intermediate_size\":96,\"max_position_embeddings\":64,"      \
    "\"_name_or_path\":\"" name "\"}"

TEST_BOTH(test_prefixes, setup, teardown)
{
    check_prefix("the bridge", EMBED_QUERY, "");
    encoder_file(dir, PROMPTS, "{\"prompts\":{\"query\":\"find: \",\"document\":\"text: \"}}");
    check_prefix("the bridge", EMBED_QUERY, "find: ");
    encoder_file(dir, PROMPTS, "{\"prompts\":{\"query\":\"find: \",\"document\":\"text: \"}}");
    check_prefix("the bridge", EMBED_PASSAGE, "text: ");
    encoder_file(dir, PROMPTS, "{\"prompts\":{\"x\":\"all: \"},\"default_prompt_name\":\"x\"}");
    check_prefix("the bridge", EMBED_PASSAGE, "all: ");
    encoder_file(dir, "config.json", NAMED("intfloat/multilingual-e5-large-instruct"));
    check_prefix("the bridge", EMBED_QUERY, "");
    check_prefix("the bridge", EMBED_PASSAGE, "");
    encoder_file(dir, "config.json", NAMED("intfloat/multilingual-e5-small"));
    check_prefix("the bridge", EMBED_QUERY, "query: ");
    check_prefix("the bridge", EMBED_PASSAGE, "passage: ");
}

/* A model that lies in the Hugging Face cache is known by its repository's name. */
TEST_BOTH(test_folder_name, setup, teardown)
{
    char top[] = "cache-XXXXXX", path[128], here[128];
    struct embedder *m;
    struct err e = {0};

    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/models--intfloat--e5-small", top);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/models--intfloat--e5-small/snapshots", top);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(here, sizeof(here), "%s/0abc", path);
    assert_int_equal(rename(dir, here), 0);
    assert_ok(embedder_load(here, be, PRECISION_F32, &m, &e), e);
    assert_string_equal(embedder_prefix(m, EMBED_QUERY), "query: ");
    embedder_free(m);
    assert_int_equal(rename(here, dir), 0);
    rmdir(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(top);
}

TEST_BOTH(test_texts, setup, teardown)
{
    static const char *const texts[] = {"a b", "", "   ", "\n\t", "  a b \n"};
    float v[5][ENCODER_HIDDEN];
    struct embedder *m;
    struct err e = {0};
    uint32_t n;

    encoder_file(dir, LIMITS, "{\"max_seq_length\":5,\"do_lower_case\":true}");
    m = load();
    assert_int_equal(embedder_max_tokens(m), 5);
    assert_ok(embedder_run(m, texts, 5, EMBED_PASSAGE, &v[0][0], &e), e);
    assert_memory_equal(v[1], v[2], sizeof(v[1]));
    assert_memory_equal(v[1], v[3], sizeof(v[1]));
    assert_memory_equal(v[0], v[4], sizeof(v[0]));
    assert_true(distance(v[0], v[1]) > 0.01);
    assert_ok(embedder_count(m, "", &n, &e), e);
    assert_int_equal(n, 2);
    assert_ok(embedder_count(m, "a b a b a b a b a b", &n, &e), e);
    assert_int_equal(n, 12);
    vector_of(m, "a b a b a b a", EMBED_PASSAGE, v[0]);
    vector_of(m, "a b a", EMBED_PASSAGE, v[1]);
    assert_memory_equal(v[0], v[1], sizeof(v[0]));
    assert_ok(embedder_run(m, texts, 0, EMBED_PASSAGE, &v[0][0], &e), e);
    assert_true(embedder_predict_bytes(m, 1000) > embedder_predict_bytes(m, 10));
    assert_int_equal(embedder_predict_bytes(m, 10), embedder_predict_bytes(m, 1));
    embedder_free(m);
    embedder_free(NULL);
}

/* The prediction is of what the backend counts; the host packs matrices in blocks of 16 columns and
 * more, which a network as small as this one shows. */
TEST_BOTH(test_bytes, setup, teardown)
{
    uint64_t before, took, predicted;
    struct embedder *m = load();

    embedder_free(m); /* the backend's own scratch is made now, and stays */
    before = be->allocated;
    m = load();
    took = be->allocated - before;
    predicted = embedder_predict_bytes(m, 64);
    assert_true(took >= predicted && took <= predicted * 5 / 4);
    embedder_free(m);
    assert_int_equal(be->allocated, before);
}

/* A device that gains by many tokens at once has room for them from the beginning, however few are
 * wanted. */
TEST_BOTH(test_bytes_of_wide_batches, setup, teardown)
{
    const bool wide = be->info.wide_batches;
    uint64_t before = be->allocated, took, predicted;
    struct embedder *m;

    be->info.wide_batches = true;
    m = load();
    be->info.wide_batches = wide;
    took = be->allocated - before;
    predicted = embedder_predict_bytes(m, 64);
    assert_true(predicted > 16384 * ENCODER_HIDDEN * sizeof(float));
    assert_true(took >= predicted && took <= predicted * 5 / 4);
    embedder_free(m);
}

/* Makes nothing of a tensor's values. */
static void clear_tensor(const char *name)
{
    char path[64], quoted[160];
    const char *at, *offsets;
    uint64_t header, from, end;
    struct stat st;
    char *file, *text;
    int fd;

    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    file = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    memcpy(&header, file, 8);
    text = strndup(file + 8, header);
    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    at = strstr(text, quoted);
    assert_non_null(at);
    offsets = strstr(at, "data_offsets");
    assert_non_null(offsets);
    offsets += strcspn(offsets, "0123456789");
    from = strtoull(offsets, NULL, 10);
    end = strtoull(strchr(offsets, ',') + 1, NULL, 10);
    assert_true(from < end && 8 + header + end <= (uint64_t)st.st_size);
    memset(file + 8 + header + from, 0, end - from);
    free(text);
    munmap(file, (size_t)st.st_size);
    close(fd);
}

/* It would be as near to any text as to any other, and nobody would know why. */
TEST_BOTH(test_zero_vector, setup, teardown)
{
    const char *text = "the archive";
    float v[ENCODER_HIDDEN];
    struct embedder *m;
    struct err e = {0};

    clear_tensor("encoder.layer.2.output.LayerNorm.weight");
    clear_tensor("encoder.layer.2.output.LayerNorm.bias");
    m = load();
    assert_int_equal(embedder_run(m, &text, 1, EMBED_PASSAGE, v, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "vector is zero"));
    embedder_free(m);
}

TEST_BOTH(test_refused, setup, teardown)
{
    refused_with(MODULES, "{}", "not a JSON list");
    refused_with(MODULES, "[]", "no Pooling");
    refused_with(MODULES, "[7]", "module 0");
    refused_with(MODULES, "[" TRANSFORMER "]", "no Pooling");
    refused_with(MODULES, "[" TRANSFORMER "," POOL ",{\"type\":\"" TYPE "Dense\"}]", "Dense");
    refused_with(MODULES, "[" TRANSFORMER ",{\"path\":\"../x\",\"type\":\"" TYPE "Pooling\"}]",
                 "../x");
    refused_with(MODULES, "[" TRANSFORMER "," POOL "]", "1_Pooling/config.json is missing");
    refused_with(POOLING, "{}", "pooling");
    refused_with(POOLING, "{\"pooling_mode_cls_token\":true,\"pooling_mode_max_tokens\":true}",
                 "pooling");
    refused_with(POOLING, "{\"pooling_mode_lasttoken\":true}", "pooling");
    refused_with(POOLING, "{\"pooling_mode\":\"odd\"}", "pooling");
    refused_with(POOLING, "{\"pooling_mode\":\"mean\",\"word_embedding_dimension\":7}", "7 values");
    refused_with(POOLING, "{\"pooling_mode\":\"mean\",\"include_prompt\":false}", "include_prompt");
    encoder_file(dir, MODULES, NULL);
    refused_with(LIMITS, "{\"max_seq_length\":\"many\"}", "max_seq_length");
    refused_with(LIMITS, "{\"max_seq_length\":2}", "max_seq_length");
    encoder_file(dir, LIMITS, NULL);
    refused_with(PROMPTS, "[", "config_sentence_transformers.json");
    encoder_file(dir, PROMPTS, NULL);
    refused_with("tokenizer.json", "{}", "tokenizer.json: model is missing");
    refused_with("tokenizer.json", "{\"model\":{\"vocab\":{\"[UNK]\":900}}}", "901 ids");
    refused_with("tokenizer.json", "{\"model\":{\"vocab\":{\"[UNK]\":0}}}", "no special tokens");
    encoder_file(dir, "tokenizer.json", NULL);
    refused("tokenizer.json is missing");
}

#define CONFIG(fields) "{\"model_type\":\"bert\",\"vocab_size\":900," fields "}"

TEST_BOTH(test_config, setup, teardown)
{
    refused_with("config.json", "{}", "(none)");
    refused_with("config.json", "{\"model_type\":\"mpnet\"}", "mpnet");
    refused_with("config.json", CONFIG("\"hidden_act\":\"swish\""), "swish");
    refused_with("config.json", CONFIG("\"position_embedding_type\":\"relative_key\""), "relative");
    refused_with("config.json", CONFIG("\"hidden_size\":1e9"), "hidden_size");
    refused_with("config.json", CONFIG("\"hidden_size\":48,\"num_attention_heads\":5"), "heads");
    refused_with("config.json", CONFIG("\"num_attention_heads\":0"), "num_attention_heads");
    refused_with("config.json", CONFIG("\"layer_norm_eps\":0"), "layer_norm_eps");
    refused_with("config.json", CONFIG("\"max_position_embeddings\":1"), "positions");
    refused_with("config.json", "{\"model_type\":\"roberta\",\"pad_token_id\":600}", "positions");
    refused_with("config.json", CONFIG("\"hidden_size\":48,\"num_attention_heads\":3"),
                 "embeddings.position_embeddings.weight");
    encoder_file(dir, "config.json", NULL);
    refused("config.json is missing");
}

TEST_BOTH(test_hash, setup, teardown)
{
    static const char *const files[] = {MODULES, POOLING, LIMITS, PROMPTS};
    char hash[5][MODEL_HASH_LEN];
    struct err e = {0};

    assert_ok(model_dir_hash(dir, hash[0], &e), e);
    for (int i = 0; i < 4; i++) {
        encoder_file(dir, files[i], "{}");
        assert_ok(model_dir_hash(dir, hash[i + 1], &e), e);
        for (int k = 0; k <= i; k++)
            assert_string_not_equal(hash[k], hash[i + 1]);
    }
    for (int i = 3; i >= 0; i--)
        encoder_file(dir, files[i], NULL);
    assert_ok(model_dir_hash(dir, hash[1], &e), e);
    assert_string_equal(hash[0], hash[1]);
}

TEST_MAIN(NULL, NULL)
