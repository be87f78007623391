#include "workers/models/yamnet/yamnet_dir.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/utf8.h"
#include "workers/text/json_file.h"

#define MAX_TEXT (1u << 20) /* bytes of classes.csv */

const struct yamnet_layer yamnet_layers[YAMNET_LAYERS] = {
    {32, 2},  {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2},
    {512, 1}, {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

/* ---- config.json */

struct number {
    const char *part, *key;
    double value;
};

static const struct number numbers[] = {
    {"audio", "sample_rate", 16000},
    {"features", "window_samples", YAMNET_FRAME},
    {"features", "hop_samples", YAMNET_FRAME_HOP},
    {"features", "fft_length", YAMNET_FFT},
    {"features", "mel_bins", YAMNET_BINS},
    {"features", "mel_min_hz", 125},
    {"features", "mel_max_hz", 7500},
    {"features", "log_offset", 0.001},
    {"patches", "frames", YAMNET_FRAMES},
    {"patches", "samples_per_patch", YAMNET_PATCH},
    {"network", "embedding_size", YAMNET_VECTOR},
};

static int check_number(const json_t *config, const struct number *n, struct err *err)
{
    const json_t *value = json_object_get(json_object_get(config, n->part), n->key);

    if (!json_is_number(value))
        return err_set(err, ERR_MODEL, "config.json has no number '%s.%s'", n->part, n->key);
    if (fabs(json_number_value(value) - n->value) > 1e-9)
        return err_set(err, ERR_MODEL, "config.json: %s.%s is %g, and YAMNet's is %g", n->part,
                       n->key, json_number_value(value), n->value);
    return 0;
}

/* Two numbers, both `want`. */
static bool is_pair(const json_t *value, uint32_t want)
{
    return json_array_size(value) == 2 &&
           json_integer_value(json_array_get(value, 0)) == (json_int_t)want &&
           json_integer_value(json_array_get(value, 1)) == (json_int_t)want;
}

static bool has_pads(const json_t *layer, uint32_t before, uint32_t after)
{
    return json_integer_value(json_object_get(layer, "pad_top")) == (json_int_t)before &&
           json_integer_value(json_object_get(layer, "pad_left")) == (json_int_t)before &&
           json_integer_value(json_object_get(layer, "pad_bottom")) == (json_int_t)after &&
           json_integer_value(json_object_get(layer, "pad_right")) == (json_int_t)after;
}

/* Entry i of network.layers: the convolution of layer 1, then two for each layer. */
static int check_layer(const json_t *layer, uint32_t i, struct err *err)
{
    static const char *const kinds[] = {"pointwise", "depthwise"};
    uint32_t at = (i + 1) / 2, stride = i == 0 || i % 2 ? yamnet_layers[at].stride : 1;
    const char *kind = i ? kinds[i % 2] : "conv", *have;
    bool wide = i == 0 || i % 2; /* 3 x 3 */

    have = json_string_value(json_object_get(layer, "type"));
    if (!have || strcmp(have, kind) != 0 || !is_pair(json_object_get(layer, "stride"), stride) ||
        !is_pair(json_object_get(layer, "kernel"), wide ? 3 : 1) ||
        !has_pads(layer, wide && stride == 1, wide))
        return err_set(err, ERR_MODEL,
                       "config.json: entry %u of network.layers is not YAMNet's (%s, stride %u)", i,
                       kind, stride);
    return 0;
}

static int check_config(const json_t *config, struct err *err)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *layers = json_object_get(json_object_get(config, "network"), "layers");
    int rc = 0;

    if (!type || strcmp(type, "yamnet") != 0)
        return err_set(err, ERR_MODEL, "config.json describes a model of type '%.40s', not yamnet",
                       type ? type : "(none)");
    if (json_integer_value(json_object_get(config, "format_version")) != 1)
        return err_set(err, ERR_MODEL, "config.json: only format_version 1 is known");
    for (size_t i = 0; rc == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rc = check_number(config, &numbers[i], err);
    if (rc == 0 && json_array_size(layers) != YAMNET_CONVOLUTIONS)
        return err_set(err, ERR_MODEL, "config.json: network.layers has %zu entries, not %d",
                       json_array_size(layers), YAMNET_CONVOLUTIONS);
    for (uint32_t i = 0; rc == 0 && i < YAMNET_CONVOLUTIONS; i++)
        rc = check_layer(json_array_get(layers, i), i, err);
    return rc;
}

int yamnet_check_config(const char *dir, struct err *err)
{
    json_t *config;
    int rc = json_file_need(dir, "config.json", &config, err);

    if (rc != 0)
        return rc;
    rc = check_config(config, err);
    json_decref(config);
    if (rc != 0)
        utf8_display_err(err);
    return rc;
}

/* ---- classes.csv */

/* Takes one field off *at, unquoted in place; *ret is a C string. False at a quote that does not
 * end. *last: it was the line's last. */
static bool take_field(char **at, char *end, char **ret, bool *last)
{
    char *from = *at, *to = *at;
    bool quoted = from < end && *from == '"';

    *ret = to;
    if (quoted) {
        for (from++; from < end && (*from != '"' || (from + 1 < end && from[1] == '"')); from++) {
            if (*from == '"')
                from++;
            *to++ = *from;
        }
        if (from++ >= end)
            return false;
    } else {
        while (from < end && *from != ',' && *from != '\n' && *from != '\r')
            *to++ = *from++;
    }
    if (from < end && *from == '\r')
        from++;
    *last = from >= end || *from == '\n';
    if (!*last && *from != ',')
        return false;
    *at = from < end ? from + 1 : end;
    *to = '\0'; /* at or before what was read */
    return true;
}

/* A line of exactly three fields. */
static bool take_line(char **at, char *end, char *field[3])
{
    bool last = false;

    for (int i = 0; i < 3; i++)
        if (last || !take_field(at, end, &field[i], &last))
            return false;
    return last;
}

static bool is_name(const char *s)
{
    for (const char *c = s; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return s[0] && utf8_valid(s, strlen(s));
}

static int add_name(struct yamnet_names *n, char *field[3], struct err *err)
{
    char index[16];
    char **grown;

    if (n->count >= YAMNET_MAX_CLASSES)
        return err_set(err, ERR_MODEL, "classes.csv has more than %d classes", YAMNET_MAX_CLASSES);
    snprintf(index, sizeof(index), "%u", n->count);
    if (strcmp(field[0], index) != 0 || !is_name(field[2]))
        return err_set(err, ERR_MODEL, "classes.csv, line %u: not \"%u,...,name\"", n->count + 2,
                       n->count);
    grown = realloc(n->name, (n->count + 1) * sizeof(*grown));
    if (grown)
        n->name = grown;
    if (!grown || !(n->name[n->count] = strdup(field[2])))
        return err_set(err, ERR_NOMEM, "no memory for the classes of sounds");
    n->count++;
    return 0;
}

int yamnet_names_parse(char *text, size_t len, struct yamnet_names *ret, struct err *err)
{
    struct yamnet_names n = {0};
    char *at = text, *end = text + len, *field[3];
    int rc = 0;

    if (memchr(text, 0, len) || !take_line(&at, end, field) || strcmp(field[0], "index") != 0 ||
        strcmp(field[1], "mid") != 0 || strcmp(field[2], "display_name") != 0)
        return err_set(err, ERR_MODEL, "classes.csv does not begin with index,mid,display_name");
    while (rc == 0 && at < end)
        if (take_line(&at, end, field))
            rc = add_name(&n, field, err);
        else
            rc = err_set(err, ERR_MODEL, "classes.csv, line %u: not three fields", n.count + 2);
    if (rc == 0 && n.count == 0)
        rc = err_set(err, ERR_MODEL, "classes.csv names no class");
    if (rc != 0) {
        yamnet_names_free(&n);
        return rc;
    }
    *ret = n;
    return 0;
}

int yamnet_names_read(const char *dir, struct yamnet_names *ret, struct err *err)
{
    char path[PATH_MAX], *text = NULL;
    struct stat st;
    FILE *f = NULL;
    size_t n;
    int rc;

    if (snprintf(path, sizeof(path), "%s/classes.csv", dir) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the model's path is too long");
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !(f = fopen(path, "rbe")))
        return err_set(err, ERR_MODEL, "cannot read '%.200s/classes.csv'", dir);
    text = malloc(MAX_TEXT + 1);
    n = text ? fread(text, 1, MAX_TEXT + 1, f) : 0;
    fclose(f);
    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for the classes of sounds");
    if (n > MAX_TEXT) {
        rc = err_set(err, ERR_MODEL, "classes.csv is larger than %u bytes", MAX_TEXT);
    } else {
        text[n] = '\0';
        rc = yamnet_names_parse(text, n, ret, err);
    }
    free(text);
    return rc;
}

void yamnet_names_free(struct yamnet_names *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        free(n->name[i]);
    free(n->name);
    *n = (struct yamnet_names){0};
}
