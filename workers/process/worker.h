/* workers/process/worker.h - the worker process: `nightshift worker`, started by the scheduler with
 * its socket as file descriptor 3.
 *
 * Threads: control (main: reads the socket, sends heartbeats), one per decoder process, and those
 * of the engine, which own the models (engine.h). The catalog is never opened here. Exit statuses:
 * 0 after QUIT or the scheduler's end, WORKER_EXIT_DEVICE when the device is spoilt and a fresh
 * process is wanted, any other: a crash. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_H

#define WORKER_SOCKET_FD 3
#define WORKER_EXIT_DEVICE 83

/* main() of the hidden `nightshift worker --device NAME` command. Returns the exit status. */
int worker_main(int argc, char **argv);

#endif
