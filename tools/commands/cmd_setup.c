/* nightshift setup: the models that a first night wants, in one command. */
#include <stdlib.h>

#include "tools/commands/commands.h"
#include "tools/setup/setup.h"

static void put_names(const struct complete *c, const struct command_option *o)
{
    const struct model_name *m;

    (void)o;
    for (uint32_t i = 0; (m = model_name_at(i)); i++)
        complete_put(c, m->name);
}

static const struct command_option options[] = {
    {COMMAND_VALUE(
         COMMAND_TEXT, "model", 'm', setup_options, model, "NAME",
         "tiny, base, small, medium, large-v3, large-v3-turbo, distil-large-v3, small.en and so "
         "on. Default: the best that is here, or else the best of large-v3-turbo, small and base "
         "that fits and does 100 hours of sound in 10 hours, or else base"),
     .manual = "The Whisper model: tiny, base, small, medium, large-v3, large-v3-turbo, "
               "distil-large-v3, small.en and so on. The default is the best that is here. If none "
               "is here, it is the best of large-v3-turbo, small and base that fits and does 100 "
               "hours of sound in 10 hours, or else base.",
     .complete = put_names},
    {COMMAND_SWITCH("yes", 'y', setup_options, yes, "do not ask"),
     .manual = "Do not ask. Where nobody can be asked, nothing is fetched without this option."},
    {COMMAND_VALUE(COMMAND_TEXT, "save", 0, setup_options, save, "DIR",
                   "also copy the models into DIR, for a machine without a network"),
     .manual = "Also copy the models into DIR, with their hashes, for a machine without a network, "
               "and say what is missing there."},
    {COMMAND_VALUE(COMMAND_TEXT, "offline", 0, setup_options, from, "DIR",
                   "copy the models from DIR, without asking and without a network. DIR: a folder "
                   "of --save, of models, or a Hugging Face cache"),
     .manual = "Copy the models from DIR, without asking and without a network. DIR is a folder of "
               "--save, a folder of models, or a copied Hugging Face cache."},
    {0},
};

const struct command command_setup = {
    .name = "setup",
    .usage = "[OPTION]...",
    .about = "Fetch the models that this machine needs. It looks at GPUs, processors and memory, "
             "and chooses a Whisper model that fits. Before it fetches anything it lists each "
             "model, its size, licence and purpose, and how long 100 hours of sound will take. "
             "Then it asks.\nThe models are for: transcription, voice activity, speakers, sounds, "
             "and search by meaning. Each file is checked by its hash. An interrupted download "
             "resumes; models that are here are not fetched again.",
    .options = options,
    .json = "as JSON; does not ask, and fetches only with --yes",
    .quiet = "show no progress",
    .catalog = "the catalog, for the speed that earlier runs measured",
    .examples = "setup\n"
                "setup --yes --model large-v3-turbo --save /media/stick/models\n"
                "setup --offline /media/stick/models",
    .statuses = "0 if all models are here at the end.",
};

/* Whether it may fetch; else the exit status is *status. */
static bool may_fetch(const struct cli *cli, const struct setup_options *o, int *status)
{
    if (o->yes || o->from)
        return true;
    if (!cli_can_ask(cli)) {
        *status = cli_unasked(cli, "it fetches");
        return false;
    }
    if (cli_confirmed("Fetch it?"))
        return true;
    puts("Nothing was fetched.");
    *status = EX_TEMPFAIL;
    return false;
}

static int fetch_lacking_models(const struct cli *cli, struct setup *s)
{
    struct setup_room room = {0};
    struct err err = {0};
    int full = setup_room(s, &room, &err), status = EX_OK;

    if (!cli->json)
        setup_print(s, &room);
    if (setup_lacking(s) > 0 && full != 0)
        status = cli_fail("make room for the models", &err, NULL);
    else if (setup_lacking(s) > 0 && may_fetch(cli, s->options, &status))
        status = setup_bring(s, cli);
    setup_room_free(&room);
    return status;
}

/* One that could not be had keeps no other from the folder; who was not asked, said no or
 * interrupted it wants nothing more. */
static bool may_save(const struct setup *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->part[i].err.code == ERR_CANCELLED)
            return false;
    return s->tried || setup_lacking(s) == 0;
}

static int set_up(const struct cli *cli, struct setup *s)
{
    int status = fetch_lacking_models(cli, s), saved;

    if (s->options->save && may_save(s)) {
        saved = setup_save(s, cli);
        status = status == EX_OK ? saved : status;
    }
    if (cli->json && setup_print_json(s) != EX_OK)
        return EX_OSERR;
    if (!cli->json)
        setup_print_next(s);
    return cli_flush(status);
}

int cmd_setup(struct cli *cli, int argc, char **argv)
{
    struct setup_options o = {0};
    int status = command_parse(cli, &command_setup, &o, argc, argv);
    struct setup s = {0};
    struct err err = {0};

    if (status >= 0)
        return status;
    if (optind < argc)
        return cli_usage(cli, "it takes no arguments, but got '%s'", argv[optind]);
    if (o.from && o.save)
        return cli_usage(cli, "--save is for the machine with network, --offline for the other");
    if (cli_catalog(cli, false, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (setup_look(&o, cli->catalog, &s, &err) != 0)
        status = err.code == ERR_USAGE
                     ? cli_usage(cli, "%s", err.msg)
                     : cli_fail(o.from && err.code == ERR_MISSING ? "take models from --offline"
                                                                  : "look at this machine",
                                &err, NULL);
    else
        status = set_up(cli, &s);
    setup_free(&s);
    return status;
}
