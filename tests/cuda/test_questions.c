/* What the module asks cuBLASLt and cuDNN for when it runs Whisper at its published sizes, in every
 * precision, and the networks of speakers and sounds at theirs, on the emulated device that checks
 * and does not compute (emulator/machine.h, NIGHTSHIFT_EMULATED_DRY): nothing may be refused, and
 * where the type has 16 bits attention must be fused. One layer of each kind stands for all, since
 * they are of the same shape. The doubles of the libraries write the questions into a file, which
 * test_cards.py puts to the real cuDNN. */
#include "tests/common/test.h"

#include <stdlib.h>

#include "gpu/backend.h"
#include "tests/cuda/module.h"
#include "tests/gpu/nets.h"
#include "workers/models/whisper/whisper.h"

#define SLOTS 64
#define WINDOWS 16

static struct emulated emulated;
static float pcm[WHISPER_WINDOW_SAMPLES];

static void encode_and_step(struct asr_session *s, uint32_t windows, uint32_t rows)
{
    struct asr_window window[WINDOWS];
    struct asr_row row[SLOTS];
    struct err e;

    for (uint32_t i = 0; i < windows; i++)
        window[i] = (struct asr_window){.slot = i, .pcm = pcm, .n = WHISPER_WINDOW_SAMPLES};
    assert_ok(whisper_encode(s, window, windows, &e), e);
    for (uint32_t i = 0; i < rows; i++)
        row[i] = (struct asr_row){.slot = i % windows, .pos = i / windows};
    assert_ok(whisper_step(s, row, rows, NULL, &e), e);
}

static void one(const struct whisper_config *config, struct backend *be, enum precision precision)
{
    const struct asr_shape shape = {.slots = SLOTS, .branches = 1, .windows = WINDOWS};
    struct asr_session *s;
    struct asr_model *w;
    struct err e;

    assert_ok(whisper_random(config, 1, be, precision, &w, &e), e);
    assert_ok(whisper_session_new(w, shape, &s, &e), e);
    encode_and_step(s, s->windows, SLOTS);
    encode_and_step(s, 1, 1);
    whisper_session_free(s);
    whisper_free(w);
}

/* All precisions of the smallest and the largest, and bf16 of those between. */
static void each(bool deterministic)
{
    const struct cuda_options options = {.deterministic = deterministic};
    struct whisper_config config;
    struct backend *be;
    const char *name;
    struct err e;

    assert_ok(emulated.module->open("0", &options, &be, &e), e);
    for (uint32_t i = 0; (name = whisper_preset_name(i)); i++) {
        bool ends = strcmp(name, "tiny") == 0 || strcmp(name, "large-v3") == 0;

        assert_ok(whisper_preset(name, &config, &e), e);
        config.encoder_layers = config.decoder_layers = 1;
        for (enum precision p = PRECISION_F32; p < PRECISION_COUNT; p++)
            if ((be->info.have & 1u << p) && (p == PRECISION_BF16 || (ends && !deterministic)))
                one(&config, be, p);
    }
    backend_close(be);
}

static void test_published_sizes(void **state)
{
    (void)state;
    each(false);
}

static void test_published_sizes_deterministic(void **state)
{
    (void)state;
    each(true);
}

/* Loading it runs it once, on a whole call's windows of silence. */
static void one_network(const struct net *net, struct backend *be, uint32_t items)
{
    const struct net_setup setup = {
        .published = true, .precision = PRECISION_F32, .items = items, .at_once = items};
    struct net_model *m = NULL;
    struct err e;

    net->make(&setup);
    assert_ok(net->open(&setup, be, &m, &e), e);
    net->close(m);
    net_clean();
}

static void test_networks(void **state)
{
    struct backend *be;
    struct err e;

    (void)state;
    assert_ok(emulated.module->open("0", NULL, &be, &e), e);
    one_network(&net_pyannet, be, 128);
    one_network(&net_resnet, be, 32);
    one_network(&net_yamnet, be, 8);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_published_sizes),
        cmocka_unit_test(test_published_sizes_deterministic),
    };

    emulated = emulated_open();
    return cmocka_run_group_tests_name("questions", tests, NULL, NULL);
}
