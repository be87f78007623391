#include "workers/stages/drill.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "workers/stages/stage_kind.h"

#define FED_FIRST 1 /* any token */
#define TIMES 1501  /* timestamps of a window */

struct drill_lane {
    stage_done done;
    void *done_arg;
};

/* By slots, or by slots and rows. */
struct room {
    struct whisper_session *session;
    struct drill_lane *lanes;
    struct whisper_window *windows;
    struct whisper_move *moves;
    struct whisper_row *row;
    struct choice_ask *asks;
    struct choice *choices;
    struct candidate *top; /* branches + 1 of each row; NULL: one branch */
    float *pcm;            /* a window's noise, for all */
};

struct drill {
    struct whisper *model;
    bool owned;                 /* the model is to be freed */
    struct whisper_shape shape; /* of the session */
    uint32_t rows;              /* of a slot */
    struct room room;           /* all NULL: there is none */
    uint32_t lanes;             /* in slots 0 and on */
    struct stage_drill work;    /* of each */
    uint32_t steps; /* taken with them: the first encodes, each other one is a position */
};

/* ---- room */

static void vacate(struct drill *d)
{
    struct room *r = &d->room;

    whisper_session_free(r->session);
    free(r->lanes);
    free(r->windows);
    free(r->moves);
    free(r->row);
    free(r->asks);
    free(r->choices);
    free(r->top);
    free(r->pcm);
    *r = (struct room){0};
    d->shape.slots = d->lanes = d->steps = 0;
}

static int make_arrays(struct drill *d, struct err *err)
{
    uint32_t slots = d->shape.slots, branches = d->shape.branches;
    size_t rows = (size_t)slots * d->rows;
    struct room *r = &d->room;

    r->lanes = calloc(slots, sizeof(*r->lanes));
    r->windows = calloc(slots, sizeof(*r->windows));
    r->moves = calloc(slots, sizeof(*r->moves));
    r->row = calloc(rows, sizeof(*r->row));
    r->asks = calloc(rows, sizeof(*r->asks));
    r->choices = calloc(rows, sizeof(*r->choices));
    r->top = branches > 1 ? calloc(rows * (branches + 1), sizeof(*r->top)) : NULL;
    r->pcm = malloc(WHISPER_WINDOW_SAMPLES * sizeof(*r->pcm));
    if (!r->lanes || !r->windows || !r->moves || !r->row || !r->asks || !r->choices || !r->pcm ||
        (branches > 1 && !r->top))
        return err_set(err, ERR_NOMEM, "no memory to measure %u windows at once", slots);
    for (size_t i = 0; i < WHISPER_WINDOW_SAMPLES; i++)
        r->pcm[i] = (float)number_uniform(7, i) * 0.2f - 0.1f;
    for (uint32_t i = 0; i < slots; i++) {
        r->windows[i] = (struct whisper_window){i, r->pcm, WHISPER_WINDOW_SAMPLES};
        r->moves[i] = (struct whisper_move){.slot = i, .from = 0, .to = 1};
    }
    return 0;
}

/* Ids of this vocabulary in the order of a multilingual model's: text, the end, then a timestamp
 * for each 20 ms. A model with fewer tokens than that has fewer timestamps. */
static int set_rules(struct drill *d, struct err *err)
{
    int32_t vocab = (int32_t)whisper_config(d->model)->vocab_size;
    int32_t times = vocab > 2 * TIMES ? TIMES : vocab / 2;
    int32_t begin = vocab - times, blank = 0;
    struct rules_spec spec = {
        .vocab = (uint32_t)vocab,
        .eot = begin - 1,
        .no_speech = -1,
        .timestamp_begin = begin,
        .timestamp_end = vocab - 1,
        .max_initial = begin + (times > 50 ? 50 : times - 1),
        .never_first = &blank,
        .never_first_count = 1,
    };

    if (times < 1 || begin < 1)
        return err_set(err, ERR_MODEL, "a vocabulary of %d tokens cannot be measured", vocab);
    return whisper_session_rules(d->room.session, &spec, err);
}

static struct drill *drill_of(const struct stage *s);

int drill_resize(struct stage *drill, uint32_t slots, uint32_t windows, struct err *err)
{
    struct drill *d = drill_of(drill);
    int rc;

    vacate(d);
    if (slots == 0)
        return 0;
    d->shape.slots = slots;
    d->shape.windows = windows;
    rc = whisper_session_new(d->model, d->shape, &d->room.session, err);
    if (rc == 0)
        rc = set_rules(d, err);
    if (rc == 0)
        rc = make_arrays(d, err);
    if (rc != 0)
        vacate(d);
    return rc;
}

/* ---- lanes and steps */

static int drill_add(void *self, const struct stage_work *work, stage_done done, void *done_arg,
                     struct stage_lane **ret, struct err *err)
{
    struct drill *d = self;

    if (d->lanes == d->shape.slots || d->steps > 0)
        return err_set(err, ERR_USAGE, "there is no room for another window");
    d->work = work->drill;
    d->room.lanes[d->lanes] = (struct drill_lane){done, done_arg};
    *ret = (struct stage_lane *)&d->room.lanes[d->lanes++];
    return 0;
}

static int encode(struct drill *d, struct err *err)
{
    struct room *r = &d->room;
    int rc;

    for (uint32_t i = 0; i < d->lanes * d->rows; i++) {
        r->row[i] = (struct whisper_row){i / d->rows, i % d->rows, 0, FED_FIRST};
        r->asks[i] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
    }
    whisper_session_stages(r->session, d->work.apart);
    rc = whisper_encode(r->session, r->windows, d->lanes, err);
    whisper_session_stages(r->session, false);
    return rc;
}

/* What is fed next: the token that was chosen, of those that can be fed. */
static void take_choice(struct room *r, uint32_t i)
{
    struct choice_ask *ask = &r->asks[i];
    int32_t token = r->choices[i].token > 0 ? r->choices[i].token : FED_FIRST;

    r->row[i].token = token;
    ask->before = ask->last;
    ask->last = token;
    ask->count++;
}

static int decode(struct drill *d, uint32_t pos, struct err *err)
{
    uint32_t n = d->lanes * d->rows;
    bool chosen = pos >= d->work.prompt;
    struct room *r = &d->room;
    int rc = 0;

    for (uint32_t i = 0; i < n; i++) {
        r->row[i].pos = pos;
        r->asks[i].what = chosen ? CHOOSE_TOKEN : 0;
    }
    if (d->rows > 1 && pos > 0)
        rc = whisper_branch(r->session, r->moves, d->lanes, err);
    if (rc == 0)
        rc = whisper_choose(r->session, r->row, r->asks, n, r->choices, r->top, err);
    for (uint32_t i = 0; rc == 0 && chosen && i < n; i++)
        take_choice(r, i);
    return rc;
}

static void tell_all(struct drill *d)
{
    static const struct stage_result one = {.windows = 1, .end_sample = WHISPER_WINDOW_SAMPLES};

    for (uint32_t i = 0; i < d->lanes; i++)
        d->room.lanes[i].done(d->room.lanes[i].done_arg, &one, NULL);
    d->lanes = d->steps = 0;
}

static int drill_step(void *self, bool *progress, struct err *err)
{
    struct drill *d = self;
    int rc;

    *progress = d->lanes > 0;
    if (d->lanes == 0)
        return 0;
    rc = d->steps == 0 ? encode(d, err) : decode(d, d->steps - 1, err);
    if (rc != 0)
        d->lanes = d->steps = 0;
    else if (d->steps++ == d->work.prompt + d->work.tokens)
        tell_all(d);
    return rc;
}

/* ---- what it takes */

static double encoder_flop(const struct whisper_config *c)
{
    double d = c->d_model, t = WHISPER_POSITIONS, ffn = c->encoder_ffn;
    double conv = 2.0 * WHISPER_FRAMES * d * 3.0 * c->mel_bins + 2.0 * t * d * 3.0 * d;

    return conv + c->encoder_layers * (2.0 * t * (4.0 * d * d + 2.0 * d * ffn) + 4.0 * t * t * d);
}

static double step_bytes(const struct drill *s)
{
    const struct whisper_config *c = whisper_config(s->model);
    enum precision precision = whisper_precision(s->model);
    double size = (double)dtype_size(precision_type(precision)), d = c->d_model;
    double weights = c->decoder_layers * (6.0 * d * d + 2.0 * d * c->decoder_ffn);

    return precision_weight_bytes(precision) * weights +
           size * ((double)c->vocab_size * d +
                   (double)s->shape.slots * c->decoder_layers * 2.0 * d * WHISPER_POSITIONS);
}

void drill_meter(const struct stage *drill, struct drill_meter *ret)
{
    const struct drill *d = drill_of(drill);

    *ret = (struct drill_meter){
        .positions = whisper_config(d->model)->max_target_positions,
        .default_slots = whisper_default_slots(d->model, d->shape.branches),
        .weight_bytes = whisper_weight_bytes(d->model),
        .slot_bytes = whisper_slot_bytes(d->model, d->shape.branches),
        .encoder_flop = encoder_flop(whisper_config(d->model)),
        .step_bytes = step_bytes(d),
    };
    if (d->room.session)
        whisper_session_times(d->room.session, &ret->times);
}

/* ---- the stage */

static void drill_close(void *self)
{
    struct drill *d = self;

    vacate(d);
    if (d->owned)
        whisper_free(d->model);
    free(d);
}

static uint32_t drill_slots(const void *self) { return ((const struct drill *)self)->shape.slots; }

static uint32_t drill_windows(const void *self)
{
    return whisper_session_windows(((const struct drill *)self)->room.session);
}

static enum precision drill_precision(const void *self)
{
    return whisper_precision(((const struct drill *)self)->model);
}

/* What drill.h says that it can. No row of STAGE_KINDS: nobody asks for it by name. */
static const struct stage_kind drill_kind = {
    .name = "drill",
    .close = drill_close,
    .slots = drill_slots,
    .windows = drill_windows,
    .precision = drill_precision,
    .add = drill_add,
    .step = drill_step,
};

static struct drill *drill_of(const struct stage *s) { return stage_self(s, &drill_kind); }

/* Owns the model where it is said so, also after an error. */
static int wrap(struct whisper *model, bool owned, const struct whisper_shape *shape, uint32_t rows,
                struct stage **ret, struct err *err)
{
    struct drill *d = calloc(1, sizeof(*d));

    if (!d) {
        if (owned)
            whisper_free(model);
        return err_set(err, ERR_NOMEM, "no memory to measure with");
    }
    *d = (struct drill){.model = model, .owned = owned, .shape = *shape, .rows = rows};
    return stage_new(&drill_kind, d, ret, err);
}

int drill_new(struct whisper *model, const struct whisper_shape *shape, uint32_t rows,
              struct stage **ret, struct err *err)
{
    return wrap(model, false, shape, rows, ret, err);
}

int drill_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
               struct err *err)
{
    const struct whisper_shape shape = {.branches = 1};
    struct whisper_config config;
    struct whisper *model = NULL;
    int rc;

    if (strchr(setup->dir, '/'))
        rc = whisper_load(setup->dir, be, setup->precision, &model, err);
    else if ((rc = whisper_preset(setup->dir, &config, err)) == 0)
        rc = whisper_random(&config, 1, be, setup->precision, &model, err);
    return rc != 0 ? rc : wrap(model, true, &shape, 1, ret, err);
}
