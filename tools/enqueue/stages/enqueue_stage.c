#include "tools/enqueue/stages/enqueue_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/enqueue/stages/enqueue_language.h"
#include "workers/audio/speech.h"
#include "workers/models/silero/silero.h"
#include "workers/models/asr_family.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/text/tokenizer/vocabulary.h"
#include "workers/stages/stage_kind.h"

void enqueue_stage_free(struct enqueue_stage *s)
{
    free(s->dir);
    free(s->params);
    memset(s, 0, sizeof(*s));
}

/* ------------------------------------------------------------------------------- the model */

static int check_language(const struct vocabulary *v, const char *own, struct transcribe_params *p,
                          struct err *err)
{
    if (p->translate && vocabulary_ids(v)->translate < 0)
        return err_set(err, ERR_USAGE, "this model cannot translate. Try another --model");
    if (!vocabulary_multilingual(v))
        p->multilingual = false;
    return enqueue_language_check(v, own, p, err);
}

static int check_tokens(const struct vocabulary *v, const struct transcribe_params *p,
                        struct err *err)
{
    for (uint32_t i = 0; i < p->suppress_count; i++) {
        int32_t id = p->suppress_tokens[i];

        if ((uint32_t)id >= vocabulary_size(v))
            return err_set(err, ERR_USAGE,
                           "--suppress-tokens has %d, and this model's last token is %u. Try "
                           "numbers from its tokenizer.json",
                           id, vocabulary_size(v) - 1);
        if (id == vocabulary_ids(v)->eot)
            return err_set(
                err, ERR_USAGE,
                "--suppress-tokens has %d, with which this model ends every text. Try it without",
                id);
    }
    if (p->without_timestamps && vocabulary_timed(v) && vocabulary_ids(v)->no_timestamps < 0)
        return err_set(err, ERR_USAGE,
                       "this model has no token for --without-timestamps. Try it without");
    return 0;
}

/* Whether it is the same, but for blanks around it. */
static bool reads_as(const char *back, const char *text)
{
    const char *blanks = " \t\r\n";
    size_t n;

    back += strspn(back, blanks);
    text += strspn(text, blanks);
    n = strlen(back);
    return strncmp(back, text, n) == 0 && text[n + strspn(text + n, blanks)] == 0;
}

/* A small vocabulary may lack bytes: what the model would be shown must read as what was typed. And
 * it looks at half of its positions before a text; what it cannot see is not left out in silence.
 */
static int check_text(const struct vocabulary *v, const char *option, const char *text,
                      uint32_t positions, struct err *err)
{
    const uint32_t most = positions > 2 ? prompt_previous_max(positions) - 1 : 0;
    int32_t *ids = NULL;
    char *back = NULL;
    uint32_t n = 0;
    int rc = prompt_encode(v, text, &ids, &n, err);

    if (rc == ERR_USAGE)
        return err_set(err, ERR_USAGE,
                       "this model cannot use --%s: its vocabulary has no <|startofprev|>. Try it "
                       "without, or another --model",
                       option);
    if (rc == 0)
        rc = vocabulary_decode(v, ids, n, &back, err);
    if (rc == 0 && !reads_as(back, text))
        rc = err_set(err, ERR_USAGE,
                     "--%s has characters that this model's vocabulary cannot write. Try other "
                     "words, or another --model",
                     option);
    else if (rc == 0 && n > most)
        rc = err_set(err, ERR_USAGE,
                     "--%s is %u tokens long, and this model looks at %u before a window. Try "
                     "fewer words",
                     option, n, most);
    free(ids);
    free(back);
    return rc;
}

/* The model's own bound, said or not, is one stage. */
static void drop_own_bound(const struct vocabulary *v, struct transcribe_params *p)
{
    const int32_t own = vocabulary_max_initial_timestamp_index(v);

    if (own >= 0 &&
        p->max_initial_timestamp == (float)(own * (vocabulary_ids(v)->timestamp_ms / 1000.0)))
        p->max_initial_timestamp = -1;
}

/* p: also freed of what the model says itself. */
static int check_model(const char *dir, struct transcribe_params *p, const char **only_language,
                       struct err *err)
{
    const struct asr_family *family = asr_family_of(dir);
    struct vocabulary *v = NULL;
    uint32_t positions = 0;
    int rc = family->vocabulary(dir, &v, err);

    if (rc == 0)
        rc = check_language(v, family->own_language, p, err);
    *only_language = rc == 0 && !vocabulary_multilingual(v) ? family->own_language : NULL;
    if (rc == 0)
        rc = check_tokens(v, p, err);
    if (rc == 0)
        rc = family->check(dir, v, &positions, err);
    if (rc == 0)
        rc = check_text(v, "initial-prompt", p->initial_prompt, positions, err);
    if (rc == 0)
        rc = check_text(v, "hotwords", p->hotwords, positions, err);
    if (rc == 0)
        drop_own_bound(v, p);
    vocabulary_free(v);
    return rc;
}

/* ------------------------------------------------------------------------------- voice activity */

int enqueue_stage_vad(struct enqueue_params *p, char *note, size_t note_len, struct err *err)
{
    const bool must = p->vad.wish == VAD_AUTO && enqueue_params_vad_option(p);
    const struct enqueue_vad vad = {must ? VAD_ON : p->vad.wish, p->vad.path};
    struct transcribe_params *q = &p->params;
    int rc;

    note[0] = 0;
    if (p->vad.wish == VAD_AUTO && q->condition_on_previous_text) {
        snprintf(
            note, note_len,
            "Voice activity is off, because --condition-on-previous-text needs windows in order.");
        return 0;
    }
    rc = enqueue_vad_find(&vad, q->vad_model, q->vad_hash, err);
    if (rc == 0 && !q->vad_model[0] && vad.wish == VAD_AUTO)
        snprintf(note, note_len,
                 "Voice activity detection is off, so text may be invented in silence: `nightshift "
                 "model pull " SILERO_NAME "` fetches its model, and --vad=off hides this line.");
    /* Said or not, it is one stage. */
    if (rc == 0 && q->vad_model[0] &&
        q->vad_neg_threshold == speech_neg_threshold(q->vad_threshold, -1))
        q->vad_neg_threshold = -1;
    return rc;
}

/* The model's name in the catalog; a short name ("small") is written out. */
static const char *whole_name(const char *model)
{
    const char *known = access(model, F_OK) != 0 ? model_dir_known(model) : NULL;

    return known ? known : model;
}

int enqueue_stage_find(const char *model, const struct transcribe_params *p,
                       struct enqueue_stage *ret, struct store_stage *stage, struct err *err)
{
    struct transcribe_params own = *p;
    int rc = model_dir_find(model, &ret->dir, err);

    if (rc == 0)
        rc = check_model(ret->dir, &own, &ret->only_language, err);
    if (rc == 0)
        rc = model_dir_hash(ret->dir, ret->hash, err);
    if (rc == 0)
        rc = transcribe_params_to_json(&own, &ret->params, err);
    *stage = (struct store_stage){.name = stage_transcribe.name,
                                  .model = whole_name(model),
                                  .model_dir = ret->dir,
                                  .model_hash = ret->hash,
                                  .params_json = ret->params};
    return rc;
}
