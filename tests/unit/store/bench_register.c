/* What it costs to know voices again: `bench_store_register [VOICES [PEOPLE]]`, 20,000 voices of
 * 256 values and 100 people unless said otherwise, made up: four recordings of each voice, two
 * voices in a recording. Groups of them alone, all at once and one voice more; then a catalog in
 * the current folder: what an upgrade compares, what one recording more does, one name more, and
 * the listing. Not a test: it prints times, and asserts that each voice was grouped with its own.
 */
#include <string.h>
#include <time.h>

#include "store/read/find.h"
#include "store/register/groups.h"
#include "store/register/likeness.h"
#include "store/requests/request.h"
#include "tests/unit/store/bench.h"

#define CATALOG "bench-register.db"
#define SIZE 256u
#define EACH 4 /* recordings of a voice */
#define FROM 0.7

/* Of voice i of so many: its person's direction, and a quarter of that of its own. */
static void voice_of(uint64_t i, uint64_t voices, float *ret)
{
    uint64_t person = bench_mix(i % (voices / EACH)) | 1;

    for (uint32_t k = 0; k < SIZE; k++)
        ret[k] = bench_noise(person * SIZE + k) +
                 0.25f * bench_noise((i + (UINT64_C(1) << 32)) * SIZE + k);
    likeness_unit(ret, SIZE);
}

/* Of the processor: others use it, too. */
static void say(const char *what, clock_t began)
{
    printf("%-58s %8.3f s\n", what, (double)(clock() - began) / CLOCKS_PER_SEC);
    fflush(stdout);
}

/* ----------------------------------------------------------------------------------- groups alone
 */

static void group(struct groups_voice *list, size_t count, int64_t *last)
{
    struct err err = {0};

    if (groups_match(list, count, SIZE, FROM, last, &err) != 0)
        bench_stop(err.msg);
}

static void bench_groups(uint64_t voices)
{
    float *vectors = calloc(voices * SIZE, sizeof(*vectors));
    struct groups_voice *list = calloc(voices, sizeof(*list));
    int64_t last = 0;
    clock_t began;

    if (!vectors || !list)
        bench_stop("out of memory");
    for (uint64_t i = 0; i < voices; i++) {
        voice_of(i, voices, vectors + i * SIZE);
        list[i] = (struct groups_voice){(int64_t)(i / 2), 0, vectors + i * SIZE, true};
    }
    began = clock();
    group(list, voices, &last);
    say("groups of all voices at once", began);
    for (uint64_t i = 0; i < voices; i++) {
        if (!list[i].group || list[i].group != list[i % (voices / EACH)].group)
            bench_stop("a voice is not with its own");
        list[i].due = i == voices - 1;
    }
    list[voices - 1].group = 0;
    began = clock();
    group(list, voices, &last);
    say("one voice more", began);
    if (list[voices - 1].group != list[voices / EACH - 1].group)
        bench_stop("the new voice is not with its own");
    free(list);
    free(vectors);
}

/* -------------------------------------------------------------------------------------- a catalog
 */

/* The last recording is still to be finalized. */
static void fill(uint64_t voices)
{
    int recordings = (int)(voices / 2);
    sqlite3 *db = bench_begin(CATALOG, recordings);
    sqlite3_stmt *stmt = NULL;
    float row[SIZE];

    bench_sql(db,
              "INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) VALUES "
              "('diarize', 'm', '/', '%s', '{}', '2026');"
              "INSERT INTO task (task_id, media_id, stage_id, job_id, language, state, waits, "
              "shards_total) SELECT i, i, 1, 1, '', iif(i = %d, 'pending', 'done'), "
              "iif(i = %d, 'settling', NULL), 1 FROM m;"
              "INSERT INTO speaker_due SELECT 2 * i - k FROM m, (SELECT 0 AS k UNION ALL SELECT 1)",
              likeness_measures[0].model_hash, recordings, recordings);
    sqlite3_prepare_v2(
        db,
        "INSERT INTO speaker (speaker_id, task_id, media_id, label, speech_ms, vector) "
        "VALUES (?1, ?2, ?2, printf('SPEAKER_%02d', ?1 % 2), 60000, ?3)",
        -1, &stmt, NULL);
    for (uint64_t i = 0; i + 2 < voices; i++) {
        voice_of(i, voices, row);
        sqlite3_bind_int64(stmt, 1, (int64_t)i + 1);
        sqlite3_bind_int64(stmt, 2, (int64_t)(i / 2) + 1);
        sqlite3_bind_blob(stmt, 3, row, sizeof(row), SQLITE_STATIC);
        bench_row(db, stmt);
    }
    bench_end(db, stmt);
}

static void ask(struct store *st, const struct request *rq)
{
    struct request_reply reply = {0};
    struct err err = {0};

    if (request_apply(st, rq, &reply, &err) != 0)
        bench_stop(err.msg);
}

static int count_row(void *arg, const struct find_speaker *row)
{
    *(uint64_t *)arg += row->proposed[0] != 0;
    return 0;
}

static void bench_catalog(uint64_t voices, uint64_t people)
{
    float values[2][SIZE];
    const struct result_speaker who[] = {{60000, values[0]}, {60000, values[1]}};
    const struct result_turn when[] = {{0, 60000, 0}, {60000, 120000, 1}};
    const struct result_people last = {SIZE, 2, 2, who, when};
    struct store *st = NULL;
    struct err err = {0};
    uint64_t proposed = 0;
    clock_t began;

    fill(voices);
    if (store_open(CATALOG, STORE_WRITE, &st, &err) != 0)
        bench_stop(err.msg);
    began = clock();
    ask(st, &(struct request){.type = REQUEST_PAUSE, .select_path = "/1/1.wav"});
    say("an older catalog's first change", began);
    began = clock();
    for (uint64_t i = 0; i < people; i++) {
        char name[32];

        snprintf(name, sizeof(name), "person %d", (int)i);
        ask(st, &(struct request){.type = REQUEST_NAME_SPEAKER,
                                  .speaker_id = (int64_t)i + 1,
                                  .speaker_name = name,
                                  .everywhere = true});
    }
    say("names for the archive, all of them", began);
    voice_of(voices - 2, voices, values[0]);
    voice_of(voices - 1, voices, values[1]);
    began = clock();
    if (store_finalized(st, (int64_t)(voices / 2), &last, &err) != 0)
        bench_stop(err.msg);
    say("one recording more", began);
    began = clock();
    if (find_speakers(st, &(struct find_people){0}, count_row, &proposed, &err) != 0)
        bench_stop(err.msg);
    say("the listing of all speakers", began);
    printf("%llu proposed\n", (unsigned long long)proposed);
    store_close(st);
}

int main(int argc, char **argv)
{
    uint64_t voices = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    uint64_t people = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;

    voices -= voices % (2 * EACH);
    if (voices < 4 * EACH || voices > 2000000 || people > voices / EACH)
        bench_stop("16 voices at least, and no more people than a quarter of them");
    bench_groups(voices);
    bench_catalog(voices, people);
    return 0;
}
