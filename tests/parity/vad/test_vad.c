/* Stretches of speech, windows and times against faster-whisper's own, over what make_fixtures.py
 * wrote: spans.txt beside this, or the file that is named as an argument. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "workers/audio/speech.h"

#define WINDOW (30 * 16000)
#define NUMBERS 100000

static const char *file;

struct numbers {
    int64_t v[NUMBERS];
    size_t n;
};

static struct numbers spans, windows, times;
static float prob[NUMBERS];

/* The numbers after a line's first word, which must be `key`. */
static void read_numbers(FILE *f, const char *key, struct numbers *ret)
{
    char *line = NULL, *at, *end;
    size_t cap = 0;

    assert_true(getline(&line, &cap, f) > 0);
    assert_memory_equal(line, key, strlen(key));
    at = line + strlen(key);
    for (ret->n = 0;; ret->n++, at = end) {
        int64_t v = strtoll(at, &end, 10);

        if (end == at)
            break;
        assert_true(ret->n < NUMBERS);
        ret->v[ret->n] = v;
    }
    free(line);
}

/* Two hexadecimal digits each, in 256ths. */
static size_t read_probs(FILE *f)
{
    char *line = NULL;
    size_t cap = 0, n = 0;

    assert_true(getline(&line, &cap, f) > 0);
    assert_memory_equal(line, "probs ", 6);
    for (const char *at = line + 6; at[0] > ' '; at += 2) {
        char digits[3] = {at[0], at[1], 0};

        assert_true(n < NUMBERS);
        prob[n++] = (float)strtol(digits, NULL, 16) / 256.0f;
    }
    free(line);
    return n;
}

/* The reference gives hundredths of a second. */
static void check_times(const struct pack *p, size_t window)
{
    for (size_t i = 0; i + 3 < times.n; i += 4) {
        double want = (double)times.v[i + 3] * 160.0, have;

        if ((size_t)times.v[i] != window)
            continue;
        have = (double)pack_time(p, times.v[i + 1], times.v[i + 2] != 0);
        assert_true(have >= want - 80.01 && have <= want + 80.01);
    }
}

static void check_window(struct pack *p, size_t *window)
{
    assert_true(*window < windows.n);
    assert_int_equal(p->samples, windows.v[*window]);
    check_times(p, *window);
    pack_free(p);
    ++*window;
}

static void check_case(const struct speech_params *params, int64_t samples, size_t steps)
{
    struct speech_span span;
    struct pack p = {0};
    size_t n = 0, window = 0;
    struct speech *s;
    struct err e;

    assert_int_equal(speech_steps(samples), steps);
    assert_ok(speech_new(params, &s, &e), e);
    assert_ok(speech_feed(s, prob, steps, &e), e);
    assert_ok(speech_end(s, samples, &e), e);
    while (speech_next(s, &span)) {
        assert_true(n + 1 < spans.n);
        assert_int_equal(span.start, spans.v[n]);
        assert_int_equal(span.end, spans.v[n + 1]);
        n += 2;
        if (!pack_fits(&p, &span, WINDOW))
            check_window(&p, &window);
        assert_ok(pack_add(&p, &span, &e), e);
    }
    assert_int_equal(n, spans.n);
    if (p.count)
        check_window(&p, &window);
    assert_int_equal(window, windows.n);
    speech_free(s);
}

TEST(as_faster_whisper)
{
    struct speech_params p;
    int64_t samples;
    size_t cases = 0, found = 0;
    FILE *f = fopen(file, "r");

    if (!f)
        print_error("no %s\n", file);
    assert_non_null(f);
    while (fscanf(f, "case %f %f %u %u %u %u %ld\n", &p.threshold, &p.neg_threshold,
                  &p.min_speech_ms, &p.max_speech_ms, &p.min_silence_ms, &p.pad_ms,
                  &samples) == 7) {
        size_t steps = read_probs(f);

        read_numbers(f, "spans", &spans);
        read_numbers(f, "windows", &windows);
        read_numbers(f, "times", &times);
        check_case(&p, samples, steps);
        cases++;
        found += spans.n / 2;
    }
    assert_true(feof(f));
    fclose(f);
    print_message("%zu sequences, %zu stretches of speech\n", cases, found);
    assert_true(cases >= 20 && found >= 200);
}

int main(int argc, char **argv)
{
    file = argc > 1 ? argv[1] : test_source_path("tests/parity/vad/spans.txt");
    return suite_run(NULL, NULL);
}
