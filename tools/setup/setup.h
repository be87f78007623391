/* tools/setup/setup.h - what a machine wants for its first night: which models, how large, what is
 * here of them, and bringing the rest.
 *
 * Main thread. Strings of a struct setup are its own unless they are said to be borrowed. */
#ifndef NIGHTSHIFT_TOOLS_SETUP_SETUP_H
#define NIGHTSHIFT_TOOLS_SETUP_SETUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tools/cli/cli.h"
#include "workers/models/files/model_dir.h"

#define SETUP_PARTS_MAX 8
#define SETUP_HOURS 100 /* of sound, in a night of: */
#define SETUP_NIGHT_HOURS 10

struct setup_options { /* borrowed */
    const char *model; /* the user's Whisper, by a short name; NULL: chosen */
    const char *from;  /* --offline: a folder of models; NULL: the network */
    const char *save;  /* a folder that gets a copy of all; NULL: none */
    bool yes;
};

struct setup_part {   /* one model */
    const char *name; /* as a pull takes it, and of its folder */
    const char *id;   /* on Hugging Face; NULL: it has a pull of its own */
    const char *also; /* the id of the same weights for faster-whisper; NULL: none */
    const char *file; /* that it is: SILERO_FILE; NULL: it is a folder */
    const char *licence, *what;
    uint64_t bytes; /* about; of a source: what lies there */
    char *path;     /* where it is here, whole; NULL: it is not */
    char *source;   /* in the folder of --offline; NULL: not there */
    uint64_t got_bytes;
    bool saved;     /* whole in the folder of --save */
    struct err err; /* why it was not brought; code 0: nothing went wrong */
};

struct setup {
    const struct setup_options *options;
    const struct model_name *whisper; /* part[0] */
    bool found;                       /* it was here, and so nothing was chosen */
    const struct model_name *fitting; /* what would be chosen; NULL: the user has */
    bool slow;                        /* and it does not do the hours in a night */
    char machine[400];                /* for people */
    double speed;                     /* of whisper, times real time; 0: nobody knows */
    bool measured;                    /*   by an earlier run here; else it is an estimate */
    bool fits;                        /* whisper, on some device */
    struct setup_part part[SETUP_PARTS_MAX];
    uint32_t count;
    bool tried;                      /* setup_bring was called */
    uint64_t cache_bytes, own_bytes; /* to come, into the Hugging Face cache and models directory */
};

/* Looks at the machine, chooses, and says of each part where it is. catalog: an absolute path; what
 * it knows of earlier runs is used. ERR_USAGE: the model of the options has no such name. */
int setup_look(const struct setup_options *o, const char *catalog, struct setup *ret,
               struct err *err);
void setup_free(struct setup *s);

/* Whether it is whole, as far as that takes no time. path: as part.path. ERR_MODEL. */
int setup_whole(const struct setup_part *p, const char *path, struct err *err);

/* Parts that are not here. */
uint32_t setup_lacking(const struct setup *s);
/* The folders that the parts go to, and the free bytes of their disks. */
struct setup_room {
    char *cache, *own; /* owned, absolute: the Hugging Face cache, the models directory */
    uint64_t cache_free, own_free;
};
/* *ret is to be freed after an error, too. ERR_FULL: it does not fit. */
int setup_room(const struct setup *s, struct setup_room *ret, struct err *err);
void setup_room_free(struct setup_room *r);

/* Fetches or copies what is lacking, part by part; one that fails is told on standard error and
 * stops no other, but an interruption does. 0, or the exit status of the first that failed. */
int setup_bring(struct setup *s, const struct cli *cli);
/* Copies all that is here into options.save, and says so in each part. The exit status, likewise.
 */
int setup_save(struct setup *s, const struct cli *cli);

/* On standard output: what there is and is to come; what is next, in the end. */
void setup_print(const struct setup *s, const struct setup_room *room);
void setup_print_next(const struct setup *s);
int setup_print_json(const struct setup *s);

#endif
