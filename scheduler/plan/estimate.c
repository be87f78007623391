#include "scheduler/plan/estimate.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- how fast the run is, and when it will be over */

#define RATE_WINDOW_MS 300000 /* the speed is that of the last five minutes */

/* Bytes per second of audio outside of which a ratio is not believed: 4 kbit/s to 24 MB/s (video).
 */
#define RATIO_MIN 500.0
#define RATIO_MAX 24e6

static uint32_t before(uint32_t i, uint32_t n) { return (i + RATE_SAMPLES - n) % RATE_SAMPLES; }

void rate_add(struct rate *r, int64_t now_ms, uint64_t audio_ms)
{
    if (r->count) {
        uint32_t last = before(r->head, 1);

        if (audio_ms < r->audio_ms[last])
            audio_ms = r->audio_ms[last];
        if (r->count > 1 && now_ms - r->at_ms[before(r->head, 2)] < RATE_WINDOW_MS / 60) {
            r->at_ms[last] = now_ms;
            r->audio_ms[last] = audio_ms;
            return;
        }
    }
    r->at_ms[r->head] = now_ms;
    r->audio_ms[r->head] = audio_ms;
    r->head = (r->head + 1) % RATE_SAMPLES;
    if (r->count < RATE_SAMPLES)
        r->count++;
}

double rate_speed(const struct rate *r, int64_t now_ms)
{
    uint32_t last, from, i;

    if (r->count < 2)
        return 0;
    last = from = before(r->head, 1);
    for (i = 2; i <= r->count; i++) {
        from = before(r->head, i);
        if (now_ms - r->at_ms[from] >= RATE_WINDOW_MS)
            break;
    }
    if (now_ms - r->at_ms[from] < 1000)
        return 0;
    return (double)(r->audio_ms[last] - r->audio_ms[from]) / (double)(now_ms - r->at_ms[from]);
}

int64_t rate_left_ms(const struct rate_backlog *b)
{
    double left = b->known_left_ms > 0 ? (double)b->known_left_ms : 0;

    if (b->tasks_unknown == 0)
        return (int64_t)left;
    if (b->bytes_unknown && b->bytes_known && b->known_ms > 0) {
        double ratio = (double)b->bytes_known * 1000 / (double)b->known_ms;

        if (ratio < RATIO_MIN)
            ratio = RATIO_MIN;
        if (ratio > RATIO_MAX)
            ratio = RATIO_MAX;
        left += (double)b->bytes_unknown * 1000 / ratio;
    } else if (b->tasks_known && b->known_ms > 0) {
        left += (double)b->known_ms / (double)b->tasks_known * (double)b->tasks_unknown;
    } else {
        return -1;
    }
    return left < 9e17 ? (int64_t)left : (int64_t)9e17;
}

int64_t rate_eta_ms(double speed, const struct rate_backlog *b)
{
    int64_t left = rate_left_ms(b);
    double eta;

    if (left < 0 || speed <= 0)
        return left == 0 ? 0 : -1;
    eta = (double)left / speed;
    return eta < 9e15 ? (int64_t)eta : -1;
}

/* ---- when the run will be over */

/* The cost of a second of audio in a stage that was never measured, relative to a measured one: at
 * least and at most. */
#define AUDIO_LEAST 0.02
#define AUDIO_MOST 1.0
#define TEXT_LEAST 0.001
#define TEXT_MOST 0.15
/* Earlier runs may have had other devices to themselves. */
#define REMEMBERED_WIDE 2.0
/* Other models are smaller, or a little larger. */
#define LOAD_LEAST 0.3
#define LOAD_MOST 1.5
#define END_MS 9e15
/* A window: less is a piece of speech that came before the rest of its batch, and no speed. */
#define FIRST_MS 30000

struct range {
    double low, high;
};

static struct estimate_turn *turn_of(struct estimate *e, int64_t stage)
{
    for (uint32_t i = 0; i < e->seen_count; i++)
        if (e->seen[i].stage == stage)
            return &e->seen[i];
    if (e->seen_count == ESTIMATE_STAGES) /* the oldest one's turn is the least like what comes */
        memmove(e->seen, e->seen + 1, --e->seen_count * sizeof(*e->seen));
    e->seen[e->seen_count] = (struct estimate_turn){.stage = stage};
    return &e->seen[e->seen_count++];
}

void estimate_begin(struct estimate *e, int64_t stage, int64_t now_ms)
{
    e->stage = stage;
    e->begun_ms = e->at_ms = now_ms;
    e->work_ms = 0;
    e->first_ms = -1;
    e->audio_ms = 0;
    e->rate = (struct rate){0};
}

/* The speed over the last minutes of the stage's turn. Work in progress is not counted yet, which
 * matters at the beginning: it is about half of what came with the first result. */
static double speed_now(const struct estimate *e)
{
    double speed = rate_speed(&e->rate, e->work_ms);

    if (e->first_ms < 0 || e->work_ms <= e->first_ms)
        return 0;
    return e->work_ms < RATE_WINDOW_MS
               ? speed / (1 - 0.5 * (double)e->first_ms / (double)e->work_ms)
               : speed;
}

void estimate_add(struct estimate *e, int64_t now_ms, uint64_t audio_ms, bool working)
{
    double speed;

    if (e->stage == 0)
        return;
    if (working && e->rate.count == 0) {
        if (now_ms - e->begun_ms > e->load_ms)
            e->load_ms = now_ms - e->begun_ms;
        rate_add(&e->rate, 0, 0);
    } else if (working) {
        e->work_ms += now_ms - e->at_ms;
    }
    e->at_ms = now_ms;
    if (audio_ms > e->audio_ms && (e->first_ms >= 0 || audio_ms >= FIRST_MS)) {
        e->audio_ms = audio_ms;
        if (e->first_ms < 0)
            e->first_ms = e->work_ms;
    }
    if (e->rate.count > 0)
        rate_add(&e->rate, e->work_ms, e->audio_ms);
    speed = speed_now(e);
    if (speed > 0)
        turn_of(e, e->stage)->speed = speed;
}

/* How far off a speed may be that was seen for so long: content differs, and results come in lots.
 */
static double compute_uncertainty(const struct estimate *e)
{
    double seconds = (double)(e->work_ms - e->first_ms) / 1000;

    return (1.12 + 0.9 / sqrt(1 + seconds / 8)) *
           (1 + 0.5 * (double)e->first_ms / (double)e->work_ms);
}

/* Audio, in ms. Lengths that nobody knows are guessed by sizes, which mislead where WAV follows
 * MP3, and by how many there are, which misleads where operas follow voice notes: they lie between,
 * and are the more sure the more lengths are known. */
static bool audio_left(const struct rate_backlog *b, struct range *ret)
{
    struct rate_backlog by_count = *b;
    double known = b->known_left_ms > 0 ? (double)b->known_left_ms : 0, sized, counted, wide;
    int64_t all = rate_left_ms(b);

    by_count.bytes_unknown = 0;
    if (all < 0)
        return false;
    sized = fmax((double)all - known, 0);
    counted = fmax((double)rate_left_ms(&by_count) - known, 0);
    wide = 1.1 + 1.2 / sqrt(b->tasks_known > 0 ? (double)b->tasks_known : 1);
    if (sized <= 0 || counted <= 0)
        counted = sized;
    *ret = (struct range){known + fmin(sized, fmin(counted, sqrt(sized * counted) / wide)),
                          known + fmax(sized, fmax(counted, sqrt(sized * counted) * wide))};
    return true;
}

/* Wall time for one of audio in a stage. */
static struct range cost_of(const struct estimate *e, const struct estimate_left *s)
{
    double last;

    for (uint32_t i = 0; i < e->seen_count; i++) {
        double cost = 1 / e->seen[i].speed, wide = 1.3;

        if (e->seen[i].stage != s->stage)
            continue;
        if (s->stage == e->stage && e->work_ms > e->first_ms && e->first_ms >= 0)
            wide = compute_uncertainty(e);
        return (struct range){cost / wide, cost * wide};
    }
    if (s->remembered > 0)
        return (struct range){1 / s->remembered / REMEMBERED_WIDE,
                              1 / s->remembered * REMEMBERED_WIDE};
    last = 1 / e->seen[e->seen_count - 1].speed;
    return s->text ? (struct range){last * TEXT_LEAST, last * TEXT_MOST}
                   : (struct range){last * AUDIO_LEAST, last * AUDIO_MOST};
}

/* Both are as far off as they are independently of each other: seldom both at their worst. */
static struct range multiply_ranges(struct range a, struct range b)
{
    double mid = sqrt(a.low * a.high * b.low * b.high);
    double wide_a = log(a.high / a.low) / 2, wide_b = log(b.high / b.low) / 2;
    double wide = exp(sqrt(wide_a * wide_a + wide_b * wide_b));

    return a.low > 0 ? (struct range){mid / wide, mid * wide} : (struct range){0, a.high * b.high};
}

/* The loading time that is left before the first result of the stage's turn. */
static struct range load_of(const struct estimate *e, int64_t now_ms, int64_t stage)
{
    double load = (double)e->load_ms;

    if (stage == e->stage) {
        load -= (double)(now_ms - e->begun_ms);
        if (e->rate.count > 0 || load < 0)
            load = 0;
    }
    return (struct range){load * LOAD_LEAST, load * LOAD_MOST};
}

bool estimate_range(const struct estimate *e, int64_t now_ms, const struct estimate_left *left,
                    size_t n, int64_t *low_ms, int64_t *high_ms)
{
    struct range all = {0, 0}, first = {0, 0};

    if (e->seen_count == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (left[i].stage == e->stage && !audio_left(&left[i].left, &first))
            return false;
    for (size_t i = 0; i < n; i++) {
        struct range audio, cost, load;

        if (!audio_left(&left[i].left, &audio))
            return false;
        if (left[i].rides && left[i].stage != e->stage) {
            audio.low = fmax(audio.low - first.low, 0);
            audio.high = fmax(audio.high - first.high, 0);
        }
        if (audio.high <= 0)
            continue;
        cost = cost_of(e, &left[i]);
        load = load_of(e, now_ms, left[i].stage);
        cost = multiply_ranges(audio, cost);
        all.low += cost.low + load.low;
        all.high += cost.high + load.high;
    }
    if (!(all.high < END_MS))
        return false;
    *low_ms = (int64_t)all.low;
    *high_ms = (int64_t)all.high;
    return true;
}

/* ---- a night before it begins */

/* tools/dev/bench/night measures these: two cores of a Xeon with AVX-512, docs/measurements.md. */
static const struct {
    struct night_format format;
    const char *names; /* each with a space before and behind it */
} formats[] = {
    {{"MP3", 5.0, 16000, 88200, false}, " mp3 mp3float mp2 mpga "},
    {{"AAC", 3.7, 12000, 88200, false}, " aac m4a mp4 m4b m4v mov aac_latm 3gp "},
    {{"Opus", 5.3, 4000, 48000, false}, " opus webm mkv "},
    {{"Vorbis", 4.2, 14000, 88200, false}, " vorbis ogg oga "},
    {{"FLAC", 3.7, 70000, 88200, false}, " flac alac wv wavpack ape tta "},
    {{"PCM", 2.8, 176400, 88200, true}, " wav aif aiff w64 bwf au "},
    {{"other", 5.0, 16000, 88200, false}, ""}, /* not measured: as MP3 */
};

const struct night_format *night_format(const char *format)
{
    const size_t other = sizeof(formats) / sizeof(formats[0]) - 1;
    char word[32];

    if (strncmp(format, "pcm_", 4) == 0)
        return night_format("wav");
    snprintf(word, sizeof(word), " %.28s ", format);
    for (size_t i = 0; i < other; i++)
        if (strstr(formats[i].names, word))
            return &formats[i].format;
    return &formats[other].format;
}

/* The thread's work of all stages of this name: each recording is heard by one of them. */
static double thread_work(const struct night *n, const char *name)
{
    double sum = 0;

    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->stages[i].name, name) == 0)
            sum += n->stages[i].hours * n->stages[i].thread_s;
    return n->gpus ? sum / n->gpus : 0;
}

/* Of what hears, with the host's work beside it; or of what reads texts. */
static struct night_length turn_length(const struct night *n, bool text)
{
    struct night_length l = {.core_s = text ? 0 : n->hours * n->host_s};
    double together = 0;
    bool earlier;

    for (size_t i = 0; i < n->count; i++) {
        const struct night_stage *s = &n->stages[i];
        double device = s->hours * s->device_s, thread = thread_work(n, s->name);

        if (s->text != text)
            continue;
        if (s->together)
            together = fmax(together, device);
        else
            l.device_s += device;
        if (thread > l.thread_s) {
            l.thread_s = thread;
            l.thread = s->name;
        }
        l.core_s += s->hours * (s->core_s + (n->gpus ? s->thread_s : 0));
    }
    earlier = together > l.device_s;
    l.device_s += together;
    l.core_s /= n->cores ? n->cores : 1;
    l.seconds = fmax(l.device_s, fmax(l.thread_s, l.core_s));
    if (l.seconds > 0)
        l.bound = l.seconds == l.core_s     ? NIGHT_CORES
                  : l.seconds == l.device_s ? earlier ? NIGHT_EARLIER : NIGHT_DEVICES
                                            : NIGHT_THREAD;
    return l;
}

void night_length(const struct night *n, struct night_length *ret)
{
    const struct night_length heard = turn_length(n, false), text = turn_length(n, true);

    *ret = text.seconds > heard.seconds ? text : heard;
    ret->seconds = heard.seconds + text.seconds;
}
