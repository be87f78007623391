/* `nightshift run` with other patience: what takes minutes in life takes seconds here.
 *
 *     quick_run PROGRAM CATALOG STILL_MS ASIDE_MS SLOTS
 *
 * PROGRAM is the worker. With one slot a worker the work is spread. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "scheduler/scheduler.h"

int main(int argc, char **argv)
{
    struct scheduler_tuning tuning = {.restart_base_ms = 10, .retry_base_ms = 20};
    struct scheduler_options o = {.devices = "auto", .tuning = &tuning};
    struct scheduler_result r;
    struct err err = {0};

    if (argc != 6)
        return EX_USAGE;
    tuning.worker_program = argv[1];
    o.catalog = argv[2];
    tuning.still_ms = (uint32_t)strtoul(argv[3], NULL, 10);
    tuning.quarantine_ms = (uint32_t)strtoul(argv[4], NULL, 10);
    o.slots = (uint32_t)strtoul(argv[5], NULL, 10);
    if (scheduler_run(&o, &r, &err) == 0)
        return EX_OK;
    fprintf(stderr, "quick_run: %s\n", err.msg);
    return err_exit_status(err.code);
}
