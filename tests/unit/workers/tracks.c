#include "tests/unit/workers/tracks.h"

#include <math.h>
#include <unistd.h>

#include "tests/unit/stages/fake_voices.h"
#include "tests/unit/workers/files.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/stages/transcribe/transcribe.h"

static const char *const names[] = {"transcribe", "sounds", "diarize"};

/* ---- rules in place of models */

static uint32_t voices_ms, lag_windows, windows_heard, patches_heard;

/* So that sounds fall behind voices however slow the decoder is: whenever they have heard more than
 * a fifth as much, it is given time. */
static void let_voices_go_ahead(void)
{
    uint32_t windows = __atomic_load_n(&windows_heard, __ATOMIC_RELAXED);
    double sounds_s = patches_heard++ * 0.48, voices_s = windows;

    if (windows < lag_windows && sounds_s > 10 + voices_s / 5)
        usleep(50000);
}

static void sets(float first, uint8_t *ret)
{
    uint32_t bits = (uint32_t)(int32_t)(first * 32768.0f);

    __atomic_add_fetch(&windows_heard, 1, __ATOMIC_RELAXED);
    if (voices_ms)
        usleep(voices_ms * 1000);
    for (uint32_t i = 0; i < PYANNET_FRAMES; i++)
        ret[i] = (uint8_t)(bits >> i / 100 & 3);
}

static void scores(float first, float *ret)
{
    let_voices_go_ahead();
    ret[0] = fabsf(first);
    ret[1] = first > 0 ? 0.5f : 0.0f;
    ret[2] = 0;
}

static uint32_t number(const char *name)
{
    const char *text = getenv(name);

    return text ? (uint32_t)strtol(text, NULL, 10) : 0;
}

bool tracks_dispatch(int argc, char **argv, int *status)
{
    const char *code = getenv("TRACKS_FAIL_CODE");

    fake_models.sets = sets;
    fake_models.scores = scores;
    voices_ms = number("TRACKS_VOICES_MS");
    lag_windows = number("TRACKS_LAG");
    fake_models.windows = number("TRACKS_WINDOWS");
    fake_models.patches = number("TRACKS_PATCHES");
    fake_models.fails_after = number("TRACKS_FAIL");
    fake_models.fails_with = code ? (int)strtol(code, NULL, 10) : 0;
    return play_dispatch(argc, argv, status);
}

/* ---- workers */

/* Made once, and kept for the whole program. */
static const struct msg_stage *stages(void)
{
    static struct msg_stage all[STAGES];
    struct transcribe_params params;
    struct err e = {0};

    if (all[0].name)
        return all;
    transcribe_params_default(&params);
    assert_ok(transcribe_params_to_json(&params, &all[TRANSCRIBE].params_json, &e), e);
    all[TRANSCRIBE].model_dir = strdup(test_source_path("workers/models/whisper-nano"));
    all[SOUNDS].params_json = strdup("{\"vectors\":true}");
    all[SOUNDS].model_dir = files_model();
    all[DIARIZE].params_json = strdup("{}");
    all[DIARIZE].model_dir = files_model();
    for (int i = 0; i < STAGES; i++)
        all[i].name = (char *)names[i];
    return all;
}

struct play_options tracks_of(int stage, const int *beside)
{
    const struct msg_stage *all = stages();
    struct play_options o = {.stage = all[stage].name,
                             .model_dir = all[stage].model_dir,
                             .params = all[stage].params_json,
                             .decoders = 2};

    while (beside[o.beside_count] >= 0) {
        o.beside[o.beside_count] = all[beside[o.beside_count]];
        o.beside_count++;
    }
    return o;
}

struct msg_lease tracks_lease_of(struct play *p, const char *path, uint32_t shard_ms)
{
    struct msg_lease m = play_lease_of(p, path, shard_ms);

    while (m.track_count < p->stage_count)
        play_add_track(&m);
    return m;
}

uint64_t tracks_lease(struct play *p, const char *path, uint32_t shard_ms)
{
    struct msg_lease m = tracks_lease_of(p, path, shard_ms);

    play_put_lease(p, &m);
    play_send(p);
    return m.lease_id;
}

const struct msg_lease_end *tracks_ended(struct play *p, uint64_t lease, int code)
{
    const struct msg_lease_end *end = play_until_end(p, lease);

    if (end->code != code)
        fail_msg("lease %llx: %d (%s), not %d", (unsigned long long)lease, end->code, end->message,
                 code);
    return end;
}

void tracks_alone(int stage, const char *path, uint32_t shard_ms, struct play *ret)
{
    struct play_options o = tracks_of(stage, (const int[]){-1});

    play_ready(ret, &o);
    assert_int_equal(play_until_end(ret, tracks_lease(ret, path, shard_ms))->code, 0);
    assert_int_equal(ret->failed_count, 0);
}

const char *tracks_speech(void)
{
    static char *path;

    if (!path)
        path = files_sample("12_en_long_90s.mp3");
    return path;
}

const struct play *tracks_alone_of(int stage)
{
    static struct play alone[STAGES];

    if (!alone[stage].end_count)
        tracks_alone(stage, tracks_speech(), TRACKS_SHARD_MS, &alone[stage]);
    return &alone[stage];
}

uint32_t tracks_same(const struct play *alone, const struct play *p, uint64_t lease, uint32_t track)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->done_count; i++) {
        if (p->done[i].lease_id != lease || p->done[i].track != track)
            continue;
        play_same(play_shard(alone, 1, p->done[i].seq), &p->done[i]);
        n++;
    }
    return n;
}
