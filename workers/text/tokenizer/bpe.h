/* workers/text/tokenizer/bpe.h - byte-level byte-pair encoding (GPT-2's).
 *
 * Tokens are byte strings with ids; a merge rule joins two neighbouring tokens into a third, the
 * earliest rule first. One owner while it is filled; any thread may read afterwards. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_BPE_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BPE_MAX_ID (1 << 20) /* ids below it; the largest vocabularies in use have 2^18 */

struct bpe;
struct json_t;

int bpe_new(struct bpe **ret, struct err *err);
void bpe_free(struct bpe *b);

/* Adds the token written as GPT-2 writes it (each byte as one printable character). ERR_MODEL when
 * the id is out of range, or the id or the spelling is there already. */
int bpe_add(struct bpe *b, const char *spelling, int64_t id, struct err *err);
/* A token that stands for its own UTF-8 text and takes part in no merge (an added token). Adding it
 * again with the same id and text is fine. */
int bpe_add_literal(struct bpe *b, const char *text, int64_t id, struct err *err);
/* The next merge rule, by the spellings of its sides. ERR_MODEL when a side or the joined token is
 * unknown. */
int bpe_merge(struct bpe *b, const char *left, size_t left_len, const char *right, size_t right_len,
              struct err *err);

/* The same token by its bytes. */
int bpe_add_bytes(struct bpe *b, const uint8_t *bytes, size_t len, int64_t id, struct err *err);
/* The rules of a vocabulary whose ids are in the order in which its rules were found, as GPT-2's
 * and all of Whisper's are, from the tokens alone: each joins the two tokens into which the rules
 * before it have joined its bytes. After all bpe_add and before any bpe_add_literal;
 * once, and without bpe_merge. */
int bpe_merge_in_order(struct bpe *b, struct err *err);

int32_t bpe_size(const struct bpe *b); /* highest id + 1 */
/* The id of a spelling (or of an added token's text), -1 when there is none. */
int32_t bpe_find(const struct bpe *b, const char *spelling, size_t len);
/* The bytes of an id; NULL with *len 0 for ids without token. Valid as long as b. */
const uint8_t *bpe_bytes(const struct bpe *b, int32_t id, size_t *len);

/* Tokens of a valid UTF-8 text, split into words by GPT-2's rule first. *ret newly allocated, NULL
 * with *n 0 for empty text. Bytes without a token of their own are left out. */
int bpe_encode(const struct bpe *b, const char *text, size_t len, int32_t **ret, size_t *n,
               struct err *err);

/* The length in bytes of the first word of text (len > 0) as GPT-2's pattern splits it:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t bpe_word(const char *text, size_t len);

/* Fills b, which is empty, with the vocabulary and the merges of the "model" of a tokenizer.json.
 * ERR_MODEL. */
int bpe_read_json(struct bpe *b, const struct json_t *model, struct err *err);

/* The seed of a hash table of strings from a file. It is another one each time, so that nobody who
 * writes the file can choose strings that all fall on one place. Nothing that a table is asked for
 * may depend on it. Any thread. */
uint64_t hash_seed(void);

#endif
