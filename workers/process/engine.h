/* workers/process/engine.h - the engine thread: loads the model, then turns shards into
 * results. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_ENGINE_H
#define NIGHTSHIFT_WORKERS_PROCESS_ENGINE_H

#include "workers/pass/state.h"

/* Main function of the engine thread; arg is the worker with its setup. Posts READY, or FATAL and
 * sets `leaving` with an exit status. */
void *engine_thread(void *arg);

#endif
