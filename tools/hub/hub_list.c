#include "tools/hub/hub_list.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "workers/stages/stage.h"

#define FILES_MAX 10000
#define NAME_MAX_BYTES 96
#define HEX "0123456789abcdef"
#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

const char *const hub_small_files[] = {"config.json",
                                       "tokenizer.json",
                                       "generation_config.json",
                                       "preprocessor_config.json",
                                       "processor_config.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "normalizer.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "modules.json",
                                       "1_Pooling/config.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json",
                                       NULL};

/* ---- names */

static bool is_plain(const char *s, size_t n)
{
    return n > 0 && n <= NAME_MAX_BYTES && s[0] != '.' && s[0] != '-' && strspn(s, PLAIN) >= n;
}

/* Names with a slash count only if they are known beforehand. */
static bool is_asked_for(const char *name)
{
    for (size_t i = 0; hub_small_files[i]; i++)
        if (strcmp(name, hub_small_files[i]) == 0)
            return true;
    return is_plain(name, strlen(name));
}

int hub_id_check(const char *id, struct err *err)
{
    const char *slash = strchr(id, '/');

    if (!slash || !is_plain(id, (size_t)(slash - id)) || !is_plain(slash + 1, strlen(slash + 1)) ||
        strstr(id, "--") || strstr(id, ".."))
        return err_set(err, ERR_USAGE,
                       "it is not a name of a model on the hub. Try one such as small, "
                       "openai/whisper-small, silero-vad, " HUB_YAMNET " or " HUB_GE2E);
    return 0;
}

int hub_revision_check(const char *revision, struct err *err)
{
    const char *at = revision;
    bool fine = strlen(revision) <= 200 && !strstr(revision, "..");

    while (fine) {
        size_t n = strcspn(at, "/");

        fine = is_plain(at, n);
        if (at[n] == 0)
            break;
        at += n + 1;
    }
    return fine ? 0
                : err_set(err, ERR_USAGE,
                          "--revision is not a branch, tag or commit. Try one such as main");
}

bool hub_is_commit(const char *s) { return strlen(s) == 40 && strspn(s, HEX) == 40; }

/* ---- the list */

static int no_list(struct err *err, const char *what)
{
    return err_set(err, ERR_PROTOCOL,
                   "the server's list of the model's files %s. Try again later, or another "
                   "HF_ENDPOINT",
                   what);
}

static int take_files(json_t *siblings, struct hub_list *ret, struct err *err)
{
    size_t n = json_array_size(siblings);

    if (n > FILES_MAX)
        return no_list(err, "is endless");
    ret->file = calloc(n + 1, sizeof(*ret->file));
    if (!ret->file)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const char *name =
            json_string_value(json_object_get(json_array_get(siblings, i), "rfilename"));

        if (!name || !is_asked_for(name))
            continue;
        ret->file[ret->file_count] = strdup(name);
        if (!ret->file[ret->file_count++])
            return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

int hub_list_parse(const char *json, size_t len, struct hub_list *ret, struct err *err)
{
    struct hub_list l = {.file = NULL};
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
    const char *sha = json_string_value(json_object_get(root, "sha"));
    json_t *siblings = json_object_get(root, "siblings");
    int rc = 0;

    if (!json_is_object(root))
        rc = no_list(err, "is not JSON");
    else if (!sha || !hub_is_commit(sha))
        rc = no_list(err, "names no commit");
    else if (!json_is_array(siblings))
        rc = no_list(err, "names no files");
    else {
        memcpy(l.commit, sha, sizeof(l.commit));
        rc = take_files(siblings, &l, err);
    }
    json_decref(root);
    if (rc == 0)
        *ret = l;
    else
        hub_list_free(&l);
    return rc;
}

void hub_list_free(struct hub_list *l)
{
    for (uint32_t i = 0; i < l->file_count; i++)
        free(l->file[i]);
    free(l->file);
    *l = (struct hub_list){.file = NULL};
}

bool hub_list_has(const struct hub_list *l, const char *file)
{
    for (uint32_t i = 0; i < l->file_count; i++)
        if (strcmp(l->file[i], file) == 0)
            return true;
    return false;
}

/* ---- the choice */

int hub_list_choose(const struct hub_list *l, struct hub_weights *ret, struct err *err)
{
    static const struct hub_weights forms[] = {
        {"model.safetensors", false, false},
        {"model.safetensors.index.json", true, false},
        {"pytorch_model.bin", false, true},
        {"pytorch_model.bin.index.json", true, true},
    };

    for (size_t i = 0; i < HUB_SMALL_NEEDED; i++)
        if (!hub_list_has(l, hub_small_files[i]))
            return err_set(err, ERR_MODEL,
                           "it has no %s, and so cannot be used. Try the model that it was made "
                           "from, or another form of it",
                           hub_small_files[i]);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (hub_list_has(l, forms[i].file)) {
            *ret = forms[i];
            return 0;
        }
    return err_set(err, ERR_MODEL,
                   "it has no weights in a form that is read here (model.safetensors or "
                   "pytorch_model.bin, whole or in shards). Try the model that it was made from");
}

int hub_config_check(const char *json, size_t len, struct err *err)
{
    json_t *root = json_loadb(json, len, 0, NULL);
    const char *type = json_string_value(json_object_get(root, "model_type"));
    int rc = 0;

    if (!json_is_object(root))
        rc =
            err_set(err, ERR_MODEL, "its config.json is not JSON. Try another model or --revision");
    else if (!type || !stage_of_type(type))
        rc = err_set(
            err, ERR_MODEL,
            "its config.json says '%.60s', and it is neither Whisper nor a sentence encoder "
            "of BERT's kind nor CLAP. Try one such as small",
            type ? type : "");
    json_decref(root);
    return rc;
}
