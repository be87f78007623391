/* Of a recording's results of a kind one is current: evenings on which it is asked for in one way
 * and in another, pinned and forgotten. */
#include "store/read/find.h"
#include "store/requests/forget.h"
#include "tests/unit/store/stages.h"

/* The recording that is spoken of, /N/1.wav: media_id N. */
static int now;

/* A query of one text about it, whose media_id is `m`. */
static const char *said(const char *query)
{
    char sql[1024];

    snprintf(sql, sizeof(sql), "WITH now(m) AS (VALUES (%d)) %s", now, query);
    return text_of(sql);
}

static int64_t task_of(int64_t stage)
{
    char sql[128];

    snprintf(sql, sizeof(sql),
             "SELECT ifnull(max(task_id), 0) FROM task WHERE stage_id = %d AND media_id = %d",
             (int)stage, now);
    return count_of(sql);
}

static void ask(struct store *st, const struct store_stage *stage)
{
    int64_t job = job_begin(st, stage);
    char path[32];

    snprintf(path, sizeof(path), "/%d/1.wav", now);
    job_add1(st, job, path, "", (uint64_t)now);
    job_end(st, job, NULL);
}

static struct store *begin(void)
{
    now = 1;
    return catalog_new();
}

/* One of two shards, or what is missing. */
static void put(struct store *st, int64_t stage, bool all)
{
    static const char *const texts[][2] = {{"nano one", "nano two"}, {"tiny one", "tiny two"}};
    int64_t task = task_of(stage);
    struct err e = {0};

    for (uint32_t seq = 0; seq < (all ? 2 : 1); seq++)
        shard_put(st, task, seq, &texts[stage - 1][seq], 1);
    if (all)
        assert_ok(store_task_total(st, task, 2, &e), e);
}

/* One letter of an evening; true: it was refused. */
static bool step(struct store *st, char letter)
{
    char path[16];
    struct request rq = {.type = REQUEST_FORGET, .select_path = path};
    struct request_reply reply;
    struct err e = {0};

    snprintf(path, sizeof(path), "/%d", now);
    switch (letter) {
    case 'a':
    case 'b': /* asked for */
        ask(st, letter == 'a' ? &stage_nano : &stage_tiny);
        return false;
    case 'x':
    case 'y':
    case 'X':
    case 'Y': /* half done, done */
        put(st, letter == 'x' || letter == 'X' ? 1 : 2, letter < 'a');
        return false;
    case 'f':
        assert_ok(store_task_failed(st, task_of(2), ERR_INPUT, "bad", -1, &e), e);
        return false;
    case 'c':
        rq.type = REQUEST_CANCEL;
        break;
    case 'r':
        rq.type = REQUEST_RETRY;
        break;
    case 'p':
    case 'q':
    case 'u': /* pinned, or none is */
        rq.type = REQUEST_PIN;
        rq.stage_id = letter == 'u' ? 0 : letter - 'o';
        break;
    case '1':
    case '2':
        rq.stage_id = letter - '0';
        break;
    default:
        assert_int_equal(letter, 'S'); /* what is superseded goes */
    }
    return request_apply(st, &rq, &reply, &e) == ERR_INPUT;
}

#define TASKS                                                                                 \
    "SELECT group_concat(stage_id || state || iif(current, '+', '') || iif(wanted, '!', '') " \
    "|| iif(pinned, '^', ''), ' ') FROM (SELECT * FROM task JOIN now ON media_id = m "        \
    "ORDER BY stage_id)"
#define TEXT                                                                   \
    "SELECT group_concat(text, ', ') FROM (SELECT * FROM transcript JOIN now " \
    "ON media_id = m ORDER BY start_ms)"
#define FOUND                                                                           \
    "SELECT group_concat(word, ', ') FROM (SELECT substr(g.text, 1, 8) AS word FROM "   \
    "segment_fts f JOIN segment g ON g.segment_id = f.rowid JOIN task USING (task_id) " \
    "JOIN now ON media_id = m WHERE segment_fts MATCH 'one OR two' ORDER BY g.start_ms)"

/* +: current, !: wanted, ^: pinned; a letter with ? behind it is refused. */
TEST(evenings)
{
    static const struct {
        const char *steps, *tasks, *text;
    } table[] = {
        {"aX", "1done+!", "nano one, nano two"},
        {"aXa", "1done+!", "nano one, nano two"},
        {"aXb", "1done+ 2pending!", "nano one, nano two"},
        {"aXby", "1done+ 2pending!", "nano one, nano two"},
        {"aXbY", "1done 2done+!", "tiny one, tiny two"},
        {"aXbYa", "1done+! 2done", "nano one, nano two"},
        {"aXbYab", "1done 2done+!", "tiny one, tiny two"},
        {"aXbya", "1done+! 2cancelled", "nano one, nano two"},
        {"aXbyab", "1done+ 2pending!", "nano one, nano two"},
        {"aXbf", "1done+ 2failed!", "nano one, nano two"},
        {"aXbfr", "1done+ 2pending!", "nano one, nano two"},
        {"axb", "1cancelled+ 2pending!", "nano one"},
        {"axbr", "1cancelled+ 2pending!", "nano one"},
        {"axbY", "1cancelled 2done+!", "tiny one, tiny two"},
        {"axbX", "1done+ 2pending!", "nano one, nano two"},
        {"axbXY", "1done 2done+!", "tiny one, tiny two"},
        {"axba", "1pending+! 2cancelled", "nano one"},
        {"ab", "1cancelled 2pending+!", "(null)"},
        {"abcr", "1cancelled 2pending+!", "(null)"},
        {"acb", "1cancelled 2pending+!", "(null)"},
        {"acbar", "1pending+! 2cancelled", "(null)"},
        {"aXbYp", "1done+^ 2done!", "nano one, nano two"},
        {"aXbYpq", "1done 2done+!^", "tiny one, tiny two"},
        {"aXbYpu", "1done 2done+!", "tiny one, tiny two"},
        {"aXpbY", "1done+^ 2done!", "nano one, nano two"},
        {"aXbqY", "1done 2done+!^", "tiny one, tiny two"},
        {"aXbq", "1done+ 2pending!^", "nano one, nano two"},
        {"aXbcq", "1done+ 2cancelled!", "nano one, nano two"},
        {"aXbYS", "2done+!", "tiny one, tiny two"},
        {"aXbYaS", "1done+!", "nano one, nano two"},
        {"aXbS", "1done+ 2pending!", "nano one, nano two"},
        {"aXpbYS", "1done+^ 2done!", "nano one, nano two"},
        {"abS", "2pending+!", "(null)"},
        {"aXbY1", "2done+!", "tiny one, tiny two"},
        {"aXbY2", "1done+!", "nano one, nano two"},
        {"axb1", "2pending+!", "(null)"},
        {"aXbfS", "1done+ 2failed!", "nano one, nano two"},
        {"aXbf2", "1done+!", "nano one, nano two"},
        {"aXby2?", "1done+ 2pending!", "nano one, nano two"},
        {"aXbY21", "(null)", "(null)"},
        {"aXbY21aX", "1done+!", "nano one, nano two"},
        {"aX9?", "1done+!", "nano one, nano two"},
    };

    struct store *st = begin();

    ask(st, &stage_nano); /* stage 1 */
    ask(st, &stage_tiny);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        now = (int)i + 2;
        print_message("%s\n", table[i].steps);
        for (const char *s = table[i].steps; *s; s++) {
            bool refused = s[1] == '?';

            if (*s == '9') {
                struct request rq = {.type = REQUEST_PIN, .stage_id = 9};
                struct request_reply reply;
                struct err e = {0};

                assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_MISSING);
            } else {
                assert_int_equal(step(st, *s), refused);
            }
            s += refused;
        }
        assert_string_equal(said(TASKS), table[i].tasks);
        assert_string_equal(said(TEXT), table[i].text);
        assert_string_equal(said(FOUND), table[i].text);
    }
    catalog_close(st);
}

/* ------------------------------------------------------------------------------------- derived */

static void embed(struct store *st, int64_t stage, const char *text)
{
    const struct store_vector v = {0, 900, text, one, 2};
    struct err e = {0};

    assert_ok(store_shard_done(
                  st,
                  &(struct store_shard_result){
                      .task_id = task_of(stage), .end_ms = 60000, .vectors = &v, .vector_count = 1},
                  &e),
              e);
    assert_ok(store_task_total(st, task_of(stage), 1, &e), e);
}

/* Stages 1 to 4: a transcription and its passages, another one and its passages. */
TEST(passages_follow_their_transcription)
{
    static const struct store_stage tiny_text = {"embed-text", "e5",        "/models/e5",
                                                 "ee55",       "{\"a\":2}", &stage_tiny};
    static const char passage[] = "SELECT group_concat(text) FROM passages";
    struct store *st = begin();

    ask(st, &stage_text);
    assert_string_equal(said(TASKS), "1pending+! 2pending+!");
    put(st, 1, false);
    /* Nobody will make them any more, so that nobody waits for them. */
    ask(st, &stage_tiny);
    assert_string_equal(said(TASKS), "1cancelled+ 2cancelled+ 3pending!");
    ask(st, &stage_text);
    assert_string_equal(said(TASKS), "1pending+! 2pending+! 3cancelled");
    put(st, 1, true);
    embed(st, 2, "of nano");
    ask(st, &tiny_text);
    assert_string_equal(said(TASKS), "1done+ 2done+ 3pending! 4pending!");
    assert_string_equal(text_of("SELECT state FROM recordings"), "pending");
    shard_put(st, task_of(3), 0, (const char *[]){"tiny"}, 1);
    struct err e = {0};
    assert_ok(store_task_total(st, task_of(3), 1, &e), e);
    assert_string_equal(text_of(passage), "of nano");
    embed(st, 4, "of tiny");
    assert_string_equal(said(TASKS), "1done 2done 3done+! 4done+!");
    assert_string_equal(text_of(passage), "of tiny");
    /* The transcription alone is asked for: its own passages go with it. */
    ask(st, &stage_nano);
    assert_string_equal(text_of(passage), "of nano");
    assert_string_equal(text_of("SELECT group_concat(text) FROM passages_all"), "of nano,of tiny");
    /* A stage's results go with what was made of them. */
    assert_int_equal(
        apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 1}).affected, 2);
    assert_string_equal(said(TASKS), "3done+! 4done+!");
    assert_string_equal(text_of(passage), "of tiny");
    catalog_close(st);
}

/* A recording whose transcription is damaged: what nobody reads goes all the same. */
TEST(a_damaged_result_keeps_nothing_from_going)
{
    struct store *st = begin();
    struct request rq = {.type = REQUEST_FORGET};

    ask(st, &stage_text);
    put(st, 1, true);
    embed(st, 2, "of nano");
    run_sql(
        "UPDATE shard SET result = x'00112233' WHERE task_id = (SELECT min(task_id) FROM task)");
    rq.stage_id = 2;
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    catalog_close_by_hand(st);
}

/* What is to be made of a superseded transcription still needs it. */
TEST(what_is_still_needed_stays)
{
    struct store *st = begin();
    struct request rq = {.type = REQUEST_FORGET};

    ask(st, &stage_text);
    put(st, 1, true);
    ask(st, &stage_tiny);
    shard_put(st, task_of(3), 0, (const char *[]){"tiny"}, 1);
    struct err e = {0};
    assert_ok(store_task_total(st, task_of(3), 1, &e), e);
    assert_string_equal(said(TASKS), "1done 2pending+! 3done+!");
    assert_int_equal(apply_ok(st, &rq).affected, 0);
    embed(st, 2, "of nano");
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_string_equal(said(TASKS), "2done+! 3done+!");
    catalog_close(st);
}

/* What nothing can be made of is not wanted, whoever is forgotten or asked for again. */
TEST(passages_of_nothing_are_not_waited_for)
{
    static const struct store_stage tiny_text = {"embed-text", "e5",        "/models/e5",
                                                 "ee55",       "{\"a\":2}", &stage_tiny};
    struct store *st = begin();
    struct err e = {0};

    ask(st, &stage_text);
    ask(st, &tiny_text);
    assert_string_equal(said(TASKS), "1cancelled 2cancelled 3pending+! 4pending+!");
    ask(st, &stage_nano);
    assert_string_equal(said(TASKS), "1pending+! 2pending+! 3cancelled 4cancelled");
    ask(st, &stage_tiny);
    shard_put(st, task_of(3), 0, (const char *[]){"tiny"}, 1);
    assert_ok(store_task_total(st, task_of(3), 1, &e), e);
    embed(st, 4, "of tiny");
    assert_string_equal(said(TASKS), "1cancelled 2cancelled 3done+! 4done+!");
    assert_int_equal(apply_ok(st, &(struct request){.type = REQUEST_FORGET}).affected, 2);
    /* And where the passages are alone of their kind. */
    now = 2;
    ask(st, &stage_text);
    ask(st, &stage_tiny);
    shard_put(st, task_of(3), 0, (const char *[]){"tiny"}, 1);
    assert_ok(store_task_total(st, task_of(3), 1, &e), e);
    apply_ok(st, &(struct request){.type = REQUEST_FORGET});
    assert_string_equal(said(TASKS), "2cancelled+ 3done+!");
    assert_int_equal(count_of("SELECT count(*) FROM recordings WHERE state = 'done'"), 2);
    catalog_close(st);
}

/* ------------------------------------------------------------------------------------ speakers */

static void name(struct store *st, const char *label, int64_t stage, const char *is)
{
    char sql[160];

    snprintf(sql, sizeof(sql), "SELECT speaker_id FROM speaker WHERE task_id = %d AND label = '%s'",
             (int)task_of(stage), label);
    apply_ok(st, &(struct request){.type = REQUEST_NAME_SPEAKER,
                                   .speaker_id = count_of(sql),
                                   .speaker_name = is});
}

/* Who speaks is what the current diarization says, and a name is not lost with one that goes. */
TEST(speakers_follow_the_diarization)
{
    static const struct result_turn all[] = {{0, 60000, 0}};
    struct store *st = begin();
    struct err e = {0};

    ask(st, &stage_nano);
    transcribe(st, task_of(1));
    ask(st, &stage_voices);
    diarize(st, task_of(2));
    finalize(st, task_of(2));
    name(st, "SPEAKER_00", 2, "Bea");
    ask(st, &stage_voices2);
    diarize(st, task_of(3));
    assert_ok(store_finalized(st, task_of(3), PEOPLE(1, all, 1), &e), e);
    assert_string_equal(text_of(WHO), "Bea,Bea,Bea");
    ask(st, &stage_voices);
    assert_string_equal(text_of(WHO), "Bea,SPEAKER_01,Bea");
    /* A name given meanwhile goes over, one that somebody has stays. */
    name(st, "SPEAKER_00", 3, "");
    name(st, "SPEAKER_00", 2, "Ana");
    apply_ok(st, &(struct request){.type = REQUEST_PIN, .stage_id = 3});
    assert_string_equal(text_of(WHO), "Ana,Ana,Ana");
    assert_string_equal(text_of("SELECT group_concat(name) FROM speakers"), "Ana");
    assert_string_equal(text_of(WHO_SAYS), "Ana,Ana,Ana,Ana,Ana,Ana");
    name(st, "SPEAKER_00", 3, "Eva");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 3});
    assert_string_equal(text_of(WHO), "Ana,SPEAKER_01,Ana");
    name(st, "SPEAKER_00", 2, "");
    ask(st, &stage_voices2);
    diarize(st, task_of(3));
    assert_ok(store_finalized(st, task_of(3), PEOPLE(1, all, 1), &e), e);
    name(st, "SPEAKER_00", 3, "Eva");
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 3});
    assert_string_equal(text_of(WHO), "Eva,SPEAKER_01,Eva");
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 4);
    apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 2});
    assert_string_equal(text_of(WHO), "-,-,-");
    catalog_close(st);
}

/* ------------------------------------------------------------------------------------- forget */

static int add_row(void *arg, const struct forget_row *row)
{
    char *out = arg;

    snprintf(out + strlen(out), 200 - strlen(out), "%d %s %s %d %d %d %d%s|", (int)row->stage_id,
             row->stage, row->model, (int)row->recordings, (int)row->segments, (int)row->vectors,
             (int)row->names, row->bytes > 0 ? "" : " no bytes");
    return 0;
}

static const char *preview(struct store *st, int64_t stage, const char *path)
{
    static char out[200];
    struct err e = {0};

    *out = 0;
    assert_ok(forget_preview(st, stage, path, add_row, out, &e), e);
    return out;
}

/* Sixteen recordings in two folders, in two ways; also below a path, and in pieces between which
 * others are heard. */
TEST(many_are_forgotten)
{
    struct store *st = begin();
    const struct store_stage *const stage[] = {&stage_nano, &stage_tiny};
    struct request rq = {.type = REQUEST_FORGET, .select_path = "/a"};
    struct request_work *w = NULL;
    struct request_reply reply = {0};
    struct err e = {0};
    int pieces = 0, rc;
    char path[32];

    for (int k = 0; k < 2; k++) {
        int64_t job = job_begin(st, stage[k]);

        for (unsigned i = 0; i < 16; i++) {
            snprintf(path, sizeof(path), "/%c/%u.wav", i % 2 ? 'a' : 'b', i);
            job_add1(st, job, path, "", i);
            transcribe(st, count_of("SELECT max(task_id) FROM task"));
        }
        job_end(st, job, NULL);
    }
    fclose(fopen(CATALOG ".vectors-1", "w"));
    assert_int_equal(count_of("SELECT count(*) FROM transcript"), 48);
    assert_string_equal(preview(st, 0, NULL), "1 transcribe nano 16 48 0 0|");
    assert_string_equal(preview(st, 0, "/a"), "1 transcribe nano 8 24 0 0|");
    assert_string_equal(preview(st, 2, "/b"), "2 transcribe tiny 8 24 0 0|");
    assert_string_equal(preview(st, 2, "/c"), "");
    assert_int_equal(apply_ok(st, &rq).affected, 8);
    assert_string_equal(preview(st, 0, NULL), "1 transcribe nano 8 24 0 0|");
    assert_int_equal(count_of("SELECT count(*) FROM transcript_all"), 72);
    assert_int_equal(access(CATALOG ".vectors-1", F_OK), 0);
    rq.select_path = "/c";
    assert_int_equal(request_apply(st, &rq, &reply, &e), ERR_MISSING);
    rq.select_path = NULL;
    assert_ok(request_begin(st, &rq, &w, &e), e);
    while ((rc = request_step(w, &reply, &e)) == 1)
        pieces++;
    assert_int_equal(rc, 0);
    request_work_free(w);
    assert_int_equal(reply.affected, 8);
    assert_int_equal(count_of("SELECT count(*) FROM transcript_all"), 48);
    assert_int_equal(count_of("SELECT count(*) FROM word"), 96);
    assert_int_equal(access(CATALOG ".vectors-1", F_OK), -1);
    assert_int_equal(count_of("SELECT sum(superseded) FROM progress"), 0);
    /* A number is not given twice: a late result must not find another task. */
    for (int again = 0; again < 2; again++) {
        apply_ok(st, &(struct request){.type = REQUEST_FORGET, .stage_id = 2});
        job_add1(st, job_begin(st, &stage_tiny), "/c/new.wav", "", 99);
        assert_int_equal(count_of("SELECT min(task_id) FROM task"), 33 + again);
        apply_ok(st, &(struct request){.type = REQUEST_CANCEL});
    }
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
