/* all-MiniLM-L6-v2 with its real weights against transformers: 200 texts in ten languages, of one
 * token to some eight hundred. make_fixtures.py says what the files hold. Usage: FOLDER. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "workers/models/embedder.h"

#define SENTENCES 80
#define TEXTS 200
#define SIZE 384
#define STEP 16
#define TEXT_BYTES 4096
/* Cosines nearer to each other than this have no order: both sides compute in float32. */
#define SAME 4e-6

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

static void check_ranking(const float (*v)[SIZE])
{
    static uint8_t order[TEXTS][TEXTS - 1];
    int swapped = 0;

    read_file("minilm.order", order, sizeof(order));
    for (int i = 0; i < TEXTS; i++) {
        bool seen[TEXTS] = {false};

        seen[i] = true;
        for (int k = 0; k < TEXTS - 1; k++) {
            assert_true(order[i][k] < TEXTS && !seen[order[i][k]]);
            seen[order[i][k]] = true;
            if (k > 0) {
                double rises = cosine(v[i], v[order[i][k]]) - cosine(v[i], v[order[i][k - 1]]);

                assert_true(rises < SAME);
                swapped += rises > 0;
            }
        }
    }
    print_message("%d neighbours of %d are the other way round, by less than %g\n", swapped,
                  TEXTS * (TEXTS - 2), SAME);
    assert_true(swapped < TEXTS);
}

static void test_parity(void **state)
{
    static float v[TEXTS][SIZE];
    const char *list[TEXTS];
    struct embedder *m = NULL;
    struct backend *be = NULL;
    struct err e = {0};
    uint32_t least = UINT32_MAX, most = 0;

    (void)state;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parity)};
    char file[4096];

    folder = argc > 1 ? argv[1] : "";
    snprintf(file, sizeof(file), "%s/model.safetensors", folder);
    if (access(file, R_OK) != 0) {
        printf("skipped: no all-MiniLM-L6-v2 in '%s'\n", folder);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
