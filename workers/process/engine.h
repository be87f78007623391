/* workers/process/engine.h - the engine's threads: the first loads the models, then each turns the
 * shards of its stages into results. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_ENGINE_H
#define NIGHTSHIFT_WORKERS_PROCESS_ENGINE_H

#include "workers/pass/state.h"

/* Main function of the first one; arg is the worker with its setup. Posts READY, or FATAL and sets
 * `leaving` with an exit status. Starts the others, and ends after them. */
void *engine_thread(void *arg);

#endif
