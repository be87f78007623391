/* nightshift model: which models are here, where, whether they are whole; and more of them. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/commands/commands.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "tools/model_check.h"
#include "tools/hub/model_pull.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"

struct wanted {
    const char *revision;
};

struct list {
    json_t *rows; /* with --json */
    uint64_t n;
};

/* The option that takes this one where none is named; NULL: none does. */
static const char *taken_by(const char *name)
{
    const struct stage_kind *k = stage_kind_taking(name);
    struct err none = {0};
    char *dir = NULL;
    bool other; /* the user's own goes before what was pulled */

    if (!k || strcmp(name, k->embedded) == 0)
        return NULL;
    other = strcmp(name, k->model) != 0 && model_dir_find(k->model, &dir, &none) == 0;
    free(dir);
    return other ? NULL : k->option;
}

static void print_model(const char *name, const char *dir, const char *option, bool is_default)
{
    cli_paint(stdout, "1", name);
    if (is_default)
        printf("  (used when none is named)");
    else if (option)
        printf("  (used by --%s when none is named)", option);
    printf("\n    %s\n", dir);
}

static void on_model(void *arg, const char *name, const char *dir)
{
    struct list *l = arg;
    const char *usual = enqueue_model_usual();
    bool is_default = usual && strcmp(name, usual) == 0;
    char *shown = utf8_display(name, strlen(name)), *where = utf8_display(dir, strlen(dir));

    l->n++;
    if (shown && where && l->rows)
        json_array_append_new(l->rows, json_pack("{s:s, s:s, s:b}", "name", shown, "directory",
                                                 where, "default", (int)is_default));
    else if (shown && where)
        print_model(shown, where, taken_by(name), is_default);
    free(shown);
    free(where);
}

static int list_models(const struct cli *cli)
{
    struct list l = {.rows = cli->json ? json_array() : NULL};
    struct err err = {0};
    char *silero = NULL;

    if (model_dir_list(on_model, &l, &err) != 0) {
        json_decref(l.rows);
        return cli_fail("list the models", &err, NULL);
    }
    if (silero_find(SILERO_NAME, &silero, &err) == 0)
        on_model(&l, SILERO_NAME, silero);
    free(silero);
    if (l.rows) {
        json_dumpf(l.rows, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(l.rows);
    } else if (l.n == 0)
        puts("No model is here. `nightshift setup` fetches those that this machine needs.");
    return cli_flush(EX_OK);
}

static int print_model_path(const char *name)
{
    struct err err = {0};
    char *dir = NULL;

    if (model_where(name, &dir, &err) != 0)
        return cli_fail("find the model", &err, NULL);
    puts(dir);
    free(dir);
    return cli_flush(EX_OK);
}

static int check_named_model(const struct cli *cli, const char *name)
{
    struct model_check c;
    struct err err = {0};
    char doing[160];
    json_t *o;
    int status = EX_OK;

    snprintf(doing, sizeof(doing), "use the model '%s'", name);
    if (model_check(name, &c, &err) != 0)
        status = cli_fail(doing, &err, NULL);
    if (cli->json) {
        o = model_check_json(&c, &err);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    } else if (status == EX_OK)
        model_check_print(name, &c);
    model_check_free(&c);
    return cli_flush(status);
}

static const struct command_option options[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "revision", 0, wanted, revision, "REV",
                   "a branch, tag or commit (default: main)")},
    {0},
};

const struct command command_model = {
    .name = "model",
    .usage = "list [--json]\n"
             "pull NAME [--revision=REV] [--json]\n"
             "check NAME [--json]\n"
             "path NAME",
    .about = "List the models that are here, fetch one (pull), check that one is complete and "
             "usable (check: reads all of it), or print its folder (path).\nNAME is a name from "
             "the list, a folder, a whisper.cpp file, a Hugging Face id, or a short Whisper name: "
             "tiny, base, small, medium, large-v2, large-v3, turbo, distil-large-v3, small.en and "
             "so on. pull also takes silero-vad (voice activity), yamnet (sounds) and "
             "diarization-ge2e (speakers). Only pull and `nightshift setup` use the network.",
    .options = options,
    .json = "as JSON",
    .quiet = "show no progress",
    .catalog = "",
    .notes =
        "Models lie in $NIGHTSHIFT_MODELS, $XDG_DATA_HOME/nightshift/models, the folder that "
        "nightshift was installed with, and the Hugging Face cache ($HF_HOME), where pull puts "
        "them and other programs find them. A model is a folder with config.json, tokenizer.json "
        "and its weights (safetensors or pytorch_model.bin, in one file or in shards), with "
        "OpenAI's .pt and tokenizer.json, with CTranslate2's model.bin (faster-whisper), or with a "
        "LoRA adapter of PEFT's; or a file of whisper.cpp's, such as ggml-small.bin "
        "(docs/reference/models.md).\n\nA pull that was interrupted goes on where it ended when it "
        "is "
        "started again. Each file is checked by its hash. HF_TOKEN: for models with a licence to "
        "accept; HF_ENDPOINT: another server; HF_HUB_OFFLINE=1: never ask one.",
    .examples = "model pull small\n"
                "model pull silero-vad\n"
                "model pull yamnet\n"
                "model pull diarization-ge2e\n"
                "model check small",
};

int cmd_model(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {0};
    const char *what;
    int status = command_parse(cli, &command_model, &w, argc, argv);
    bool pulls;

    if (status >= 0)
        return status;
    what = optind < argc ? argv[optind] : "list";
    pulls = strcmp(what, "pull") == 0;
    if (w.revision && !pulls)
        return cli_usage(cli, "--revision goes only with pull");
    if (strcmp(what, "list") == 0 && argc - optind <= 1)
        return list_models(cli);
    if (argc - optind == 2 && strcmp(what, "path") == 0)
        return print_model_path(argv[optind + 1]);
    if (argc - optind == 2 && strcmp(what, "check") == 0)
        return check_named_model(cli, argv[optind + 1]);
    if (argc - optind == 2 && pulls)
        return model_pull(cli, argv[optind + 1], w.revision);
    return cli_usage(cli, "use list, pull NAME, check NAME or path NAME");
}
