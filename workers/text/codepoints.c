#include "workers/text/codepoints.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void codepoints_free(struct codepoints *t)
{
    free(t->at);
    *t = (struct codepoints){0};
}

static bool grow_codepoints(struct codepoints *t, size_t more)
{
    size_t capacity = t->capacity;
    int32_t *at;

    if (t->failed || more > SIZE_MAX / 16 - t->len || (t->max && t->len + more > t->max)) {
        t->failed = true;
        return false;
    }
    if (t->len + more <= capacity)
        return true;
    capacity = capacity + capacity / 2 + more + 64;
    if (t->max && capacity > t->max)
        capacity = t->max;
    at = realloc(t->at, capacity * sizeof(*at));
    if (!at) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->capacity = capacity;
    return true;
}

void codepoints_put(struct codepoints *t, int32_t c)
{
    if (grow_codepoints(t, 1))
        t->at[t->len++] = c;
}

void codepoints_put_ascii(struct codepoints *t, const char *s)
{
    for (; *s; s++)
        codepoints_put(t, (unsigned char)*s);
}

void codepoints_put_utf8(struct codepoints *t, const char *s, size_t len)
{
    for (size_t i = 0; i < len && !t->failed;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(len - i), &c);

        codepoints_put(t, n > 0 ? c : 0xFFFD);
        i += n > 0 ? (size_t)n : 1;
    }
}

char *codepoints_utf8(const struct codepoints *t)
{
    char *s = t->failed || t->len > SIZE_MAX / 8 ? NULL : malloc(t->len * 4 + 1);
    size_t len = 0;

    if (!s)
        return NULL;
    for (size_t i = 0; i < t->len; i++) {
        int32_t c = t->at[i] == 0 ? ' ' : t->at[i];

        len += (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)s + len);
    }
    s[len] = 0;
    return s;
}

/* ------------------------------------------------------------------------------- classes */

bool codepoint_is_blank(int32_t c)
{
    if (c < 0x80)
        return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool codepoint_is_word(int32_t c)
{
    utf8proc_category_t k;

    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_';
    k = utf8proc_category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

int codepoint_digit(int32_t c)
{
    int32_t first = c;

    if (c < 0x80)
        return c >= '0' && c <= '9' ? c - '0' : -1;
    /* The digits of a script stand together from its zero on, and runs that touch are tens. */
    while (utf8proc_category(first) == UTF8PROC_CATEGORY_ND)
        first--;
    return first == c ? -1 : (c - first - 1) % 10;
}

/* ------------------------------------------------------------------------------- lower case */

static bool is_cased(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LT;
}

/* Stands between a letter and its neighbour without parting them (Unicode: Case_Ignorable). */
static bool is_passed_over(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
           c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

/* Is the sigma at i the last letter of a word? It has a form of its own then. */
static bool ends_word(const struct codepoints *t, size_t i)
{
    size_t before = i, after = i + 1;

    while (before > 0 && is_passed_over(t->at[before - 1]))
        before--;
    while (after < t->len && is_passed_over(t->at[after]))
        after++;
    return before > 0 && is_cased(t->at[before - 1]) && !(after < t->len && is_cased(t->at[after]));
}

void codepoints_lower(struct codepoints *out, const struct codepoints *in)
{
    out->failed |= in->failed;
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        int32_t c = in->at[i];

        if (c == 0x130) { /* I with a dot: the dot stays, as a mark */
            codepoints_put(out, 'i');
            codepoints_put(out, 0x307);
        } else if (c == 0x3A3) {
            codepoints_put(out, ends_word(in, i) ? 0x3C2 : 0x3C3);
        } else {
            codepoints_put(out, utf8proc_tolower(c));
        }
    }
}

/* ------------------------------------------------------------------------------- decomposition */

/* Marks behind one letter, by their class; those of one class keep their order. utf8proc's own
 * sorting takes the square of their number, which a hostile text can make as large as it likes. */
static void order_marks(int32_t *marks, size_t n, struct codepoints *spare)
{
    size_t place[257] = {0};

    spare->len = 0;
    if (!grow_codepoints(spare, n))
        return;
    for (size_t i = 0; i < n; i++)
        place[utf8proc_get_property(marks[i])->combining_class + 1]++;
    for (size_t k = 1; k < 257; k++)
        place[k] += place[k - 1];
    for (size_t i = 0; i < n; i++)
        spare->at[place[utf8proc_get_property(marks[i])->combining_class]++] = marks[i];
    memcpy(marks, spare->at, n * sizeof(*marks));
}

static void order_all(struct codepoints *t, size_t from)
{
    struct codepoints spare = {0};

    for (size_t i = from; i < t->len && !spare.failed;) {
        size_t end = i;

        while (end < t->len && utf8proc_get_property(t->at[end])->combining_class != 0)
            end++;
        if (end - i > 1)
            order_marks(t->at + i, end - i, &spare);
        i = end + 1;
    }
    t->failed |= spare.failed;
    codepoints_free(&spare);
}

static void decompose_text(struct codepoints *out, const struct codepoints *in,
                           utf8proc_option_t how, bool composed)
{
    size_t from = out->len;

    out->failed |= in->failed;
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        utf8proc_int32_t parts[64];
        int boundary = 0;
        utf8proc_ssize_t n;

        n = utf8proc_decompose_char(in->at[i], parts, 64, how | UTF8PROC_DECOMPOSE, &boundary);
        for (utf8proc_ssize_t k = 0; k < n && n <= 64; k++)
            codepoints_put(out, parts[k]);
        if (n <= 0 || n > 64) /* not assigned: kept */
            codepoints_put(out, in->at[i]);
    }
    order_all(out, from);
    if (composed && !out->failed && out->len > from) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(
            out->at + from, (utf8proc_ssize_t)(out->len - from), how | UTF8PROC_COMPOSE);

        out->failed |= n < 0;
        out->len = n < 0 ? from : from + (size_t)n;
    }
}

void codepoints_decompose(struct codepoints *out, const struct codepoints *in, bool composed)
{
    decompose_text(out, in, UTF8PROC_STABLE | UTF8PROC_COMPAT, composed);
}

void codepoints_canonical(struct codepoints *out, const struct codepoints *in, bool composed)
{
    decompose_text(out, in, UTF8PROC_STABLE, composed);
}

/* ------------------------------------------------------------------------------- folded */

enum kind { WORD, LEFT_OUT, BETWEEN };

static enum kind kind_of(int32_t c)
{
    if (c == '\'' || c == 0x2019 || c == 0x02BC)
        return LEFT_OUT;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return WORD;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
        return LEFT_OUT;
    default:
        return BETWEEN;
    }
}

/* The letter without case and marks. Hangul syllables stay whole: their parts are no marks. */
static int32_t fold_letter(int32_t c)
{
    utf8proc_int32_t parts[8];
    utf8proc_ssize_t n;
    int boundary = 0;

    c = utf8proc_tolower(c);
    if (c < 0xC0 || (c >= 0xAC00 && c <= 0xD7A3))
        return c;
    n = utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &boundary);
    return n > 0 && n <= 8 ? parts[0] : c;
}

/* The code point at s and how many bytes to go on by; 0xFFFD, which parts words, for ill-formed. */
static int32_t decode_codepoint(const char *s, size_t *size)
{
    size_t capacity = strnlen(s, 4);
    utf8proc_int32_t c;
    utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)capacity, &c);

    *size = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : 0xFFFD;
}

int32_t folded_next(struct folded_reader *r)
{
    while (*r->text) {
        size_t size;
        int32_t c = decode_codepoint(r->text, &size);
        enum kind kind = kind_of(c);

        r->text += size;
        if (kind == WORD) {
            r->in_word = true;
            return fold_letter(c);
        }
        if (kind == BETWEEN && r->in_word) {
            r->in_word = false;
            return ' ';
        }
    }
    if (!r->in_word)
        return 0;
    r->in_word = false;
    return ' ';
}

void folded_make(struct folded *f, const char *text)
{
    struct folded_reader r = {text, false};
    int32_t c;

    f->len = 0;
    while (f->len < FOLDED_MAX && (c = folded_next(&r)) != 0)
        f->at[f->len++] = c;
}

/* ------------------------------------------------------------------------------- clean */

static bool is_blank(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP ||
           k == UTF8PROC_CATEGORY_CC;
}

static bool breaks_line(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_CC;
}

size_t clean_text(char *text)
{
    size_t len = strlen(text), out = 0, keep = 0;

    for (size_t i = 0; i < len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(len - i), &c);
        if (k <= 0) { /* ill-formed: not the caller's promise, but no reason to stop */
            i++;
            continue;
        }
        if (is_blank(c)) {
            if (out && breaks_line(c)) {
                text[out++] = ' ';
            } else if (out) {
                memmove(text + out, text + i, (size_t)k);
                out += (size_t)k;
            }
        } else {
            memmove(text + out, text + i, (size_t)k);
            out += (size_t)k;
            keep = out;
        }
        i += (size_t)k;
    }
    text[keep] = 0;
    return keep;
}
