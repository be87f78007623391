/* tools/plan/plan.h - what a run would do, before it is done: devices, models on them, time.
 *
 * Main thread. Everything in a plan is owned by it, and pointers into it live as long. */
#ifndef NIGHTSHIFT_TOOLS_PLAN_PLAN_H
#define NIGHTSHIFT_TOOLS_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/devices/devices.h"
#include "scheduler/plan/estimate.h"
#include "scheduler/plan/placement.h"
#include "store/read/pace.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/footprint.h"
#include "workers/stages/transcribe/transcribe.h"

struct plan_options {
    const char *catalog;       /* absolute; it may not exist */
    const char *devices;       /* as nightshift run has it; NULL: auto */
    const char *device_memory; /* likewise; NULL: no cap */
    enum allow_cpu allow_cpu;
    enum precision precision;
    enum cache_precision cache;
    uint32_t slots, threads;
    const char *model; /* NULL: those that wait, and without any the default one */
};

struct plan_model { /* what placement needs to know of a Whisper model */
    struct whisper_config config;
    char hash[64];
    struct transcribe_params params;
    char decoding[TRANSCRIBE_DECODING_LEN];
    struct plan_memory {
        const struct whisper_config *config; /* the one above */
        struct asr_shape shape;
        bool voice; /* a voice activity model beside it */
        enum cache_precision cache;
    } memory;
    struct placement_model placement; /* points into this: do not move it while it is used */
};
/* Fills m->placement from m->config, m->hash and m->params. name is borrowed; dir: the model's,
 * NULL where it is not here. */
void plan_model_ready(struct plan_model *m, const char *name, const char *dir);

struct plan_stage {
    char *name, *model, *dir;     /* dir NULL: the model was not found */
    struct err no_model;          /* why; code 0 when it was */
    char *params;                 /* as the catalog has them */
    char *disabled;               /* why the last run could not do it; NULL: it did not say so */
    bool other;                   /* no transcription: its memory is asked of the stage itself */
    bool sized;                   /* what it takes of a device */
    struct plan_model size;       /* of a transcription; of others the hash alone */
    int64_t stage_id;             /* 0: not that of the catalog */
    uint64_t recordings, unknown; /* waiting; those of unknown length among them */
    uint64_t sourceless;          /* of the recordings, those whose transcription is not done yet */
    uint64_t settling;            /* and those that want no device any more */
    uint64_t bytes;               /* of those of unknown length, as the others' are */
    bool apart;                   /* it hears channels or tracks by themselves, where there are */
    struct store_apart sources;   /* and of these is known */
    int64_t known_left_ms, known_ms;
    uint64_t known;         /* recordings whose lengths add up to known_ms */
    int64_t left_ms;        /* audio waiting; guessed where lengths are unknown */
    struct placement *on;   /* for each device of `picked` */
    double *pace;           /*   times real time of earlier runs there; 0, or NULL: unknown */
    const char **would_fit; /*   and where it does not fit, a model that would; NULL: none */
    double speed;           /* of all devices on which it fits, times real time; 0: nobody knows */
    bool measured;          /* all of that */
    uint32_t paced;         /* devices whose speed is of earlier nights, with whatever ran beside */
    int64_t ms;             /* of the devices, to do it all; -1: nobody knows */
    struct night_stage cost;
};

#define PLAN_FORMATS 8u

struct plan_format { /* of what is to be decoded; the most first */
    const struct night_format *format;
    double hours;    /* where lengths are not known, by the usual size of a second */
    double decode_s; /* of the processors, for all of them */
};

struct plan {
    struct devices *all, *picked;
    struct plan_stage *stages;
    uint32_t stage_count;
    uint64_t recordings; /* with something to do in any of them, each once, as a run counts them; */
    uint64_t unknown;    /* of unknown length, of these, */
    bool guessed;        /* and no other length is known to go by */
    int64_t left_ms;     /* audio that not every stage has heard; -1: nobody knows */
    bool waiting;        /* the stages are those of the catalog; else one that stands for none */
    bool paused;         /* the whole catalog */
    uint64_t held;       /* recordings that are paused by themselves */
    bool missing;        /* there is no catalog yet */
    bool fits;           /* each model on at least one device */
    int64_t ms;          /* of all stages; -1: nobody knows */
    bool untold;         /* there are stages of which nobody knows; ms is of the others */
    struct plan_format formats[PLAN_FORMATS];
    uint32_t format_count;
    double decode_s;           /* of the processors, to decode an hour, */
    double commit_s;           /*   and to receive, commit and finalize it; */
    bool hears;                /*   something waits that is to be decoded */
    uint32_t gpus, cores;      /* that work */
    struct night_length night; /* of all that waits; without anything, of an hour of sound */
    uint64_t bytes_known;      /* of all recordings whose lengths add up to audio_known_ms */
    int64_t audio_known_ms;
    struct placement_tuning *tunings;
    uint32_t tuning_count, tuning_room;
};

/* Reads devices, catalog (without writing to it) and models. ERR_DEVICE: no device can be used. */
int plan_make(const struct plan_options *o, struct plan *ret, struct err *err);
void plan_free(struct plan *p);

/* All that waits, waits for a transcription that is not going to be done. */
bool plan_is_stuck(const struct plan *p);

/* On standard output. */
void plan_print(const struct plan *p, const struct plan_options *o);
void plan_print_json(const struct plan *p, const struct plan_options *o);

#endif
