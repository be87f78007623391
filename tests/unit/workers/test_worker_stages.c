/* Stages whose windows hear beyond their shard, and one that hears nothing, in a real worker with
 * real decoders. The models are rules: a sound's vector is its patch's first and last sample. */
#include "tests/unit/workers/play.h"

#include <math.h>

#include "tests/unit/stages/fake_voices.h"
#include "tests/unit/workers/files.h"
#include "workers/models/bert/embedder.h"
#include "workers/models/yamnet/yamnet.h"

#define SAMPLES 1003217 /* 62.7 s; the last patch is not whole */

static int16_t audio[SAMPLES];

/* ---- an embedder that counts letters */

struct embedder {
    int unused;
};

int embedder_load(const char *dir, struct backend *be, enum precision precision,
                  struct embedder **ret, struct err *err)
{
    static struct embedder e;

    (void)dir;
    (void)be;
    (void)precision;
    (void)err;
    *ret = &e;
    return 0;
}

void embedder_free(struct embedder *e) { (void)e; }

uint32_t embedder_size(const struct embedder *e)
{
    (void)e;
    return 3;
}

uint64_t embedder_predict_bytes(const struct embedder *e, uint32_t tokens)
{
    (void)e;
    return tokens;
}

const char *embedder_prefix(const struct embedder *e, enum embed_as as)
{
    (void)e;
    (void)as;
    return "";
}

uint32_t embedder_max_tokens(const struct embedder *e)
{
    (void)e;
    return UINT32_MAX;
}

int embedder_count(const struct embedder *e, const char *text, uint32_t *ret, struct err *err)
{
    (void)e;
    (void)err;
    *ret = (uint32_t)strlen(text);
    return 0;
}

int embedder_run(struct embedder *e, const char *const *texts, uint32_t n, enum embed_as as,
                 float *ret, struct err *err)
{
    (void)e;
    if (as != EMBED_PASSAGE)
        return err_set(err, ERR_DEVICE, "embedded as a query");
    for (uint32_t i = 0; i < n; i++) {
        double len = (double)strlen(texts[i]), norm = sqrt(len * len + 1);

        ret[3 * i] = (float)(len / norm);
        ret[3 * i + 1] = 0;
        ret[3 * i + 2] = (float)(1 / norm);
    }
    return 0;
}

/* ---- files */

/* Noise that is never silent, so that every patch has a vector. */
static char *own_recording(void)
{
    uint32_t x = 1;

    for (int i = 0; i < SAMPLES; i++) {
        x = x * 1664525u + 1013904223u;
        audio[i] = (int16_t)(1 + (x >> 18));
    }
    return files_wav("noise.wav", audio, SAMPLES);
}

static struct play_options sounds(const char *model)
{
    return (struct play_options){
        .stage = "sounds", .model_dir = model, .params = "{\"vectors\":true}", .decoders = 2};
}

/* ---- what must come */

static void check_patch(uint32_t k, const struct result_vector *v)
{
    int64_t at = (int64_t)k * YAMNET_HOP, end = at + YAMNET_PATCH;
    double x, y, norm;

    if (end > SAMPLES)
        end = SAMPLES;
    x = audio[at];
    y = audio[end - 1];
    norm = sqrt(x * x + y * y);
    assert_int_equal(v->start_ms, k * 480);
    assert_true(fabs((double)v->values[0] - x / norm) < 1e-5);
    assert_true(fabs((double)v->values[1] - y / norm) < 1e-5);
}

/* Every patch of the recording, each once, in the shard that it begins in. */
static void check_all(const struct play *p, uint64_t lease, uint32_t shards)
{
    uint32_t k = 0;

    for (uint32_t seq = 0; seq < shards; seq++) {
        const struct msg_shard_done *s = play_shard(p, lease, seq);

        assert_non_null(s);
        for (uint32_t i = 0; i < s->vector_count; i++, k++) {
            check_patch(k, &s->vectors[i]);
            assert_true(s->vectors[i].start_ms >= s->start_ms &&
                        s->vectors[i].start_ms <= s->end_ms);
        }
    }
    assert_int_equal(k, yamnet_count(SAMPLES));
}

/* In one lease, with gaps, one by one in any order, and with hardly any memory: the same. */
TEST(it_does_not_matter_how_it_is_leased)
{
    static const uint32_t lengths[] = {30000, 1000, 7000};
    char *model = files_model(), *path = own_recording();

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct play_options o = sounds(model);
        const struct msg_lease_end *end;
        struct msg_lease m, part;
        uint32_t shards, skip[] = {1};
        struct play p;

        o.pcm_bytes = i % 2 ? 1 : 0;
        play_ready(&p, &o);
        m = play_lease_of(&p, path, lengths[i]);
        play_put_lease(&p, &m);
        play_send(&p);
        end = play_until_end(&p, m.lease_id);
        assert_int_equal(end->code, 0);
        assert_true(end->reached_end && end->has_hash);
        shards = end->shards;
        assert_int_equal(p.failed_count, 0);
        check_all(&p, m.lease_id, shards);
        for (uint32_t k = 0; k < shards && k < 12; k += 3) {
            part = play_lease_of(&p, path, lengths[i]);
            part.first = part.last = k;
            play_put_lease(&p, &part);
            play_send(&p);
            end = play_until_end(&p, part.lease_id);
            assert_int_equal(end->code, 0);
            play_same(play_shard(&p, m.lease_id, k), play_shard(&p, part.lease_id, k));
            assert_int_equal(play_shards(&p, part.lease_id), 1);
        }
        part = play_lease_of(&p, path, lengths[i]);
        part.last = 2;
        part.tracks[0].skip = skip;
        part.tracks[0].skip_count = 1;
        play_put_lease(&p, &part);
        play_send(&p);
        assert_int_equal(play_until_end(&p, part.lease_id)->code, 0);
        play_same(play_shard(&p, m.lease_id, 0), play_shard(&p, part.lease_id, 0));
        play_same(play_shard(&p, m.lease_id, 2), play_shard(&p, part.lease_id, 2));
        assert_null(play_shard(&p, part.lease_id, 1));
        play_quit(&p);
    }
    free(model);
    free(path);
}

/* Whatever it stops in the middle of, it stops; what it reports is whole. */
TEST(it_can_be_stopped_in_a_tail)
{
    char *model = files_model(), *path = own_recording();

    for (int how = 0; how < 3; how++)
        for (int after = 0; after < 3; after++) {
            struct play_options o = sounds(model);
            const struct msg_lease_end *end;
            struct msg_lease m;
            struct play p;

            o.pcm_bytes = 1;
            o.fault = "slow-step:5";
            play_ready(&p, &o);
            m = play_lease_of(&p, path, 1000);
            play_put_lease(&p, &m);
            play_send(&p);
            while (p.done_count < (uint32_t)after * 2)
                assert_true(play_step(&p));
            if (how == 0)
                play_put_cancel(&p, m.lease_id);
            else if (how == 1)
                play_put_cap(&p, m.lease_id, 6);
            else
                play_put_empty(&p, MSG_DRAIN);
            play_send(&p);
            end = play_until_end(&p, m.lease_id);
            assert_int_equal(end->code, how == 1 ? 0 : ERR_CANCELLED);
            assert_int_equal(p.failed_count, 0);
            if (how == 1)
                for (uint32_t k = 0; k <= 6; k++)
                    assert_non_null(play_shard(&p, m.lease_id, k));
            for (uint32_t i = 0; i < p.done_count; i++)
                for (uint32_t v = 0; v < p.done[i].vector_count; v++)
                    check_patch((uint32_t)(p.done[i].vectors[v].start_ms / 480),
                                &p.done[i].vectors[v]);
            play_quit(&p);
        }
    free(model);
    free(path);
}

TEST(passages_are_embedded_without_decoding)
{
    char *model = files_model(), *path = own_recording();
    struct result_passage passages[200];
    char text[200][16];
    const struct play_options o = {.stage = "embed-text", .model_dir = model, .params = "{}"};
    const struct msg_lease_end *end;
    const struct msg_shard_done *s;
    struct msg_lease m, none;
    struct play p;

    for (int i = 0; i < 200; i++) {
        snprintf(text[i], sizeof(text[i]), "%.*s", i % 12, "some passage");
        passages[i] = (struct result_passage){i * 100, i * 100 + 90, text[i]};
    }
    play_ready(&p, &o);
    m = play_lease_of(&p, path, 300000);
    m.path = (char *)"/nonexistent"; /* it is not even looked at */
    m.passages = passages;
    m.passage_count = 200;
    m.total_ms = 7300001;
    none = m;
    none.lease_id = p.next_lease++;
    none.passage_count = 0;
    play_put_lease(&p, &m);
    play_put_lease(&p, &none);
    play_send(&p);
    end = play_until_end(&p, m.lease_id);
    assert_int_equal(end->code, 0);
    assert_true(end->reached_end);
    assert_int_equal(end->total_ms, 7300001);
    assert_int_equal(end->shards, 1);
    s = play_shard(&p, m.lease_id, 0);
    assert_non_null(s);
    assert_int_equal(s->end_ms, 7300001);
    assert_int_equal(s->vector_count, 200);
    for (uint32_t i = 0; i < 200; i++) {
        float len = (float)(i % 12);

        assert_int_equal(s->vectors[i].start_ms, i * 100);
        assert_int_equal(s->vectors[i].end_ms, i * 100 + 90);
        assert_true(fabsf(s->vectors[i].values[0] - len * s->vectors[i].values[2]) < 1e-5f);
    }
    play_until_end(&p, none.lease_id);
    assert_int_equal(play_shard(&p, none.lease_id, 0)->vector_count, 0);
    play_quit(&p);
    free(model);
    free(path);
}

TEST(unknown_parameters_are_refused)
{
    char *model = files_model();
    struct play_options o = sounds(model);
    struct play p;

    o.params = "{\"thresholds\":1}";
    play_start(&p, &o);
    play_until_gone(&p);
    assert_int_equal(p.fatal, ERR_USAGE);
    play_wait(&p);
    play_free(&p);
    free(model);
}

/* 8.5 kB a second: a day of them is more than a message holds, and that is said before the work. */
TEST(shards_that_give_too_much_are_refused)
{
    char *model = files_model(), *path = own_recording();
    struct play_options o = sounds(model);
    const struct msg_lease_end *end;
    struct msg_lease m;
    struct play p;

    play_ready(&p, &o);
    m = play_lease_of(&p, path, LEASE_SHARD_MS_MAX);
    play_put_lease(&p, &m);
    play_send(&p);
    end = play_until_end(&p, m.lease_id);
    assert_int_equal(end->code, ERR_LIMIT);
    assert_non_null(strstr(end->message, "--shard=61m"));
    assert_int_equal(p.done_count, 0);
    play_quit(&p);
    free(model);
    free(path);
}

int main(int argc, char **argv)
{
    int status;

    if (play_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
