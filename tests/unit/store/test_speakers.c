/* Turns and speakers: whose the words are, who counts, the names that people give, and what becomes
 * of all that when a recording is done again. */
#include "tests/unit/store/stages.h"

TEST(whichever_comes_last)
{
    char who[128], says[128];

    for (int order = 0; order < 3; order++) {
        struct store *st = filled();

        if (order == 0) {
            transcribe(st, 1);
            diarize(st, 3);
            finalize(st, 3);
        } else if (order == 1) {
            diarize(st, 3);
            finalize(st, 3);
            transcribe(st, 1);
        } else {
            shard_put(st, 1, 0, (const char *[]){"one", "two"}, 2);
            diarize(st, 3);
            finalize(st, 3);
            transcribe(st, 1);
        }
        snprintf(who, sizeof(who), "%s", text_of(WHO));
        snprintf(says, sizeof(says), "%s", text_of(WHO_SAYS));
        assert_string_equal(who, "SPEAKER_00,SPEAKER_01,SPEAKER_00");
        assert_string_equal(says, "SPEAKER_00,SPEAKER_00,SPEAKER_00,SPEAKER_00,SPEAKER_00,"
                                  "SPEAKER_00");
        assert_int_equal(count_of("SELECT count(*) FROM segment WHERE task_id = 2 "
                                  "AND speaker_id IS NOT NULL"),
                         0);
        catalog_close(st);
    }
}

/* The word at 700 is of no length: SPEAKER_00 and _01 both speak in that millisecond. What is said
 * 21 seconds after the last turn is said by nobody. */
TEST(words_have_speakers_of_their_own)
{
    static const struct result_turn other[] = {{0, 650, 0}, {650, 9000, 1}};
    struct store *st = filled();
    struct err e = {0};

    transcribe(st, 1);
    diarize(st, 3);
    assert_ok(store_finalized(st, 3, PEOPLE(2, other, 2), &e), e);
    assert_string_equal(text_of(WHO), "SPEAKER_01,SPEAKER_01,-");
    assert_string_equal(text_of(WHO_SAYS), "SPEAKER_00,SPEAKER_01,SPEAKER_00,SPEAKER_01,-,-");
    catalog_close(st);
}

/* The one that is finalized and was asked for last; when the older one is asked for again, that
 * one.
 */
TEST(the_diarization_asked_for_last_counts)
{
    static const struct result_turn all[] = {{0, 60000, 0}};
    struct store *st = filled();
    struct err e = {0};

    transcribe(st, 1);
    diarize(st, 3);
    finalize(st, 3);
    job_add1(st, job_begin(st, &stage_voices2), "/a/1.wav", "", 1); /* task 5 */
    diarize(st, 5);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    assert_ok(store_finalized(st, 5, PEOPLE(1, all, 1), &e), e);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_00,SPEAKER_00");
    assert_int_equal(count_of("SELECT count(*) FROM speaker k JOIN segment USING (speaker_id) "
                              "WHERE k.task_id = 5"),
                     3);
    assert_string_equal(text_of("SELECT group_concat(turns) FROM speakers_all WHERE task_id = 3"),
                        "2,1,1");
    assert_int_equal(count_of("SELECT count(*) FROM speakers"), 1);
    job_add1(st, job_begin(st, &stage_voices), "/a/1.wav", "", 1);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    assert_int_equal(count_of("SELECT count(*) FROM turns WHERE task_id = 3"), 4);
    catalog_close(st);
}

TEST(nobody_speaks)
{
    struct store *st = filled();
    struct err e = {0};

    transcribe(st, 1);
    diarize(st, 3);
    assert_ok(store_finalized(st, 3, &(struct result_people){0}, &e), e);
    assert_string_equal(text_of(WHO), "-,-,-");
    catalog_close(st);
}

TEST(names_are_given_and_taken)
{
    struct store *st = filled();
    struct request rq = {.type = REQUEST_NAME_SPEAKER, .speaker_id = 2, .speaker_name = "Ana"};
    struct request_reply reply = {0};
    struct err e = {0};
    char line[64] = "";

    transcribe(st, 1);
    diarize(st, 3);
    finalize(st, 3);
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    assert_string_equal(
        text_of("SELECT name || label || speaker || minutes || speech FROM speakers "
                "WHERE name IS NOT NULL"),
        "AnaSPEAKER_01Ana0.10:05");
    rq.speaker_name = "";
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    for (int i = 0; i < 5; i++) {
        static const char *const bad[] = {"a\nb", "\xff", NULL, "SPEAKER_01", "Speaker_7"};

        rq.speaker_name = bad[i];
        assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    }
    for (int i = 0; i < 3; i++) {
        static const char *const good[] = {"SPEAKER_", "SPEAKER_1a", "The SPEAKER_01"};

        rq.speaker_name = good[i];
        assert_int_equal(apply_ok(st, &rq).affected, 1);
    }
    rq.speaker_name = "";
    apply_ok(st, &rq);
    rq = (struct request){.type = REQUEST_NAME_SPEAKER, .speaker_id = 9, .speaker_name = "Ana"};
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_INPUT);
    snprintf(line, sizeof(line), "%s",
             text_of("SELECT group_concat(start || ' ' || speaker) "
                     "FROM (SELECT * FROM turns ORDER BY idx)"));
    assert_string_equal(line, "0:00 SPEAKER_00,0:00 SPEAKER_02,0:00 SPEAKER_01,0:30 SPEAKER_00");
    catalog_close(st);
}

static void name(struct store *st, int64_t speaker_id, const char *is)
{
    apply_ok(st, &(struct request){
                     .type = REQUEST_NAME_SPEAKER, .speaker_id = speaker_id, .speaker_name = is});
}

/* "Ana,-,Bea": the names of a diarization's speakers. */
static const char *names_of(int64_t task)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull(group_concat(ifnull(name, '-')), '') FROM (SELECT name FROM speaker "
             "WHERE task_id = %d ORDER BY label)",
             (int)task);
    return text_of(sql);
}

/* Recording 1, diarized by task 3 with three names. */
static struct store *named(void)
{
    struct store *st = filled();

    transcribe(st, 1);
    diarize(st, 3);
    finalize(st, 3);
    name(st, 1, "Bea");
    name(st, 2, "Ana");
    name(st, 3, "Cid");
    return st;
}

/* Task 5 is of other parameters. */
static void diarize_anew(struct store *st)
{
    job_add1(st, job_begin(st, &stage_voices2), "/a/1.wav", "", 1);
    diarize(st, 5);
}

static void expect_names(const struct result_turn *is, size_t count, const char *want)
{
    struct store *st = named();
    struct err e = {0};

    diarize_anew(st);
    assert_ok(store_finalized(st, 5, PEOPLE(3, is, count), &e), e);
    assert_string_equal(names_of(5), want);
    assert_string_equal(names_of(3), "Bea,Ana,Cid");
    catalog_close(st);
}

TEST(names_go_to_the_next_diarization)
{
    /* Bea speaks 9900 ms, Ana 1910, Cid 100. */
    static const struct result_turn split[] = {
        {650, 2600, 0}, {0, 650, 1}, {30000, 35000, 1}, {35000, 39000, 2}};
    static const struct result_turn together[] = {{0, 60000, 2}, {61000, 62000, 0}};
    /* Cid speaks only while Bea does. */
    static const struct result_turn same[] = {
        {30000, 39000, 0}, {0, 900, 0}, {600, 700, 2}, {690, 2600, 1}};
    /* Said thrice is no more than once: she shares 910 ms with the first, 1000 with the second. */
    static const struct result_turn again[] = {
        {690, 1600, 0}, {690, 1600, 0}, {700, 1500, 0}, {1600, 2600, 1}};
    static const struct result_turn elsewhere[] = {{40000, 50000, 0}, {900, 600000, 1}};
    struct store *st = named();
    struct err e = {0};

    catalog_close(st);
    expect_names(split, 4, "Ana,Bea,-");
    expect_names(together, 2, "-,-,Bea");
    expect_names(same, 4, "Bea,Ana,Cid");
    expect_names(again, 4, "-,Ana,-");
    expect_names(elsewhere, 2, "-,Bea,-");
    expect_names(NULL, 0, "-,-,-");
    /* What counts now is what the names are taken from, and a name may be taken away. */
    st = named();
    diarize_anew(st);
    assert_ok(store_finalized(st, 5, PEOPLE(3, same, 4), &e), e);
    assert_string_equal(text_of(WHO), "Bea,Ana,Bea");
    name(st, 5, "");
    assert_string_equal(text_of(WHO), "Bea,SPEAKER_01,Bea");
    job_add1(st, job_begin(st, &(struct store_stage){"diarize", "p", "/m", "ff", "{}", NULL}),
             "/a/1.wav", "", 1);
    diarize(st, 6);
    finalize(st, 6);
    assert_string_equal(names_of(6), "Bea,-,Cid");
    catalog_close(st);
}

TEST(names_outlive_a_longer_recording)
{
    struct store *st = named();
    struct err e = {0};

    name(st, 1, "");
    name(st, 3, "");
    assert_ok(store_task_total(st, 3, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id = 3"), 0);
    assert_string_equal(names_of(3), "-,Ana,-"); /* all of them, to tell who is who */
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    assert_int_equal(count_of("SELECT count(*) FROM turn WHERE task_id = 3"), 4);
    voices_put(st, 3, 0);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/a"});
    assert_ok(store_drop_cancelled(st, &e), e);
    assert_string_equal(names_of(3), "-,Ana,-");
    catalog_audit();
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 3, seq);
    finalize(st, 3);
    assert_string_equal(names_of(3), "-,Ana,-");
    assert_int_equal(count_of("SELECT count(*) FROM turn WHERE task_id = 3"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    assert_string_equal(text_of(WHO), "SPEAKER_00,Ana,SPEAKER_00");
    catalog_close(st);
}

/* Until it is done again, the older diarization beside it counts, and knows what people said. */
TEST(names_outlive_a_longer_recording_with_an_older_diarization)
{
    static const struct result_turn same[] = {
        {30000, 39000, 0}, {0, 900, 0}, {600, 700, 2}, {690, 2600, 1}};
    struct store *st = named();
    struct err e = {0};

    name(st, 2, "");
    diarize_anew(st);
    assert_ok(store_finalized(st, 5, PEOPLE(3, same, 4), &e), e);
    name(st, 4, "Dan");
    name(st, 5, "Eva");
    assert_string_equal(names_of(5), "Dan,Eva,Cid");
    assert_string_equal(text_of(WHO), "Dan,Eva,Dan");
    assert_ok(store_task_total(st, 5, 3, &e), e);
    assert_string_equal(names_of(3), "Bea,Eva,Cid");
    assert_string_equal(text_of(WHO), "Bea,Eva,Bea");
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 5, seq);
    assert_ok(store_finalized(st, 5, PEOPLE(3, same, 4), &e), e);
    assert_string_equal(names_of(5), "Dan,Eva,Cid");
    assert_string_equal(text_of(WHO), "Dan,Eva,Dan");
    catalog_close(st);
}

/* A recording that is longer than was thought is diarized again as a whole. */
TEST(a_longer_recording_is_finalized_again)
{
    struct store *st = filled();
    struct err e = {0};

    transcribe(st, 1);
    diarize(st, 3);
    finalize(st, 3);
    assert_ok(store_task_total(st, 3, 2, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 3);
    assert_ok(store_task_total(st, 3, 3, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id = 3"), 0);
    assert_string_equal(text_of(WHO), "-,-,-");
    assert_string_equal(text_of(WHO_SAYS), "-,-,-,-,-,-");
    assert_int_equal(runnable_of(st, 2), 2);
    for (uint32_t seq = 0; seq < 3; seq++)
        voices_put(st, 3, seq);
    assert_int_equal(unfinalized(st, 2, NULL), 1);
    /* Still longer, before it was finalized: the voices are kept. */
    assert_ok(store_task_total(st, 3, 4, &e), e);
    assert_int_equal(unfinalized(st, 2, NULL), 0);
    voices_put(st, 3, 3);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 4);
    finalize(st, 3);
    assert_string_equal(text_of(WHO), "SPEAKER_00,SPEAKER_01,SPEAKER_00");
    catalog_close(st);
}

TEST(what_is_deleted_leaves_nothing_behind)
{
    struct store *st = filled();

    transcribe(st, 1);
    diarize(st, 3);
    finalize(st, 3);
    voices_put(st, 4, 0);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL});
    apply_ok(
        st, &(struct request){.type = REQUEST_FORGET,
                              .stage_id = count_of("SELECT stage_id FROM task WHERE task_id = 3")});
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM speaker"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM word WHERE speaker_id IS NOT NULL"), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
