#include "workers/stages/synthetic_load.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "gpu/backend.h"
#include "workers/models/asr_family.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/stage_kind.h"

#define FED_FIRST 1 /* any token */
#define TIMES 1501  /* timestamps of a window */
#define BATCHES 4   /* that the slots' windows are replaced in, at least: as a flight's are */

/* A window; on a run's full course one is followed by the next. */
struct synthetic_lane {
    stage_done done;
    void *done_arg;
    uint32_t pos;     /* the next, of the window in its slot */
    uint32_t left;    /* positions to go */
    uint32_t windows; /* that it has begun */
    bool asked;       /* a step under way chooses the token before `pos` */
};

/* Rows that are computed together. */
struct synthetic_step {
    struct asr_row *row;
    struct choice_ask *asks;
    uint32_t *window; /* of its lane when it was begun */
    uint32_t n;
};

/* By slots, or by slots and rows. */
struct room {
    struct asr_session *session;
    struct synthetic_lane *lanes;
    struct asr_window *windows;
    struct asr_move *moves;
    struct choice_ask *course; /* of each hypothesis */
    struct synthetic_step step[ASR_AHEAD];
    struct choice *choices; /* of a step: */
    struct candidate *top;  /* branches + 1 of each row; NULL: one branch */
    float *pcm;             /* a window's noise, for all */
    /* Where words are placed; NULL: they are not. By align_tokens: */
    struct asr_alignment *aligned;
    int32_t *tokens;
    uint32_t *first_frame;
    double *logprob;
};

struct synthetic_load {
    struct asr_model *model;
    bool owned;                       /* the model is to be freed */
    struct asr_shape shape;           /* of the session */
    uint32_t rows;                    /* of a slot */
    struct room room;                 /* all NULL: there is none */
    uint32_t lanes;                   /* in slots 0 and on */
    struct stage_synthetic work;      /* of each */
    uint32_t steps;                   /* taken with them */
    uint64_t steps_begun, steps_done; /* of the decoder */
    int32_t eot;
    uint32_t begun;  /* lanes whose encoding was begun, */
    uint32_t coming; /*   of which so many, the last ones, are not there yet, */
    uint32_t waves;  /*   in so many calls */
    uint32_t seen;   /* positions of the windows that all slots hold at their end; 0: they do not */
};

/* ---- room */

static void free_synthetic_buffers(struct synthetic_load *d)
{
    struct room *r = &d->room;

    d->model->ops->session_free(r->session);
    free(r->lanes);
    free(r->windows);
    free(r->moves);
    for (int i = 0; i < ASR_AHEAD; i++) {
        free(r->step[i].row);
        free(r->step[i].asks);
        free(r->step[i].window);
    }
    free(r->course);
    free(r->choices);
    free(r->top);
    free(r->pcm);
    free(r->aligned);
    free(r->tokens);
    free(r->first_frame);
    free(r->logprob);
    *r = (struct room){0};
    d->shape.slots = d->lanes = d->steps = d->seen = 0;
    d->steps_begun = d->steps_done = 0;
}

static bool make_steps(struct room *r, size_t rows)
{
    bool made = true;

    for (int i = 0; i < ASR_AHEAD; i++) {
        struct synthetic_step *s = &r->step[i];

        s->row = calloc(rows, sizeof(*s->row));
        s->asks = calloc(rows, sizeof(*s->asks));
        s->window = calloc(rows, sizeof(*s->window));
        made = made && s->row && s->asks && s->window;
    }
    return made;
}

static int make_arrays(struct synthetic_load *d, struct err *err)
{
    uint32_t slots = d->shape.slots, branches = d->shape.branches;
    size_t rows = (size_t)slots * d->rows, window = d->model->window_samples;
    struct room *r = &d->room;

    r->lanes = calloc(slots, sizeof(*r->lanes));
    r->windows = calloc(slots, sizeof(*r->windows));
    r->moves = calloc(slots, sizeof(*r->moves));
    r->course = calloc(rows, sizeof(*r->course));
    r->choices = calloc(rows, sizeof(*r->choices));
    r->top = branches > 1 ? calloc(rows * (branches + 1), sizeof(*r->top)) : NULL;
    r->pcm = malloc(window * sizeof(*r->pcm));
    if (!make_steps(r, rows) || !r->lanes || !r->windows || !r->moves || !r->course ||
        !r->choices || !r->pcm || (branches > 1 && !r->top))
        return err_set(err, ERR_NOMEM, "no memory to measure %u windows at once", slots);
    for (size_t i = 0; i < window; i++)
        r->pcm[i] = (float)number_uniform(7, i) * 0.2f - 0.1f;
    for (uint32_t i = 0; i < slots; i++)
        r->windows[i] = (struct asr_window){.slot = i, .pcm = r->pcm, .n = window};
    return 0;
}

static int make_alignment(struct synthetic_load *d, struct err *err)
{
    struct room *r = &d->room;
    const size_t tokens = r->session->align_tokens;

    if (!d->shape.align_heads || !d->model->align_heads)
        return 0;
    r->aligned = calloc(tokens, sizeof(*r->aligned));
    r->tokens = calloc(tokens, sizeof(*r->tokens));
    r->first_frame = calloc(tokens, sizeof(*r->first_frame));
    r->logprob = calloc(tokens, sizeof(*r->logprob));
    if (!r->aligned || !r->tokens || !r->first_frame || !r->logprob)
        return err_set(err, ERR_NOMEM, "no memory to measure times of words");
    return 0;
}

/* Ids of this vocabulary in the order of a multilingual model's: text, the end, then a timestamp
 * for each 20 ms. A model with fewer tokens than that has fewer timestamps. */
static int set_rules(struct synthetic_load *d, struct err *err)
{
    int32_t vocab = (int32_t)d->model->vocab_size;
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

    d->eot = spec.eot;
    if (times < 1 || begin < 1)
        return err_set(err, ERR_MODEL, "a vocabulary of %d tokens cannot be measured", vocab);
    return d->model->ops->session_rules(d->room.session, &spec, err);
}

static struct synthetic_load *synthetic_of(const struct stage *s);

int synthetic_resize(struct stage *synthetic_load, uint32_t slots, uint32_t windows,
                     struct err *err)
{
    struct synthetic_load *d = synthetic_of(synthetic_load);
    int rc;

    free_synthetic_buffers(d);
    if (slots == 0)
        return 0;
    d->shape.slots = slots;
    d->shape.windows = windows;
    rc = d->model->ops->session_new(d->model, d->shape, &d->room.session, err);
    if (rc == 0)
        rc = set_rules(d, err);
    if (rc == 0)
        rc = make_arrays(d, err);
    if (rc == 0)
        rc = make_alignment(d, err);
    if (rc != 0)
        free_synthetic_buffers(d);
    return rc;
}

/* ---- lanes, and windows for them */

static int synthetic_add(void *self, const struct stage_work *work, stage_done done, void *done_arg,
                         struct stage_lane **ret, struct err *err)
{
    struct synthetic_load *d = self;

    if (d->lanes == d->shape.slots || d->steps > 0)
        return err_set(err, ERR_USAGE, "there is no room for another window");
    d->work = work->synthetic_load;
    d->room.lanes[d->lanes] = (struct synthetic_lane){.done = done, .done_arg = done_arg};
    *ret = (struct stage_lane *)&d->room.lanes[d->lanes++];
    return 0;
}

static uint32_t positions(const struct synthetic_load *d)
{
    return d->work.prompt + d->work.tokens;
}

static uint32_t synthetic_windows(const void *self)
{
    return ((const struct synthetic_load *)self)->room.session->windows;
}

/* Lanes whose windows are encoded together. */
static uint32_t batch_of(const struct synthetic_load *d)
{
    uint32_t windows = synthetic_windows(d), share = d->lanes / BATCHES;

    if (!d->work.beside)
        return d->lanes;
    return windows < share ? windows : share ? share : 1;
}

static void begin_window(struct synthetic_load *d, uint32_t i, uint32_t pos)
{
    d->room.lanes[i].pos = pos;
    d->room.lanes[i].windows++;
    d->room.lanes[i].asked = false;
    for (uint32_t b = 0; b < d->rows; b++)
        d->room.course[i * d->rows + b] =
            (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
}

/* The old window of a lane ends when its batch's turn comes, one after the other; without, as if it
 * had ended. */
static int begin_synthetic_windows(struct synthetic_load *d, struct err *err)
{
    uint32_t n = batch_of(d), all = positions(d);

    if (d->work.beside && (all == 0 || d->seen < all || d->lanes < d->shape.slots))
        return err_set(err, ERR_USAGE,
                       "steps beside %u new windows of %u positions want all %u slots, with %u",
                       d->lanes, all, d->shape.slots, d->seen);
    for (uint32_t i = 0; i < d->lanes; i++) {
        uint64_t ago = d->work.beside ? i / n * n : 0;

        begin_window(d, i, all - (uint32_t)(ago * all / d->lanes));
        d->room.lanes[i].left = all;
    }
    d->begun = d->coming = d->waves = 0;
    return 0;
}

static int receive_encoded_windows(struct synthetic_load *d, bool wait, struct err *err)
{
    uint32_t n = 0;
    int rc = d->waves ? d->model->ops->encoded(d->room.session, wait, &n, err) : 0;

    if (rc != 0 || n == 0)
        return rc;
    for (uint32_t i = d->begun - d->coming, end = i + n; i < end; i++)
        begin_window(d, i, 0);
    d->coming -= n;
    d->waves--;
    return 0;
}

/* After an error: what is on its way is nobody's. */
static void drop_waves(struct synthetic_load *d)
{
    struct err ignored;
    uint32_t n = 1;

    while (d->waves && n && d->model->ops->encoded(d->room.session, true, &n, &ignored) == 0)
        d->waves--;
}

/* The windows of n slots from `first` on, each with a text of as many tokens as were fed. */
static int align_windows(struct synthetic_load *d, uint32_t first, uint32_t n, struct err *err)
{
    struct room *r = &d->room;
    const uint32_t each = positions(d), most = each ? r->session->align_tokens / each : 0;
    const uint32_t text = d->work.prompt ? d->work.prompt : 1;
    int rc = 0;

    if (each < 2 || most == 0)
        return 0;
    for (uint32_t i = 0; i < each; i++)
        r->tokens[i] = i + 1 < each ? FED_FIRST : d->eot;
    for (uint32_t done = 0, now; rc == 0 && done < n; done += now) {
        now = n - done < most ? n - done : most;
        for (uint32_t i = 0; i < now; i++)
            r->aligned[i] = (struct asr_alignment){
                .slot = first + done + i,
                .frames = d->model->window_samples / d->model->frame_samples,
                .tokens = r->tokens,
                .n = each,
                .text = text < each ? text : each - 1,
                .first_frame = r->first_frame + (size_t)i * each,
                .logprob = r->logprob + (size_t)i * each,
            };
        rc = d->model->ops->align(r->session, r->aligned, now, err);
    }
    return rc;
}

static bool wants_words(const struct synthetic_load *d)
{
    return d->work.words && d->work.tokens && d->room.aligned;
}

int synthetic_align(struct stage *synthetic_load, struct stage_synthetic work, double *ret,
                    struct err *err)
{
    struct synthetic_load *d = synthetic_of(synthetic_load);
    int64_t start = clock_mono_ns();
    int rc;

    d->work = work;
    if (!d->room.aligned || d->lanes || d->seen < positions(d))
        return err_set(err, ERR_USAGE, "there are no windows whose words could be placed");
    rc = align_windows(d, 0, d->shape.slots, err);
    *ret = (double)(clock_mono_ns() - start) / 1e9;
    return rc;
}

/* The next batch sets off when all of its old windows have ended. */
static int encode_next_batch(struct synthetic_load *d, struct err *err)
{
    struct room *r = &d->room;
    uint32_t n = batch_of(d);
    int rc = receive_encoded_windows(d, false, err);

    n = n < d->lanes - d->begun ? n : d->lanes - d->begun;
    if (rc != 0 || d->waves == ASR_WAVES || n == 0)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        if (r->lanes[d->begun + i].pos < positions(d))
            return 0;
    if (wants_words(d) && d->work.beside)
        rc = align_windows(d, d->begun, n, err);
    r->session->apart = d->work.apart;
    if (rc == 0)
        rc = d->model->ops->encode_begin(r->session, r->windows + d->begun, n, err);
    r->session->apart = false;
    if (rc != 0)
        return rc;
    d->begun += n;
    d->coming += n;
    d->waves++;
    return receive_encoded_windows(d, !d->work.beside, err);
}

/* ---- steps of the decoder */

static bool is_lane_ready(const struct synthetic_load *d, uint32_t i)
{
    const struct synthetic_lane *l = &d->room.lanes[i];

    return l->left > 0 && l->pos < positions(d) && (i >= d->begun || i < d->begun - d->coming);
}

/* The row of a hypothesis. It feeds the token that was chosen last, or ASR_FOLLOWS while that is
 * not known. */
static void put_row(const struct synthetic_load *d, struct synthetic_step *s, uint32_t lane,
                    uint32_t b)
{
    const struct choice_ask *course = &d->room.course[lane * d->rows + b];
    const struct synthetic_lane *l = &d->room.lanes[lane];
    uint32_t k = s->n++;

    s->row[k] = (struct asr_row){lane, b, l->pos, course->last > 0 ? course->last : FED_FIRST};
    if (l->asked)
        s->row[k].token = ASR_FOLLOWS;
    s->asks[k] = *course;
    s->asks[k].what = l->pos >= d->work.prompt ? CHOOSE_TOKEN : 0;
    s->window[k] = l->windows;
}

static void gather_step_rows(struct synthetic_load *d, struct synthetic_step *s, uint32_t *moves)
{
    struct room *r = &d->room;

    s->n = 0;
    for (uint32_t i = 0; i < d->lanes; i++) {
        if (!is_lane_ready(d, i))
            continue;
        for (uint32_t b = 0; b < d->rows; b++)
            put_row(d, s, i, b);
        if (d->rows > 1 && r->lanes[i].pos > 0)
            r->moves[(*moves)++] = (struct asr_move){.slot = i, .from = 0, .to = 1};
    }
}

/* Positions go on as rows are begun; tokens when they are known. */
static void go_on(struct synthetic_load *d, const struct synthetic_step *s)
{
    for (uint32_t k = 0; k < s->n; k++) {
        struct synthetic_lane *l = &d->room.lanes[s->row[k].slot];

        if (s->row[k].branch != 0)
            continue;
        l->pos++;
        l->left--;
        l->asked = s->asks[k].what && d->room.session->ahead;
    }
}

/* A window that would have ended goes on with another token, which the device has to be told. */
static void take_choices(struct synthetic_load *d, const struct synthetic_step *s)
{
    struct room *r = &d->room;

    for (uint32_t k = 0; k < s->n; k++) {
        struct synthetic_lane *l = &r->lanes[s->row[k].slot];
        struct choice_ask *course = &r->course[s->row[k].slot * d->rows + s->row[k].branch];
        int32_t token = r->choices[k].token;

        if (!s->asks[k].what || s->window[k] != l->windows)
            continue;
        course->before = course->last;
        course->last = token > 0 ? token : FED_FIRST;
        course->count++;
        l->asked = l->asked && token >= 0 && token != d->eot;
    }
}

static uint32_t under_way(const struct synthetic_load *d)
{
    return (uint32_t)(d->steps_begun - d->steps_done);
}

static int take_step(struct synthetic_load *d, struct err *err)
{
    struct room *r = &d->room;
    const struct synthetic_step *s = &r->step[d->steps_done % ASR_AHEAD];
    int rc = d->model->ops->choose_end(r->session, r->choices, r->top, err);

    d->steps_done++;
    if (rc == 0)
        take_choices(d, s);
    return rc;
}

/* If the device goes ahead, a step begins before the last one's answers are there. If nothing can
 * be stepped, it takes the answers of a step, or waits for windows. */
static int begin_decode_step(struct synthetic_load *d, struct err *err)
{
    struct room *r = &d->room;
    struct synthetic_step *s = &r->step[d->steps_begun % ASR_AHEAD];
    uint32_t most = r->session->ahead ? ASR_AHEAD : 1, moves = 0;
    int rc = 0;

    gather_step_rows(d, s, &moves);
    if (s->n == 0)
        return under_way(d) ? take_step(d, err) : receive_encoded_windows(d, true, err);
    if (moves)
        rc = d->model->ops->branch(r->session, r->moves, moves, err);
    if (rc == 0)
        rc = d->model->ops->choose_begin(r->session, s->row, s->asks, s->n, r->top != NULL, err);
    if (rc != 0)
        return rc;
    d->steps_begun++;
    go_on(d, s);
    return under_way(d) == most ? take_step(d, err) : 0;
}

static bool is_synthetic_done(const struct synthetic_load *d)
{
    bool left = d->begun < d->lanes || d->coming;

    for (uint32_t i = 0; i < d->lanes; i++)
        left = left || d->room.lanes[i].left;
    return !left;
}

static void tell_all(struct synthetic_load *d)
{
    const struct stage_result one = {
        .windows = 1, .end_sample = d->model->window_samples, .account.speech_ms = -1};

    d->seen = d->lanes == d->shape.slots ? positions(d) : 0;
    for (uint32_t i = 0; i < d->lanes; i++)
        d->room.lanes[i].done(d->room.lanes[i].done_arg, &one, NULL);
    d->lanes = d->steps = 0;
}

static int synthetic_step(void *self, bool *progress, struct err *err)
{
    struct synthetic_load *d = self;
    bool encodes = d->steps == 0 || d->work.beside;
    int rc = 0;

    *progress = d->lanes > 0;
    if (d->lanes == 0)
        return 0;
    if (d->steps++ == 0)
        rc = begin_synthetic_windows(d, err);
    if (rc == 0 && encodes)
        rc = encode_next_batch(d, err);
    if (rc == 0 && (!encodes || d->work.beside))
        rc = begin_decode_step(d, err);
    while (rc == 0 && is_synthetic_done(d) && under_way(d))
        rc = take_step(d, err);
    if (rc == 0 && is_synthetic_done(d) && wants_words(d) && !d->work.beside)
        rc = align_windows(d, 0, d->lanes, err);
    if (rc != 0) {
        drop_waves(d);
        d->lanes = d->steps = d->seen = 0;
        d->steps_done = d->steps_begun;
    } else if (is_synthetic_done(d))
        tell_all(d);
    return rc;
}

/* ---- what it takes */

void synthetic_meter(const struct stage *synthetic_load, struct synthetic_meter *ret)
{
    const struct synthetic_load *d = synthetic_of(synthetic_load);
    const struct asr_model *m = d->model;
    struct asr_meter of;

    m->ops->meter(m, d->shape, &of);
    *ret = (struct synthetic_meter){
        .positions = m->positions,
        .default_slots = m->ops->default_slots(m, d->shape),
        .weight_bytes = of.weight_bytes,
        .slot_bytes = of.slot_bytes,
        .encoder_flop = of.encoder_flop,
        .step_bytes = of.step_bytes,
    };
    if (d->room.session)
        ret->times = d->room.session->times;
}

/* ---- the stage */

static void synthetic_close(void *self)
{
    struct synthetic_load *d = self;

    free_synthetic_buffers(d);
    if (d->owned)
        d->model->ops->free(d->model);
    free(d);
}

static uint32_t synthetic_slots(const void *self)
{
    return ((const struct synthetic_load *)self)->shape.slots;
}

static enum precision synthetic_precision(const void *self)
{
    return ((const struct synthetic_load *)self)->model->precision;
}

static enum cache_precision synthetic_cache(const void *self)
{
    return ((const struct synthetic_load *)self)->model->cache;
}

/* The functions that synthetic_load.h lists. No row of STAGE_KINDS: nobody asks for it by name. */
static const struct stage_kind synthetic_kind = {
    .name = "drill",
    .close = synthetic_close,
    .slots = synthetic_slots,
    .windows = synthetic_windows,
    .precision = synthetic_precision,
    .cache = synthetic_cache,
    .add = synthetic_add,
    .step = synthetic_step,
};

static struct synthetic_load *synthetic_of(const struct stage *s)
{
    return stage_self(s, &synthetic_kind);
}

/* Owns the model where it is said so, also after an error. */
static int make_synthetic_stage(struct asr_model *model, bool owned, const struct asr_shape *shape,
                                uint32_t rows, struct stage **ret, struct err *err)
{
    struct synthetic_load *d = calloc(1, sizeof(*d));

    if (!d) {
        if (owned)
            model->ops->free(model);
        return err_set(err, ERR_NOMEM, "no memory to measure with");
    }
    *d = (struct synthetic_load){.model = model, .owned = owned, .shape = *shape, .rows = rows};
    return stage_new(&synthetic_kind, d, ret, err);
}

int synthetic_new(struct asr_model *model, const struct asr_shape *shape, uint32_t rows,
                  struct stage **ret, struct err *err)
{
    return make_synthetic_stage(model, false, shape, rows, ret, err);
}

static int open_random(const struct whisper_config *config, const struct stage_setup *setup,
                       struct backend *be, struct asr_model **ret, struct err *err)
{
    int rc = whisper_random(config, 1, be, setup->precision, ret, err);

    if (rc == 0)
        whisper_keep(*ret, setup->cache);
    return rc;
}

int synthetic_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
                   struct err *err)
{
    /* openai/whisper-tiny may be a folder and a preset. */
    const bool folder = strchr(setup->dir, '/') && access(setup->dir, F_OK) == 0;
    struct asr_shape shape = {.branches = 1};
    struct whisper_config config;
    struct asr_model *model = NULL;
    int rc = folder ? ERR_USAGE : whisper_preset(setup->dir, &config, err);

    if (rc == 0)
        rc = open_random(&config, setup, be, &model, err);
    else if (strchr(setup->dir, '/'))
        rc = asr_family_of(setup->dir)
                 ->open(&(struct asr_setup){.dir = setup->dir,
                                            .precision = setup->precision,
                                            .cache = setup->cache},
                        be, &model, err);
    if (rc != 0)
        return rc;
    shape.align_heads = model->align_heads;
    return make_synthetic_stage(model, true, &shape, 1, ret, err);
}
