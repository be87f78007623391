/* What a slot yields is its own affair, bit for bit; and what a session and a loader refuse. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"

#define SLOTS 11
#define STEPS 9
#define VOCAB 4321
#define EOT 2700

static const struct whisper_config small = {128, 80, VOCAB, 1, 2, 256, 2, 2, 256, 1500, 448};

struct rig {
    struct backend *be;
    struct asr_model *w;
    float *pcm[SLOTS];
    size_t len[SLOTS];
    float *alone; /* [SLOTS][STEPS][VOCAB]: each window decoded by itself */
};

static int32_t token_of(uint32_t window, uint32_t pos)
{
    return (int32_t)((window * 733 + pos * 97) % VOCAB);
}

static const float *wanted(const struct rig *r, uint32_t window, uint32_t pos)
{
    return r->alone + ((size_t)window * STEPS + pos) * VOCAB;
}

static void rig_open(struct rig *r, enum precision precision)
{
    struct asr_session *s;
    struct err e;

    assert_ok(backend_open_host(0, &r->be, &e), e);
    assert_ok(whisper_random(&small, 5, r->be, precision, &r->w, &e), e);
    r->alone = malloc(sizeof(float) * SLOTS * STEPS * VOCAB);
    assert_non_null(r->alone);
    assert_ok(whisper_session_new(r->w, (struct asr_shape){.slots = 1}, &s, &e), e);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct asr_window window = {.slot = 0};
        uint32_t seed = i + 1;

        r->len[i] = i == 0 ? 0 : WHISPER_WINDOW_SAMPLES / i - i * 777;
        r->pcm[i] = malloc(r->len[i] * sizeof(float) + 1);
        assert_non_null(r->pcm[i]);
        for (size_t k = 0; k < r->len[i]; k++) {
            seed = seed * 1664525u + 1013904223u;
            r->pcm[i][k] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.3f;
        }
        window.pcm = r->pcm[i];
        window.n = r->len[i];
        assert_ok(whisper_encode(s, &window, 1, &e), e);
        for (uint32_t pos = 0; pos < STEPS; pos++) {
            struct asr_row row = {0, 0, pos, token_of(i, pos)};

            assert_ok(whisper_step(s, &row, 1, (float *)wanted(r, i, pos), &e), e);
        }
    }
    whisper_session_free(s);
}

static void rig_close(struct rig *r)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        free(r->pcm[i]);
    free(r->alone);
    whisper_free(r->w);
    backend_close(r->be);
}

/* Window i goes into slot (i * turn + 3) % SLOTS, encoded `batch` at a time; rows of a step are
 * given in an order that changes, and windows start at different steps, so that rows of different
 * positions mix and the number of rows of a step goes from 1 to SLOTS and back. */
static void mixed(struct rig *r, uint32_t turn, uint32_t batch)
{
    float *logits = malloc(sizeof(float) * SLOTS * VOCAB);
    struct asr_window windows[SLOTS];
    struct asr_row rows[SLOTS];
    uint32_t window_of[SLOTS];
    struct asr_session *s;
    struct err e;

    assert_non_null(logits);
    assert_ok(whisper_session_new(r->w, (struct asr_shape){.slots = SLOTS}, &s, &e), e);
    for (uint32_t i = 0; i < SLOTS; i++)
        windows[i] =
            (struct asr_window){.slot = (i * turn + 3) % SLOTS, .pcm = r->pcm[i], .n = r->len[i]};
    for (uint32_t i = 0; i < SLOTS; i += batch)
        assert_ok(whisper_encode(s, windows + i, i + batch > SLOTS ? SLOTS - i : batch, &e), e);
    for (uint32_t step = 0; step < STEPS + SLOTS; step++) {
        uint32_t n = 0;

        for (uint32_t k = 0; k < SLOTS; k++) {
            uint32_t i = (k * 7 + step) % SLOTS; /* 7 and 11 share no factor: every window once */

            if (step < i || step - i >= STEPS)
                continue;
            window_of[n] = i;
            rows[n++] = (struct asr_row){windows[i].slot, 0, step - i, token_of(i, step - i)};
        }
        if (n == 0)
            continue;
        assert_ok(whisper_step(s, rows, n, logits, &e), e);
        for (uint32_t k = 0; k < n; k++)
            assert_memory_equal(logits + (size_t)k * VOCAB, wanted(r, window_of[k], rows[k].pos),
                                sizeof(float) * VOCAB);
    }
    whisper_session_free(s);
    free(logits);
}

static void independence(enum precision precision)
{
    struct rig r = {0};

    rig_open(&r, precision);
    mixed(&r, 4, 3);
    mixed(&r, 9, SLOTS);
    rig_close(&r);
}

TEST(independent_in_float32) { independence(PRECISION_F32); }

TEST(independent_in_bf16)
{
    struct backend_info info;

    backend_host_info(&info);
    if (!(info.have & 1u << PRECISION_BF16)) {
        print_message("SKIPPED: this processor has no bf16\n");
        skip();
    }
    independence(PRECISION_BF16);
}

/* Going back to a position and on with other tokens, then with the first ones again; and a slot
 * that held another window before. */
TEST(decoding_again)
{
    float *first = malloc(sizeof(float) * VOCAB), *again = malloc(sizeof(float) * VOCAB);
    struct rig r = {0};
    struct asr_session *s;
    struct err e;

    rig_open(&r, PRECISION_AUTO);
    assert_ok(whisper_session_new(r.w, (struct asr_shape){.slots = 2}, &s, &e), e);
    for (uint32_t i = 4; i-- > 0;) {
        struct asr_window window = {.slot = 1, .pcm = r.pcm[i], .n = r.len[i]};

        assert_ok(whisper_encode(s, &window, 1, &e), e);
        for (int round = 0; round < 3; round++) {
            for (uint32_t pos = round ? 2 : 0; pos < STEPS; pos++) {
                int32_t token = token_of(i, pos) + (round == 1 && pos > 2);
                struct asr_row row = {1, 0, pos, token % VOCAB};

                assert_ok(whisper_step(s, &row, 1, again, &e), e);
                if (round != 1)
                    assert_memory_equal(again, wanted(&r, i, pos), sizeof(float) * VOCAB);
            }
            if (round == 1)
                assert_memory_not_equal(again, wanted(&r, i, STEPS - 1), sizeof(float) * VOCAB);
        }
    }
    whisper_session_free(s);
    rig_close(&r);
    free(first);
    free(again);
}

/* ---- silence at fewer places */

static float *encode_and_step(struct asr_session *s, const struct rig *r, uint32_t slot, uint32_t i,
                              bool sparse)
{
    struct asr_window window = {
        .slot = slot, .pcm = r->pcm[i], .n = r->len[i], .sparse_silence = sparse};
    float *logits = malloc(sizeof(float) * STEPS * VOCAB);
    struct err e;

    assert_non_null(logits);
    assert_ok(whisper_encode(s, &window, 1, &e), e);
    for (uint32_t pos = 0; pos < STEPS; pos++) {
        struct asr_row row = {slot, 0, pos, token_of(i, pos)};

        assert_ok(whisper_step(s, &row, 1, logits + (size_t)pos * VOCAB, &e), e);
    }
    return logits;
}

static double distance(const float *a, const float *b)
{
    double sum = 0;

    for (size_t i = 0; i < (size_t)STEPS * VOCAB; i++)
        sum += fabs((double)a[i] - (double)b[i]);
    return sum / (STEPS * VOCAB);
}

/* What the attentions of the encoder and of the decoder are asked for. */
static const struct backend_ops *real;
static struct backend_ops watched;
static uint32_t tails_seen, wholes_seen;
static struct key_tail last_tail;
static bool uncounted; /* each key of the encoder's tails counts once */

static int watch_tail(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                      struct key_tail tail, struct tensor out, struct err *err)
{
    tails_seen++;
    last_tail = tail;
    if (uncounted)
        tail.times = 1;
    return real->attention_tail(be, q, k, v, tail, out, err);
}

static int watch_whole(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                       struct tensor v, struct tensor out, struct err *err)
{
    wholes_seen++;
    return real->attention(be, windows, q, k, v, out, err);
}

/* Of 30 s of which 7 are sound, 12 are computed wholly, and an eighth of the rest: nearly the same
 * comes of it, nearer than if these did not count eight times, or than what another window gives.
 */
TEST(sparse_silence)
{
    struct rig r = {0};
    struct asr_session *s;
    float *sparse, *mixed_in, *light;
    const uint32_t i = 4; /* 30 s / 4, less a little */
    struct err e;

    rig_open(&r, PRECISION_F32);
    real = r.be->ops;
    watched = *real;
    watched.attention_tail = watch_tail;
    watched.attention = watch_whole;
    r.be->ops = &watched;
    assert_ok(whisper_session_new(r.w, (struct asr_shape){.slots = 3}, &s, &e), e);
    tails_seen = wholes_seen = 0;
    sparse = encode_and_step(s, &r, 1, i, true);
    assert_int_equal(tails_seen, small.encoder_layers);
    assert_int_equal(wholes_seen, 0);
    assert_int_equal(last_tail.times, 8);
    assert_int_equal(last_tail.dense + 8 * (last_tail.keys - last_tail.dense), 1500);
    assert_in_range(last_tail.dense, 50 * (r.len[i] / 16000 + 5), 50 * (r.len[i] / 16000 + 6) + 7);
    /* A window without it, in the same session, is what it was; and sparse again beside it. */
    mixed_in = encode_and_step(s, &r, 2, i, false);
    assert_memory_equal(mixed_in, wanted(&r, i, 0), sizeof(float) * STEPS * VOCAB);
    uncounted = true;
    light = encode_and_step(s, &r, 0, i, true);
    uncounted = false;
    print_message("sparse %.3g, uncounted %.3g, another window %.3g\n", distance(sparse, mixed_in),
                  distance(light, mixed_in), distance(wanted(&r, i + 1, 0), mixed_in));
    assert_true(distance(sparse, mixed_in) > 0);
    assert_true(distance(sparse, mixed_in) < 0.2 * distance(light, mixed_in));
    assert_true(distance(sparse, mixed_in) < 0.2 * distance(wanted(&r, i + 1, 0), mixed_in));
    free(light);
    free(mixed_in);
    mixed_in = encode_and_step(s, &r, 0, i, true);
    assert_memory_equal(mixed_in, sparse, sizeof(float) * STEPS * VOCAB);
    free(mixed_in);
    /* More than 25 s of sound leave nothing to save. */
    mixed_in = encode_and_step(s, &r, 1, 1, true);
    assert_memory_equal(mixed_in, wanted(&r, 1, 0), sizeof(float) * STEPS * VOCAB);
    free(mixed_in);
    whisper_session_free(s);
    free(sparse);
    /* A device without it computes whole windows. */
    watched.attention_tail = NULL;
    assert_ok(whisper_session_new(r.w, (struct asr_shape){.slots = 3}, &s, &e), e);
    mixed_in = encode_and_step(s, &r, 1, i, true);
    assert_memory_equal(mixed_in, wanted(&r, i, 0), sizeof(float) * STEPS * VOCAB);
    free(mixed_in);
    whisper_session_free(s);
    r.be->ops = real;
    rig_close(&r);
}

#define NOISE 120000

/* Logits of some steps, and where tokens are said. */
struct course {
    float logits[3][VOCAB];
    uint32_t first_frame[6];
    double logprob[8];
};

static const int32_t text[8] = {5, 6, 7, 8, 9, 10, 11, EOT};

static void step_and_align(struct asr_session *s, const struct asr_window *w, uint32_t n,
                           struct course *ret)
{
    static const struct whisper_head heads[] = {{1, 0}, {0, 1}};
    struct asr_alignment a[4];
    struct err e;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t pos = 0; pos < 3; pos++)
            assert_ok(whisper_step(s, &(struct asr_row){w[i].slot, 0, pos, token_of(1, pos)}, 1,
                                   ret[i].logits[pos], &e),
                      e);
        a[i] = (struct asr_alignment){.slot = w[i].slot,
                                      .frames = 1 + (uint32_t)w[i].n / 320,
                                      .tokens = text,
                                      .n = 8,
                                      .text = 2,
                                      .first_frame = ret[i].first_frame,
                                      .logprob = ret[i].logprob};
    }
    assert_ok(whisper_align(s, a, n, heads, 2, NULL, &e), e);
}

/* Windows of one call, some of them with sparse silence, in slots that had others before and in a
 * session that takes two at once, have the bits that they have alone. */
static void among_whole_windows(enum precision precision, enum cache_precision cache)
{
    const struct asr_shape alone = {.slots = 1, .align_heads = 2},
                           many = {.slots = 4, .windows = 2, .align_heads = 2, .align_windows = 4};
    const struct rules_spec rules = {.vocab = VOCAB,
                                     .eot = EOT,
                                     .no_speech = -1,
                                     .timestamp_begin = EOT + 1,
                                     .timestamp_end = EOT + 1501,
                                     .max_initial = EOT + 51};
    struct course *want = calloc(8, sizeof(*want)), *got = want + 4;
    struct asr_window w[4];
    struct asr_session *s;
    struct asr_model *model;
    struct backend *be;
    float *pcm = malloc(NOISE * sizeof(*pcm));
    struct err e;

    assert_true(want && pcm);
    for (uint32_t i = 0, seed = 1; i < NOISE; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.3f;
    }
    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_random(&small, 5, be, precision, &model, &e), e);
    whisper_keep(model, cache);
    for (uint32_t i = 0; i < 4; i++) {
        w[i] = (struct asr_window){
            .pcm = pcm + i, .n = 20000 + i * 30000, .sparse_silence = i % 2 == 1};
        assert_ok(whisper_session_new(model, alone, &s, &e), e);
        assert_ok(whisper_session_rules(s, &rules, &e), e);
        assert_ok(whisper_encode(s, &w[i], 1, &e), e);
        step_and_align(s, &w[i], 1, &want[i]);
        whisper_session_free(s);
        w[i].slot = 3 - i;
    }
    be->info.deterministic = false; /* or a session takes one at once */
    assert_ok(whisper_session_new(model, many, &s, &e), e);
    assert_int_equal(s->windows, 2);
    assert_ok(whisper_session_rules(s, &rules, &e), e);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++)
            w[i].sparse_silence = i % 2 == (round ? 1 : 0);
        assert_ok(whisper_encode(s, w, 4, &e), e);
        step_and_align(s, w, 4, got);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_memory_equal(got[i].logits, want[i].logits, sizeof(got[i].logits));
        assert_memory_equal(got[i].first_frame, want[i].first_frame, sizeof(got[i].first_frame));
        assert_memory_equal(got[i].logprob, want[i].logprob, sizeof(got[i].logprob));
    }
    whisper_session_free(s);
    whisper_free(model);
    backend_close(be);
    free(want);
    free(pcm);
}

TEST(sparse_silence_among_whole_windows)
{
    struct backend_info info;

    backend_host_info(&info);
    among_whole_windows(PRECISION_F32, CACHE_8);
    if (!(info.have & 1u << PRECISION_BF16)) {
        print_message("SKIPPED: bf16, which this processor has not\n");
        return;
    }
    among_whole_windows(PRECISION_BF16, CACHE_16);
}

TEST(sessions_refuse)
{
    struct asr_window window = {0};
    struct asr_session *s;
    struct backend *be;
    struct asr_model *w;
    float quiet[160] = {0}, *out = malloc(sizeof(float) * 2 * VOCAB);
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(whisper_random(&small, 1, be, PRECISION_F32, &w, &e), e);
    assert_int_equal(whisper_session_new(w, (struct asr_shape){.slots = 0}, &s, &e), ERR_USAGE);
    assert_int_equal(whisper_session_new(w, (struct asr_shape){.slots = UINT32_MAX}, &s, &e),
                     ERR_USAGE);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2}, &s, &e), e);
    assert_int_equal(whisper_step(s, &(struct asr_row){0, 0, 0, 1}, 1, out, &e), ERR_DEVICE);
    window.pcm = quiet;
    window.n = WHISPER_WINDOW_SAMPLES + 1;
    assert_int_equal(whisper_encode(s, &window, 1, &e), ERR_DEVICE);
    window.n = 160;
    window.slot = 2;
    assert_int_equal(whisper_encode(s, &window, 1, &e), ERR_DEVICE);
    window.slot = 1;
    assert_ok(whisper_encode(s, &window, 1, &e), e);
    assert_int_equal(whisper_step(s, &(struct asr_row){1, 0, 1, 1}, 1, out, &e), ERR_DEVICE);
    assert_int_equal(whisper_step(s, &(struct asr_row){1, 0, 0, -1}, 1, out, &e), ERR_MODEL);
    assert_int_equal(whisper_step(s, &(struct asr_row){1, 0, 0, VOCAB}, 1, out, &e), ERR_MODEL);
    const struct asr_row twice[] = {{1, 0, 0, 1}, {1, 0, 0, 1}};
    assert_int_equal(whisper_step(s, twice, 2, out, &e), ERR_DEVICE);
    assert_int_equal(whisper_peek_mel(s, 0, out, &e), ERR_EMPTY);
    for (uint32_t pos = 0; pos < 448; pos++)
        assert_ok(whisper_step(s, &(struct asr_row){1, 0, pos, 1}, 1, NULL, &e), e);
    assert_int_equal(whisper_step(s, &(struct asr_row){1, 0, 448, 1}, 1, out, &e), ERR_DEVICE);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
    free(out);
}

static void copy_file(const char *from, const char *to, size_t keep, const char *find,
                      const char *put)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t n = 0, cap = 16u << 20;
    char *data = malloc(cap);

    assert_non_null(in);
    assert_non_null(out);
    assert_non_null(data);
    n = fread(data, 1, cap, in);
    if (find) {
        char *at = memmem(data, n, find, strlen(find));

        assert_non_null(at);
        assert_int_equal(strlen(find), strlen(put));
        memcpy(at, put, strlen(put));
    }
    if (keep && keep < n)
        n = keep;
    assert_int_equal(fwrite(data, 1, n, out), n);
    fclose(in);
    fclose(out);
    free(data);
}

struct broken {
    const char *what;
    size_t keep;                          /* bytes of the weights; 0: all */
    const char *find, *put;               /* in the weights' header */
    const char *config_find, *config_put; /* in config.json */
    const char *sentence;                 /* part of what must be said */
};

static const struct broken broken[] = {
    {"a tensor is missing", 0, "layers.1.fc1.weight", "layers.1.fcX.weight", NULL, NULL,
     "'model.decoder.layers.1.fc1.weight' (768 x 192) is missing"},
    {"a tensor of another shape", 0, NULL, NULL, "\"decoder_ffn_dim\": 768",
     "\"decoder_ffn_dim\": 766", "is 768 x 192, but config.json wants 766 x 192"},
    {"a tensor of another type", 0, "\"dtype\":\"F16\"", "\"dtype\":\"I16\"", NULL, NULL,
     "is of type I16"},
    {"weights cut off", 7000000, NULL, NULL, NULL, NULL, "not downloaded whole"},
    {"weights cut off in the header", 100, NULL, NULL, NULL, NULL, "not a whole one"},
    {"no weights", 3, NULL, NULL, NULL, NULL, "no safetensors file"},
    {"another model", 0, NULL, NULL, "\"whisper\"", "\"wav2vec\"", "'wav2vec'"},
    {"heads of another size", 0, NULL, NULL, "\"encoder_attention_heads\": 3",
     "\"encoder_attention_heads\": 4", "heads of 64"},
    {"an impossible number", 0, NULL, NULL, "\"vocab_size\": 2151", "\"vocab_size\": -151",
     "vocab_size is -151"},
    {"no JSON", 0, NULL, NULL, "{", "[", "config.json"},
};

TEST(loader_refuses)
{
    char dir[] = "/tmp/nightshift-model-XXXXXX", config[64], weights[64];
    struct asr_model *w;
    struct backend *be;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_non_null(mkdtemp(dir));
    snprintf(config, sizeof(config), "%s/config.json", dir);
    snprintf(weights, sizeof(weights), "%s/model.safetensors", dir);
    assert_int_equal(whisper_load(dir, be, PRECISION_F32, &w, &e), ERR_MODEL);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        const struct broken *b = &broken[i];
        int rc;

        copy_file(test_source_path("workers/models/whisper-nano/config.json"), config, 0,
                  b->config_find, b->config_put);
        copy_file(test_source_path("workers/models/whisper-nano/model.safetensors"), weights,
                  b->keep, b->find, b->put);
        rc = whisper_load(dir, be, PRECISION_F32, &w, &e);
        print_message("  %s: %s\n", b->what, e.msg);
        assert_int_equal(rc, ERR_MODEL);
        assert_non_null(strstr(e.msg, b->sentence));
    }
    assert_int_equal(truncate(config, (32 << 20) + 1), 0);
    assert_int_equal(whisper_load(dir, be, PRECISION_F32, &w, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "over 32 MiB"));
    assert_true(be->allocated < 1u << 20); /* oneDNN's scratch memory alone */
    copy_file(test_source_path("workers/models/whisper-nano/config.json"), config, 0, NULL, NULL);
    unlink(weights);
    assert_int_equal(whisper_load(dir, be, PRECISION_F32, &w, &e), ERR_MISSING);
    unlink(config);
    rmdir(dir);
    backend_close(be);
}

TEST_MAIN(NULL, NULL)
