/* What people read after scripted histories: all views, kept as files in golden/.
 *
 * The files were written before the catalog's tables were redesigned. Whatever the tables are, the
 * same history must read the same. $NIGHTSHIFT_GOLDEN_WRITE=1 writes the files instead: only for a
 * view that is meant to read otherwise. */
#include "store/parting/parting.h"
#include "tests/unit/store/corrections_fixture.h"

#define PART "golden-part.db"
#define SPLIT "00112233445566778899aabbccddeeff"

/* -------------------------------------------------------------------------------- the dump */

/* Times of day differ from run to run. */
static void put_masked(struct buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned y, mo, d, h, mi, s, ms;
        int n = 0;

        if (sscanf(p, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ%n", &y, &mo, &d, &h, &mi, &s, &ms, &n) == 7 &&
            n == 24) {
            buf_printf(out, "TIME");
            p += n - 1;
        } else if (*p == '\n') {
            buf_printf(out, "\\n");
        } else {
            buf_put_u8(out, (uint8_t)*p);
        }
    }
}

struct rows { /* of all views; owned */
    char **list;
    size_t count, cap;
};

static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

/* Rows of what is read get new numbers whenever they are made anew: those of facts stay. */
static bool is_row_number(const char *column)
{
    static const char *const names[] = {"segment_id", "speaker_id", "embedding_id"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(column, names[i]) == 0)
            return true;
    return false;
}

static char *row_of(sqlite3_stmt *stmt, sqlite3 *db)
{
    struct buf row = BUF_INIT;
    sqlite3_stmt *quote = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, "SELECT quote(?1)", -1, &quote, NULL), SQLITE_OK);
    for (int i = 0; i < sqlite3_column_count(stmt); i++) {
        if (sqlite3_column_type(stmt, i) == SQLITE_NULL ||
            is_row_number(sqlite3_column_name(stmt, i)))
            continue;
        buf_printf(&row, "%s%s=", row.len ? "|" : "", sqlite3_column_name(stmt, i));
        if (sqlite3_column_type(stmt, i) == SQLITE_FLOAT) { /* the last digits are the machine's */
            buf_printf(&row, "%.6g", sqlite3_column_double(stmt, i));
            continue;
        }
        sqlite3_bind_value(quote, 1, sqlite3_column_value(stmt, i));
        assert_int_equal(sqlite3_step(quote), SQLITE_ROW);
        put_masked(&row, (const char *)sqlite3_column_text(quote, 0));
        sqlite3_reset(quote);
    }
    sqlite3_finalize(quote);
    assert_non_null(buf_cstr(&row));
    return (char *)row.data;
}

static void add_row(struct rows *rows, const char *view, char *row)
{
    char *line = NULL;

    if (rows->count == rows->cap) {
        rows->cap = 2 * rows->cap + 64;
        rows->list = realloc(rows->list, rows->cap * sizeof(*rows->list));
        assert_non_null(rows->list);
    }
    assert_true(asprintf(&line, "%s: %s", view, row) > 0);
    rows->list[rows->count++] = line;
    free(row);
}

static void read_view(struct rows *rows, sqlite3 *db, const char *view)
{
    sqlite3_stmt *stmt = NULL;
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT * FROM \"%s\"", view);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        add_row(rows, view, row_of(stmt, db));
    assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
}

static void rows_free(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->list[i]);
    free(rows->list);
    *rows = (struct rows){0};
}

/* What went and what came, both sorted. */
static void put_changes(struct buf *out, const struct rows *was, const struct rows *is)
{
    size_t i = 0, k = 0;

    while (i < was->count || k < is->count) {
        int order = i == was->count ? 1 : k == is->count ? -1 : strcmp(was->list[i], is->list[k]);

        if (order < 0)
            buf_printf(out, "- %s\n", was->list[i++]);
        else if (order > 0)
            buf_printf(out, "+ %s\n", is->list[k++]);
        else
            i++, k++;
    }
}

/* The views that docs/reference/catalog.md tells of, and those with `_all`. */
static const char *const views[] = {
    "archive",  "chapters",   "corrections",    "doubts_all",  "failures",     "passages_all",
    "progress", "proposals",  "recordings",     "results_all", "sounds_all",   "speakers_all",
    "tags",     "tasks",      "transcript_all", "turns_all",   "voice_groups", "words_all",
    "doubts",   "transcript", "words",          "speakers",    "turns",        "results",
    "sounds",   "passages",   "channels"};

/* A view that shows what is current of another one is counted alone. */
static bool counted_alone(const char *view)
{
    char all[64];

    snprintf(all, sizeof(all), "%s_all", view);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
        if (strcmp(views[i], all) == 0)
            return true;
    return false;
}

struct story {
    struct buf text;
    struct rows rows; /* as they were told last */
};

/* Tells how the views changed since the scene before. */
static void tell(struct story *s, const char *scene)
{
    struct rows now = {0};
    sqlite3 *db;

    buf_printf(&s->text, "== %s\n", scene);
    assert_int_equal(sqlite3_open_v2(CATALOG, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        char sql[160];

        if (!counted_alone(views[i])) {
            read_view(&now, db, views[i]);
            continue;
        }
        snprintf(sql, sizeof(sql),
                 "SELECT count(*) = (SELECT count(*) FROM %s_all WHERE current) FROM %s", views[i],
                 views[i]);
        assert_int_equal(count_of(sql), 1);
    }
    sqlite3_close(db);
    qsort(now.list, now.count, sizeof(*now.list), by_text);
    put_changes(&s->text, &s->rows, &now);
    rows_free(&s->rows);
    s->rows = now;
}

static void write_file(const char *path, const struct buf *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text->data, 1, text->len, f), text->len);
    assert_int_equal(fclose(f), 0);
}

/* The first line that differs. */
static void compare(FILE *f, const char *name, char *now)
{
    char *line = NULL, *save = NULL;
    size_t cap = 0;
    int number = 1;

    for (char *is = strtok_r(now, "\n", &save); is; is = strtok_r(NULL, "\n", &save), number++) {
        ssize_t n = getline(&line, &cap, f);

        if (n > 0)
            line[n - 1] = 0;
        if (n <= 0 || strcmp(line, is) != 0)
            fail_msg("golden/%s.txt:%d\nwas: %s\nis:  %s", name, number, n > 0 ? line : "(no more)",
                     is);
    }
    if (getline(&line, &cap, f) > 0)
        fail_msg("golden/%s.txt:%d\nwas: %s\nis:  (no more)", name, number, line);
    free(line);
}

/* Frees it. */
static void holds(const char *name, struct story *s)
{
    struct buf *text = &s->text;
    char rel[128];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/unit/store/golden/%s.txt", name);
    assert_non_null(buf_cstr(text));
    if (getenv("NIGHTSHIFT_GOLDEN_WRITE")) {
        write_file(test_source_path(rel), text);
    } else {
        f = fopen(test_source_path(rel), "r");
        assert_non_null(f);
        compare(f, name, (char *)text->data);
        fclose(f);
    }
    buf_free(text);
    rows_free(&s->rows);
}

/* ---------------------------------------------------------------------------------- the words */

static void total(struct store *st, int64_t task, uint32_t shards)
{
    struct err e = {0};

    assert_ok(store_task_total(st, task, shards, &e), e);
}

static int64_t stage_id(const struct store_stage *stage)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT stage_id FROM stage WHERE name = '%s' AND model_hash = '%s' AND params = '%s'",
             stage->name, stage->model_hash, stage->params_json);
    return count_of(sql);
}

static void forget(struct store *st, const struct store_stage *stage, const char *path)
{
    apply_ok(st, &(struct request){.type = REQUEST_FORGET,
                                   .stage_id = stage ? stage_id(stage) : 0,
                                   .select_path = path});
}

static void pin(struct store *st, const struct store_stage *stage, const char *path)
{
    apply_ok(st, &(struct request){.type = REQUEST_PIN,
                                   .stage_id = stage ? stage_id(stage) : 0,
                                   .select_path = path});
}

/* The current speaker of a recording with this label. */
static void name(struct store *st, const char *path, int label, const char *who, bool everywhere,
                 bool denied)
{
    char sql[200];

    snprintf(sql, sizeof(sql),
             "SELECT speaker_id FROM speakers WHERE path = '%s' AND label = 'SPEAKER_%02d'", path,
             label);
    apply_ok(st, &(struct request){.type = REQUEST_NAME_SPEAKER,
                                   .speaker_id = count_of(sql),
                                   .speaker_name = who,
                                   .everywhere = everywhere,
                                   .denied = denied});
}

/* A job for the recordings 1 ... n of /a, under a stage; their first task. */
static int64_t ask_for(struct store *st, const struct store_stage *stage, int n)
{
    int64_t job = job_begin(st, stage);
    char path[32], sql[200];

    for (int i = 1; i <= n; i++) {
        snprintf(path, sizeof(path), "/a/%d.wav", i);
        job_add1(st, job, path, "", (uint64_t)i);
    }
    job_end(st, job, NULL);
    snprintf(sql, sizeof(sql), "SELECT min(task_id) FROM task WHERE stage_id = %d",
             (int)stage_id(stage));
    return count_of(sql);
}

/* Three people in the first minute: they change within segments. */
static const struct result_turn first_turns[] = {
    {0, 2000, 0}, {2000, 4050, 1}, {4050, 9600, 2}, {30000, 39000, 0}};
static const struct result_turn second_turns[] = {{0, 2400, 1}, {2450, 31200, 0}};

static void tell_apart(struct store *st, int64_t task, const struct result_turn *spoken, size_t n)
{
    struct err e = {0};

    diarize(st, task);
    assert_ok(store_finalized(st, task, PEOPLE(3, spoken, (uint32_t)n), &e), e);
}

static const struct line talk[] = {
    {0, 5600, "do you want to come yes I will come gladly then let us go", true},
    {8000, 9600, "nobody else says this", true},
    {10000, 12000, "the Lisboa boat is late", false},
};
static const struct line talk_again[] = {
    {0, 5500, "Do you want to come? Yes, I will come gladly. Then let's go.", true},
    {8000, 9600, "Nobody else says this.", true},
    {10000, 12000, "The Lisbon boat is late.", true},
};

/* -------------------------------------------------------------------------------- the stories */

TEST(evenings)
{
    static const struct result_channel channels[] = {
        {1, 1, 3723000, 3724000, true}, {1, 2, 0, 3724000, false}, {2, 0, -1, 59000, false}};
    const float v[] = {0.6f, 0.8f};
    const struct result_tag tags[] = {{"container", "title", "A morning", 0, 0},
                                      {"container", "date", "1987-05-17", 0, 0},
                                      {"chapter", "title", "Ana", 0, 9000},
                                      {"chapter", "title", "", 9000, 20000}};
    const struct store_media_info info = {60000, 44100, 2, "wav", "pcm_s16le", tags, 4, 1, false};
    const uint8_t hash[16] = {1, 2, 3};
    struct store *st = catalog_new();
    struct story story = {.text = BUF_INIT};
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 2);
    job_add1(st, job, "/a/3.zip", "tapes/3.wav", 3);
    job_add1(st, job, "/a/4.wav", "", 4);
    job_end(st, job, "/a");
    shard_put(st, 1, 0, (const char *[]){"one", "two"}, 2);
    shard_put(st, 1, 1, (const char *[]){"three"}, 1);
    total(st, 1, 2);
    assert_ok(
        store_media(st, 1, &info, &(struct store_media_end){60000, hash, "", "", channels, 3}, &e),
        e);
    shard_put(st, 2, 0, (const char *[]){"half of it"}, 1);
    assert_ok(store_media(st, 3, &info,
                          &(struct store_media_end){41000, NULL, "cut short: 19 s are missing",
                                                    "the clock jumps back at 0:12", NULL, 0},
                          &e),
              e);
    assert_ok(store_task_failed(st, 4, ERR_INPUT, "not a recording", -1, &e), e);
    assert_ok(store_event(st, "worker-died", 2, "cpu", "it was killed", &e), e);
    tell(&story, "the first evening");
    /* The second: other models, a file that went, one that is another now. */
    job = job_begin(st, &stage_text);
    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/a/2.wav", "", 20);
    job_add1(st, job, "/b/3.wav", "", 3);
    job_end(st, job, "/a");
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){
                                   .task_id = count_of("SELECT task_id FROM task t JOIN stage s "
                                                       "USING (stage_id) WHERE media_id = 1 AND "
                                                       "s.name = 'embed-text'"),
                                   .end_ms = 60000,
                                   .vectors = &(struct store_vector){0, 3500, "one two", v, 2},
                                   .vector_count = 1,
                                   .shards = 1},
                               &e),
              e);
    job = ask_for(st, &stage_tiny, 1);
    shard_put(st, job, 0, (const char *[]){"One,", "two."}, 2);
    tell(&story, "the second evening");
    shard_put(st, job, 1, NULL, 0);
    total(st, job, 2);
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL, .select_path = "/b"});
    apply_ok(st, &(struct request){.type = REQUEST_RETRY});
    apply_ok(st, &(struct request){.type = REQUEST_DESCRIBE,
                                   .count = 1,
                                   .descriptions = &(struct request_description){
                                       1, &(struct store_said){"place", "Setúbal"}, 1}});
    tell(&story, "the third");
    pin(st, &stage_nano, "/a/1.wav");
    tell(&story, "one is pinned");
    apply_ok(st, &(struct request){.type = REQUEST_CANCEL});
    forget(st, &stage_nano, "/a/2.wav");
    pin(st, NULL, "/a/1.wav");
    forget(st, NULL, NULL);
    tell(&story, "older results are removed");
    holds("evenings", &story);
    catalog_close(st);
}

TEST(corrections)
{
    struct store *st = catalog_new();
    struct story story = {.text = BUF_INIT};
    struct err e = {0};

    hear(st, &stage_nano, nano, 3);
    correct(st, 0, "good evening, my name is Ana Sanchez");
    correct(st, 1, "we came to Setúbal in the winter");
    correct_as(st, "eva", 2, "and that was it", true);
    tell(&story, "corrected");
    hear(st, &stage_tiny, tiny, 3);
    tell(&story, "heard by another model");
    correct(st, 1, "We came to Lisboa, in summer.");
    assert_ok(decide(st, 1, true, &e), e);
    tell(&story, "one is undone");
    forget(st, &stage_tiny, NULL);
    tell(&story, "as the first model had it");
    correct(st, 0, "");
    hear(st, &stage_tiny, tiny, 2);
    tell(&story, "nothing is said");
    holds("corrections", &story);
    catalog_close(st);
}

static void talk_is_heard(struct store *st, int64_t task)
{
    put_lines(st, task, 0, talk, 3);
    put_lines(st, task, 1, &(struct line){301000, 302000, "it is late", true}, 1);
    total(st, task, 2);
}

TEST(told_apart)
{
    struct store *st = catalog_new();
    struct story story = {.text = BUF_INIT};
    int64_t heard = ask_for(st, &stage_nano, 1), told = ask_for(st, &stage_voices, 1), again;

    talk_is_heard(st, heard);
    tell_apart(st, told, first_turns, 4);
    tell(&story, "three people");
    name(st, "/a/1.wav", 0, "Ana", false, false);
    name(st, "/a/1.wav", 2, "Bea", false, false);
    correct(st, 1, "Yes, I shall come gladly");
    correct(st, 0, "do you want to come?");
    tell(&story, "named and corrected");
    again = ask_for(st, &stage_voices2, 1);
    tell_apart(st, again, second_turns, 2);
    tell(&story, "diarized again");
    pin(st, &stage_voices, NULL);
    tell(&story, "the first diarization is pinned");
    hear(st, &stage_tiny, talk_again, 3);
    tell(&story, "another model");
    pin(st, NULL, NULL);
    forget(st, &stage_voices, NULL);
    forget(st, &stage_voices2, NULL);
    tell(&story, "nobody is told apart");
    holds("told_apart", &story);
    catalog_close(st);
}

TEST(channels)
{
    static const struct result_source sources[] = {{"channel 1"}, {"channel 2"}};
    static const struct result_word words[] = {{100, 600, " good", 0.9f}, {600, 900, " day", 0.8f}};
    const struct result_segment s[] = {
        {100, 900, "good day", "en", -0.1f, 0.01f, 1.1f, 0, 1, 0.9f, false, "", words, 2, 1},
        {500, 1500, "bom dia", "pt", -0.4f, 0.02f, 1.2f, 0.2f, 2, 0.8f, false, "low probability",
         NULL, 0, 2},
        {2000, 3000, "thanks for watching", "en", -1.4f, 0.9f, 2.6f, 1, 6, 0.1f, true, "no speech",
         NULL, 0, 1},
        {4000, 6000, "", "", 0, 0, 0, 0, 0, 0.95f, true, RESULT_MISSING, NULL, 0, 2}};
    const struct result_sound sound = {0, 4000, 12, "Speech", 0.875f};
    const struct store_stage sounds = {"sounds", "yamnet", "/models/y", "ff66", "{}", NULL};
    const struct store_heard heard = {sources, 2, "track 2, channel 3", "track 2"};
    struct store *st = catalog_new();
    struct story story = {.text = BUF_INIT};
    struct err e = {0};
    int64_t task = ask_for(st, &stage_nano, 1), told = ask_for(st, &stage_voices, 1), third;

    assert_ok(store_task_heard(st, task, &heard, &e), e);
    assert_ok(store_task_heard(st, told, &heard, &e), e);
    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .end_ms = 30000,
                                                            .language = "en",
                                                            .language_prob = 0.75,
                                                            .windows = 2,
                                                            .segments = s,
                                                            .segment_count = 4,
                                                            .account = {6000, 1000, 2000},
                                                            .shards = 1},
                               &e),
              e);
    tell_apart(st, told, second_turns, 2);
    third = ask_for(st, &sounds, 1);
    assert_ok(store_task_heard(st, third, &heard, &e), e);
    assert_ok(
        store_shard_done(
            st,
            &(struct store_shard_result){
                .task_id = third, .end_ms = 30000, .sounds = &sound, .sound_count = 1, .shards = 1},
            &e),
        e);
    tell(&story, "two microphones");
    correct(st, 1, "bom dia, Ana");
    forget(st, &stage_voices, NULL);
    tell(&story, "corrected, and nobody told apart");
    holds("channels", &story);
    catalog_close(st);
}

static void part_remove(void)
{
    unlink(PART);
    unlink(PART "-wal");
    unlink(PART "-shm");
    unlink(PART ".lock");
}

static struct store *part_open(enum store_mode mode)
{
    struct store *st = NULL;
    struct err e = {0};

    assert_ok(store_open(PART, mode, &st, &e), e);
    return st;
}

/* What the part does to the first recording, which has its transcription and its diarization, and
 * to the second, which fails. */
static void done_elsewhere(void)
{
    struct store *part = part_open(STORE_WRITE);
    struct err e = {0};

    talk_is_heard(part, 1);
    assert_ok(store_task_failed(part, 2, ERR_INPUT, "no audio", -1, &e), e);
    tell_apart(part, 3, first_turns, 4);
    store_close(part);
}

TEST(parts)
{
    const struct parting_share shares[] = {{1, false, 0, 0}, {2, false, 0, 0}};
    const struct parting_part p = {SPLIT, 0, 1, shares, 2};
    struct store *st = catalog_new(), *part;
    struct story story = {.text = BUF_INIT};
    struct parting_merged merged;
    struct err e = {0};
    uint32_t ms;

    assert_int_equal(ask_for(st, &stage_nano, 2), 1);
    assert_int_equal(ask_for(st, &stage_voices, 2), 3);
    assert_ok(store_shard_length(st, 30000, 30000, &ms, &e), e);
    part_remove();
    part = part_open(STORE_WRITE);
    assert_ok(parting_write(st, part, &p, &e), e);
    store_close(part);
    done_elsewhere();
    tell(&story, "a part is out");
    for (int i = 0; i < 2; i++) {
        part = part_open(STORE_READ);
        assert_ok(parting_merge(st, part, &merged, &e), e);
        store_close(part);
        tell(&story, i ? "it comes twice" : "it came back");
    }
    correct(st, 0, "do you want to come?");
    tell(&story, "corrected");
    holds("parts", &story);
    part_remove();
    catalog_close(st);
}

/* The voices of a recording: vectors of length 1 on a circle of these degrees' cosines. */
static void hear_voices(struct store *st, int64_t task, const float values[][2], uint32_t n)
{
    struct result_speaker who[4];
    struct result_turn when[4];
    struct err e = {0};

    for (uint32_t i = 0; i < n; i++) {
        who[i] = (struct result_speaker){9000, values[i]};
        when[i] = (struct result_turn){(int64_t)i * 2000, (int64_t)i * 2000 + 1900, i};
    }
    diarize(st, task);
    assert_ok(store_finalized(st, task, &(struct result_people){2, n, n, who, when}, &e), e);
}

TEST(people)
{
    static const float a[][2] = {{1, 0}, {0, 1}}, b[][2] = {{0.96f, 0.28f}, {-1, 0}},
                       c[][2] = {{0.8f, 0.6f}, {0.28f, 0.96f}};
    struct store *st = catalog_new();
    struct story story = {.text = BUF_INIT};
    int64_t heard = ask_for(st, &stage_nano, 3), told = ask_for(st, &stage_voices, 3);

    for (int i = 0; i < 3; i++)
        transcribe(st, heard + i);
    hear_voices(st, told, a, 2);
    hear_voices(st, told + 1, b, 2);
    name(st, "/a/1.wav", 0, "Ana", true, false);
    name(st, "/a/1.wav", 1, "Bea", false, false);
    tell(&story, "two recordings");
    hear_voices(st, told + 2, c, 2);
    name(st, "/a/2.wav", 0, "ana", true, false);
    name(st, "/a/3.wav", 1, "Bea", true, false);
    tell(&story, "three");
    name(st, "/a/3.wav", 0, "Ana", false, true);
    name(st, "/a/1.wav", 1, "Bea", true, false);
    told = ask_for(st, &stage_voices2, 1);
    hear_voices(st, told, c, 2);
    tell(&story, "the first is diarized again");
    name(st, "/a/2.wav", 0, "", false, false);
    forget(st, &stage_voices, "/a/3.wav");
    tell(&story, "names and results go");
    holds("people", &story);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
