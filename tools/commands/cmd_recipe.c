/* nightshift recipe: what an enqueue does with files and folders: shown, set and removed. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/shell.h"
#include "tools/commands/commands.h"
#include "tools/enqueue/groups.h"
#include "tools/enqueue/option_words.h"
#include "tools/enqueue/recipes.h"
#include "tools/writer.h"

struct recipe_command {
    struct cli *cli;
    struct enqueue_wish wish;
    bool remove;
    char **paths; /* absolute */
    uint32_t count;
};

static const struct command_option recipe_options[] = {
    {COMMAND_SWITCH("remove", 0, recipe_command, remove,
                    "remove the recipe of PATH, so that the recipe above it applies; with "
                    "--diarize and others only theirs"),
     .manual = "Remove the recipe of PATH, so that the recipe above it applies. With --diarize and "
               "other names of stages, only theirs is removed."},
    {.kind = COMMAND_TABLE,
     .table = enqueue_wish_table,
     .offset = offsetof(struct recipe_command, wish),
     .unlisted = true},
    {0},
};

const struct command command_recipe = {
    .name = "recipe",
    .usage = "[PATH]...\nOPTION... PATH...\n--remove PATH...",
    .about =
        "Show, set or remove the recipe of a file or folder: the options with which `nightshift "
        "enqueue` transcribes its recordings. Each kind of stage follows the nearest folder at or "
        "above a recording. Without PATH, all recipes are shown.\n"
        "With options of `nightshift enqueue` (--model, --language, --diarize and others) the "
        "recipe is set, but nothing is enqueued. It applies to new files. To apply it to files "
        "that are done already, use `nightshift enqueue --again PATH`.",
    .options = recipe_options,
    .json = "as JSON",
    .quiet = "print only errors and warnings",
    .notes = "`nightshift enqueue --help` lists the options of a recipe.",
    .examples = "recipe\n"
                "recipe --model openai/whisper-small --diarize /archive\n"
                "recipe --remove /archive/1990",
    .statuses = "0; 66 if there is no catalog, or nothing to remove; others: see sysexits.h.",
};

/* ------------------------------------------------------------------------------- shown */

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=/.,:+@%"

/* Puts the options as users type them. */
static void put_words(const char *options, struct buf *out)
{
    json_t *list = json_loads(options, 0, NULL), *word;
    size_t i;

    json_array_foreach(list, i, word)
    {
        const char *text = json_string_value(word);

        buf_printf(out, " ");
        if (text && text[strspn(text, PLAIN)] == 0)
            buf_printf(out, "%s", text);
        else if (text)
            shell_quote(out, text, strlen(text));
    }
    json_decref(list);
}

/* Does it hold at or below one of the paths? */
static bool is_meant(const struct recipe_command *c, const struct recipes *r,
                     const struct recipe_place *p, size_t kind)
{
    bool meant = c->count == 0;

    for (uint32_t i = 0; !meant && i < c->count; i++) {
        const char *path = c->paths[i];

        meant = paths_nearest(PATHS_OF(&path, 1), p->path, strlen(p->path)) ||
                recipes_of(r, path, kind) == &p->of[kind];
    }
    return meant && p->of[kind].options;
}

static void put_kind(const char *path, bool first, size_t kind, const char *options, json_t *list)
{
    struct buf b = BUF_INIT;

    if (list) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "path", path, "stage",
                                              stage_kinds[kind]->name, "options",
                                              json_loads(options, 0, NULL)));
        return;
    }
    if (first)
        puts(path);
    printf("  %s:", stage_kinds[kind]->name);
    put_words(options, &b);
    cli_wrap(stdout, buf_cstr(&b) ? buf_cstr(&b) : "", strlen(stage_kinds[kind]->name) + 3, 4);
    buf_free(&b);
}

static int print_recipes(const struct recipe_command *c, struct store *st, struct err *err)
{
    json_t *list = c->cli->json ? json_array() : NULL;
    struct recipes *r = NULL;
    bool any = false;
    int rc = recipes_read(st, &r, err);

    for (size_t i = 0; rc == 0 && i < recipes_places(r).count; i++) {
        const struct recipe_place *p = (const struct recipe_place *)recipes_places(r).list + i;
        char *path = utf8_display(p->path, strlen(p->path));
        bool first = true;

        for (size_t kind = 0; path && kind < STAGE_COUNT; kind++) {
            if (!is_meant(c, r, p, kind))
                continue;
            put_kind(path, first, kind, p->of[kind].options, list);
            first = false;
            any = true;
        }
        free(path);
    }
    if (rc == 0 && list) {
        json_dumpf(list, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (rc == 0 && !any)
        puts("There is no recipe yet: the next enqueue sets one.");
    json_decref(list);
    recipes_free(r);
    return rc;
}

static int show_all(const struct recipe_command *c)
{
    struct store *st = NULL;
    struct err err = {0};
    int rc = store_open(c->cli->catalog, STORE_READ, &st, &err);

    if (rc == 0)
        rc = print_recipes(c, st, &err);
    store_close(st);
    return rc == 0 ? cli_flush(EX_OK) : cli_fail("read the catalog", &err, NULL);
}

/* ------------------------------------------------------------------------------- changed */

static int set_group(struct writer *writer, const struct groups_group *g, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < g->count; i++) {
        const struct groups_kind *k = &g->kinds[i];
        const struct request rq = {.type = REQUEST_RECIPE,
                                   .stage = k->stage,
                                   .roots = k->roots,
                                   .root_count = k->root_count,
                                   .options = k->options,
                                   .replaces = k->replaces};
        struct request_reply reply = {0};

        if (k->root_count > 0)
            rc = writer_request(writer, &rq, &reply, err);
    }
    return rc;
}

static int set_recipes(struct recipe_command *c, struct writer *writer, struct err *err)
{
    struct groups g = {0};
    char doing[200] = "";
    int rc = groups_make(&c->wish, false, writer_store(writer), (const char *const *)c->paths,
                         c->count, &g, doing, err);

    for (uint32_t i = 0; rc == 0 && i < g.count; i++)
        rc = set_group(writer, &g.list[i], err);
    groups_free(&g);
    return rc < 0 && doing[0] ? err_prefix(err, "%s", doing) : rc;
}

static int remove_all(const struct recipe_command *c, struct writer *writer, uint64_t *removed,
                      struct err *err)
{
    const bool some = enqueue_wish_other(&c->wish);
    int rc = 0;

    for (size_t kind = 0; rc == 0 && kind < STAGE_COUNT; kind++) {
        const struct request rq = {.type = REQUEST_RECIPE,
                                   .stage = {.name = stage_kinds[kind]->name, .model_hash = ""},
                                   .roots = (const char *const *)c->paths,
                                   .root_count = c->count};
        struct request_reply reply = {0};

        if (some && !c->wish.other[kind])
            continue;
        rc = writer_request(writer, &rq, &reply, err);
        *removed += reply.affected;
    }
    return rc;
}

static int change_recipes(struct recipe_command *c)
{
    struct writer *writer = NULL;
    struct err err = {0};
    uint64_t removed = 0;
    int rc = writer_open(c->cli->catalog, "recipe", 10000, c->cli->quiet, &writer, &err);

    if (rc == 0)
        rc = c->remove ? remove_all(c, writer, &removed, &err) : set_recipes(c, writer, &err);
    if (rc == 0 && c->remove && removed == 0)
        rc = err_set(&err, ERR_MISSING, "it has no recipe of its own");
    if (rc == 0 && !c->cli->quiet)
        rc = print_recipes(c, writer_store(writer), &err);
    writer_close(writer);
    if (rc == 0)
        return cli_flush(EX_OK);
    return cli_fail(c->remove ? "remove the recipe" : "set the recipe", &err,
                    rc == ERR_MISSING ? "`nightshift recipe` lists all." : NULL);
}

/* ------------------------------------------------------------------------------- the command */

/* -1: go on. */
static int take_paths(struct recipe_command *c, int argc, char **argv)
{
    struct err err = {0};

    c->paths = calloc((size_t)(argc - optind) + 1, sizeof(*c->paths));
    if (!c->paths)
        return cli_no_memory("take the paths");
    for (; optind < argc; optind++, c->count++)
        if (cli_absolute(argv[optind], &c->paths[c->count], &err) != 0)
            return cli_fail("take the paths", &err, NULL);
    return -1;
}

static int run_recipe(struct recipe_command *c)
{
    const bool said = said_anything(&c->wish);
    struct store *there = NULL;
    struct err err = {0};

    if ((said || c->remove) && c->count == 0)
        return cli_usage(c->cli, "name the files or folders of the recipe");
    if (c->remove && (c->wish.no_transcribe || enqueue_wish_transcribes(&c->wish)))
        return cli_usage(c->cli, "--remove goes only with a PATH and names of stages");
    if (!c->remove && enqueue_wish_agree(&c->wish, &err) != 0)
        return cli_usage(c->cli, "%s", err.msg);
    if (cli_catalog(c->cli, said && !c->remove, &err) != 0)
        return cli_fail("find the catalog", &err, NULL);
    if (!said && !c->remove)
        return show_all(c);
    /* A writer would make a catalog where there is none. */
    if (c->remove && store_open(c->cli->catalog, STORE_READ, &there, &err) != 0)
        return cli_fail("open the catalog", &err, NULL);
    store_close(there);
    return change_recipes(c);
}

int cmd_recipe(struct cli *cli, int argc, char **argv)
{
    struct recipe_command c = {.cli = cli};
    int status;

    enqueue_wish_init(&c.wish);
    status = command_parse(cli, &command_recipe, &c, argc, argv);
    if (status < 0)
        status = take_paths(&c, argc, argv);
    if (status < 0)
        status = run_recipe(&c);
    for (uint32_t i = 0; i < c.count; i++)
        free(c.paths[i]);
    free(c.paths);
    return status;
}
