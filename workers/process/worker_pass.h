/* workers/process/worker_pass.h - decoder threads: each takes one lease after the other and makes
 * its decoding pass, which may feed companions as well (worker_companions.h). */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_PASS_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_PASS_H

/* Main function of a decoder thread; arg is the worker with its setup. */
void *pass_thread(void *arg);

#endif
