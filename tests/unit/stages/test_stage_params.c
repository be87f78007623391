/* Parameters of all stages: one way of writing them, no value out of range; what is known of a
 * stage by its name. */
#include "tests/common/test.h"

#include <stdio.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "tests/common/files.h"
#include "workers/models/files/model_dir.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/stage_params.h"

/* Of any stage: read and written again. NULL: refused. */
static char *again(const char *stage, const char *json)
{
    const struct stage_kind *kind = stage_kind_find(stage);
    struct err e = {0};
    char *ret = NULL;
    void *params;

    assert_non_null(kind);
    params = malloc(kind->params->size);
    assert_non_null(params);
    if (param_table_from_json(kind->params, json, params, &e) == 0)
        assert_ok(param_table_to_json(kind->params, params, &ret, &e), e);
    else
        assert_int_equal(e.code, ERR_USAGE);
    assert_true(ret || e.msg[0] != 0);
    free(params);
    return ret;
}

static void written(const char *stage, const char *json, const char *same)
{
    char *text = again(stage, json);

    assert_non_null(text);
    assert_string_equal(text, same);
    free(text);
}

static void refused(const char *stage, const char *json) { assert_null(again(stage, json)); }

TEST(defaults_are_left_out)
{
    written("diarize", "{}", "{}");
    written("sounds", "{}", "{}");
    written("sounds", "{\"max_gap_ms\":960,\"min_ms\":0,\"threshold\":0.3,\"vectors\":false}",
            "{}");
    written("embed-text", "{\"chars\":400,\"source\":\"\"}", "{}");
    written("embed-audio", "{\"hop_ms\":10000}", "{}");
    written("diarize", "{\"min_duration_off\":0,\"num_speakers\":0}", "{}");
}

TEST(others_are_written_in_order)
{
    written("diarize",
            "{\"threshold\":0.6,\"clustering\":\"vbx\",\"max_speakers\":4,\"fb\":0.8,\"fa\":0.07,"
            "\"min_speakers\":2,\"min_cluster_size\":12,\"min_duration_off\":0.5}",
            "{\"clustering\":\"vbx\",\"fa\":0.07,\"fb\":0.8,\"max_speakers\":4,"
            "\"min_cluster_size\":12,\"min_duration_off\":0.5,\"min_speakers\":2,"
            "\"threshold\":0.6}");
    written("diarize",
            "{\"vad_hash\":\"0123456789abcdef0123456789abcdef\",\"vad_model\":\"silero-vad\"}",
            "{\"vad_hash\":\"0123456789abcdef0123456789abcdef\",\"vad_model\":\"silero-vad\"}");
    written("diarize", "{\"vad_hash\":\"\",\"vad_model\":\"\"}", "{}");
    written("sounds", "{\"vectors\":true,\"threshold\":0.25,\"min_ms\":500,\"max_gap_ms\":0}",
            "{\"max_gap_ms\":0,\"min_ms\":500,\"threshold\":0.25,\"vectors\":true}");
    written("embed-text", "{\"source\":\"00ff/\\\"a\",\"chars\":1000}",
            "{\"chars\":1000,\"source\":\"00ff/\\\"a\"}");
    written("embed-audio", "{\"hop_ms\":5000}", "{\"hop_ms\":5000}");
}

/* What was said stays said, though it is the published pipeline's value: the model may have
 * another. */
TEST(what_was_said_is_written)
{
    struct diarize_stage_params p;
    struct err e = {0};

    written("diarize", "{\"clustering\":\"ahc\"}", "{\"clustering\":\"ahc\"}");
    assert_ok(param_table_from_json(stage_diarize.params, "{\"min_cluster_size\":12}", &p, &e), e);
    assert_true(p.min_cluster_size_said && !p.clustering_said && !p.threshold_said && !p.fa_said &&
                !p.fb_said);
    written("diarize", "{\"min_cluster_size\":12}", "{\"min_cluster_size\":12}");
}

TEST(impossible_values_are_refused)
{
    refused("diarize", "");
    refused("diarize", "[]");
    refused("diarize", "{\"speakers\":2}");
    refused("diarize", "{\"num_speakers\":2,\"num_speakers\":3}");
    refused("diarize", "{\"clustering\":\"kmeans\"}");
    refused("diarize", "{\"clustering\":1}");
    refused("diarize", "{\"threshold\":2.5}");
    refused("diarize", "{\"threshold\":1e400}");
    refused("diarize", "{\"threshold\":\"1\"}");
    refused("diarize", "{\"num_speakers\":-1}");
    refused("diarize", "{\"num_speakers\":1001}");
    refused("diarize", "{\"num_speakers\":2,\"max_speakers\":3}");
    refused("diarize", "{\"min_speakers\":4,\"max_speakers\":3}");
    refused("diarize", "{\"min_cluster_size\":0}");
    refused("diarize", "{\"vad_model\":\"silero-vad\"}");
    refused("diarize", "{\"vad_hash\":\"0123456789abcdef0123456789abcdef\"}");
    refused("diarize", "{\"vad_hash\":\"0123456789abcdef\",\"vad_model\":\"silero-vad\"}");
    refused("diarize", "{\"fa\":0}");
    refused("diarize", "{\"fb\":0,\"clustering\":\"vbx\"}");
    refused("diarize", "{\"fa\":1e-60}"); /* 0 as a float */
    refused("sounds", "{\"threshold\":0}");
    refused("sounds", "{\"threshold\":1.5}");
    refused("sounds", "{\"vectors\":1}");
    refused("sounds", "{\"max_gap_ms\":4294967296}");
    refused("embed-text", "{\"chars\":5}");
    refused("embed-text", "{\"source\":\"0123456789012345678901234567890123456789"
                          "0123456789012345678901234567890123456789\"}");
    refused("embed-audio", "{\"hop_ms\":10001}"); /* sound between windows would not be heard */
    refused("embed-audio", "{\"hop_ms\":0}");
}

static void hash_of(const char *json, char ret[33])
{
    XXH128_canonical_t hash;

    XXH128_canonicalFromHash(&hash, XXH3_128bits(json, strlen(json)));
    for (size_t i = 0; i < sizeof(hash.digest); i++)
        sprintf(ret + 2 * i, "%02x", hash.digest[i]);
}

/* A catalog knows a stage by its parameters as they were written once, and a text embedding its
 * source by their hash: a line that changes is a stage that all catalogs would compute anew. Lines
 * are added, never changed. Of each: the stage, what is read, the hash of what is written, and that
 * itself, "=" where it is what was read; of what is refused "-" and "refused". */
TEST(catalogs_keep_their_stages)
{
    FILE *f = fopen(test_source_path("tests/unit/stages/stage_identities.tsv"), "r");
    char line[8192], hash[33];
    uint32_t lines = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *rest = line, *stage = strsep(&rest, "\t"), *json = strsep(&rest, "\t"),
             *wanted = strsep(&rest, "\t"), *same = strsep(&rest, "\n"), *got;

        assert_non_null(same);
        lines++;
        got = again(stage, json);
        if (!got && strcmp(same, "refused") != 0)
            fail_msg("line %u is refused: %s", lines, json);
        if (!got)
            continue;
        hash_of(got, hash);
        if (strcmp(got, strcmp(same, "=") == 0 ? json : same) != 0 || strcmp(hash, wanted) != 0)
            fail_msg("line %u: %s becomes %s (%s)", lines, json, got, hash);
        free(got);
    }
    fclose(f);
    assert_true(lines > 1000);
}

TEST(stages_are_known_by_name)
{
    char hash[MODEL_HASH_LEN];
    struct err e = {0};

    assert_true(stage_kind_find("transcribe") && stage_kind_find("diarize") &&
                stage_kind_find("embed-text"));
    assert_false(stage_kind_find("") || stage_kind_find("translate"));
    assert_true(stage_hears("sounds") && !stage_hears("embed-text"));
    assert_true(stage_finalizes("diarize") && !stage_finalizes("transcribe"));
    for (size_t i = 0; i < STAGE_COUNT; i++)
        assert_true(stage_kinds[i]->hears == (stage_kinds[i]->passage_chars == NULL));
    assert_int_equal(stage_kind_find("embed-text")->passage_chars("{\"chars\":100}"), 100);
    assert_int_equal(stage_kind_find("embed-text")->passage_chars("{\"later\":1}"), 400);
    assert_ptr_equal(stage_kind_taking("diarization"), stage_kind_find("diarize"));
    assert_ptr_equal(stage_kind_taking("diarization-nano"), stage_kind_find("diarize"));
    assert_null(stage_kind_taking("yamnet"));
    assert_int_equal(stage_tail("transcribe"), 0);
    assert_int_equal(stage_tail("diarize"), 400000);
    assert_int_equal(stage_tail("sounds"), 15600);
    assert_int_equal(stage_bytes_per_s("transcribe", "{}"), 0);
    assert_int_equal(stage_bytes_per_s("diarize", "{}"), 589 + 3 * 1028);
    assert_int_equal(stage_bytes_per_s("diarize", "{\"channels\":\"auto\"}"), 589 + 8 * 1028);
    assert_int_equal(stage_bytes_per_s("diarize", "{\"tracks\":\"all\"}"), 589 + 8 * 1028);
    assert_int_equal(stage_bytes_per_s("diarize", "{\"tracks\":\"2\"}"), 589 + 3 * 1028);
    assert_int_equal(stage_bytes_per_s("sounds", "{}"), 0);
    assert_int_equal(stage_bytes_per_s("sounds", "{\"vectors\":true}"), 4112 * 100 / 48 + 1);
    assert_int_equal(stage_bytes_per_s("embed-audio", "{\"hop_ms\":100}"), 20641);
    assert_int_equal(stage_bytes_per_s("embed-audio", "no JSON"), 0);
    assert_int_equal(stage_model_hash("translate", "/", hash, &e), ERR_USAGE);
    assert_int_equal(stage_model_hash("sounds", "/nonexistent", hash, &e), ERR_MODEL);
}

/* What a row of the table owes those who go through it. */
TEST(descriptors_are_whole)
{
    struct err e = {0};

    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct stage_kind *k = stage_kinds[i];

        assert_ptr_equal(stage_kind_find(k->name), k);
        assert_true(k->option && k->doing && k->model && k->model_types && k->open);
        assert_true(!k->help || k->hub);
        assert_ok(param_table_check(k->params, k->params->defaults, &e), e);
        assert_true(k->hears == !param_table_find(k->params, "source"));
        for (size_t j = 0; j < k->params->count; j++) /* none twice */
            assert_ptr_equal(param_table_find(k->params, k->params->fields[j].name),
                             &k->params->fields[j]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(k->option, stage_kinds[j]->option);
    }
    assert_null(stage_kind_find("translate"));
}

static void write_config(const char *text) { file_text("of-model/config.json", text); }

TEST(models_are_known_by_their_folder)
{
    mkdir("of-model", 0777);
    write_config("{\"model_type\":\"yamnet\"}");
    assert_string_equal(stage_of_model("of-model"), "sounds");
    write_config("{\"model_type\":\"bert\"}");
    assert_string_equal(stage_of_model("of-model"), "embed-text");
    write_config("{\"model_type\":\"nightshift-diarization\"}");
    assert_string_equal(stage_of_model("of-model"), "diarize");
    write_config("{\"model_type\":\"whisper\"}");
    assert_string_equal(stage_of_model("of-model"), "transcribe");
    write_config("{\"model_type\":1}");
    assert_string_equal(stage_of_model("of-model"), "transcribe");
    write_config("[");
    assert_string_equal(stage_of_model("of-model"), "transcribe");
    assert_string_equal(stage_of_model("/nonexistent"), "transcribe");
}

TEST_MAIN(NULL, NULL)
