/* Leases of members of archives that are read from their front: one reading serves many. */
#include "tests/unit/workers/play.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "tests/unit/workers/files.h"

#define MEMBERS 6
#define SHARD_MS 300000

struct archive {
    char *members[MEMBERS]; /* "m0.wav" ..., beside it */
    char *path, *moved;
};

/* Some speech, from another place for each. */
static char *make_member(int i)
{
    char name[16], *sample = files_sample("01_en_short.wav"), *path;
    FILE *f = fopen(sample, "rb");
    int16_t *pcm = calloc(16000, sizeof(*pcm));

    assert_non_null(f);
    assert_int_equal(fseek(f, 44 + 6400 * i, SEEK_SET), 0);
    assert_int_equal(fread(pcm, sizeof(*pcm), 16000, f), 16000);
    fclose(f);
    snprintf(name, sizeof(name), "m%d.wav", i);
    path = files_wav(name, pcm, 16000);
    free(pcm);
    free(sample);
    return path;
}

static void setup(struct archive *a, const char *make)
{
    char command[512];

    if (system("command -v tar gzip >/dev/null 2>&1") != 0)
        skip();
    for (int i = 0; i < MEMBERS; i++)
        a->members[i] = make_member(i);
    snprintf(command, sizeof(command), "rm -f a.tgz moved.tgz; %s", make);
    assert_int_equal(system(command), 0);
    a->path = files_path("a.tgz");
    a->moved = files_path("moved.tgz");
}

static void teardown(struct archive *a)
{
    for (int i = 0; i < MEMBERS; i++)
        free(a->members[i]);
    free(a->path);
    free(a->moved);
}

#define ALL "tar czf a.tgz m0.wav m1.wav m2.wav m3.wav m4.wav m5.wav"

static struct msg_lease lease_of(struct play *p, const struct archive *a, int i)
{
    static char names[MEMBERS][16];
    struct msg_lease m = play_lease_of(p, a->members[i], SHARD_MS);

    snprintf(names[i], sizeof(names[i]), "m%d.wav", i);
    m.path = a->path;
    m.member = names[i];
    return m;
}

static void give(struct play *p, const struct archive *a, int i)
{
    struct msg_lease m = lease_of(p, a, i);

    play_put_lease(p, &m);
    play_send(p);
}

/* With the results of the same recording by itself. */
static void expect_done(struct play *p, const struct archive *a, uint64_t lease, int i)
{
    const struct msg_lease_end *end = play_until_end(p, lease), *plain;
    struct msg_lease m;

    if (end->code != 0)
        fail_msg("member %d: %s", i, end->message);
    assert_true(end->reached_end && end->has_hash);
    m = play_lease_of(p, a->members[i], SHARD_MS);
    play_put_lease(p, &m);
    play_send(p);
    plain = play_until_end(p, m.lease_id);
    assert_int_equal(plain->code, 0);
    assert_memory_equal(end->content_hash, plain->content_hash, 16);
    assert_string_equal(end->damage, "");
    play_same(play_shard(p, lease, 0), play_shard(p, m.lease_id, 0));
}

static void give_one(struct play *p, const struct archive *a, int i)
{
    const uint64_t lease = p->next_lease;

    give(p, a, i);
    expect_done(p, a, lease, i);
}

/* Once its first member has been read, nothing opens the archive again: it can be taken away. */
TEST(one_reading_serves_all)
{
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    first = p.next_lease;
    give(&p, &a, 1);
    play_until_end(&p, first);
    assert_int_equal(rename(a.path, a.moved), 0);
    give(&p, &a, 2);
    give(&p, &a, 4); /* 3 is not wanted */
    give(&p, &a, 5);
    expect_done(&p, &a, first, 1);
    expect_done(&p, &a, first + 1, 2);
    expect_done(&p, &a, first + 2, 4);
    expect_done(&p, &a, first + 3, 5);
    play_quit(&p);
    teardown(&a);
}

/* More than may be kept at once, of the same member and then of others. */
TEST(many_leases_at_once)
{
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    first = p.next_lease;
    for (int i = 0; i < 70; i++) {
        struct msg_lease m = lease_of(&p, &a, 1);

        play_put_lease(&p, &m);
    }
    give(&p, &a, 2);
    give(&p, &a, 3);
    for (uint64_t i = 0; i < 72; i++)
        assert_int_equal(play_until_end(&p, first + i)->code, 0);
    play_quit(&p);
    teardown(&a);
}

/* Behind the reading: there is another one, and that one serves what comes after it as well. */
TEST(who_is_behind_is_served_by_the_next_reading)
{
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 1, .slots = 4});
    give_one(&p, &a, 4);
    give_one(&p, &a, 0);
    assert_int_equal(rename(a.path, a.moved), 0);
    first = p.next_lease;
    give(&p, &a, 1);
    give(&p, &a, 3);
    expect_done(&p, &a, first, 1);
    expect_done(&p, &a, first + 1, 3);
    play_quit(&p);
    teardown(&a);
}

/* Less memory than two members take, and less than one: all are done. */
TEST(memory_is_bounded_and_nothing_waits_for_ever)
{
    static const uint64_t bounds[] = {50000, 20000, 1};

    for (size_t k = 0; k < 3; k++) {
        struct archive a;
        struct play p;
        uint64_t first;

        setup(&a, ALL);
        play_ready(&p, &(struct play_options){.decoders = 2, .slots = 2, .pcm_bytes = bounds[k]});
        first = p.next_lease;
        for (int i = 0; i < MEMBERS; i++)
            give(&p, &a, i);
        for (int i = 0; i < MEMBERS; i++)
            expect_done(&p, &a, first + (uint64_t)i, i);
        play_quit(&p);
        teardown(&a);
    }
}

/* Readings begin and end beside each other. */
TEST(several_archives_at_once)
{
    static char paths[MEMBERS][64];
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 4, .slots = 4});
    first = p.next_lease;
    for (int k = 0; k < MEMBERS; k++) {
        char *path;

        snprintf(paths[k], sizeof(paths[k]), "rm -f s%d.tgz; cp a.tgz s%d.tgz", k, k);
        assert_int_equal(system(paths[k]), 0);
        snprintf(paths[k], sizeof(paths[k]), "s%d.tgz", k);
        path = files_path(paths[k]);
        for (int i = 0; i < MEMBERS; i++) {
            struct msg_lease m = lease_of(&p, &a, i);

            m.path = path;
            play_put_lease(&p, &m);
        }
        free(path);
    }
    play_send(&p);
    for (uint64_t i = 0; i < (uint64_t)MEMBERS * MEMBERS; i++)
        assert_int_equal(play_until_end(&p, first + i)->code, 0);
    play_quit(&p);
    teardown(&a);
}

/* A recording that needs most of the memory is not put off for all the small ones that others could
 * begin instead. */
TEST(a_large_one_gets_its_room)
{
    enum { SMALL = 50, LARGE_AT = 15 };
    static char names[SMALL + 1][16];
    static int16_t pcm[100000];
    struct archive a;
    struct play p;
    struct msg_lease m;
    char *large = files_wav("large.wav", pcm, 100000), *path;
    uint64_t first;
    uint32_t at = 0;

    setup(&a, "rm -rf k && mkdir k && for i in `seq 100 150`; do cp m0.wav k/$i.wav; done && "
              "(cd k && tar czf ../a.tgz *) && tar czf large.tgz large.wav");
    path = files_path("large.tgz");
    play_ready(&p, &(struct play_options){
                       .decoders = 4, .slots = 4, .pcm_bytes = 240000, .fault = "slow-step:20"});
    first = p.next_lease;
    for (int i = 0; i <= SMALL; i++) {
        m = i == LARGE_AT ? play_lease_of(&p, large, SHARD_MS) : lease_of(&p, &a, 0);
        m.path = i == LARGE_AT ? path : a.path;
        snprintf(names[i], sizeof(names[i]), "%d.wav", 100 + i);
        m.member = i == LARGE_AT ? (char *)"large.wav" : names[i];
        play_put_lease(&p, &m);
        if (i == LARGE_AT - 1) {
            play_send(&p);
            play_until_end(&p, first); /* all threads have something to do */
        }
    }
    play_send(&p);
    for (uint64_t i = 0; i <= SMALL; i++)
        assert_int_equal(play_until_end(&p, first + i)->code, 0);
    while (p.media[at].lease_id != first + LARGE_AT)
        at++;
    assert_in_range(at, LARGE_AT / 2, SMALL - LARGE_AT);
    play_quit(&p);
    free(path);
    free(large);
    teardown(&a);
}

/* What came first is begun first, also when there are recordings that need no reading. */
TEST(a_reading_is_not_put_off_for_files)
{
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_start(&p, &(struct play_options){.decoders = 1, .slots = 4});
    first = p.next_lease; /* before it is ready: all are there when it begins */
    for (int i = 0; i < MEMBERS; i++) {
        struct msg_lease m = i ? play_lease_of(&p, a.members[i], SHARD_MS) : lease_of(&p, &a, 3);

        play_put_lease(&p, &m);
    }
    play_send(&p);
    for (uint64_t i = 0; i < MEMBERS; i++)
        assert_int_equal(play_until_end(&p, first + i)->code, 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(p.media[i].lease_id, first + i);
    play_quit(&p);
    teardown(&a);
}

/* Two members of one name, of which the archive has had the order changed since. */
TEST(the_fingerprint_has_the_last_word)
{
    struct archive a;
    struct play p;
    struct msg_lease m;

    setup(&a, "mkdir -p o && cp m1.wav o/m0.wav && tar czf a.tgz m0.wav -C o m0.wav");
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    m = lease_of(&p, &a, 0);
    m.nth = 1;
    play_put_lease(&p, &m);
    play_send(&p);
    expect_done(&p, &a, m.lease_id, 0);
    m = lease_of(&p, &a, 0);
    m.fingerprint[0] ^= 1;
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, ERR_CHANGED);
    m = lease_of(&p, &a, 0);
    m.member = (char *)"none.wav";
    play_put_lease(&p, &m);
    play_send(&p);
    assert_int_equal(play_until_end(&p, m.lease_id)->code, ERR_MISSING);
    play_quit(&p);
    teardown(&a);
}

/* The worker's children but the first, which is what forks the others; they are sent sig. */
static int unpackers(pid_t worker, int sig)
{
    DIR *proc = opendir("/proc");
    pid_t found[16], least = 0;
    int n = 0, sent = 0;

    assert_non_null(proc);
    for (const struct dirent *e; (e = readdir(proc)) && n < 16;) {
        char path[300], text[512] = "";
        int pid = atoi(e->d_name), parent = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        f = pid > 0 ? fopen(path, "r") : NULL;
        if (!f)
            continue;
        if (fgets(text, sizeof(text), f) && strrchr(text, ')'))
            sscanf(strrchr(text, ')') + 1, " %*c %d", &parent);
        fclose(f);
        if (parent == worker)
            found[n++] = pid;
    }
    closedir(proc);
    for (int i = 0; i < n; i++)
        least = least == 0 || found[i] < least ? found[i] : least;
    for (int i = 0; i < n; i++)
        if (found[i] != least)
            sent += kill(found[i], sig) == 0;
    return sent;
}

/* The archive is made again, with what m3 was as m2, and the other way round: what is wanted from
 * then on is in the new one, which is read once, too. */
static void make_anew(const char *how)
{
    struct archive a;
    struct play p;
    struct msg_lease m;

    setup(&a, ALL "; mkdir -p o && cp m2.wav o/m3.wav && cp m3.wav o/m2.wav && "
                  "tar czf moved.tgz -C o m2.wav m3.wav");
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    give_one(&p, &a, 1);
    assert_int_equal(system(how), 0);
    for (int i = 3; i >= 2; i--) {
        m = lease_of(&p, &a, i);
        m.member = (char *)(i == 3 ? "m2.wav" : "m3.wav");
        play_put_lease(&p, &m);
        play_send(&p);
        expect_done(&p, &a, m.lease_id, i);
        rename(a.path, a.moved);
    }
    play_quit(&p);
    teardown(&a);
}

TEST(another_archive_at_its_place) { make_anew("mv moved.tgz a.tgz"); }

TEST(an_archive_that_is_written_anew_in_its_place) { make_anew("cat moved.tgz > a.tgz"); }

/* Of the recordings of an archive that was made anew the first is looked for in all of it, others
 * are not: so they end in the same way when it has been taken away. */
TEST(one_that_was_looked_for_in_vain_speaks_for_others)
{
    static const int order[] = {1, 3, 4, 5, 2};
    struct archive a;
    struct play p;
    struct msg_lease m;
    uint64_t first;

    setup(&a, "mkdir -p o && cp m0.wav o/m1.wav && cp m1.wav o/m2.wav && cp m3.wav o/m3.wav && "
              "tar czf a.tgz -C o m3.wav m1.wav m2.wav");
    play_start(&p, &(struct play_options){.decoders = 1, .slots = 4});
    first = p.next_lease; /* before it is ready: they wait for the same reading */
    for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
        m = lease_of(&p, &a, order[k]);
        play_put_lease(&p, &m);
    }
    play_send(&p);
    play_until_media(&p); /* of m3, behind m1 */
    assert_int_equal(rename(a.path, a.moved), 0);
    assert_int_equal(play_until_end(&p, first)->code, ERR_CHANGED);
    assert_int_equal(play_until_end(&p, first + 1)->code, 0);
    for (uint64_t i = 2; i <= 3; i++) {
        assert_int_equal(play_until_end(&p, first + i)->code, ERR_MISSING);
        assert_string_equal(play_until_end(&p, first + i)->message,
                            "the archive has no such member (any more)");
    }
    assert_int_equal(play_until_end(&p, first + 4)->code, ERR_CHANGED);
    play_quit(&p);
    teardown(&a);
}

static int code_of(struct play *p, const struct archive *a, int i, const char *member)
{
    struct msg_lease m = lease_of(p, a, i);

    m.member = member ? (char *)member : m.member;
    play_put_lease(p, &m);
    play_send(p);
    return play_until_end(p, m.lease_id)->code;
}

/* What cannot be read may be what is looked for, and whoever looks for it by its name is told why.
 */
TEST(one_that_is_damaged_too_is_looked_into)
{
    struct archive a;
    struct play p;

    setup(&a, "mkdir -p o && cp m0.wav o/m1.wav && printf 'PK\\003\\004none' > o/bad.zip && "
              "tar czf a.tgz -C o m1.wav bad.zip");
    play_ready(&p, &(struct play_options){.decoders = 1, .slots = 4});
    assert_int_equal(code_of(&p, &a, 1, NULL), ERR_CHANGED);
    assert_int_equal(code_of(&p, &a, 2, "bad.zip//m2.wav"), ERR_INPUT);
    play_quit(&p);
    teardown(&a);
}

/* Made anew once more it is another one: the second of a name may be the one that is meant. */
TEST(what_was_looked_for_in_vain_is_forgotten_with_the_file)
{
    struct archive a;
    struct play p;

    setup(&a, "mkdir -p o && cp m0.wav o/m1.wav && cp m1.wav o/m2.wav && "
              "tar czf a.tgz -C o m1.wav && tar czf moved.tgz -C o m2.wav -C .. m2.wav");
    play_ready(&p, &(struct play_options){.decoders = 1, .slots = 4});
    assert_int_equal(code_of(&p, &a, 1, NULL), ERR_CHANGED);
    assert_int_equal(rename(a.moved, a.path), 0);
    give_one(&p, &a, 2);
    play_quit(&p);
    teardown(&a);
}

/* Nobody's recording is to blame for a reading that was killed; it is told of. */
TEST(a_reading_that_is_killed_begins_again)
{
    struct archive a;
    struct play p;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 1, .slots = 4, .no_leak_check = true});
    for (int i = 0; i < 3; i++) {
        const uint64_t lease = p.next_lease;

        give(&p, &a, i);
        assert_int_equal(play_until_end(&p, lease)->code, 0);
        assert_int_equal(unpackers(p.pid, SIGKILL), 1);
    }
    give_one(&p, &a, 3);
    assert_non_null(strstr(p.log, "a.tgz: the decoder was killed"));
    play_quit(&p);
    teardown(&a);
}

/* A disk can be taken out while a run waits for what comes. */
TEST(an_archive_is_closed_when_nothing_is_left_to_do)
{
    struct archive a;
    struct play p;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 4});
    give(&p, &a, 1);
    play_until_end(&p, p.next_lease - 1);
    assert_int_equal(unpackers(p.pid, 0), 1);
    while (unpackers(p.pid, 0) > 0) /* a heartbeat a second */
        assert_true(play_step(&p) && p.beats < 60);
    give_one(&p, &a, 2);
    play_quit(&p);
    teardown(&a);
}

/* Nor is it held while there is work enough in other files. */
TEST(an_archive_is_closed_when_the_rest_is_of_others)
{
    struct archive a;
    struct play p;
    struct msg_lease m;
    char *sample = files_sample("12_en_long_90s.mp3");

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 1, .fault = "slow-step:200"});
    give_one(&p, &a, 1);
    m = play_lease_of(&p, sample, SHARD_MS);
    play_put_lease(&p, &m);
    play_send(&p);
    play_until_busy(&p);
    play_forget(&p);
    while (unpackers(p.pid, 0) > 0)
        assert_true(play_step(&p) && p.end_count == 0);
    play_put_cancel(&p, m.lease_id);
    play_send(&p);
    play_until_end(&p, m.lease_id);
    play_quit(&p);
    free(sample);
    teardown(&a);
}

/* But it is while the engine has its hands full with what came of it: more of it will be asked for,
 * and lies behind that. */
TEST(an_archive_stays_open_while_its_recordings_are_heard)
{
    struct archive a;
    struct play p;
    struct msg_lease m;
    char *sample = files_sample("12_en_long_90s.mp3"), command[512];
    uint64_t first;

    snprintf(command, sizeof(command), "cp '%s' long.mp3 && tar czf a.tgz long.mp3 m1.wav", sample);
    setup(&a, command);
    play_ready(&p, &(struct play_options){.decoders = 2, .slots = 1, .fault = "slow-step:200"});
    m = play_lease_of(&p, sample, SHARD_MS);
    m.path = a.path;
    m.member = (char *)"long.mp3";
    first = m.lease_id;
    play_put_lease(&p, &m);
    play_send(&p);
    play_until_media(&p);
    assert_int_equal(rename(a.path, a.moved), 0);
    for (const uint32_t beats = p.beats; p.beats < beats + 8;) /* a second each */
        assert_true(play_step(&p) && p.end_count == 0);
    give(&p, &a, 1);
    play_put_cancel(&p, first);
    play_send(&p);
    expect_done(&p, &a, first + 1, 1);
    play_quit(&p);
    free(sample);
    teardown(&a);
}

/* What waits for a reading is given up with all else. */
TEST(cancelled_and_drained_while_it_waits)
{
    struct archive a;
    struct play p;
    uint64_t first;

    setup(&a, ALL);
    play_ready(&p, &(struct play_options){.decoders = 1, .slots = 1, .pcm_bytes = 1});
    first = p.next_lease;
    for (int i = 0; i < MEMBERS; i++) {
        struct msg_lease m = lease_of(&p, &a, i);

        play_put_lease(&p, &m);
    }
    play_put_cancel(&p, first + 2);
    play_send(&p);
    assert_int_equal(play_until_end(&p, first + 2)->code, ERR_CANCELLED);
    play_put_empty(&p, MSG_DRAIN);
    play_send(&p);
    for (uint64_t i = 0; i < MEMBERS; i++) {
        int code = play_until_end(&p, first + i)->code;

        assert_true(code == 0 || code == ERR_CANCELLED);
    }
    play_quit(&p);
    teardown(&a);
}

int main(int argc, char **argv)
{
    int status;

    if (play_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
