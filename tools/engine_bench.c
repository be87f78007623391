/* engine-bench: the engine's speed where only the engine is built.
 *
 *     engine-bench [-p PRECISION] [-s SLOTS] [-w WINDOWS] [-t TOKENS] [-r ROUNDS] [-j THREADS]
 * MODEL...
 *
 * MODEL: nano, tiny, base, small, medium, large-v3, large-v3-turbo (random weights) or a directory
 * (with a slash). */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/models/bench.h"

static void print_result(const char *model, const struct bench_result *r)
{
    printf("%s, %s, %u slots, %u windows at once, %u tokens a window; weights %.1f MB, a slot %.1f "
           "MB, load %.1f s\n",
           model, precision_name(r->precision), r->slots, r->windows, r->tokens,
           (double)r->weight_bytes / 1e6, (double)r->slot_bytes / 1e6, r->load_s);
    printf("  log-mel        %9.2f ms a window\n", r->mel_ms);
    printf("  encoder        %9.2f ms a window   %7.1f GFLOP/s, %.0f %% of the peak %.1f\n",
           r->encoder_ms, r->encoder_gflops_s, 100.0 * r->encoder_share, r->peak_gflops_s);
    printf("  cross k, v     %9.2f ms a window\n", r->cross_ms);
    printf("  decoder step   %9.2f ms all slots  %7.1f GB/s\n", r->step_ms, r->step_gbytes_s);
    printf("  all            %9.2f windows/s      %.0f x real time\n", r->windows_per_second,
           r->times_real_time);
}

static int fail(const struct err *err)
{
    fprintf(stderr, "engine-bench: %s\n", err->msg);
    return err_exit_status(err->code);
}

int main(int argc, char **argv)
{
    struct bench_params params = {0};
    struct backend *be = NULL;
    uint32_t threads = 0;
    struct err err;
    int option, status = 0;

    backend_host_sleep_when_idle(argv);
    while ((option = getopt(argc, argv, "p:s:w:t:r:j:")) != -1) {
        switch (option) {
        case 'p':
            if (precision_parse(optarg, &params.precision, &err) != 0)
                return fail(&err);
            break;
        case 's':
            params.slots = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'w':
            params.windows = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            params.tokens = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            params.rounds = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            threads = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        default:
            return EX_USAGE;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "engine-bench: name a model, such as tiny\n");
        return EX_USAGE;
    }
    if (backend_open_host(threads, &be, &err) != 0)
        return fail(&err);
    printf("%s (%s), %u threads\n", be->info.name, be->info.features, be->info.threads);
    for (int i = optind; i < argc && status == 0; i++) {
        struct bench_result result;

        params.model = argv[i];
        if (bench_run(be, &params, &result, &err) != 0)
            status = fail(&err);
        else
            print_result(argv[i], &result);
    }
    backend_close(be);
    return status;
}
