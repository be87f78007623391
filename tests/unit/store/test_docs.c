/* Every page below docs/: each query runs in the real sqlite3 and answers something (those of
 * docs/start ask the demo's catalog: tests/e2e/test_reading.py).
 * docs/reference/catalog-tables.md: every table, view and column of the schema is described, and no
 * other. */
#include <ctype.h>
#include <ftw.h>
#include <sys/wait.h>

#include "store/tuning.h"
#include "tests/unit/store/fixture.h"

#define MAY_BE_EMPTY "<!-- may be empty -->"
#define WITH_VEC "<!-- sqlite-vec -->" /* asked in tests/unit/tools/test_vec.py */

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(text);
    if (!f)
        print_error("cannot open %s\n", path);
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* Speech is where a text is, was, or is missing. */
static struct result_account account_of(const struct result_segment *s, size_t n)
{
    struct result_account a = {0};

    for (size_t i = 0; i < n; i++) {
        const int64_t ms = s[i].end_ms - s[i].start_ms;

        a.speech_ms += ms;
        a.dropped_ms += s[i].dropped && s[i].text[0] ? ms : 0;
        a.missing_ms += s[i].text[0] ? 0 : ms;
    }
    return a;
}

static void put(struct store *st, int64_t task, uint32_t seq, const char *language,
                const struct result_segment *s, size_t n)
{
    struct err e = {0};

    assert_ok(store_shard_done(st,
                               &(struct store_shard_result){.task_id = task,
                                                            .seq = seq,
                                                            .start_ms = seq * 30000,
                                                            .end_ms = seq * 30000 + 30000,
                                                            .language = language,
                                                            .language_prob = 0.9,
                                                            .windows = 1,
                                                            .wall_ms = 900,
                                                            .device = "cpu",
                                                            .segments = s,
                                                            .segment_count = n,
                                                            .account = account_of(s, n)},
                               &e),
              e);
}

static void fill_speakers(struct store *st)
{
    static const struct store_stage diarize = {"diarize", "pyannote", "/p", "dd", "{}", NULL};
    static const float voices[][4] = {{0.6f, 0.8f, 0, 0}, {0, 0.8f, 0.6f, 0}};
    static const struct result_speaker speakers[] = {{3400, voices[0]}, {5600, voices[1]}};
    static const struct result_turn turns[] = {{0, 3400, 0}, {3300, 8900, 1}};
    const struct result_people people = {4, 2, 2, speakers, turns};
    struct err e = {0};
    int64_t job = job_begin(st, &diarize), task;

    job_add1(st, job, "/archive/1990/interview.wav", "", 1);
    task = count_of("SELECT max(task_id) FROM task");
    put(st, task, 0, "", NULL, 0);
    assert_ok(store_task_total(st, task, 1, &e), e);
    assert_ok(store_finalized(st, task, &people, &e), e);
    apply_ok(st, &(struct request){
                     .type = REQUEST_NAME_SPEAKER, .speaker_id = 2, .speaker_name = "Ana"});
}

/* Sounds and passages of the first recording. */
static void fill_sounds(struct store *st)
{
    static const struct store_stage sounds = {"sounds", "yamnet", "/y", "ff", "{}", NULL};
    static const struct store_stage text = {"embed-text", "e5", "/e5", "ee", "{}", &stage_nano};
    static const struct result_sound heard[] = {{0, 9000, 0, "Speech", 0.98},
                                                {9100, 12000, 67, "Applause", 0.87}};
    static const float values[][4] = {{0.6f, 0.8f, 0, 0}, {0, 0.6f, 0.8f, 0}};
    static const struct store_vector passages[] = {
        {0, 6000, "Good morning. We met at the market square.", values[0], 4},
        {6000, 9000, "It was raining.", values[1], 4}};
    struct store_shard_result r = {.end_ms = 30000, .sounds = heard, .sound_count = 2};
    struct err e = {0};
    int64_t job = job_begin(st, &sounds);

    job_add1(st, job, "/archive/1990/interview.wav", "", 1);
    r.task_id = count_of("SELECT max(task_id) FROM task");
    assert_ok(store_shard_done(st, &r, &e), e);
    assert_ok(store_task_total(st, r.task_id, 1, &e), e);
    job = job_begin(st, &text);
    job_add1(st, job, "/archive/1990/interview.wav", "", 1);
    r = (struct store_shard_result){
        .task_id = r.task_id + 1, .end_ms = 30000, .vectors = passages, .vector_count = 2};
    assert_ok(store_shard_done(st, &r, &e), e);
    assert_ok(store_task_total(st, r.task_id, 1, &e), e);
}

/* An archive in which everything that the queries ask for has happened. */
static void fill(void)
{
    static const struct result_word met[] = {
        {2500, 2900, " We", 0.98},  {2900, 3400, " met", 0.9},     {3400, 4000, " at", 0.97},
        {4000, 4200, " the", 0.99}, {4200, 4900, " market", 0.55}, {4900, 6000, " square.", 0.8}};
    static const struct result_segment interview[] = {
        {0, 2500, "Good morning.", "en", -0.2, 0.01, 1.1, 0, 1, 0.98, false, NULL, NULL, 0, 0},
        {2500, 6000, "We met at the market square.", "en", -0.3, 0.02, 1.2, 0, 1, 0.97,
         .words = met, .word_count = 6},
        {6000, 9000, "It was raining.", "en", -1.3, 0.1, 1.0, 0.4, 3, 0.8,
         .reason = "tried again: unlikely; too unlikely"},
        {9000, 29000, "Thanks for watching!", "en", -0.9, 0.7, 0.8, 0, 1, 0.03, .dropped = true,
         .reason = "no speech; no voice; silence phrase"},
        {29000, 29800, "", "en", 0, 0, 0, 0, 1, 0.9, .dropped = true, .reason = RESULT_MISSING}};
    static const struct result_segment spanish[] = {
        {0, 4000, "El puerto estaba lleno.", "es", -0.4, 0.02, 1.2, 0, 1, -1, false, NULL, NULL, 0,
         0},
        {4000, 7000, "the harbour", "en", -0.5, 0.02, 1.2, 0, 1, -1, false, NULL, NULL, 0, 0}};
    static const struct result_tag tags[] = {{"container", "title", "A title", 0, 0},
                                             {"container", "artist", "Radio Norte", 0, 0},
                                             {"bext", "origination_date", "1990-05-17", 0, 0},
                                             {"chapter", "title", "Harbour", 0, 12000}};
    static const struct result_channel channels[] = {
        {1, 1, 21000, 30000, true}, {1, 2, 4000, 30000, false}, {2, 0, -1, 29000, false}};
    struct store *st = catalog_new();
    uint8_t hash[16] = {0xAB};
    struct err e = {0};
    int64_t job = job_begin(st, &stage_nano);
    struct request_trouble t = {"/archive/x.7z", 13, "", 0, 0, ERR_INPUT, "not an archive"};

    job_add1(st, job, "/archive/1990/interview.wav", "", 1);
    job_add1(st, job, "/archive/1990/copy.wav", "", 1);
    job_add1(st, job, "/archive/1991/puerto.zip", "b/radio.mp3", 2);
    job_add1(st, job, "/archive/1991/silence.flac", "", 3);
    job_add1(st, job, "/archive/1991/notes.mp3", "", 4);
    job_add1(st, job, "/archive/1992/gone.wav", "", 5);
    job_add1(st, job, "/archive/1992/later.wav", "", 6);
    job_add1(st, job, "/archive/1992/silent-film.mp4", "", 7);
    apply_ok(st, &(struct request){
                     .type = REQUEST_ENQUEUE_TROUBLE, .job_id = job, .troubles = &t, .count = 1});
    job_end(st, job, "/archive");
    job = job_begin(st, &stage_nano);
    job_end(st, job, "/archive/1992/gone.wav");
    put(st, 1, 0, "en", interview, 5);
    put(st, 2, 0, "es", spanish, 2);
    put(st, 3, 0, "", NULL, 0);
    for (int64_t id = 1; id <= 3; id++) {
        assert_ok(store_media(st, id,
                              &(struct store_media_info){29000 + id, 44100, 2, "wav", "pcm_s16le",
                                                         tags, 4, 1, false},
                              NULL, &e),
                  e);
        hash[1] = (uint8_t)id;
        assert_ok(store_media(st, id, NULL,
                              &(struct store_media_end){30000, hash, id == 2 ? "cut off" : "", NULL,
                                                        channels, 3},
                              &e),
                  e);
        assert_ok(store_task_total(st, id, 1, &e), e);
    }
    put(st, 7, 0, "", NULL, 0);
    assert_ok(store_media(
                  st, 7,
                  &(struct store_media_info){60000, 0, 0, "mp4", "", NULL, 0, 0, .no_sound = true},
                  NULL, &e),
              e);
    assert_ok(store_task_total(st, 7, 1, &e), e);
    assert_ok(store_task_failed(st, 4, ERR_INPUT, "no audio in it", -1, &e), e);
    assert_ok(store_event(st, "run-start", 0, "cpu", "one worker", &e), e);
    assert_ok(store_event(st, "quarantined", 4, NULL, "no audio in it", &e), e);
    assert_ok(
        store_tuning_note(
            st, &(struct store_tuning_key){"GPU-8f3c", "580.95 (CUDA 13.0)", "aa", "fp16", ""},
            &(struct store_tuning){64, 16, 800, (uint64_t)9 << 30, (uint64_t)8 << 30, 0, NULL, 0},
            &e),
        e);
    fill_speakers(st);
    fill_sounds(st);
    assert_int_equal(apply_ok(st, &(struct request){.type = REQUEST_CORRECT,
                                                    .corrections =
                                                        &(struct request_correction){
                                                            1, "Good morning.",
                                                            "Good morning, Ana.", false, NULL},
                                                    .count = 1,
                                                    .made_by = "ana",
                                                    .source = "at 0:00"})
                         .affected,
                     1);
    catalog_close(st);
}

/* Runs text in `sqlite3`; *output is what it wrote on both of its outputs. Returns its exit status.
 */
static int shell(const char *sql, size_t len, char **output)
{
    FILE *f = fopen("block.sql", "w");
    int status;

    assert_non_null(f);
    assert_int_equal(fwrite(sql, 1, len, f), len);
    fclose(f);
    status = system("sqlite3 -readonly -bail " CATALOG " < block.sql > block.out 2> block.err");
    f = fopen("block.err", "a+");
    assert_non_null(f);
    fclose(f);
    *output = calloc(1, 1 << 20);
    assert_non_null(*output);
    f = fopen("block.err", "r");
    size_t n = fread(*output, 1, (1 << 20) - 1, f);
    fclose(f);
    if (n) /* what is said on stderr is an error, whatever the status */
        return 1;
    f = fopen("block.out", "r");
    n = fread(*output, 1, (1 << 20) - 1, f);
    fclose(f);
    (*output)[n] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static bool blank(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return !*s;
}

/* Does the line before a block say so? */
static bool marked(const char *doc, const char *block, const char *mark)
{
    size_t n = strlen(mark) + 1;

    return (size_t)(block - doc) >= n && memcmp(block - n, mark, n - 1) == 0;
}

/* Of the pages that were asked so far: their queries, and those that fail or answer nothing. */
static int blocks, bad;

#define NEXT "\001" /* in what a block answers: behind each of its statements */

/* The block, and behind each line that ends a statement the shell's command that prints NEXT. */
static char *with_marks(const char *block, size_t len)
{
    char *ret = calloc(1, 64 * len + 1), *to = ret;

    assert_non_null(ret);
    for (size_t i = 0; i < len; i++) {
        *to++ = block[i];
        if (block[i] == '\n' && i && block[i - 1] == ';')
            to = stpcpy(to, ".print '" NEXT "'\n");
    }
    return ret;
}

/* Does each statement of the block that asks something have an answer? */
static bool all_answered(const char *marked, char *out)
{
    char *end;

    for (; (end = strstr(out, NEXT)); out = end + 1) {
        const bool asks = strncmp(marked, "SELECT", 6) == 0 || strncmp(marked, "WITH", 4) == 0 ||
                          *marked == '.'; /* settings of the shell, and a question */

        *end = 0;
        if (asks && blank(out))
            return false;
        marked = strstr(marked, NEXT);
        marked += strcspn(marked, "\n") + 1;
    }
    return !*marked;
}

static void ask_all_of(const char *page)
{
    char *doc = read_all(page), *p = doc, *out, *end;

    for (; (p = strstr(p, "```sql\n")); p = end) {
        char *body = p + strlen("```sql\n"), *sql;
        bool may_be_empty = marked(doc, p, MAY_BE_EMPTY);
        int rc;

        end = strstr(body, "\n```");
        assert_non_null(end);
        if (marked(doc, p, WITH_VEC))
            continue;
        sql = with_marks(body, (size_t)(end - body) + 1);
        rc = shell(sql, strlen(sql), &out);
        blocks++;
        if (rc != 0 || (!may_be_empty && !all_answered(sql, out))) {
            print_error("%s: %.*s\n-> status %d: %s\n", page, (int)(end - body), body, rc,
                        *out ? out : "(nothing)");
            bad++;
        }
        free(out);
        free(sql);
    }
    free(doc);
}

static int ask_page(const char *path, const struct stat *st, int type, struct FTW *at)
{
    const char *dot = strrchr(path, '.');

    (void)st;
    (void)at;
    if (type == FTW_F && dot && strcmp(dot, ".md") == 0 && !strstr(path, "/docs/start/"))
        ask_all_of(path);
    return 0;
}

TEST(every_query_answers)
{
    if (system("command -v sqlite3 > /dev/null") != 0) {
        print_message("skipped: there is no sqlite3 program\n");
        exit(TEST_SKIPPED);
    }
    fill();
    assert_int_equal(nftw(test_source_path("docs"), ask_page, 8, FTW_PHYS), 0);
    assert_true(blocks >= 50);
    assert_int_equal(bad, 0);
}

#define COLUMNS_PAGE "docs/reference/catalog-tables.md"

/* The next name of a list "- `a`, `b`: ..." at *p, which is moved on; *len 0: the list is over. */
static const char *next_name(const char **p, size_t *len)
{
    const char *name = *p + 1, *end = strpbrk(name, "`\n");

    *len = 0;
    if (**p != '`' || !end || *end != '`')
        return NULL;
    *len = (size_t)(end - name);
    *p = end + (strncmp(end, "`, `", 4) == 0 ? 3 : 1);
    return name;
}

/* The section "### `name`"; NULL: there is none. *end: the next heading. */
static const char *section(const char *doc, const char *name, const char **end)
{
    char heading[128];
    const char *from;

    snprintf(heading, sizeof(heading), "\n### `%s`\n", name);
    from = strstr(doc, heading);
    if (!from)
        return NULL;
    from += strlen(heading);
    *end = strstr(from, "\n##");
    if (!*end)
        *end = strchr(from, 0);
    return from;
}

/* Whether the section of a table or view has the column. A view with the results of every stage has
 * the columns of the one without `_all`, and one that is described for all of them. */
static bool section_has(const char *doc, const char *name, const char *column)
{
    const char *all = strstr(name, "_all"), *end, *at, *p, *found;
    char one[64];
    size_t len;

    snprintf(one, sizeof(one), "%.*s", (int)(all ? all - name : (int)strlen(name)), name);
    at = section(doc, all && strcmp(column, "current") == 0 ? all : one, &end);
    for (; at && (at = strstr(at, "\n- `")) && at < end; at++)
        for (p = at + 3; (found = next_name(&p, &len));)
            if (strlen(column) == len && memcmp(found, column, len) == 0)
                return true;
    return false;
}

/* How many columns the page describes; *gone: those that no table or view has any more. */
static int described(sqlite3 *db, const char *doc, int *gone)
{
    const char *heading = doc, *end, *at, *p, *column;
    sqlite3_stmt *stmt;
    size_t of, len;
    int n = 0;

    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT 1 FROM pragma_table_info(iif(?1 = '_all', "
                                        "'transcript_all', ?1)) WHERE name = ?2",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    while ((heading = strstr(heading, "\n### `"))) {
        heading += strlen("\n### `");
        of = strcspn(heading, "`");
        end = strstr(heading, "\n##");
        for (at = heading; (at = strstr(at, "\n- `")) && (!end || at < end); at++)
            for (p = at + 3; (column = next_name(&p, &len)); n++) {
                sqlite3_bind_text(stmt, 1, heading, (int)of, SQLITE_STATIC);
                sqlite3_bind_text(stmt, 2, column, (int)len, SQLITE_STATIC);
                if (sqlite3_step(stmt) != SQLITE_ROW) {
                    print_error(COLUMNS_PAGE ": there is no %.*s.%.*s\n", (int)of, heading,
                                (int)len, column);
                    ++*gone;
                }
                sqlite3_reset(stmt);
            }
    }
    sqlite3_finalize(stmt);
    return n;
}

TEST(every_column_is_described)
{
    char *doc = read_all(test_source_path(COLUMNS_PAGE));
    sqlite3 *db;
    sqlite3_stmt *stmt;
    int columns = 0, missing = 0, gone = 0;

    store_close(catalog_new());
    assert_int_equal(sqlite3_open_v2(CATALOG, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(
                         db,
                         "SELECT s.name, c.name FROM sqlite_schema s, pragma_table_info(s.name) c "
                         "WHERE s.type IN ('table', 'view') AND s.name NOT LIKE 'sqlite%' "
                         "AND s.name NOT LIKE 'segment_fts_%'",
                         -1, &stmt, NULL),
                     SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *column = (const char *)sqlite3_column_text(stmt, 1);

        columns++;
        if (!section_has(doc, name, column)) {
            print_error(COLUMNS_PAGE " does not describe %s.%s\n", name, column);
            missing++;
        }
    }
    sqlite3_finalize(stmt);
    assert_true(columns > 100);
    assert_int_equal(missing, 0);
    assert_true(described(db, doc, &gone) > 100);
    assert_int_equal(gone, 0);
    sqlite3_close(db);
    free(doc);
}

TEST(the_check_of_columns_can_fail)
{
    const char *doc =
        "\n### `a`\n\n- `b`, `c`: both `d`\n- `current`: x\n\n### `_all`\n\n- `current`: y\n";
    sqlite3 *db;
    int gone = 0;

    assert_true(section_has(doc, "a", "b") && section_has(doc, "a", "c") &&
                section_has(doc, "a_all", "c"));
    assert_true(section_has(doc, "a_all", "current"));
    assert_false(section_has(doc, "a", "d") || section_has(doc, "a", "y") ||
                 section_has(doc, "b", "b"));
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "CREATE TABLE a (b); CREATE VIEW transcript_all AS SELECT 1 AS current",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(described(db, doc, &gone), 4);
    assert_int_equal(gone, 2); /* c, and a's current */
    sqlite3_close(db);
}

TEST_MAIN(NULL, NULL)
