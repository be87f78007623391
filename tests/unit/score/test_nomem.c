/* Memory that runs out at every allocation in turn of what scores words and speakers. */
#include "tests/common/test.h"

#include "tests/common/files.h"
#include "tests/common/nomem.h"
#include "tools/score/der.h"
#include "tools/score/normalize.h"
#include "tools/score/rttm.h"
#include "tools/score/score.h"

static const char said[] = "Doctor Smith's colour [cough] wasn't twenty-one, it was £2.50 — naïve!";
static const char heard[] = "dr smith color was not 21 it was 2 pounds and 50 naive";

static int normalized(void *arg, struct err *err)
{
    char *text = NULL;
    int rc = normalize(arg, said, sizeof(said) - 1, &text, err);

    assert_true(rc == 0 || !text);
    free(text);
    return rc;
}

static int open_spellings(void *arg, struct err *err)
{
    struct spellings *s = NULL;
    int rc = spellings_open(arg, &s, err);

    assert_true(rc == 0 || !s);
    spellings_free(s);
    return rc;
}

TEST(normalizers)
{
    char path[] = "spellings.json";
    struct normalize_options o = {.normalizer = NORMALIZE_ENGLISH};
    struct spellings *s = NULL;
    struct err e = {0};

    file_text(path, "{\"colour\": \"color\"}");
    nomem_each(open_spellings, path);
    assert_ok(spellings_open(path, &s, &e), e);
    o.spellings = s;
    assert_true(nomem_each(normalized, &o) > 5);
    spellings_free(s);
    o = (struct normalize_options){.normalizer = NORMALIZE_BASIC, .split_letters = true};
    assert_true(nomem_each(normalized, &o) > 2);
    o = (struct normalize_options){.normalizer = NORMALIZE_NONE};
    assert_true(nomem_each(normalized, &o) > 0);
}

static int step(void *arg, enum score_step how, struct score_word reference,
                struct score_word hypothesis)
{
    (void)how;
    (void)hypothesis;
    *(size_t *)arg += reference.len;
    return 0;
}

static int score(void *arg, struct err *err)
{
    struct score s;
    size_t letters = 0;
    int rc = score_words(said, heard, &s, err);

    (void)arg;
    if (rc == 0)
        rc = score_characters(said, heard, &s, err);
    if (rc == 0)
        rc = score_diff(said, heard, step, &letters, err);
    assert_true(rc != 0 || letters > 0);
    return rc;
}

TEST(words) { assert_true(nomem_each(score, NULL) > 8); }

static int score_speakers(void *arg, struct err *err)
{
    static const char text[] = "SPEAKER a 1 0.0 2.0 <NA> <NA> x <NA> <NA>\n"
                               "SPEAKER b 1 0.0 1.0 <NA> <NA> y <NA> <NA>\n"
                               "SPEAKER b 1 1.5 2.0 <NA> <NA> z <NA> <NA>\n";
    const struct der_params p = {0.25, true};
    struct rttm r = {0};
    struct der d;
    int rc = rttm_parse(text, sizeof(text) - 1, &r, err);

    (void)arg;
    assert_true(rc == 0 || (!r.turns && !r.text));
    if (rc == 0)
        rc = der_score(r.turns, 1, r.turns + 1, 2, &p, &d, err);
    rttm_free(&r);
    return rc;
}

TEST(speakers) { assert_true(nomem_each(score_speakers, NULL) > 8); }

static int read_rttm(void *arg, struct err *err)
{
    struct rttm r = {0};
    int rc = rttm_read(arg, &r, err);

    assert_true(rc == 0 || (!r.turns && !r.text));
    rttm_free(&r);
    return rc;
}

TEST(speakers_of_a_file)
{
    char path[] = "turns.rttm";

    file_text(path, "SPEAKER a 1 0.0 2.0 <NA> <NA> x <NA> <NA>\n");
    assert_true(nomem_each(read_rttm, path) > 4);
}

TEST_MAIN(NULL, NULL)
