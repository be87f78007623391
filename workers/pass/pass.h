/* workers/pass/pass.h - decoder threads: each takes one lease after the other and makes
 * its decoding pass. */
#ifndef NIGHTSHIFT_WORKERS_PASS_PASS_H
#define NIGHTSHIFT_WORKERS_PASS_PASS_H

/* Main function of a decoder thread; arg is the worker with its setup. */
void *pass_thread(void *arg);

#endif
