/* The kernel that chooses tokens, against openai-whisper's rules as they read in
 * whisper/decoding.py, computed in double: sequences that the rules could have led to, vocabularies
 * of Whisper's sizes and odd ones, and the corners. Where two answers are equally right (a draw on
 * the edge between two ids), either is accepted. */
#include "matrix.h"

struct vocabulary {
    int32_t size, eot, begin, end, max_initial, no_speech;
    std::vector<int32_t> never, never_first, languages;
};

static vocabulary english(void)
{
    vocabulary v = {2200, 640, 650, 2150, 700, 649, {7, 63, 64, 640, 645}, {220, 640}, {}};

    for (int32_t i = 0; i < 9; i++)
        v.languages.push_back(641 + i % 8);
    return v;
}

static vocabulary large(void)
{
    vocabulary v = {51866,        50257, 50365, 51865, 50415, 50363, {1, 2, 31, 32, 50256},
                    {220, 50257}, {}};

    for (int32_t i = 0; i < 100; i++)
        v.languages.push_back(50259 + i);
    return v;
}

/* The tables on the device. */
class rules
{
  public:
    explicit rules(const vocabulary &v_)
        : v(v_), never(bitmap(v_.never)), never_first(bitmap(v_.never_first)),
          languages(v_.languages)
    {
    }
    std::vector<struct choice> choose(const std::vector<float> &logits,
                                      const std::vector<struct choice_ask> &asks, int64_t gap = 0,
                                      std::vector<float> *left = nullptr) const
    {
        struct choice nothing;

        memset(&nothing, 0xee, sizeof(nothing));
        matrix m(DTYPE_F32, (int64_t)asks.size(), v.size, logits, gap);
        array<struct choice_ask> ask(asks);
        array<struct choice> ret(asks.size(), nothing);
        struct rules_device r = {(uint32_t)v.size,
                                 v.eot,
                                 v.no_speech,
                                 v.begin,
                                 v.end,
                                 v.max_initial,
                                 (uint32_t)v.languages.size(),
                                 languages.p,
                                 never.p,
                                 never_first.p};

        WELL(k_choose(nullptr, r, m.tensor(), ask.p, ret.p));
        std::vector<float> masked = m.get(); /* nothing written around the logits */
        if (left)
            *left = masked;
        return ret.get();
    }
    const vocabulary v;

  private:
    std::vector<uint32_t> bitmap(const std::vector<int32_t> &ids) const
    {
        std::vector<uint32_t> bits(((size_t)v.size + 31) / 32);

        for (int32_t id : ids)
            bits[(size_t)id / 32] |= 1u << id % 32;
        return bits;
    }
    array<uint32_t> never, never_first;
    array<int32_t> languages;
};

/* --- the rules once more ---------------------------------------------------------------------- */

typedef std::vector<int32_t> sequence;

static std::vector<double> masked(const vocabulary &v, const sequence &seq, const float *logits,
                                  bool times)
{
    size_t n = seq.size();
    bool last = n >= 1 && seq[n - 1] >= v.begin, penultimate = n < 2 || seq[n - 2] >= v.begin;
    std::vector<double> l(logits, logits + v.size);
    int32_t previous = -1;

    for (int32_t t : seq)
        previous = t >= v.begin ? t : previous;
    for (int32_t id : v.never)
        if (id != v.eot)
            l[(size_t)id] = -INFINITY;
    for (int32_t i = 0; i < v.size; i++) {
        bool time = i >= v.begin && i <= v.end, out = (i > v.eot && i < v.begin) || i > v.end;

        out = out || std::isnan(l[(size_t)i]);
        if (!times) {
            l[(size_t)i] = out || time ? -INFINITY : l[(size_t)i];
            continue;
        }
        out = out || (last && (penultimate ? time : i < v.eot));
        out =
            out || (time && previous >= 0 && i < (last && !penultimate ? previous : previous + 1));
        out = out || (n == 0 && (!time || i > v.max_initial));
        if (out)
            l[(size_t)i] = -INFINITY;
    }
    for (int32_t id : v.never_first)
        if (n == 0)
            l[(size_t)id] = -INFINITY;
    return l;
}

static double log_sum(const std::vector<double> &l, int32_t from, int32_t to)
{
    double high = -INFINITY, sum = 0;

    for (int32_t i = from; i < to; i++)
        high = fmax(high, l[(size_t)i]);
    if (std::isinf(high))
        return high;
    for (int32_t i = from; i < to; i++)
        sum += exp(l[(size_t)i] - high);
    return high + log(sum);
}

/* Timestamps alone where they are together likelier than any text. */
static void mask_by_mass(const vocabulary &v, std::vector<double> &l)
{
    double text = -INFINITY;

    for (int32_t i = 0; i < v.begin; i++)
        text = fmax(text, l[(size_t)i]);
    if (log_sum(l, v.begin, v.size) > text)
        for (int32_t i = 0; i < v.begin; i++)
            l[(size_t)i] = -INFINITY;
}

static int32_t likeliest(const std::vector<double> &l)
{
    int32_t id = -1;

    for (int32_t i = 0; i < (int32_t)l.size(); i++)
        if (std::isfinite(l[(size_t)i]) && (id < 0 || l[(size_t)i] > l[(size_t)id]))
            id = i;
    return id;
}

/* Whether the draw `id` is right: uniform lies in its share, or within 1e-6 of it. */
static bool drawn_rightly(const std::vector<double> &l, int32_t id, double temperature,
                          double uniform)
{
    double high = -INFINITY, total = 0, before = 0, own = 0;

    for (double x : l)
        high = fmax(high, x);
    for (int32_t i = 0; i < (int32_t)l.size(); i++) {
        double w = exp((l[(size_t)i] - high) / temperature);

        total += w;
        before += i < id ? w : 0;
        own = i == id ? w : own;
    }
    return own > 0 && before / total <= uniform + 1e-6 && (before + own) / total >= uniform - 1e-6;
}

/* --- random rows ------------------------------------------------------------------------------ */

static sequence random_sequence(const vocabulary &v)
{
    size_t want = (size_t)below(12);
    int32_t at = v.begin + (int32_t)below(v.max_initial - v.begin + 1);
    sequence seq;

    while (seq.size() < want) {
        seq.push_back(at);
        for (int64_t words = 1 + below(4); seq.size() < want && words; words--)
            seq.push_back((int32_t)below(v.eot));
        at = std::min(at + 1 + (int32_t)below(200), v.end);
        if (seq.size() < want)
            seq.push_back(at);
    }
    return seq;
}

static struct choice_ask ask_of(const vocabulary &v, const sequence &seq, uint32_t what,
                                float temperature, double u)
{
    struct choice_ask ask = {(int32_t)seq.size(), -1, -1, -1, what, temperature, u};

    for (int32_t t : seq) {
        ask.before = ask.last;
        ask.last = t;
        ask.last_time = t >= v.begin ? t : ask.last_time;
    }
    return ask;
}

static void check_start(const vocabulary &v, const float *row, const struct choice &got)
{
    std::vector<double> l(row, row + v.size), in_list;
    int32_t best = 0;

    for (double &x : l)
        x = std::isnan(x) ? -INFINITY : x;
    for (int32_t id : v.languages)
        in_list.push_back(l[(size_t)id]);
    for (int32_t i = 0; i < (int32_t)in_list.size(); i++)
        best = in_list[(size_t)i] > in_list[(size_t)best] ? i : best;
    assert_int_equal(got.language, in_list.empty() ? -1 : v.languages[(size_t)best]);
    if (!in_list.empty()) {
        double p = exp(in_list[(size_t)best] - log_sum(in_list, 0, (int32_t)in_list.size()));

        assert_true(fabs(got.language_prob - p) < 1e-6);
    }
    assert_true(fabs(got.no_speech - exp(l[(size_t)v.no_speech] - log_sum(l, 0, v.size))) < 1e-6);
}

static void check_given(const vocabulary &v, const float *row, const struct choice_ask &ask,
                        const struct choice &got)
{
    std::vector<double> l(row, row + v.size);

    if (!(ask.what & CHOOSE_GIVEN)) {
        assert_int_equal(got.token, -1);
        return;
    }
    for (double &x : l)
        x = std::isnan(x) ? -INFINITY : x;
    assert_int_equal(got.token, ask.last < v.eot ? ask.last : -1);
    if (got.token < 0 || std::isinf(l[(size_t)ask.last]))
        assert_true(got.logprob == -INFINITY);
    else
        assert_true(fabs(got.logprob - (l[(size_t)ask.last] - log_sum(l, 0, v.eot))) < 2e-6);
}

static void check_row(const vocabulary &v, const float *row, const sequence &seq,
                      const struct choice_ask &ask, const struct choice &got, const float *left)
{
    std::vector<double> l = masked(v, seq, row, !(ask.what & CHOOSE_NO_TIMES));

    assert_int_equal(got.usable, 1);
    if (ask.what & CHOOSE_START)
        check_start(v, row, got);
    else
        assert_true(got.language == -1 && got.language_prob == 0 && got.no_speech == 0);
    if (!(ask.what & CHOOSE_TOKEN)) {
        check_given(v, row, ask, got);
        assert_memory_equal(left, row, (size_t)v.size * sizeof(float));
        return;
    }
    mask_by_mass(v, l);
    for (size_t i = 0; i < l.size(); i++) /* what top is to see; a NaN may stay one */
        assert_true(std::isinf(l[i]) ? std::isinf(left[i]) || std::isnan(left[i])
                                     : (double)left[i] == l[i]);
    if (ask.temperature > 0)
        assert_true(drawn_rightly(l, got.token, (double)ask.temperature, ask.uniform));
    else
        assert_int_equal(got.token, likeliest(l));
    assert_true(fabs(got.logprob - (l[(size_t)got.token] - log_sum(l, 0, v.size))) < 2e-6);
}

static int texts, times; /* that were chosen in a test */

static void check_batches(const vocabulary &v, int batches, int rows, int64_t gap)
{
    const rules r(v);
    static const uint32_t ASKED[] = {1,
                                     1,
                                     1,
                                     1,
                                     CHOOSE_TOKEN | CHOOSE_NO_TIMES,
                                     CHOOSE_TOKEN | CHOOSE_NO_TIMES | CHOOSE_START,
                                     CHOOSE_TOKEN | CHOOSE_START,
                                     CHOOSE_START,
                                     CHOOSE_GIVEN,
                                     CHOOSE_GIVEN | CHOOSE_START};

    for (int b = 0; b < batches; b++) {
        std::vector<float> logits;
        std::vector<struct choice_ask> asks;
        std::vector<sequence> seqs;

        for (int i = 0; i < rows; i++) {
            std::vector<float> row = normals((size_t)v.size, i % 3 ? 4.0f : 0.5f);

            row[(size_t)below(v.size)] = NAN;
            row[(size_t)below(v.size)] = -INFINITY;
            logits.insert(logits.end(), row.begin(), row.end());
            seqs.push_back(random_sequence(v));
            asks.push_back(ask_of(v, seqs.back(), ASKED[below(10)],
                                  i % 4 == 3 ? (float)(0.2 + uniform()) : 0.0f, uniform()));
        }
        std::vector<float> left;
        std::vector<struct choice> got = r.choose(logits, asks, gap, &left);
        for (size_t i = 0; i < asks.size(); i++) {
            check_row(v, &logits[i * (size_t)v.size], seqs[i], asks[i], got[i],
                      &left[i * (size_t)v.size]);
            texts += got[i].token >= 0 && got[i].token < v.begin;
            times += got[i].token >= v.begin;
        }
    }
}

static int count_none(void **)
{
    texts = times = 0;
    return 0;
}

static int have_both(void **) { return texts > 0 && times > 0 ? 0 : -1; }

TEST_BOTH(test_against_reading, count_none, have_both) { check_batches(english(), 12, 21, 0); }
TEST_BOTH(test_large_vocabulary, count_none, have_both) { check_batches(large(), 1, 12, 6); }

/* Vocabularies about the sizes at which the work is divided. */
TEST_BOTH(test_odd_sizes, count_none, have_both)
{
    for (int32_t size : {2151, 2176, 3072, 3073, 4097}) {
        vocabulary v = english();

        v.size = size;
        check_batches(v, 1, 8, 1);
    }
}

/* --- corners ---------------------------------------------------------------------------------- */

static struct choice one(const vocabulary &v, const std::vector<float> &logits, const sequence &seq,
                         float temperature = 0.0f, double u = 0.0, uint32_t what = CHOOSE_TOKEN)
{
    return rules(v).choose(logits, {ask_of(v, seq, what, temperature, u)})[0];
}

TEST(test_ties)
{
    const vocabulary v = english();
    std::vector<float> l((size_t)v.size, -INFINITY);

    l[30] = l[17] = l[99] = 1.5f;
    assert_int_equal(one(v, l, {650, 3}).token, 17);
    l.assign(l.size(), -INFINITY);
    l[5] = l[653] = 2.0f; /* equal mass: only a larger one forces a timestamp */
    assert_int_equal(one(v, l, {650, 3}).token, 5);
    l[654] = -5.0f;
    assert_int_equal(one(v, l, {650, 3}).token, 653);
    l.assign(l.size(), 0.0f);
    assert_int_equal(one(v, l, {}).token, 650);
}

TEST(test_mass)
{
    const vocabulary v = english();
    std::vector<float> l((size_t)v.size, -INFINITY);

    l[5] = 1.0f;
    for (size_t i = 0; i < 100; i++)
        l[660 + i] = -1.0f;
    struct choice c = one(v, l, {650, 3});
    assert_int_equal(c.token, 660);
    assert_true(fabs(c.logprob + log(100)) < 1e-6);
    l[5] = 4.0f; /* more than a hundred times as likely as each */
    c = one(v, l, {650, 3});
    assert_int_equal(c.token, 5);
    assert_true(fabs(c.logprob + log1p(100 * exp(-5))) < 1e-6);
}

TEST(test_unusable)
{
    const vocabulary v = english();
    std::vector<float> l((size_t)v.size, NAN);
    const uint32_t all = CHOOSE_START | CHOOSE_TOKEN;

    for (float t : {0.0f, 0.7f}) {
        struct choice c = one(v, l, {650}, t, 0.5, all);

        assert_true(c.token == -1 && c.usable == 0 && c.no_speech == 0 && c.language_prob == 0);
        assert_true(c.language == v.languages[0] && c.logprob == -INFINITY);
    }
    l[7 + 1] = -3.0f;
    for (float t : {0.0f, 0.7f})
        for (double u : {0.0, 0.999999}) {
            struct choice c = one(v, l, {650}, t, u, all);

            assert_true(c.token == 8 && c.usable == 1 && c.logprob == 0);
        }
    l[9] = INFINITY;
    struct choice c = one(v, l, {650}, 0.0f, 0.0, all);
    assert_true(c.token == -1 && c.usable == 0);
    l.assign(l.size(), -INFINITY);
    assert_int_equal(one(v, l, {650}).usable, 0);
    l[645] = 1.0f; /* finite, but forbidden */
    c = one(v, l, {650}, 0.4f, 0.5);
    assert_true(c.token == -1 && c.usable == 1 && c.logprob == -INFINITY);
}

/* The end must stay possible even where a model's list forbids it; nothing asked, nothing said. */
TEST(test_end_and_nothing)
{
    const vocabulary v = english();
    std::vector<float> l((size_t)v.size, 0.0f);

    l[(size_t)v.eot] = 20.0f;
    assert_int_equal(one(v, l, {650, 3}).token, v.eot);
    assert_int_not_equal(one(v, l, {}).token, v.eot);
    struct choice c = one(v, l, {650, 3}, 0.0f, 0.0, 0);
    assert_true(c.token == -1 && c.language == -1 && c.usable == 0);
}

/* A token outside of what is weighed, one that is no number, and logits that are not finite. */
TEST(test_given)
{
    const vocabulary v = english();
    std::vector<float> l((size_t)v.size, -2.0f);
    const auto ask = [&](int32_t last) {
        struct choice_ask a = {2, last, 3, 650, CHOOSE_GIVEN, 0.0f, 0.0};

        return rules(v).choose(l, {a})[0];
    };

    l[7] = 1.0f; /* never produced, but given */
    l[(size_t)v.eot] = 50.0f;
    assert_true(fabs(ask(7).logprob + log1p((v.eot - 1) * exp(-3.0))) < 2e-6);
    assert_int_equal(ask(7).usable, 1);
    for (int32_t out : {-1, v.eot, v.begin, v.size})
        assert_true(ask(out).token == -1 && ask(out).logprob == -INFINITY);
    l[8] = NAN;
    assert_true(ask(8).logprob == -INFINITY && ask(8).usable == 1);
    l[9] = INFINITY;
    assert_true(ask(7).logprob == -INFINITY && ask(7).usable == 0);
    l.assign(l.size(), NAN);
    assert_true(ask(7).logprob == -INFINITY && ask(7).usable == 0);
}

/* Without timestamps: neither asked for at the begin, nor forced by their mass, nor in pairs. */
TEST(test_no_times)
{
    const vocabulary v = english();
    const uint32_t what = CHOOSE_TOKEN | CHOOSE_NO_TIMES;
    std::vector<float> l((size_t)v.size, 5.0f);

    for (size_t i = 0; i < (size_t)v.begin; i++)
        l[i] = -1.0f;
    l[220] = 2.0f;
    l[300] = 1.0f;
    l[(size_t)v.eot] = 1.5f;
    assert_int_equal(one(v, l, {}, 0.0f, 0.0, what).token, 300); /* neither 220 nor the end first */
    assert_int_equal(one(v, l, {5}, 0.0f, 0.0, what).token, 220);
    l[220] = -1.0f;
    assert_int_equal(one(v, l, {5, 6}, 0.0f, 0.0, what).token, v.eot);
    assert_int_equal(one(v, l, {650, 700}, 0.0f, 0.0, what).token, v.eot);
    assert_true(one(v, l, {5, 6}, 0.5f, 0.999999, what).token <= v.eot);
}

/* Frequencies of drawn tokens against the softmax; a timestamp's share included. */
TEST(test_draws)
{
    const vocabulary v = english();
    const rules r(v);
    const size_t ids[] = {0, 31, 32, 639, 640, 700, 2150};
    const int draws = 600;
    std::vector<float> l((size_t)v.size, -INFINITY);
    std::vector<struct choice_ask> asks;
    std::vector<float> logits;
    double total = 0;
    int counts[7] = {};

    for (size_t i = 0; i < 7; i++) {
        l[ids[i]] = 0.3f * (float)(i % 3);
        total += exp((double)l[ids[i]] / 0.5);
    }
    l[0] = 2.5f; /* likelier than both timestamps together */
    total += exp(2.5 / 0.5) - 1.0;
    for (int i = 0; i < draws; i++)
        asks.push_back(ask_of(v, {650, 3}, CHOOSE_TOKEN, 0.5f, (i + 0.5) / draws));
    for (int from = 0; from < draws; from += 200) {
        std::vector<struct choice_ask> some(asks.begin() + from, asks.begin() + from + 200);

        logits.clear();
        for (int i = 0; i < 200; i++)
            logits.insert(logits.end(), l.begin(), l.end());
        int32_t before = -1;
        for (const struct choice &c : r.choose(logits, some)) {
            bool known = false;

            for (size_t i = 0; i < 7; i++)
                if ((size_t)c.token == ids[i])
                    known = counts[i]++ >= 0;
            assert_true(known && c.token >= before); /* ids in the order of uniform */
            before = c.token;
        }
    }
    for (size_t i = 0; i < 7; i++)
        assert_true(fabs(counts[i] - draws * exp((double)l[ids[i]] / 0.5) / total) <= 1.5);
}

TEST_MAIN(NULL, NULL)
