#include "workers/stages/transcribe/flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "workers/stages/transcribe/outcome/outcome.h"
#include "workers/stages/transcribe/outcome/timing.h"

#define ENCODE_MAX 16 /* windows whose audio is held at once: 1.9 MB each */
#define IDLE_SHARE 4  /* a quarter of the slots may wait for a batch to be whole, */
#define FEW_SHARE 8   /*   and an eighth for several windows, where a batch is more */
#define ENCODE_NS INT64_C(1000000000) /* what one call may take, when windows are short enough */
#define WORD_STEPS 8    /* that an ended window waits for others, about a tenth of what it took */
#define WINDOWS_TRIED 8 /* at once, after as many as the session would choose were too many */

/* ---- the session */

/* Fewer windows at once come first: they cost speed alone in the encoder, slots in all. Where it is
 * slots that take more than they did, `slots_first`, there are fewer of them. */
static int open_session(struct flight *f, uint32_t slots, uint32_t windows, bool slots_first,
                        struct err *err)
{
    for (;;) {
        struct asr_shape shape = f->shape;
        int rc;

        shape.slots = slots;
        shape.windows = windows;
        rc = f->model->ops->session_new(f->model, shape, &f->session, err);
        if (rc == 0) {
            f->slot_count = slots;
            return f->model->ops->session_rules(f->session, f->rules, err);
        }
        if (rc != ERR_VRAM || (slots == 1 && windows == 1))
            return rc;
        if (windows > slots)
            windows = slots;
        if (slots_first && slots > 1)
            slots -= (slots + 3) / 4;
        else if (windows != 1)
            windows = windows ? windows / 2 : slots < WINDOWS_TRIED ? slots : WINDOWS_TRIED;
        else
            slots /= 2;
        log_warn("%s; trying %u window%s in flight, %u at once in the encoder", err->msg, slots,
                 slots == 1 ? "" : "s", windows);
    }
}

static bool make_steps(struct flight *f, size_t rows)
{
    bool made = true;

    for (int i = 0; i < ASR_AHEAD; i++) {
        struct flight_step *s = &f->step[i];

        s->rows = calloc(rows, sizeof(*s->rows));
        s->asks = calloc(rows, sizeof(*s->asks));
        s->generation = calloc(rows, sizeof(*s->generation));
        made = made && s->rows && s->asks && s->generation;
    }
    return made;
}

static int make_slots(struct flight *f, struct err *err)
{
    uint32_t windows = f->session->windows;
    size_t rows = f->row_max = f->session->rows;

    f->encode_max = windows > ENCODE_MAX ? windows : ENCODE_MAX;
    if (f->encode_max > f->slot_count)
        f->encode_max = f->slot_count;
    f->batch = windows <= f->slot_count / IDLE_SHARE ? windows : 1;
    f->fill_from = f->slot_count / FEW_SHARE < windows ? f->slot_count / FEW_SHARE : windows;
    f->word_batch =
        f->slot_count / FEW_SHARE < TIMING_WINDOWS ? f->slot_count / FEW_SHARE : TIMING_WINDOWS;
    f->slots = calloc(f->slot_count, sizeof(*f->slots));
    f->choices = calloc(rows, sizeof(*f->choices));
    f->top = calloc(rows * (f->policy.branches + 1), sizeof(*f->top));
    f->moves = calloc((size_t)f->slot_count * f->policy.branches, sizeof(*f->moves));
    f->windows = calloc(f->encode_max, sizeof(*f->windows));
    f->pcm = malloc(f->encode_max * (size_t)f->model->window_samples * sizeof(*f->pcm));
    if (!make_steps(f, rows) || !f->slots || !f->choices || !f->top || !f->moves || !f->windows ||
        !f->pcm)
        return err_set(err, ERR_NOMEM, "no memory for %u windows at once", f->slot_count);
    for (uint32_t i = 0; i < f->slot_count; i++) {
        int rc = decoding_new(&f->policy, &f->slots[i].decoding, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int open_flight(struct flight *f, uint32_t slots, uint32_t windows, bool slots_first,
                       struct err *err)
{
    int rc = open_session(f, slots, windows, slots_first, err);

    if (!rc)
        rc = make_slots(f, err);
    if (rc)
        flight_close(f);
    return rc;
}

int flight_open(struct flight *f, uint32_t slots, uint32_t windows, struct err *err)
{
    return open_flight(f, slots, windows, false, err);
}

void flight_close(struct flight *f)
{
    for (uint32_t i = 0; f->slots && i < f->slot_count; i++) {
        decoding_free(f->slots[i].decoding);
        outcome_free(&f->slots[i].outcome);
    }
    for (int i = 0; i < ASR_AHEAD; i++) {
        free(f->step[i].rows);
        free(f->step[i].asks);
        free(f->step[i].generation);
        f->step[i] = (struct flight_step){0};
    }
    f->steps_begun = f->steps_done = 0;
    free(f->slots);
    free(f->choices);
    free(f->top);
    free(f->moves);
    free(f->windows);
    free(f->pcm);
    f->slots = NULL;
    f->choices = NULL;
    f->top = NULL;
    f->moves = NULL;
    f->windows = NULL;
    f->pcm = NULL;
    f->slot_count = 0;
    f->waves_begun = f->waves_there = 0;
    f->model->ops->session_free(f->session);
    f->session = NULL;
}

/* Windows in flight wait for a slot of the new session. */
static int reopen(struct flight *f, uint32_t slots, uint32_t windows, bool slots_first,
                  struct err *err)
{
    for (uint32_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].window)
            f->slots[i].window->place = WINDOW_QUEUED;
    flight_close(f);
    return open_flight(f, slots, windows, slots_first, err);
}

int flight_shrink(struct flight *f, struct err *err)
{
    uint32_t slots = f->slot_count, windows = f->session->windows;

    if (slots == 1 && windows == 1)
        return err->code;
    if (windows > 1)
        windows /= 2;
    else
        slots /= 2;
    log_warn("%s; going on with %u window%s in flight, %u at once in the encoder", err->msg, slots,
             slots == 1 ? "" : "s", windows);
    return reopen(f, slots, windows, false, err);
}

int flight_lengthen(struct flight *f, struct err *err)
{
    f->shape.short_text = false;
    return reopen(f, f->slot_count, f->session->windows, true, err);
}

/* ---- slots */

/* Another window, or none; rows that are under way are nobody's. */
static void set_window(struct slot *s, struct lane_window *w)
{
    if (w != s->window) {
        outcome_free(&s->outcome);
        s->ends = false;
    }
    s->window = w;
    s->asked = false;
    s->generation++;
}

void flight_drop(struct flight *f, const struct lane *l)
{
    for (uint32_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].window && f->slots[i].window->lane == l)
            set_window(&f->slots[i], NULL);
}

uint32_t flight_count(const struct flight *f)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->slot_count; i++)
        n += f->slots[i].window != NULL;
    return n;
}

static bool awaits_language(const struct slot *s)
{
    return s->window && decoding_state(s->decoding) == DECODING_LANGUAGE;
}

uint32_t flight_busy(const struct flight *f)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->slot_count; i++)
        n += f->slots[i].window && !awaits_language(&f->slots[i]);
    return n;
}

/* Windows whose language is known now go on. */
static int tell_languages(struct flight *f, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; !rc && i < f->slot_count; i++) {
        struct slot *s = &f->slots[i];
        int32_t heard, language;
        float heard_prob, no_speech, prob;
        enum lane_hearing what;

        if (!awaits_language(s))
            continue;
        decoding_heard(s->decoding, &heard, &heard_prob, &no_speech);
        rc = lane_language(s->window, heard, heard_prob, no_speech, &language, &prob, &what, err);
        if (!rc && what == LANE_IS_DONE)
            set_window(s, NULL);
        else if (!rc && what == LANE_GOES)
            decoding_go(s->decoding, language, prob);
    }
    return rc;
}

/* Whether another window may have the slot. A window that only waits for the language of others
 * gives up its slot and begins again later; else they might wait for each other. */
static bool is_vacant(const struct slot *s)
{
    return !s->wave && (!s->window || awaits_language(s));
}

static struct slot *free_slot(struct flight *f)
{
    struct slot *waiting = NULL;

    for (uint32_t i = 0; i < f->slot_count; i++) {
        if (!is_vacant(&f->slots[i]))
            continue;
        if (!f->slots[i].window)
            return &f->slots[i];
        waiting = &f->slots[i];
    }
    return waiting;
}

uint32_t flight_vacant(const struct flight *f)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->slot_count; i++)
        n += is_vacant(&f->slots[i]);
    return n;
}

/* Windows to encode now; 0: too few for a call. An encoder that takes many at once waits until free
 * slots and queued windows make a batch, because fewer windows go one by one, which takes longer.
 * It does not wait if no batch can come, or if nothing is in flight. */
static uint32_t worth_filling(const struct flight *f, const struct lane *lanes)
{
    uint32_t vacant = flight_vacant(f), queued = 0, coming = 0, n;

    if (vacant == 0 || (vacant < f->fill_from && vacant < f->slot_count))
        return 0;
    if (f->batch == 1 || vacant == f->slot_count)
        return vacant;
    for (const struct lane *l = lanes; l; l = l->next) {
        queued += lane_queued(l);
        coming += lane_coming(l);
    }
    n = vacant < queued ? vacant : queued;
    if (n >= f->batch)
        return n / f->batch * f->batch;
    return coming >= f->batch ? 0 : vacant;
}

void flight_beat(const struct flight *f)
{
    if (f->beat)
        f->beat(f->beat_arg);
}

/* ---- encoding */

static void take_off(struct slot *slot, struct lane_window *w)
{
    const int32_t *previous;
    uint32_t n = 0;

    if (slot->window)
        slot->window->place = WINDOW_QUEUED;
    set_window(slot, w);
    w->place = WINDOW_FLYING;
    previous = lane_previous(w, &n);
    decoding_begin(slot->decoding, lane_window_seed(w), previous, n);
}

/* A piece of a window is mostly short, and only adds to what the whole says: its language, or text
 * for speech that had none. In real recordings of one language no word changes by it, and in those
 * of two fewer are wrong (docs/measurements.md). */
static bool has_sparse_silence(const struct lane_window *w)
{
    return w->whole || w->lane->policy->params->sparse_silence;
}

/* At most `most` windows. */
static int gather_new_windows(struct flight *f, struct lane *lanes, uint32_t most, uint32_t *n,
                              struct err *err)
{
    struct slot *slot = free_slot(f);
    struct lane *l = lanes;

    while (l && slot && *n < most) {
        float *room = f->pcm + (size_t)*n * f->model->window_samples;
        struct lane_window *w;
        const float *pcm;
        int rc;

        if ((rc = lane_next(l, room, &pcm, &w, err)))
            return rc;
        if (!w) {
            l = l->next;
            continue;
        }
        take_off(slot, w);
        slot->wave = f->waves_begun + 1;
        f->windows[(*n)++] = (struct asr_window){.slot = (uint32_t)(slot - f->slots),
                                                 .pcm = pcm,
                                                 .n = (size_t)w->samples,
                                                 .sparse_silence = has_sparse_silence(w)};
        slot = free_slot(f);
    }
    return 0;
}

/* Windows of the next call: those whose audio is held, but not so many that the engine is silent
 * for long. The number does not change their results. */
static uint32_t encode_share(const struct flight *f)
{
    int64_t most = f->window_ns ? ENCODE_NS / f->window_ns : 1;

    /* A landing is noticed between steps: the time may be mostly theirs. */
    if (most < f->session->windows)
        most = f->session->windows;
    if (most > f->encode_max)
        most = f->encode_max;
    return (uint32_t)(most - most % f->batch);
}

static uint32_t waves_under_way(const struct flight *f)
{
    return (uint32_t)(f->waves_begun - f->waves_there);
}

/* The oldest windows on their way, if they are there; wait: once they are. */
static int receive_encoded_wave(struct flight *f, bool wait, struct err *err)
{
    int64_t now, start = f->wave_start[f->waves_there % ASR_WAVES];
    uint32_t n;
    int rc = f->model->ops->encoded(f->session, wait, &n, err);

    if (rc || n == 0)
        return rc;
    now = clock_mono_ns();
    f->window_ns = (now - (start > f->there_at ? start : f->there_at)) / n + 1;
    f->there_at = now;
    f->waves_there++;
    for (uint32_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].wave == f->waves_there)
            f->slots[i].wave = 0;
    flight_beat(f);
    return 0;
}

/* Some windows, when there are any. */
static int encode_some(struct flight *f, struct lane *lanes, uint32_t most, uint32_t *n,
                       struct err *err)
{
    int rc = gather_new_windows(f, lanes, most, n, err);

    if (rc || !*n)
        return rc;
    f->wave_start[f->waves_begun % ASR_WAVES] = clock_mono_ns();
    rc = f->model->ops->encode_begin(f->session, f->windows, *n, err);
    if (rc)
        return rc;
    f->waves_begun++;
    return receive_encoded_wave(f, false, err);
}

/* Slots that became free are filled with as many windows as audio is held of, in shares; as many as
 * may be under way are all for now. */
int flight_fill(struct flight *f, struct lane *lanes, bool *progress, struct err *err)
{
    uint32_t n, left, share;
    int rc = receive_encoded_wave(f, false, err);

    if (!rc) /* or a window that could go on would give up its slot */
        rc = tell_languages(f, err);
    left = rc || waves_under_way(f) == ASR_WAVES ? 0 : worth_filling(f, lanes);
    if (rc || left == 0)
        return rc;
    left = left < f->encode_max ? left : f->encode_max;
    do {
        share = encode_share(f);
        n = 0;
        rc = encode_some(f, lanes, share < left ? share : left, &n, err);
        left -= n;
        *progress = *progress || n;
    } while (!rc && n && left && waves_under_way(f) < ASR_WAVES);
    return rc;
}

/* ---- decoding */

static int move_branches(struct flight *f, struct err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < f->slot_count; i++) {
        struct slot *s = &f->slots[i];
        uint32_t k = s->window && !s->ends ? decoding_moves(s->decoding, f->moves + n) : 0;

        for (; k > 0; k--)
            f->moves[n++].slot = i;
    }
    return n ? f->model->ops->branch(f->session, f->moves, n, err) : 0;
}

/* The slot's next rows; of one that waits for an answer the row that follows it, if any. */
static uint32_t rows_of(struct slot *s, struct asr_row *rows, struct choice_ask *asks,
                        uint32_t room)
{
    if (s->asked)
        return decoding_ahead(s->decoding, rows, asks);
    return decoding_rows(s->decoding, rows, asks, room);
}

/* The next rows of all slots; each may have what the others do not need at the least. */
static void gather_rows(struct flight *f, struct flight_step *step)
{
    uint32_t n = 0, others = flight_busy(f);

    for (uint32_t i = 0; i < f->slot_count; i++) {
        struct slot *s = &f->slots[i];
        uint32_t k;

        if (!s->window || awaits_language(s))
            continue;
        others--;
        if (s->wave || s->ends || s->window->lane->known_text)
            continue;
        k = rows_of(s, step->rows + n, step->asks + n,
                    f->row_max - n - others * f->policy.branches);
        for (; k > 0; k--, n++) {
            step->rows[n].slot = i;
            step->generation[n] = s->generation;
        }
    }
    step->n = n;
}

/* The lane takes what a window came to, and its slot is free. */
static int finish_window(struct slot *s, struct err *err)
{
    struct lane_window *w = s->window;
    struct outcome o = s->outcome;
    struct decoding_result r;
    int rc;

    s->outcome = (struct outcome){0};
    set_window(s, NULL);
    if (w->lane->known_text) {
        rc = known_text_take(w, &o, err);
    } else {
        decoding_result(s->decoding, &r);
        rc = lane_take(w, &r, &o, err);
    }
    outcome_free(&o);
    return rc;
}

/* It waits for its words. */
static void set_ended(const struct flight *f, struct slot *s)
{
    s->ends = true;
    s->ended_at = f->steps_done;
}

/* Gives a window its choices; when it has ended, it is finished, or waits for its words. */
static int feed_window_choices(struct flight *f, struct slot *s, uint32_t at, uint32_t n,
                               struct err *err)
{
    uint32_t branches = f->policy.branches;
    struct decoding_result r;
    int rc = decoding_feed(s->decoding, f->choices + at,
                           branches > 1 ? f->top + (size_t)at * (branches + 1) : NULL, n, err);

    if (rc || decoding_state(s->decoding) != DECODING_DONE)
        return rc;
    decoding_result(s->decoding, &r);
    rc = outcome_make(s->window, &r, &s->outcome, err);
    if (rc)
        return rc;
    if (!f->timing || !r.count || r.silent)
        return finish_window(s, err);
    set_ended(f, s);
    return 0;
}

/* The error ends the stage, not a lane. */
static bool is_fatal(int rc) { return rc == ERR_NOMEM || rc == ERR_VRAM || rc == ERR_DEVICE; }

/* A model that yields no numbers fails the lane; lack of memory and the device the whole. */
static int isolate_lane_failure(struct flight *f, struct lane *l, int rc, struct err *err)
{
    if (rc == 0 || is_fatal(rc))
        return rc;
    lane_fail(l, err);
    flight_drop(f, l);
    return 0;
}

static int apply_slot_choices(struct flight *f, struct slot *s, uint32_t at, uint32_t n,
                              struct err *err)
{
    struct lane *l = s->window->lane;

    return isolate_lane_failure(f, l, feed_window_choices(f, s, at, n, err), err);
}

static uint32_t under_way(const struct flight *f)
{
    return (uint32_t)(f->steps_begun - f->steps_done);
}

static struct flight_step *step_of(struct flight *f, uint64_t number)
{
    return &f->step[number % ASR_AHEAD];
}

/* Behind the rows of slot rows[at].slot. */
static uint32_t end_of(const struct flight_step *step, uint32_t at)
{
    uint32_t end = at;

    while (end < step->n && step->rows[end].slot == step->rows[at].slot)
        end++;
    return end;
}

/* The answers of a slot's rows; `ahead`: it has a row in the step after, too, which is nobody's if
 * it is not the one that the window goes on with. */
static int apply_step_answers(struct flight *f, const struct flight_step *step, uint32_t at,
                              uint32_t end, bool ahead, uint32_t ahead_pos, struct err *err)
{
    struct slot *s = &f->slots[step->rows[at].slot];
    const struct lane_window *w = s->window;
    struct asr_row rows[ASR_BRANCHES_MAX];
    struct choice_ask asks[ASR_BRANCHES_MAX];
    int rc;

    if (!w || step->generation[at] != s->generation)
        return 0;
    s->asked = ahead;
    rc = apply_slot_choices(f, s, at, end - at, err);
    if (rc || !ahead || s->window != w)
        return rc;
    if (decoding_state(s->decoding) != DECODING_TEXT ||
        decoding_rows(s->decoding, rows, asks, ASR_BRANCHES_MAX) != 1 || rows[0].pos != ahead_pos)
        set_window(s, s->window);
    return 0;
}

/* The oldest step under way. */
static int take_answers(struct flight *f, struct err *err)
{
    struct flight_step *step = step_of(f, f->steps_done), *next = step_of(f, f->steps_done + 1);
    uint32_t at_next = 0, next_n;
    int rc = f->model->ops->choose_end(f->session, f->choices,
                                       f->policy.branches > 1 ? f->top : NULL, err);

    f->steps_done++;
    if (rc)
        return rc;
    flight_beat(f);
    next_n = under_way(f) ? next->n : 0;
    for (uint32_t at = 0, end; !rc && at < step->n; at = end) {
        uint32_t slot = step->rows[at].slot;
        bool ahead;

        end = end_of(step, at);
        while (at_next < next_n && next->rows[at_next].slot < slot)
            at_next++;
        ahead = at_next < next_n && next->rows[at_next].slot == slot;
        rc = apply_step_answers(f, step, at, end, ahead, ahead ? next->rows[at_next].pos : 0, err);
    }
    return rc;
}

/* No window waits for the answer of rows that ask for nothing. */
static bool asks_nothing(const struct flight_step *step, uint32_t at, uint32_t end)
{
    for (; at < end; at++)
        if (step->asks[at].what)
            return false;
    return true;
}

/* The step that gather_rows has filled. */
static int begin_step(struct flight *f, struct flight_step *step, struct err *err)
{
    int rc = f->model->ops->choose_begin(f->session, step->rows, step->asks, step->n,
                                         f->policy.branches > 1, err);

    if (rc)
        return rc;
    f->steps_begun++;
    for (uint32_t at = 0, end; at < step->n; at = end) {
        struct slot *s = &f->slots[step->rows[at].slot];

        end = end_of(step, at);
        s->asked = true;
        if (!f->session->ahead || !asks_nothing(step, at, end))
            continue;
        rc = decoding_feed(s->decoding, f->choices, NULL, end - at, err);
        if (rc)
            return rc;
        set_window(s, s->window);
    }
    return 0;
}

/* ---- words */

/* Windows whose text is there have nothing else to wait for. */
static void end_known_text(struct flight *f)
{
    for (uint32_t i = 0; i < f->slot_count; i++) {
        struct slot *s = &f->slots[i];

        if (s->window && s->window->lane->known_text && !s->wave && !s->ends)
            set_ended(f, s);
    }
}

/* Adds a window to those that are asked for together: *added, or there is no room. */
static int add_ended_window(struct flight *f, struct slot *s, bool *added, struct err *err)
{
    struct lane_window *w = s->window;
    struct decoding_result r;
    int rc = 0;

    if (w->lane->known_text) {
        outcome_free(&s->outcome);
        rc = known_text_drafts(w, &r, &s->outcome, err);
    } else
        decoding_result(s->decoding, &r);
    if (rc == 0)
        *added = timing_add(f->timing, f->session, (uint32_t)(s - f->slots), w, &r, &s->outcome);
    return rc;
}

/* Finishes windows whose words have been asked for; those of a lane that has failed are gone. */
static int finish_timed(struct flight *f, struct slot **timed, uint32_t n, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        struct slot *s = timed[i];
        struct lane *l = s->ends ? s->window->lane : NULL;

        if (!l)
            continue;
        rc = timing_words(f->timing, i, s->window, &s->outcome, err);
        if (rc == 0)
            rc = finish_window(s, err);
        rc = isolate_lane_failure(f, l, rc, err);
        flight_beat(f);
    }
    return rc;
}

/* One by one: one of them cannot be aligned, and its lane alone fails. */
static int time_apart(struct flight *f, struct slot **ended, uint32_t n, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        struct lane *l = ended[i]->ends ? ended[i]->window->lane : NULL;
        bool added = false;

        if (!l)
            continue;
        timing_begin(f->timing);
        rc = add_ended_window(f, ended[i], &added, err);
        if (rc == 0)
            rc = timing_align(f->timing, f->session, err);
        rc = rc == 0 ? finish_timed(f, &ended[i], 1, err) : isolate_lane_failure(f, l, rc, err);
    }
    return rc;
}

/* As many of the ended windows as one call takes, from slot *at on. */
static int time_some(struct flight *f, uint32_t *at, struct err *err)
{
    struct slot *ended[TIMING_WINDOWS];
    uint32_t n = 0;
    bool added = true;
    int rc = 0;

    timing_begin(f->timing);
    for (; rc == 0 && *at < f->slot_count && n < TIMING_WINDOWS; ++*at) {
        struct slot *s = &f->slots[*at];

        if (!s->ends)
            continue;
        rc = add_ended_window(f, s, &added, err);
        if (rc || !added)
            break;
        ended[n++] = s;
    }
    if (rc == 0)
        rc = timing_align(f->timing, f->session, err);
    if (rc == 0)
        return finish_timed(f, ended, n, err);
    if (!is_fatal(rc) && n == 0) /* the first of them is at fault, and is not tried for ever */
        ended[n++] = &f->slots[(*at)++];
    return is_fatal(rc) ? rc : time_apart(f, ended, n, err);
}

static int time_ended(struct flight *f, struct err *err)
{
    int rc = 0;

    for (uint32_t at = 0; rc == 0 && at < f->slot_count;)
        rc = time_some(f, &at, err);
    return rc;
}

/* idle: there is nothing else to do. */
static bool are_words_due(const struct flight *f, bool idle)
{
    uint32_t n = 0;
    bool late = false;

    for (uint32_t i = 0; i < f->slot_count; i++) {
        const struct slot *s = &f->slots[i];

        n += s->ends;
        late = late || (s->ends && f->steps_done - s->ended_at >= WORD_STEPS);
    }
    return n > 0 && (idle || late || n >= f->word_batch);
}

int flight_step(struct flight *f, bool *progress, struct err *err)
{
    struct flight_step *step = step_of(f, f->steps_begun);
    uint32_t most = f->session->ahead ? ASR_AHEAD : 1;
    bool idle;
    int rc;

    end_known_text(f);
    if ((rc = tell_languages(f, err)) || (rc = move_branches(f, err)))
        return rc;
    gather_rows(f, step);
    idle = !step->n && !under_way(f);
    *progress = *progress || !idle || waves_under_way(f) || are_words_due(f, idle);
    if (idle && !are_words_due(f, true))
        return receive_encoded_wave(f, true, err);
    if (step->n)
        rc = begin_step(f, step, err);
    if (!rc && under_way(f) && (!step->n || under_way(f) == most))
        rc = take_answers(f, err);
    if (!rc && are_words_due(f, idle))
        rc = time_ended(f, err);
    return rc ? rc : tell_languages(f, err);
}
