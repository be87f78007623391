/* all-MiniLM-L6-v2 with its real weights against transformers in float64: 200 texts in ten
 * languages, of one token to some eight hundred. make_fixtures.py says what the files hold.
 *
 * All 19,900 pairs are ranked by cosine. Neighbours in that order lie 4.2e-10 apart at the least,
 * and no float32 computation tells those apart: transformers' own has cosines wrong by up to
 * 5.06e-7, and exchanges pairs up to 2.1e-7 apart. So two pairs are a tie when they are nearer to
 * each other than that error; all others must be ranked as in float64. Usage: FOLDER. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "workers/models/bert/embedder.h"

#define SENTENCES 80
#define TEXTS 200
#define SIZE 384
#define STEP 16
#define TEXT_BYTES 4096
#define PAIRS (TEXTS * (TEXTS - 1) / 2)
#define TIE 5.06e-7      /* transformers' own largest error of a cosine in float32 */
#define EXCHANGED_MOST 4 /* of 39,600 neighbours in the texts' own rankings: transformers has 2 */

static const char *folder;
static char sentences[SENTENCES][TEXT_BYTES], texts[TEXTS][TEXT_BYTES];

static void read_sentences(void)
{
    FILE *f = fopen(test_source_path("tests/parity/embed/sentences.txt"), "r");

    assert_non_null(f);
    for (int i = 0; i < SENTENCES; i++) {
        assert_non_null(fgets(sentences[i], TEXT_BYTES, f));
        sentences[i][strcspn(sentences[i], "\n")] = 0;
    }
    fclose(f);
}

/* compose() of make_fixtures.py. */
static void compose(void)
{
    int n = 0;

    for (int first = 0; first < SENTENCES; first += 8) {
        for (int i = 0; i < 8; i++)
            snprintf(texts[n++], TEXT_BYTES, "%s", sentences[first + i]);
        for (int k = 0; k < 4; k++) {
            const char *own = sentences[first + k], *blank = strchr(own, ' ');
            char *text = texts[n + 2];

            snprintf(texts[n], TEXT_BYTES, "%.*s", blank ? (int)(blank - own) : 3 * (1 + 2 * k),
                     own);
            snprintf(texts[n + 1], TEXT_BYTES, "%s %s", own, sentences[first + (k + 3) % 8]);
            snprintf(text, TEXT_BYTES, "%s", own);
            for (int i = k + 3; strlen(text) < (size_t)(400 * (k + 1)); i += 3) {
                size_t len = strlen(text);

                snprintf(text + len, TEXT_BYTES - len, " %s", sentences[first + i % 8]);
            }
            n += 3;
        }
    }
    assert_int_equal(n, TEXTS);
}

static void read_file(const char *name, void *out, size_t bytes)
{
    char rel[128];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/parity/embed/%s", name);
    f = fopen(test_source_path(rel), "rb");
    assert_non_null(f);
    assert_int_equal(fread(out, 1, bytes, f), bytes);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static double cosine(const float *a, const float *b)
{
    double sum = 0;

    for (int i = 0; i < SIZE; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void check_values(const float (*v)[SIZE])
{
    static float want[TEXTS][SIZE / STEP];
    double worst = 0;

    read_file("minilm.sample.f32", want, sizeof(want));
    for (int i = 0; i < TEXTS; i++) {
        assert_true(fabs(cosine(v[i], v[i]) - 1) < 1e-6);
        for (int k = 0; k < SIZE / STEP; k++)
            worst = distance_larger(worst, fabs((double)v[i][k * STEP] - (double)want[i][k]));
    }
    print_message("values differ by %.2g at most\n", worst);
    assert_true(worst < 1e-5); /* 1e-3 is asked for */
}

struct pair {
    double want, have;
    int of[2]; /* texts */
};

/* Falling; where the reference has a tie, nobody is first. */
static int by_want(const void *a, const void *b)
{
    double x = ((const struct pair *)a)->want, y = ((const struct pair *)b)->want;

    return (x < y) - (x > y);
}

/* The largest difference of two cosines that are the other way round. pairs: by_want. */
static double widest_exchange(const struct pair *pairs, int n)
{
    static double highest[PAIRS + 1]; /* of what we have from here on */
    double widest = 0;

    highest[n] = -2;
    for (int i = n - 1; i >= 0; i--)
        highest[i] = distance_larger(highest[i + 1], pairs[i].have);
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n && highest[k] > pairs[i].have; k++)
            if (pairs[k].have > pairs[i].have)
                widest = distance_larger(widest, pairs[i].want - pairs[k].want);
    return widest;
}

/* Neighbours in text t's own ranking of the others that are the other way round. */
static int exchanged_of(const struct pair *pairs, int n, int t)
{
    const struct pair *before = NULL;
    int exchanged = 0;

    for (int i = 0; i < n; i++) {
        if (pairs[i].of[0] != t && pairs[i].of[1] != t)
            continue;
        exchanged += before && before->want > pairs[i].want && before->have < pairs[i].have;
        before = &pairs[i];
    }
    return exchanged;
}

static void check_ranking(const float (*v)[SIZE])
{
    static double want[PAIRS];
    static struct pair pairs[PAIRS];
    double error = 0, widest;
    int n = 0, exchanged = 0;

    read_file("minilm.cosines.f64", want, sizeof(want));
    for (int i = 0; i < TEXTS; i++)
        for (int k = i + 1; k < TEXTS; k++, n++) {
            pairs[n] = (struct pair){want[n], cosine(v[i], v[k]), {i, k}};
            error = distance_larger(error, fabs(pairs[n].have - want[n]));
        }
    assert_int_equal(n, PAIRS);
    qsort(pairs, PAIRS, sizeof(pairs[0]), by_want);
    widest = widest_exchange(pairs, PAIRS);
    for (int i = 0; i < TEXTS; i++)
        exchanged += exchanged_of(pairs, PAIRS, i);
    print_message("cosines differ by %.3g at most; pairs are exchanged up to %.3g apart; %d of %d "
                  "neighbours in the texts' own rankings are\n",
                  error, widest, exchanged, TEXTS * (TEXTS - 2));
    assert_true(error < 1e-6);
    assert_true(widest < TIE);
    assert_true(exchanged <= EXCHANGED_MOST);
}

TEST(test_parity)
{
    static float v[TEXTS][SIZE];
    const char *list[TEXTS];
    struct embedder *m = NULL;
    struct backend *be = NULL;
    struct err e = {0};
    uint32_t least = UINT32_MAX, most = 0;

    read_sentences();
    compose();
    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(embedder_load(folder, be, PRECISION_F32, &m, &e), e);
    assert_int_equal(embedder_size(m), SIZE);
    assert_int_equal(embedder_max_tokens(m), 256);
    for (int i = 0; i < TEXTS; i++) {
        uint32_t n;

        list[i] = texts[i];
        assert_ok(embedder_count(m, texts[i], &n, &e), e);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_int_equal(least, 3);
    assert_true(most > 602);
    assert_ok(embedder_run(m, list, TEXTS, EMBED_PASSAGE, &v[0][0], &e), e);
    check_values(v);
    check_ranking(v);
    embedder_free(m);
    backend_close(be);
}

int main(int argc, char **argv)
{
    char file[4096];

    folder = argc > 1 ? argv[1] : "";
    snprintf(file, sizeof(file), "%s/model.safetensors", folder);
    if (access(file, R_OK) != 0) {
        printf("skipped: no all-MiniLM-L6-v2 in '%s'\n", folder);
        return 77;
    }
    return suite_run(NULL, NULL);
}
