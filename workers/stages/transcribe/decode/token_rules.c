#include "workers/stages/transcribe/decode/token_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/stages/transcribe/transcribe_params.h"

struct token_rules {
    struct rules_spec spec;
    int32_t *languages; /* owned */
    int32_t *never;     /* owned: the model's and the user's */
};

/* Rounded as openai-whisper does it: halves to even. */
static int32_t max_initial(const struct vocabulary *v, const struct transcribe_params *p)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    double last = ids->timestamp_end - ids->timestamp_begin, index;

    index = p->max_initial_timestamp < 0
                ? vocabulary_max_initial_timestamp_index(v)
                : rint((double)p->max_initial_timestamp / (ids->timestamp_ms / 1000.0));
    return ids->timestamp_begin + (int32_t)(index < last ? index : last);
}

static int check_suppressed(const struct transcribe_params *p, uint32_t vocab_size, struct err *err)
{
    for (uint32_t i = 0; i < p->suppress_count; i++)
        if (p->suppress_tokens[i] < 0 || (uint32_t)p->suppress_tokens[i] >= vocab_size)
            return err_set(err, ERR_USAGE,
                           "suppress_tokens names the token %d, but the model has only %u",
                           p->suppress_tokens[i], vocab_size);
    return 0;
}

static int set_never(struct token_rules *r, const struct vocabulary *v,
                     const struct transcribe_params *p, struct err *err)
{
    size_t model = 0, own = p->suppress_count;
    const int32_t *ids = vocabulary_suppress(v, &model);

    if (!p->suppress_model)
        model = 0;
    r->never = malloc((model + own + 1) * sizeof(*r->never));
    if (!r->never)
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    if (model)
        memcpy(r->never, ids, model * sizeof(*ids));
    if (own)
        memcpy(r->never + model, p->suppress_tokens, own * sizeof(*ids));
    r->spec.never = r->never;
    r->spec.never_count = (uint32_t)(model + own);
    return 0;
}

/* Those that are expected, or all: the model is asked among these alone. */
static int set_languages(struct token_rules *r, const struct vocabulary *v,
                         const struct transcribe_params *p, struct err *err)
{
    uint32_t n = vocabulary_language_count(v), count = 0;
    const char *list = p->language;
    char code[TRANSCRIBE_CODE_LEN];

    r->languages = malloc((n + 1) * sizeof(*r->languages));
    if (!r->languages)
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    while (transcribe_many_languages(p) && count < n && transcribe_next_language(&list, code)) {
        int32_t id = vocabulary_language_id(v, code);

        if (id >= 0)
            r->languages[count++] = id;
    }
    for (uint32_t i = 0; i < n && !transcribe_many_languages(p); i++)
        r->languages[count++] = vocabulary_language_at(v, i);
    r->spec.languages = r->languages;
    r->spec.language_count = count;
    return 0;
}

static void set_ids(struct rules_spec *s, const struct vocabulary *v,
                    const struct transcribe_params *p)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    size_t n;

    s->eot = ids->eot;
    s->no_speech = ids->no_speech;
    /* In a model without timestamps the last id stands for one: it is a special token, or not in
     * the vocabulary, and nobody asks for times. */
    s->timestamp_begin = s->timestamp_end = s->max_initial = (int32_t)s->vocab - 1;
    if (vocabulary_timed(v)) {
        s->timestamp_begin = ids->timestamp_begin;
        s->timestamp_end = ids->timestamp_end;
        s->max_initial = max_initial(v, p);
    }
    s->never_first = vocabulary_begin_suppress(v, &n);
    s->never_first_count = (uint32_t)n;
}

int token_rules_new(const struct vocabulary *v, uint32_t vocab_size,
                    const struct transcribe_params *params, struct token_rules **ret,
                    struct err *err)
{
    struct token_rules *r;
    int rc;

    if (vocab_size < vocabulary_size(v))
        return err_set(err, ERR_MODEL,
                       "the tokenizer has %u ids but the weights only %u; they are of two models",
                       vocabulary_size(v), vocab_size);
    if ((rc = check_suppressed(params, vocab_size, err)))
        return rc;
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    r->spec.vocab = vocab_size;
    set_ids(&r->spec, v, params);
    rc = set_never(r, v, params, err);
    if (!rc)
        rc = set_languages(r, v, params, err);
    if (rc) {
        token_rules_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void token_rules_free(struct token_rules *r)
{
    if (!r)
        return;
    free(r->languages);
    free(r->never);
    free(r);
}

const struct rules_spec *token_rules_spec(const struct token_rules *r) { return &r->spec; }

/* ---- prompts */

#define BLANKS " \t\r\n"

int prompt_encode(const struct vocabulary *v, const char *text, int32_t **ret, uint32_t *count,
                  struct err *err)
{
    size_t begin = strspn(text, BLANKS), n = strlen(text), tokens = 0;
    char *said;
    int rc;

    *ret = NULL;
    *count = 0;
    while (n > begin && strchr(BLANKS, text[n - 1]))
        n--;
    if (n == begin)
        return 0;
    if (vocabulary_ids(v)->sot_prev < 0)
        return err_set(err, ERR_USAGE,
                       "the model takes no prompt: its vocabulary has no <|startofprev|>");
    said = malloc(n - begin + 2);
    if (!said)
        return err_set(err, ERR_NOMEM, "no memory for a prompt");
    said[0] = ' ';
    memcpy(said + 1, text + begin, n - begin);
    said[n - begin + 1] = 0;
    rc = vocabulary_encode(v, said, ret, &tokens, err);
    free(said);
    *count = (uint32_t)tokens;
    return rc;
}

uint32_t prompt_previous_max(uint32_t positions) { return positions / 2; }

uint32_t prompt_previous(const struct vocabulary *v, uint32_t positions, const int32_t *previous,
                         uint32_t n, int32_t *ret)
{
    int32_t sot_prev = vocabulary_ids(v)->sot_prev;
    uint32_t most = prompt_previous_max(positions) - 1;

    if (n == 0 || sot_prev < 0)
        return 0;
    if (n > most) {
        previous += n - most;
        n = most;
    }
    ret[0] = sot_prev;
    memcpy(ret + 1, previous, n * sizeof(*previous));
    return n + 1;
}
