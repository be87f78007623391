/* nightshift plan: what a run would do here, and how long it would take. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/plan/plan.h"

static int take_precision(void *wanted, const char *value, struct err *err)
{
    return precision_parse(value, &((struct plan_options *)wanted)->precision, err);
}

static int take_cache(void *wanted, const char *value, struct err *err)
{
    return cache_precision_parse(value, &((struct plan_options *)wanted)->cache, err) == 0
               ? 0
               : err_prefix(err, "--cache-precision");
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "devices", 'd', plan_options, devices, "LIST",
                   "as for `nightshift run` (default: auto)")},
    {COMMAND_CONSTANT("allow-cpu", 0, plan_options, allow_cpu, ALLOW_CPU_ALWAYS,
                      "as for `nightshift run`")},
    {COMMAND_VALUE(COMMAND_TEXT, "device-memory", 0, plan_options, device_memory, "LIST",
                   "as for `nightshift run`: 80%, 20G, cuda:0=20G")},
    {COMMAND_VALUE(
        COMMAND_TEXT, "model", 'm', plan_options, model, "NAME",
        "estimate all waiting work with this model: a folder, a name from `nightshift model list`, "
        "or one not here (tiny, base, small, medium, large-v3, turbo and so on)")},
    {COMMAND_READ("precision", 0, take_precision, "P",
                  "auto (default), fp32, tf32, fp16, bf16, int16, int8, fp8")},
    {COMMAND_READ("cache-precision", 0, take_cache, "P",
                  "auto (default), 16, 8: as for `nightshift run`")},
    {COMMAND_VALUE(COMMAND_NUMBER, "slots", 0, plan_options, slots, "N",
                   "windows of 30 s in work at the same time, for each device"),
     .low = 1, .high = 4096},
    {COMMAND_VALUE(COMMAND_NUMBER, "threads", 0, plan_options, threads, "N",
                   "threads that compute, for each device"),
     .low = 1, .high = 1024},
    {0},
};

const struct command command_plan = {
    .name = "plan",
    .usage = "[OPTION]...",
    .about = "Estimate what `nightshift run` would do: which devices work, with which model, "
             "precision and batch size, how much memory that takes, how fast it is, and when all "
             "waiting work is done. Nothing is changed.",
    .notes = "The CUDA backend has run on an H100 and an H200 alone.",
    .options = options,
    .json = "as one JSON object",
    .examples = "plan\n"
                "plan --model large-v3 --precision int8",
    .statuses = "0; 69 if no device can be used, or a model fits none of them.",
};

int cmd_plan(struct cli *cli, int argc, char **argv)
{
    struct plan_options o = {0};
    int status = command_parse(cli, &command_plan, &o, argc, argv);
    struct plan p;
    struct err err = {0};

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no arguments, but got '%s'", argv[optind]);
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
