/* The vocabulary is a trie over bytes, its edges in one open-addressed table: a look-up touches
 * one place of memory for each byte, and all tokens that begin at a place are found in one walk. */
#include "workers/text/tokenizer/unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "workers/text/tokenizer/bpe.h"
#include "workers/text/hash_seed.h"

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

/* ---- the best path */

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
