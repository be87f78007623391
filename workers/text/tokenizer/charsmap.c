#include "workers/text/tokenizer/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

#define CLUSTER_BYTES 6     /* clusters of fewer are looked up whole */
#define MAX_REPLACEMENT 255 /* bytes; the longest of NFKC has 33 */

struct charsmap {
    uint8_t *blob; /* owned: what base64 gave */
    const uint8_t *units;
    uint32_t unit_count;
    const char *strings; /* ends with a NUL */
    size_t strings_len;
};

/* ---- base64 (RFC 4648) */

static int decode_base64_char(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Into room for 3 bytes of every 4 characters; false when it is no base64. */
static bool decode_base64(const char *s, uint8_t *out, size_t *n)
{
    size_t len = strlen(s), pad = 0;

    *n = 0;
    while (len > 0 && pad < 2 && s[len - 1] == '=') {
        len--;
        pad++;
    }
    if ((len + pad) % 4 != 0)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        size_t have = len - i < 4 ? len - i : 4;
        uint32_t bits = 0;

        for (size_t k = 0; k < 4; k++) {
            int v = k < have ? decode_base64_char(s[i + k]) : 0;

            if (v < 0)
                return false;
            bits = bits << 6 | (uint32_t)v;
        }
        for (size_t k = 0; k + 1 < have; k++)
            out[(*n)++] = (uint8_t)(bits >> (16 - 8 * k));
    }
    return true;
}

/* ---- reading */

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int read_blob(struct charsmap *c, size_t len, struct err *err)
{
    uint32_t trie = len >= 4 ? u32_at(c->blob) : 0;

    if (len < 8 || trie < 4 || trie % 4 != 0 || trie > len - 4)
        return err_set(err, ERR_MODEL, "precompiled_charsmap holds no trie");
    c->units = c->blob + 4;
    c->unit_count = trie / 4;
    c->strings = (const char *)c->blob + 4 + trie;
    c->strings_len = len - 4 - trie;
    if (c->strings_len == 0 || c->strings[c->strings_len - 1] != 0 ||
        !utf8_valid(c->strings, c->strings_len))
        return err_set(err, ERR_MODEL, "precompiled_charsmap holds no replacements");
    for (size_t i = 0, n; i < c->strings_len; i += n + 1) {
        n = strlen(c->strings + i);
        if (n > MAX_REPLACEMENT)
            return err_set(err, ERR_MODEL, "precompiled_charsmap has a replacement of %zu bytes",
                           n);
    }
    return 0;
}

int charsmap_read(const char *base64, struct charsmap **ret, struct err *err)
{
    struct charsmap *c = calloc(1, sizeof(*c));
    size_t len;
    int rc;

    if (c)
        c->blob = malloc(strlen(base64) / 4 * 3 + 4);
    if (!c || !c->blob)
        rc = err_set(err, ERR_NOMEM, "no memory for a normaliser");
    else if (!decode_base64(base64, c->blob, &len))
        rc = err_set(err, ERR_MODEL, "precompiled_charsmap is no base64");
    else
        rc = read_blob(c, len, err);
    if (rc != 0)
        charsmap_free(c);
    else
        *ret = c;
    return rc;
}

void charsmap_free(struct charsmap *c)
{
    if (!c)
        return;
    free(c->blob);
    free(c);
}

/* ---- looking up */

/* A unit of the double array: the label in the lowest byte (and bit 31 on a value), bit 8 says that
 * a value hangs below, bit 9 that the offset counts in 256s, the offset is above. */
static uint32_t unit_offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

static bool unit_at(const struct charsmap *c, uint32_t at, uint32_t *ret)
{
    if (at >= c->unit_count)
        return false;
    *ret = u32_at(c->units + 4 * (size_t)at);
    return true;
}

/* The replacement of the shortest entry that these bytes begin with; NULL: there is none. */
static const char *find_replacement(const struct charsmap *c, const uint8_t *key, size_t len)
{
    uint32_t at = 0, unit;

    if (!unit_at(c, 0, &unit))
        return NULL;
    at ^= unit_offset(unit);
    for (size_t i = 0; i < len && key[i] != 0; i++) {
        at ^= key[i];
        if (!unit_at(c, at, &unit) || (unit & (1u << 31 | 0xFF)) != key[i])
            return NULL;
        at ^= unit_offset(unit);
        if (unit >> 8 & 1) {
            uint32_t value;

            if (!unit_at(c, at, &value) || (value & 0x7FFFFFFF) >= c->strings_len)
                return NULL;
            return c->strings + (value & 0x7FFFFFFF);
        }
    }
    return NULL;
}

/* False when there is no entry for the characters [from, end). */
static bool replace_characters(const struct charsmap *c, struct codepoints *out,
                               const struct codepoints *in, size_t from, size_t end)
{
    uint8_t key[4 * CLUSTER_BYTES];
    const char *found;
    size_t len = 0;

    for (size_t i = from; i < end; i++)
        len += (size_t)utf8proc_encode_char(in->at[i], key + len);
    found = find_replacement(c, key, len);
    if (found)
        codepoints_put_utf8(out, found, strlen(found));
    return found != NULL;
}

static size_t bytes_of(const struct codepoints *t, size_t from, size_t end)
{
    uint8_t spare[4];
    size_t n = 0;

    for (size_t i = from; i < end && n < CLUSTER_BYTES; i++)
        n += (size_t)utf8proc_encode_char(t->at[i], spare);
    return n;
}

void charsmap_apply(const struct charsmap *c, struct codepoints *out, const struct codepoints *in)
{
    size_t end;

    out->failed |= in->failed;
    for (size_t i = 0; i < in->len && !out->failed; i = end) {
        utf8proc_int32_t state = 0;

        for (end = i + 1; end < in->len; end++)
            if (utf8proc_grapheme_break_stateful(in->at[end - 1], in->at[end], &state))
                break;
        if (bytes_of(in, i, end) < CLUSTER_BYTES && replace_characters(c, out, in, i, end))
            continue;
        for (size_t k = i; k < end && !out->failed; k++)
            if (!replace_characters(c, out, in, k, k + 1))
                codepoints_put(out, in->at[k]);
    }
}
