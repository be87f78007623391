/* Vectors most like one: the index against all of them one by one in double precision, and an index
 * that lies. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/read/find.h"
#include "store/vectors/vector_file.h"
#include "store/vectors/vector_scan.h"
#include "store/vectors/vectors.h"
#include "tests/common/files.h"
#include "tests/unit/store/fixture.h"

#define SIZE 48u
#define ROWS 2500u /* two blocks and a half */
#define NEAR 20u

static const struct store_stage stage_text = {"embed-text", "e5",        "/models/e5",
                                              "ee55",       "{\"a\":1}", &stage_nano};

/* Speech makes clusters: a few directions, and something beside each. */
static void vector_of(unsigned seed, float *ret, uint32_t size)
{
    unsigned far = seed % 7 + 100, near = seed + 1000;
    double all = 0;

    for (uint32_t i = 0; i < size; i++) {
        ret[i] = (float)(rand_r(&far) % 2001 - 1000) + 0.4f * (float)(rand_r(&near) % 2001 - 1000);
        all += (double)ret[i] * ret[i];
    }
    for (uint32_t i = 0; i < size; i++)
        ret[i] = (float)(ret[i] / sqrt(all));
}

/* Adds rows seeded first .. first + n - 1 to a task, as one shard. */
static void add_rows(struct store *st, int64_t task, uint32_t seq, unsigned first, uint32_t n)
{
    struct store_vector *v = calloc(n, sizeof(*v));
    float *values = calloc((size_t)n * SIZE, sizeof(*values));
    struct err e = {0};

    assert_true(v && values);
    for (uint32_t i = 0; i < n; i++) {
        vector_of(first + i, values + (size_t)i * SIZE, SIZE);
        v[i] =
            (struct store_vector){i * 1000, i * 1000 + 900, "x", values + (size_t)i * SIZE, SIZE};
    }
    assert_ok(store_shard_done(
                  st,
                  &(struct store_shard_result){
                      .task_id = task, .seq = seq, .end_ms = 1000, .vectors = v, .vector_count = n},
                  &e),
              e);
    free(v);
    free(values);
}

/* Recordings /a/1.wav (tasks 1 and 2) and /b/2.wav (3 and 4); filled: 2 and 4 have vectors. */
static struct store *transcribed(void)
{
    struct store *st;
    struct err e = {0};
    int64_t job;

    catalog_remove(); /* not a copy: each is a catalog of its own to the files of vectors */
    st = catalog_open(STORE_WRITE);
    job = job_begin(st, &stage_text);

    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/b/2.wav", "", 2);
    for (int64_t source = 1; source <= 3; source += 2) {
        shard_put(st, source, 0, NULL, 0);
        assert_ok(store_task_total(st, source, 1, &e), e);
    }
    return st;
}

static struct store *filled(void)
{
    struct store *st = transcribed();

    unlink(CATALOG ".vectors-2");
    rmdir(CATALOG ".vectors-2");
    add_rows(st, 2, 0, 0, ROWS - 100);
    add_rows(st, 4, 0, ROWS - 100, 100);
    return st;
}

static struct vectors_query query_of(const float *values)
{
    return (struct vectors_query){.stage_id = 2, .values = values, .size = SIZE, .limit = NEAR};
}

/* By the definition: all rows of the catalog, in double precision, sorted. */
static void expect(const struct vectors_query *q, const char *where, struct vectors_hit *ret,
                   size_t *n)
{
    sqlite3_stmt *stmt = NULL;
    char sql[1400];

    *n = 0;
    snprintf(sql, sizeof(sql),
             "SELECT embedding_id, vector FROM embedding JOIN task t USING (task_id) WHERE %s",
             where);
    own_open();
    assert_int_equal(sqlite3_prepare_v2(own_db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        struct vectors_hit hit = {sqlite3_column_int64(stmt, 0), 0};
        double xx = 0, yy = 0;
        float row[SIZE];
        size_t at;

        if (sqlite3_column_bytes(stmt, 1) != (int)sizeof(row))
            continue;
        memcpy(row, sqlite3_column_blob(stmt, 1), sizeof(row));
        for (uint32_t i = 0; i < SIZE; i++) {
            hit.cosine += (double)row[i] * q->values[i];
            xx += (double)row[i] * row[i];
            yy += (double)q->values[i] * q->values[i];
        }
        hit.cosine /= sqrt(xx * yy);
        for (at = *n; at && ret[at - 1].cosine < hit.cosine; at--)
            if (at < q->limit)
                ret[at] = ret[at - 1];
        if (at < q->limit)
            ret[at] = hit;
        *n += *n < q->limit;
    }
    sqlite3_finalize(stmt);
    own_close();
}

/* As the definition has it; differences in the last digits of a float may swap neighbours. */
static void check(struct store *st, const struct vectors_query *q, const char *where)
{
    struct vectors_hit want[NEAR], *got = NULL;
    struct err e = {0};
    size_t n = 0, m = 0;

    expect(q, where, want, &n);
    assert_ok(vectors_search(st, q, &got, &m, &e), e);
    assert_int_equal(m, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(fabs(got[i].cosine - want[i].cosine) < 1e-6);
        if ((i == 0 || want[i - 1].cosine - want[i].cosine > 1e-6) &&
            (i + 1 == n || want[i].cosine - want[i + 1].cosine > 1e-6) && i + 1 < n)
            assert_int_equal(got[i].embedding_id, want[i].embedding_id);
    }
    free(got);
}

static ino_t index_inode(void)
{
    struct stat info = {0};

    return stat(CATALOG ".vectors-2", &info) == 0 ? info.st_ino : 0;
}

TEST(as_one_by_one)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];
    ino_t first;

    for (unsigned seed = 0; seed < 40; seed++) {
        vector_of(seed * 61 + 5000, values, SIZE);
        if (seed % 3 == 0) /* one that lies between the clusters, and is not of length 1 */
            for (uint32_t i = 0; i < SIZE; i++)
                values[i] = (float)((int)(seed * 31 + i * 17) % 101 - 50);
        q = query_of(values);
        check(st, &q, "t.stage_id = 2");
        if (seed == 0)
            first = index_inode();
        q.no_file = true;
        check(st, &q, "t.stage_id = 2");
    }
    assert_true(first != 0 && index_inode() == first); /* made once */
    q.no_file = false;
    q.scope.path = "/b";
    check(st, &q, "t.task_id = 4");
    q.scope.path = "/c";
    check(st, &q, "0");
    catalog_close(st);
}

TEST(it_follows_the_catalog)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];
    ino_t first;
    sqlite3 *db;

    vector_of(77, values, SIZE);
    q = query_of(values);
    check(st, &q, "t.stage_id = 2");
    first = index_inode();
    add_rows(st, 4, 1, 70, 14); /* the query itself among them */
    check(st, &q, "t.stage_id = 2");
    assert_int_equal(index_inode(), first);
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "DELETE FROM embedding WHERE embedding_id % 3 = 0;"
                     "INSERT INTO setting (name, value) VALUES ('embedding_edits', '1')",
                     NULL, NULL, NULL),
        SQLITE_OK);
    check(st, &q, "t.stage_id = 2");
    assert_int_not_equal(index_inode(), first);
    first = index_inode();
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE embedding SET vector = zeroblob(192) "
                                  "WHERE embedding_id = 77 + 1;"
                                  "UPDATE setting SET value = 2 WHERE name = 'embedding_edits'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE embedding SET vector = x'0000C07F' WHERE embedding_id = 100", NULL,
                     NULL, NULL),
        SQLITE_OK);
    q.no_file = true;
    struct vectors_hit *hits = NULL;
    struct err e = {0};
    size_t n = 0;
    for (int i = 0; i < 2; i++) {
        q.no_file = i == 0;
        assert_ok(vectors_search(st, &q, &hits, &n, &e), e);
        assert_int_equal(n, NEAR);
        for (size_t k = 0; k < n; k++)
            assert_true(hits[k].embedding_id != 78 && hits[k].embedding_id != 100);
        free(hits);
    }
    assert_int_not_equal(index_inode(), first);
    sqlite3_close(db);
    catalog_close(st);
}

static void flip(long at, int from_end)
{
    FILE *f = fopen(CATALOG ".vectors-2", "r+");
    int c;

    assert_non_null(f);
    fseek(f, at, from_end ? SEEK_END : SEEK_SET);
    c = fgetc(f);
    fseek(f, at, from_end ? SEEK_END : SEEK_SET);
    fputc(c ^ 0x41, f);
    fclose(f);
}

/* Whatever lies there in the index's place, the answer is the same, and the index is good after. */
TEST(an_index_that_lies)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];
    struct stat info;
    ino_t before;

    vector_of(77, values, SIZE);
    q = query_of(values);
    for (int how = 0; how < 11; how++) {
        check(st, &q, "t.stage_id = 2");
        before = index_inode();
        assert_int_equal(stat(CATALOG ".vectors-2", &info), 0);
        if (how < 5) /* head, its sum, blocks */
            flip((long[]){3, 20, 4090, 5000, 200000}[how], 0);
        else if (how == 5)
            flip(-1, 1);
        else if (how == 6)
            assert_int_equal(truncate(CATALOG ".vectors-2", info.st_size - 1), 0);
        else if (how == 7)
            assert_int_equal(truncate(CATALOG ".vectors-2", 0), 0);
        else if (how == 8)
            assert_int_equal(truncate(CATALOG ".vectors-2", info.st_size + 4096), 0);
        else if (how == 9)
            assert_int_equal(truncate(CATALOG ".vectors-2", 100), 0);
        else
            unlink(CATALOG ".vectors-2");
        check(st, &q, "t.stage_id = 2");
        if (how != 10)
            assert_int_not_equal(index_inode(), before);
    }
    /* What is in the way cannot be replaced: without an index, then. */
    unlink(CATALOG ".vectors-2");
    assert_int_equal(mkdir(CATALOG ".vectors-2", 0777), 0);
    check(st, &q, "t.stage_id = 2");
    rmdir(CATALOG ".vectors-2");
    assert_int_equal(mkfifo(CATALOG ".vectors-2", 0666), 0);
    check(st, &q, "t.stage_id = 2");
    catalog_close(st);
}

/* The index of one catalog beside another one of its name, and of another stage. */
TEST(another_catalogs_index)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];

    vector_of(77, values, SIZE);
    q = query_of(values);
    check(st, &q, "t.stage_id = 2");
    store_close(st);
    assert_int_equal(rename(CATALOG ".vectors-2", "kept"), 0);
    st = filled();
    assert_int_equal(rename("kept", CATALOG ".vectors-2"), 0);
    ino_t before = index_inode();
    check(st, &q, "t.stage_id = 2");
    assert_int_not_equal(index_inode(), before);
    assert_int_equal(rename(CATALOG ".vectors-2", CATALOG ".vectors-1"), 0);
    q.stage_id = 1;
    check(st, &q, "t.stage_id = 1");
    unlink(CATALOG ".vectors-1");
    catalog_close(st);
}

/* A catalog that was put back to what it was, and went on, gives numbers to other vectors. */
TEST(a_catalog_that_was_put_back)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];
    ino_t before;

    store_close(st);
    file_copy(CATALOG, "kept");
    st = catalog_open(STORE_WRITE);
    add_rows(st, 4, 1, 9000, 14);
    vector_of(5003, values, SIZE);
    q = query_of(values);
    check(st, &q, "t.stage_id = 2");
    before = index_inode();
    store_close(st);
    file_copy("kept", CATALOG);
    st = catalog_open(STORE_WRITE);
    add_rows(st, 4, 1, 5000, 14);
    check(st, &q, "t.stage_id = 2");
    assert_int_not_equal(index_inode(), before);
    catalog_close(st);
}

/* Who may read the catalog may read the index; what a killed process left is used up. */
TEST(who_makes_it)
{
    struct store *st = filled();
    struct vectors_query q;
    float values[SIZE];
    struct stat info;
    int fd;

    vector_of(77, values, SIZE);
    q = query_of(values);
    assert_int_equal(chmod(CATALOG, 0664), 0);
    file_copy(CATALOG, "other");
    assert_int_equal(link("other", CATALOG ".vectors-2.new"),
                     0); /* what has it, too, is not ours */
    check(st, &q, "t.stage_id = 2");
    assert_int_equal(stat("other", &info), 0);
    assert_int_equal(info.st_nlink, 1);
    unlink("other");
    assert_int_equal(stat(CATALOG ".vectors-2", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0664);
    assert_int_equal(access(CATALOG ".vectors-2.new", F_OK), -1);
    /* Somebody else is at it: without an index, then, and theirs is left alone. */
    unlink(CATALOG ".vectors-2");
    fd = open(CATALOG ".vectors-2.new", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    check(st, &q, "t.stage_id = 2");
    assert_int_equal(index_inode(), 0);
    assert_int_equal(access(CATALOG ".vectors-2.new", F_OK), 0);
    close(fd);
    check(st, &q, "t.stage_id = 2");
    assert_int_not_equal(index_inode(), 0);
    assert_int_equal(access(CATALOG ".vectors-2.new", F_OK), -1);
    /* So is what is no file at all. */
    unlink(CATALOG ".vectors-2");
    assert_int_equal(mkfifo(CATALOG ".vectors-2.new", 0600), 0);
    check(st, &q, "t.stage_id = 2");
    assert_int_equal(index_inode(), 0);
    assert_int_equal(unlink(CATALOG ".vectors-2.new"), 0);
    catalog_close(st);
}

/* ------------------------------------------------------------------------------------ scopes */

#define MANY \
    36u /* recordings; the last three are long, and together more than is read one by one */
#define LONG_ROWS 3600u

/* Recording k of MANY has the tasks 2 k - 1 (its text) and 2 k (its vectors). */
static void add_recording(struct store *st, int64_t job, unsigned k)
{
    static const char *const texts[] = {"one", "two", "three"};
    struct err e = {0};
    char path[32];

    snprintf(path, sizeof(path),
             k > MANY - 3 ? "/long/%u.wav"
             : k % 4      ? "/a/%u.wav"
                          : "/a-b/%u.wav",
             k);
    job_add1(st, job, path, "", k);
    shard_put(st, 2 * k - 1, 0, texts, 3);
    assert_ok(store_task_total(st, 2 * k - 1, 1, &e), e);
}

/* Everybody has a SPEAKER_00, some more voices and names; some say something in another language.
 */
static void who_says_what(void)
{
    sqlite3 *db;
    char *why = NULL;

    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    sqlite3_exec(
        db,
        "BEGIN;"
        "INSERT INTO speaker (task_id, media_id, label, speech_ms) "
        "SELECT task_id, media_id, 'SPEAKER_00', 1 FROM task WHERE stage_id = 1;"
        "INSERT INTO speaker (task_id, media_id, label, speech_ms) "
        "SELECT task_id, media_id, 'SPEAKER_01', 1 FROM task WHERE stage_id = 1 "
        "AND media_id % 3 = 0;"
        "INSERT INTO speaker (task_id, media_id, label, speech_ms) "
        "SELECT task_id, media_id, 'SPEAKER_02', 1 FROM task WHERE stage_id = 1 "
        "AND (media_id % 2 = 0 OR media_id > 33);"
        "UPDATE speaker SET name = 'Ana' WHERE media_id IN (4, 9) AND label = 'SPEAKER_00';"
        "UPDATE speaker SET name = 'ANA' WHERE media_id = 35;"
        "UPDATE speaker SET name = 'Speaker_01' WHERE media_id = 5;"
        "UPDATE segment SET language = 'es' WHERE task_id % 14 = 1 AND idx = 2;"
        "UPDATE segment SET language = 'de' WHERE task_id IN (7, 69) AND idx = 1;"
        "COMMIT",
        NULL, NULL, &why);
    assert_null(why);
    sqlite3_close(db);
}

/* Shards of all recordings are committed in turn, so that their numbers lie between each other. */
static struct store *peopled(void)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_text);
    unsigned seed = 0;

    unlink(CATALOG ".vectors-2");
    for (unsigned k = 1; k <= MANY; k++)
        add_recording(st, job, k);
    for (uint32_t seq = 0; seq < 2; seq++)
        for (unsigned k = 1; k <= MANY; k++) {
            uint32_t n = k > MANY - 3 ? LONG_ROWS : k % 5 == 0 ? 0 : 1 + k % 9;

            add_rows(st, 2 * k, seq, seed, n);
            seed += n;
        }
    who_says_what();
    return st;
}

static size_t put_where(char *to, size_t room, const struct scope *s)
{
    const char *path = s->path && strcmp(s->path, "/") == 0 ? "" : s->path;
    size_t n = (size_t)snprintf(to, room, "t.stage_id = 2");

    if (s->path)
        n += (size_t)snprintf(to + n, room - n,
                              " AND t.media_id IN (SELECT media_id FROM place WHERE path = '%s' "
                              "OR substr(path, 1, length('%s') + 1) = '%s/')",
                              path, path, path);
    if (s->speaker)
        n += (size_t)snprintf(to + n, room - n,
                              " AND EXISTS (SELECT 1 FROM speaker k WHERE k.media_id = t.media_id "
                              "AND (lower(label) = lower('%s') OR lower(name) = lower('%s')))",
                              s->speaker, s->speaker);
    if (s->language)
        n += (size_t)snprintf(to + n, room - n,
                              " AND EXISTS (SELECT 1 FROM segment g JOIN task o USING (task_id) "
                              "WHERE o.media_id = t.media_id AND g.language = '%s')",
                              s->language);
    return n;
}

/* Whatever is asked for, the answer is that of all rows one by one, and the part is what is
 * counted. */
TEST(as_one_by_one_in_a_scope)
{
    static const char *const paths[] = {NULL, NULL, "/a", "/a/7.wav", "/long", "/long/35.wav", "/"};
    static const char *const speakers[] = {NULL,         NULL,  "SPEAKER_00", "SPEAKER_02",
                                           "speaker_01", "ana", "nobody"};
    static const char *const languages[] = {NULL, NULL, NULL, "en", "es", "de", "xx"};
    struct store *st = peopled();
    unsigned dice = 20261122, indexed = 0;
    char where[1024], sql[1200];
    float values[SIZE];

    for (unsigned i = 0; i < 100; i++) {
        struct vectors_query q = query_of(values);
        struct err e = {0};
        double part = -1;

        /* Every other time a row itself, of a short recording: outside of most scopes. */
        vector_of((unsigned)rand_r(&dice) % (i % 2 ? 100 : 1000000), values, SIZE);
        q.scope.path = paths[(unsigned)rand_r(&dice) % 7];
        q.scope.speaker = speakers[(unsigned)rand_r(&dice) % 7];
        q.scope.language = languages[(unsigned)rand_r(&dice) % 7];
        if (i % 4 == 0) /* more than is read one by one */
            q.scope = (struct scope){.speaker = "SPEAKER_02"};
        q.limit = 1 + (unsigned)rand_r(&dice) % NEAR;
        q.no_file = rand_r(&dice) % 4 == 0;
        if (i % 25 == 24) /* behind the index's end */
            add_rows(st, i % 50 == 24 ? 70 : 14, 2 + i, 50000 + i * 100, 30);
        put_where(where, sizeof(where), &q.scope);
        check(st, &q, where);
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM task t WHERE %s", where);
        assert_ok(scope_part(st, &q.scope, &part, &e), e);
        assert_true(fabs(part * MANY - (double)count_of(sql)) < 1e-9);
        snprintf(sql, sizeof(sql),
                 "SELECT count(*) FROM embedding e JOIN task t USING (task_id) WHERE %s", where);
        indexed += !q.no_file && count_of(sql) > 20000 && strlen(where) > 20;
    }
    assert_true(indexed > 20 && index_inode() != 0);
    catalog_close_by_hand(st);
}

static int64_t stage_found(struct store *st)
{
    struct store_stage_row row;
    struct err e = {0};
    int64_t id = find_stage(st, "embed-text", &row, &e);

    if (id != 0)
        return id;
    id = row.stage_id;
    store_stage_row_free(&row);
    return id;
}

static void embedded(struct store *st, int64_t task, int from)
{
    struct err e = {0};

    add_rows(st, task, 0, from, 10);
    assert_ok(store_task_total(st, task, 1, &e), e);
}

/* Stage 3 is a newer model's: tasks 5 and 6 of the recordings of 2 and 4. */
TEST(a_new_stage_does_not_hide_the_archive)
{
    static const struct store_stage newer = {"embed-text", "bge",       "/models/bge",
                                             "bbbb",       "{\"a\":1}", &stage_nano};
    struct store *st = transcribed();
    int64_t job;

    assert_int_equal(stage_found(st), ERR_EMPTY);
    embedded(st, 2, 0);
    assert_int_equal(stage_found(st), 2);
    embedded(st, 4, 10);
    job = job_begin(st, &newer);
    job_add1(st, job, "/a/1.wav", "", 1);
    job_add1(st, job, "/b/2.wav", "", 2);
    add_rows(st, 5, 0, 20, 10);
    assert_int_equal(stage_found(st), 2);
    embedded(st, 6, 30);
    assert_int_equal(stage_found(st), 3);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 40);
    assert_int_equal(count_of("SELECT count(*) FROM passages"), 20);
    catalog_close(st);
}

/* Recording 1 has vectors of two transcriptions, recording 2 of the older one alone: a search finds
 * the current ones, whichever way it goes. */
TEST(what_is_superseded_is_not_found)
{
    static const struct store_stage beams = {"transcribe", "nano",         "/models/nano",
                                             "aa11",       "{\"beam\":5}", NULL};
    static const struct store_stage anew = {"embed-text",        "e5",  "/models/e5", "ee55",
                                            "{\"a\":1,\"b\":5}", &beams};
    const char current[] = "t.current";
    struct store *st = filled();
    struct vectors_query q;
    struct err e = {0};
    float values[SIZE];

    for (int64_t task = 2; task <= 4; task += 2)
        assert_ok(store_task_total(st, task, 1, &e), e);
    vector_of(5000, values, SIZE);
    q = query_of(values);
    check(st, &q, "t.stage_id = 2");                       /* the index is made */
    job_add1(st, job_begin(st, &anew), "/a/1.wav", "", 1); /* tasks 5 and 6, stages 3 and 4 */
    shard_put(st, 5, 0, NULL, 0);
    assert_ok(store_task_total(st, 5, 1, &e), e);
    add_rows(st, 6, 0, 4000, 50);
    check(st, &q, "t.stage_id = 2");
    assert_ok(store_task_total(st, 6, 1, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM passages"), 150);
    for (int way = 0; way < 12; way++) {
        vector_of(way % 3 ? 4000 + (unsigned)way : (unsigned)way * 17, values, SIZE);
        q = query_of(values);
        q.stage_id = way % 2 ? 2 : 4;
        q.no_file = way % 4 == 1;
        if (way > 5)
            q.scope.path = "/a";
        check(st, &q, way > 5 ? "t.current AND t.task_id = 6" : current);
    }
    catalog_close(st);
}

static int count_sound(void *arg, const struct find_sound *row)
{
    char **said = arg;
    char *was = *said;

    assert_true(asprintf(said, "%s%s %d %.1f|", was, row->path, (int)row->start_ms, row->score) >
                0);
    free(was);
    return 0;
}

static const char *sounds_found(struct store *st, bool few)
{
    static const struct scope everywhere, below = {.path = "/a"};
    static char *said;
    struct err e = {0};

    free(said);
    said = strdup("");
    assert_ok(find_sounds(st, "clap", few ? &below : &everywhere, 0, count_sound, &said, &e), e);
    return said;
}

static void hear(struct store *st, int64_t task, double score)
{
    const struct result_sound heard[] = {{1000, 4000, 67, "Clapping", score}};
    const struct store_shard_result r = {
        .task_id = task, .end_ms = 60000, .sounds = heard, .sound_count = 1};
    struct err e = {0};

    assert_ok(store_shard_done(st, &r, &e), e);
}

/* Stages 1 and 2 listen to the same recordings, the second one to /b/2.wav later. */
TEST(sounds_of_replaced_stages_are_not_found_twice)
{
    static const struct store_stage first = {"sounds", "yamnet", "/models/y", "aa", "{}", NULL};
    static const struct store_stage second = {"sounds", "yamnet", "/models/z", "bb", "{}", NULL};
    struct store *st = catalog_new();
    struct err e = {0};

    for (int i = 0; i < 2; i++) {
        int64_t job = job_begin(st, i ? &second : &first);

        job_add1(st, job, "/a/1.wav", "", 1);
        job_add1(st, job, "/b/2.wav", "", 2);
    }
    for (int64_t task = 1; task <= 3; task++) {
        hear(st, task, 0.1 * (double)task);
        assert_ok(store_task_total(st, task, 1, &e), e);
    }
    assert_string_equal(sounds_found(st, false), "/a/1.wav 1000 0.3|/b/2.wav 1000 0.2|");
    assert_string_equal(sounds_found(st, true), "/a/1.wav 1000 0.3|");
    hear(st, 4, 0.4);
    assert_ok(store_task_total(st, 4, 1, &e), e);
    assert_string_equal(sounds_found(st, false), "/b/2.wav 1000 0.4|/a/1.wav 1000 0.3|");
    catalog_close(st);
}

TEST(odd_queries)
{
    struct store *st = filled();
    float values[SIZE] = {0};
    struct vectors_query q = query_of(values);
    struct vectors_hit *hits = NULL;
    struct err e = {0};
    size_t n = 0;

    assert_int_equal(vectors_search(st, &q, &hits, &n, &e), ERR_INPUT);
    values[3] = NAN;
    assert_int_equal(vectors_search(st, &q, &hits, &n, &e), ERR_INPUT);
    values[3] = 1;
    q.limit = 0;
    assert_int_equal(vectors_search(st, &q, &hits, &n, &e), ERR_INPUT);
    q.limit = 100000; /* more than there are */
    assert_ok(vectors_search(st, &q, &hits, &n, &e), e);
    assert_int_equal(n, ROWS);
    free(hits);
    hits = NULL;
    q.size = 4; /* of no vector there */
    assert_ok(vectors_search(st, &q, &hits, &n, &e), e);
    assert_int_equal(n, 0);
    free(hits);
    catalog_close(st);
}

/* The bounds hold for every row, and leave out most, whatever the processor has. */
TEST(bounds_hold)
{
    static const char *const sets[] = {"plain", "avx2", "avx512"};
    const struct vector_state made = {.stage_id = 5, .size = 384, .identity = "x"};
    struct vector_writer *w = NULL;
    struct vector_file *f = NULL;
    struct vector_near *near = NULL;
    struct err e = {0};
    float query[384], row[384];
    size_t n = 0;

    assert_ok(vector_writer_open("index", NULL, &made, &w, &e), e);
    for (unsigned i = 0; i < 3000; i++) {
        vector_of(i, row, 384);
        assert_ok(vector_writer_add(w, i, row, &e), e);
    }
    assert_ok(vector_writer_finish(w, 2999, &e), e);
    assert_ok(vector_file_open("index", &f, &e), e);
    assert_int_equal(vector_file_state(f)->count, 3000);
    for (int i = 0; i < 6; i++) {
        bool wide = i >= 3;

        setenv("NIGHTSHIFT_CPU", sets[i % 3], 1);
        vector_of(123456, query, 384);
        assert_ok(vector_scan(f, query, wide ? 3000 : 10, wide ? 1 : 3, NULL, &near, &n, &e), e);
        if (wide)
            assert_int_equal(n, 3000);
        else
            assert_true(n >= 10 && n < 1000);
        for (size_t k = 0; k < n; k++) {
            double dot = 0;

            vector_of((unsigned)near[k].id, row, 384);
            for (int j = 0; j < 384; j++)
                dot += (double)row[j] * query[j];
            assert_true(near[k].least <= dot && dot <= near[k].most);
            assert_true(near[k].most - near[k].least < 0.06);
        }
        free(near);
    }
    unsetenv("NIGHTSHIFT_CPU");
    vector_file_close(f);
    /* A writer that is dropped leaves nothing. */
    assert_ok(vector_writer_open("index2", NULL, &made, &w, &e), e);
    vector_writer_drop(w);
    assert_int_equal(system("ls index2* 2> /dev/null | grep -q ."), 256);
    unlink("index");
}

TEST_MAIN(NULL, NULL)
