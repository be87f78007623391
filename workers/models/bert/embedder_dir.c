#include "workers/models/bert/embedder_dir.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/text/json_file.h"

#define POOLING_DIR                                                              \
    "1_Pooling" /* as sentence-transformers writes it, and as the hash covers it \
                 */
#define MAX_PREFIX_BYTES 4096

/* A file that may be missing: *ret is NULL then. */
static int read_optional(const char *dir, const char *name, bool list, json_t **ret,
                         struct err *err)
{
    int rc = list ? json_file_read_list(dir, name, ret, err) : json_file_read(dir, name, ret, err);

    if (rc != ERR_MISSING)
        return rc;
    *ret = NULL;
    err->code = 0;
    return 0;
}

/* ---- modules.json */

/* "sentence_transformers.models.Pooling" -> "Pooling" */
static const char *short_type(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;

    return dot ? dot + 1 : type ? type : "";
}

static int check_module(const json_t *module, size_t i, bool *pooling, struct err *err)
{
    const char *type = short_type(module);
    const char *path = json_string_value(json_object_get(module, "path"));

    if (i == 0 && strcmp(type, "Transformer") == 0 && path && !path[0])
        return 0;
    if (i > 0 && strcmp(type, "Normalize") == 0)
        return 0;
    if (i == 1 && strcmp(type, "Pooling") == 0 && path && strcmp(path, POOLING_DIR) == 0) {
        *pooling = true;
        return 0;
    }
    return err_set(err, ERR_MODEL,
                   "modules.json: module %zu is '%.40s' in '%.40s'; a Transformer in the folder "
                   "itself, a Pooling in " POOLING_DIR " and a Normalize are read",
                   i, type, path ? path : "");
}

/* Without the file there is a transformer alone, whose tokens' mean is taken. */
static int read_modules(const char *dir, bool *pooling, struct err *err)
{
    json_t *list = NULL;
    int rc = read_optional(dir, "modules.json", true, &list, err);

    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = check_module(json_array_get(list, i), i, pooling, err);
    if (rc == 0 && list && !*pooling)
        rc = err_set(err, ERR_MODEL, "modules.json names no Pooling");
    json_decref(list);
    return rc;
}

/* ---- 1_Pooling/config.json */

/* A vector's length is lost at the end, so the root of the number of tokens makes no difference. */
static const struct {
    const char *key, *name;
    enum pool pool;
} poolings[] = {{"pooling_mode_mean_tokens", "mean", POOL_MEAN},
                {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOL_MEAN},
                {"pooling_mode_cls_token", "cls", POOL_FIRST},
                {"pooling_mode_max_tokens", "max", POOL_MAX}};

static int choose_pooling(const json_t *j, enum pool *ret, struct err *err)
{
    const char *name = json_string_value(json_object_get(j, "pooling_mode"));
    int found = 0;

    for (size_t i = 0; i < sizeof(poolings) / sizeof(poolings[0]); i++) {
        if (name ? strcmp(name, poolings[i].name) == 0
                 : json_is_true(json_object_get(j, poolings[i].key))) {
            *ret = poolings[i].pool;
            found++;
        }
    }
    if (json_is_true(json_object_get(j, "pooling_mode_weightedmean_tokens")) ||
        json_is_true(json_object_get(j, "pooling_mode_lasttoken")) || found != 1)
        return err_set(err, ERR_MODEL,
                       POOLING_DIR "/config.json asks for a pooling that is not read; one of mean, "
                                   "CLS and max is");
    return 0;
}

static int read_pooling(const char *dir, struct embedder_dir *d, struct err *err)
{
    const json_t *size, *prompt;
    json_t *j = NULL;
    int rc = json_file_read(dir, POOLING_DIR "/config.json", &j, err);

    if (rc == ERR_MISSING)
        return err_set(err, ERR_MODEL,
                       POOLING_DIR "/config.json is missing; fetch the model's "
                                   "files again");
    if (rc != 0)
        return rc;
    size = json_object_get(j, "word_embedding_dimension");
    prompt = json_object_get(j, "include_prompt");
    rc = choose_pooling(j, &d->pool, err);
    if (rc == 0 && size && json_integer_value(size) != d->bert.hidden)
        rc = err_set(err, ERR_MODEL,
                     POOLING_DIR "/config.json is for vectors of %lld values, config.json of %u",
                     (long long)json_integer_value(size), d->bert.hidden);
    if (rc == 0 && json_is_false(prompt))
        rc = err_set(err, ERR_MODEL,
                     POOLING_DIR "/config.json: include_prompt: false is not supported");
    json_decref(j);
    return rc;
}

/* ---- sentence_bert_config.json */

static int read_limits(const char *dir, struct embedder_dir *d, struct err *err)
{
    const json_t *max;
    json_t *j = NULL;
    int rc = read_optional(dir, "sentence_bert_config.json", false, &j, err);

    d->max_tokens = bert_max_tokens(&d->bert);
    max = json_object_get(j, "max_seq_length");
    if (rc == 0 && max && !json_is_null(max)) {
        json_int_t v = json_integer_value(max);

        if (!json_is_integer(max) || v < 3 || v > 1 << 20)
            rc = err_set(err, ERR_MODEL,
                         "sentence_bert_config.json: max_seq_length is not a number from 3 on");
        else if (v < d->max_tokens)
            d->max_tokens = (uint32_t)v;
    }
    d->lower = json_is_true(json_object_get(j, "do_lower_case"));
    json_decref(j);
    return rc;
}

/* ---- prefixes */

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* "e5" as a word of a name: "intfloat/multilingual-e5-small". */
static bool names_e5(const char *name)
{
    for (const char *p = name; (p = strstr(p, "e5")); p++)
        if ((p == name || !is_letter_or_digit(p[-1])) && !is_letter_or_digit(p[2]))
            return true;
    return false;
}

static bool names_instruct(const char *name) { return strstr(name, "instruct") != NULL; }

/* The fallback if the files do not say it: the folder's name, or the repository's name in the
 * Hugging Face cache (models--intfloat--multilingual-e5-small/snapshots/...). */
static bool folder_says(const char *dir, bool (*says)(const char *name))
{
    char path[PATH_MAX], *slash = realpath(dir, path) ? strrchr(path, '/') : NULL;
    bool found = slash && says(slash + 1);

    if (slash && !found) {
        *slash = 0;
        slash = strrchr(path, '/');
        if (slash && strcmp(slash, "/snapshots") == 0) {
            *slash = 0;
            slash = strrchr(path, '/');
            found = slash && says(slash + 1);
        }
    }
    return found;
}

/* The instruct models among them were trained with an instruction before a query, which only its
 * user knows, and nothing before a passage. */
static bool is_e5(const char *dir, const char *name)
{
    if (names_instruct(name) || folder_says(dir, names_instruct))
        return false;
    return names_e5(name) || folder_says(dir, names_e5);
}

static int set_prefix(struct embedder_dir *d, enum embed_as as, const char *prefix, struct err *err)
{
    if (strlen(prefix) > MAX_PREFIX_BYTES)
        return err_set(err, ERR_MODEL, "config_sentence_transformers.json: a prompt of %zu bytes",
                       strlen(prefix));
    d->prefix[as] = strdup(prefix);
    return d->prefix[as] ? 0 : err_set(err, ERR_NOMEM, "out of memory for a text encoder");
}

static const char *find_prompt(const json_t *prompts, const char *name)
{
    return name ? json_string_value(json_object_get(prompts, name)) : NULL;
}

static int read_prefixes(const char *dir, const json_t *config, struct embedder_dir *d,
                         struct err *err)
{
    const char *name = json_string_value(json_object_get(config, "_name_or_path"));
    const char *query, *passage, *other;
    const json_t *prompts;
    json_t *j = NULL;
    int rc = read_optional(dir, "config_sentence_transformers.json", false, &j, err);

    prompts = json_object_get(j, "prompts");
    other = find_prompt(prompts, json_string_value(json_object_get(j, "default_prompt_name")));
    query = find_prompt(prompts, "query");
    passage = find_prompt(prompts, "passage");
    passage = passage ? passage : find_prompt(prompts, "document");
    if (!query && !passage && !other && is_e5(dir, name ? name : "")) {
        query = "query: ";
        passage = "passage: ";
    }
    other = other ? other : "";
    if (rc == 0)
        rc = set_prefix(d, EMBED_QUERY, query ? query : other, err);
    if (rc == 0)
        rc = set_prefix(d, EMBED_PASSAGE, passage ? passage : other, err);
    json_decref(j);
    return rc;
}

int embedder_dir_read(const char *dir, struct embedder_dir *ret, struct err *err)
{
    json_t *config = NULL;
    bool pooling = false;
    int rc = json_file_read(dir, "config.json", &config, err);

    if (rc == ERR_MISSING)
        return err_set(err, ERR_MODEL, "config.json is missing; fetch the model's files again");
    ret->pool = POOL_MEAN;
    if (rc == 0)
        rc = bert_config_read(config, &ret->bert, err);
    if (rc == 0)
        rc = read_modules(dir, &pooling, err);
    if (rc == 0 && pooling)
        rc = read_pooling(dir, ret, err);
    if (rc == 0)
        rc = read_limits(dir, ret, err);
    if (rc == 0)
        rc = read_prefixes(dir, config, ret, err);
    json_decref(config);
    if (rc != 0)
        utf8_display_err(err);
    return rc;
}

void embedder_dir_free(struct embedder_dir *d)
{
    free(d->prefix[EMBED_QUERY]);
    free(d->prefix[EMBED_PASSAGE]);
    *d = (struct embedder_dir){0};
}
