/* nightshift model: which models are here, where, and whether they are whole. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "gpu/backend.h"
#include "base/utf8.h"
#include "tools/cli.h"
#include "tools/text.h"
#include "workers/models/model_dir.h"
#include "workers/models/whisper.h"
#include "workers/text/vocabulary.h"

static const char help[] =
    "Usage: nightshift model list [--json]\n"
    "       nightshift model path NAME\n"
    "       nightshift model check NAME [--json]\n"
    "Which models are here (list), in which folder one is (path), and whether it is\n"
    "whole and can be used (check: reads all of it). NAME is a name from the list, a\n"
    "folder, or a Hugging Face id that is in the local cache. Nothing is downloaded.\n"
    "\n"
    "Models lie in $NIGHTSHIFT_MODELS, $XDG_DATA_HOME/nightshift/models, the folder\n"
    "that nightshift was installed with, and the Hugging Face cache ($HF_HOME). A\n"
    "model is a folder with config.json, tokenizer.json and its weights (safetensors\n"
    "or pytorch_model.bin, in one file or in shards), or with OpenAI's .pt and\n"
    "tokenizer.json (docs/models.md); to get one:\n"
    "  huggingface-cli download openai/whisper-small\n"
    "\n"
    "      --json           as JSON\n"
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  nightshift model list\n"
    "  nightshift model check openai/whisper-small\n";

static const struct option longs[] = {{0}};

static int take(void *arg, int option, const char *value, struct err *err)
{
    (void)arg;
    (void)option;
    (void)value;
    return err_set(err, ERR_USAGE, "an option that does not exist");
}

struct list {
    json_t *rows; /* with --json */
    uint64_t n;
};

static void on_model(void *arg, const char *name, const char *dir)
{
    struct list *l = arg;
    bool is_default = strcmp(name, MODEL_DEFAULT) == 0;
    char *shown = utf8_display(name, strlen(name)), *where = utf8_display(dir, strlen(dir));

    l->n++;
    if (shown != NULL && where != NULL && l->rows != NULL)
        json_array_append_new(l->rows, json_pack("{s:s, s:s, s:b}", "name", shown, "directory",
                                                 where, "default", (int)is_default));
    else if (shown != NULL && where != NULL) {
        cli_paint(stdout, "1", shown);
        printf("%s\n    %s\n", is_default ? "  (used when none is named)" : "", where);
    }
    free(shown);
    free(where);
}

static int list(const struct cli *cli)
{
    struct list l = {.rows = cli->json ? json_array() : NULL};
    struct err err = {0};

    if (model_dir_list(on_model, &l, &err) != 0) {
        json_decref(l.rows);
        return cli_fail("list the models", &err, NULL);
    }
    if (l.rows != NULL) {
        json_dumpf(l.rows, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(l.rows);
    } else if (l.n == 0)
        puts("No model is here. `nightshift model --help` says where they are looked for.");
    return cli_flush(EX_OK);
}

static int path(const char *name)
{
    struct err err = {0};
    char *dir = NULL;

    if (model_dir_find(name, &dir, &err) != 0)
        return cli_fail("find the model", &err, NULL);
    puts(dir);
    free(dir);
    return cli_flush(EX_OK);
}

struct checked {
    char *dir;
    char hash[MODEL_HASH_LEN];
    struct whisper_config config;
    uint32_t languages, tokens;
};

/* Loads it as a worker would, every tensor of it. */
static int check_model(const char *name, struct checked *c, struct err *err)
{
    struct vocabulary *v = NULL;
    struct backend *be = NULL;
    struct whisper *w = NULL;
    int rc = model_dir_find(name, &c->dir, err);

    if (rc == 0)
        rc = model_dir_hash(c->dir, c->hash, err);
    if (rc == 0)
        rc = vocabulary_load(c->dir, &v, err);
    if (rc == 0)
        rc = backend_open_host(0, &be, err);
    if (rc == 0)
        rc = whisper_load(c->dir, be, PRECISION_AUTO, &w, err);
    if (rc == 0) {
        c->config = *whisper_config(w);
        c->languages = vocabulary_language_count(v);
        c->tokens = vocabulary_size(v);
        if (c->tokens > c->config.vocab_size)
            rc =
                err_set(err, ERR_MODEL,
                        "tokenizer.json has %u tokens and the weights have %u; both must be of one "
                        "model",
                        c->tokens, c->config.vocab_size);
    }
    whisper_free(w);
    backend_close(be);
    vocabulary_free(v);
    return rc;
}

static int check(const struct cli *cli, const char *name)
{
    struct checked c = {0};
    struct err err = {0};
    char doing[160];
    json_t *o;
    int status = EX_OK;

    snprintf(doing, sizeof(doing), "use the model '%s'", name);
    if (check_model(name, &c, &err) != 0)
        status = cli_fail(doing, &err, NULL);
    if (cli->json) {
        o = json_pack("{s:b, s:s?, s:s, s:s, s:i, s:i, s:i}", "ok", (int)(status == EX_OK),
                      "directory", c.dir, "hash", c.hash, "error", err.msg, "mel_bins",
                      (int)c.config.mel_bins, "vocabulary", (int)c.config.vocab_size, "languages",
                      (int)c.languages);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    } else if (status == EX_OK) {
        printf("%s is whole and can be used.\n", name);
        printf("  folder      %s\n  hash        %s\n", c.dir, c.hash);
        printf("  encoder     %u layers of %u, %u mel bins\n", c.config.encoder_layers,
               c.config.d_model, c.config.mel_bins);
        printf("  decoder     %u layers, %u tokens, %u %s\n", c.config.decoder_layers,
               c.config.vocab_size, c.languages, text_plural(c.languages, "language", "languages"));
    }
    free(c.dir);
    return cli_flush(status);
}

int cmd_model(struct cli *cli, int argc, char **argv)
{
    const struct cli_spec spec = {help, "", longs, take, true};
    int status = cli_parse(cli, &spec, NULL, argc, argv);
    const char *what;

    if (status >= 0)
        return status;
    what = optind < argc ? argv[optind] : "list";
    if (strcmp(what, "list") == 0 && argc - optind <= 1)
        return list(cli);
    if (strcmp(what, "path") == 0 && argc - optind == 2)
        return path(argv[optind + 1]);
    if (strcmp(what, "check") == 0 && argc - optind == 2)
        return check(cli, argv[optind + 1]);
    return cli_usage(cli, "it is list, path NAME or check NAME");
}
