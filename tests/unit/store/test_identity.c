/* Two files are one recording when all their bytes are equal: that nothing else makes them one. */
#include "tests/unit/store/fixture.h"

#define LARGE (STORE_WHOLE_BYTES + 1000)

/* A file of which a fingerprint does not tell all: `samples` are of its blocks, `whole` of all its
 * bytes; 0: it was not read whole. */
static struct store_found large(const char *path, uint64_t samples, uint64_t whole)
{
    struct store_found f = found_at(path, "", samples);

    f.size_bytes = f.file_size_bytes = LARGE;
    f.has_hash = whole != 0;
    memcpy(f.hash, &whole, sizeof(whole));
    return f;
}

static struct store_found with_met(struct store_found f, int64_t media_id, uint64_t whole)
{
    f.met_media = media_id;
    memcpy(f.met_hash, &whole, sizeof(whole));
    return f;
}

static int64_t media_at(const char *path)
{
    char sql[200];

    snprintf(
        sql, sizeof(sql),
        "SELECT ifnull((SELECT media_id FROM place WHERE path = '%s' AND state <> 'replaced'), "
        "0)",
        path);
    return count_of(sql);
}

static void hash_is(int64_t media_id, uint64_t whole)
{
    char sql[100], want[33] = "";

    for (size_t i = 0; i < 16; i++)
        snprintf(want + 2 * i, 3, "%02X", i < 8 ? (unsigned)(whole >> (8 * i) & 255) : 0);
    snprintf(sql, sizeof(sql),
             "SELECT ifnull(hex(content_hash), '') FROM media WHERE media_id = %d", (int)media_id);
    assert_string_equal(text_of(sql), whole ? want : "");
}

static struct request_reply add(struct store *st, struct store_found f)
{
    return job_add(st, job_begin(st, &stage_nano), &f, 1);
}

/* Blocks alone: nothing is noted, and it is said which are to be read. */
TEST(alike_is_not_the_same)
{
    struct store *st = catalog_new();
    struct store_found f[12];
    char paths[12][16];
    struct request_reply r;

    for (int i = 0; i < 12; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/a/%d.wav", i);
        f[i] = large(paths[i], i == 3 || i == 10 ? 1 : (uint64_t)i + 20, 0);
    }
    add(st, large("/a/first.wav", 1, 0));
    r = job_add(st, job_begin(st, &stage_nano), f, 12);
    assert_int_equal(r.counts.seen, 10);
    assert_int_equal(r.counts.added, 10);
    assert_int_equal(r.counts.tasks, 10);
    assert_int_equal(r.unproven_len, 2);
    assert_int_equal(r.unproven[0], 1 << 3);
    assert_int_equal(r.unproven[1], 1 << 2);
    assert_int_equal(media_at("/a/3.wav"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM media"), 11);
    /* Within one request, too. */
    f[4] = large("/a/x.wav", 2, 0);
    f[5] = large("/a/y.wav", 2, 0);
    r = job_add(st, job_begin(st, &stage_nano), f + 4, 2);
    assert_int_equal(r.unproven[0], 2);
    /* Small files: the fingerprint is of all bytes. */
    r = job_add1(st, job_begin(st, &stage_nano), "/b/1.wav", "", 5);
    r = job_add1(st, job_begin(st, &stage_nano), "/b/2.wav", "", 5);
    assert_int_equal(r.counts.places, 1);
    assert_int_equal(r.unproven_len, 0);
    catalog_close(st);
}

TEST(bytes_tell)
{
    struct store *st = catalog_new();
    int64_t first, other;

    add(st, large("/a/first.wav", 1, 0));
    first = media_at("/a/first.wav");
    /* Others, and it is not known which those of the first one are. */
    assert_int_equal(add(st, large("/a/other.wav", 1, 200)).counts.added, 1);
    other = media_at("/a/other.wav");
    assert_int_not_equal(other, first);
    hash_is(first, 0);
    hash_is(other, 200);
    assert_int_equal(count_of("SELECT count(*) FROM media WHERE fingerprint = content_hash"), 1);
    /* A copy of that; what is said of some other recording is not taken for this one's. */
    assert_int_equal(add(st, with_met(large("/a/copy.wav", 1, 200), other, 200)).counts.places, 1);
    assert_int_equal(media_at("/a/copy.wav"), other);
    hash_is(first, 0);
    /* A copy of the first, which was read with it. */
    assert_int_equal(add(st, with_met(large("/a/twin.wav", 1, 100), first, 100)).counts.places, 1);
    assert_int_equal(media_at("/a/twin.wav"), first);
    hash_is(first, 100);
    /* From now on its hash is known, and nobody may say another one. */
    assert_int_equal(add(st, with_met(large("/a/third.wav", 1, 300), first, 300)).counts.added, 1);
    /* Nor of a recording of another size. */
    add(st, found_at("/a/small.wav", "", 5));
    add(st, with_met(large("/a/third.wav", 1, 300), media_at("/a/small.wav"), 300));
    hash_is(media_at("/a/small.wav"), 0);
    assert_int_not_equal(media_at("/a/third.wav"), first);
    hash_is(first, 100);
    assert_int_equal(add(st, large("/a/more.wav", 1, 100)).counts.places, 1);
    assert_int_equal(media_at("/a/more.wav"), first);
    /* Known by its hash alone: as the walk sends it. */
    assert_int_equal(add(st, large("/a/again.wav", 300, 300)).counts.places, 1);
    assert_int_equal(media_at("/a/again.wav"), media_at("/a/third.wav"));
    assert_int_equal(count_of("SELECT count(*) FROM media"), 4);
    catalog_close(st);
}

/* At its own path a file that was not written since is what it was. */
TEST(the_same_place)
{
    struct store *st = catalog_new();
    struct store_found f = large("/a/first.wav", 1, 0);
    struct request_reply r;
    int64_t first;

    add(st, f);
    first = media_at("/a/first.wav");
    f.inode++;
    f.device++;
    assert_int_equal(add(st, f).counts.unchanged, 1);
    f.mtime_ns++;
    r = add(st, f);
    assert_int_equal(r.unproven[0], 1);
    assert_int_equal(r.counts.seen, 0);
    /* Read whole, and nobody knows what it held: it may be anything. */
    f.has_hash = true;
    f.hash[0] = 9;
    assert_int_equal(add(st, f).counts.changed, 1);
    assert_int_not_equal(media_at("/a/first.wav"), first);
    /* Written once more, and with the same bytes. */
    f.mtime_ns++;
    assert_int_equal(add(st, f).counts.unchanged, 1);
    catalog_close(st);
}

static void decoded(struct store *st, int64_t media_id, uint8_t whole)
{
    uint8_t hash[16] = {whole};
    struct err e = {0};

    assert_ok(store_media(st, media_id, NULL,
                          &(struct store_media_end){1000, hash, "", NULL, NULL, 0}, &e),
              e);
}

/* A recording is what its first results are of; and when other bytes come, its files are looked at.
 */
TEST(what_was_decoded)
{
    struct store *st = catalog_new();
    int64_t first, other;

    add(st, large("/a/first.wav", 1, 5));
    add(st, large("/a/other.wav", 1, 6));
    first = media_at("/a/first.wav");
    other = media_at("/a/other.wav");
    decoded(st, first, 7); /* the file was written since it was enqueued */
    hash_is(first, 7);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE unproven"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'content-differs'"), 1);
    assert_int_equal(add(st, large("/a/copy.wav", 1, 5)).counts.added, 1);
    assert_int_equal(add(st, large("/a/first.wav", 1, 7)).counts.unchanged, 1);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE unproven"), 0);
    decoded(st, first, 8);
    hash_is(first, 7);
    /* What is known by its hash stays that. */
    decoded(st, other, 9);
    hash_is(other, 6);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE unproven"), 2);
    catalog_close(st);
}

TEST(what_has_moved_may_come_back)
{
    struct store *st = catalog_new();
    struct store_found f = with_met(large("/b/first.wav", 1, 5), 1, 5);
    struct store_known k;
    struct err e = {0};

    add(st, large("/a/first.wav", 1, 0));
    f.moved = true;
    assert_int_equal(add(st, f).counts.places, 1);
    assert_int_equal(count_of("SELECT count(*) FROM place WHERE unproven"), 1);
    assert_ok(store_known_path(st, "/a/first.wav", 12, &stage_nano, &k, &e), e);
    assert_true(k.unproven);
    store_known_free(&k);
    assert_ok(store_known_path(st, "/b/first.wav", 12, &stage_nano, &k, &e), e);
    assert_false(k.unproven);
    store_known_free(&k);
    /* Without a hash it is not taken for what it was, whatever its times are. */
    assert_int_equal(add(st, large("/a/first.wav", 1, 0)).unproven[0], 1);
    assert_int_equal(add(st, large("/a/first.wav", 1, 6)).counts.changed, 1);
    catalog_close(st);
}

/* Only the places of which it is known what they hold are asked for a recording's bytes; but for
 * the main one, from which it is decoded. */
static int keep_path(void *arg, const struct store_origin *o)
{
    strcat(arg, o->path);
    return 0;
}

TEST(where_its_bytes_are)
{
    struct store *st = catalog_new();
    char paths[200] = "";
    struct store_task t = {.media_id = 1};
    struct err e = {0};

    for (int i = 0; i < 3; i++)
        add(st, large((const char *[]){"/a/x", "/a/y", "/a/z"}[i], 1, 5));
    run_sql("UPDATE place SET unproven = 1 WHERE path <> '/a/z'");
    assert_ok(store_origins(st, 1, keep_path, paths, &e), e);
    assert_string_equal(paths, "/a/x/a/z");
    for (uint32_t k = 0; k < 2; k++) {
        assert_ok(store_task_place(st, &t, k, &e), e);
        assert_string_equal(t.path, k ? "/a/z" : "/a/x");
    }
    assert_int_equal(store_task_place(st, &t, 2, &e), ERR_EMPTY);
    store_task_free(&t);
    catalog_close(st);
}

/* Which of its places a recording is shown at. */
static const char *main_of_1(void)
{
    return text_of("SELECT path || iif(member = '', '', '//') || member FROM recordings "
                   "WHERE media_id = 1");
}

TEST(main_places)
{
    struct store *st = catalog_new();
    int64_t job = job_begin(st, &stage_nano);

    /* A file comes before an archive's member that was there first. */
    job_add1(st, job, "/a/box.zip", "m.wav", 1);
    assert_string_equal(main_of_1(), "/a/box.zip//m.wav");
    job_add1(st, job, "/a/c/x.wav", "", 1);
    assert_string_equal(main_of_1(), "/a/c/x.wav");
    job_add1(st, job, "/a/b/x.wav", "", 1);
    assert_string_equal(main_of_1(), "/a/c/x.wav");
    job_end(st, job, "/a");
    /* Renamed in its folder. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/box.zip", "m.wav", 1);
    job_add1(st, job, "/a/b/x.wav", "", 1);
    job_add1(st, job, "/a/c/y.wav", "", 1);
    job_end(st, job, "/a");
    assert_string_equal(main_of_1(), "/a/c/y.wav");
    /* Only the archive is left, and then nothing; what is there comes before what was. */
    job = job_begin(st, &stage_nano);
    job_add1(st, job, "/a/box.zip", "m.wav", 1);
    job_end(st, job, "/a");
    assert_string_equal(main_of_1(), "/a/box.zip//m.wav");
    job_end(st, job_begin(st, &stage_nano), "/a");
    assert_string_equal(main_of_1(), "/a/box.zip//m.wav");
    job_add1(st, job_begin(st, &stage_nano), "/b/box.zip", "m.wav", 1);
    assert_string_equal(main_of_1(), "/b/box.zip//m.wav");
    job_add1(st, job_begin(st, &stage_nano), "/a/c/y.wav", "", 1);
    assert_string_equal(main_of_1(), "/a/c/y.wav");
    catalog_close(st);
}

/* Files of few blocks and many bytes, in any order, read whole or not: whatever a walk says, no
 * recording ever has two contents; and where everything was read that was to be, each content is
 * one recording. */
static uint64_t any(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* As media_at, by the catalog that is open. */
static int64_t lies_at(struct store *st, const char *path)
{
    struct store_found f = large(path, 1, 0);
    struct store_met met;
    struct err e = {0};

    assert_ok(store_meet(st, &f, &met, &e), e);
    return met.place_media;
}

static void play(uint64_t seed, bool reads)
{
    struct store *st = catalog_new();
    uint64_t state = seed, whole_at[40] = {0}, whole_of[200] = {0};
    size_t contents = 0;
    bool found[8 * 3 + 1] = {0};

    for (int step = 0; step < 150; step++) {
        uint64_t samples = any(&state) % 3 + 1, whole = samples * 8 - any(&state) % 3;
        size_t at = any(&state) % 40;
        char path[20];
        struct store_found f;
        struct request_reply r;

        snprintf(path, sizeof(path), "/a/%zu.wav", at);
        f = large(path, samples, !reads && any(&state) % 2 ? whole : 0);
        f.mtime_ns = (int64_t)whole; /* so another content is another time */
        r = add(st, f);
        if (r.unproven[0]) {
            struct store_met met;
            struct err e = {0};
            int64_t other;

            assert_ok(store_meet(st, &f, &met, &e), e);
            other = met.media_id;
            f = large(path, samples, whole);
            f.mtime_ns = (int64_t)whole;
            if (reads || any(&state) % 2)
                f = with_met(f, other, whole_of[other]);
            r = add(st, f);
        }
        assert_int_equal(r.unproven[0], 0);
        assert_int_equal(r.counts.seen, 1);
        whole_at[at] = whole;
        contents += !found[whole];
        found[whole] = true;
        assert_true(lies_at(st, path) > 0 && lies_at(st, path) < 200);
        if (whole_of[lies_at(st, path)] && whole_of[lies_at(st, path)] != whole)
            fail_msg("seed %d, step %d: %s is taken for another recording", (int)seed, step, path);
        whole_of[lies_at(st, path)] = whole;
    }
    for (size_t i = 0; i < 40; i++) {
        char path[20];

        snprintf(path, sizeof(path), "/a/%zu.wav", i);
        if (whole_at[i])
            assert_int_equal(whole_of[lies_at(st, path)], whole_at[i]);
    }
    if (reads)
        assert_int_equal(count_of("SELECT count(*) FROM media"), contents);
    catalog_close(st);
}

TEST(in_any_order)
{
    const char *more = getenv("NIGHTSHIFT_FAULTS_MORE");

    for (uint64_t seed = 1; seed <= (more ? 40 : 4); seed++)
        play(seed, seed % 2);
}

TEST_MAIN(NULL, NULL)
