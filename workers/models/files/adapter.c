#include "workers/models/files/adapter.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/utf8.h"
#include "workers/models/files/model_dir.h"
#include "workers/text/json_file.h"

/* Whether a key says something: neither missing, null, false, nor empty. */
static bool is_set(const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);

    return v && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_object(v) && !json_object_size(v)) &&
           !(json_is_array(v) && !json_array_size(v));
}

/* Kinds of LoRA whose result is another than the base and a product. */
static int check_kind(const json_t *config, struct err *err)
{
    static const char *const others[] = {
        "use_dora",          "use_qalora",        "use_bdlora",
        "fan_in_fan_out",    "kasa_config",       "layer_replication",
        "target_parameters", "monteclora_config", "trainable_token_indices",
        "lora_bias",         "arrow_config",      "alora_invocation_tokens",
    };
    const char *type = json_string_value(json_object_get(config, "peft_type"));

    if (!type || strcmp(type, "LORA") != 0)
        return err_set(err, ERR_MODEL, "the adapter is of the kind '%.40s', not LORA",
                       type ? type : "(none)");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (is_set(config, others[i]))
            return err_set(err, ERR_MODEL,
                           "%s is not supported: merge the adapter into its base with PEFT's "
                           "merge_and_unload",
                           others[i]);
    return 0;
}

/* Some ways to begin a training change the base, which the adapter does not have with it. */
static int check_start(const json_t *config, struct err *err)
{
    static const char *const plain[] = {"gaussian", "eva", "orthogonal"};
    const char *start = json_string_value(json_object_get(config, "init_lora_weights"));

    for (size_t i = 0; start && i < sizeof(plain) / sizeof(plain[0]); i++)
        if (strcmp(start, plain[i]) == 0)
            return 0;
    return !start ? 0
                  : err_set(err, ERR_MODEL,
                            "init_lora_weights is '%.40s', which changes the base: merge the "
                            "adapter into it with PEFT's merge_and_unload",
                            start);
}

/* Regular expressions are understood where they are names. */
static int check_names(const json_t *config, const char *key, struct err *err)
{
    json_t *names = json_object_get(config, key), *value;
    const char *name;

    json_object_foreach(names, name, value)
    {
        if (!json_is_number(value) || strpbrk(name, "^$*+?()[]{}|\\"))
            return err_set(err, ERR_MODEL, "%s has '%.80s', which is not supported", key, name);
    }
    return 0;
}

static int check_numbers(const json_t *config, struct err *err)
{
    const json_t *alpha = json_object_get(config, "lora_alpha");
    const char *revision = json_string_value(json_object_get(config, "revision"));
    int rc;

    if (!json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return err_set(err, ERR_MODEL, "there is no number lora_alpha");
    rc = check_names(config, "alpha_pattern", err);
    if (rc == 0 && revision && revision[0] && strcmp(revision, "main") != 0)
        rc = err_set(err, ERR_MODEL,
                     "it wants revision '%.80s' of its base: put the folder of that revision for "
                     "base_model_name_or_path, and null for revision",
                     revision);
    return rc;
}

/* A path that begins with a point is seen from the adapter's folder, wherever the program runs. */
static int find_base(const char *dir, const json_t *config, char **ret, struct err *err)
{
    const char *name = json_string_value(json_object_get(config, "base_model_name_or_path"));
    char path[PATH_MAX];
    int rc;

    if (!name || !name[0])
        return err_set(err, ERR_MODEL, "it does not name its base (base_model_name_or_path)");
    if (snprintf(path, sizeof(path), "%s%s%s", name[0] == '.' ? dir : "", name[0] == '.' ? "/" : "",
                 name) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the path of its base is too long");
    rc = model_dir_find(path, ret, err);
    if (rc != 0)
        return err_prefix(err, "its base");
    if (weight_layout_format(*ret) == WEIGHT_FORMAT_ADAPTER)
        return err_set(err, ERR_MODEL, "its base '%.200s' is an adapter itself", *ret);
    return 0;
}

static int find_file(const char *dir, struct adapter *a, struct err *err)
{
    static const struct {
        const char *name;
        enum weight_format format;
    } files[] = {{"adapter_model.safetensors", WEIGHT_FORMAT_SAFETENSORS},
                 {"adapter_model.bin", WEIGHT_FORMAT_TORCH}};
    char path[PATH_MAX];
    struct stat st;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (snprintf(path, sizeof(path), "%s/%s", dir, files[i].name) < (int)sizeof(path) &&
            stat(path, &st) == 0) {
            a->file = files[i].name;
            a->format = files[i].format;
            return 0;
        }
    }
    return err_set(err, ERR_MODEL,
                   "there is no adapter_model.safetensors or adapter_model.bin beside it");
}

int adapter_read(const char *dir, struct adapter *ret, struct err *err)
{
    struct adapter a = {0};
    int rc = json_file_need(dir, ADAPTER_CONFIG, &a.config, err);

    if (rc == 0) {
        if ((rc = check_kind(a.config, err)) || (rc = check_start(a.config, err)) ||
            (rc = check_numbers(a.config, err)) || (rc = find_file(dir, &a, err)) ||
            (rc = find_base(dir, a.config, &a.base, err)))
            err_prefix(err, "%.200s/" ADAPTER_CONFIG, dir);
    }
    if (rc != 0) {
        utf8_display_err(err);
        adapter_free(&a);
    } else {
        *ret = a;
    }
    return rc;
}

void adapter_free(struct adapter *a)
{
    free(a->base);
    json_decref(a->config);
    *a = (struct adapter){0};
}

/* Whether `name` is the module's, or its last parts. */
static bool is_of(const char *module, const char *name)
{
    size_t m = strlen(module), n = strlen(name);

    return m >= n && strcmp(module + m - n, name) == 0 && (m == n || module[m - n - 1] == '.');
}

double adapter_factor(const struct adapter *a, const char *module, double rank)
{
    double alpha = json_number_value(json_object_get(a->config, "lora_alpha"));
    json_t *value;
    const char *name;

    json_object_foreach(json_object_get(a->config, "alpha_pattern"), name, value)
    {
        if (is_of(module, name)) { /* the first that fits, as PEFT has it */
            alpha = json_number_value(value);
            break;
        }
    }
    return alpha / (json_is_true(json_object_get(a->config, "use_rslora")) ? sqrt(rank) : rank);
}

int adapter_base(const char *model, char **ret, struct err *err)
{
    struct adapter a = {0};
    int rc = 0;

    if (weight_layout_format(model) == WEIGHT_FORMAT_ADAPTER) {
        rc = adapter_read(model, &a, err);
        *ret = a.base;
        a.base = NULL;
        adapter_free(&a);
    } else {
        *ret = strdup(model);
        if (!*ret)
            rc = err_set(err, ERR_NOMEM, "out of memory for a model's path");
    }
    return rc;
}
