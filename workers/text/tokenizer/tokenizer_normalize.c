#include "workers/text/tokenizer/tokenizer_normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

/* ---- charsmap: SentencePiece's compiled normaliser, strings and their replacements.
 *
 * In a tokenizer.json it is a string in base64: the size of a trie in bytes, the trie (a double
 * array of 32-bit units, as darts-clone builds it), and the replacements, each ended by a NUL. */

#define CLUSTER_BYTES 6 /* clusters of fewer are looked up whole */
#define MAX_MAPPED 255  /* bytes; the longest of NFKC has 33 */

struct charsmap {
    uint8_t *blob; /* owned: what base64 gave */
    const uint8_t *units;
    uint32_t unit_count;
    const char *strings; /* ends with a NUL */
    size_t strings_len;
};

/* Base64 is as RFC 4648 says. */
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
        if (n > MAX_MAPPED)
            return err_set(err, ERR_MODEL, "precompiled_charsmap has a replacement of %zu bytes",
                           n);
    }
    return 0;
}

/* NULL is fine. */
static void charsmap_free(struct charsmap *c)
{
    if (!c)
        return;
    free(c->blob);
    free(c);
}

/* ERR_MODEL. */
static int charsmap_read(const char *base64, struct charsmap **ret, struct err *err)
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

/* Behind `out`: `in` as the tokenizers library normalises it, which is not quite as SentencePiece
 * does: a grapheme cluster of fewer than six bytes becomes what the shortest entry that it begins
 * with becomes (and the rest of it is lost); of a longer one, or without such an entry, each
 * character by itself becomes what its entry says. */
static void charsmap_apply(const struct charsmap *c, struct codepoints *out,
                           const struct codepoints *in)
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

/* ---- the normaliser */

/* Steps that each make a text longer could together make it endless. The longest decomposition
 * there is has 18 characters. */
#define MAX_GROWTH 64
#define MAX_REPLACEMENT 64

enum part_kind {
    PART_CLEAN,         /* control characters go, blanks become ' ' */
    PART_SPACE_CJK,     /* a blank before and after each Chinese character */
    PART_DROP_NONSPACE, /* marks that take no room of their own (Mn) */
    PART_DROP_MARKS,    /* all marks (M) */
    PART_LOWER,
    PART_NFD,
    PART_NFC,
    PART_NFKD,
    PART_NFKC,
    PART_NMT, /* SentencePiece's own cleaning */
    PART_STRIP,
    PART_REPLACE,      /* a string */
    PART_REPLACE_RUNS, /* two or more of one character, or with `single` one, too */
    PART_PREPEND,
    PART_CHARSMAP,
};

struct normalize_part {
    enum part_kind kind;
    bool left, right; /* STRIP */
    bool single;
    struct codepoints pattern, content; /* REPLACE, REPLACE_RUNS, PREPEND */
    struct charsmap *map;
};

/* ---- classes */

bool tokenizer_is_blank(int32_t c)
{
    if (c < 0x80)
        return (c >= 9 && c <= 13) || c == ' ';
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool tokenizer_is_punctuation(int32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    k = utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool tokenizer_is_word(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_ND) || k == UTF8PROC_CATEGORY_NL ||
           k == UTF8PROC_CATEGORY_PC;
}

static bool is_mark(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

static bool is_nonspacing(int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_MN; }

/* Characters that BERT removes; tab, line feed and carriage return are blanks to it. */
static bool is_control(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    return c == 0 || c == 0xFFFD || k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_CO;
}

/* The ranges are the library's, the gap before U+2B920 included. */
static bool is_chinese(int32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

static bool nmt_drops(int32_t c)
{
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool nmt_blanks(int32_t c)
{
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

/* ---- applying */

static void put_all(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len; i++)
        codepoints_put(out, in->at[i]);
}

/* Rules that look at one character alone. */
static void apply_each(enum part_kind kind, struct codepoints *out, int32_t c)
{
    bool drop = false;

    if (kind == PART_CLEAN) {
        drop = is_control(c);
        c = tokenizer_is_blank(c) ? ' ' : c;
    } else if (kind == PART_DROP_NONSPACE) {
        drop = is_nonspacing(c);
    } else if (kind == PART_DROP_MARKS) {
        drop = is_mark(c);
    } else if (kind == PART_NMT) {
        drop = nmt_drops(c);
        c = nmt_blanks(c) ? ' ' : c;
    } else if (kind == PART_LOWER && c == 0x130) { /* I with a dot: the dot stays, as a mark */
        codepoints_put(out, 'i');
        c = 0x307;
    } else if (kind == PART_LOWER) {
        c = utf8proc_tolower(c);
    } else if (kind == PART_SPACE_CJK && is_chinese(c)) {
        codepoints_put(out, ' ');
        codepoints_put(out, c);
        c = ' ';
    }
    if (!drop)
        codepoints_put(out, c);
}

static void apply_strip(const struct normalize_part *p, struct codepoints *out,
                        const struct codepoints *in)
{
    size_t from = 0, end = in->len;

    while (p->left && from < end && tokenizer_is_blank(in->at[from]))
        from++;
    while (p->right && end > from && tokenizer_is_blank(in->at[end - 1]))
        end--;
    for (size_t i = from; i < end; i++)
        codepoints_put(out, in->at[i]);
}

static void apply_replace(const struct normalize_part *p, struct codepoints *out,
                          const struct codepoints *in)
{
    size_t n = p->pattern.len;

    for (size_t i = 0; i < in->len && !out->failed;) {
        if (in->len - i >= n && memcmp(in->at + i, p->pattern.at, n * sizeof(*in->at)) == 0) {
            put_all(out, &p->content);
            i += n;
        } else {
            codepoints_put(out, in->at[i++]);
        }
    }
}

static void apply_replace_runs(const struct normalize_part *p, struct codepoints *out,
                               const struct codepoints *in)
{
    for (size_t i = 0, end; i < in->len && !out->failed; i = end) {
        for (end = i; end < in->len && in->at[end] == p->pattern.at[0];)
            end++;
        if (end - i > 1 || (end - i == 1 && p->single)) {
            put_all(out, &p->content);
            continue;
        }
        codepoints_put(out, in->at[i]);
        end = i + 1;
    }
}

static void apply_normalize_part(const struct normalize_part *p, struct codepoints *out,
                                 const struct codepoints *in)
{
    switch (p->kind) {
    case PART_NFD:
    case PART_NFC:
        codepoints_canonical(out, in, p->kind == PART_NFC);
        return;
    case PART_NFKD:
    case PART_NFKC:
        codepoints_decompose(out, in, p->kind == PART_NFKC);
        return;
    case PART_STRIP:
        apply_strip(p, out, in);
        return;
    case PART_REPLACE:
        apply_replace(p, out, in);
        return;
    case PART_REPLACE_RUNS:
        apply_replace_runs(p, out, in);
        return;
    case PART_PREPEND:
        if (in->len)
            put_all(out, &p->content);
        put_all(out, in);
        return;
    case PART_CHARSMAP:
        charsmap_apply(p->map, out, in);
        return;
    default:
        for (size_t i = 0; i < in->len && !out->failed; i++)
            apply_each(p->kind, out, in->at[i]);
    }
}

int tokenizer_normalize(const struct tokenizer_normalizer *n, struct codepoints *text,
                        struct codepoints *spare, struct err *err)
{
    size_t bound = text->len * MAX_GROWTH + MAX_REPLACEMENT;
    bool too_long = false;

    for (uint32_t i = 0; i < n->n && !text->failed; i++) {
        struct codepoints swap = *text;

        spare->len = 0;
        spare->max = bound; /* while the step runs: one alone may make 255 of each */
        apply_normalize_part(&n->parts[i], spare, text);
        *text = *spare;
        *spare = swap;
        too_long = text->failed && text->len == bound;
    }
    text->max = spare->max = 0;
    if (too_long)
        return err_set(err, ERR_MODEL, "the tokenizer's normalizer makes text far too long");
    return text->failed ? err_set(err, ERR_NOMEM, "no memory to encode text") : 0;
}

/* ---- reading */

static int add_part(struct tokenizer_normalizer *n, enum part_kind kind,
                    struct normalize_part **ret, struct err *err)
{
    if (n->n == TOKENIZER_MAX_STEPS)
        return err_set(err, ERR_MODEL, "the normalizer has over %d steps", TOKENIZER_MAX_STEPS);
    if (!n->parts)
        n->parts = calloc(TOKENIZER_MAX_STEPS, sizeof(*n->parts));
    if (!n->parts)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    n->parts[n->n].kind = kind;
    if (ret)
        *ret = &n->parts[n->n];
    n->n++;
    return 0;
}

static int put_string(struct codepoints *out, const json_t *s, const char *what, struct err *err)
{
    if (!json_is_string(s))
        return err_set(err, ERR_MODEL, "the normalizer's %s is not a string", what);
    codepoints_put_utf8(out, json_string_value(s), json_string_length(s));
    if (out->len > MAX_REPLACEMENT)
        return err_set(err, ERR_MODEL, "the normalizer's %s has %zu characters", what, out->len);
    return out->failed ? err_set(err, ERR_NOMEM, "no memory for a tokenizer") : 0;
}

/* Each of BERT's four steps may be left out; by default lowercasing strips accents, too. */
static int read_bert(const json_t *j, struct tokenizer_normalizer *n, struct err *err)
{
    const json_t *accents = json_object_get(j, "strip_accents");
    bool lower = !json_is_false(json_object_get(j, "lowercase")), strip;
    int rc = 0;

    strip = json_is_boolean(accents) ? json_is_true(accents) : lower;
    if (!json_is_false(json_object_get(j, "clean_text")))
        rc = add_part(n, PART_CLEAN, NULL, err);
    if (rc == 0 && !json_is_false(json_object_get(j, "handle_chinese_chars")))
        rc = add_part(n, PART_SPACE_CJK, NULL, err);
    if (rc == 0 && strip)
        rc = add_part(n, PART_NFD, NULL, err);
    if (rc == 0 && strip)
        rc = add_part(n, PART_DROP_NONSPACE, NULL, err);
    if (rc == 0 && lower)
        rc = add_part(n, PART_LOWER, NULL, err);
    return rc;
}

static int read_replace(const json_t *j, struct tokenizer_normalizer *n, struct err *err)
{
    const json_t *pattern = json_object_get(j, "pattern");
    const json_t *string = json_object_get(pattern, "String");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    struct normalize_part *p = NULL;
    int rc = add_part(n, string ? PART_REPLACE : PART_REPLACE_RUNS, &p, err);

    if (rc == 0)
        rc = put_string(&p->content, json_object_get(j, "content"), "replacement", err);
    if (rc == 0 && string)
        rc = put_string(&p->pattern, string, "pattern", err);
    if (rc != 0)
        return rc;
    if (!string && regex && (strcmp(regex, " {2,}") == 0 || strcmp(regex, " +") == 0)) {
        p->single = regex[1] == '+';
        codepoints_put(&p->pattern, ' ');
    }
    if (p->pattern.failed)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    if (p->pattern.len == 0)
        return err_set(err, ERR_MODEL, "the normalizer replaces '%.40s', which is not supported",
                       regex ? regex : "");
    return 0;
}

static int read_strip(const json_t *j, struct tokenizer_normalizer *n, struct err *err)
{
    struct normalize_part *p = NULL;
    int rc = add_part(n, PART_STRIP, &p, err);

    if (rc == 0) {
        p->left = !json_is_false(json_object_get(j, "strip_left"));
        p->right = !json_is_false(json_object_get(j, "strip_right"));
    }
    return rc;
}

static int read_charsmap(const json_t *j, struct tokenizer_normalizer *n, struct err *err)
{
    const char *map = json_string_value(json_object_get(j, "precompiled_charsmap"));
    struct normalize_part *p = NULL;
    int rc = add_part(n, PART_CHARSMAP, &p, err);

    if (rc == 0 && !map)
        rc = err_set(err, ERR_MODEL, "the normalizer has no precompiled_charsmap");
    return rc != 0 ? rc : charsmap_read(map, &p->map, err);
}

static int read_prepend(const json_t *j, struct tokenizer_normalizer *n, struct err *err)
{
    struct normalize_part *p = NULL;
    int rc = add_part(n, PART_PREPEND, &p, err);

    return rc != 0 ? rc : put_string(&p->content, json_object_get(j, "prepend"), "prepend", err);
}

static int read_plain(const char *type, struct tokenizer_normalizer *n, struct err *err)
{
    static const struct {
        const char *type;
        enum part_kind kind;
    } plain[] = {{"Lowercase", PART_LOWER},
                 {"NFD", PART_NFD},
                 {"NFC", PART_NFC},
                 {"NFKD", PART_NFKD},
                 {"NFKC", PART_NFKC},
                 {"Nmt", PART_NMT},
                 {"StripAccents", PART_DROP_MARKS}};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        if (strcmp(type, plain[i].type) == 0)
            return add_part(n, plain[i].kind, NULL, err);
    return err_set(err, ERR_MODEL, "the normalizer '%.40s' is not supported", type);
}

static int read_any(const json_t *j, struct tokenizer_normalizer *n, int depth, struct err *err)
{
    static const struct {
        const char *type;
        int (*read)(const json_t *j, struct tokenizer_normalizer *n, struct err *err);
    } kinds[] = {{"BertNormalizer", read_bert},
                 {"Precompiled", read_charsmap},
                 {"Replace", read_replace},
                 {"Strip", read_strip},
                 {"Prepend", read_prepend}};
    const char *type = json_string_value(json_object_get(j, "type"));
    const json_t *list = json_object_get(j, "normalizers");
    int rc = 0;

    if (!type)
        return err_set(err, ERR_MODEL, "a normalizer has no type");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].read(j, n, err);
    if (strcmp(type, "Sequence") != 0)
        return read_plain(type, n, err);
    if (depth == 0 || !json_is_array(list))
        return err_set(err, ERR_MODEL, "the normalizer's sequence cannot be read");
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = read_any(json_array_get(list, i), n, depth - 1, err);
    return rc;
}

int tokenizer_normalizer_read(const json_t *json, struct tokenizer_normalizer *ret, struct err *err)
{
    if (!json || json_is_null(json))
        return 0;
    return read_any(json, ret, 4, err);
}

void tokenizer_normalizer_free(struct tokenizer_normalizer *n)
{
    for (uint32_t i = 0; i < n->n; i++) {
        codepoints_free(&n->parts[i].pattern);
        codepoints_free(&n->parts[i].content);
        charsmap_free(n->parts[i].map);
    }
    free(n->parts);
    *n = (struct tokenizer_normalizer){0};
}
