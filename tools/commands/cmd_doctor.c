/* nightshift doctor: is this machine ready? One line for each thing: found, doctor, what to do. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/doctor/doctor.h"

#define LIMIT_MS 180000

/* The trial's folder must be removed, also when somebody has waited enough. */
static volatile sig_atomic_t stopped;

static void on_signal(int signal) { stopped = signal; }

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction catch = {.sa_handler = on_signal};
    struct sigaction now;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(signals[i], &catch, NULL);
}

static int find_devices(struct doctor *d, struct devices *ret)
{
    struct err err = {0};
    int rc = d->quick ? devices_find(NULL, ret, &err) : devices_examine(NULL, d->stop, ret, &err);

    if (rc != 0 && rc != ERR_CANCELLED)
        doctor_finding(d, FINDING_BROKEN, "GPU", "devices that can be listed",
                       rc == ERR_USAGE ? "correct or unset NIGHTSHIFT_DEVICES"
                                       : "end other programs, then try again",
                       "%s", err.msg);
    if (rc != 0)
        devices_processor(ret);
    return rc;
}

static void look_at_all(struct doctor *d, struct devices *all)
{
    int rc;

    doctor_finding(d, FINDING_WELL, "nightshift", NULL, NULL, "%s", NIGHTSHIFT_VERSION);
    doctor_libraries(d);
    rc = find_devices(d, all);
    doctor_machine(d, &all->list[all->count - 1]); /* the processor is the last */
    if (rc == 0)
        doctor_devices(d, all);
    doctor_models(d);
    doctor_storage(d);
    if (!d->quick && !stopped)
        doctor_trials(d, all);
}

static bool is_ready(const struct doctor *d) { return d->bad == 0 && d->transcribes; }

static void print_conclusion(const struct doctor *d, const struct devices *all)
{
    json_t *o;

    if (!d->rows) {
        puts(d->bad > 0        ? "\nSomething is broken: see above what to do."
             : !d->transcribes ? "\nNot ready: there is no model to transcribe with. Next: "
                                 "nightshift setup"
             : d->warnings > 0 ? "\nReady, with warnings."
                               : "\nReady.");
        return;
    }
    o = json_pack("{s:b, s:o, s:O}", "ok", is_ready(d), "devices", doctor_inventory(all), "checks",
                  d->rows);
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

static const struct command_option options[] = {
    {COMMAND_SWITCH("quick", 0, doctor, quick,
                    "only quick checks: no operations, no transcription"),
     .manual = "Only quick checks: no operations, no transcription. Every run begins with those of "
               "them that are about GPUs."},
    {COMMAND_VALUE(COMMAND_LENGTH, "limit", 0, doctor, limit_ms, "LENGTH",
                   "time limit of one transcription (default: 3m)"),
     .low = 1000, .high = 86400000},
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .usage = "[OPTION]...",
    .about = "Check whether this machine is ready. It checks libraries, GPUs, processor, memory, "
             "disk, models, the decoders' sandbox and the catalog. It runs an operation of each "
             "kind on every GPU, and transcribes six seconds on each device, in a catalog of its "
             "own. It leaves nothing behind.",
    .options = options,
    .json = "as JSON, with the devices",
    .examples = "doctor\n"
                "doctor --json | jq '.checks[] | select(.state != \"ok\")'\n"
                "doctor --quick --json | jq .devices",
    .notes = "The CUDA backend has run on an H100 and an H200 alone.",
    .statuses = "0 if the machine is ready (there may be warnings), 69 if something is broken, "
                "otherwise 78: there is no model to transcribe with.",
};

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    struct doctor d = {.limit_ms = LIMIT_MS, .stop = &stopped};
    struct devices *all;
    struct err err = {0};
    int status = command_parse(cli, &command_doctor, &d, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    all = malloc(sizeof(*all));
    if (!all)
        return cli_no_memory("look at this machine");
    d.catalog = cli->catalog;
    d.rows = cli->json ? json_array() : NULL;
    catch_signals();
    look_at_all(&d, all);
    if (!stopped)
        print_conclusion(&d, all);
    json_decref(d.rows);
    free(all);
    if (stopped) {
        signal((int)stopped, SIG_DFL);
        raise((int)stopped);
    }
    return cli_flush(d.bad > 0 ? EX_UNAVAILABLE : is_ready(&d) ? EX_OK : EX_CONFIG);
}
