/* Drills: how many steps lanes take, of how many rows, and what room they have. A small model with
 * random weights on the host; how long it takes is no test's to say. */
#include "tests/common/test.h"

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/synthetic_load.h"

struct told {
    uint32_t lanes, windows, errors;
};

static struct backend *be;
static struct asr_model *model;

static int setup(void **state)
{
    static const struct whisper_config config = {64, 80, 2151, 1, 1, 256, 1, 1, 256, 1500, 448};
    struct err e = {0};

    (void)state;
    return backend_open_host(1, &be, &e) ||
           whisper_random(&config, 1, be, PRECISION_F32, &model, &e);
}

static int teardown(void **state)
{
    (void)state;
    whisper_free(model);
    backend_close(be);
    return 0;
}

static struct stage *new_drill(uint32_t branches, uint32_t rows, uint32_t slots)
{
    const struct asr_shape shape = {.branches = branches};
    struct stage *s = NULL;
    struct err e = {0};

    assert_ok(synthetic_new(model, &shape, rows, &s, &e), e);
    assert_ok(synthetic_resize(s, slots, 1, &e), e);
    return s;
}

static void on_done(void *arg, const struct stage_result *r, const struct err *err)
{
    struct told *t = arg;

    (void)err;
    t->lanes++;
    t->windows += r ? r->windows : 0;
    t->errors += r == NULL;
}

static void add(struct stage *s, uint32_t prompt, uint32_t tokens, struct told *t)
{
    const struct stage_work work = {.synthetic_load = {.prompt = prompt, .tokens = tokens}};
    struct stage_lane *lane = NULL;
    struct err e = {0};

    assert_ok(stage_add(s, &work, on_done, t, &lane, &e), e);
}

/* Steps until nothing is left to do; at most `most` of them. */
static uint32_t run(struct stage *s, uint32_t most)
{
    uint32_t steps = 0;
    struct err e = {0};
    bool progress;

    while (steps < most) {
        assert_ok(stage_step(s, &progress, &e), e);
        if (!progress)
            break;
        steps++;
    }
    return steps;
}

static struct asr_times times_of(const struct stage *s)
{
    struct synthetic_meter m;

    synthetic_meter(s, &m);
    return m.times;
}

/* Windows are encoded in one step, have one for each position, and end together; then others can
 * be added. */
TEST(lanes_go_in_step)
{
    struct stage *s = new_drill(1, 1, 3);
    struct told t = {0};

    for (int i = 0; i < 3; i++)
        add(s, 2, 3, &t);
    assert_int_equal(run(s, 5), 5);
    assert_int_equal(t.lanes, 0);
    assert_int_equal(run(s, 100), 1);
    assert_int_equal(t.lanes, 3);
    assert_int_equal(t.windows, 3);
    assert_int_equal(times_of(s).windows, 3);
    assert_int_equal(times_of(s).steps, 5);
    assert_int_equal(times_of(s).tokens, 15);
    add(s, 0, 0, &t);
    add(s, 0, 0, &t);
    assert_int_equal(run(s, 100), 1); /* the encoder's alone */
    assert_int_equal(t.windows, 5);
    assert_int_equal(t.errors, 0);
    assert_int_equal(times_of(s).windows, 5);
    assert_int_equal(times_of(s).steps, 5);
    stage_close(s);
}

/* Each hypothesis is a row of a step, of the rows that a transcription has of its branches. */
TEST(hypotheses_are_rows)
{
    static const struct {
        uint32_t branches, rows;
    } shapes[] = {{3, 3}, {3, 1}};
    struct told t = {0};

    for (size_t i = 0; i < 2; i++) {
        struct stage *s = new_drill(shapes[i].branches, shapes[i].rows, 2);

        add(s, 1, 3, &t);
        add(s, 1, 3, &t);
        assert_int_equal(run(s, 100), 5);
        assert_int_equal(times_of(s).tokens, 2 * 4 * shapes[i].rows);
        stage_close(s);
    }
    assert_int_equal(t.windows, 4);
}

static void add_beside(struct stage *s, uint32_t prompt, uint32_t tokens, struct told *t)
{
    const struct stage_work work = {
        .synthetic_load = {.prompt = prompt, .tokens = tokens, .beside = true}};
    struct stage_lane *lane = NULL;
    struct err e = {0};

    assert_ok(stage_add(s, &work, on_done, t, &lane, &e), e);
}

/* One encoding and the steps of a window for each slot, as often as it is asked for; where windows
 * are there at once no step is without any slot. */
TEST(windows_follow_each_other)
{
    static const uint32_t shapes[] = {1, 3};

    for (size_t k = 0; k < 2; k++) {
        struct stage *s = new_drill(shapes[k], shapes[k], 3);
        struct told t = {0};

        for (int i = 0; i < 3; i++)
            add(s, 2, 4, &t);
        run(s, 100);
        for (uint32_t round = 1; round <= 3; round++) {
            for (int i = 0; i < 3; i++)
                add_beside(s, 2, 4, &t);
            assert_int_equal(run(s, 100), 6);
            assert_int_equal(t.windows, 3 + 3 * round);
            assert_int_equal(times_of(s).windows, 3 + 3 * round);
            assert_int_equal(times_of(s).steps, 6 + 6 * round);
            assert_int_equal(times_of(s).tokens, (18 + 18 * round) * shapes[k]);
        }
        assert_int_equal(t.errors, 0);
        stage_close(s);
    }
}

static struct stage *new_words(uint32_t slots)
{
    const struct asr_shape shape = {.branches = 1, .align_heads = model->align_heads};
    struct stage *s = NULL;
    struct err e = {0};

    assert_true(model->align_heads > 0);
    assert_ok(synthetic_new(model, &shape, 1, &s, &e), e);
    assert_ok(synthetic_resize(s, slots, 1, &e), e);
    return s;
}

static const struct asr_ops *real;
static uint32_t aligned, calls;

static int counted_align(struct asr_session *s, const struct asr_alignment *w, uint32_t n,
                         struct err *err)
{
    calls++;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w[i].slot, aligned++ % 3);
        assert_int_equal(w[i].n, 6);
    }
    return real->align(s, w, n, err);
}

/* Each window that ends is aligned once, in one call where there is room, in turn or beside others;
 * without room for that, or where nobody asks, none is. */
TEST(words_are_placed)
{
    const struct stage_synthetic plain = {.prompt = 2, .tokens = 4};
    struct stage_synthetic work = plain;
    struct stage *s = new_words(3), *without = new_drill(1, 1, 3);
    struct asr_ops ops = *model->ops;
    struct told t = {0};
    struct stage_lane *lane;
    struct err e = {0};
    double seconds = 0;

    real = model->ops;
    ops.align = counted_align;
    model->ops = &ops;
    aligned = calls = 0;
    for (uint32_t round = 0; round < 4; round++) { /* plain, in turn, beside, and without room */
        struct stage *on = round == 3 ? without : s;

        work.words = round > 0;
        work.beside = round == 2;
        for (int i = 0; i < 3; i++)
            assert_ok(
                stage_add(on, &(struct stage_work){.synthetic_load = work}, on_done, &t, &lane, &e),
                e);
        run(on, 100);
        assert_int_equal(aligned, round == 0 ? 0 : round == 1 ? 3 : 6);
    }
    assert_int_equal(t.windows, 12);
    assert_int_equal(t.errors, 0);
    assert_ok(synthetic_align(s, plain, &seconds, &e), e);
    assert_int_equal(aligned, 9);
    assert_true(seconds > 0);
    assert_int_equal(synthetic_align(without, plain, &seconds, &e), ERR_USAGE);
    model->ops = real;
    stage_close(s);
    stage_close(without);
}

/* They follow windows that are there, of as many positions, in all slots. */
TEST(windows_that_follow_none)
{
    struct stage *s = new_drill(1, 1, 2);
    struct told t = {0};
    struct err e = {0};
    bool progress;

    for (uint32_t before = 0; before < 3; before++) {
        for (uint32_t i = 0; before > 0 && i < 2; i++)
            add(s, 0, before == 1 ? 3 : 4, &t);
        run(s, 100);
        for (uint32_t i = 0; i < (before == 2 ? 1 : 2); i++)
            add_beside(s, 0, 4, &t);
        assert_int_equal(stage_step(s, &progress, &e), ERR_USAGE);
    }
    assert_int_equal(times_of(s).windows, 4);
    stage_close(s);
}

static void refuse(struct stage *s)
{
    const struct stage_work work = {.synthetic_load = {.tokens = 1}};
    struct stage_lane *lane;
    struct err e = {0};

    assert_int_equal(stage_add(s, &work, on_done, NULL, &lane, &e), ERR_USAGE);
}

/* No more lanes than slots, none between the steps of others; nobody is told of those that go with
 * their room or their stage. */
TEST(lanes_that_cannot_be)
{
    struct stage *s = new_drill(1, 1, 2);
    struct told gone = {0}, kept = {0};
    struct err e = {0};

    add(s, 0, 2, &gone);
    assert_int_equal(run(s, 2), 2);
    refuse(s);
    assert_ok(synthetic_resize(s, 2, 1, &e), e);
    add(s, 0, 1, &kept);
    add(s, 0, 1, &kept);
    refuse(s);
    assert_int_equal(run(s, 100), 2);
    assert_int_equal(kept.windows, 2);
    add(s, 0, 2, &gone);
    assert_int_equal(run(s, 1), 1);
    stage_close(s);
    assert_int_equal(gone.lanes, 0);
}

/* Positions past the decoder's last are refused, and the lanes are gone. */
TEST(errors_void_the_lanes)
{
    struct stage *s = new_drill(1, 1, 1);
    struct told t = {0};
    struct err e = {0};
    bool progress = true;
    int rc = 0;

    add(s, 500, 0, &t);
    for (int i = 0; i < 1000 && rc == 0 && progress; i++)
        rc = stage_step(s, &progress, &e);
    assert_int_equal(rc, ERR_DEVICE);
    assert_int_equal(times_of(s).steps, 448);
    assert_int_equal(run(s, 100), 0);
    assert_int_equal(t.lanes, 0);
    add(s, 0, 1, &t);
    assert_int_equal(run(s, 100), 2);
    assert_int_equal(t.windows, 1);
    stage_close(s);
}

/* Without room there are no lanes; what does not fit leaves nothing behind, and less may fit. */
TEST(room)
{
    struct stage *s = new_drill(1, 1, 0);
    uint64_t before = be->allocated, budget = be->budget;
    struct told t = {0};
    struct synthetic_meter m;
    struct err e = {0};

    assert_int_equal(stage_slots(s), 0);
    refuse(s);
    synthetic_meter(s, &m);
    assert_int_equal(m.slot_bytes, whisper_slot_bytes(model, (struct asr_shape){.branches = 1}));
    assert_int_equal(m.positions, 448);
    be->budget = before + 20 * m.slot_bytes;
    assert_int_equal(synthetic_resize(s, 4096, 1, &e), ERR_VRAM);
    assert_int_equal(be->allocated, before);
    assert_int_equal(stage_slots(s), 0);
    be->budget = budget;
    assert_ok(synthetic_resize(s, 2, 1, &e), e);
    assert_int_equal(stage_slots(s), 2);
    assert_int_equal(stage_windows(s), 1);
    assert_true(be->allocated > before);
    add(s, 0, 1, &t);
    assert_int_equal(run(s, 100), 2);
    assert_int_equal(t.windows, 1);
    assert_ok(synthetic_resize(s, 0, 0, &e), e);
    assert_int_equal(be->allocated, before);
    stage_close(s);
}

TEST_MAIN(setup, teardown)
