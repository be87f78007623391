/* nightshift bench: how fast is this machine, and how near to what it can? */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "gpu/backend.h"
#include "tools/cli.h"
#include "tools/text.h"
#include "workers/models/bench.h"

#define MODELS_MAX 16

static const char help[] =
    "Usage: nightshift bench [OPTION]...\n"
    "How fast this machine transcribes: windows of 30 s a second, as a multiple of\n"
    "real time, the time of each stage, and the encoder's share of the machine's own\n"
    "matrix product, measured at the same moments. Random weights are as fast as\n"
    "real ones. Without a model: nano, tiny and base.\n"
    "\n"
    "  -m, --model=NAME     nano, tiny, base, small, medium, large-v3,\n"
    "                       large-v3-turbo, or a folder; may be repeated\n"
    "      --precision=P    auto (default), fp32, tf32, fp16, bf16, int8, fp8:\n"
    "                       what the device computes in\n"
    "      --threads=N      threads that compute (default: all)\n"
    "      --slots=N        windows in work at once (default: as a run chooses)\n"
    "      --windows=N      windows that the encoder takes at once (default: same)\n"
    "      --tokens=N       tokens of a window (default: 100)\n"
    "      --rounds=N       measured so often, the median counts (default: 5)\n"
    "      --json           as JSON\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift bench\n"
    "  nightshift bench --model large-v3-turbo --rounds 3\n";

struct wanted {
    const char *models[MODELS_MAX];
    uint32_t model_count, threads;
    struct bench_params params;
};

enum { OPT_PRECISION = 256, OPT_THREADS, OPT_SLOTS, OPT_WINDOWS, OPT_TOKENS, OPT_ROUNDS };

static const struct option longs[] = {
    {"model", required_argument, NULL, 'm'},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"slots", required_argument, NULL, OPT_SLOTS},
    {"windows", required_argument, NULL, OPT_WINDOWS},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct wanted *w = arg;

    switch (option) {
    case 'm':
        if (w->model_count == MODELS_MAX)
            return err_set(err, ERR_USAGE, "at most %d models at a time", MODELS_MAX);
        w->models[w->model_count++] = value;
        return 0;
    case OPT_PRECISION:
        return precision_parse(value, &w->params.precision, err);
    case OPT_THREADS:
        return cli_u32("--threads", value, 1, 1024, &w->threads, err);
    case OPT_SLOTS:
        return cli_u32("--slots", value, 1, 4096, &w->params.slots, err);
    case OPT_WINDOWS:
        return cli_u32("--windows", value, 1, 64, &w->params.windows, err);
    case OPT_TOKENS:
        return cli_u32("--tokens", value, 1, 440, &w->params.tokens, err);
    case OPT_ROUNDS:
        return cli_u32("--rounds", value, 1, 1000, &w->params.rounds, err);
    default:
        return err_set(err, ERR_USAGE, "an option that does not exist");
    }
}

static void print_row(const char *model, const struct bench_result *r)
{
    char weights[TEXT_LEN], *name = text_fit(model, 15);

    printf("%-15s %-4s %9.2f %7.0f %8.1f %8.1f %7.1f %7.2f %5.0f %%\n", name != NULL ? name : "",
           precision_name(r->precision), r->windows_per_second, r->times_real_time, r->mel_ms,
           r->encoder_ms, r->cross_ms, r->step_ms, 100 * r->encoder_share);
    printf("  %u slots, %u windows at once in the encoder, %u tokens a window; weights %s;\n"
           "  encoder %.0f of %.0f GFLOP/s; a decoder step reads %.1f GB/s\n",
           r->slots, r->windows, r->tokens, text_bytes(r->weight_bytes, weights),
           r->encoder_gflops_s, r->peak_gflops_s, r->step_gbytes_s);
    free(name);
}

static json_t *json_row(const char *model, const struct bench_result *r)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
                     "s:f, s:f, s:f, "
                     "s:f, s:f}",
                     "model", model, "precision", precision_name(r->precision), "slots",
                     (int)r->slots, "windows", (int)r->windows, "tokens", (int)r->tokens, "rounds",
                     (int)r->rounds, "weight_bytes", (json_int_t)r->weight_bytes, "slot_bytes",
                     (json_int_t)r->slot_bytes, "load_s", r->load_s, "mel_ms", r->mel_ms,
                     "encoder_ms", r->encoder_ms, "cross_ms", r->cross_ms, "step_ms", r->step_ms,
                     "step_gbytes_s", r->step_gbytes_s, "encoder_gflop", r->encoder_gflop,
                     "encoder_gflops_s", r->encoder_gflops_s, "peak_gflops_s", r->peak_gflops_s,
                     "encoder_share", r->encoder_share, "windows_per_second", r->windows_per_second,
                     "times_real_time", r->times_real_time);
}

static int bench_all(const struct cli *cli, struct wanted *w, struct backend *be, struct err *err)
{
    json_t *rows = json_array(), *o;
    int rc = 0;

    if (rows == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!cli->json) {
        printf("%s, %u threads (%s)\n\n", be->info.name, be->info.threads, be->info.features);
        printf("%-20s %9s %7s %8s %8s %7s %7s %7s\n", "", "windows", "x real", "log-mel", "encoder",
               "cross", "step", "encoder");
        printf("%-15s %-4s %9s %7s %8s %8s %7s %7s %7s\n", "model", "type", "a second", "time",
               "ms", "ms", "ms", "ms", "of peak");
    }
    for (uint32_t i = 0; rc == 0 && i < w->model_count; i++) {
        struct bench_result r;

        w->params.model = w->models[i];
        rc = bench_run(be, &w->params, &r, err);
        if (rc == 0 && cli->json)
            json_array_append_new(rows, json_row(w->models[i], &r));
        else if (rc == 0)
            print_row(w->models[i], &r);
        fflush(stdout);
    }
    if (rc == 0 && cli->json) {
        o = json_pack("{s:s, s:i, s:s, s:O}", "processor", be->info.name, "threads",
                      (int)be->info.threads, "features", be->info.features, "models", rows);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    } else if (rc == 0)
        puts("\nms: of a window, and of a decoder step of all slots. The peak is a product of\n"
             "2048 x 2048 x 2048 in the same precision, measured in turn with the model.");
    json_decref(rows);
    return rc;
}

int cmd_bench(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "m:", longs, take, true};
    struct wanted w = {0};
    struct backend *be = NULL;
    struct err err = {0};
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'; name a model with --model", argv[optind]);
    if (w.model_count == 0) {
        w.models[w.model_count++] = "nano";
        w.models[w.model_count++] = "tiny";
        w.models[w.model_count++] = "base";
    }
    if (backend_open_host(w.threads, &be, &err) != 0 || bench_all(cli, &w, be, &err) != 0)
        status = cli_fail("measure", &err, NULL);
    else
        status = EX_OK;
    backend_close(be);
    return cli_flush(status);
}
