/* engine-bench: the engine's speed where only the engine is built.
 *
 *     engine-bench [-d DEVICE] [-p PRECISION,...] [-c CACHES] [-s SLOTS,...] [-w WINDOWS]
 *                  [-t TOKENS] [-r ROUNDS] [-j THREADS] [-m] [-h] MODEL...
 *
 * MODEL: nano, tiny, base, small, medium, large-v3, large-v3-turbo (random weights) or a directory
 * (with a slash). DEVICE: cpu, or cuda:0 of the module in NIGHTSHIFT_CUDA_MODULE. With several
 * numbers of slots it reports the fastest; the first that does not fit ends the list. Both networks
 * together are measured as a run has them: windows encoded beside steps where the device can.
 * Precisions that the device does not have are left out. CACHES: auto, 16bit or 8bit. -m: a
 * Markdown table. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "gpu/devices/devices.h"
#include "gpu/peak.h"
#include "workers/stages/stage_bench.h"
#include "workers/stages/stage_kind.h"

#define LIST_MAX 16

static const char usage[] =
    "Usage: engine-bench [-d DEVICE] [-p PRECISION,...] [-c auto|16bit|8bit]\n"
    "                    [-s SLOTS,...] [-w WINDOWS] [-t TOKENS] [-r ROUNDS]\n"
    "                    [-j THREADS] [-m] MODEL...\n";

struct options {
    const char *device;
    struct stage_bench_params params;
    enum precision precisions[LIST_MAX];
    uint32_t slots[LIST_MAX];
    uint32_t precision_count, slots_count, threads;
    bool markdown, help;
};

/* ------------------------------------------------------------------------------- output */

static void print_result(const char *model, const struct stage_bench_result *r, double bandwidth)
{
    const struct stage_bench_networks *n = &r->networks;

    printf("%s, %s, %u slots, %u windows at once, %u tokens a window; weights %.1f MB, a slot %.1f "
           "MB, load %.1f s\n",
           model, precision_name(r->precision), r->slots, r->at_once, n->tokens,
           (double)n->weight_bytes / 1e6, (double)n->slot_bytes / 1e6, r->load_s);
    printf("  log-mel        %9.2f ms a window\n", n->mel_ms);
    printf("  encoder        %9.2f ms a window   %7.1f GFLOP/s, %.0f %% of the peak %.1f\n",
           n->encoder_ms, n->encoder_gflops_s, 100.0 * n->encoder_share, n->peak_gflops_s);
    printf("  cross k, v     %9.2f ms a window, kept in %s\n", n->cross_ms,
           r->cache == CACHE_8                             ? "8 bits"
           : dtype_size(precision_type(r->precision)) == 2 ? "16 bits"
                                                           : "32 bits");
    printf("  decoder step   %9.2f ms all slots  %7.1f GB/s, %.0f %% of a copy's %.1f\n",
           n->step_ms, n->step_gbytes_s, 100.0 * n->step_gbytes_s / bandwidth, bandwidth);
    if (n->align_ms > 0)
        printf("  word times     %9.2f ms a window\n", n->align_ms);
    printf("  encode alone   %9.2f windows/s\n", n->encoder_windows_s);
    printf("  steps alone    %9.2f windows/s\n", n->decoder_windows_s);
    printf("  both, %s %8.2f windows/s      %.0f x real time\n", n->beside ? "at once" : "in turn",
           r->items_per_second, r->times_real_time);
    printf("  processor      %9.3f s for an hour of sound\n", 3600 / r->times_real_time_cpu);
    fflush(stdout);
}

static void print_head(void)
{
    printf(
        "| model | precision | slots | encoder, windows/s | decoder, windows/s | both, windows/s "
        "| x real time | matmul peak | bandwidth |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

static void print_row(const char *model, const struct stage_bench_result *r, double bandwidth)
{
    const struct stage_bench_networks *n = &r->networks;

    printf("| %s | %s | %u | %.2f | %.2f | %.2f | %.0f | %.0f %% of %.1f TFLOP/s | %.0f %% of %.0f "
           "GB/s |\n",
           model, precision_name(r->precision), r->slots, n->encoder_windows_s,
           n->decoder_windows_s, r->items_per_second, r->times_real_time, 100.0 * n->encoder_share,
           n->peak_gflops_s / 1e3, 100.0 * n->step_gbytes_s / bandwidth, bandwidth);
    fflush(stdout);
}

static int report_failure(const struct err *err)
{
    fprintf(stderr, "engine-bench: %s\n", err->msg);
    return err_exit_status(err->code);
}

/* ------------------------------------------------------------------------------- options */

static int parse_precisions(struct options *o, char *list, struct err *err)
{
    char *rest = NULL;

    o->precision_count = 0;
    for (char *s = strtok_r(list, ",", &rest); s; s = strtok_r(NULL, ",", &rest)) {
        if (o->precision_count == LIST_MAX)
            return err_set(err, ERR_USAGE, "at most %d precisions", LIST_MAX);
        if (precision_parse(s, &o->precisions[o->precision_count++], err) != 0)
            return err->code;
    }
    return 0;
}

static void parse_slots(struct options *o, const char *list)
{
    o->slots_count = 0;
    while (o->slots_count < LIST_MAX) {
        char *end;

        o->slots[o->slots_count++] = (uint32_t)strtoul(list, &end, 10);
        if (*end != ',')
            return;
        list = end + 1;
    }
}

static int parse_options(struct options *o, int argc, char **argv, struct err *err)
{
    int option;

    *o = (struct options){.device = "cpu", .precision_count = 1, .slots_count = 1};
    while ((option = getopt(argc, argv, "d:p:c:s:w:t:r:j:mh")) != -1) {
        switch (option) {
        case 'd':
            o->device = optarg;
            break;
        case 'p':
            if (parse_precisions(o, optarg, err) != 0)
                return err->code;
            break;
        case 'c':
            if (cache_precision_parse(optarg, &o->params.setup.cache, err) != 0)
                return err->code;
            break;
        case 's':
            parse_slots(o, optarg);
            break;
        case 'w':
            o->params.setup.windows = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            o->params.tokens = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            o->params.rounds = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            o->threads = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            o->markdown = true;
            break;
        case 'h':
            o->help = true;
            return 0;
        default:
            return err_set(err, ERR_USAGE, "an option that does not exist");
        }
    }
    return optind < argc ? 0 : err_set(err, ERR_USAGE, "name a model, such as tiny");
}

/* ------------------------------------------------------------------------------- running */

static int run_model(struct backend *be, const struct options *o, const char *model,
                     double bandwidth, struct err *err)
{
    struct stage_bench_params params = o->params;

    params.setup.name = stage_transcribe.name;
    params.setup.dir = model;
    params.setup.slots = o->slots_count == 1 ? o->slots[0] : 0;
    params.ladder = o->slots;
    params.ladder_count = o->slots_count > 1 ? o->slots_count : 0;
    for (uint32_t p = 0; p < o->precision_count; p++) {
        struct stage_bench_result result = {0};
        int rc;

        params.setup.precision = precision_resolve(o->precisions[p], be->info.have);
        if (o->precision_count > 1 && !(be->info.have & 1u << params.setup.precision))
            continue;
        rc = stage_bench_run(be, &params, &result, err);
        if (rc == ERR_VRAM && o->markdown) {
            printf("| %s | %s | | | | does not fit | | | |\n", model,
                   precision_name(o->precisions[p]));
            continue;
        }
        if (rc != 0)
            return rc;
        if (o->markdown)
            print_row(model, &result, bandwidth);
        else
            print_result(model, &result, bandwidth);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct device_options with = {0};
    struct backend *be = NULL;
    struct options o;
    double bandwidth = 0.0;
    struct err err;
    int status = 0;

    backend_host_sleep_when_idle(argv);
    if (parse_options(&o, argc, argv, &err) != 0)
        return report_failure(&err);
    if (o.help) {
        printf("%s", usage);
        return 0;
    }
    with.threads = o.threads;
    if (device_open(o.device, &with, &be, &err) != 0)
        return report_failure(&err);
    printf("%s (%s)", be->info.name, be->info.features);
    if (be->info.threads)
        printf(", %u threads", be->info.threads);
    printf("\n");
    if (peak_gbytes_s(be, &bandwidth, &err) != 0)
        status = report_failure(&err);
    if (o.markdown && status == 0)
        print_head();
    for (int i = optind; i < argc && status == 0; i++)
        if (run_model(be, &o, argv[i], bandwidth, &err) != 0)
            status = report_failure(&err);
    backend_close(be);
    return status;
}
