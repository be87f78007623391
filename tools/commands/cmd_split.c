/* nightshift split: a catalog's open work as files for other machines. */
#include <jansson.h>

#include "tools/cli/cli.h"
#include "tools/parts/split.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"

static const char help[] =
    "Usage: nightshift split (--into=N | --hours-per-part=H) --output=DIR [OPTION]...\n"
    "Write what is to be done as N catalogs of their own, part-0000.db and so on,\n"
    "each with its manifest (part-0000.json). They take about as long as each other;\n"
    "a recording that is long is cut at checkpoints. `nightshift run --part` does one\n"
    "on any machine that sees the recordings under the same paths; `nightshift merge`\n"
    "brings the results back. The catalog stays as it is.\n"
    "\n"
    "      --into=N         so many parts, or as many as there are pieces of work\n"
    "      --hours-per-part=H   as many as it takes for H hours of audio in each\n"
    "                       (heard by two stages it counts twice)\n"
    "  -o, --output=DIR     the folder of the parts; made when it is missing\n"
    "      --shard=LENGTH   a checkpoint about every so often, as of `run`\n"
    "      --json           what was written, as JSON\n"
    "  -c, --catalog=FILE   the catalog\n"
    "  -q, --quiet          say only what went wrong\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift split --into 16 --output parts\n"
    "  nightshift run --part parts/part-0003.db\n"
    "  nightshift merge nightshift.db parts\n"
    "\n"
    "Exit status: 0; 66 when nothing is to be done; others as sysexits.h has them.\n";

enum { OPT_INTO = 256, OPT_HOURS, OPT_SHARD };

static const struct option longs[] = {
    {"into", required_argument, NULL, OPT_INTO},
    {"hours-per-part", required_argument, NULL, OPT_HOURS},
    {"output", required_argument, NULL, 'o'},
    {"shard", required_argument, NULL, OPT_SHARD},
    {0},
};

static int take(void *arg, int option, const char *value, struct err *err)
{
    struct split_wanted *w = arg;
    uint32_t hours = 0;
    int64_t ms = 0;
    int rc;

    switch (option) {
    case OPT_INTO:
        return cli_u32("--into", value, 1, 1000000, &w->parts, err);
    case OPT_HOURS:
        rc = cli_u32("--hours-per-part", value, 1, 1000000, &hours, err);
        w->part_ms = hours * UINT64_C(3600000);
        return rc;
    case 'o':
        w->output = value;
        return 0;
    case OPT_SHARD:
        rc = cli_length("--shard", value, 30000, 7200000, &ms, err);
        w->shard_ms = (uint32_t)ms;
        return rc;
    default:
        return err_set(err, ERR_USAGE, "an option that does not exist");
    }
}

static void print_done(const struct split_wanted *w, const struct split_done *d)
{
    char a[TEXT_LEN], b[TEXT_LEN], c[TEXT_LEN];

    printf("%s %s in %s: %s %s", text_count(d->parts, a), text_plural(d->parts, "part", "parts"),
           w->output, text_count(d->recordings, b),
           text_plural(d->recordings, "recording", "recordings"));
    if (d->cut > 0)
        printf(", %s of them cut", text_count(d->cut, a));
    printf("; %s.\n", text_bytes(d->bytes, a));
    printf("%s of audio to hear, %s to %s in each.\n", text_length((int64_t)d->cost_ms, a),
           text_length((int64_t)d->least_ms, b), text_length((int64_t)d->most_ms, c));
    if (d->guessed > 0)
        printf("How long %s of the recordings %s is guessed by size: nobody opened %s yet.\n",
               text_count(d->guessed, a), text_plural(d->guessed, "is", "are"),
               text_plural(d->guessed, "it", "them"));
    puts("Next, for each of them and on any machine: nightshift run --part FILE");
}

static void print_json(const struct split_done *d)
{
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parts", (json_int_t)d->parts,
                          "recordings", (json_int_t)d->recordings, "cut", (json_int_t)d->cut,
                          "guessed", (json_int_t)d->guessed, "audio_ms", (json_int_t)d->cost_ms,
                          "least_ms", (json_int_t)d->least_ms, "most_ms", (json_int_t)d->most_ms,
                          "bytes", (json_int_t)d->bytes);

    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

int cmd_split(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "o:", longs, take, true, NULL};
    struct split_wanted w = {0};
    struct split_done d;
    struct err err = {0};
    int status = cli_parse(cli, &spec, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no '%s'", argv[optind]);
    if (!w.output)
        return cli_usage(cli, "where to? --output=DIR says it");
    if (!w.parts == !w.part_ms)
        return cli_usage(cli, "into how many? --into=N, or --hours-per-part=H, says it");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    w.catalog = cli->catalog;
    if (split_catalog(&w, &d, &err) != 0) {
        status = cli_fail("split", &err,
                          err.code == ERR_EMPTY ? "`nightshift status` says what "
                                                  "there is."
                                                : NULL);
        return err.code == ERR_EMPTY ? EX_NOINPUT : status;
    }
    if (cli->json)
        print_json(&d);
    else if (!cli->quiet)
        print_done(&w, &d);
    return cli_flush(EX_OK);
}
