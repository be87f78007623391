/* nightshift doctor: is this machine ready? One line for each thing: found, wanted, what to do. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/doctor/doctor.h"

#define LIMIT_MS 180000

static const char help[] =
    "Usage: nightshift doctor [OPTION]...\n"
    "Is this machine ready for a night's work? Looks at libraries, GPUs, processor,\n"
    "memory, disk, models, the decoders' sandbox and the catalog; runs an operation\n"
    "of each kind on every GPU; transcribes a recording of six seconds on each\n"
    "device, in a catalog of its own. Changes nothing that stays.\n"
    "\n"
    "      --quick          only what takes a moment: no operations, no transcription\n"
    "      --limit=LENGTH   for one transcription (default: 3m)\n"
    "      --json           as JSON, with the devices\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift doctor\n"
    "  nightshift doctor --json | jq '.checks[] | select(.state != \"ok\")'\n"
    "  nightshift doctor --quick --json | jq .devices\n"
    "\n"
    "The CUDA backend has run on an H100 and an H200 alone.\n"
    "\n"
    "Exit status: 0 when nothing is broken (there may be warnings), 69 else.\n";

enum { OPT_QUICK = 256, OPT_LIMIT };

static const struct option longs[] = {
    {"quick", no_argument, NULL, OPT_QUICK}, {"limit", required_argument, NULL, OPT_LIMIT}, {0}};

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

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct doctor *d = arg;

    if (option == OPT_QUICK) {
        d->quick = true;
        return 0;
    }
    if (option == OPT_LIMIT)
        return cli_length("--limit", value, 1000, 86400000, &d->limit_ms, err);
    return err_set(err, ERR_USAGE, "an option that does not exist");
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

static void conclude(const struct doctor *d, const struct devices *all)
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
    o = json_pack("{s:b, s:o, s:O}", "ok", d->bad == 0, "devices", doctor_inventory(all), "checks",
                  d->rows);
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "", longs, take, true, NULL};
    struct doctor d = {.limit_ms = LIMIT_MS, .stop = &stopped};
    struct devices *all;
    struct err err = {0};
    int status = cli_parse(cli, &spec, &d, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'", argv[optind]);
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
        conclude(&d, all);
    json_decref(d.rows);
    free(all);
    if (stopped) {
        signal((int)stopped, SIG_DFL);
        raise((int)stopped);
    }
    return cli_flush(d.bad > 0 ? EX_UNAVAILABLE : EX_OK);
}
