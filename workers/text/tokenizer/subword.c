#include "workers/text/tokenizer/subword.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "workers/text/tokenizer/bpe.h"

#define MAX_MAP_BYTES (1u << 30)

struct token_entry {
    uint32_t at, len;
    int32_t id;
};

/* Empty again. */
static void token_map_free(struct token_map *m)
{
    free(m->entries);
    free(m->slots);
    buf_free(&m->bytes);
    *m = (struct token_map){0};
}

/* The slot of a token, or the free one where it belongs. */
static uint32_t slot_of(const struct token_map *m, const char *token, size_t len)
{
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(token, len, m->seed) & (m->slot_count - 1);

    for (; m->slots[i]; i = (i + 1) & (m->slot_count - 1)) {
        const struct token_entry *e = &m->entries[m->slots[i] - 1];

        if (e->len == len && memcmp(m->bytes.data + e->at, token, len) == 0)
            break;
    }
    return i;
}

/* -1: there is none. */
static int32_t token_map_find(const struct token_map *m, const char *token, size_t len)
{
    uint32_t slot;

    if (!m->count || len == 0 || len > m->longest)
        return -1;
    slot = m->slots[slot_of(m, token, len)];
    return slot ? m->entries[slot - 1].id : -1;
}

/* Room for one more; at most half of the slots are in use. */
static int grow_token_map(struct token_map *m, struct err *err)
{
    uint32_t capacity = m->capacity ? m->capacity * 2 : 1024;
    struct token_entry *entries;
    uint32_t *slots;

    if (m->count < m->capacity)
        return 0;
    slots = calloc((size_t)capacity * 2, sizeof(*slots));
    entries = slots ? realloc(m->entries, capacity * sizeof(*entries)) : NULL;
    if (!entries) {
        free(slots);
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    }
    if (!m->slots)
        m->seed = hash_seed();
    free(m->slots);
    m->entries = entries;
    m->slots = slots;
    m->capacity = capacity;
    m->slot_count = capacity * 2;
    for (uint32_t i = 0; i < m->count; i++)
        slots[slot_of(m, (char *)m->bytes.data + entries[i].at, entries[i].len)] = i + 1;
    return 0;
}

/* ERR_MODEL when the token is there already, with whatever id. */
static int token_map_put(struct token_map *m, const char *token, size_t len, int32_t id,
                         struct err *err)
{
    uint32_t slot;
    int rc;

    if (len == 0)
        return err_set(err, ERR_MODEL, "token %d is empty", id);
    if (len > MAX_MAP_BYTES - m->bytes.len || m->count >= 1u << 29)
        return err_set(err, ERR_MODEL, "the vocabulary is too large");
    if ((rc = grow_token_map(m, err)))
        return rc;
    slot = slot_of(m, token, len);
    if (m->slots[slot])
        return err_set(err, ERR_MODEL, "token '%.*s' is there twice", (int)(len < 40 ? len : 40),
                       token);
    m->entries[m->count] = (struct token_entry){(uint32_t)m->bytes.len, (uint32_t)len, id};
    buf_put(&m->bytes, token, len);
    if (m->bytes.failed)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    m->slots[slot] = ++m->count;
    m->longest = len > m->longest ? (uint32_t)len : m->longest;
    return 0;
}

/* ---- WordPiece */

/* BERT's is 100. A word's cost grows with the square of its length. */
#define MAX_CHARS 1000
#define MAX_PIECE_BYTES 4096

static int add_wordpiece_token(struct wordpiece *w, const char *prefix, const char *token,
                               const json_t *value, struct err *err)
{
    size_t len = strlen(token), skip = strlen(prefix);
    json_int_t id = json_integer_value(value);
    int rc;

    if (!json_is_integer(value) || id < 0 || id >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "the id of token '%.40s' is not within 0..%d", token,
                       BPE_MAX_ID - 1);
    if (len == 0 || len > MAX_PIECE_BYTES)
        return err_set(err, ERR_MODEL, "token %lld is %zu bytes long", (long long)id, len);
    if ((rc = token_map_put(&w->begins, token, len, (int32_t)id, err)))
        return rc;
    w->size = id >= w->size ? (int32_t)id + 1 : w->size;
    if (len > skip && memcmp(token, prefix, skip) == 0)
        return token_map_put(&w->continues, token + skip, len - skip, (int32_t)id, err);
    return 0;
}

int wordpiece_read(struct wordpiece *w, const json_t *model, struct err *err)
{
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    json_t *vocab = json_object_get(model, "vocab"), *value;
    const char *token;
    int rc;

    if (!json_is_object(vocab) || !json_object_size(vocab))
        return err_set(err, ERR_MODEL, "model.vocab is missing or empty");
    json_object_foreach(vocab, token, value)
    {
        if ((rc = add_wordpiece_token(w, prefix ? prefix : "##", token, value, err)))
            return rc;
    }
    w->max_chars = 100;
    if (longest && (!json_is_integer(longest) || json_integer_value(longest) < 1 ||
                    json_integer_value(longest) > MAX_CHARS))
        return err_set(err, ERR_MODEL, "max_input_chars_per_word is not within 1..%d", MAX_CHARS);
    if (longest)
        w->max_chars = (uint32_t)json_integer_value(longest);
    unknown = unknown ? unknown : "[UNK]";
    w->unknown = token_map_find(&w->begins, unknown, strlen(unknown));
    if (w->unknown < 0)
        return err_set(err, ERR_MODEL, "the unknown token '%.40s' is not in the vocabulary",
                       unknown);
    return 0;
}

void wordpiece_free(struct wordpiece *w)
{
    token_map_free(&w->begins);
    token_map_free(&w->continues);
}

int32_t wordpiece_find(const struct wordpiece *w, const char *token, size_t len)
{
    return token_map_find(&w->begins, token, len);
}

static bool begins_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

/* The longest token that begins there; its length in *ret. -1: none does. */
static int32_t longest_at(const struct token_map *m, const char *at, size_t len, size_t *ret)
{
    for (size_t n = len < m->longest ? len : m->longest; n > 0; n--) {
        int32_t id = n == len || begins_character(at[n]) ? token_map_find(m, at, n) : -1;

        if (id >= 0) {
            *ret = n;
            return id;
        }
    }
    return -1;
}

void wordpiece_encode(const struct wordpiece *w, const char *word, size_t len,
                      struct token_list *out)
{
    size_t first = out->n, chars = 0, n = 0;

    for (size_t i = 0; i < len; i++)
        chars += begins_character(word[i]);
    for (size_t at = 0; at < len && chars <= w->max_chars; at += n) {
        int32_t id = longest_at(at ? &w->continues : &w->begins, word + at, len - at, &n);

        if (id < 0) {
            chars = SIZE_MAX;
            break;
        }
        token_list_put(out, id);
    }
    if (chars > w->max_chars) {
        out->n = first;
        token_list_put(out, w->unknown);
    }
}

/* ---- Unigram. The vocabulary is a trie over bytes, its edges in one open-addressed table: a
 * look-up touches one place of memory for each byte, and all tokens that begin at a place are found
 * in one walk. */

#define UNKNOWN_PENALTY 10.0
#define MAX_NODES (1u << 24) /* an edge's key holds 24 bits of its node */
#define MAX_TOKEN_BYTES 1024
#define ROOT 0u

struct edge {
    uint32_t key; /* node << 8 | byte */
    uint32_t to;  /* 0: the slot is free, for no edge leads to the root */
};

struct unigram {
    uint64_t seed;
    struct edge *edges;
    int32_t *token_of; /* [nodes]: the token that ends there; -1: none */
    uint32_t nodes, capacity, slots;
    double *score; /* [size]: natural logarithms */
    int32_t size, unknown;
    double unknown_score;
};

/* Nodes are numbered as the file's tokens come, so its author knows every key. */
static uint32_t edge_slot(uint64_t seed, const struct edge *edges, uint32_t slots, uint32_t key)
{
    uint32_t i = (uint32_t)XXH3_64bits_withSeed(&key, sizeof(key), seed) & (slots - 1);

    while (edges[i].to && edges[i].key != key)
        i = (i + 1) & (slots - 1);
    return i;
}

static uint32_t follow_trie_edge(const struct unigram *u, uint32_t node, uint8_t byte)
{
    return u->edges[edge_slot(u->seed, u->edges, u->slots, node << 8 | byte)].to;
}

/* Room for one more node; at most half of the slots are in use. */
static int grow_trie(struct unigram *u, struct err *err)
{
    uint32_t capacity = u->capacity ? u->capacity * 2 : 1024;
    struct edge *edges;
    int32_t *token_of;

    if (u->nodes < u->capacity)
        return 0;
    if (capacity > MAX_NODES)
        return err_set(err, ERR_MODEL, "the vocabulary is too large");
    edges = calloc((size_t)capacity * 2, sizeof(*edges));
    token_of = edges ? realloc(u->token_of, capacity * sizeof(*token_of)) : NULL;
    if (!token_of) {
        free(edges);
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    }
    for (uint32_t i = 0; i < u->slots; i++)
        if (u->edges[i].to)
            edges[edge_slot(u->seed, edges, capacity * 2, u->edges[i].key)] = u->edges[i];
    free(u->edges);
    u->edges = edges;
    u->token_of = token_of;
    u->capacity = capacity;
    u->slots = capacity * 2;
    return 0;
}

static int add_trie_token(struct unigram *u, const char *token, int32_t id, struct err *err)
{
    uint32_t node = ROOT;

    for (const char *p = token; *p; p++) {
        uint32_t key = node << 8 | (uint8_t)*p, slot;
        int rc = grow_trie(u, err);

        if (rc != 0)
            return rc;
        slot = edge_slot(u->seed, u->edges, u->slots, key);
        if (!u->edges[slot].to) {
            u->token_of[u->nodes] = -1;
            u->edges[slot] = (struct edge){key, u->nodes++};
        }
        node = u->edges[slot].to;
    }
    if (node != ROOT)
        u->token_of[node] = id; /* of tokens that are there twice, the last, as in the library */
    return 0;
}

static int read_vocab(struct unigram *u, const json_t *vocab, struct err *err)
{
    double lowest = INFINITY;
    int rc;

    u->score = calloc((size_t)u->size, sizeof(*u->score));
    if (!u->score)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    for (int32_t i = 0; i < u->size; i++) {
        const json_t *entry = json_array_get(vocab, (size_t)i), *score = json_array_get(entry, 1);
        const char *token = json_string_value(json_array_get(entry, 0));

        if (json_array_size(entry) != 2 || !token || !json_is_number(score))
            return err_set(err, ERR_MODEL, "model.vocab[%d] is not a token and its score", i);
        if (strlen(token) > MAX_TOKEN_BYTES)
            return err_set(err, ERR_MODEL, "token %d is %zu bytes long", i, strlen(token));
        u->score[i] = json_number_value(score);
        if (!isfinite(u->score[i]))
            return err_set(err, ERR_MODEL, "the score of token %d is no number", i);
        lowest = fmin(lowest, u->score[i]);
        if ((rc = add_trie_token(u, token, i, err)))
            return rc;
    }
    u->unknown_score = lowest - UNKNOWN_PENALTY;
    return 0;
}

static int read_model(struct unigram *u, const json_t *model, struct err *err)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const json_t *unknown = json_object_get(model, "unk_id");
    size_t n = json_array_size(vocab);
    int rc;

    if (n == 0 || n > BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "model.vocab is not a list of 1 to %d tokens", BPE_MAX_ID);
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return err_set(err, ERR_MODEL, "model.byte_fallback is not supported");
    if (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
        json_integer_value(unknown) >= (json_int_t)n)
        return err_set(err, ERR_MODEL, "model.unk_id is not the id of a token");
    u->size = (int32_t)n;
    u->unknown = (int32_t)json_integer_value(unknown);
    if ((rc = grow_trie(u, err)))
        return rc;
    u->token_of[ROOT] = -1;
    u->nodes = 1;
    return read_vocab(u, vocab, err);
}

int unigram_read(const json_t *model, struct unigram **ret, struct err *err)
{
    struct unigram *u = calloc(1, sizeof(*u));
    int rc;

    if (!u)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    u->seed = hash_seed();
    rc = read_model(u, model, err);
    if (rc != 0)
        unigram_free(u);
    else
        *ret = u;
    return rc;
}

void unigram_free(struct unigram *u)
{
    if (!u)
        return;
    free(u->edges);
    free(u->token_of);
    free(u->score);
    free(u);
}

int32_t unigram_size(const struct unigram *u) { return u->size; }

int32_t unigram_find(const struct unigram *u, const char *token, size_t len)
{
    uint32_t node = ROOT;

    for (size_t i = 0; i < len; i++) {
        node = follow_trie_edge(u, node, (uint8_t)token[i]);
        if (node == ROOT)
            return -1;
    }
    return u->token_of[node];
}

/* ---- Unigram: the best path */

/* The best way to have read the text up to a byte: its last token, and where that began. */
struct reached {
    double score;
    size_t from; /* SIZE_MAX: not reached yet */
    int32_t token;
};

static void update_best_path(struct reached *r, double score, size_t from, int32_t token)
{
    if (r->from == SIZE_MAX || score > r->score)
        *r = (struct reached){score, from, token};
}

static size_t character_bytes(const char *text, size_t len)
{
    size_t n = 1;

    while (n < len && ((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

/* Every token that begins at `at`, and the unknown one when none is one character there. */
static void extend_best_paths(const struct unigram *u, struct reached *best, const char *text,
                              size_t len, size_t at)
{
    size_t one = character_bytes(text + at, len - at);
    double here = best[at].score;
    uint32_t node = ROOT;
    bool alone = false;

    for (size_t end = at; end < len; end++) {
        int32_t token;

        node = follow_trie_edge(u, node, (uint8_t)text[end]);
        if (node == ROOT)
            break;
        token = u->token_of[node];
        if (token < 0)
            continue;
        update_best_path(&best[end + 1], here + u->score[token], at, token);
        alone |= end + 1 == at + one;
    }
    if (!alone)
        update_best_path(&best[at + one], here + u->unknown_score, at, u->unknown);
}

void unigram_encode(const struct unigram *u, const char *text, size_t len, struct token_list *out)
{
    struct reached *best =
        len < SIZE_MAX / sizeof(*best) ? malloc((len + 1) * sizeof(*best)) : NULL;
    size_t first = out->n;
    int32_t last = -1;

    if (!best) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i <= len; i++)
        best[i] = (struct reached){.from = SIZE_MAX};
    best[0].score = 0;
    for (size_t at = 0; at < len; at += character_bytes(text + at, len - at))
        extend_best_paths(u, best, text, len, at);
    for (size_t end = len; end > 0 && !out->failed; end = best[end].from) {
        if (best[end].token != u->unknown || last != u->unknown)
            token_list_put(out, best[end].token);
        last = best[end].token;
    }
    for (size_t a = first, b = out->n; a + 1 < b; a++) { /* they came last first */
        int32_t swap = out->at[a];

        out->at[a] = out->at[--b];
        out->at[b] = swap;
    }
    free(best);
}
