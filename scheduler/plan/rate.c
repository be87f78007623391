#include "scheduler/plan/rate.h"

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
