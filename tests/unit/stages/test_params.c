/* The stage's parameters: one way of writing them, and no value out of its range. */
#include "tests/common/test.h"

#include <math.h>

#include "base/err.h"
#include "workers/stages/transcribe/transcribe.h"

#define DEFAULTS                                                                           \
    "{\"compression_ratio_threshold\":2.4,\"language\":\"\",\"logprob_threshold\":-1,"     \
    "\"max_tokens\":0,\"no_speech_threshold\":0.6,\"temperatures\":[0,0.2,0.4,0.6,0.8,1]," \
    "\"translate\":false}"

TEST(test_round_trip)
{
    struct transcribe_params p, q;
    struct err e;
    char *json;

    transcribe_params_default(&p);
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, DEFAULTS);
    assert_ok(transcribe_params_from_json(json, &q, &e), e);
    assert_memory_equal(&p, &q, sizeof(p));
    free(json);
    assert_ok(transcribe_params_from_json("{}", &q, &e), e);
    assert_memory_equal(&p, &q, sizeof(p));

    p.translate = true;
    strcpy(p.language, "haw");
    p.temperature_count = 2;
    p.temperatures[0] = 0.1f;
    p.temperatures[1] = nextafterf(0.3f, 1);
    p.max_tokens = 77;
    p.logprob_threshold = -0.12345678f;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_ok(transcribe_params_from_json(json, &q, &e), e);
    assert_true(q.temperatures[1] == p.temperatures[1]);
    assert_true(q.logprob_threshold == p.logprob_threshold);
    assert_int_equal(q.max_tokens, 77);
    assert_true(q.translate);
    assert_string_equal(q.language, "haw");
    free(json);
}

/* What the catalogs of every version so far hold: a stage keeps its identity. */
TEST(test_first_catalogs)
{
    static const char old[] =
        "{\"compression_ratio_threshold\":2.5,\"language\":\"es\",\"logprob_threshold\":-0.7,"
        "\"max_tokens\":12,\"no_speech_threshold\":0.5,\"temperatures\":[0,0.3],"
        "\"translate\":true}";
    struct transcribe_params p;
    struct err e;
    char *json;

    assert_ok(transcribe_params_from_json(old, &p, &e), e);
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, old);
    free(json);
}

/* Tens and hundreds are written as people write them. */
TEST(test_no_exponents)
{
    struct transcribe_params p;
    struct err e;
    char *json;

    transcribe_params_default(&p);
    p.patience = 10;
    p.compression_ratio_threshold = 250;
    p.logprob_threshold = -100;
    p.max_initial_timestamp = 0.0001f;
    p.word_timestamps = true;
    p.hallucination_silence_threshold = 20.5f;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_non_null(strstr(json, "\"patience\":10"));
    assert_non_null(strstr(json, "\"compression_ratio_threshold\":250,"));
    assert_non_null(strstr(json, "\"logprob_threshold\":-100,"));
    assert_non_null(strstr(json, "\"max_initial_timestamp\":0.0001,"));
    assert_non_null(strstr(json, "\"hallucination_silence_threshold\":20.5,"));
    free(json);
}

/* Every parameter with a value that is not its default, at its place among the sorted keys. */
TEST(test_all)
{
    static const char all[] =
        "{\"beam_size\":5,\"best_of\":4,\"compression_ratio_threshold\":2.4,"
        "\"hallucination_silence_threshold\":2,\"hotwords\":\"Nightshift \u00e9t\u00e9\","
        "\"initial_prompt\":\"a \\\"b\\\" \\\\ \\u000a/\",\"language\":\"\","
        "\"language_detection_segments\":1,\"language_detection_threshold\":0.75,"
        "\"length_penalty\":0,\"logprob_threshold\":-1,\"max_initial_timestamp\":0,"
        "\"max_tokens\":0,\"multilingual\":true,\"no_speech_threshold\":0.6,\"patience\":1.5,"
        "\"prompt_reset_on_temperature\":0.1,\"suppress_tokens\":[-1,7,50000],"
        "\"temperatures\":[0,0.2,0.4,0.6,0.8,1],\"translate\":false,"
        "\"vad_hash\":\"0123456789abcdef0123456789abcdef\",\"vad_min_silence_duration_ms\":2000,"
        "\"vad_min_speech_duration_ms\":250,\"vad_model\":\"silero-vad\",\"vad_neg_threshold\":0.1,"
        "\"vad_speech_pad_ms\":0,\"vad_threshold\":0.4,\"without_timestamps\":true,"
        "\"word_timestamps\":true}";
    struct transcribe_params p, q;
    struct err e;
    char *json;

    assert_ok(transcribe_params_from_json(all, &p, &e), e);
    assert_string_equal(p.initial_prompt, "a \"b\" \\ \n/");
    assert_string_equal(p.hotwords, "Nightshift \u00e9t\u00e9");
    assert_true(p.suppress_model && p.suppress_count == 2 && p.suppress_tokens[1] == 50000);
    assert_true(p.length_penalty == 0 && p.max_initial_timestamp == 0);
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, all);
    assert_ok(transcribe_params_from_json(json, &q, &e), e);
    assert_memory_equal(&p, &q, sizeof(p));
    free(json);

    /* vad_model and condition_on_previous_text exclude each other. */
    transcribe_params_default(&p);
    p.condition_on_previous_text = true;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_non_null(strstr(json, "\"condition_on_previous_text\":true,\"language\""));
    free(json);
}

/* What says the same is written the same. */
TEST(test_canonical)
{
    struct transcribe_params p;
    struct err e;
    char *json;

    assert_ok(transcribe_params_from_json(
                  "{\"length_penalty\":-7,\"vad_neg_threshold\":-0.5,\"suppress_tokens\":[-1],"
                  "\"max_initial_timestamp\":-0.01,\"beam_size\":1,\"initial_prompt\":\"\","
                  "\"patience\":1.0,\"word_timestamps\":false}",
                  &p, &e),
              e);
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, DEFAULTS);
    free(json);
    p.length_penalty = -3;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, DEFAULTS);
    free(json);

    transcribe_params_default(&p);
    p.suppress_model = false;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_non_null(strstr(json, "\"suppress_tokens\":[],"));
    assert_ok(transcribe_params_from_json(json, &p, &e), e);
    assert_false(p.suppress_model);
    free(json);
}

static void refused(const char *json, const char *says)
{
    struct transcribe_params p = {.max_tokens = 12345};
    struct err e;

    assert_int_equal(transcribe_params_from_json(json, &p, &e), ERR_USAGE);
    assert_says(e.msg, says);
    assert_int_equal(p.max_tokens, 12345);
}

/* Of those that occur it is detected; a single one is what it is. */
TEST(test_several_languages)
{
    const char *list, *eight = "{\"language\":\"a,b,c,d,e,f,g,haw\",\"multilingual\":true}";
    char code[TRANSCRIBE_CODE_LEN];
    struct transcribe_params p;
    struct err e;
    uint32_t n = 0;
    char *json;

    assert_ok(transcribe_params_from_json(eight, &p, &e), e);
    assert_true(transcribe_many_languages(&p));
    for (list = p.language; transcribe_next_language(&list, code); n++)
        assert_int_equal(code[0], "abcdefgh"[n]);
    assert_int_equal(n, 8);
    assert_string_equal(code, "haw");
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_non_null(strstr(json, "\"language\":\"a,b,c,d,e,f,g,haw\""));
    free(json);

    assert_ok(transcribe_params_from_json("{\"language\":\"en\"}", &p, &e), e);
    assert_false(transcribe_many_languages(&p));
    list = "";
    assert_false(transcribe_next_language(&list, code));
    list = "abcdefghijklmnopqrst,b";
    assert_true(transcribe_next_language(&list, code));
    assert_string_equal(code, "abcdefghijklmno");
    assert_string_equal(list, "b");
}

TEST(test_refused)
{
    refused("", "no JSON");
    refused("[]", "object");
    refused("{\"a\":1,\"a\":1}", "duplicate");
    refused("{\"beam\":5}", "'beam'");
    refused("{\"language\":\"EN\"}", "language");
    refused("{\"language\":\"x\\\"y\"}", "language");
    refused("{\"language\":\"abcdefghijklmnop\"}", "language");
    refused("{\"language\":7}", "language");
    refused("{\"language\":\"en,de\"}", "ascending");
    refused("{\"language\":\"en,en\"}", "ascending");
    refused("{\"language\":\",en\"}", "ascending");
    refused("{\"language\":\"de,,en\"}", "ascending");
    refused("{\"language\":\"de,\"}", "comma");
    refused("{\"language\":\",\"}", "ascending");
    refused("{\"language\":\"de, en\"}", "lower case");
    refused("{\"language\":\"de,abcdefghijklmnop\"}", "15 letters");
    refused("{\"language\":\"a,b,c,d,e,f,g,h,i\"}", "limit is 8");
    refused("{\"translate\":1}", "translate");
    refused("{\"temperatures\":[]}", "temperatures");
    refused("{\"temperatures\":[0,0]}", "ascend");
    refused("{\"temperatures\":[0.4,0.2]}", "ascend");
    refused("{\"temperatures\":[-0.1]}", "temperature");
    refused("{\"temperatures\":[3]}", "temperature");
    refused("{\"temperatures\":[0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]}", "temperatures");
    refused("{\"temperatures\":\"0\"}", "temperatures");
    refused("{\"temperatures\":[null]}", "temperature");
    refused("{\"compression_ratio_threshold\":-1}", "compression_ratio_threshold");
    refused("{\"compression_ratio_threshold\":1e300}", "compression_ratio_threshold");
    refused("{\"logprob_threshold\":0.5}", "logprob_threshold");
    refused("{\"no_speech_threshold\":1.5}", "no_speech_threshold");
    refused("{\"no_speech_threshold\":\"x\"}", "no_speech_threshold");
    refused("{\"max_tokens\":-1}", "max_tokens");
    refused("{\"max_tokens\":100001}", "max_tokens");
    refused("{\"max_tokens\":1.5}", "max_tokens");
}

#define HASH "\"vad_hash\":\"0123456789abcdef0123456789abcdef\""

TEST(test_refused_whole)
{
    refused("{\"beam_size\":0}", "beam_size");
    refused("{\"beam_size\":17}", "beam_size");
    refused("{\"beam_size\":4294967297}", "beam_size");
    refused("{\"beam_size\":\"5\"}", "beam_size");
    refused("{\"best_of\":0}", "best_of");
    refused("{\"patience\":0}", "patience");
    refused("{\"patience\":11}", "patience");
    refused("{\"length_penalty\":11}", "length_penalty");
    refused("{\"max_initial_timestamp\":31}", "max_initial_timestamp");
    refused("{\"without_timestamps\":0}", "without_timestamps");
    refused("{\"prompt_reset_on_temperature\":-1}", "prompt_reset_on_temperature");
    refused("{\"initial_prompt\":\"a\\u0000b\"}", "JSON");
    refused("{\"initial_prompt\":\"\xff\"}", "JSON");
    refused("{\"hotwords\":[]}", "hotwords");
    refused("{\"suppress_tokens\":-1}", "suppress_tokens");
    refused("{\"suppress_tokens\":[5,5]}", "ascend");
    refused("{\"suppress_tokens\":[7,5]}", "ascend");
    refused("{\"suppress_tokens\":[5,-1]}", "suppress_tokens");
    refused("{\"suppress_tokens\":[-2]}", "suppress_tokens");
    refused("{\"suppress_tokens\":[1000001]}", "suppress_tokens");
    refused("{\"suppress_tokens\":[1.5]}", "suppress_tokens");
    refused("{\"language_detection_segments\":0}", "language_detection_segments");
    refused("{\"language_detection_segments\":17}", "language_detection_segments");
    refused("{\"language_detection_threshold\":1.1}", "language_detection_threshold");
    refused("{\"multilingual\":true,\"language\":\"en\"}", "multilingual");
    refused("{\"hallucination_silence_threshold\":2}", "word_timestamps");
    refused("{\"hallucination_silence_threshold\":-1}", "hallucination_silence_threshold");
    refused("{" HASH "}", "vad_model");
    refused("{\"vad_model\":\"silero-vad\"}", "vad_hash");
    refused("{\"vad_model\":\"silero-vad\",\"vad_hash\":\"0123\"}", "vad_hash");
    refused("{\"vad_model\":\"a/b\"," HASH "}", "vad_model");
    refused("{\"vad_model\":\"/a\"," HASH ",\"vad_threshold\":1.5}", "vad_threshold");
    refused("{\"vad_model\":\"/a\"," HASH ",\"vad_neg_threshold\":0.6}", "vad_neg_threshold");
    refused("{\"vad_model\":\"/a\"," HASH ",\"condition_on_previous_text\":true}",
            "condition_on_previous_text");
    refused("{\"vad_speech_pad_ms\":10001}", "vad_speech_pad_ms");
    refused("{\"vad_min_speech_duration_ms\":-1}", "vad_min_speech_duration_ms");
}

/* A text and a list that are one too long, and as long as they may be. */
TEST(test_bounds)
{
    struct transcribe_params p;
    char text[TRANSCRIBE_PROMPT_MAX + 40];
    char list[2048] = "{\"suppress_tokens\":[-1";
    struct err e;

    memset(text, 'a', sizeof(text));
    memcpy(text, "{\"hotwords\":\"", 13);
    memcpy(text + 13 + TRANSCRIBE_PROMPT_MAX - 1, "\"}", 3);
    assert_ok(transcribe_params_from_json(text, &p, &e), e);
    assert_int_equal(strlen(p.hotwords), TRANSCRIBE_PROMPT_MAX - 1);
    memcpy(text + 13 + TRANSCRIBE_PROMPT_MAX - 1, "a\"}", 4);
    refused(text, "hotwords");

    for (int i = 0; i < TRANSCRIBE_SUPPRESS_MAX; i++)
        sprintf(list + strlen(list), ",%d", i);
    strcat(list, "]}");
    assert_ok(transcribe_params_from_json(list, &p, &e), e);
    assert_int_equal(p.suppress_count, TRANSCRIBE_SUPPRESS_MAX);
    sprintf(strchr(list, ']'), ",%d]}", 99);
    refused(list, "suppress_tokens");
}

TEST(test_check)
{
    struct transcribe_params p;
    struct err e;
    char *json = NULL;

    transcribe_params_default(&p);
    p.no_speech_threshold = NAN;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    transcribe_params_default(&p);
    memset(p.language, 'a', sizeof(p.language));
    assert_int_equal(transcribe_params_to_json(&p, &json, &e), ERR_USAGE);
    assert_null(json);
    transcribe_params_default(&p);
    p.temperature_count = 9;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    transcribe_params_default(&p);
    p.vad_neg_threshold = NAN;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    transcribe_params_default(&p);
    strcpy(p.initial_prompt, "caf\xe9");
    assert_int_equal(transcribe_params_to_json(&p, &json, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "UTF-8"));
    transcribe_params_default(&p);
    memset(p.hotwords, 'a', sizeof(p.hotwords));
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    transcribe_params_default(&p);
    p.suppress_count = TRANSCRIBE_SUPPRESS_MAX + 1;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    assert_null(json);
}

TEST_MAIN(NULL, NULL)
