/* Diarization behind stage.h: what the two networks hear of each window of 10 s, every second.
 *
 * Sixteen windows are a tile: 25 s of sound every 16 s, on a grid that begins with the recording.
 * Voice activity and the convolutions of the speaker encoder hear a tile once, and windows are cut
 * from what they yield. So a tile is what windowed.h calls a window, and what it yields depends on
 * neither shards nor batches. Its windows belong to the shard in which the tile begins.
 *
 *   window -> sets of local speakers for each frame (models/pyannote/pyannet.h), emptied where no
 *             voice is heard (speech_mask.h), if the job has a model for that
 *          -> for each local speaker that speaks, a mask of the frames where nobody else does; of
 *             all its frames when those are too few
 *          -> a vector of its voice (models/pyannote/voiceprint.h), left out where the mask is too
 *             short
 *
 * Which local speaker of which window is who is found out for the recording as a whole, when it is
 * finalized (workers/process/finalize_main.h). Overlapping speech is masked as Bredin does
 * (pyannote.audio 2.1 speaker diarization pipeline, Interspeech 2023). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/models/files/weights.h"
#include "workers/models/pyannote/diarization_dir.h"
#include "workers/models/pyannote/plda_file.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/footprint.h"
#include "workers/stages/hearing_params.h"
#include "workers/stages/speech_mask.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/stage_params.h"
#include "workers/stages/windowed.h"

/* Frames of clean speech that a vector is made of, or more: 1680 samples (two steps of the
 * ResNet's last layer, the least that have a deviation) of a window's 160000, rounded up. */
#define CLEAN_FRAMES 7
#define VOICE_VALUES 256         /* of a voice's vector: ResNet34 of WeSpeaker */
#define TILE SPEECH_MASK_WINDOWS /* windows */
#define TILE_SAMPLES (PYANNET_SAMPLES + (TILE - 1) * PYANNET_STEP)

/* A lane's own: as struct result_voices. */
struct heard {
    int64_t first;
    uint32_t windows, window_room;
    uint8_t *active; /* [windows][PYANNET_FRAMES] */
    uint32_t vector_count, vector_room;
    uint32_t *of;
    float *vectors;
};

struct diarization {
    struct windowed *windowed; /* first: windowed.h */
    struct pyannet *segmentation;
    struct voiceprint *voices;
    struct speech_mask *speech; /* NULL: whoever the networks hear speaks */
    struct speech_tile *tiles;  /* [batch]: of a call */
    size_t *tile_at;            /* [batch]: where a tile's samples begin */
    size_t *at;                 /* [batch][TILE]: where a window's samples begin */
    uint8_t *sets;              /* [batch][TILE][PYANNET_FRAMES] */
    float *weights;             /* [batch][TILE][PYANNET_SPEAKERS][PYANNET_FRAMES] */
    struct voice_mask *masks;   /* [batch][TILE][PYANNET_SPEAKERS] */
    uint32_t *of;               /* [batch][TILE][PYANNET_SPEAKERS]: window * PYANNET_SPEAKERS +
                                   speaker */
    float *vectors;             /* [batch][TILE][PYANNET_SPEAKERS][size] */
};

/* ---- masks */

/* Frames of local speaker s: in `ret` 1 where it counts. False: it is silent. */
static bool mask_of(const uint8_t *sets, uint32_t s, float *ret)
{
    uint8_t bit = (uint8_t)(1u << s);
    uint32_t all = 0, clean = 0;

    for (uint32_t f = 0; f < PYANNET_FRAMES; f++) {
        all += (sets[f] & bit) != 0;
        clean += sets[f] == bit;
    }
    for (uint32_t f = 0; f < PYANNET_FRAMES; f++)
        ret[f] = clean > CLEAN_FRAMES ? sets[f] == bit : (sets[f] & bit) != 0;
    return all > 0;
}

/* Masks of tiles [from, to), which are numbered from 0 in them; whose they are goes to `of`. */
static uint32_t make_masks(struct diarization *d, uint32_t from, uint32_t to, uint32_t *of)
{
    uint32_t n = 0;

    for (uint32_t i = from; i < to; i++)
        for (uint32_t k = 0; k < d->tiles[i].windows * PYANNET_SPEAKERS; k++) {
            uint32_t window = k / PYANNET_SPEAKERS;
            float *weights = d->weights + (size_t)n * PYANNET_FRAMES;

            if (!mask_of(d->tiles[i].sets + (size_t)window * PYANNET_FRAMES, k % PYANNET_SPEAKERS,
                         weights))
                continue;
            d->masks[n] = (struct voice_mask){.window = i - from,
                                              .weights = weights,
                                              .begin = window * PYANNET_STEP,
                                              .length = PYANNET_SAMPLES};
            of[n++] = i * TILE * PYANNET_SPEAKERS + k;
        }
    return n;
}

/* ---- what a lane has */

static int room_for(struct heard *h, uint32_t vectors, uint32_t size, struct err *err)
{
    uint32_t windows = h->windows + 1, count = h->vector_count + vectors;

    if (windows > h->window_room) {
        uint32_t capacity = 2 * windows + 62;
        uint8_t *active = realloc(h->active, (size_t)capacity * PYANNET_FRAMES);

        if (!active)
            return err_set(err, ERR_NOMEM, "no memory for %u windows of voices", windows);
        h->active = active;
        h->window_room = capacity;
    }
    if (count > h->vector_room) {
        uint32_t capacity = 2 * count + 62;
        uint32_t *of = realloc(h->of, capacity * sizeof(*of));
        float *all;

        if (of)
            h->of = of;
        all = of ? realloc(h->vectors, (size_t)capacity * size * sizeof(*all)) : NULL;
        if (!all)
            return err_set(err, ERR_NOMEM, "no memory for %u voices", count);
        h->vectors = all;
        h->vector_room = capacity;
    }
    return 0;
}

static bool is_finite(const float *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

/* Adds a window with the `n` vectors of it from `at` on; there is room. */
static void store_window_voices(const struct diarization *d, struct heard *h, const uint8_t *sets,
                                uint32_t at, uint32_t n)
{
    uint32_t size = voiceprint_size(d->voices);

    memcpy(h->active + (size_t)h->windows * PYANNET_FRAMES, sets, PYANNET_FRAMES);
    for (uint32_t v = at; v < at + n; v++) {
        const float *values = d->vectors + (size_t)v * size;

        if (!is_finite(values, size))
            continue;
        h->of[h->vector_count] = h->windows * PYANNET_SPEAKERS + d->of[v] % PYANNET_SPEAKERS;
        memcpy(h->vectors + (size_t)h->vector_count * size, values, size * sizeof(*values));
        h->vector_count++;
    }
    h->windows++;
}

/* ---- running */

/* The windows of a tile: the last one is the first that hears its last sample. */
static uint32_t count_windows(const struct windowed_item *it)
{
    int64_t more = it->samples - PYANNET_SAMPLES;

    return more > 0 ? 1 + (uint32_t)((more + PYANNET_STEP - 1) / PYANNET_STEP) : 1;
}

/* Where the windows of the n tiles are. Returns how many there are. */
static uint32_t place_windows(struct diarization *d, const struct windowed_item *items, uint32_t n)
{
    uint32_t windows = 0;

    for (uint32_t i = 0; i < n; i++) {
        d->tile_at[i] = (size_t)(items[i].pcm - items[0].pcm);
        d->tiles[i] = (struct speech_tile){items[i].pcm, count_windows(&items[i]),
                                           d->sets + (size_t)windows * PYANNET_FRAMES};
        for (uint32_t k = 0; k < d->tiles[i].windows; k++)
            d->at[windows++] = d->tile_at[i] + (size_t)k * PYANNET_STEP;
    }
    return windows;
}

static int find_sets(struct diarization *d, const float *pcm, uint32_t windows, struct err *err)
{
    uint32_t most = pyannet_windows(d->segmentation), batch = TILE * windowed_batch(d->windowed);
    int rc = 0;

    if (most > batch)
        most = batch; /* what was too much for the device once */
    for (uint32_t from = 0; rc == 0 && from < windows; from += most)
        rc = pyannet_run(d->segmentation, pcm, d->at + from,
                         windows - from < most ? windows - from : most,
                         d->sets + (size_t)from * PYANNET_FRAMES, err);
    return rc;
}

/* The tiles from `from` on that are as long as it, as many as the encoder takes at once. */
static uint32_t find_equal_tiles(const struct diarization *d, uint32_t from, uint32_t n)
{
    uint32_t most = voiceprint_windows(d->voices), to = from + 1;

    while (to < n && to - from < most && d->tiles[to].windows == d->tiles[from].windows)
        to++;
    return to;
}

/* Vectors of all masks. */
static int hear_voices(struct diarization *d, const float *pcm, uint32_t n, uint32_t *count,
                       struct err *err)
{
    uint32_t size = voiceprint_size(d->voices), done = 0, to;
    int rc = 0;

    for (uint32_t from = 0; rc == 0 && from < n; from = to) {
        size_t samples = PYANNET_SAMPLES + (size_t)(d->tiles[from].windows - 1) * PYANNET_STEP;
        uint32_t masks;

        to = find_equal_tiles(d, from, n);
        masks = make_masks(d, from, to, d->of + done);
        if (!masks)
            continue;
        rc = voiceprint_run(d->voices, pcm, d->tile_at + from, samples, to - from, d->masks, masks,
                            PYANNET_FRAMES, d->vectors + (size_t)done * size, err);
        done += masks;
    }
    *count = done;
    return rc;
}

/* An error is of the host's memory, and ends the worker: nothing is undone. */
static int keep_all(struct diarization *d, const struct windowed_item *items, uint32_t n,
                    uint32_t count, struct err *err)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < d->tiles[i].windows; k++) {
            struct heard *h = items[i].state;
            uint32_t own = 0;
            int rc;

            if (h->windows == 0)
                h->first = items[i].first * TILE;
            while (at + own < count && d->of[at + own] / PYANNET_SPEAKERS == i * TILE + k)
                own++;
            rc = room_for(h, own, voiceprint_size(d->voices), err);
            if (rc != 0)
                return rc;
            store_window_voices(d, h, d->tiles[i].sets + (size_t)k * PYANNET_FRAMES, at, own);
            at += own;
        }
    return 0;
}

static int diarize_tiles(void *arg, const struct windowed_item *items, uint32_t n, struct err *err)
{
    struct diarization *d = arg;
    uint32_t windows = place_windows(d, items, n), count = 0;
    int rc = find_sets(d, items[0].pcm, windows, err);

    if (rc == 0 && d->speech)
        rc = speech_mask_run(d->speech, d->tiles, n, err);
    if (rc == 0)
        rc = hear_voices(d, items[0].pcm, n, &count, err);
    return rc != 0 ? rc : keep_all(d, items, n, count, err);
}

static int collect_voices(void *arg, void *state, struct stage_result *ret, struct err *err)
{
    const struct diarization *d = arg;
    const struct heard *h = state;

    (void)err;
    ret->windows = h->windows; /* and not how many tiles */
    if (h->windows == 0)
        return 0;
    ret->voices = (struct result_voices){
        .first = (uint32_t)h->first,
        .windows = h->windows,
        .frames = PYANNET_FRAMES,
        .speakers = PYANNET_SPEAKERS,
        .size = voiceprint_size(d->voices),
        .vector_count = h->vector_count,
        .active = h->active,
        .of = h->of,
        .vectors = h->vectors,
    };
    return 0;
}

static void free_diarize_state(void *arg, void *state)
{
    struct heard *h = state;

    (void)arg;
    free(h->active);
    free(h->of);
    free(h->vectors);
}

/* ---- opening */

static void diarization_close(void *self)
{
    struct diarization *d = self;

    windowed_free(d->windowed);
    pyannet_free(d->segmentation);
    voiceprint_free(d->voices);
    speech_mask_free(d->speech);
    free(d->tiles);
    free(d->tile_at);
    free(d->at);
    free(d->sets);
    free(d->weights);
    free(d->masks);
    free(d->of);
    free(d->vectors);
    free(d);
}

/* The finalizer needs a PLDA for clustering by VBx. size: values of a voice's vector. */
static int check_plda(const struct diarize_stage_params *p, const struct diarization_dir *dir,
                      uint32_t size, struct err *err)
{
    bool vbx = p->clustering_said ? p->p.clustering == DIARIZE_VBX : dir->vbx;
    struct plda *plda = NULL;
    int rc;

    if (!vbx)
        return 0;
    if (!dir->plda)
        return err_set(err, ERR_USAGE, "clustering by VBx needs a model that has a PLDA");
    rc = plda_open(dir->plda, &plda, err);
    if (rc == 0 && plda_size(plda) != size)
        rc = err_set(err, ERR_MODEL, "%s is of voices of %u values, the model's have %u", dir->plda,
                     plda_size(plda), size);
    plda_free(plda);
    return rc == ERR_MISSING || rc == ERR_DENIED ? (err->code = ERR_MODEL) : rc;
}

static uint32_t tiles_of(uint32_t windows) { return (windows + TILE - 1) / TILE; }

static uint64_t predict_diarize_bytes(uint32_t windows, bool gpu, bool speech)
{
    return pyannet_predict_bytes(windows) + voiceprint_predict_bytes(tiles_of(windows)) +
           (speech ? speech_mask_predict_bytes(gpu) : 0) + (gpu ? FOOTPRINT_GPU_BYTES : 0);
}

/* The setup's windows; else PYANNET_WIDE, halved until the networks fit the memory left. 0: the
 * networks choose. */
static uint32_t choose_windows(const struct stage_setup *setup, const struct backend *be,
                               bool speech)
{
    const struct backend *home = backend_home(be);
    const uint64_t left = home->budget > home->allocated ? home->budget - home->allocated : 0;
    uint32_t n = PYANNET_WIDE;

    if (setup->windows || !home->budget || !be->info.wide_batches || be->info.deterministic)
        return setup->windows;
    while (n > 1 && predict_diarize_bytes(n, be->ops->record_begin != NULL, speech) > left)
        n /= 2;
    return n;
}

static int load_diarize_models(struct diarization *d, const struct stage_setup *setup,
                               const struct diarize_stage_params *params, struct backend *be,
                               struct err *err)
{
    struct diarization_dir dir = {0};
    uint32_t windows = choose_windows(setup, be, params->vad_model[0] != 0);
    char *vad_file = NULL;
    int rc = diarization_dir_open(setup->dir, &dir, err);

    if (rc == 0)
        rc = silero_find_same(params->vad_model, params->vad_hash, &vad_file, err);
    if (rc == 0)
        rc = pyannet_load(dir.segmentation, be, windows, &d->segmentation, err);
    if (rc == 0)
        rc = voiceprint_load(dir.embedding, be, tiles_of(pyannet_windows(d->segmentation)),
                             TILE_SAMPLES, &d->voices, err);
    if (rc == 0)
        rc = check_plda(params, &dir, voiceprint_size(d->voices), err);
    if (rc == 0 && vad_file)
        rc = speech_mask_new(vad_file, be, &d->speech, err);
    free(vad_file);
    diarization_dir_free(&dir);
    return rc;
}

static int make_room(struct diarization *d, struct err *err)
{
    const struct windowed_plan plan = {
        .what = "voices",
        .window = TILE_SAMPLES,
        .hop = TILE * PYANNET_STEP,
        .state_bytes = sizeof(struct heard),
        .run = diarize_tiles,
        .finish = collect_voices,
        .drop = free_diarize_state,
        .arg = d,
    };
    uint32_t batch = tiles_of(pyannet_windows(d->segmentation));
    size_t windows = (size_t)batch * TILE, speakers = windows * PYANNET_SPEAKERS;

    d->tiles = calloc(batch, sizeof(*d->tiles));
    d->tile_at = calloc(batch, sizeof(*d->tile_at));
    d->at = calloc(windows, sizeof(*d->at));
    d->sets = malloc(windows * PYANNET_FRAMES);
    d->weights = malloc(speakers * PYANNET_FRAMES * sizeof(*d->weights));
    d->masks = calloc(speakers, sizeof(*d->masks));
    d->of = calloc(speakers, sizeof(*d->of));
    d->vectors = malloc(speakers * voiceprint_size(d->voices) * sizeof(*d->vectors));
    if (!d->tiles || !d->tile_at || !d->at || !d->sets || !d->weights || !d->masks || !d->of ||
        !d->vectors)
        return err_set(err, ERR_NOMEM, "no memory for %zu windows of voices", windows);
    return windowed_new(&plan, batch, &d->windowed, err);
}

/* Nearly all parameters are about finalizing; they are checked here all the same, so that a job
 * that cannot be finalized does not run a night. */
static int diarization_open(const struct stage_setup *setup, struct backend *be, void **ret,
                            struct err *err)
{
    struct diarization *d = calloc(1, sizeof(*d));
    struct diarize_stage_params params;
    int rc;

    if (!d)
        return err_set(err, ERR_NOMEM, "no memory for a diarization");
    rc = param_table_from_json(stage_diarize.params, setup->params, &params, err);
    if (rc == 0)
        rc = load_diarize_models(d, setup, &params, be, err);
    if (rc == 0)
        rc = make_room(d, err);
    if (rc != 0)
        diarization_close(d);
    else
        *ret = d;
    return rc;
}

static uint64_t diarization_footprint(const void *self, const struct backend *be)
{
    const struct diarization *d = self;

    return predict_diarize_bytes(pyannet_windows(d->segmentation), be->ops->record_begin != NULL,
                                 d->speech);
}

static int diarization_predict(const struct stage_setup *setup, bool gpu, uint64_t *ret,
                               struct err *err)
{
    struct diarize_stage_params params;
    int rc = param_table_from_json(stage_diarize.params, setup->params, &params, err);

    if (rc == 0)
        *ret = predict_diarize_bytes(setup->windows ? setup->windows : 1, gpu,
                                     params.vad_model[0] != 0);
    return rc;
}

/* ---- parameters and models */

#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(diarize_stage_params, p.key)
#define SAID(key, of) \
    FIELD(key, of), .said = true, .flag = offsetof(struct diarize_stage_params, key##_said)

static const char *const clusterings[] = {"ahc", "vbx", NULL};

static const struct param_field fields[] = {
    {FIELD(num_speakers, U32), .high = DIARIZE_MAX_SPEAKERS, .option_low = 1,
     .option_high = DIARIZE_MAX_SPEAKERS, .value = "N", .help = "number of speakers, if known",
     .manual = "The number of speakers, if it is known."},
    {FIELD(min_speakers, U32), .high = DIARIZE_MAX_SPEAKERS, .option_low = 1,
     .option_high = DIARIZE_MAX_SPEAKERS, .value = "N", .help = ""},
    {FIELD(max_speakers, U32), .high = DIARIZE_MAX_SPEAKERS, .option_low = 1,
     .option_high = DIARIZE_MAX_SPEAKERS, .value = "N", .help = "fewest and most speakers",
     .manual = "The least and the most speakers."},
    {SAID(clustering, CHOICE), .choices = clusterings},
    {SAID(threshold, FLOAT), .high = 2},
    {SAID(min_cluster_size, U32), .low = 1, .high = 1000000},
    {SAID(fa, FLOAT), .high = 1000},
    {SAID(fb, FLOAT), .high = 1000},
    {FIELD(min_duration_off, FLOAT), .high = 3600},
    HEARING_FIELDS(diarize_stage_params),
    {.name = "vad_model",
     .kind = PARAM_TEXT,
     PARAM_AT(diarize_stage_params, vad_model),
     .option = "diarize-vad",
     .value = "WHEN",
     .help = "ignore voices outside speech: auto (default: if 'silero-vad' is here, as for --vad), "
             "on, off, or the model's file",
     .manual = "Nobody speaks, and no voice is made a vector, where the model of voice activity "
               "hears nobody: \\fBauto\\fR, where 'silero-vad' is here (the default), \\fBon\\fR, "
               "\\fBoff\\fR, or the file of Silero's model."},
    {.name = "vad_hash", .kind = PARAM_TEXT, PARAM_AT(diarize_stage_params, vad_hash)},
};

/* Values that nobody said are those of the published pipeline (3.1's) until the model's own are
 * known. */
static const struct diarize_stage_params usual = {.p = DIARIZE_AHC_PARAMS,
                                                  .hearing = HEARING_USUAL};
static const struct diarize_stage_params asked = {.p = DIARIZE_AHC_PARAMS,
                                                  .hearing = HEARING_ASKED};

static int check_speakers(const void *params, struct err *err)
{
    const struct diarize_stage_params *all = params;
    const struct diarize_params *p = &all->p;

    if (p->num_speakers && (p->min_speakers || p->max_speakers))
        return err_set(err, ERR_USAGE,
                       "--num-speakers says how many, and excludes --min-speakers and "
                       "--max-speakers");
    if (p->max_speakers && p->min_speakers > p->max_speakers)
        return err_set(err, ERR_USAGE, "--min-speakers is above --max-speakers");
    if (!(p->fa > 0) || !(p->fb > 0))
        return err_set(err, ERR_USAGE, "fa and fb must be above 0");
    if (hearing_check(&all->hearing, err) < 0)
        return err->code;
    return silero_check(all->vad_model, all->vad_hash, err);
}

static const struct param_table table = {.what = "diarization",
                                         PARAM_TABLE(diarize_stage_params, fields, &usual),
                                         .asked = &asked,
                                         .check = check_speakers};

/* Ours and pyannote's layout (models/pyannote/diarization_dir.h): which of them it is, and whether
 * anything is missing, is seen when it is opened. */
static const struct model_file files[] = {
    {"config.json", true},
    {"segmentation.safetensors", true},
    {"embedding.safetensors", true},
    {"plda.safetensors", true},
    {"segmentation/pytorch_model.bin", true},
    {"embedding/pytorch_model.bin", true},
    {"plda/plda.npz", true},
    {"plda/xvec_transform.npz", true},
};
static const char *const model_types[] = {"nightshift-diarization", NULL};

/* A folder of pyannote's, as diarization_dir_open finds it: without a config.json of ours. */
static bool is_pyannote(const char *dir)
{
    char config[PATH_MAX], network[PATH_MAX];

    return snprintf(config, sizeof(config), "%s/config.json", dir) < (int)sizeof(config) &&
           snprintf(network, sizeof(network), "%s/segmentation/pytorch_model.bin", dir) <
               (int)sizeof(network) &&
           access(config, F_OK) != 0 && access(network, F_OK) == 0;
}

static int whole_file(const char *path, struct err *err)
{
    struct weights *w = NULL;
    int rc = weights_open_file(path, &w, err);

    weights_close(w);
    return rc;
}

static int diarization_whole(const char *dir, struct err *err)
{
    struct diarization_dir d = {0};
    int rc = diarization_dir_open(dir, &d, err);

    if (rc == 0)
        rc = whole_file(d.segmentation, err);
    if (rc == 0)
        rc = whole_file(d.embedding, err);
    diarization_dir_free(&d);
    return rc;
}

/* A window a second: its frames, and a vector of each voice, or of each source where these are
 * heard apart: how many there are only the recording says. */
static uint32_t diarization_bytes_per_s(const char *params)
{
    uint32_t voices = stage_hears_apart("diarize", params) ? HEARING_SOURCES_MAX : PYANNET_SPEAKERS;

    return PYANNET_FRAMES + voices * (4u + 4u * VOICE_VALUES);
}

/* Windows of ten seconds; slots are tiles. */
static uint32_t count_windows_at_once(const void *self)
{
    return TILE * windowed_stage_slots(self);
}

const struct stage_kind stage_diarize = {
    .slots = windowed_stage_slots,
    .windows = count_windows_at_once,
    .lack = windowed_stage_lack,
    .add = windowed_stage_add,
    .remove = windowed_stage_remove,
    .step = windowed_stage_step,
    .on_beat = windowed_stage_on_beat,
    .stats = windowed_stage_stats,
    .name = "diarize",
    .cost = {0.62, 288, 0.14},
    .params = &table,
    .hears = true,
    .apart = true,
    .finalizes = true,
    .tail = TILE_SAMPLES,
    .hop = TILE * PYANNET_STEP,
    .bytes_per_s = diarization_bytes_per_s,
    .model_types = model_types,
    .is_model = is_pyannote,
    STAGE_FILES(files),
    .whole = diarization_whole,
    .option = "diarize",
    .help = "who speaks when (model: diarization, or diarization-ge2e, which `nightshift model "
            "pull` fetches)",
    .manual =
        "Who speaks when: turns and speakers, and the speaker of each segment and word. A "
        "transcription that is made with it has word times, by which segments are cut where the "
        "speaker changes. Existing transcripts are kept, and their words get their times. The "
        "model is a folder, or a name in a models directory. The default is 'diarization', which "
        "you put there, or else 'diarization-ge2e', which `nightshift model pull diarization-ge2e` "
        "fetches. It is not the default in a catalog whose speakers another model found. "
        "'diarization-nano' comes with the program, for the demo and the tests: a small model, "
        "trained on synthetic voices. It is no general diarizer, and must be named.",
    .doing = "to diarize",
    .model = "diarization",
    .hub = "diarization-ge2e",
    .embedded = "diarization-nano",
    .told_by = "the catalog's speakers were found by",
    .no_model = "it has neither config.json nor segmentation/pytorch_model.bin",
    .open = diarization_open,
    .close = diarization_close,
    .precision = windowed_stage_f32,
    .footprint = diarization_footprint,
    .predict = diarization_predict,
};
