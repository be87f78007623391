/* What it saves to know where a speaker can be before vectors and sounds are looked at:
 * `bench_store_scope [ROWS]`, a million passages of 384 values unless said otherwise, a hundred in
 * each recording, made up in the current folder (some 2.5 KiB each). One speaker is heard in three
 * recordings. Each question is asked of everything and of the scope alone, in turn, three times;
 * the answers must be the same. Not a test: it prints times, and asserts the answers. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "store/read/find.h"
#include "store/vectors/vectors.h"
#include "tests/unit/store/bench.h"

#define CATALOG "bench-scope.db"
#define SIZE 384u
#define EACH 100 /* passages of a recording */
#define WANTED 100u
#define RARE "SPEAKER_07"

static void row_of(uint64_t id, float *ret)
{
    uint64_t cluster = bench_mix(id) % 5000 + (UINT64_C(1) << 40);

    for (uint32_t i = 0; i < SIZE; i++)
        ret[i] = bench_noise(cluster * SIZE + i) + 0.8f * bench_noise(id * SIZE + i);
}

/* Task 4 m - 3 transcribes recording m, then come who speaks, sounds and vectors. ?: recordings. */
static const char sql_archive[] =
    "INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) VALUES "
    "('transcribe', 'm', '/', 'a', '{}', '2026'), ('diarize', 'm', '/', 'a', '{}', '2026'), "
    "('sounds', 'm', '/', 'a', '{}', '2026'), ('embed-text', 'm', '/', 'a', '{}', '2026');"
    "CREATE TEMP TABLE k AS WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k "
    "WHERE i < 99) SELECT i FROM k;"
    "INSERT INTO task (task_id, media_id, stage_id, job_id, language, state, shards_total) "
    "SELECT 4 * m.i - 3 + k.i, m.i, k.i + 1, 1, '', 'done', 7 FROM m JOIN k WHERE k.i < 4;"
    "INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, windows, "
    "wall_ms, device, done_at) SELECT task_id, k.i, k.i * 300000, (k.i + 1) * 300000, '', 0, 1, 1, "
    "'', "
    "'2026' FROM task JOIN k WHERE k.i < 7;"
    "INSERT INTO speaker (speaker_id, task_id, media_id, label, speech_ms, vector) "
    "SELECT 3 * m.i + k.i, 4 * m.i - 2, m.i, printf('SPEAKER_%%02d', iif(k.i = 2, 7, k.i)), 1, "
    "randomblob(1024) FROM m JOIN k WHERE k.i < 2 OR (k.i = 2 AND m.i %% (%d / 3) = 1);"
    "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, speaker_id) "
    "SELECT 4 * m.i - 3, k.i / 15, k.i, k.i * 20000, k.i * 20000 + 15000, 'said so', 'en', "
    "iif(m.i %% (%d / 3) = 1 AND k.i %% 5 = 0, 3 * m.i + 2, 3 * m.i + k.i %% 2) FROM m JOIN k;"
    "INSERT INTO sound SELECT 4 * m.i - 1, k.i / 15, k.i, k.i * 20000, k.i * 20000 + 15000, 0, "
    "'Speech', abs(random() %% 1000) / 1000.0 FROM m JOIN k";

static void fill(uint64_t rows)
{
    int recordings = (int)(rows / EACH);
    sqlite3 *db = bench_begin(CATALOG, recordings);
    sqlite3_stmt *stmt = NULL;
    float row[SIZE];

    bench_sql(db, sql_archive, recordings, recordings);
    sqlite3_prepare_v2(db, "INSERT INTO embedding VALUES (NULL, ?, ?, ?, ?, ?, 'said so', ?)", -1,
                       &stmt, NULL);
    for (uint64_t i = 0; i < rows; i++) {
        int64_t k = (int64_t)(i % EACH);

        row_of(i, row);
        sqlite3_bind_int64(stmt, 1, (int64_t)(4 * (i / EACH) + 4));
        sqlite3_bind_int64(stmt, 2, k / 15);
        sqlite3_bind_int64(stmt, 3, k);
        sqlite3_bind_int64(stmt, 4, k * 20000);
        sqlite3_bind_int64(stmt, 5, k * 20000 + 15000);
        sqlite3_bind_blob(stmt, 6, row, sizeof(row), SQLITE_STATIC);
        bench_row(db, stmt);
    }
    bench_end(db, stmt);
}

/* ------------------------------------------------------------------------------------ questions */

struct answer {
    int64_t found[WANTED]; /* passages, or recording and time of a sound */
    size_t count;
    struct store *st;
    int64_t id;
};

static int on_said(void *arg, const struct find_said *said)
{
    struct answer *a = arg;

    if (strcmp(said->label, RARE) == 0 && a->count < WANTED)
        a->found[a->count++] = a->id;
    return 0;
}

static int on_passage(void *arg, const struct find_passage *p)
{
    struct answer *a = arg;

    return find_said(a->st, p->media_id, p->passage.start_ms, p->passage.end_ms, on_said, a,
                     &(struct err){0});
}

/* As `search --semantic --speaker` asks: the nearest thousand, and four times as many while too few
 * are said by that speaker. */
static void nearest(struct store *st, const struct scope *scope, const float *query,
                    struct answer *a)
{
    struct vectors_query q = {
        .stage_id = 4, .values = query, .size = SIZE, .scope = *scope, .limit = 1000};
    struct err err = {0};
    size_t seen = 0, n = 0;

    *a = (struct answer){.st = st};
    do {
        struct vectors_hit *hits = NULL;

        if (vectors_search(st, &q, &hits, &n, &err) != 0)
            bench_stop(err.msg);
        for (; seen < n && a->count < WANTED; seen++) {
            a->id = hits[seen].embedding_id;
            if (find_passage(st, a->id, on_passage, a, &err) != 0)
                bench_stop(err.msg);
        }
        free(hits);
    } while (n == q.limit && a->count < WANTED && (q.limit *= 4) > 0);
}

static int on_sound(void *arg, const struct find_sound *s)
{
    struct answer *a = arg;

    a->id = s->media_id * 10000000 + s->start_ms;
    find_said(a->st, s->media_id, s->start_ms, s->end_ms, on_said, a, &(struct err){0});
    return a->count == WANTED;
}

static void sounds(struct store *st, const struct scope *scope, const float *query,
                   struct answer *a)
{
    struct err err = {0};

    (void)query;
    *a = (struct answer){.st = st};
    if (find_sounds(st, "speech", scope, 0, on_sound, a, &err) < 0)
        bench_stop(err.msg);
}

/* Without a scope all vectors of the catalog are compared one by one, which is the least that a
 * look at where each lies takes as well. */
static void below(struct store *st, const struct scope *scope, const float *query, struct answer *a)
{
    struct vectors_query q = {.stage_id = 4,
                              .values = query,
                              .size = SIZE,
                              .scope = *scope,
                              .limit = WANTED,
                              .no_file = !scope->path};
    struct vectors_hit *hits = NULL;
    struct err err = {0};
    size_t n = 0;

    *a = (struct answer){.st = st};
    if (vectors_search(st, &q, &hits, &n, &err) != 0)
        bench_stop(err.msg);
    a->count = n;
    free(hits);
}

typedef void (*ask_fn)(struct store *st, const struct scope *scope, const float *query,
                       struct answer *a);

struct took {
    double wall, cpu; /* seconds; cpu: of all threads */
};

static struct took measure(struct store *st, ask_fn ask, const struct scope *scope,
                           const float *query, struct answer *a)
{
    int64_t begin = clock_mono_ms();
    clock_t cpu = clock();

    ask(st, scope, query, a);
    return (struct took){(double)(clock_mono_ms() - begin) / 1000,
                         (double)(clock() - cpu) / CLOCKS_PER_SEC};
}

/* Of the first query also by looking at everything. */
static void compare(struct store *st, const char *what, ask_fn ask, const struct scope *scope)
{
    struct answer all, some;
    float query[SIZE];

    for (uint64_t k = 0; k < 3; k++) {
        struct took was = {0}, is;

        row_of(UINT64_MAX / 4 + k, query);
        is = measure(st, ask, scope, query, &some);
        printf("%s: %.3f s (%.3f s of processors), %zu found\n", what, is.wall, is.cpu, some.count);
        if (k > 0)
            continue;
        was = measure(st, ask, &(struct scope){0}, query, &all);
        if (ask != below &&
            (all.count != some.count || memcmp(all.found, some.found, sizeof(all.found)) != 0))
            bench_stop("the answers differ");
        printf("    looking at everything: %.3f s (%.3f s of processors)\n", was.wall, was.cpu);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct store *st = NULL;
    struct err err = {0};
    struct answer a;
    float query[SIZE];

    if (rows < 1000)
        return 2;
    if (access(CATALOG, F_OK) != 0)
        fill(rows);
    if (store_open(CATALOG, STORE_READ, &st, &err) != 0)
        bench_stop(err.msg);
    row_of(1, query);
    printf("the index, made or read: %.3f s\n",
           measure(st, below, &(struct scope){.path = "/1"}, query, &a).wall);
    compare(st, "meaning, a speaker of three recordings", nearest,
            &(struct scope){.speaker = RARE});
    compare(st, "a class of sound, the same speaker", sounds, &(struct scope){.speaker = RARE});
    compare(st, "meaning, in one recording", below, &(struct scope){.path = "/1/7.wav"});
    compare(st, "meaning, in half of them", below, &(struct scope){.path = "/1"});
    store_close(st);
    return 0;
}
