/* What the plan foretells of memory, against what models and sessions take of the host's. */
#include "tests/common/test.h"

#include "gpu/backend.h"
#include "workers/models/silero/silero.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/footprint.h"
#include "workers/stages/transcribe/transcribe.h"

static const struct footprint_device host = {0};

static void near(uint64_t have, uint64_t want, const char *what)
{
    double ratio = (double)have / (double)want;

    if (!(ratio > 0.95 && ratio < 1.05))
        fail_msg("%s: %llu bytes were foretold, %llu taken", what, (unsigned long long)have,
                 (unsigned long long)want);
}

/* Parameters as a stage has them, of a model that is loaded as a worker loads it. */
TEST(a_session_takes_what_was_foretold)
{
    static const char *const params[] = {
        "{}",
        "{\"beam_size\":5}",
        "{\"best_of\":7}",
        "{\"beam_size\":2,\"best_of\":5,\"word_timestamps\":true}",
        "{\"word_timestamps\":true}",
        "{\"beam_size\":5,\"hotwords\":\"Nightshift\"}",
    };
    const struct footprint_device here = {.halves = backend_host_halves()};
    uint64_t last = 0, bytes;
    struct transcribe_params p;
    struct asr_session *s;
    struct backend *be;
    struct asr_model *w;
    struct err e = {0};
    const struct asr_setup setup = {.dir = test_source_path("workers/models/whisper-nano"),
                                    .precision = PRECISION_F32,
                                    .text = true};

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.deterministic = false; /* or there would be one window whatever is asked for */
    assert_ok(whisper_family.open(&setup, be, &w, &e), e);
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        for (uint32_t slots = 1; slots < 40; slots = 3 * slots + 2) {
            struct asr_shape shape;

            assert_ok(transcribe_params_from_json(params[i], &p, &e), e);
            transcribe_shape(&p, w->align_heads, &shape);
            shape = footprint_shape(shape, &here, slots, 1);
            bytes = footprint_bytes(w->ops->predict(w, here.halves, shape), false, &here);
            assert_ok(whisper_session_new(w, shape, &s, &e), e);
            near(bytes, be->allocated, params[i]);
            whisper_session_free(s);
        }
        if (i > 0)
            assert_true(bytes != last);
        last = bytes;
    }
    whisper_free(w);
    backend_close(be);
}

/* The matrices of a decoder step, of the largest model: not those that it does for a window. */
TEST(float16_weights_are_half_of_float32)
{
    const uint64_t step = UINT64_C(32) * (6 + 2 * 4) * 1280 * 1280 + UINT64_C(51866) * 1280;
    const struct asr_shape shape = {.slots = 2};
    struct whisper_config config;
    struct err e = {0};

    assert_ok(whisper_preset("large-v3", &config, &e), e);
    assert_int_equal(whisper_predict_bytes(&config, PRECISION_F32, CACHE_16, false, shape) -
                         whisper_predict_bytes(&config, PRECISION_F32, CACHE_16, true, shape),
                     2 * step);
    assert_int_equal(whisper_predict_bytes(&config, PRECISION_BF16, CACHE_16, false, shape),
                     whisper_predict_bytes(&config, PRECISION_BF16, CACHE_16, true, shape));
}

static uint64_t of(const char *json, const struct footprint_device *d, uint32_t slots,
                   uint32_t windows)
{
    struct whisper_config config;
    struct transcribe_params p;
    struct asr_shape shape;
    struct err e = {0};

    assert_ok(whisper_preset("large-v3", &config, &e), e);
    assert_ok(transcribe_params_from_json(json, &p, &e), e);
    transcribe_shape(&p, WHISPER_MAX_ALIGN_HEADS, &shape);
    shape = footprint_shape(shape, d, slots, windows);
    return footprint_bytes(
        whisper_predict_bytes(&config, PRECISION_F16, CACHE_16, d->halves, shape),
        p.vad_model[0] != 0, d);
}

/* Twenty million numbers for each hypothesis of a window of the largest model: keys and values of a
 * text of 224 tokens. Other texts may have all of the decoder's positions. */
TEST(beams_words_and_voice_take_more)
{
    const uint64_t position = UINT64_C(2) * 32 * 1280 * 2, branch = 240 * position;
    const char *voice = "{\"vad_hash\":\"00112233445566778899aabbccddeeff\","
                        "\"vad_model\":\"silero-vad\"}";
    uint64_t greedy = of("{}", &host, 8, 1), beams = of("{\"beam_size\":5}", &host, 8, 1);

    assert_true(beams - greedy >= 32 * branch && beams - greedy < 34 * branch);
    assert_int_equal(of("{\"best_of\":5}", &host, 8, 1), beams);
    /* and where the positions of 64 rows lie */
    assert_int_equal(of("{\"beam_size\":5,\"hotwords\":\"tarn\"}", &host, 8, 1) - beams,
                     (448 - 240) * (8 * 5 * position + 64 * 2));
    assert_int_equal(of("{\"beam_size\":5,\"initial_prompt\":\"tarn\"}", &host, 8, 1),
                     of("{\"beam_size\":5,\"condition_on_previous_text\":true}", &host, 8, 1));
    assert_int_equal(of("{\"beam_size\":5,\"max_tokens\":224}", &host, 8, 1), beams);
    assert_int_equal(of("{\"beam_size\":5,\"max_tokens\":225}", &host, 8, 1),
                     of("{\"beam_size\":5,\"hotwords\":\"tarn\"}", &host, 8, 1));
    /* Nobody knows its heads: as many as a session takes. */
    assert_int_equal(of("{\"word_timestamps\":true}", &host, 8, 1) - greedy,
                     UINT64_C(65) * 448 * 1500 * 4 + 448 * 4 + UINT64_C(8) * 64 * 1536 * 2 * 8);
    assert_int_equal(of(voice, &host, 8, 1) - greedy, silero_predict_bytes(1));
}

TEST(a_gpu_takes_more)
{
    const struct footprint_device gpu = {.gpu = true}, alike = {.gpu = true, .deterministic = true};
    const char *voice = "{\"vad_hash\":\"00112233445566778899aabbccddeeff\","
                        "\"vad_model\":\"silero-vad\"}";

    assert_int_equal(of("{}", &gpu, 8, 4) - of("{}", &host, 8, 4), FOOTPRINT_GPU_BYTES);
    assert_int_equal(of(voice, &gpu, 8, 4) - of("{}", &gpu, 8, 4), silero_predict_bytes(0));
    assert_int_equal(of(voice, &alike, 8, 4) - of("{}", &alike, 8, 4), silero_predict_bytes(1));
    /* The encoder takes no more at once than there is, and one where grouping is not allowed. */
    assert_int_equal(of("{}", &gpu, 2, 8), of("{}", &gpu, 2, 2));
    assert_true(of("{}", &gpu, 8, 8) > of("{}", &gpu, 8, 2));
    assert_int_equal(of("{}", &alike, 8, 8), of("{}", &gpu, 8, 1));
}

TEST(a_way_of_decoding_has_a_name)
{
    static const struct {
        const char *json, *want;
    } table[] = {
        {"{}", ""},
        {"{\"beam_size\":5}", "beam_size=5"},
        {"{\"best_of\":2}", "best_of=2"},
        {"{\"word_timestamps\":true}", "word_timestamps"},
        {"{\"language\":\"de\",\"patience\":2}", ""}, /* the device does the same with it */
        {"{\"beam_size\":16,\"best_of\":16,\"word_timestamps\":true}",
         "beam_size=16 best_of=16 word_timestamps"},
        {"{\"hotwords\":\"tarn\"}", "long_text"},
        {"{\"max_tokens\":224}", ""},
        {"{\"beam_size\":16,\"best_of\":16,\"word_timestamps\":true,\"max_tokens\":448}",
         "beam_size=16 best_of=16 word_timestamps long_text"},
    };
    char name[TRANSCRIBE_DECODING_LEN];
    struct transcribe_params p;
    struct err e = {0};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_ok(transcribe_params_from_json(table[i].json, &p, &e), e);
        transcribe_decoding(&p, name);
        assert_string_equal(name, table[i].want);
    }
}

TEST_MAIN(NULL, NULL)
