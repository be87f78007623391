/* tools/enqueue_params.h - the options of `enqueue` that say how recordings are transcribed, as one
 * table: what each is called, which parameter it sets, and what --help says of it.
 *
 * Main thread. Strings are borrowed from argv. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_PARAMS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_PARAMS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "workers/stages/transcribe.h"

#define ENQUEUE_PARAMS_FIRST 1000 /* value of the first of these options for getopt */
#define ENQUEUE_PARAMS_MAX 40

enum vad_wish {
    VAD_AUTO, /* on when its model is here */
    VAD_ON,
    VAD_OFF,
    VAD_PATH,
};

struct enqueue_params {
    struct transcribe_params params;
    enum vad_wish vad;
    const char *vad_path; /* VAD_PATH: the file as it was named */
    bool transcribe;      /* asked for by name */
    bool given[ENQUEUE_PARAMS_MAX];
};

void enqueue_params_init(struct enqueue_params *p);
/* Writes the options, at most ENQUEUE_PARAMS_MAX, and no empty one behind them; returns how many.
 */
size_t enqueue_params_options(struct option *ret);
/* Is it one of these? `-l` is. */
bool enqueue_params_knows(int option);
/* ERR_USAGE with a sentence. */
int enqueue_params_take(struct enqueue_params *p, int option, const char *value, struct err *err);
/* Once all are taken and it is settled whether there is voice activity (params.vad_model): options
 * that exclude each other, or that do nothing without another, are ERR_USAGE. */
int enqueue_params_agree(const struct enqueue_params *p, struct err *err);
/* Was any option given that is about voice activity, beside --vad itself? Its name, or NULL. */
const char *enqueue_params_vad_option(const struct enqueue_params *p);
/* The name of an option that was given, of whatever group; NULL: none was. */
const char *enqueue_params_given(const struct enqueue_params *p);
/* The part of --help, at most 80 columns wide. */
void enqueue_params_help(struct buf *out);

#endif
