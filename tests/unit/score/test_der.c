/* Errors against what pyannote.metrics says (der.txt, by make_der_fixtures.py), by hand, and RTTM
 * as it comes. */
#include "tests/common/test.h"

#include <math.h>

#include "tools/score/der.h"
#include "tools/score/rttm.h"

static void is_near(double ours, double theirs)
{
    assert_true(fabs(ours - theirs) < 2e-6); /* pyannote leaves out what is shorter than 1e-6 s */
}

TEST(as_pyannote)
{
    struct rttm_turn sides[2][256];
    size_t count[2] = {0, 0}, checked = 0;
    char line[512];
    FILE *f = fopen(test_source_path("tests/unit/score/der.txt"), "re");

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        double start, end, collar, want[5];
        unsigned speaker, skip;
        struct der d;
        struct err e = {0};

        if (strncmp(line, "case ", 5) == 0) {
            count[0] = count[1] = 0;
        } else if (sscanf(line, "e %lf %u %lf %lf %lf %lf %lf", &collar, &skip, &want[0], &want[1],
                          &want[2], &want[3], &want[4]) == 7) {
            struct der_params p = {collar, skip != 0};

            assert_ok(der_score(sides[0], count[0], sides[1], count[1], &p, &d, &e), e);
            is_near(d.total, want[0]);
            is_near(d.correct, want[1]);
            is_near(d.missed, want[2]);
            is_near(d.false_alarm, want[3]);
            is_near(d.confusion, want[4]);
            checked++;
        } else {
            int side = line[0] == 'h';

            assert_int_equal(sscanf(line + 2, "%lf %lf %u", &start, &end, &speaker), 3);
            assert_true(count[side] < 256);
            sides[side][count[side]++] = (struct rttm_turn){start / 1000, end / 1000, 0, speaker};
        }
    }
    fclose(f);
    assert_int_equal(checked, 25 * 4);
}

TEST(refuses_what_cannot_be)
{
    struct rttm_turn *many = calloc(DER_MAX_SPEAKERS + 1, sizeof(*many));
    struct der_params p = {NAN, false};
    struct der d;
    struct err e = {0};

    assert_int_equal(der_score(NULL, 0, NULL, 0, &p, &d, &e), ERR_USAGE);
    p.collar_s = -1;
    assert_int_equal(der_score(NULL, 0, NULL, 0, &p, &d, &e), ERR_USAGE);
    p.collar_s = 0;
    for (uint32_t i = 0; i <= DER_MAX_SPEAKERS; i++)
        many[i] = (struct rttm_turn){i, i + 1, 0, i};
    assert_int_equal(der_score(many, DER_MAX_SPEAKERS + 1, NULL, 0, &p, &d, &e), ERR_LIMIT);
    assert_ok(der_score(many, DER_MAX_SPEAKERS, many, DER_MAX_SPEAKERS, &p, &d, &e), e);
    is_near(d.correct, DER_MAX_SPEAKERS);
    is_near(der_rate(&d), 0);
    assert_ok(der_score(NULL, 0, many, 1, &p, &d, &e), e);
    assert_true(isnan(der_rate(&d)));
    free(many);
}

static struct rttm parsed(const char *text)
{
    struct rttm r = {0};
    struct err e = {0};

    assert_ok(rttm_parse(text, strlen(text), &r, &e), e);
    return r;
}

TEST(reads_turns)
{
    struct rttm r = parsed(";; a comment\n"
                           "SPKR-INFO b 1 <NA> <NA> <NA> unknown anna <NA> <NA>\r\n"
                           "SPEAKER b 1 0.5 1.25 <NA> <NA> bert <NA> <NA>\r\n"
                           "\n"
                           "  SPEAKER\ta 1 1e1 2 <NA> <NA> anna\n"
                           "SPEAKER b 1 3 0 <NA> <NA> nobody <NA> <NA>\n"
                           "SPEAKER b 1 3 1 <NA> <NA> anna <NA> <NA>");

    assert_int_equal(r.turn_count, 3);
    assert_int_equal(r.file_count, 2);
    assert_int_equal(r.speaker_count, 2);
    assert_string_equal(r.files[r.turns[0].file], "a");
    assert_string_equal(r.speakers[r.turns[0].speaker], "anna");
    is_near(r.turns[0].start_s, 10);
    is_near(r.turns[0].end_s, 12);
    assert_string_equal(r.files[r.turns[1].file], "b");
    assert_string_equal(r.speakers[r.turns[1].speaker], "bert");
    is_near(r.turns[1].end_s, 1.75);
    rttm_free(&r);
    r = parsed("");
    assert_int_equal(r.turn_count, 0);
    rttm_free(&r);
}

TEST(writes_what_it_reads)
{
    struct buf out = BUF_INIT;
    struct rttm r;

    rttm_put(&out, "my file\n.wav", 1.5, 2.0, "");
    assert_string_equal(buf_cstr(&out),
                        "SPEAKER my_file_.wav 1 1.500000 0.500000 <NA> <NA> - <NA> <NA>\n");
    r = parsed(buf_cstr(&out));
    assert_int_equal(r.turn_count, 1);
    assert_string_equal(r.files[0], "my_file_.wav");
    rttm_free(&r);
    buf_free(&out);
}

TEST(refuses_bad_lines)
{
    static const char *const bad[] = {
        "SPEAKER",
        "SPEAKER a 1 0 1 <NA> <NA>",
        "SPEAKER a 1 x 1 <NA> <NA> b",
        "SPEAKER a 1 nan 1 <NA> <NA> b",
        "SPEAKER a 1 inf 1 <NA> <NA> b",
        "SPEAKER a 1 0x10 1 <NA> <NA> b",
        "SPEAKER a 1 1e999 1 <NA> <NA> b",
        "SPEAKER a 1 2e9 1 <NA> <NA> b",
        "SPEAKER a 1 0 -1 <NA> <NA> b",
        "SPEAKER a 1 0 1- <NA> <NA> b",
        "SPEAKER \xff 1 0 1 <NA> <NA> b",
        "SPEAKER a 1 0 1 <NA> <NA> \xc3",
    };
    char *name = malloc(RTTM_MAX_NAME + 100);

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct rttm r = {0};
        struct err e = {0};

        assert_int_equal(rttm_parse(bad[i], strlen(bad[i]), &r, &e), ERR_INPUT);
        assert_non_null(strstr(e.msg, "line 1"));
        assert_null(r.turns);
    }
    {
        static const char zero[] = "SPEAKER a 1 0 1 <NA> <NA> b\nSPEAKER\0";
        struct rttm r = {0};
        struct err e = {0};

        assert_int_equal(rttm_parse(zero, sizeof(zero), &r, &e), ERR_INPUT);
        memcpy(name, "SPEAKER a 1 0 1 <NA> <NA> ", 26);
        memset(name + 26, 'n', RTTM_MAX_NAME + 1);
        assert_int_equal(rttm_parse(name, 26 + RTTM_MAX_NAME + 1, &r, &e), ERR_INPUT);
        assert_ok(rttm_parse(name, 26 + RTTM_MAX_NAME, &r, &e), e);
        rttm_free(&r);
        assert_int_equal(rttm_read("/does/not/exist", &r, &e), ERR_MISSING);
        assert_int_not_equal(rttm_read("/", &r, &e), 0);
    }
    free(name);
}

TEST_MAIN(NULL, NULL)
