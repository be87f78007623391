#include "workers/stages/token_rules.h"

#include <stdlib.h>

#include "gpu/backend.h"

struct token_rules {
    struct rules_spec spec;
    int32_t *languages; /* owned */
};

static void set_ids(struct rules_spec *s, const struct vocabulary *v)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    size_t n;

    s->eot = ids->eot;
    s->no_speech = ids->no_speech;
    s->timestamp_begin = ids->timestamp_begin;
    s->timestamp_end = ids->timestamp_end;
    s->max_initial = ids->timestamp_begin + vocabulary_max_initial_timestamp_index(v);
    if (s->max_initial > ids->timestamp_end)
        s->max_initial = ids->timestamp_end;
    s->never = vocabulary_suppress(v, &n);
    s->never_count = (uint32_t)n;
    s->never_first = vocabulary_begin_suppress(v, &n);
    s->never_first_count = (uint32_t)n;
}

int token_rules_new(const struct vocabulary *v, uint32_t vocab_size, struct token_rules **ret,
                    struct err *err)
{
    struct token_rules *r;
    uint32_t languages = vocabulary_language_count(v);

    if (vocab_size < vocabulary_size(v))
        return err_set(err, ERR_MODEL,
                       "the tokenizer has %u ids but the weights only %u; they are of two models",
                       vocabulary_size(v), vocab_size);
    r = calloc(1, sizeof(*r));
    if (r)
        r->languages = malloc((languages + 1) * sizeof(*r->languages));
    if (!r || !r->languages) {
        token_rules_free(r);
        return err_set(err, ERR_NOMEM, "no memory for the token rules");
    }
    r->spec.vocab = vocab_size;
    set_ids(&r->spec, v);
    for (uint32_t i = 0; i < languages; i++)
        r->languages[i] = vocabulary_language_at(v, i);
    r->spec.languages = r->languages;
    r->spec.language_count = languages;
    *ret = r;
    return 0;
}

void token_rules_free(struct token_rules *r)
{
    if (!r)
        return;
    free(r->languages);
    free(r);
}

const struct rules_spec *token_rules_spec(const struct token_rules *r) { return &r->spec; }
