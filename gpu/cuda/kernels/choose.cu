/* Which token comes next: Whisper's rules over rows of logits, as gpu/host/choose.c has them.
 *
 * A block of 16 warps for a row, and two blocks for a multiprocessor: 256 rows at once on 132 of
 * them. The row (207 KB with 51,866 ids) is read twice, 4 ids by one access and four accesses of a
 * thread under way: the largest logits, then the sums of exponentials, which come from the
 * second-level cache; and, when there is a temperature, twice more for the draw. The rules give 4
 * bits for 4 ids, in some twenty instructions. Forbidden ids are written last, without reading the
 * row: a thousand or two in most rows.
 *
 * Exponentials are float32 (float64 ones would take a tenth of a step where float64 is slow), those
 * of 4 ids are added as such, and then as float64. Host and device so differ in the seventh digit
 * of a probability; the likeliest token is the same one. Nothing depends on other rows.
 *
 * A first version, of 32 warps that read 4 bytes at a time, took 87 us for 256 rows on an H100,
 * whose memory wants 18 us for 53 MB. */
#include "gpu/cuda/kernels/logits.h"

namespace
{

constexpr int WARPS = 16;
constexpr int THREADS = 32 * WARPS;
constexpr int DEEP = 4; /* accesses of a thread that are under way together */
constexpr int FOUR = 4; /* ids of an access */
constexpr uint32_t ALL_FOUR = 0xf;
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

/* Bits of those of ids first .. first + 3 that lie in [from, to). */
__device__ inline uint32_t in_range(int32_t first, int32_t from, int32_t to)
{
    return (ALL_FOUR << min(max(from - first, 0), FOUR)) &
           ~(ALL_FOUR << min(max(to - first, 0), FOUR)) & ALL_FOUR;
}

/* Which of 4 ids may follow, as bits: text, and timestamps. */
struct four_allowed {
    uint32_t text, time;
};

/* first: a multiple of 4 below the vocabulary. */
__device__ inline four_allowed rules_allow_four(const struct rules_device &r, const allowed &a,
                                                int32_t first)
{
    four_allowed f = {in_range(first, a.text, a.text_end), in_range(first, a.time, a.time_end)};
    uint32_t never;

    if (a.plain)
        return f;
    never = __ldg(r.never + first / 32) >> (first % 32);
    never &= ~in_range(first, r.eot, r.eot + 1); /* without its end no window would ever end */
    if (a.first)
        never |= __ldg(r.never_first + first / 32) >> (first % 32);
    return {f.text & ~never, f.time & ~never};
}

__device__ inline bool rules_allow_id(const struct rules_device &r, const allowed &a, int32_t id)
{
    const four_allowed f = rules_allow_four(r, a, id / FOUR * FOUR);

    return (f.text | f.time) >> (id % FOUR) & 1u;
}

/* A row as the block reads it. */
struct logits_row {
    float *at;
    int32_t vocab;
    bool aligned; /* to 16 bytes */
};

typedef pack<float, FOUR> four_logits;

__device__ inline bool is_whole(const logits_row &row, int32_t first)
{
    return row.aligned && first + FOUR <= row.vocab;
}

__device__ inline four_logits whole_four(const logits_row &row, int32_t first)
{
    return *reinterpret_cast<const four_logits *>(row.at + first);
}

/* Minus infinity beyond the vocabulary. */
__device__ inline four_logits any_four(const logits_row &row, int32_t first)
{
    four_logits ret;

    if (is_whole(row, first))
        return whole_four(row, first);
#pragma unroll
    for (int j = 0; j < FOUR; j++)
        ret.v[j] = first + j < row.vocab ? row.at[first + j] : -INFINITY;
    return ret;
}

/* f(the first of 4 ids, their logits) for all that are this thread's, in ascending order. NaN has
 * become minus infinity. */
template <class F> __device__ inline void for_fours(const logits_row &row, F f)
{
    constexpr int32_t STEP = FOUR * THREADS;

    for (int32_t first = FOUR * (int32_t)threadIdx.x; first < row.vocab; first += DEEP * STEP) {
        four_logits four[DEEP];

        if (is_whole(row, first + (DEEP - 1) * STEP)) {
#pragma unroll
            for (int i = 0; i < DEEP; i++)
                four[i] = whole_four(row, first + i * STEP);
        } else {
#pragma unroll
            for (int i = 0; i < DEEP; i++)
                four[i] = any_four(row, first + i * STEP);
        }
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
#pragma unroll
            for (int j = 0; j < FOUR; j++)
                four[i].v[j] = fmaxf(four[i].v[j], -INFINITY);
            if (first + i * STEP < row.vocab)
                f(first + i * STEP, four[i].v);
        }
    }
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
    float raw; /* of all logits */
    best text, time;
};

__device__ inline largest warp_largest(const largest &l)
{
    return {warp_max(l.raw), warp_best(l.text), warp_best(l.time)};
}

/* Takes the best of those of 4 ids whose bits are set, if it beats b. Their ids are larger: b wins
 * ties. */
__device__ inline void take_best(best &b, uint32_t bits, int32_t first, const float *v)
{
#pragma unroll
    for (int j = 0; j < FOUR; j++)
        if ((bits >> j & 1u) && v[j] > b.value)
            b = {v[j], first + j};
}

/* The largest of all logits of the row, of allowed text and of allowed timestamps. All threads get
 * the same. */
__device__ inline largest find_largest(const struct rules_device &r, const allowed &a,
                                       const logits_row &row)
{
    __shared__ largest shared[WARPS];
    largest l = {-INFINITY, {-INFINITY, NOBODY}, {-INFINITY, NOBODY}};

    for_fours(row, [&](int32_t first, const float *v) {
        const four_allowed f = rules_allow_four(r, a, first);

        l.raw = fmaxf(l.raw, fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3])));
        if (f.text != 0)
            take_best(l.text, f.text, first, v);
        if (f.time != 0)
            take_best(l.time, f.time, first, v);
    });
    l = warp_largest(l);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = l;
    __syncthreads();
    return warp_largest(shared[threadIdx.x % WARPS]);
}

struct masses {
    double raw, text, time;
};

/* The sum of e^(logit - high) over those of 4 ids whose bits are set. */
__device__ inline double mass_of(uint32_t bits, const float *v, float high)
{
    float e[FOUR];

#pragma unroll
    for (int j = 0; j < FOUR; j++)
        e[j] = expf((bits >> j & 1u ? v[j] : -INFINITY) - high);
    return (double)((e[0] + e[1]) + (e[2] + e[3]));
}

/* Sums of e^(logit - high): of all, relative to raw_high, if `raw`; of what is allowed, to `high`.
 */
__device__ inline masses find_masses(const struct rules_device &r, const allowed &a,
                                     const logits_row &row, bool raw, float raw_high, float high)
{
    __shared__ masses shared[WARPS];
    masses m = {0.0, 0.0, 0.0};

    for_fours(row, [&](int32_t first, const float *v) {
        const four_allowed f = rules_allow_four(r, a, first);

        if (raw)
            m.raw += mass_of(ALL_FOUR, v, raw_high);
        if (f.text != 0)
            m.text += mass_of(f.text, v, high);
        if (f.time != 0)
            m.time += mass_of(f.time, v, high);
    });
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

/* A draw takes one of the allowed ids from `from` on, with weights e^((logit - high) /
 * temperature). */
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
    const span ids = warp_span((int32_t)r.vocab, THREADS);
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

/* Forbidden ids become minus infinity. All threads have read the row by then. */
__device__ inline void mask_row(const struct rules_device &r, const allowed &a, bool time_only,
                                const logits_row &row)
{
    for (int32_t first = FOUR * (int32_t)threadIdx.x; first < row.vocab; first += FOUR * THREADS) {
        const four_allowed f = rules_allow_four(r, a, first);
        const uint32_t out = ~(f.time | (time_only ? 0 : f.text)) & in_range(first, 0, row.vocab);

        if (out == ALL_FOUR && row.aligned) {
            *reinterpret_cast<four_logits *>(row.at + first) = {
                {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
            continue;
        }
#pragma unroll
        for (int j = 0; j < FOUR; j++)
            if (out >> j & 1u)
                row.at[first + j] = -INFINITY;
    }
}

__global__ __launch_bounds__(THREADS, 2) void choose_rows(struct rules_device r,
                                                          struct tensor logits, bool aligned,
                                                          const struct choice_ask *asks,
                                                          struct choice *rets)
{
    float *row = row_of<float>(logits, blockIdx.x);
    const logits_row whole = {row, (int32_t)r.vocab, aligned};
    const struct choice_ask ask = asks[blockIdx.x];
    const bool start = ask.what & CHOOSE_START, token = ask.what & CHOOSE_TOKEN;
    const bool given = !token && ask.what & CHOOSE_GIVEN;
    struct choice ret = {-1, -1, 0, 0, -INFINITY, 0.0, 0.0};

    if (start || token || given) { /* the whole block */
        const allowed a = rules_allow(r, ask);
        const largest l = find_largest(r, a, whole);
        const masses m = find_masses(r, a, whole, start, l.raw, fmaxf(l.text.value, l.time.value));
        const bool some = has_choice(l), time_only = some && only_times(l, m);

        ret.usable = l.raw > -INFINITY && l.raw <= FLT_MAX;
        if (start && threadIdx.x < 32)
            choose_language(r, row, &ret);
        if (start && r.no_speech >= 0 && ret.usable)
            ret.no_speech = (double)expf(logit(row, r.no_speech) - l.raw) / m.raw;
        if (given)
            weigh_given(r, row, ask, l, m, &ret);
        if (token && some)
            choose_token(r, a, row, ask, l, m, time_only, &ret);
        if (token) {
            __syncthreads();
            mask_row(r, a, time_only, whole);
        }
    }
    if (threadIdx.x == 0)
        rets[blockIdx.x] = ret;
}

} // namespace

int k_choose(cudaStream_t s, struct rules_device r, struct tensor logits,
             const struct choice_ask *ask, struct choice *ret)
{
    const bool aligned = is_aligned(logits.data) && (logits.stride % FOUR == 0 || logits.rows == 1);

    if (is_empty(logits))
        return 0;
    if (r.vocab > INT32_MAX - DEEP * FOUR * THREADS)
        return (int)cudaErrorInvalidValue;
    LAUNCH(choose_rows, dim3((unsigned)logits.rows), dim3(THREADS), 0, s)
    (r, logits, aligned, ask, ret);
    return launched();
}
