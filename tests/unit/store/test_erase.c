/* What is erased is nowhere in the catalog's bytes, and does not come back. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "store/requests/erase.h"
#include "tests/unit/store/stages.h"

#define PATH "/a/Geheimpfad.wav"
#define WORD "xylophonquark"
#define NAME "Philippa Quux"

static const char *const traces[] = {WORD,          "Geheimpfad",   NAME,        "Titelzwirn",
                                     "Korrektwurm", "Passagenmull", "Tagtrumpf", "Fallengelass"};

static bool holds(const char *file, const char *text)
{
    FILE *f = fopen(file, "r");
    char *bytes;
    long n;
    bool ret;

    if (!f)
        return false;
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, f), n);
    ret = n > 0 && memmem(bytes, (size_t)n, text, strlen(text));
    free(bytes);
    fclose(f);
    return ret;
}

static bool is_anywhere(const char *text)
{
    return holds(CATALOG, text) || holds(CATALOG "-wal", text);
}

static struct request_reply erase_ids(struct store *st, const int64_t *ids, uint32_t n)
{
    return apply_ok(
        st,
        &(struct request){
            .type = REQUEST_ERASE, .ids = ids, .count = n, .speaker_name = "", .made_by = "eva"});
}

static void name_speaker(struct store *st, const char *sql, const char *name)
{
    apply_ok(st, &(struct request){.type = REQUEST_NAME_SPEAKER,
                                   .speaker_id = count_of(sql),
                                   .speaker_name = name,
                                   .everywhere = true});
}

/* Two recordings as of filled(), of which the first has something of everything. */
static struct store *told(void)
{
    struct store *st = catalog_new();
    const struct store_stage *stage[] = {&stage_nano, &stage_voices, &stage_text};
    const char *roots[] = {PATH};
    const struct result_tag tags[] = {{"container", "title", "Titelzwirn", 0, 0},
                                      {"container", "comment", "Tagtrumpf", 0, 0}};
    const struct result_channel channel = {
        .track = 1, .channel = 1, .sound_ms = 5, .length_ms = 9, .heard = true};
    const float v[] = {0.6f, 0.8f};
    const struct store_vector vector = {0, 900, "Passagenmull", v, 2};
    const struct request_trouble trouble = {PATH, strlen(PATH), "", 0, 0, ERR_IO, "no"};
    const struct request_verified verified = {PATH, strlen(PATH), 5, 6, false, "0123456789abcde"};
    struct result_segment dropped = {.end_ms = 9, .text = "Fallengelass", .dropped = true};
    struct err e = {0};

    for (int i = 0; i < 3; i++) {
        int64_t job = apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_BEGIN,
                                                     .command_line = "nightshift enqueue " PATH
                                                                     " ../Geheimpfad.wav /a/2.wav",
                                                     .stage = *stage[i],
                                                     .language = "en",
                                                     .options = "[]",
                                                     .roots = roots,
                                                     .root_count = 1})
                          .job_id;

        job_add1(st, job, PATH, "", 1);
        job_add1(st, job, "/a/2.wav", "", 2);
        job_end(st, job, "/a");
        apply_ok(st, &(struct request){.type = REQUEST_ENQUEUE_TROUBLE,
                                       .job_id = job,
                                       .troubles = &trouble,
                                       .count = 1});
    }
    for (int64_t task = 1; task <= 2; task++) {
        shard_put(st, task, 0, (const char *[]){task == 1 ? WORD : "alpha", "beta"}, 2);
        assert_ok(store_task_total(st, task, 1, &e), e);
        diarize(st, task + 2);
        finalize(st, task + 2);
        assert_ok(store_shard_done(st,
                                   &(struct store_shard_result){.task_id = task + 4,
                                                                .end_ms = 900,
                                                                .vectors = &vector,
                                                                .vector_count = task == 1},
                                   &e),
                  e);
    }
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = 1,
                                                            .seq = 1,
                                                            .start_ms = 30000,
                                                            .end_ms = 60000,
                                                            .segments = &dropped,
                                                            .segment_count = 1},
                               &e),
              e);
    assert_ok(
        store_media(
            st, 1,
            &(struct store_media_info){
                .duration_ms = 60000, .container = "wav", .tags = tags, .tag_count = 2},
            &(struct store_media_end){.total_ms = 60000, .channels = &channel, .channel_count = 1},
            &e),
        e);
    apply_ok(st, &(struct request){.type = REQUEST_VERIFIED, .verified = &verified, .count = 1});
    assert_ok(store_event(st, "note", 1, NULL, PATH " is strange", &e), e);
    assert_ok(store_event(st, "note", 0, NULL, PATH " was found", &e), e);
    assert_ok(store_event(st, "note", 2, NULL, "stays", &e), e);
    name_speaker(st, "SELECT min(speaker_id) FROM speaker WHERE media_id = 1", NAME);
    apply_ok(st, &(struct request){
                     .type = REQUEST_CORRECT,
                     .corrections =
                         &(struct request_correction){
                             count_of("SELECT segment_id FROM segment WHERE text = '" WORD "'"),
                             WORD, "Korrektwurm", false, NULL},
                     .count = 1,
                     .made_by = "eva",
                     .source = ""});
    return st;
}

/* Rows of any table that have to do with the first recording. */
static int64_t rows_left(void)
{
    return count_of(
        "SELECT (SELECT count(*) FROM media WHERE media_id = 1) + "
        "(SELECT count(*) FROM place WHERE media_id = 1) + "
        "(SELECT count(*) FROM task WHERE media_id = 1) + "
        "(SELECT count(*) FROM shard WHERE task_id NOT IN (SELECT task_id FROM task)) + "
        "(SELECT count(*) FROM speaker WHERE media_id = 1) + "
        "(SELECT count(*) FROM person) + (SELECT count(*) FROM person_voice) + "
        "(SELECT count(*) FROM person_like) + (SELECT count(*) FROM correction) + "
        "(SELECT count(*) FROM correction_at) + (SELECT count(*) FROM tag) + "
        "(SELECT count(*) FROM channel) + (SELECT count(*) FROM trouble) + "
        "(SELECT count(*) FROM fixity) + (SELECT count(*) FROM recipe) + "
        "(SELECT count(*) FROM embedding) + (SELECT count(*) FROM dropped) + "
        "(SELECT count(*) FROM event WHERE text <> 'stays')");
}

TEST(nothing_is_left_of_a_recording)
{
    struct store *st = told();
    const int64_t ids[] = {1};
    const char index[] = CATALOG ".vectors-3";
    FILE *f;

    f = fopen(index, "w");
    assert_non_null(f);
    fputs(WORD, f);
    fclose(f);
    for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++)
        if (!is_anywhere(traces[i]))
            fail_msg("'%s' never was in the catalog", traces[i]);
    assert_true(rows_left() > 20);
    assert_true(count_of("SELECT count(*) FROM recipe") > 0);
    assert_int_equal(erase_ids(st, ids, 1).affected, 1);
    /* While the catalog is open, and no reader was. */
    for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++)
        if (is_anywhere(traces[i]))
            fail_msg("'%s' is still in the catalog", traces[i]);
    assert_int_equal(rows_left(), 0);
    assert_int_not_equal(access(index, F_OK), 0);
    assert_string_equal(text_of("SELECT command FROM job WHERE job_id = 1"),
                        "nightshift enqueue [erased] ../[erased] /a/2.wav");
    assert_string_equal(text_of("SELECT erased_by || size_bytes FROM erased"), "eva1001");
    assert_string_equal(text_of("SELECT group_concat(text) FROM transcript"), "alpha,beta");
    assert_int_equal(count_of("SELECT count(*) FROM recordings"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'alpha'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE media_id = 2"), 1);
    catalog_close(st);
}

/* Whoever reads holds the log; the next writer empties it. */
TEST(a_log_that_is_held_is_wiped_by_the_next)
{
    struct store *st = told(), *reader = catalog_open(STORE_READ);
    const int64_t ids[] = {1};
    struct err e = {0};
    bool held;

    assert_ok(store_hold(reader, &held, &e), e);
    assert_int_equal(store_is_pending(reader, &held, &e), 0);
    assert_true(erase_ids(st, ids, 1).log_kept);
    assert_true(is_anywhere(WORD));
    store_close(st);
    store_let_go(reader, true);
    assert_true(is_anywhere(WORD)); /* the reader does not check out what it keeps open */
    st = catalog_open(STORE_WRITE);
    assert_false(is_anywhere(WORD));
    store_close(reader);
    catalog_close(st);
}

TEST(what_is_on_its_way_is_dropped)
{
    struct store *st = told();
    const struct result_tag tag = {"container", "title", "Titelzwirn", 0, 0};
    const struct result_channel channel = {
        .track = 1, .channel = 1, .sound_ms = 5, .length_ms = 9, .heard = true};
    const struct result_source source = {.label = "channel 1"};
    const int64_t ids[] = {2, 1};
    struct err e = {0};
    int64_t job;

    assert_int_equal(erase_ids(st, ids, 2).affected, 2);
    assert_int_equal(count_of("SELECT count(*) FROM media"), 0);
    shard_put(st, 1, 5, (const char *[]){WORD}, 1);
    assert_ok(store_task_total(st, 1, 6, &e), e);
    assert_ok(store_task_failed(st, 1, ERR_IO, PATH, -1, &e), e);
    assert_ok(store_task_heard(st, 1, &(struct store_heard){&source, 1, "", ""}, &e), e);
    finalize(st, 3);
    assert_ok(
        store_media(st, 1,
                    &(struct store_media_info){
                        .duration_ms = 60000, .container = "wav", .tags = &tag, .tag_count = 1},
                    &(struct store_media_end){
                        .total_ms = 60000, .clock = PATH, .channels = &channel, .channel_count = 1},
                    &e),
        e);
    assert_ok(store_event(st, "note", 1, NULL, PATH, &e), e);
    assert_int_equal(rows_left(), 0);
    /* The next recording has another number: what is on its way is none of its. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/3.wav", "", 3);
    assert_int_equal(count_of("SELECT media_id > 2 FROM media"), 1);
    catalog_close(st);
}

TEST(it_is_not_taken_again)
{
    struct store *st = told();
    const int64_t ids[] = {1}, marks[] = {1};
    struct request_reply r;
    struct request rq = {
        .type = REQUEST_ERASE, .ids = marks, .count = 1, .speaker_name = "", .undo = true};
    struct store_found f = found_at("/b/copy.wav", "", 1);
    struct store_met met;
    struct err e = {0};
    int64_t job;

    erase_ids(st, ids, 1);
    job = job_begin(st, &stage_nano);
    r = job_add1(st, job, "/b/copy.wav", "", 1);
    assert_int_equal(r.counts.erased, 1);
    assert_int_equal(r.counts.seen, 0);
    assert_int_equal(r.unproven_len, 1);
    assert_int_equal(count_of("SELECT count(*) FROM media"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM place"), 1);
    assert_ok(store_meet(st, &f, &met, &e), e);
    assert_true(met.erased_sure && met.erased_id == 1 && met.erased_at[4] == '-');
    assert_int_equal(apply_ok(st, &rq).affected, 1);
    assert_int_equal(request_apply(st, &rq, &r, &e), ERR_MISSING);
    r = job_add1(st, job, "/b/copy.wav", "", 1);
    assert_int_equal(r.counts.added, 1);
    catalog_close(st);
}

/* A large file is that one only if all of its bytes are. */
TEST(large_files_are_told_by_their_hash)
{
    struct store *st = catalog_new();
    struct store_found f = found_at("/a/large", "", 1);
    const int64_t ids[] = {1};
    struct request_reply r;
    int64_t job = job_begin(st, &stage_nano);

    f.size_bytes = f.file_size_bytes = STORE_WHOLE_BYTES + 1;
    f.has_hash = true;
    memset(f.hash, 7, sizeof(f.hash));
    assert_int_equal(job_add(st, job, &f, 1).counts.added, 1);
    erase_ids(st, ids, 1);
    assert_int_equal(job_add(st, job, &f, 1).counts.erased, 1);
    f.has_hash = false;
    r = job_add(st, job, &f, 1);
    assert_int_equal(r.counts.erased + r.counts.seen, 0);
    assert_int_equal(r.unproven[0], 1);
    f.has_hash = true;
    f.hash[0] = 8;
    assert_int_equal(job_add(st, job, &f, 1).counts.added, 1);
    /* What only looks like it is told apart by its hash, and is known under that. */
    memset(f.hash, 7, sizeof(f.hash));
    memcpy(f.fingerprint, f.hash, sizeof(f.hash));
    f.path = "/a/other";
    assert_int_equal(job_add(st, job, &f, 1).counts.erased, 1);
    catalog_close(st);
}

TEST(another_recording_lies_there_now)
{
    struct store *st = told();
    const int64_t ids[] = {1};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, PATH, "", 9);
    erase_ids(st, ids, 1);
    assert_int_equal(count_of("SELECT count(*) FROM fixity"), 1);
    assert_string_equal(text_of("SELECT path FROM recordings WHERE size_bytes = 1009"), PATH);
    assert_false(is_anywhere(WORD));
    catalog_close(st);
}

TEST(a_person_goes)
{
    struct store *st = told();
    struct request rq = {.type = REQUEST_ERASE, .speaker_name = "philippa quux", .made_by = ""};
    struct erase_person p;
    struct request_reply r;
    struct err e = {0};

    name_speaker(st, "SELECT min(speaker_id) FROM speaker WHERE media_id = 2", NAME);
    assert_ok(erase_preview_person(st, "philippa quux", &p, &e), e);
    assert_int_equal(p.speakers, 2);
    assert_int_equal(p.recordings, 2);
    assert_int_equal(p.voices, 2);
    r = apply_ok(st, &rq);
    assert_int_equal(r.affected, 2);
    assert_false(r.log_kept);
    assert_false(is_anywhere(NAME));
    assert_int_equal(count_of("SELECT count(*) FROM person") +
                         count_of("SELECT count(*) FROM person_voice") +
                         count_of("SELECT count(*) FROM speaker WHERE name IS NOT NULL"),
                     0);
    assert_int_equal(count_of("SELECT count(*) FROM speaker WHERE label = 'SPEAKER_00' "
                              "AND vector IS NOT NULL"),
                     0);
    assert_int_equal(count_of("SELECT count(*) FROM proposals"), 0);
    assert_true(is_anywhere(WORD));
    assert_int_equal(request_apply(st, &rq, &r, &e), ERR_MISSING);
    catalog_close(st);
}

TEST(all_or_nothing)
{
    struct store *st = told();
    const int64_t ids[] = {1, 77};
    const int64_t before = count_of("SELECT count(*) FROM segment");
    struct request rq = {
        .type = REQUEST_ERASE, .ids = ids, .count = 2, .speaker_name = "", .made_by = ""};
    struct request_reply r;
    struct err e = {0};

    assert_int_equal(request_apply(st, &rq, &r, &e), ERR_MISSING);
    assert_int_equal(count_of("SELECT count(*) FROM erased"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), before);
    rq.speaker_name = NAME;
    assert_int_equal(request_apply(st, &rq, &r, &e), ERR_INPUT);
    rq = (struct request){.type = REQUEST_ERASE};
    assert_int_equal(request_apply(st, &rq, &r, &e), ERR_INPUT);
    catalog_close(st);
}

/* A child erases and is killed somewhere in it. */
static void killed_after(long us)
{
    const struct timespec wait = {0, us * 1000};
    const int64_t ids[] = {1};
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        erase_ids(catalog_open(STORE_WRITE), ids, 1);
        _exit(0);
    }
    nanosleep(&wait, NULL);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Wholly there or wholly gone; whoever opens it next to write wipes what a kill has left. */
TEST(kills)
{
    int there = 0, gone = 0;

    for (int i = 0; i < 500 && gone < 3; i++) {
        store_close(told());
        killed_after(i * 1500);
        store_close(catalog_open(STORE_WRITE));
        if (count_of("SELECT count(*) FROM erased") == 1) {
            gone++;
            assert_int_equal(rows_left(), 0);
            for (size_t k = 0; k < sizeof(traces) / sizeof(*traces); k++)
                assert_false(is_anywhere(traces[k]));
        } else {
            there++;
            assert_int_equal(count_of("SELECT count(*) FROM transcript"), 4);
            assert_int_equal(count_of("SELECT count(*) FROM said WHERE query = 'Korrektwurm'"), 1);
        }
        catalog_audit();
    }
    print_message("%d there, %d gone\n", there, gone);
    assert_true(there > 0);
    assert_true(gone > 0);
}

TEST_MAIN(NULL, NULL)
