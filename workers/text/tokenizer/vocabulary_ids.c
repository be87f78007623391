#include "workers/text/tokenizer/vocabulary_ids.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/text/tokenizer/bpe.h"

#define TIMESTAMP_STEPS 1500 /* a window's 30 s, */
#define TIMESTAMP_MS 20      /*   in steps of so much */
#define LIST_MAX (1 << 20)
#define LANGUAGE_MAX 4096
#define HEADS_MAX 65536

struct source {
    const struct bpe *b;
    const json_t *generation, *config;
    int32_t limit; /* ids must lie below it */
    struct err *err;
};

static int32_t find_token_by_name(const struct source *s, const char *name)
{
    return bpe_find(s->b, name, strlen(name));
}

static int bad_id(const struct source *s, const char *what, json_int_t id)
{
    return err_set(s->err, ERR_MODEL, "%s is %lld, but the model's ids end at %d", what,
                   (long long)id, s->limit - 1);
}

/* An id from an integer, or from the first of an array of them; absent and null leave *ret. */
static int take_id(const struct source *s, const json_t *value, const char *what, int32_t *ret)
{
    json_int_t id;

    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value))
        return err_set(s->err, ERR_MODEL, "%s is not a token id", what);
    id = json_integer_value(value);
    if (id < 0 || id >= s->limit)
        return bad_id(s, what, id);
    *ret = (int32_t)id;
    return 0;
}

/* A special token: by its name among the tokens, else by a key of the two configurations. */
static int find_special_token(const struct source *s, const char *name, const char *key,
                              int32_t *ret)
{
    int rc = 0;

    *ret = find_token_by_name(s, name);
    if (*ret < 0 && key)
        rc = take_id(s, json_object_get(s->generation, key), key, ret);
    if (!rc && *ret < 0 && key)
        rc = take_id(s, json_object_get(s->config, key), key, ret);
    return rc;
}

static int read_specials(const struct source *s, struct vocabulary_ids *ids)
{
    const json_t *tasks = json_object_get(s->generation, "task_to_id");
    int rc;

    if ((rc = find_special_token(s, "<|endoftext|>", "eos_token_id", &ids->eot)) ||
        (rc =
             find_special_token(s, "<|startoftranscript|>", "decoder_start_token_id", &ids->sot)) ||
        (rc = find_special_token(s, "<|translate|>", NULL, &ids->translate)) ||
        (rc = find_special_token(s, "<|transcribe|>", NULL, &ids->transcribe)) ||
        (rc = find_special_token(s, "<|startofprev|>", "prev_sot_token_id", &ids->sot_prev)) ||
        (rc = find_special_token(s, "<|startoflm|>", NULL, &ids->sot_lm)) ||
        (rc = find_special_token(s, "<|nospeech|>", NULL, &ids->no_speech)) ||
        (rc = find_special_token(s, "<|notimestamps|>", "no_timestamps_token_id",
                                 &ids->no_timestamps)))
        return rc;
    if (ids->no_speech < 0) /* its name in files of 2022 */
        ids->no_speech = find_token_by_name(s, "<|nocaptions|>");
    if (ids->translate < 0 && (rc = take_id(s, json_object_get(tasks, "translate"),
                                            "task_to_id.translate", &ids->translate)))
        return rc;
    if (ids->transcribe < 0 && (rc = take_id(s, json_object_get(tasks, "transcribe"),
                                             "task_to_id.transcribe", &ids->transcribe)))
        return rc;
    if (ids->eot < 0 || ids->sot < 0 || ids->no_timestamps < 0)
        return err_set(s->err, ERR_MODEL, "the token %s is missing; is this a Whisper model?",
                       ids->eot < 0   ? "<|endoftext|>"
                       : ids->sot < 0 ? "<|startoftranscript|>"
                                      : "<|notimestamps|>");
    return 0;
}

/* Files of 2022 do not list the timestamps: they follow <|notimestamps|>. */
static int read_timestamps(const struct source *s, struct vocabulary_ids *ids)
{
    int32_t end = find_token_by_name(s, "<|30.00|>");

    ids->timestamp_ms = TIMESTAMP_MS;
    ids->timestamp_begin = find_token_by_name(s, "<|0.00|>");
    if (ids->timestamp_begin < 0)
        ids->timestamp_begin = ids->no_timestamps + 1;
    ids->timestamp_end = end >= 0 ? end : ids->timestamp_begin + TIMESTAMP_STEPS;
    if (ids->timestamp_end - ids->timestamp_begin != TIMESTAMP_STEPS)
        return err_set(s->err, ERR_MODEL,
                       "the timestamps go from id %d to %d; %d steps of 20 ms were expected",
                       ids->timestamp_begin, ids->timestamp_end, TIMESTAMP_STEPS);
    if (ids->timestamp_end >= s->limit)
        return bad_id(s, "the timestamp <|30.00|>", ids->timestamp_end);
    /* The token rules count on this order: text, the end, other specials, timestamps. */
    if (ids->eot >= ids->sot || ids->sot >= ids->timestamp_begin ||
        ids->no_timestamps >= ids->timestamp_begin)
        return err_set(s->err, ERR_MODEL,
                       "the special tokens are not in Whisper's order (end %d, start %d, "
                       "timestamps from %d)",
                       ids->eot, ids->sot, ids->timestamp_begin);
    return 0;
}

/* English-only tokenizers list the language tokens too, so the configuration decides. */
static bool is_multilingual(const struct source *s, const struct vocabulary_ids *ids)
{
    const json_t *flag = json_object_get(s->generation, "is_multilingual"), *forced, *first;

    if (json_is_boolean(flag))
        return json_is_true(flag);
    if (json_is_object(json_object_get(s->generation, "lang_to_id")))
        return true;
    forced = json_object_get(s->generation, "forced_decoder_ids");
    if (!json_is_array(forced))
        forced = json_object_get(s->config, "forced_decoder_ids");
    first = json_array_get(json_array_get(forced, 0), 1);
    if (json_is_integer(first) && json_integer_value(first) == ids->no_timestamps)
        return false;
    return ids->transcribe >= 0;
}

/* "<|en|>" -> "en"; false when it is not of that form. */
static bool language_code(const char *name, size_t len, char out[16])
{
    if (len < 6 || len > 4 + 15 || memcmp(name, "<|", 2) != 0 ||
        memcmp(name + len - 2, "|>", 2) != 0)
        return false;
    for (size_t i = 2; i < len - 2; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && name[i] != '-' && name[i] != '_')
            return false;
    memcpy(out, name + 2, len - 4);
    out[len - 4] = 0;
    return true;
}

static int add_language(const struct source *s, struct vocabulary_rules *r, const char *code,
                        int32_t id)
{
    struct language *more;

    if (r->language_count >= LANGUAGE_MAX)
        return err_set(s->err, ERR_MODEL, "the model lists over %d languages", LANGUAGE_MAX);
    more = realloc(r->languages, (r->language_count + 1) * sizeof(*more));
    if (!more)
        return err_set(s->err, ERR_NOMEM, "no memory for the languages");
    r->languages = more;
    more += r->language_count++;
    utf8_copy(more->code, sizeof(more->code), code);
    more->id = id;
    return 0;
}

static int listed_languages(const struct source *s, json_t *list, struct vocabulary_rules *r)
{
    const char *name;
    json_t *value;

    json_object_foreach(list, name, value)
    {
        int32_t id = -1, known = find_token_by_name(s, name);
        char code[16];
        int rc;

        if (!language_code(name, strlen(name), code))
            return err_set(s->err, ERR_MODEL, "lang_to_id names the language '%.40s'", name);
        if ((rc = take_id(s, value, "a language in lang_to_id", &id)))
            return rc;
        if (id < 0 || (known >= 0 && known != id))
            return err_set(s->err, ERR_MODEL,
                           "the language %.20s has the id %d in lang_to_id and %d in the tokenizer",
                           name, id, known);
        if ((rc = add_language(s, r, code, id)))
            return rc;
    }
    return 0;
}

static int spelled_languages(const struct source *s, struct vocabulary_rules *r)
{
    int32_t end = r->ids.transcribe;

    if (r->ids.translate >= 0 && r->ids.translate < end)
        end = r->ids.translate;
    for (int32_t id = r->ids.sot + 1; id < end; id++) {
        size_t len;
        const uint8_t *name = bpe_bytes(s->b, id, &len);
        char code[16];
        int rc;

        if (!name || !language_code((const char *)name, len, code))
            continue;
        if ((rc = add_language(s, r, code, id)))
            return rc;
    }
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct language *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int read_languages(const struct source *s, struct vocabulary_rules *r)
{
    json_t *list = json_object_get(s->generation, "lang_to_id");
    int rc;

    r->ids.first_language = -1;
    if (!is_multilingual(s, &r->ids))
        return 0;
    rc = json_is_object(list) ? listed_languages(s, list, r) : spelled_languages(s, r);
    if (rc)
        return rc;
    if (!r->language_count || r->ids.transcribe < 0)
        return err_set(s->err, ERR_MODEL, "a multilingual model without %s token",
                       r->language_count ? "a <|transcribe|>" : "any language");
    qsort(r->languages, r->language_count, sizeof(*r->languages), by_id);
    for (size_t i = 1; i < r->language_count; i++)
        if (r->languages[i].id == r->languages[i - 1].id)
            return err_set(s->err, ERR_MODEL, "the languages %s and %s have the same id",
                           r->languages[i - 1].code, r->languages[i].code);
    r->ids.first_language = r->languages[0].id;
    return 0;
}

/* A list of ids that may be absent, null, or hold nulls and -1 (which name nothing). */
static int read_list(const struct source *s, const char *key, int32_t **ret, size_t *n)
{
    const json_t *list = json_object_get(s->generation, key);
    size_t len;

    if (!list)
        list = json_object_get(s->config, key);
    if (!list || json_is_null(list))
        return 0;
    len = json_array_size(list);
    if (!json_is_array(list) || len > LIST_MAX)
        return err_set(s->err, ERR_MODEL, "%s is not a list of token ids", key);
    *ret = calloc(len ? len : 1, sizeof(**ret));
    if (!*ret)
        return err_set(s->err, ERR_NOMEM, "no memory for %s", key);
    for (size_t i = 0; i < len; i++) {
        const json_t *value = json_array_get(list, i);
        int32_t id = -1;
        int rc;

        if (json_is_integer(value) && json_integer_value(value) == -1)
            continue;
        if ((rc = take_id(s, value, key, &id)))
            return rc;
        if (id >= 0)
            (*ret)[(*n)++] = id;
    }
    return 0;
}

/* Without any list, Whisper's own first suppressions: a lone blank and the end. */
static int default_begin(const struct source *s, struct vocabulary_rules *r)
{
    int32_t *blank = NULL, *list;
    size_t n = 0;
    int rc;

    if (r->begin_suppress || json_object_get(s->generation, "begin_suppress_tokens") ||
        json_object_get(s->config, "begin_suppress_tokens"))
        return 0;
    if ((rc = bpe_encode(s->b, " ", 1, &blank, &n, s->err)))
        return rc;
    list = realloc(blank, (n + 1) * sizeof(*list));
    if (!list) {
        free(blank);
        return err_set(s->err, ERR_NOMEM, "no memory for the first tokens");
    }
    list[n] = r->ids.eot;
    r->begin_suppress = list;
    r->begin_suppress_count = n + 1;
    return 0;
}

static int read_heads(const struct source *s, struct vocabulary_rules *r)
{
    const json_t *list = json_object_get(s->generation, "alignment_heads");
    size_t len = json_array_size(list);

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || len > HEADS_MAX)
        return err_set(s->err, ERR_MODEL, "alignment_heads is not a list of pairs");
    r->heads = calloc(len ? len : 1, sizeof(*r->heads));
    if (!r->heads)
        return err_set(s->err, ERR_NOMEM, "no memory for the alignment heads");
    for (size_t i = 0; i < len; i++) {
        const json_t *pair = json_array_get(list, i);

        for (size_t k = 0; k < 2; k++) {
            const json_t *value = json_array_get(pair, k);
            json_int_t x = json_integer_value(value);
            if (json_array_size(pair) != 2 || !json_is_integer(value) || x < 0 || x > 65535)
                return err_set(s->err, ERR_MODEL, "alignment_heads[%zu] is not a layer and a head",
                               i);
            r->heads[i][k] = (int32_t)x;
        }
        r->head_count++;
    }
    return 0;
}

static int read_max_initial(const struct source *s, struct vocabulary_rules *r)
{
    const json_t *value = json_object_get(s->generation, "max_initial_timestamp_index");

    r->max_initial_timestamp_index = 50; /* one second, Whisper's own */
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > TIMESTAMP_STEPS)
        return err_set(s->err, ERR_MODEL, "max_initial_timestamp_index is not within 0..%d",
                       TIMESTAMP_STEPS);
    r->max_initial_timestamp_index = (int32_t)json_integer_value(value);
    return 0;
}

/* The bound on ids: the rows of the output matrix where config.json tells them. */
static int read_limit(struct source *s)
{
    const json_t *value = json_object_get(s->config, "vocab_size");

    s->limit = BPE_MAX_ID + TIMESTAMP_STEPS + 1;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > BPE_MAX_ID)
        return err_set(s->err, ERR_MODEL, "vocab_size is not within 1..%d", BPE_MAX_ID);
    s->limit = (int32_t)json_integer_value(value);
    if (bpe_size(s->b) > s->limit)
        return err_set(s->err, ERR_MODEL,
                       "the tokenizer has %d ids but config.json's vocab_size is %d",
                       bpe_size(s->b), s->limit);
    return 0;
}

int vocabulary_rules_read(const struct bpe *b, const json_t *generation, const json_t *config,
                          struct vocabulary_rules *ret, struct err *err)
{
    struct source s = {.b = b, .generation = generation, .config = config, .err = err};
    struct vocabulary_rules r = {0};
    int rc;

    if ((rc = read_limit(&s)) || (rc = read_specials(&s, &r.ids)) ||
        (rc = read_timestamps(&s, &r.ids)) || (rc = read_languages(&s, &r)) ||
        (rc = read_list(&s, "suppress_tokens", &r.suppress, &r.suppress_count)) ||
        (rc = read_list(&s, "begin_suppress_tokens", &r.begin_suppress, &r.begin_suppress_count)) ||
        (rc = default_begin(&s, &r)) || (rc = read_max_initial(&s, &r)) ||
        (rc = read_heads(&s, &r))) {
        vocabulary_rules_free(&r);
        return rc;
    }
    r.size = bpe_size(b);
    if (r.size <= r.ids.timestamp_end)
        r.size = r.ids.timestamp_end + 1;
    *ret = r;
    return 0;
}

void vocabulary_rules_free(struct vocabulary_rules *r)
{
    free(r->languages);
    free(r->suppress);
    free(r->begin_suppress);
    free(r->heads);
    *r = (struct vocabulary_rules){0};
}
