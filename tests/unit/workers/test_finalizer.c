/* A real finalizing process: what it makes of voices, and what it refuses. */
#include "tests/unit/workers/play.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workers/models/files/model_dir.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/process/finalize_main.h"
#include "workers/stages/stage.h"

#define SIZE 8
#define SECONDS 60
#define WINDOWS 51 /* of a minute */

/* ---- files */

static void own_file(const char *dir, const char *name, const void *data, size_t len)
{
    char path[4200];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static char *own_dir(const char *name)
{
    char dir[2048], path[4096];

    assert_non_null(getcwd(dir, sizeof(dir)));
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    mkdir(path, 0777);
    return strdup(path);
}

/* The networks are not read for finalizing; they are hashed. */
static char *own_model(char hash[MODEL_HASH_LEN])
{
    static const char config[] =
        "{\"model_type\":\"nightshift-diarization\",\"min_cluster_size\":3}";
    char *dir = own_dir("model");
    struct err e = {0};

    own_file(dir, "config.json", config, sizeof(config) - 1);
    own_file(dir, "segmentation.safetensors", "s", 1);
    own_file(dir, "embedding.safetensors", "e", 1);
    assert_ok(stage_model_hash("diarize", dir, hash, &e), e);
    return dir;
}

/* ---- voices */

/* The first one speaks for 25 s, the second one from then on, and the first one again at the end,
 * over it. */
static unsigned who(double s)
{
    if (s < 25)
        return 1;
    return s < 50 ? 2 : 3;
}

static uint8_t active[WINDOWS][PYANNET_FRAMES];
static uint32_t of[WINDOWS * 2];
static float vectors[WINDOWS * 2][SIZE];

/* Windows [from, to). A window's first local speaker is the one it hears first. */
static struct result_voices heard(uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t w = from; w < to; w++) {
        unsigned first = who(w) == 2 ? 2 : 1, all = 0;

        for (int f = 0; f < PYANNET_FRAMES; f++) {
            unsigned set = who(w + f * PYANNET_FRAME_S);

            all |= set;
            active[w][f] = (uint8_t)(first == 1 ? set : ((set & 1) << 1) | set >> 1);
        }
        for (unsigned local = 0; local < 2; local++) {
            unsigned speaker = local == 0 ? first : 3 - first;

            if (!(all & speaker))
                continue;
            of[n] = (w - from) * 3 + local;
            for (int i = 0; i < SIZE; i++)
                vectors[n][i] = i == (int)speaker ? 5.0f : 0.2f * sinf((float)(w * 7 + i));
            n++;
        }
    }
    return (struct result_voices){.first = from,
                                  .windows = to - from,
                                  .frames = PYANNET_FRAMES,
                                  .speakers = 3,
                                  .active = active[from],
                                  .size = SIZE,
                                  .vector_count = n,
                                  .of = of,
                                  .vectors = vectors[0]};
}

static struct msg_finalize work(int64_t task, const char *dir, const char *hash, const char *params)
{
    return (struct msg_finalize){.task_id = task,
                                 .model_dir = (char *)dir,
                                 .model_hash = (char *)hash,
                                 .params_json = (char *)params,
                                 .total_ms = SECONDS * 1000};
}

static void begin(struct play *p)
{
    play_start(p, &(struct play_options){.finalize = true});
    while (!p->hello)
        assert_true(play_step(p));
}

/* Both halves of the recording, then its end; waits for the answer. */
static void finalize(struct play *p, const struct msg_finalize *m, uint32_t cut)
{
    uint32_t answers = p->finalized_count + p->finalize_failed;
    struct result_voices v;

    play_put_finalize(p, m);
    v = heard(0, cut);
    play_put_voices(p, &v);
    v = heard(cut, WINDOWS);
    play_put_voices(p, &v);
    play_put_empty(p, MSG_FINALIZE_GO);
    play_send(p);
    while (p->finalized_count + p->finalize_failed == answers)
        assert_true(play_step(p));
}

static void expect_turn(const struct result_turn *t, uint32_t speaker, int64_t start, int64_t end)
{
    assert_int_equal(t->speaker, speaker);
    assert_true(llabs(t->start_ms - start) < 60 && llabs(t->end_ms - end) < 60);
}

TEST(two_voices_are_told_apart)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash);
    const struct result_people *s;
    struct msg_finalize m = work(77, dir, hash, "{}");
    struct play p;

    begin(&p);
    finalize(&p, &m, 20);
    finalize(&p, &m, 50); /* the same, cut elsewhere, by the same process */
    assert_int_equal(p.finalized_count, 2);
    for (int i = 0; i < 2; i++) {
        s = &p.finalized[i].people;
        assert_int_equal(p.finalized[i].task_id, 77);
        assert_int_equal(s->speaker_count, 2);
        assert_int_equal(s->turn_count, 3);
        expect_turn(&s->turns[0], 0, 0, 25000);
        expect_turn(&s->turns[1], 1, 25000, 60000);
        expect_turn(&s->turns[2], 0, 50000, 60000);
        assert_true(llabs(s->speakers[0].speech_ms - 35000) < 120);
        assert_int_equal(s->size, SIZE);
        assert_true(s->speakers[0].values[1] > 0.9f && s->speakers[1].values[2] > 0.9f);
        assert_memory_equal(s->speakers[0].values, p.finalized[0].people.speakers[0].values,
                            SIZE * sizeof(float));
    }
    m.params_json = (char *)"{\"num_speakers\":1}";
    finalize(&p, &m, 1);
    assert_int_equal(p.finalized_count, 3);
    assert_int_equal(p.finalized[2].people.speaker_count, 1);
    play_quit(&p);
    free(dir);
}

/* Of a machine with very many processors: their threads' stacks alone are more address space than
 * a finalizer has. */
TEST(many_processors_are_not_too_many)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash);
    struct msg_finalize m = work(1, dir, hash, "{}");
    struct play p;

    setenv("OMP_NUM_THREADS", "600", 1);
    setenv("OMP_STACKSIZE", "64M", 1);
    begin(&p);
    unsetenv("OMP_NUM_THREADS");
    unsetenv("OMP_STACKSIZE");
    finalize(&p, &m, 20);
    assert_int_equal(p.finalized_count, 1);
    assert_int_equal(p.finalized[0].people.speaker_count, 2);
    play_quit(&p);
    free(dir);
}

TEST(a_silent_recording_has_nobody)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash);
    struct msg_finalize m = work(1, dir, hash, "{}");
    struct result_voices none = {0};
    struct play p;

    begin(&p);
    play_put_finalize(&p, &m);
    play_put_voices(&p, &none);
    play_put_empty(&p, MSG_FINALIZE_GO);
    play_send(&p);
    while (!p.finalized_count)
        assert_true(play_step(&p));
    assert_int_equal(p.finalized[0].people.speaker_count, 0);
    assert_int_equal(p.finalized[0].people.turn_count, 0);
    play_quit(&p);
    free(dir);
}

/* Its files need not be read for each of very many short recordings. */
TEST(the_model_is_looked_at_once)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash);
    struct msg_finalize m = work(1, dir, hash, "{}"), other = work(2, dir, "00", "{}");
    struct play p;

    begin(&p);
    finalize(&p, &m, 20);
    assert_int_equal(p.finalized_count, 1);
    own_file(dir, "embedding.safetensors", "x", 1);
    finalize(&p, &m, 20);
    assert_int_equal(p.finalized_count, 2);
    finalize(&p, &other, 20); /* of another one nothing is known */
    assert_int_equal(p.finalize_code, ERR_MODEL);
    finalize(&p, &m, 20); /* and the first one was forgotten for it */
    assert_int_equal(p.finalize_failed, 2);
    own_file(dir, "embedding.safetensors", "e", 1);
    finalize(&p, &m, 20);
    assert_int_equal(p.finalized_count, 3);
    play_quit(&p);
    free(dir);
}

/* Each costs its own recording alone: the process goes on. */
TEST(what_cannot_be_finalized_is_said)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash);
    struct msg_finalize m = work(1, dir, "00", "{}");
    struct result_voices v;
    struct play p;

    begin(&p);
    finalize(&p, &m, 20);
    assert_int_equal(p.finalize_code, ERR_MODEL);
    m = work(2, "/nonexistent", hash, "{}");
    finalize(&p, &m, 20);
    assert_int_equal(p.finalize_code, ERR_MODEL);
    m = work(3, dir, hash, "{\"speakers\":1}");
    finalize(&p, &m, 20);
    assert_int_equal(p.finalize_code, ERR_MODEL);
    m = work(4, dir, hash, "{\"clustering\":\"vbx\"}"); /* its model has no PLDA */
    finalize(&p, &m, 20);
    assert_int_equal(p.finalize_code, ERR_MODEL);
    assert_int_equal(p.finalize_failed, 4);

    m = work(5, dir, hash, "{}");
    play_put_finalize(&p, &m);
    v = heard(0, 20);
    play_put_voices(&p, &v);
    v = heard(21, WINDOWS); /* a second is missing */
    play_put_voices(&p, &v);
    play_put_empty(&p, MSG_FINALIZE_GO);
    play_send(&p);
    while (p.finalize_failed < 5)
        assert_true(play_step(&p));
    assert_int_equal(p.finalize_code, ERR_INPUT);
    finalize(&p, &m, 20);
    assert_int_equal(p.finalized_count, 1);
    play_quit(&p);
    free(dir);
}

/* A disk that fails once does not cost every recording of the stage. */
TEST(a_model_that_cannot_be_read_is_read_again)
{
    char hash[MODEL_HASH_LEN], *dir = own_model(hash), name[4200], aside[4200];
    struct msg_finalize m = work(1, dir, hash, "{}");
    struct result_voices v = heard(0, WINDOWS);
    struct play p;

    snprintf(name, sizeof(name), "%s/embedding.safetensors", dir);
    snprintf(aside, sizeof(aside), "%s.aside", name);
    assert_int_equal(rename(name, aside), 0);
    assert_int_equal(mknod(name, S_IFSOCK | 0666, 0), 0); /* ENXIO, which is as good as EIO */
    begin(&p);
    play_put_finalize(&p, &m);
    play_put_voices(&p, &v);
    play_put_empty(&p, MSG_FINALIZE_GO);
    play_send(&p);
    while (!strstr(p.log, "it is read again"))
        assert_true(play_step(&p) && !p.finalize_failed);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rename(aside, name), 0);
    while (!p.finalized_count)
        assert_true(play_step(&p) && !p.finalize_failed);
    play_quit(&p);
    free(dir);
}

TEST(messages_out_of_order_end_it)
{
    struct play p;
    int status;

    for (int i = 0; i < 3; i++) {
        struct result_voices v = heard(0, 2);

        begin(&p);
        if (i == 0)
            play_put_voices(&p, &v);
        else
            play_put_empty(&p, i == 1 ? MSG_FINALIZE_GO : MSG_DRAIN);
        play_send(&p);
        play_until_gone(&p);
        status = play_wait(&p);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
        assert_int_equal(p.finalized_count + p.finalize_failed, 0);
        play_free(&p);
    }
    begin(&p); /* the scheduler's end is its own */
    close(p.fd);
    p.fd = -1;
    status = play_wait(&p);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    play_free(&p);
}

int main(int argc, char **argv)
{
    int status;

    if (play_dispatch(argc, argv, &status))
        return status;
    return suite_run(NULL, NULL);
}
