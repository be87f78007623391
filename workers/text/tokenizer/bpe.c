#include "workers/text/tokenizer/bpe.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <utf8proc.h>
#include <xxhash.h>

uint64_t hash_seed(void)
{
    struct timespec now = {0};
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
        return seed;
    /* Right after the machine's start there may be no random numbers yet. A file's author does not
     * know the time and the stack's address either. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)(uintptr_t)&now;
}

struct token {
    char *spelling; /* owned, as in the file; NULL: no such id */
    uint8_t *bytes; /* what it stands for: in the spelling's memory, behind it */
    uint32_t spelling_len, bytes_len;
};

/* (left, right) -> (rank, joined), open addressing; key 0 is free because ids are stored + 1. */
struct rule {
    uint64_t key;
    int32_t rank, joined;
};

struct bpe {
    uint64_t seed;
    struct token *tokens;
    int32_t size, capacity;
    int32_t *names; /* open addressing over spellings: id, or -1 */
    uint32_t names_cap, names_used;
    struct rule *rules;
    uint32_t rules_cap, rules_used;
    int32_t byte_ids[256]; /* the token of a single byte, -1 when there is none */
};

/* GPT-2 writes the printable bytes of Latin-1 as themselves and the others, in order, as U+0100
 * upwards. */
static bool byte_is_plain(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

static int byte_of_char(utf8proc_int32_t c)
{
    if (c < 0 || c > 323)
        return -1;
    if (c < 256)
        return byte_is_plain((unsigned)c) ? c : -1;
    c -= 256; /* the 68 others: 0..32, 127..160, 173 */
    return c < 33 ? c : c < 67 ? c - 33 + 127 : 173;
}

int bpe_new(struct bpe **ret, struct err *err)
{
    struct bpe *b = calloc(1, sizeof(*b));

    if (!b)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    b->seed = hash_seed();
    for (int i = 0; i < 256; i++)
        b->byte_ids[i] = -1;
    *ret = b;
    return 0;
}

void bpe_free(struct bpe *b)
{
    if (!b)
        return;
    for (int32_t i = 0; i < b->size; i++)
        free(b->tokens[i].spelling);
    free(b->tokens);
    free(b->names);
    free(b->rules);
    free(b);
}

static uint32_t name_slot(const struct bpe *b, const char *spelling, size_t len)
{
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(spelling, len, b->seed) & (b->names_cap - 1);

    while (b->names[i] >= 0) {
        const struct token *t = &b->tokens[b->names[i]];
        if (t->spelling_len == len && memcmp(t->spelling, spelling, len) == 0)
            break;
        i = (i + 1) & (b->names_cap - 1);
    }
    return i;
}

int32_t bpe_find(const struct bpe *b, const char *spelling, size_t len)
{
    return b->names_cap ? b->names[name_slot(b, spelling, len)] : -1;
}

static int grow_names(struct bpe *b, struct err *err)
{
    uint32_t capacity = b->names_cap ? b->names_cap * 2 : 1024;
    int32_t *names;

    if (b->names_cap && b->names_used < b->names_cap / 2)
        return 0;
    names = malloc(capacity * sizeof(*names));
    if (!names)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    memset(names, 0xFF, capacity * sizeof(*names));
    free(b->names);
    b->names = names;
    b->names_cap = capacity;
    for (int32_t i = 0; i < b->size; i++)
        if (b->tokens[i].spelling)
            names[name_slot(b, b->tokens[i].spelling, b->tokens[i].spelling_len)] = i;
    return 0;
}

static int grow_tokens(struct bpe *b, int32_t id, struct err *err)
{
    int32_t capacity = b->capacity ? b->capacity : 1024;
    struct token *tokens;

    while (capacity <= id)
        capacity *= 2;
    if (capacity != b->capacity) {
        tokens = realloc(b->tokens, (size_t)capacity * sizeof(*tokens));
        if (!tokens)
            return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
        b->tokens = tokens;
        memset(tokens + b->capacity, 0, (size_t)(capacity - b->capacity) * sizeof(*tokens));
        b->capacity = capacity;
    }
    return 0;
}

/* The bytes that a spelling stands for. A character that GPT-2 never writes makes the whole
 * spelling stand for itself, as in the tokenizers library. */
static uint32_t decode_token_bytes(const char *spelling, size_t len, bool literal, uint8_t *out)
{
    uint32_t n = 0;

    for (size_t i = 0; i < len && !literal;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)spelling + i,
                                              (utf8proc_ssize_t)(len - i), &c);
        int byte = k > 0 ? byte_of_char(c) : -1;

        if (byte < 0) {
            literal = true;
        } else {
            out[n++] = (uint8_t)byte;
            i += (size_t)k;
        }
    }
    if (literal) {
        memcpy(out, spelling, len);
        n = (uint32_t)len;
    }
    return n;
}

static int add_bpe_token(struct bpe *b, const char *spelling, int64_t id, bool literal,
                         struct err *err)
{
    size_t len = strlen(spelling);
    struct token *t;
    uint32_t slot;
    int rc;

    if (id < 0 || id >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "token '%.40s' has the id %lld, outside 0..%d", spelling,
                       (long long)id, BPE_MAX_ID - 1);
    if (len > UINT16_MAX)
        return err_set(err, ERR_MODEL, "token %lld is %zu bytes long", (long long)id, len);
    if ((rc = grow_tokens(b, (int32_t)id, err)) || (rc = grow_names(b, err)))
        return rc;
    t = &b->tokens[id];
    if (t->spelling)
        return err_set(err, ERR_MODEL, "tokens '%.40s' and '%.40s' have the same id %lld",
                       t->spelling, spelling, (long long)id);
    slot = name_slot(b, spelling, len);
    if (b->names[slot] >= 0)
        return err_set(err, ERR_MODEL, "token '%.40s' has two ids, %d and %lld", spelling,
                       b->names[slot], (long long)id);
    t->spelling = malloc(2 * len + 1);
    if (!t->spelling)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    memcpy(t->spelling, spelling, len + 1);
    t->bytes = (uint8_t *)t->spelling + len + 1;
    t->spelling_len = (uint32_t)len;
    t->bytes_len = decode_token_bytes(spelling, len, literal, t->bytes);
    b->names[slot] = (int32_t)id;
    b->names_used++;
    if (id >= b->size)
        b->size = (int32_t)id + 1;
    if (!literal && t->bytes_len == 1 && b->byte_ids[t->bytes[0]] < 0)
        b->byte_ids[t->bytes[0]] = (int32_t)id;
    return 0;
}

int bpe_add(struct bpe *b, const char *spelling, int64_t id, struct err *err)
{
    return add_bpe_token(b, spelling, id, false, err);
}

int bpe_add_literal(struct bpe *b, const char *text, int64_t id, struct err *err)
{
    int32_t old = bpe_find(b, text, strlen(text));

    if (old >= 0 && old == id)
        return 0;
    return add_bpe_token(b, text, id, true, err);
}

/* Writes a byte in GPT-2's spelling: one or two bytes of UTF-8. */
static size_t encode_byte_char(uint8_t byte, char *out)
{
    unsigned c = byte;

    if (!byte_is_plain(c))
        for (c = 256; byte_of_char((utf8proc_int32_t)c) != byte;)
            c++;
    if (c < 128) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

int bpe_add_bytes(struct bpe *b, const uint8_t *bytes, size_t len, int64_t id, struct err *err)
{
    char *spelling = len <= UINT16_MAX ? malloc(2 * len + 1) : NULL;
    size_t n = 0;
    int rc;

    if (!spelling)
        return len <= UINT16_MAX
                   ? err_set(err, ERR_NOMEM, "no memory for a vocabulary")
                   : err_set(err, ERR_MODEL, "token %lld is %zu bytes long", (long long)id, len);
    for (size_t i = 0; i < len; i++)
        n += encode_byte_char(bytes[i], spelling + n);
    spelling[n] = 0;
    rc = bpe_add(b, spelling, id, err);
    free(spelling);
    return rc;
}

static uint64_t rule_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)(left + 1) << 32 | (uint32_t)(right + 1);
}

static struct rule *rule_slot(uint64_t seed, struct rule *rules, uint32_t capacity, uint64_t key)
{
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(&key, sizeof(key), seed) & (capacity - 1);

    while (rules[i].key && rules[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &rules[i];
}

static int grow_rules(struct bpe *b, struct err *err)
{
    uint32_t capacity = b->rules_cap ? b->rules_cap * 2 : 1024;
    struct rule *rules;

    if (b->rules_cap && b->rules_used < b->rules_cap / 2)
        return 0;
    rules = calloc(capacity, sizeof(*rules));
    if (!rules)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary's merges");
    for (uint32_t i = 0; i < b->rules_cap; i++)
        if (b->rules[i].key)
            *rule_slot(b->seed, rules, capacity, b->rules[i].key) = b->rules[i];
    free(b->rules);
    b->rules = rules;
    b->rules_cap = capacity;
    return 0;
}

static int add_rule(struct bpe *b, int32_t left, int32_t right, int32_t joined, struct err *err)
{
    struct rule *rule;
    int rc = grow_rules(b, err);

    if (rc)
        return rc;
    rule = rule_slot(b->seed, b->rules, b->rules_cap, rule_key(left, right));
    if (rule->key)
        return err_set(err, ERR_MODEL, "merge %u is there twice", b->rules_used);
    *rule = (struct rule){rule_key(left, right), (int32_t)b->rules_used++, joined};
    return 0;
}

int bpe_merge(struct bpe *b, const char *left, size_t left_len, const char *right, size_t right_len,
              struct err *err)
{
    int32_t l = bpe_find(b, left, left_len), r = bpe_find(b, right, right_len), joined;
    char *both;

    if (l < 0 || r < 0) {
        size_t len = l < 0 ? left_len : right_len;
        return err_set(err, ERR_MODEL, "merge %u joins '%.*s', which is no token", b->rules_used,
                       (int)(len < 40 ? len : 40), l < 0 ? left : right);
    }
    both = malloc(left_len + right_len + 1);
    if (!both)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary's merges");
    memcpy(both, left, left_len);
    memcpy(both + left_len, right, right_len);
    joined = bpe_find(b, both, left_len + right_len);
    free(both);
    if (joined < 0)
        return err_set(err, ERR_MODEL, "merge %u makes a token that the vocabulary lacks",
                       b->rules_used);
    return add_rule(b, l, r, joined, err);
}

int32_t bpe_size(const struct bpe *b) { return b->size; }

const uint8_t *bpe_bytes(const struct bpe *b, int32_t id, size_t *len)
{
    *len = 0;
    if (id < 0 || id >= b->size || !b->tokens[id].spelling)
        return NULL;
    *len = b->tokens[id].bytes_len;
    return b->tokens[id].bytes;
}

/* ---- words */

enum kind { LETTER, NUMBER, BLANK, OTHER };

static enum kind kind_at(const char *text, size_t len, size_t at, size_t *width)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(len - at), &c);

    *width = k > 0 ? (size_t)k : 1;
    if (k <= 0)
        return OTHER;
    if ((c >= 9 && c <= 13) || c == 0x85)
        return BLANK;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return BLANK;
    default:
        return OTHER;
    }
}

static size_t measure_contraction(const char *text, size_t len)
{
    static const char *const list[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (len >= strlen(list[i]) && memcmp(text, list[i], strlen(list[i])) == 0)
            return strlen(list[i]);
    return 0;
}

size_t bpe_word(const char *text, size_t len)
{
    size_t at = measure_contraction(text, len), width, last = 0;
    enum kind first;

    if (at)
        return at;
    first = kind_at(text, len, 0, &width);
    if (text[0] == ' ' && len > 1 && kind_at(text, len, 1, &width) != BLANK) {
        at = 1;
        first = kind_at(text, len, 1, &width);
    }
    while (at < len && kind_at(text, len, at, &width) == first) {
        last = at;
        at += width;
    }
    /* \s+(?!\S): a run of blanks before a word leaves its last blank to that word. */
    if (first == BLANK && at < len && last)
        return last;
    return at;
}

/* ---- merging */

struct piece {
    int32_t id, prev, next; /* indices into the pieces; -1 at the ends; id -1 once joined away */
};

struct candidate {
    int32_t rank, at, joined;
};

struct merger {
    const struct bpe *b;
    struct piece *pieces;
    struct candidate *heap; /* earliest rule first, then leftmost */
    size_t heap_len;
};

static bool has_merge_priority(const struct candidate *x, const struct candidate *y)
{
    return x->rank < y->rank || (x->rank == y->rank && x->at < y->at);
}

static void heap_push(struct merger *m, struct candidate c)
{
    size_t i = m->heap_len++;

    while (i && has_merge_priority(&c, &m->heap[(i - 1) / 2])) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = c;
}

static struct candidate heap_pop(struct merger *m)
{
    struct candidate top = m->heap[0], c = m->heap[--m->heap_len];
    size_t i = 0;

    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= m->heap_len)
            break;
        if (k + 1 < m->heap_len && has_merge_priority(&m->heap[k + 1], &m->heap[k]))
            k++;
        if (!has_merge_priority(&m->heap[k], &c))
            break;
        m->heap[i] = m->heap[k];
        i = k;
    }
    m->heap[i] = c;
    return top;
}

static void queue_merge_candidate(struct merger *m, int32_t at)
{
    const struct piece *p = &m->pieces[at];
    const struct rule *r;

    if (at < 0 || p->next < 0 || !m->b->rules_cap)
        return;
    r = rule_slot(m->b->seed, m->b->rules, m->b->rules_cap, rule_key(p->id, m->pieces[p->next].id));
    if (r->key)
        heap_push(m, (struct candidate){r->rank, at, r->joined});
}

/* True when the candidate still describes two living neighbours. */
static bool is_current(const struct merger *m, const struct candidate *c)
{
    const struct piece *p = &m->pieces[c->at];
    const struct rule *r;

    if (p->id < 0 || p->next < 0)
        return false;
    r = rule_slot(m->b->seed, m->b->rules, m->b->rules_cap, rule_key(p->id, m->pieces[p->next].id));
    return r->key && r->rank == c->rank;
}

static void merge_pieces(struct merger *m, const struct candidate *c)
{
    struct piece *p = &m->pieces[c->at], *gone = &m->pieces[p->next];

    p->id = c->joined;
    p->next = gone->next;
    if (p->next >= 0)
        m->pieces[p->next].prev = c->at;
    gone->id = -1;
    if (p->prev >= 0)
        queue_merge_candidate(m, p->prev);
    queue_merge_candidate(m, c->at);
}

/* Joins the bytes of one word; returns how many tokens were written to out. */
static size_t merge_word(struct merger *m, const uint8_t *word, size_t len, int32_t *out)
{
    size_t n = 0, count = 0;

    for (size_t i = 0; i < len; i++)
        if (m->b->byte_ids[word[i]] >= 0) {
            m->pieces[n] = (struct piece){m->b->byte_ids[word[i]], (int32_t)n - 1, (int32_t)n + 1};
            n++;
        }
    if (!n)
        return 0;
    m->pieces[n - 1].next = -1;
    m->heap_len = 0;
    for (size_t i = 0; i < n; i++)
        queue_merge_candidate(m, (int32_t)i);
    while (m->heap_len) {
        struct candidate c = heap_pop(m);
        if (is_current(m, &c))
            merge_pieces(m, &c);
    }
    for (int32_t i = 0; i >= 0; i = m->pieces[i].next)
        out[count++] = m->pieces[i].id;
    return count;
}

int bpe_encode(const struct bpe *b, const char *text, size_t len, int32_t **ret, size_t *n,
               struct err *err)
{
    struct merger m = {.b = b};
    int32_t *out = NULL;
    size_t longest = 0, count = 0;
    int rc = 0;

    for (size_t i = 0, k; i < len; i += k) {
        k = bpe_word(text + i, len - i);
        longest = k > longest ? k : longest;
    }
    if (longest > INT32_MAX / 4)
        return err_set(err, ERR_LIMIT, "a word of %zu bytes is too long to encode", longest);
    if (len) {
        /* Each join removes one piece and adds at most two candidates: 3 per byte is enough. */
        out = malloc(len * sizeof(*out));
        m.pieces = malloc(longest * sizeof(*m.pieces));
        m.heap = malloc(3 * longest * sizeof(*m.heap));
        if (!out || !m.pieces || !m.heap) {
            rc = err_set(err, ERR_NOMEM, "no memory to encode %zu bytes of text", len);
            goto done;
        }
    }
    for (size_t i = 0, k; i < len; i += k) {
        k = bpe_word(text + i, len - i);
        count += merge_word(&m, (const uint8_t *)text + i, k, out + count);
    }
    *ret = out;
    *n = count;
    out = NULL;
done:
    free(out);
    free(m.pieces);
    free(m.heap);
    return rc;
}

/* ---- rules from the tokens */

int bpe_merge_in_order(struct bpe *b, struct err *err)
{
    struct merger m = {.b = b};
    size_t longest = 1;
    int32_t *out;
    int rc = 0;

    for (int32_t id = 0; id < b->size; id++)
        if (b->tokens[id].spelling && b->tokens[id].bytes_len > longest)
            longest = b->tokens[id].bytes_len;
    out = malloc(longest * sizeof(*out));
    m.pieces = malloc(longest * sizeof(*m.pieces));
    m.heap = malloc(3 * longest * sizeof(*m.heap));
    if (!out || !m.pieces || !m.heap)
        rc = err_set(err, ERR_NOMEM, "no memory for a vocabulary's merges");
    for (int32_t id = 0; rc == 0 && id < b->size; id++) {
        const struct token *t = &b->tokens[id];

        /* Others are reached by no rule, as in the vocabulary's own tokenizer. */
        if (t->spelling && t->bytes_len > 1 && merge_word(&m, t->bytes, t->bytes_len, out) == 2 &&
            b->tokens[out[0]].bytes_len + b->tokens[out[1]].bytes_len == t->bytes_len)
            rc = add_rule(b, out[0], out[1], id, err);
    }
    free(out);
    free(m.pieces);
    free(m.heap);
    return rc;
}

/* ---- tokenizer.json */

static int read_vocab(struct bpe *b, json_t *vocab, struct err *err)
{
    const char *spelling;
    json_t *value;
    int rc;

    if (!json_is_object(vocab) || !json_object_size(vocab))
        return err_set(err, ERR_MODEL, "model.vocab is missing or empty");
    json_object_foreach(vocab, spelling, value)
    {
        if (!json_is_integer(value))
            return err_set(err, ERR_MODEL, "the id of token '%.40s' is not an integer", spelling);
        if ((rc = bpe_add(b, spelling, json_integer_value(value), err)))
            return rc;
    }
    return 0;
}

/* "a b" in files of before 2024, ["a", "b"] since. */
static int read_merge(struct bpe *b, size_t i, const json_t *merge, struct err *err)
{
    const char *left, *right;

    if (json_is_string(merge)) {
        left = json_string_value(merge);
        right = strchr(left, ' ');
        if (right && right != left && right[1] && !strchr(right + 1, ' '))
            return bpe_merge(b, left, (size_t)(right - left), right + 1, strlen(right + 1), err);
    } else if (json_array_size(merge) == 2) {
        left = json_string_value(json_array_get(merge, 0));
        right = json_string_value(json_array_get(merge, 1));
        if (left && right && left[0] && right[0])
            return bpe_merge(b, left, strlen(left), right, strlen(right), err);
    }
    return err_set(err, ERR_MODEL, "merge %zu is not a pair of tokens", i);
}

static int read_merges(struct bpe *b, const json_t *merges, struct err *err)
{
    if (!json_is_array(merges) || json_array_size(merges) > BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "model.merges is not a list of pairs");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        int rc = read_merge(b, i, json_array_get(merges, i), err);
        if (rc)
            return rc;
    }
    return 0;
}

int bpe_read_json(struct bpe *b, const json_t *model, struct err *err)
{
    int rc = read_vocab(b, json_object_get(model, "vocab"), err);

    return rc ? rc : read_merges(b, json_object_get(model, "merges"), err);
}
