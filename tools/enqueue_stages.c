#include "tools/enqueue_stages.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/utf8.h"
#include "store/read.h"
#include "tools/cli.h"
#include "tools/enqueue_model.h"
#include "tools/enqueue_usual.h"
#include "tools/model_check.h"
#include "workers/models/model_dir.h"
#include "workers/models/silero.h"
#include "workers/stages/stage.h"
#include "workers/stages/stage_params.h"

enum {
    OPT_DIARIZE = ENQUEUE_STAGES_FIRST,
    OPT_NUM,
    OPT_MIN,
    OPT_MAX,
    OPT_SOUNDS,
    OPT_EMBED,
    OPT_EMBED_AUDIO,
    OPT_NO_TRANSCRIBE
};

const char enqueue_wish_help[] =
    "Beside the transcription (each has a model of its own, found by name or folder,\n"
    "which stands behind a '='):\n"
    "      --diarize[=MODEL]    who speaks when (diarization; where none is here,\n"
    "                           diarization-nano, which is small and for the demo)\n"
    "      --num-speakers=N     so many speak; or, where that is not known:\n"
    "      --min-speakers=N, --max-speakers=N\n"
    "      --sounds[=MODEL]     speech, music, applause, laughter ... (yamnet)\n"
    "      --embed[=MODEL]      vectors of what is said, for search by meaning\n"
    "                           (all-MiniLM-L6-v2)\n"
    "      --embed-audio[=MODEL]   vectors of what it sounds like\n"
    "                           (laion/clap-htsat-unfused)\n"
    "      --no-transcribe      these alone; --embed then takes what is transcribed\n"
    "                           already. Without it, and without a word on how to\n"
    "                           transcribe, it is done as the catalog had it last\n";

static const struct option longs[ENQUEUE_STAGES_OPTIONS] = {
    {"diarize", optional_argument, NULL, OPT_DIARIZE},
    {"num-speakers", required_argument, NULL, OPT_NUM},
    {"min-speakers", required_argument, NULL, OPT_MIN},
    {"max-speakers", required_argument, NULL, OPT_MAX},
    {"sounds", optional_argument, NULL, OPT_SOUNDS},
    {"embed", optional_argument, NULL, OPT_EMBED},
    {"embed-audio", optional_argument, NULL, OPT_EMBED_AUDIO},
    {"no-transcribe", no_argument, NULL, OPT_NO_TRANSCRIBE},
};

static const struct other {
    struct enqueue_usual usual;
    const char *words;
} others[OTHERS] = {
    [OTHER_DIARIZE] = {{"--diarize", "diarize", MODEL_DIARIZATION, MODEL_DIARIZATION_NANO, NULL,
                        "put a folder 'diarization', as docs/models.md has it, into the models "
                        "directory"},
                       "to diarize"},
    [OTHER_SOUNDS] = {{"--sounds", "sounds", "yamnet", NULL, NULL,
                       "put a folder 'yamnet', as docs/models.md has it, into the models "
                       "directory"},
                      "to listen to for sounds"},
    [OTHER_TEXT] = {{"--embed", "embed-text", "all-MiniLM-L6-v2", NULL,
                     "sentence-transformers/all-MiniLM-L6-v2", NULL},
                    "to embed as text"},
    [OTHER_AUDIO] = {{"--embed-audio", "embed-audio", "laion/clap-htsat-unfused", NULL,
                      "laion/clap-htsat-unfused", NULL},
                     "to embed as sound"},
};

/* --------------------------------------------------------------------------------- options */

void enqueue_wish_init(struct enqueue_wish *w)
{
    memset(w, 0, sizeof(*w));
    enqueue_params_init(&w->params);
}

size_t enqueue_wish_options(struct option *ret)
{
    memcpy(ret, longs, sizeof(longs));
    return ENQUEUE_STAGES_OPTIONS;
}

bool enqueue_wish_knows(int option)
{
    return option >= ENQUEUE_STAGES_FIRST && option < ENQUEUE_STAGES_FIRST + ENQUEUE_STAGES_OPTIONS;
}

static int take_model(enum enqueue_other which, const char *value, const char *next,
                      struct enqueue_wish *w, struct err *err)
{
    if (value != NULL && (value[0] == 0 || !utf8_valid(value, strlen(value))))
        return err_set(err, ERR_USAGE, "%s= wants the name or folder of a model, in UTF-8",
                       others[which].usual.option);
    w->other[which] = value != NULL ? value : "";
    w->behind[which] = value != NULL ? NULL : next;
    return 0;
}

int enqueue_wish_take(struct enqueue_wish *w, int option, const char *value, const char *next,
                      struct err *err)
{
    switch (option) {
    case OPT_DIARIZE:
        return take_model(OTHER_DIARIZE, value, next, w, err);
    case OPT_SOUNDS:
        return take_model(OTHER_SOUNDS, value, next, w, err);
    case OPT_EMBED:
        return take_model(OTHER_TEXT, value, next, w, err);
    case OPT_EMBED_AUDIO:
        return take_model(OTHER_AUDIO, value, next, w, err);
    case OPT_NUM:
        return cli_u32("--num-speakers", value, 1, DIARIZE_MAX_SPEAKERS, &w->num_speakers, err);
    case OPT_MIN:
        return cli_u32("--min-speakers", value, 1, DIARIZE_MAX_SPEAKERS, &w->min_speakers, err);
    case OPT_MAX:
        return cli_u32("--max-speakers", value, 1, DIARIZE_MAX_SPEAKERS, &w->max_speakers, err);
    case OPT_NO_TRANSCRIBE:
        w->no_transcribe = true;
        return 0;
    default:
        return err_set(err, ERR_USAGE, "an option that does not exist");
    }
}

static bool any_other(const struct enqueue_wish *w)
{
    for (size_t i = 0; i < OTHERS; i++)
        if (w->other[i] != NULL)
            return true;
    return false;
}

/* The name of an option that says how to transcribe; NULL: there is none. */
static const char *transcribe_option(const struct enqueue_wish *w)
{
    return w->model != NULL ? "model" : enqueue_params_given(&w->params);
}

int enqueue_wish_agree(const struct enqueue_wish *w, struct err *err)
{
    const bool bound = w->num_speakers || w->min_speakers || w->max_speakers;

    for (size_t i = 0; i < OTHERS; i++)
        if (w->behind[i] != NULL && enqueue_model_meant(others[i].usual.option, w->behind[i]))
            return err_set(err, ERR_USAGE,
                           "%s has its model behind a '=', and '%.200s' would be enqueued. Perhaps "
                           "%s=%.200s was meant",
                           others[i].usual.option, w->behind[i], others[i].usual.option,
                           w->behind[i]);
    if (bound && w->other[OTHER_DIARIZE] == NULL)
        return err_set(err, ERR_USAGE, "--%s-speakers does nothing without --diarize",
                       w->num_speakers   ? "num"
                       : w->min_speakers ? "min"
                                         : "max");
    if (w->num_speakers && (w->min_speakers || w->max_speakers))
        return err_set(err, ERR_USAGE,
                       "--num-speakers says how many, and excludes --min-speakers and "
                       "--max-speakers");
    if (w->max_speakers && w->min_speakers > w->max_speakers)
        return err_set(err, ERR_USAGE, "--min-speakers is above --max-speakers");
    if (w->no_transcribe && !any_other(w))
        return err_set(err, ERR_USAGE,
                       "--no-transcribe leaves nothing to do; try it with --diarize, --sounds, "
                       "--embed or --embed-audio");
    if (w->no_transcribe && w->other[OTHER_TEXT] == NULL && transcribe_option(w) != NULL)
        return err_set(err, ERR_USAGE, "--%s does nothing with --no-transcribe",
                       transcribe_option(w));
    return 0;
}

/* -------------------------------------------------------------------------- transcription */

/* A transcription that the catalog has; strings owned. */
struct had {
    char *model, *dir, *hash, *params;
    bool failed;
};

static void had_free(struct had *h)
{
    free(h->model);
    free(h->dir);
    free(h->hash);
    free(h->params);
    memset(h, 0, sizeof(*h));
}

static int keep_last(void *arg, const struct read_progress *row)
{
    struct had *h = arg;

    if (strcmp(row->stage, "transcribe") != 0)
        return 0;
    had_free(h);
    h->model = strdup(row->model);
    h->dir = strdup(row->model_dir);
    h->hash = strdup(row->model_hash);
    h->params = strdup(row->params_json);
    h->failed = !h->model || !h->dir || !h->hash || !h->params;
    return h->failed;
}

struct looking {
    const struct store_stage *wanted;
    bool found;
};

static int look(void *arg, const struct read_progress *row)
{
    struct looking *l = arg;

    l->found |= strcmp(row->stage, l->wanted->name) == 0 &&
                strcmp(row->model_hash, l->wanted->model_hash) == 0 &&
                strcmp(row->params_json, l->wanted->params_json) == 0;
    return l->found;
}

/* What --no-transcribe leaves out must be there for --embed. */
static int must_be_there(struct store *known, const struct enqueue_stages *all, struct err *err)
{
    struct looking l = {.wanted = &all->transcribe};
    int rc = known != NULL && l.wanted->name != NULL ? read_progress(known, look, &l, err) : 0;

    if (rc < 0 || l.found)
        return rc < 0 ? rc : 0;
    return err_set(err, ERR_USAGE,
                   "--embed works on a transcription, and the catalog has none%s: leave "
                   "--no-transcribe out, and it is made first",
                   known != NULL && l.wanted->name != NULL ? " like that" : "");
}

/* Its folder may have moved since; what has its name now need not be it. */
static int find_again(struct had *h, struct err *err)
{
    char *dir = NULL, hash[MODEL_HASH_LEN];
    int rc;

    if (access(h->dir, R_OK) == 0)
        return 0;
    rc = model_dir_find(h->model, &dir, err);
    if (rc != 0)
        return err_prefix(err, "the transcription that the catalog had last");
    rc = stage_model_hash("transcribe", dir, hash, err);
    if (rc == 0 && strcmp(hash, h->hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the catalog's last transcription was made with another model '%s' than %s: "
                     "say which one is wanted (--model)",
                     h->model, dir);
    if (rc != 0) {
        free(dir);
        return rc;
    }
    free(h->dir);
    h->dir = dir;
    return 0;
}

/* The catalog's last one, as it is: its model is not looked into again. 1: it has none. done: its
 * results alone are wanted. */
static int as_before(struct store *known, bool done, struct enqueue_stages *ret, struct err *err)
{
    struct transcribe_params p;
    struct err ignored = {0};
    struct had h = {0};
    int rc = known != NULL ? read_progress(known, keep_last, &h, err) : 0;

    if (h.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && h.model != NULL && !done)
        rc = find_again(&h, err);
    if (rc != 0 || h.model == NULL) {
        had_free(&h);
        return rc != 0 ? rc : 1;
    }
    ret->model = h.model;
    ret->own[0].dir = h.dir;
    ret->own[0].params = h.params;
    snprintf(ret->own[0].hash, sizeof(ret->own[0].hash), "%s", h.hash);
    free(h.hash);
    ret->voice =
        transcribe_params_from_json(ret->own[0].params, &p, &ignored) == 0 && p.vad_model[0] != 0;
    ret->transcribe = (struct store_stage){.name = "transcribe",
                                           .model = ret->model,
                                           .model_dir = ret->own[0].dir,
                                           .model_hash = ret->own[0].hash,
                                           .params_json = ret->own[0].params};
    return 0;
}

static void without_vad(struct transcribe_params *p)
{
    struct transcribe_params plain;

    transcribe_params_default(&plain);
    memcpy(p->vad_model, plain.vad_model, sizeof(p->vad_model));
    memcpy(p->vad_hash, plain.vad_hash, sizeof(p->vad_hash));
    p->vad_threshold = plain.vad_threshold;
    p->vad_neg_threshold = plain.vad_neg_threshold;
    p->vad_min_speech_duration_ms = plain.vad_min_speech_duration_ms;
    p->vad_min_silence_duration_ms = plain.vad_min_silence_duration_ms;
    p->vad_speech_pad_ms = plain.vad_speech_pad_ms;
}

struct comparing {
    const struct store_stage *wanted;
    char *plain;    /* its parameters without voice activity */
    bool same;      /* the catalog has it */
    bool otherwise; /* and one that differs in voice activity alone */
    struct err err;
};

static char *plain_json(const char *json, struct err *err)
{
    struct transcribe_params p;
    char *ret = NULL;

    if (transcribe_params_from_json(json, &p, err) != 0)
        return NULL;
    without_vad(&p);
    return transcribe_params_to_json(&p, &ret, err) == 0 ? ret : NULL;
}

static int compare(void *arg, const struct read_progress *row)
{
    struct comparing *c = arg;
    struct err ignored = {0};
    char *plain;

    if (strcmp(row->stage, "transcribe") != 0 ||
        strcmp(row->model_hash, c->wanted->model_hash) != 0)
        return 0;
    c->same |= strcmp(row->params_json, c->wanted->params_json) == 0;
    plain = plain_json(row->params_json, &ignored);
    c->otherwise |= plain != NULL && strcmp(plain, c->plain) == 0;
    free(plain);
    return 0;
}

/* That voice activity came or went by itself makes another stage: said, before a night is spent on
 * doing all of it again. */
static int note_new_stage(const struct enqueue_wish *w, struct store *known,
                          struct enqueue_stages *ret, struct err *err)
{
    struct comparing c = {.wanted = &ret->transcribe};
    int rc = 0;

    if (known == NULL || w->params.vad != VAD_AUTO)
        return 0;
    c.plain = plain_json(ret->transcribe.params_json, err);
    if (c.plain == NULL)
        return err->code;
    rc = read_progress(known, compare, &c, err);
    if (rc == 0 && !c.same && c.otherwise)
        snprintf(ret->note, sizeof(ret->note),
                 ret->voice
                     ? "The catalog has this transcription without voice activity, whose model is "
                       "here now: with it, all is transcribed again, as another stage. --vad=off "
                       "goes on with the first one."
                     : "The catalog has this transcription with voice activity, whose model is not "
                       "here any more: without it, all is transcribed again, as another stage. "
                       "`nightshift model pull " SILERO_NAME "` gets it.");
    free(c.plain);
    return rc;
}

static int find_transcription(struct enqueue_wish *w, struct store *known,
                              struct enqueue_stages *ret, char doing[200], struct err *err)
{
    int rc = 1;

    if (any_other(w) && transcribe_option(w) == NULL) {
        snprintf(doing, 200, "go on with the transcription");
        rc = as_before(known, w->no_transcribe, ret, err);
        if (rc <= 0)
            return rc;
        if (w->no_transcribe) {
            doing[0] = 0;
            return must_be_there(known, ret, err);
        }
    }
    snprintf(doing, 200, "use voice activity");
    rc = enqueue_stage_vad(&w->params, ret->note, sizeof(ret->note), err);
    if (rc != 0)
        return rc;
    doing[0] = 0;
    rc = enqueue_params_agree(&w->params, err);
    if (rc != 0)
        return rc;
    snprintf(doing, 200, "use the model '%.150s'", w->model != NULL ? w->model : MODEL_DEFAULT);
    ret->voice = w->params.params.vad_model[0] != 0;
    rc = enqueue_stage_find(w->model != NULL ? w->model : MODEL_DEFAULT, &w->params.params,
                            &ret->own[0], &ret->transcribe, err);
    if (rc == 0 && w->no_transcribe) {
        doing[0] = 0;
        return must_be_there(known, ret, err);
    }
    return rc != 0 ? rc : note_new_stage(w, known, ret, err);
}

/* ---------------------------------------------------------------------------------- others */

static int diarize_json(const struct enqueue_wish *w, char **ret, struct err *err)
{
    struct diarize_stage_params p;
    int rc;

    diarize_stage_params_default(&p);
    p.p.num_speakers = w->num_speakers;
    p.p.min_speakers = w->min_speakers;
    p.p.max_speakers = w->max_speakers;
    rc = diarize_stage_params_check(&p, err);
    return rc != 0 ? rc : diarize_stage_params_to_json(&p, ret, err);
}

/* The source is part of what the vectors depend on. */
static int embed_json(const struct store_stage *source, char **ret, struct err *err)
{
    struct embed_text_params p;
    XXH128_canonical_t hash;
    size_t n;

    embed_text_params_default(&p);
    XXH128_canonicalFromHash(&hash, XXH3_128bits(source->params_json, strlen(source->params_json)));
    n = (size_t)snprintf(p.source, sizeof(p.source), "%s/", source->model_hash);
    for (size_t i = 0; i < sizeof(hash.digest) && n + 2 < sizeof(p.source); i++)
        n += (size_t)snprintf(p.source + n, sizeof(p.source) - n, "%02x", hash.digest[i]);
    return embed_text_params_to_json(&p, ret, err);
}

static int params_of(enum enqueue_other which, const struct enqueue_wish *w,
                     const struct enqueue_stages *all, char **ret, struct err *err)
{
    struct sounds_params sounds;
    struct embed_audio_params audio;

    switch (which) {
    case OTHER_DIARIZE:
        return diarize_json(w, ret, err);
    case OTHER_SOUNDS:
        sounds_params_default(&sounds);
        return sounds_params_to_json(&sounds, ret, err);
    case OTHER_TEXT:
        return embed_json(&all->transcribe, ret, err);
    default:
        embed_audio_params_default(&audio);
        return embed_audio_params_to_json(&audio, ret, err);
    }
}

/* Its folder, and whether a worker can open it: what would put the stage aside in the night is said
 * now. */
static int check_other(const struct enqueue_usual *u, const char *given, struct store *known,
                       struct enqueue_stages *all, struct enqueue_stage *own, const char **model,
                       struct err *err)
{
    char note[sizeof(all->model_note)] = "";
    int rc;

    *model = given;
    if (given[0] != 0)
        rc = enqueue_model_find(u->option, given, &own->dir, err);
    else
        rc = enqueue_usual_find(u, known, &own->dir, model, note, sizeof(note), err);
    if (rc == 0 && note[0] != 0)
        memcpy(all->model_note, note, sizeof(note));
    if (rc == 0)
        rc = stage_model_hash(u->stage, own->dir, own->hash, err);
    return rc == 0 ? model_opens(u->stage, own->dir, own->params, err) : rc;
}

static int add_other(enum enqueue_other which, const struct enqueue_wish *w, struct store *known,
                     struct enqueue_stages *ret, char doing[200], struct err *err)
{
    const struct enqueue_usual *u = &others[which].usual;
    struct enqueue_stage *own = &ret->own[1 + which];
    const char *model = NULL;
    int rc = params_of(which, w, ret, &own->params, err);

    if (w->other[which][0] != 0)
        snprintf(doing, 200, "use the model '%.120s' for %s", w->other[which], u->option);
    else
        snprintf(doing, 200, "take the usual model for %s", u->option);
    if (rc == 0)
        rc = check_other(u, w->other[which], known, ret, own, &model, err);
    if (rc != 0)
        return rc;
    ret->stages[ret->count++] =
        (struct store_stage){.name = u->stage,
                             .model = model,
                             .model_dir = own->dir,
                             .model_hash = own->hash,
                             .params_json = own->params,
                             .source = which == OTHER_TEXT ? &ret->transcribe : NULL};
    return 0;
}

int enqueue_stages_find(struct enqueue_wish *w, struct store *known, struct enqueue_stages *ret,
                        char doing[200], struct err *err)
{
    int rc = 0;

    _Static_assert(1 + OTHERS <= ENQUEUE_STAGES_MAX, "room for all stages");
    memset(ret, 0, sizeof(*ret));
    if (!w->no_transcribe || w->other[OTHER_TEXT] != NULL)
        rc = find_transcription(w, known, ret, doing, err);
    if (rc == 0 && !w->no_transcribe)
        ret->stages[ret->count++] = ret->transcribe;
    for (enum enqueue_other i = 0; rc == 0 && i < OTHERS; i++)
        if (w->other[i] != NULL)
            rc = add_other(i, w, known, ret, doing, err);
    return rc;
}

int enqueue_stages_one(enum enqueue_other which, const char *model, struct enqueue_stages *ret,
                       char doing[200], struct err *err)
{
    struct enqueue_wish w = {.no_transcribe = true};

    memset(ret, 0, sizeof(*ret));
    ret->transcribe = (struct store_stage){.model_hash = "", .params_json = ""};
    w.other[which] = model;
    return add_other(which, &w, NULL, ret, doing, err);
}

void enqueue_stages_free(struct enqueue_stages *s)
{
    for (size_t i = 0; i < ENQUEUE_STAGES_MAX; i++)
        enqueue_stage_free(&s->own[i]);
    free(s->model);
    memset(s, 0, sizeof(*s));
}

void enqueue_stage_words(const struct store_stage *s, struct buf *out)
{
    const char *words = "to transcribe";

    for (size_t i = 0; i < OTHERS; i++)
        if (strcmp(s->name, others[i].usual.stage) == 0)
            words = others[i].words;
    buf_printf(out, "%s with %s", words, s->model);
}
