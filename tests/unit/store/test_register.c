/* Voices that are known again: likeness, groups, and what people say of whose they are. */
#include <math.h>

#include "store/register/groups.h"
#include "store/register/likeness.h"
#include "tests/common/nomem.h"
#include "tests/unit/store/stages.h"

/* ------------------------------------------------------------------------------------ likeness */

TEST(more_people_want_more_likeness)
{
    static const struct likeness_step steps[] = {{0.5, 0.01}, {0.7, 0.001}, {0.9, 0.0001}};
    const struct likeness_measure m = {"aa", steps, 3};

    assert_true(likeness_name_from(&m, 0) == 0.5);
    assert_true(likeness_name_from(&m, 5) == 0.5);
    assert_true(likeness_name_from(&m, 6) == 0.7);
    assert_true(likeness_group_from(&m, 50) == 0.7);
    assert_true(likeness_group_from(&m, 51) == 0.9);
    assert_true(likeness_group_from(&m, 500) == 0.9);
    assert_true(isinf(likeness_group_from(&m, 501)));
    assert_true(isinf(likeness_name_from(&m, 501)));
    /* Nobody knows: people may decide, the machine does not. */
    assert_true(likeness_name_from(NULL, 100000) == LIKENESS_UNMEASURED);
    assert_true(isinf(likeness_group_from(NULL, 2)));
    assert_null(likeness_measure_of("aa"));
}

TEST(what_was_measured_can_be_read)
{
    for (size_t i = 0; i < likeness_measures_count; i++) {
        const struct likeness_measure *m = &likeness_measures[i];

        assert_ptr_equal(likeness_measure_of(m->model_hash), m);
        assert_true(m->count > 0);
        for (size_t k = 0; k < m->count; k++) {
            assert_true(m->steps[k].from > 0 && m->steps[k].from < 1);
            assert_true(m->steps[k].wrong > 0 && m->steps[k].wrong < 1);
            assert_true(k == 0 || (m->steps[k].from > m->steps[k - 1].from &&
                                   m->steps[k].wrong < m->steps[k - 1].wrong));
        }
    }
}

TEST(likeness_is_of_directions)
{
    float a[37], b[37], none[2] = {0, 0}, bad[2] = {INFINITY, 1};
    double sum = 0;

    for (int i = 0; i < 37; i++) {
        a[i] = sinf((float)i);
        b[i] = 5 * a[i] + (float)(i == 3);
    }
    assert_int_equal(likeness_unit(a, 37), 0);
    assert_int_equal(likeness_unit(b, 37), 0);
    for (int i = 0; i < 37; i++)
        sum += (double)a[i] * b[i];
    assert_true(fabs(likeness_product(a, a, 37) - 1) < 1e-6);
    assert_true(fabs(likeness_product(a, b, 37) - sum) < 1e-6);
    assert_int_equal(likeness_unit(none, 2), -1);
    assert_int_equal(likeness_unit(bad, 2), -1);
}

/* -------------------------------------------------------------------------------------- groups */

/* Voices on a circle, in degrees; the cosine of 20 degrees is 0.94, of 40 0.77. */
static float circle[360][2];
static const float *at(int degrees)
{
    circle[degrees][0] = (float)cos(degrees * 3.14159265358979 / 180);
    circle[degrees][1] = (float)sin(degrees * 3.14159265358979 / 180);
    return circle[degrees];
}

static const char *grouped(struct groups_voice *list, size_t count, double from, int64_t *last)
{
    static char out[128];
    struct err e = {0};

    assert_ok(groups_match(list, count, 2, from, last, &e), e);
    *out = 0;
    for (size_t i = 0; i < count; i++)
        snprintf(out + strlen(out), sizeof(out) - strlen(out), "%d ", (int)list[i].group);
    return out;
}

TEST(alike_voices_are_a_group)
{
    struct groups_voice v[] = {{1, 0, at(0), true},
                               {2, 0, at(90), true},
                               {3, 0, at(10), true},
                               {4, 0, at(95), true},
                               {5, 0, at(200), true}};
    int64_t last = 6;

    assert_string_equal(grouped(v, 5, 0.9, &last), "7 8 7 8 0 ");
    assert_int_equal(last, 8);
    assert_string_equal(grouped(v, 5, 0.9, &last), "7 8 7 8 0 ");
    assert_string_equal(grouped(v, 0, 0.9, &last), "");
}

/* Each is alike enough to the next one: but what two have in common is too far from the others. */
TEST(no_chain_of_strangers)
{
    struct groups_voice v[] = {
        {1, 0, at(0), true}, {2, 0, at(19), true}, {3, 0, at(40), true}, {4, 0, at(60), true}};
    int64_t last = 0;

    assert_string_equal(grouped(v, 4, 0.9, &last), "1 1 2 2 ");
}

TEST(voices_of_one_recording_are_never_one)
{
    struct groups_voice v[] = {{1, 0, at(0), true},
                               {1, 0, at(1), true},
                               {2, 0, at(2), true},
                               {2, 0, at(20), true},
                               {1, 0, at(21), true}};
    int64_t last = 0;

    /* The third one is nearer to the second, and the first then has nobody of another recording. */
    assert_string_equal(grouped(v, 5, 0.9, &last), "0 1 1 2 2 ");
}

TEST(groups_keep_their_numbers)
{
    /* 7 and 9 become neighbours by one between them; 9's other voice is gone. */
    struct groups_voice v[] = {{1, 9, at(0), false},  {2, 9, at(2), false}, {3, 7, at(16), false},
                               {4, 7, at(18), false}, {5, 0, at(9), true},  {6, 5, at(180), false}};
    int64_t last = 9;

    assert_string_equal(grouped(v, 6, 0.97, &last), "7 7 7 7 7 0 ");
    /* Two groups that share a recording stay two. */
    v[0] = (struct groups_voice){1, 9, at(0), false};
    v[1] = (struct groups_voice){3, 9, at(2), false};
    v[4] = (struct groups_voice){5, 0, at(8), true};
    assert_string_equal(grouped(v, 6, 0.97, &last), "9 9 7 7 9 0 ");
}

/* All at once give the same in whatever order they stand: only the numbers differ. */
TEST(the_order_does_not_matter)
{
    enum { VOICES = 60 };
    struct groups_voice list[VOICES], turned[VOICES];
    struct err e = {0};
    int64_t last = 0, again = 0;
    uint32_t drawn = 7;

    for (int i = 0; i < VOICES; i++) {
        drawn = drawn * 1664525u + 1013904223u;
        list[i] = (struct groups_voice){i / 2, 0, at((int)(drawn >> 8) % 360), true};
        turned[VOICES - 1 - i] = list[i];
    }
    assert_ok(groups_match(list, VOICES, 2, 0.99, &last, &e), e);
    assert_ok(groups_match(turned, VOICES, 2, 0.99, &again, &e), e);
    assert_true(last > 5 && last < VOICES);
    for (int i = 0; i < VOICES; i++)
        for (int k = 0; k < i; k++)
            if (list[i].vector != list[k].vector)
                assert_int_equal(list[i].group && list[i].group == list[k].group,
                                 turned[VOICES - 1 - i].group &&
                                     turned[VOICES - 1 - i].group == turned[VOICES - 1 - k].group);
}

static int group_some(void *arg, struct err *err)
{
    struct groups_voice v[] = {{1, 3, at(0), false}, {2, 3, at(2), false}, {3, 0, at(1), true}};
    int64_t last = 3;
    int rc = groups_match(v, 3, 2, 0.9, &last, err);

    (void)arg;
    assert_int_equal(v[2].group, rc == 0 ? 3 : 0);
    return rc;
}

TEST(memory_that_runs_out) { assert_true(nomem_each(group_some, NULL) >= 4); }

/* ---------------------------------------------------------------------------------- the catalog */

static struct store_stage nano_voices(const char *params)
{
    return (struct store_stage){"diarize", "nano", "/models/n", likeness_measures[0].model_hash,
                                params,    NULL};
}

/* Recording number i of a catalog is heard by a model: voices by degrees; -1: none to compare. */
static void hear(struct store *st, const struct store_stage *stage, int i, const int *degrees,
                 size_t count)
{
    struct result_speaker who[4];
    struct result_turn when[4];
    struct err e = {0};
    char path[32], sql[128];
    int64_t job = job_begin(st, stage), task;

    snprintf(path, sizeof(path), "/a/%d.wav", i);
    job_add1(st, job, path, "", (uint64_t)i);
    snprintf(sql, sizeof(sql), "SELECT max(task_id) FROM task WHERE job_id = %d", (int)job);
    task = count_of(sql);
    diarize(st, task);
    for (size_t k = 0; k < count; k++) {
        who[k] = (struct result_speaker){9000, degrees[k] < 0 ? NULL : at(degrees[k])};
        when[k] = (struct result_turn){(int64_t)k * 10000, (int64_t)k * 10000 + 9000, (uint32_t)k};
    }
    assert_ok(
        store_finalized(
            st, task, &(struct result_people){2, (uint32_t)count, (uint32_t)count, who, when}, &e),
        e);
}
#define HEAR(st, stage, i, ...) \
    hear(st, stage, i, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static int64_t speaker(int recording, int number)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT speaker_id FROM speakers WHERE path = '/a/%d.wav' AND label = 'SPEAKER_%02d'",
             recording, number);
    return count_of(sql);
}

static struct request about(int recording, int number, const char *name)
{
    return (struct request){.type = REQUEST_NAME_SPEAKER,
                            .speaker_id = speaker(recording, number),
                            .speaker_name = name};
}

static void is(struct store *st, int recording, int number, const char *name)
{
    struct request rq = about(recording, number, name);

    rq.everywhere = true;
    assert_int_equal(apply_ok(st, &rq).affected, 1);
}

static void is_not(struct store *st, int recording, int number, const char *name)
{
    struct request rq = about(recording, number, name);

    rq.denied = true;
    assert_int_equal(apply_ok(st, &rq).affected, 1);
}

/* "2/0 Ana 0.98,...": recording, speaker, whom it is like. */
#define PROPOSED                                                                             \
    "SELECT group_concat(t) FROM (SELECT substr(path, 4, 1) || '/' || substr(label, 10) || " \
    "' ' || name || ' ' || round(likeness, 2) AS t FROM proposals ORDER BY path, label, name)"
#define GROUPED                                                                                  \
    "SELECT group_concat(ifnull(group_id, '-'), ' ') FROM (SELECT group_id FROM speakers ORDER " \
    "BY speaker_id)"
#define NAMED                                                                                     \
    "SELECT group_concat(ifnull(name, '-'), ' ') FROM (SELECT name FROM speakers ORDER BY path, " \
    "label)"

TEST(a_name_is_proposed_later_and_earlier)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0, 90);
    HEAR(st, &stage, 2, 10, 180);
    assert_string_equal(text_of(PROPOSED), "(null)");
    is(st, 1, 0, "Ana");
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.98");
    HEAR(st, &stage, 3, 200, 350);
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.98,3/1 Ana 0.98");
    assert_string_equal(text_of(NAMED), "Ana - - - - -");
    is(st, 2, 0, "ana"); /* a person has one spelling */
    assert_string_equal(text_of(NAMED), "Ana - Ana - - -");
    /* The mean of two likenesses now: 10 and 20 degrees. */
    assert_string_equal(text_of(PROPOSED), "3/1 Ana 0.96");
    assert_int_equal(count_of("SELECT count(*) FROM person"), 1);
    assert_int_equal(count_of("SELECT count(DISTINCT person_id) FROM speakers"), 1);
    is_not(st, 3, 1, "Ana");
    assert_string_equal(text_of(PROPOSED), "(null)");
    catalog_close(st);
}

/* Somebody who sounds like her was denied: what is more like that one is not proposed either. */
TEST(what_was_denied_is_not_proposed_again)
{
    const struct store_stage stage = nano_voices("{}"), anew = nano_voices("{\"threshold\":0.5}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0);
    HEAR(st, &stage, 2, 20);
    HEAR(st, &stage, 3, 22);
    HEAR(st, &stage, 4, 5);
    is(st, 1, 0, "Ana");
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.94,3/0 Ana 0.93,4/0 Ana 1.0");
    is_not(st, 2, 0, "Ana");
    assert_string_equal(text_of(PROPOSED), "4/0 Ana 1.0");
    /* Diarized anew, nearer to her than before: it is still known who it is not. */
    HEAR(st, &anew, 2, 12);
    assert_string_equal(text_of(PROPOSED), "4/0 Ana 1.0");
    assert_int_equal(count_of("SELECT count(*) FROM person_voice WHERE denied"), 2);
    is(st, 2, 0, "Ana"); /* a mind may be changed */
    assert_string_equal(text_of(NAMED), "Ana Ana - -");
    is_not(st, 2, 0, "Ana");
    assert_string_equal(text_of(NAMED), "Ana - - -");
    is_not(st, 1, 0, "ana"); /* nobody is left of her */
    assert_string_equal(text_of(NAMED), "- - - -");
    assert_int_equal(count_of("SELECT count(*) FROM person"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM person_voice"), 0);
    assert_string_equal(text_of(PROPOSED), "(null)");
    catalog_close(st);
}

TEST(one_of_a_recording_at_most)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0, 60);
    HEAR(st, &stage, 2, 20, 10, 45, -1);
    is(st, 1, 0, "Ana");
    is(st, 1, 1, "Bea");
    /* The third is like both, and more like Bea. */
    assert_string_equal(text_of(PROPOSED), "2/1 Ana 0.98,2/2 Bea 0.97");
    is(st, 2, 1, "Ana");
    assert_string_equal(text_of(PROPOSED), "2/2 Bea 0.97");
    /* So does a name that holds there alone. */
    apply_ok(st, &(struct request){.type = REQUEST_NAME_SPEAKER,
                                   .speaker_id = speaker(2, 3),
                                   .speaker_name = "bea"});
    assert_string_equal(text_of(PROPOSED), "(null)");
    catalog_close(st);
}

TEST(nobody_measured_that_model)
{
    struct store *st = catalog_new();

    HEAR(st, &stage_voices, 1, 0);
    HEAR(st, &stage_voices, 2, 20);
    is(st, 1, 0, "Ana");
    HEAR(st, &stage_voices, 3, 50);
    HEAR(st, &stage_voices, 4, 20);
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.94,4/0 Ana 0.94");
    assert_int_equal(count_of("SELECT count(*) FROM proposals WHERE measured"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM voice_groups"), 0);
    catalog_close(st);
}

TEST(voices_without_names_are_grouped)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0, 90);
    HEAR(st, &stage, 2, 91, 5);
    HEAR(st, &stage, 3, 180);
    assert_string_equal(text_of(GROUPED), "2 1 1 2 -");
    HEAR(st, &stage, 4, 3);
    assert_string_equal(text_of(GROUPED), "2 1 1 2 - 2");
    assert_string_equal(text_of("SELECT group_id || ' ' || voices || ' ' || recordings || ' ' || "
                                "speech_ms FROM voice_groups WHERE group_id = 2"),
                        "2 3 3 27000");
    /* Who has a name is in no group; a group of one is none. */
    is(st, 1, 1, "Bea");
    assert_string_equal(text_of(GROUPED), "2 - - 2 - 2");
    assert_string_equal(text_of(PROPOSED), "2/0 Bea 1.0");
    apply_ok(st,
             &(struct request){.type = REQUEST_FORGET, .stage_id = 1, .select_path = "/a/4.wav"});
    apply_ok(st,
             &(struct request){.type = REQUEST_FORGET, .stage_id = 1, .select_path = "/a/2.wav"});
    assert_string_equal(text_of(GROUPED), "- - -");
    catalog_close(st);
}

/* The register has her voice though nothing else is left of the recording. */
TEST(a_person_outlives_what_was_forgotten)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0);
    HEAR(st, &stage, 2, 10);
    is(st, 1, 0, "Ana");
    apply_ok(st,
             &(struct request){.type = REQUEST_FORGET, .stage_id = 1, .select_path = "/a/1.wav"});
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.98");
    HEAR(st, &stage, 1, 1);
    assert_string_equal(text_of(PROPOSED), "1/0 Ana 1.0,2/0 Ana 0.98");
    is(st, 1, 0, "Ana"); /* in place of the forgotten one */
    assert_int_equal(count_of("SELECT count(*) FROM person_voice"), 1);
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 0.99");
    catalog_close(st);
}

TEST(a_person_goes_to_another_model)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0, 90);
    is(st, 1, 0, "Ana");
    is_not(st, 1, 1, "Ana");
    HEAR(st, &stage_voices, 1, 200, 120);
    HEAR(st, &stage_voices, 2, 205, 122);
    HEAR(st, &stage, 3, 5);
    assert_string_equal(text_of(NAMED), "Ana - - - -");
    assert_string_equal(text_of(PROPOSED), "2/0 Ana 1.0,3/0 Ana 1.0");
    assert_int_equal(count_of("SELECT count(*) FROM person_voice WHERE denied"), 2);
    /* The same model again, which made the rows anew. */
    HEAR(st, &stage, 1, 0, 90);
    assert_int_equal(count_of("SELECT count(*) FROM person_voice"), 4);
    catalog_close(st);
}

/* A longer recording is diarized anew by the same task, whose speakers go and come. */
TEST(a_person_outlives_a_longer_recording)
{
    const struct store_stage stage = nano_voices("{}");
    static const struct result_speaker who[] = {{9000, one}};
    static const struct result_turn when[] = {{0, 9500, 0}};
    struct store *st = catalog_new();
    struct err e = {0};

    HEAR(st, &stage, 1, 0);
    is(st, 1, 0, "Ana");
    assert_ok(store_task_total(st, 1, 3, &e), e);
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 1, seq);
    assert_ok(store_finalized(st, 1, &(struct result_people){2, 1, 1, who, when}, &e), e);
    assert_string_equal(text_of(NAMED), "Ana");
    assert_int_equal(count_of("SELECT count(*) FROM person_voice JOIN speakers USING (speaker_id)"),
                     1);
    assert_int_equal(count_of("SELECT count(*) FROM person_voice"), 1);
    catalog_close(st);
}

TEST(who_is_renamed_is_somebody_else)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();
    struct request rq;
    struct request_reply reply;
    struct err e = {0};

    HEAR(st, &stage, 1, 0);
    HEAR(st, &stage, 2, 1);
    is(st, 1, 0, "Ana");
    is(st, 2, 0, "Ana");
    is(st, 2, 0, "Bea");
    assert_int_equal(count_of("SELECT count(*) FROM person_voice"), 2);
    rq = about(1, 0, "somebody");
    apply_ok(st, &rq);
    assert_string_equal(text_of("SELECT group_concat(name) FROM person"), "Bea");
    catalog_close(st);
    run_sql("UPDATE person SET name = 'Beatriz'; UPDATE speaker SET name = NULL "
            "WHERE name = 'somebody'");
    assert_string_equal(text_of(NAMED), "- Beatriz");
    /* What somebody did with the shell is compared by the next who writes. */
    st = catalog_open(STORE_WRITE);
    apply_ok(st, &(struct request){.type = REQUEST_PAUSE});
    assert_string_equal(text_of(PROPOSED), "1/0 Beatriz 1.0");
    rq = about(1, 0, "Cid");
    rq.denied = true;
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    rq.speaker_name = "";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    rq = (struct request){
        .type = REQUEST_NAME_SPEAKER, .speaker_id = 99, .speaker_name = "Ana", .everywhere = true};
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM person"), 1);
    catalog_close(st);
}

/* Vectors that nobody can compare are passed over. */
TEST(vectors_that_are_none)
{
    const struct store_stage stage = nano_voices("{}");
    struct store *st = catalog_new();

    HEAR(st, &stage, 1, 0, -1);
    HEAR(st, &stage, 2, 3);
    HEAR(st, &stage, 3, 2);
    is(st, 1, 0, "Ana");
    is(st, 1, 1, "Nobody");
    catalog_close(st);
    run_sql("UPDATE speaker SET vector = x'0000c07f0000c07f' WHERE speaker_id = 3;"
            "INSERT INTO speaker_due VALUES (3), (4); UPDATE speaker SET vector = x'00000000' "
            "WHERE speaker_id = 4; INSERT OR IGNORE INTO person_due VALUES (1)");
    st = catalog_open(STORE_WRITE);
    apply_ok(st, &(struct request){.type = REQUEST_PAUSE});
    assert_string_equal(text_of(PROPOSED), "(null)");
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
