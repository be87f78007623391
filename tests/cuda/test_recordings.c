/* Steps that the CUDA module records and runs again on other data, what it refuses to record, and
 * steps ahead of the host. What they compute: tests/ops. */
#include "tests/cuda/operations.h"

enum { VOCAB = 300, ROWS = 3, TOP = 6, KEYS = 5, WIDTH = 64 };

/* A step of a beam search: cross-attention, choice, candidates. */
struct step {
    struct backend *be;
    struct rules *rules;
    struct kv kv;
    struct tensor q, out, logits;
    struct token_row *rows;
    struct choice_ask *asks;
    struct choice *choices;
    struct candidate *top;
};

static int run_step(struct step *s, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int rc = ops->attention_rows(s->be, s->q, s->kv, s->rows, KEYS, s->out, err);

    if (rc == 0)
        rc = ops->choose(s->be, s->rules, s->logits, s->asks, s->choices, err);
    return rc == 0 ? ops->top(s->be, s->logits, TOP, s->top, err) : rc;
}

static void open_step(struct step *s, bool deterministic)
{
    const struct rules_spec spec = {.vocab = VOCAB,
                                    .eot = 200,
                                    .no_speech = -1,
                                    .timestamp_begin = 210,
                                    .timestamp_end = 299,
                                    .max_initial = 240};
    float *k = values(2 * KEYS * WIDTH), *v = values(2 * KEYS * WIDTH);
    const uint32_t slots[] = {0, 1};
    struct err e;

    s->be = open_device(deterministic);
    assert_ok(s->be->ops->rules_new(s->be, &spec, &s->rules, &e), e);
    s->kv = (struct kv){.type = DTYPE_F32,
                        .heads = 1,
                        .capacity = KEYS,
                        .slots = 2,
                        .slot_stride = s->be->ops->kv_bytes(DTYPE_F32, 1, KEYS)};
    s->kv.data = device_new(s->be, 2 * s->kv.slot_stride, NULL);
    struct tensor tk = tensor_new(s->be, 2 * KEYS, WIDTH, k),
                  tv = tensor_new(s->be, 2 * KEYS, WIDTH, v);
    assert_ok(s->be->ops->kv_fill(s->be, s->kv, slots, 2, tk, tv, &e), e);
    s->q = tensor_new(s->be, ROWS, WIDTH, NULL);
    s->out = tensor_new(s->be, ROWS, WIDTH, NULL);
    s->logits = tensor_new(s->be, ROWS, VOCAB, NULL);
    s->rows = device_new(s->be, ROWS * sizeof(*s->rows), NULL);
    s->asks = device_new(s->be, ROWS * sizeof(*s->asks), NULL);
    s->choices = device_new(s->be, ROWS * sizeof(*s->choices), NULL);
    s->top = device_new(s->be, ROWS * TOP * sizeof(*s->top), NULL);
    free(k);
    free(v);
}

/* Other rows, queries and logits than before. */
static void fill_step(struct step *s, int round)
{
    float *q = values(ROWS * WIDTH), *logits = values(ROWS * VOCAB);
    struct token_row rows[ROWS];
    struct choice_ask asks[ROWS];
    struct err e;

    for (int i = 0; i < ROWS; i++) {
        rows[i] = (struct token_row){0, -1, -1, (i + round) % 2};
        asks[i] = (struct choice_ask){.count = 2,
                                      .last = 5,
                                      .before = 215,
                                      .last_time = 215,
                                      .what = (i + round) % 3 == 0 ? CHOOSE_TOKEN | CHOOSE_NO_TIMES
                                                                   : CHOOSE_TOKEN};
    }
    assert_ok(s->be->ops->write(s->be, s->q.data, q, ROWS * WIDTH * sizeof(*q), &e), e);
    assert_ok(s->be->ops->write(s->be, s->logits.data, logits, ROWS * VOCAB * sizeof(*logits), &e),
              e);
    assert_ok(s->be->ops->write(s->be, s->rows, rows, sizeof(rows), &e), e);
    assert_ok(s->be->ops->write(s->be, s->asks, asks, sizeof(asks), &e), e);
    free(q);
    free(logits);
}

struct result {
    float out[ROWS * WIDTH], logits[ROWS * VOCAB];
    struct choice choices[ROWS];
    struct candidate top[ROWS * TOP];
};

static void read_step(struct step *s, struct result *r)
{
    struct err e;

    memset(r, 0, sizeof(*r));
    assert_ok(s->be->ops->read(s->be, r->out, s->out.data, sizeof(r->out), &e), e);
    assert_ok(s->be->ops->read(s->be, r->logits, s->logits.data, sizeof(r->logits), &e), e);
    assert_ok(s->be->ops->read(s->be, r->choices, s->choices, sizeof(r->choices), &e), e);
    assert_ok(s->be->ops->read(s->be, r->top, s->top, sizeof(r->top), &e), e);
}

/* Recorded once and run on other data, as if the calls were made again. */
static void test_recording(void **unused)
{
    struct recording *recording;
    struct result direct, again, first = {0};
    struct step s = {0};
    struct err e;

    (void)unused;
    open_step(&s, false);
    fill_step(&s, 0);
    assert_ok(run_step(&s, &e), e); /* scratch memory grows at first use */
    assert_ok(s.be->ops->record_begin(s.be, &e), e);
    assert_ok(run_step(&s, &e), e);
    assert_ok(s.be->ops->record_end(s.be, &recording, &e), e);
    for (int round = 1; round < 4; round++) {
        const uint32_t before = operations_seed;

        fill_step(&s, round);
        assert_ok(run_step(&s, &e), e);
        read_step(&s, &direct);
        operations_seed = before;
        fill_step(&s, round);
        assert_ok(s.be->ops->record_run(s.be, recording, &e), e);
        read_step(&s, &again);
        assert_memory_equal(&direct, &again, sizeof(direct));
        assert_memory_not_equal(&direct, &first, sizeof(direct));
        for (int i = 0; i < ROWS; i++) /* the choice is the first candidate */
            assert_int_equal(direct.top[i * TOP].token, direct.choices[i].token);
        first = direct;
    }
    s.be->ops->record_free(s.be, recording);
    s.be->ops->rules_free(s.be, s.rules);
    backend_close(s.be);
}

/* Between record_begin and record_end. */
static void images_not_recorded(struct backend *be, const float *w)
{
    const struct conv2d_spec spec = {
        .in = 1, .out = 8, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    static const uint32_t at[] = {0, 1}, of[] = {0};
    struct tensor x = tensor_of(DTYPE_F32, NULL, 1, 8);
    const struct spans one = {at, 1};
    struct conv2d *conv = NULL;
    struct err e;

    assert_int_equal(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, NULL, &conv, &e), ERR_DEVICE);
    assert_null(conv);
    assert_int_equal(be->ops->resample(be, NULL, 1, NULL, x, NULL, NULL, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(be->ops->pool(be, POOL_MEAN, one, x, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(be->ops->weighted_stats(be, 1, x, of, x, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(be->ops->attention_spans(be, one, 1, 8, 1.0f, x, x, x, NULL, x, &e),
                     ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
}

/* What takes host memory along cannot be recorded, says so, and spoils nothing. */
static void test_not_recorded(void **unused)
{
    struct recording *recording;
    struct lstm *l, *other = NULL;
    float *w = values(32 * 8);
    const struct lstm_weights weights = {w, w, NULL, NULL};
    struct step s = {0};
    struct err e;

    (void)unused;
    open_step(&s, false);
    fill_step(&s, 0);
    assert_ok(s.be->ops->lstm_new(s.be, 8, 8, 1, &weights, &l, &e), e);
    struct tensor x = tensor_new(s.be, 2, 8, NULL), h = tensor_new(s.be, 1, 8, NULL);
    assert_ok(s.be->ops->record_begin(s.be, &e), e);
    assert_int_equal(s.be->ops->lstm(s.be, l, 1, x, NULL, h, h, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(s.be->ops->lstm_new(s.be, 8, 8, 1, &weights, &other, &e), ERR_DEVICE);
    assert_null(other);
    images_not_recorded(s.be, w);
    assert_ok(run_step(&s, &e), e);
    assert_ok(s.be->ops->record_end(s.be, &recording, &e), e);
    assert_ok(s.be->ops->record_run(s.be, recording, &e), e);
    s.be->ops->record_free(s.be, recording);
    s.be->ops->lstm_free(s.be, l);
    s.be->ops->rules_free(s.be, s.rules);
    backend_close(s.be);
    free(w);
}

/* Rows that follow are what the host would have written, knowing the choices; and what two boxes
 * hold is what was there when it was posted. */
static void test_follow(void **unused)
{
    enum { N = 6 };
    const struct rules_spec spec = {.vocab = VOCAB,
                                    .eot = 200,
                                    .no_speech = -1,
                                    .timestamp_begin = 210,
                                    .timestamp_end = 299,
                                    .max_initial = 240};
    const struct token_row fed[N] = {{4, 3, 7, 4}, {1, 3, 7, 1},  {0, 3, 7, 0},
                                     {2, 3, 7, 2}, {-1, 0, 0, 0}, {3, 3, 7, 3}};
    const struct choice_ask asked[N] = {
        {.count = 0, .last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.last = -1, .before = -1},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = 0}};
    const struct choice chosen[N] = {{.token = 11, .usable = 1},
                                     {.token = 220, .usable = 1},
                                     {.token = 200, .usable = 1},
                                     {.token = -1, .usable = 1},
                                     {.token = -1},
                                     {.token = 12, .usable = 1}};
    struct token_row next[N] = {{4, 4, TOKEN_FOLLOWS, 4}, {1, 4, TOKEN_FOLLOWS, 1},
                                {0, 4, TOKEN_FOLLOWS, 0}, {2, 4, TOKEN_FOLLOWS, 2},
                                {3, 4, TOKEN_FOLLOWS, 3}, {5, 4, 77, 5}};
    struct choice_ask questions[N];
    struct backend *be = open_device(false);
    struct token_row *rows = device_new(be, sizeof(fed), fed), got[N], posted[N];
    struct choice_ask *asks = device_new(be, sizeof(asked), asked), got_asks[N];
    struct choice *choices = device_new(be, sizeof(chosen), chosen);
    struct token_tail *tails = device_new(be, N * sizeof(*tails), NULL);
    struct rules *rules;
    struct err e;

    (void)unused;
    assert_ok(be->ops->rules_new(be, &spec, &rules, &e), e);
    assert_ok(be->ops->note(be, rules, rows, asks, choices, N, tails, &e), e);
    assert_ok(be->ops->post(be, 0, rows, sizeof(fed), &e), e);
    for (int i = 0; i < N; i++)
        questions[i] = (struct choice_ask){
            .last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN, .uniform = 0.25};
    assert_ok(be->ops->write(be, rows, next, sizeof(next), &e), e);
    assert_ok(be->ops->write(be, asks, questions, sizeof(questions), &e), e);
    assert_ok(be->ops->follow(be, tails, rows, asks, N, &e), e);
    assert_ok(be->ops->post(be, 1, rows, sizeof(fed), &e), e);
    assert_ok(be->ops->read(be, got_asks, asks, sizeof(got_asks), &e), e);
    assert_ok(be->ops->collect(be, 0, posted, sizeof(posted), &e), e);
    assert_memory_equal(posted, fed, sizeof(fed));
    assert_ok(be->ops->collect(be, 1, got, sizeof(got), &e), e);
    assert_int_equal(got[0].token, 11);
    assert_int_equal(got[1].token, 220);
    for (int i = 0; i < N; i++) /* 2: ended; 3: nothing allowed; 4: asked for no token */
        assert_int_equal(got[i].slot, i < 2 || i == 5 ? next[i].slot : -1);
    assert_int_equal(got[5].token, 77);
    assert_true(got_asks[0].count == 1 && got_asks[0].last == 11 && got_asks[0].before == -1 &&
                got_asks[0].last_time == -1 && got_asks[0].what == CHOOSE_TOKEN &&
                got_asks[0].uniform == 0.25);
    assert_true(got_asks[1].count == 5 && got_asks[1].last == 220 && got_asks[1].before == 9 &&
                got_asks[1].last_time == 220);
    for (int i = 2; i < 5; i++)
        assert_int_equal(got_asks[i].what, 0);
    be->ops->rules_free(be, rules);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_not_recorded),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(nothing_held),
    };

    return cmocka_run_group_tests_name("cuda recordings", tests, open_module, NULL);
}
