/* Which token comes next: Whisper's rules over rows of logits, as gpu/host/choose.c has them.
 *
 * A block of 32 warps for a row (logits.h). The row (207 KB with 51,866 ids) is read two or three
 * times: the largest logits, the sums of exponentials, and, when there is a temperature, the draw.
 * The first comes from where the product left it, the second-level cache, which a batch of rows
 * fits; one block of a row needs some ten microseconds for that, as do 132 of them at once on 132
 * multiprocessors. What is forbidden is written last: a thousand or two of the ids in most rows.
 *
 * Exponentials are float32 (float64 ones would take a tenth of a step where float64 is slow), their
 * sums float64. Host and device so differ in the seventh digit of a probability; the likeliest
 * token is the same one. Nothing depends on other rows. Not yet run on a GPU. */
#include "gpu/cuda/kernels/logits.h"

namespace
{

constexpr int WARPS = LOGITS_WARPS;
constexpr int THREADS = LOGITS_THREADS;
constexpr int DEEP = LOGITS_DEEP;
constexpr int32_t NOBODY = 0x7fffffff; /* an id beyond all others */

/* Ids that may follow, but for the bitmaps: [text, text_end) and [time, time_end). */
struct allowed {
    int32_t text, text_end, time, time_end;
    bool first;
    bool plain; /* no bitmaps either: all ids below eot */
};

__device__ inline allowed rules_allow(const struct rules_device &r, const struct choice_ask &ask)
{
    const int32_t begin = r.timestamp_begin;
    const bool last = ask.last >= begin, before = ask.count < 2 || ask.before >= begin;
    allowed a = {0, min(r.eot + 1, begin), begin, r.timestamp_end + 1, ask.count == 0, false};

    if (!(ask.what & CHOOSE_TOKEN)) /* CHOOSE_GIVEN, if any */
        return {0, r.eot, begin, begin, false, true};
    if (ask.what & CHOOSE_NO_TIMES) {
        a.time_end = begin;
        return a;
    }
    if (a.first) { /* a timestamp, not too late */
        a.text = a.text_end;
        a.time_end = min(a.time_end, r.max_initial + 1);
        return a;
    }
    if (last && before) /* a pair is complete: text or the end */
        a.time_end = begin;
    else if (last) /* a segment has ended: the next one's start, or the end */
        a.text = r.eot;
    /* Never back; and a segment that has begun must have a length. */
    if (ask.last_time >= begin && ask.last_time <= r.timestamp_end)
        a.time = last && !before ? ask.last_time : ask.last_time + 1;
    return a;
}

__device__ inline bool in_bitmap(const uint32_t *bitmap, int32_t id)
{
    return __ldg(bitmap + id / 32) >> (id % 32) & 1u;
}

__device__ inline bool rules_allow_id(const struct rules_device &r, const allowed &a, int32_t id)
{
    if (!((id >= a.text && id < a.text_end) || (id >= a.time && id < a.time_end)))
        return false;
    if (a.plain)
        return true;
    if (id != r.eot && in_bitmap(r.never, id)) /* without its end no window would ever end */
        return false;
    return !a.first || !in_bitmap(r.never_first, id);
}

/* A largest logit and its id: the lowest of equals; NOBODY where all are minus infinity. */
struct best {
    float value;
    int32_t id;
};

__device__ inline best better(best a, best b)
{
    return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

__device__ inline best warp_best(best a)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        best b = {__shfl_xor_sync(ALL_LANES, a.value, lanes),
                  __shfl_xor_sync(ALL_LANES, a.id, lanes)};

        a = better(a, b);
    }
    return a;
}

struct largest {
    best raw, text, time;
};

/* Of the whole row: all logits, and those of allowed text and timestamps. The same in all threads.
 */
__device__ inline largest find_largest(const struct rules_device &r, const allowed &a,
                                       const float *row)
{
    __shared__ largest shared[WARPS];
    const span ids = warp_span((int32_t)r.vocab);
    largest l = {{-INFINITY, NOBODY}, {-INFINITY, NOBODY}, {-INFINITY, NOBODY}};

    for (int32_t first = ids.from + lane_id(); first < ids.to; first += 32 * DEEP) {
        float v[DEEP];

        load_logits(row, first, ids.to, v);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            const int32_t id = first + i * 32;

            if (v[i] > l.raw.value)
                l.raw = {v[i], id};
            if (id < r.timestamp_begin) {
                if (v[i] > l.text.value && rules_allow_id(r, a, id))
                    l.text = {v[i], id};
            } else if (v[i] > l.time.value && rules_allow_id(r, a, id)) {
                l.time = {v[i], id};
            }
        }
    }
    l = {warp_best(l.raw), warp_best(l.text), warp_best(l.time)};
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = l;
    __syncthreads();
    l = shared[threadIdx.x % 32]; /* WARPS is a warp's lanes */
    return {warp_best(l.raw), warp_best(l.text), warp_best(l.time)};
}

struct masses {
    double raw, text, time;
};

/* Sums of e^(logit - high): of all, relative to raw_high, if `raw`; of what is allowed, to `high`.
 */
__device__ inline masses find_masses(const struct rules_device &r, const allowed &a,
                                     const float *row, bool raw, float raw_high, float high)
{
    __shared__ masses shared[WARPS];
    const span ids = warp_span((int32_t)r.vocab);
    masses m = {0.0, 0.0, 0.0};

    for (int32_t first = ids.from + lane_id(); first < ids.to; first += 32 * DEEP) {
        float v[DEEP];

        load_logits(row, first, ids.to, v);
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            const int32_t id = first + i * 32;

            if (raw)
                m.raw += (double)expf(v[i] - raw_high);
            if (id < ids.to && rules_allow_id(r, a, id)) {
                const double e = (double)expf(v[i] - high);

                m.text += id < r.timestamp_begin ? e : 0.0;
                m.time += id < r.timestamp_begin ? 0.0 : e;
            }
        }
    }
    m = {warp_sum64(m.raw), warp_sum64(m.text), warp_sum64(m.time)};
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = m;
    __syncthreads();
    m = {0.0, 0.0, 0.0};
    for (int w = 0; w < WARPS; w++) {
        m.raw += shared[w].raw;
        m.text += shared[w].text;
        m.time += shared[w].time;
    }
    return m;
}

/* What a draw is made from: allowed ids from `from`, with weights e^((logit - high) / temperature).
 */
struct lots {
    const float *row;
    int32_t from;
    float high, temperature;
};

__device__ inline double weight_of(const struct rules_device &r, const allowed &a, const lots &l,
                                   int32_t id, int32_t end)
{
    if (id >= end || id < l.from || !rules_allow_id(r, a, id))
        return 0.0;
    return (double)expf((logit(l.row, id) - l.high) / l.temperature);
}

/* Sums of the lanes up to each: lane 31 has all. */
__device__ inline double warp_scan(double v)
{
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        const double below = __shfl_up_sync(ALL_LANES, v, lanes);

        if (lane_id() >= lanes)
            v += below;
    }
    return v;
}

/* Goes through the warp's ids in order, with `sum` before the first; returns the sum after the
 * last. *drawn: the first id after which the sum passes target, NOBODY where none does; *possible:
 * the last with a weight. Both are the warp's. */
__device__ inline double walk(const struct rules_device &r, const allowed &a, const lots &l,
                              double sum, double target, int32_t *drawn, int32_t *possible)
{
    const span ids = warp_span((int32_t)r.vocab);
    const int lane = lane_id();

    *drawn = NOBODY;
    *possible = -1;
    for (int32_t first = ids.from; first < ids.to; first += 32) {
        const double w = weight_of(r, a, l, first + lane, ids.to), here = sum + warp_scan(w);
        const unsigned some = __ballot_sync(ALL_LANES, w > 0.0);
        const unsigned passed = __ballot_sync(ALL_LANES, w > 0.0 && here > target);

        if (passed != 0 && *drawn == NOBODY)
            *drawn = first + __ffs((int)passed) - 1;
        if (some != 0)
            *possible = first + 31 - __clz((int)some);
        sum = __shfl_sync(ALL_LANES, here, 31);
    }
    return sum;
}

/* The id at which the growing sum passes uniform times the whole; the last possible one where
 * rounding keeps it below. The same in all threads. */
__device__ inline int32_t draw(const struct rules_device &r, const allowed &a, const lots &l,
                               double uniform)
{
    __shared__ double totals[WARPS];
    __shared__ int32_t drawn_by[WARPS], possible_in[WARPS];
    const int warp = (int)threadIdx.x / 32;
    double before = 0.0, whole = 0.0, own;
    int32_t drawn, possible, last = -1;

    own = walk(r, a, l, 0.0, INFINITY, &drawn, &possible);
    if (threadIdx.x % 32 == 0)
        totals[warp] = own;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? totals[w] : 0.0;
        whole += totals[w];
    }
    walk(r, a, l, before, uniform * whole, &drawn, &possible);
    if (threadIdx.x % 32 == 0) {
        drawn_by[warp] = drawn;
        possible_in[warp] = possible;
    }
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        if (drawn_by[w] != NOBODY)
            return drawn_by[w];
        last = possible_in[w] >= 0 ? possible_in[w] : last;
    }
    return last;
}

/* The likeliest language and its share: by one warp. */
__device__ inline void choose_language(const struct rules_device &r, const float *row,
                                       struct choice *ret)
{
    best b = {-INFINITY, NOBODY}; /* its id is a place in the list */
    double sum = 0.0;

    for (int32_t i = lane_id(); i < (int32_t)r.language_count; i += 32)
        b = better(b, {logit(row, r.languages[i]), i});
    b = warp_best(b);
    for (int32_t i = lane_id(); i < (int32_t)r.language_count; i += 32) {
        const double e = (double)expf(logit(row, r.languages[i]) - b.value);

        sum += e == e ? e : 0.0; /* none where all are minus infinity */
    }
    sum = warp_sum64(sum);
    if (b.id != NOBODY)
        ret->language = r.languages[b.id];
    ret->language_prob = sum > 0.0 ? 1.0 / sum : 0.0;
}

/* Whether all timestamps together are likelier than any text. */
__device__ inline bool only_times(const largest &l, const masses &m)
{
    return l.time.id != NOBODY &&
           m.time > (double)expf(l.text.value - fmaxf(l.text.value, l.time.value));
}

/* Whether something is allowed that may be chosen. */
__device__ inline bool has_choice(const largest &l)
{
    const float high = fmaxf(l.text.value, l.time.value);

    return (l.text.id != NOBODY || l.time.id != NOBODY) && high <= FLT_MAX;
}

__device__ inline void choose_token(const struct rules_device &r, const allowed &a,
                                    const float *row, const struct choice_ask &ask,
                                    const largest &l, const masses &m, bool time_only,
                                    struct choice *ret)
{
    const float high = fmaxf(l.text.value, l.time.value);

    if (ask.temperature > 0.0f)
        ret->token = draw(r, a,
                          {row, time_only ? r.timestamp_begin : 0, time_only ? l.time.value : high,
                           ask.temperature},
                          ask.uniform);
    else if (time_only || l.time.value > l.text.value)
        ret->token = l.time.id;
    else
        ret->token = l.text.id;
    if (ret->token >= 0)
        ret->logprob = (double)logit(row, ret->token) - (double)high -
                       log((time_only ? 0.0 : m.text) + m.time);
}

/* How likely the given token is among those below eot, which `l` and `m` are of. */
__device__ inline void weigh_given(const struct rules_device &r, const float *row,
                                   const struct choice_ask &ask, const largest &l, const masses &m,
                                   struct choice *ret)
{
    if (ask.last < 0 || ask.last >= r.eot || !has_choice(l))
        return;
    ret->token = ask.last;
    ret->logprob = (double)logit(row, ask.last) - (double)fmaxf(l.text.value, l.time.value) -
                   log(m.text + m.time);
}

/* What is forbidden becomes minus infinity. Everybody has read the row. */
__device__ inline void mask_row(const struct rules_device &r, const allowed &a, bool time_only,
                                float *row)
{
    const span ids = warp_span((int32_t)r.vocab);

    for (int32_t id = ids.from + lane_id(); id < ids.to; id += 32) {
        if ((time_only && id < r.timestamp_begin) || !rules_allow_id(r, a, id))
            row[id] = -INFINITY;
    }
}

__global__ __launch_bounds__(THREADS) void choose_rows(struct rules_device r, struct tensor logits,
                                                       const struct choice_ask *asks,
                                                       struct choice *rets)
{
    float *row = row_of<float>(logits, blockIdx.x);
    const struct choice_ask ask = asks[blockIdx.x];
    const bool start = ask.what & CHOOSE_START, token = ask.what & CHOOSE_TOKEN;
    const bool given = !token && ask.what & CHOOSE_GIVEN;
    struct choice ret = {-1, -1, 0, 0, -INFINITY, 0.0, 0.0};

    if (start || token || given) { /* the whole block */
        const allowed a = rules_allow(r, ask);
        const largest l = find_largest(r, a, row);
        const masses m =
            find_masses(r, a, row, start, l.raw.value, fmaxf(l.text.value, l.time.value));
        const bool some = has_choice(l), time_only = some && only_times(l, m);

        ret.usable = l.raw.id != NOBODY && l.raw.value <= FLT_MAX;
        if (start && threadIdx.x < 32)
            choose_language(r, row, &ret);
        if (start && r.no_speech >= 0 && ret.usable)
            ret.no_speech = (double)expf(logit(row, r.no_speech) - l.raw.value) / m.raw;
        if (given)
            weigh_given(r, row, ask, l, m, &ret);
        if (token && some)
            choose_token(r, a, row, ask, l, m, time_only, &ret);
        if (token) {
            __syncthreads();
            mask_row(r, a, time_only, row);
        }
    }
    if (threadIdx.x == 0)
        rets[blockIdx.x] = ret;
}

} // namespace

int k_choose(cudaStream_t s, struct rules_device r, struct tensor logits,
             const struct choice_ask *ask, struct choice *ret)
{
    if (is_empty(logits))
        return 0;
    LAUNCH(choose_rows, dim3((unsigned)logits.rows), dim3(THREADS), 0, s)(r, logits, ask, ret);
    return launched();
}
