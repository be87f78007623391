/* nightshift plan: what a run would do here, and how long it would take. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/plan/plan.h"

static const char help[] =
    "Usage: nightshift plan [OPTION]...\n"
    "What `nightshift run` would do, before it is done: which devices work, with\n"
    "which model, precision and batch, how much of their memory that takes, how fast\n"
    "it will be and when all that waits is done. Nothing is changed.\n"
    "\n"
    "  -d, --devices=LIST   as for `nightshift run` (default: auto)\n"
    "      --allow-cpu      as for `nightshift run`\n"
    "      --device-memory=LIST   as for `nightshift run`: 80%, 20G, cuda:0=20G\n"
    "  -m, --model=NAME     as if all that waits were done with this model: a folder,\n"
    "                       a name from `nightshift model list`, or one not here\n"
    "                       (tiny, base, small, medium, large-v3, large-v3-turbo)\n"
    "      --precision=P    auto (default), fp32, tf32, fp16, bf16, int8, fp8\n"
    "      --cache-precision=P   auto (default), 16, 8: as for `nightshift run`\n"
    "      --slots=N        windows of 30 s in work at once, for each device\n"
    "      --threads=N      threads that compute, for each device\n"
    "      --json           as one JSON object\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift plan\n"
    "  nightshift plan --model large-v3 --precision int8\n"
    "\n"
    "The CUDA backend has run on an H100 and an H200 alone.\n"
    "\n"
    "Exit status: 0; 69 when no device can be used, or a model fits none of them.\n";

enum {
    OPT_PRECISION = 256,
    OPT_CACHE_PRECISION,
    OPT_SLOTS,
    OPT_THREADS,
    OPT_ALLOW_CPU,
    OPT_DEVICE_MEMORY
};

static const struct option longs[] = {
    {"devices", required_argument, NULL, 'd'},
    {"allow-cpu", no_argument, NULL, OPT_ALLOW_CPU},
    {"device-memory", required_argument, NULL, OPT_DEVICE_MEMORY},
    {"model", required_argument, NULL, 'm'},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"cache-precision", required_argument, NULL, OPT_CACHE_PRECISION},
    {"slots", required_argument, NULL, OPT_SLOTS},
    {"threads", required_argument, NULL, OPT_THREADS},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct plan_options *o = arg;

    switch (option) {
    case 'd':
        o->devices = value;
        return 0;
    case 'm':
        o->model = value;
        return 0;
    case OPT_ALLOW_CPU:
        o->allow_cpu = ALLOW_CPU_ALWAYS;
        return 0;
    case OPT_DEVICE_MEMORY:
        o->device_memory = value;
        return 0;
    case OPT_PRECISION:
        return precision_parse(value, &o->precision, err);
    case OPT_CACHE_PRECISION:
        return cache_precision_parse(value, &o->cache, err) == 0
                   ? 0
                   : err_prefix(err, "--cache-precision");
    case OPT_SLOTS:
        return cli_u32("--slots", value, 1, 4096, &o->slots, err);
    case OPT_THREADS:
        return cli_u32("--threads", value, 1, 1024, &o->threads, err);
    default:
        return err_set(err, ERR_USAGE, "an option that does not exist");
    }
}

int cmd_plan(struct cli *cli, int argc, char **argv)
{
    struct plan_options o = {0};
    const struct cli_spec spec = {help, "d:m:", longs, take, true, NULL};
    int status = cli_parse(cli, &spec, &o, argc, argv);
    struct plan p;
    struct err err = {0};

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no arguments, and '%s' is one", argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    o.catalog = cli->catalog;
    if (plan_make(&o, &p, &err) != 0) {
        status = cli_fail("make a plan", &err, NULL);
    } else {
        status = p.fits ? EX_OK : EX_UNAVAILABLE;
        if (cli->json)
            plan_print_json(&p, &o);
        else
            plan_print(&p, &o);
    }
    plan_free(&p);
    return cli_flush(status);
}
