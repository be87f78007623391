/* nightshift split: a catalog's open work as files for other machines. */
#include <jansson.h>

#include "tools/cli/cli.h"
#include "tools/parts/split.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"

static void print_done(const struct split_wanted *w, const struct split_done *d)
{
    char a[TEXT_LEN], b[TEXT_LEN], c[TEXT_LEN];

    printf("%s %s in %s: %s %s", text_count(d->parts, a), text_plural(d->parts, "part", "parts"),
           w->output, text_count(d->recordings, b),
           text_plural(d->recordings, "recording", "recordings"));
    if (d->cut > 0)
        printf(", %s of them cut", text_count(d->cut, a));
    printf("; %s.\n", text_bytes(d->bytes, a));
    printf("%s of audio to process, %s to %s in each.\n", text_length((int64_t)d->cost_ms, a),
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

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_NUMBER, "into", 0, split_wanted, parts, "N",
                   "number of parts; fewer if there is less work"),
     .low = 1, .high = 1000000},
    {COMMAND_VALUE(COMMAND_NUMBER, "hours-per-part", 0, split_wanted, part_hours, "H",
                   "audio in each part, in hours (audio for two stages counts twice)"),
     .low = 1, .high = 1000000},
    {COMMAND_VALUE(COMMAND_TEXT, "output", 'o', split_wanted, output, "DIR",
                   "the folder of the parts; created if it does not exist")},
    {COMMAND_VALUE(COMMAND_LENGTH, "shard", 0, split_wanted, shard_ms, "LENGTH",
                   "audio between two checkpoints, as for `nightshift run`"),
     .low = 30000, .high = 7200000},
    {0},
};

const struct command command_split = {
    .name = "split",
    .usage = "(--into=N | --hours-per-part=H) --output=DIR [OPTION]...",
    .about = "Divide the waiting work into N catalogs, part-0000.db and so on, each with a "
             "manifest (part-0000.json). The parts take about the same time; long recordings are "
             "cut at checkpoints. `nightshift run --part` runs a part on any machine that has the "
             "recordings under the same paths. `nightshift merge` brings the results back. The "
             "catalog itself is not changed.",
    .options = options,
    .json = "the parts, as JSON",
    .quiet = "print only errors and warnings",
    .examples = "split --into 16 --output parts\n"
                "run --part parts/part-0003.db\n"
                "merge nightshift.db parts",
    .statuses = "0; 66 if no work is waiting; others: see sysexits.h.",
};

int cmd_split(struct cli *cli, int argc, char **argv)
{
    struct split_wanted w = {0};
    struct split_done d;
    struct err err = {0};
    int status = command_parse(cli, &command_split, &w, argc, argv);

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (!w.output)
        return cli_usage(cli, "name the folder of the parts: --output=DIR");
    if (!w.parts == !w.part_hours)
        return cli_usage(cli, "give the number of parts: --into=N or --hours-per-part=H");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    w.catalog = cli->catalog;
    if (split_catalog(&w, &d, &err) != 0) {
        status =
            cli_fail("split", &err,
                     err.code == ERR_EMPTY ? "`nightshift status` shows what there is." : NULL);
        return err.code == ERR_EMPTY ? EX_NOINPUT : status;
    }
    if (cli->json)
        print_json(&d);
    else if (!cli->quiet)
        print_done(&w, &d);
    return cli_flush(EX_OK);
}
