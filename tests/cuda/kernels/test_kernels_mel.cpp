/* The spectrogram's kernels against the definition: the transform as a plain sum, in double. The
 * filters are arbitrary ones, so that the kernels cannot know Whisper's. */
#include "matrix.h"

static const int FFT = K_MEL_FFT, HOP = 160, FREQUENCIES = 201;
static const double PI = 3.14159265358979323846;

struct filters {
    std::vector<uint32_t> first, count, at;
    std::vector<double> weight;

    explicit filters(uint32_t bins)
    {
        for (uint32_t b = 0; b < bins; b++) {
            first.push_back((uint32_t)below(FREQUENCIES));
            count.push_back((uint32_t)below(FREQUENCIES - first[b] + 1)); /* none is possible */
            count[b] = count[b] > 6 ? 6 : count[b];
            at.push_back((uint32_t)weight.size());
            for (uint32_t i = 0; i < count[b]; i++)
                weight.push_back(0.001 * uniform());
        }
        weight.push_back(0.0);
    }
};

static std::vector<double> table(const std::function<double(double)> &f)
{
    std::vector<double> t;

    for (int i = 0; i < FFT; i++)
        t.push_back(f(2.0 * PI * i / FFT));
    return t;
}

static const std::vector<double> COSINE = table([](double a) { return cos(a); });
static const std::vector<double> SINE = table([](double a) { return sin(a); });
static const std::vector<double> HANN = table([](double a) { return 0.5 - 0.5 * cos(a); });

/* |DFT|^2 of frame f, from the padded audio. */
static std::vector<double> power_of(const std::vector<double> &audio, int f)
{
    std::vector<double> p;

    for (int k = 0; k < FREQUENCIES; k++) {
        double re = 0, im = 0;

        for (int i = 0; i < FFT; i++) {
            double x = audio[(size_t)(f * HOP + i)] * HANN[(size_t)i];

            re += x * COSINE[(size_t)(k * i % FFT)];
            im -= x * SINE[(size_t)(k * i % FFT)];
        }
        p.push_back(re * re + im * im);
    }
    return p;
}

static std::vector<double> padded(const std::vector<float> &pcm)
{
    std::vector<double> x((size_t)K_MEL_SAMPLES), y;

    for (size_t i = 0; i < pcm.size(); i++)
        x[i] = std::isnan(pcm[i]) ? 0.0 : fmax(-16.0, fmin(16.0, (double)pcm[i]));
    for (int i = -200; i < K_MEL_SAMPLES + 200; i++)
        y.push_back(x[(size_t)(i < 0 ? -i : i >= K_MEL_SAMPLES ? 2 * (K_MEL_SAMPLES - 1) - i : i)]);
    return y;
}

/* [3000][bins], before the clamp. */
static std::vector<double> log_mel(const filters &m, const std::vector<float> &pcm)
{
    std::vector<double> audio = padded(pcm), silence(FREQUENCIES), out;
    size_t end = pcm.size() / (size_t)HOP + 4; /* frames after it hold zeros, but for the mirror */

    for (int f = 0; f < K_MEL_FRAMES; f++) {
        std::vector<double> p =
            (size_t)f < end || f > K_MEL_FRAMES - 3 ? power_of(audio, f) : silence;

        for (size_t b = 0; b < m.first.size(); b++) {
            double e = 0;

            for (uint32_t i = 0; i < m.count[b]; i++)
                e += p[m.first[b] + i] * m.weight[m.at[b] + i];
            out.push_back(log10(fmax(e, 1e-10)));
        }
    }
    return out;
}

static void clamp(std::vector<double> &m)
{
    double high = -INFINITY;

    for (double v : m)
        high = fmax(high, v);
    for (double &v : m)
        v = (fmax(v, high - 8.0) + 4.0) / 4.0;
}

static std::vector<float> tones(size_t n, float loud)
{
    std::vector<float> pcm;

    for (size_t i = 0; i < n; i++) {
        double t = (double)i / 16000.0, fade = 1.0 - (double)i / (double)n;

        pcm.push_back(loud * (float)(0.6 * fade * sin(2 * PI * (300 + 40 * t) * t) +
                                     0.2 * sin(2 * PI * 5000 * t) + 1e-4 * normal()));
    }
    return pcm;
}

/* Windows of unequal length; what lies after their audio is not to be looked at. */
static void check(uint32_t bins, const std::vector<std::vector<float>> &windows, int64_t gap)
{
    const filters m(bins);
    const size_t stride = K_MEL_SAMPLES + 96;
    std::vector<float> memory(windows.size() * stride, 0.7f);
    std::vector<uint32_t> lengths;
    std::vector<double> want;

    for (size_t w = 0; w < windows.size(); w++) {
        std::vector<double> one = log_mel(m, windows[w]);

        std::copy(windows[w].begin(), windows[w].end(), memory.begin() + (int64_t)(w * stride));
        lengths.push_back((uint32_t)windows[w].size());
        clamp(one);
        want.insert(want.end(), one.begin(), one.end());
    }
    array<double> window(HANN), cosine(COSINE), sine(SINE), weight(m.weight);
    array<uint32_t> first(m.first), count(m.count), at(m.at), n(lengths);
    array<float> pcm(memory), maxima(windows.size() * K_MEL_BLOCKS, NAN);
    matrix out(DTYPE_F32, (int64_t)windows.size() * K_MEL_FRAMES, bins, gap);
    struct mel_device device = {bins, window.p, cosine.p, sine.p, first.p, count.p, at.p, weight.p};

    WELL(k_mel(nullptr, device, pcm.p, stride, n.p, (uint32_t)windows.size(), maxima.p,
               out.tensor()));
    assert_near(out.get(), want, 0, 2e-6, "log-mel");
}

TEST(test_windows) { check(80, {tones(K_MEL_SAMPLES, 0.9f), tones(40001, 0.01f)}, 0); }

TEST(test_bad_samples)
{
    std::vector<float> pcm = tones(16000, 0.3f);

    pcm[0] = NAN;
    pcm[777] = INFINITY;
    pcm[1300] = -1e30f;
    pcm[15999] = -INFINITY;
    check(128, {pcm}, 3);
}

/* Silence, a single sample at the very end, more bins than threads. */
TEST(test_corners)
{
    check(1, {{}}, 0);
    check(256, {{1.0f, -1.0f}}, 0);
    WELL(k_mel(nullptr, {}, nullptr, 0, nullptr, 0, nullptr, {}));
}

TEST_MAIN(NULL, NULL)
