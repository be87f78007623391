#include "tools/model_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/backend.h"
#include "tools/cli/text.h"
#include "workers/models/asr_family.h"
#include "workers/models/silero/silero.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/stage_kind.h"
#include "workers/text/tokenizer/vocabulary.h"

int model_where(const char *name, char **ret, struct err *err)
{
    return strcmp(name, SILERO_NAME) == 0 ? silero_find(name, ret, err)
                                          : model_dir_find(name, ret, err);
}

static int check_silero(struct model_check *c, struct err *err)
{
    int rc = silero_verify_file(c->path, err);

    return rc != 0 ? rc : silero_hash(c->path, c->hash, err);
}

int model_opens(const char *stage, const char *dir, const char *params, struct err *err)
{
    const struct stage_setup setup = {
        .name = stage, .dir = dir, .params = params, .slots = 1, .windows = 1};
    struct backend *be = NULL;
    struct stage *s = NULL;
    int rc = backend_open_host(1, &be, err);

    if (rc == 0)
        rc = stage_open(&setup, be, &s, err);
    stage_close(s);
    backend_close(be);
    return rc;
}

int model_whole(const char *stage, const char *dir, struct err *err)
{
    const struct stage_kind *kind = stage_kind_find(stage);
    struct weights *w = NULL;
    int rc;

    if (kind && kind->whole)
        return kind->whole(dir, err);
    rc = weights_open(dir, &w, err);
    weights_close(w);
    return rc;
}

static int check_other(struct model_check *c, struct err *err)
{
    int rc = stage_model_hash(c->stage, c->path, c->hash, err);

    return rc == 0 ? model_opens(c->stage, c->path, "{}", err) : rc;
}

static bool is_whisper(const struct model_check *c)
{
    return !c->silero && strcmp(c->stage, stage_transcribe.name) == 0 &&
           (!c->path || asr_family_of(c->path) == &whisper_family);
}

static int check_whisper(struct model_check *c, struct err *err)
{
    struct vocabulary *v = NULL;
    struct backend *be = NULL;
    struct asr_model *w = NULL;
    int rc = model_dir_hash(c->path, c->hash, err);

    if (rc == 0)
        rc = whisper_vocabulary(c->path, &v, err);
    if (rc == 0)
        rc = backend_open_host(0, &be, err);
    if (rc == 0)
        rc = whisper_load(c->path, be, PRECISION_AUTO, &w, err);
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

int model_check(const char *name, struct model_check *ret, struct err *err)
{
    int rc;

    *ret = (struct model_check){.silero = strcmp(name, SILERO_NAME) == 0,
                                .stage = stage_transcribe.name};
    rc = model_where(name, &ret->path, err);
    if (rc != 0)
        return rc;
    ret->file = ret->silero || weight_layout_format(ret->path) == WEIGHT_FORMAT_GGML;
    if (!ret->silero)
        ret->stage = stage_of_model(ret->path);
    if (ret->silero)
        rc = check_silero(ret, err);
    else
        rc = is_whisper(ret) ? check_whisper(ret, err) : check_other(ret, err);
    if (rc == 0)
        *err = (struct err){0}; /* an optional file that is not there leaves its word */
    return rc;
}

void model_check_free(struct model_check *c)
{
    free(c->path);
    c->path = NULL;
}

void model_check_print(const char *name, const struct model_check *c)
{
    char *where = utf8_display(c->path, strlen(c->path));

    printf("%s is whole and can be used.\n", name);
    printf("  %-10s  %s\n  hash        %s\n", c->file ? "file" : "folder", where ? where : "",
           c->hash);
    if (!c->silero)
        printf("  stage       %s\n", c->stage);
    if (is_whisper(c)) {
        printf("  encoder     %u layers of %u, %u mel bins\n", c->config.encoder_layers,
               c->config.d_model, c->config.mel_bins);
        printf("  decoder     %u layers, %u tokens, %u %s\n", c->config.decoder_layers,
               c->config.vocab_size, c->languages,
               text_plural(c->languages, "language", "languages"));
    }
    free(where);
}

json_t *model_check_json(const struct model_check *c, const struct err *err)
{
    char *where = c->path ? utf8_display(c->path, strlen(c->path)) : NULL;
    json_t *o =
        json_pack("{s:b, s:s?, s:s, s:s}", "ok", (int)(err->code == 0),
                  c->file ? "file" : "directory", where, "hash", c->hash, "error", err->msg);

    if (o && !c->silero)
        json_object_set_new(o, "stage", json_string(c->stage));
    if (o && is_whisper(c)) {
        json_object_set_new(o, "mel_bins", json_integer((json_int_t)c->config.mel_bins));
        json_object_set_new(o, "vocabulary", json_integer((json_int_t)c->config.vocab_size));
        json_object_set_new(o, "languages", json_integer((json_int_t)c->languages));
    }
    free(where);
    return o;
}
