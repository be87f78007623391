/* A number in the making is a string of digits. Each word either goes on with it, or ends it:
 *
 *            "nineteen"          "eighty"              "four"            "dollars"
 *   NONE ----------------> 19 -------------> "1980" -----------> "1984" -----------> $1984 written
 *
 * WHOLE: an amount, to which smaller words are added ("twenty" "one" -> 21) and which multipliers
 * scale. TYPED: digits said one after another ("one oh one"), or with a point; later words are
 * put behind. */
#include "tools/score/normalize_numbers.h"

#include <stdio.h>
#include <string.h>

#include "workers/text/codepoints.h"

enum meaning_kind {
    PLAIN,      /* any other word */
    ZERO,       /* "oh" */
    SMALL,      /* one to nineteen */
    TENS,       /* twenty to ninety */
    MULTIPLIER, /* n: its zeros */
    SIGN,       /* in front of a number */
    CURRENCY,   /* behind one, written in front of it */
    PER,
    PERCENT,
    AND,
    REPEAT, /* "double": n times */
    POINT,
};

struct meaning {
    enum meaning_kind kind;
    unsigned n;
    const char *mark; /* SIGN, CURRENCY: what is written; a number: its ending, NULL without */
};

struct word {
    const char *s;
    size_t len;
};

/* Numbers by name, and what their ordinal is where it is not the name with "th". A plural ends in
 * "s", or in "ies" for "y". */
static const struct {
    const char *name, *ordinal, *ending, *plural;
    enum meaning_kind kind;
    unsigned n;
} numbers[] = {
    {"one", "first", "st", NULL, SMALL, 1},
    {"two", "second", "nd", NULL, SMALL, 2},
    {"three", "third", "rd", NULL, SMALL, 3},
    {"four", NULL, NULL, NULL, SMALL, 4},
    {"five", "fifth", "th", NULL, SMALL, 5},
    {"six", NULL, NULL, "sixes", SMALL, 6},
    {"seven", NULL, NULL, NULL, SMALL, 7},
    {"eight", "eighth", "th", NULL, SMALL, 8},
    /* Not "ninth": Whisper's normaliser leaves it as a word, and rates are compared with its. */
    {"nine", "nineth", "th", NULL, SMALL, 9},
    {"ten", NULL, NULL, NULL, SMALL, 10},
    {"eleven", NULL, NULL, NULL, SMALL, 11},
    {"twelve", "twelfth", "th", NULL, SMALL, 12},
    {"thirteen", NULL, NULL, NULL, SMALL, 13},
    {"fourteen", NULL, NULL, NULL, SMALL, 14},
    {"fifteen", NULL, NULL, NULL, SMALL, 15},
    {"sixteen", NULL, NULL, NULL, SMALL, 16},
    {"seventeen", NULL, NULL, NULL, SMALL, 17},
    {"eighteen", NULL, NULL, NULL, SMALL, 18},
    {"nineteen", NULL, NULL, NULL, SMALL, 19},
    {"twenty", "twentieth", "th", "twenties", TENS, 20},
    {"thirty", "thirtieth", "th", "thirties", TENS, 30},
    {"forty", "fortieth", "th", "forties", TENS, 40},
    {"fifty", "fiftieth", "th", "fifties", TENS, 50},
    {"sixty", "sixtieth", "th", "sixties", TENS, 60},
    {"seventy", "seventieth", "th", "seventies", TENS, 70},
    {"eighty", "eightieth", "th", "eighties", TENS, 80},
    {"ninety", "ninetieth", "th", "nineties", TENS, 90},
    {"hundred", NULL, NULL, NULL, MULTIPLIER, 2},
    {"thousand", NULL, NULL, NULL, MULTIPLIER, 3},
    {"million", NULL, NULL, NULL, MULTIPLIER, 6},
    {"billion", NULL, NULL, NULL, MULTIPLIER, 9},
    {"trillion", NULL, NULL, NULL, MULTIPLIER, 12},
    {"quadrillion", NULL, NULL, NULL, MULTIPLIER, 15},
    {"quintillion", NULL, NULL, NULL, MULTIPLIER, 18},
    {"sextillion", NULL, NULL, NULL, MULTIPLIER, 21},
    {"septillion", NULL, NULL, NULL, MULTIPLIER, 24},
    {"octillion", NULL, NULL, NULL, MULTIPLIER, 27},
    {"nonillion", NULL, NULL, NULL, MULTIPLIER, 30},
    {"decillion", NULL, NULL, NULL, MULTIPLIER, 33},
};

static const struct {
    const char *name;
    struct meaning means;
} others[] = {
    {"o", {ZERO, 0, NULL}},         {"oh", {ZERO, 0, NULL}},
    {"zero", {ZERO, 0, NULL}},      {"zeroth", {SMALL, 0, "th"}},
    {"minus", {SIGN, 0, "-"}},      {"negative", {SIGN, 0, "-"}},
    {"plus", {SIGN, 0, "+"}},       {"positive", {SIGN, 0, "+"}},
    {"pound", {CURRENCY, 0, "£"}},  {"pounds", {CURRENCY, 0, "£"}},
    {"euro", {CURRENCY, 0, "€"}},   {"euros", {CURRENCY, 0, "€"}},
    {"dollar", {CURRENCY, 0, "$"}}, {"dollars", {CURRENCY, 0, "$"}},
    {"cent", {CURRENCY, 0, "¢"}},   {"cents", {CURRENCY, 0, "¢"}},
    {"per", {PER, 0, NULL}},        {"percent", {PERCENT, 0, NULL}},
    {"and", {AND, 0, NULL}},        {"double", {REPEAT, 2, NULL}},
    {"triple", {REPEAT, 3, NULL}},  {"point", {POINT, 0, NULL}},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool word_equals(struct word w, const char *s)
{
    return w.len == strlen(s) && memcmp(w.s, s, w.len) == 0;
}

/* Is w the name with this ending? */
static bool same_with(struct word w, const char *name, const char *ending)
{
    size_t len = strlen(name), more = strlen(ending);

    return w.len == len + more && memcmp(w.s, name, len) == 0 &&
           memcmp(w.s + len, ending, more) == 0;
}

static struct meaning meaning_of(struct word w)
{
    for (size_t i = 0; w.len > 0 && i < COUNT(numbers); i++) {
        struct meaning m = {numbers[i].kind, numbers[i].n, NULL};

        if (word_equals(w, numbers[i].name))
            return m;
        m.mark = "s";
        if (numbers[i].plural ? word_equals(w, numbers[i].plural)
                              : same_with(w, numbers[i].name, "s"))
            return m;
        m.mark = numbers[i].ending ? numbers[i].ending : "th";
        if (numbers[i].ordinal ? word_equals(w, numbers[i].ordinal)
                               : same_with(w, numbers[i].name, "th"))
            return m;
    }
    for (size_t i = 0; w.len > 0 && i < COUNT(others); i++)
        if (word_equals(w, others[i].name))
            return others[i].means;
    return (struct meaning){PLAIN, 0, NULL};
}

/* The number itself, without an ending. */
static bool is_bare(struct meaning m, enum meaning_kind kind) { return m.kind == kind && !m.mark; }

bool normalize_is_amount(const char *word, size_t len)
{
    struct meaning m = meaning_of((struct word){word, len});

    return m.kind == ZERO || is_bare(m, SMALL) || is_bare(m, TENS) || is_bare(m, MULTIPLIER);
}

/* ------------------------------------------------------------------------------- digits */

/* Not buf_clear, which forgets that memory ran out: a number would be left out, and nobody told. */
static void empty(struct buf *b) { b->len = 0; }

/* Digits of any script with at most one point inside, as ASCII. `loose`: the point may also be the
 * first or the last. False for anything else; *point is where the point is, else the length. */
static bool read_digits(struct word w, bool loose, struct buf *ret, size_t *point)
{
    struct codepoints t = {0};
    size_t digits = 0, points = 0;
    bool ok;

    empty(ret);
    codepoints_put_utf8(&t, w.s, w.len);
    ret->failed |= t.failed;
    ok = !t.failed && t.len > 0;
    for (size_t i = 0; ok && i < t.len; i++) {
        int d = codepoint_digit(t.at[i]);

        if (d >= 0) {
            buf_put_u8(ret, (uint8_t)('0' + d));
            digits++;
        } else if (t.at[i] == '.' && points++ == 0) {
            *point = digits;
            ok = loose || (i > 0 && i + 1 < t.len);
        } else {
            ok = false;
        }
    }
    if (points == 0)
        *point = digits;
    codepoints_free(&t);
    return ok && digits > 0;
}

/* Without zeros in front; "0" stays. */
static void strip_zeros(struct buf *b)
{
    size_t n = 0;

    while (n + 1 < b->len && b->data[n] == '0')
        n++;
    if (n > 0)
        buf_consume(b, n);
}

/* digits with a point behind the first `point`, times 10^zeros. False when that is no whole number:
 * then nothing changes. */
static bool scale_number(struct buf *digits, size_t point, unsigned zeros)
{
    size_t used = digits->len;

    while (used > point && digits->data[used - 1] == '0')
        used--;
    if (used - point > zeros)
        return false;
    digits->len = used;
    for (size_t i = used - point; i < zeros; i++)
        buf_put_u8(digits, '0');
    if (digits->len == 0)
        buf_put_u8(digits, '0');
    strip_zeros(digits);
    return true;
}

/* ------------------------------------------------------------------------------- the number */

enum state { NONE, WHOLE, TYPED };

struct numbers {
    struct buf *out;
    enum state state;
    struct buf value, spare; /* digits; a TYPED one also has points, or what was typed */
    const char *prefix;      /* "-", "$": before what is written next; NULL none */
    size_t prefix_len;
};

static void write_text(struct numbers *n, const void *s, size_t len, const char *ending)
{
    if (n->out->len > 0)
        buf_put_u8(n->out, ' ');
    if (n->prefix)
        buf_put(n->out, n->prefix, n->prefix_len);
    buf_put(n->out, s, len);
    if (ending)
        buf_put(n->out, ending, strlen(ending));
    n->prefix = NULL;
}

static void set_prefix(struct numbers *n, const char *prefix)
{
    n->prefix = prefix;
    n->prefix_len = strlen(prefix);
}

/* Writes the number, if there is one. */
static void flush_number(struct numbers *n, const char *ending)
{
    if (n->state == NONE)
        return;
    write_text(n, n->value.data, n->value.len, ending);
    n->state = NONE;
    empty(&n->value);
}

static void finish_and_write(struct numbers *n, struct word w)
{
    flush_number(n, NULL);
    write_text(n, w.s, w.len, NULL);
}

static bool ends_in(const struct numbers *n, size_t zeros)
{
    const struct buf *v = &n->value;

    for (size_t i = 0; i < zeros && i < v->len; i++)
        if (v->data[v->len - 1 - i] != '0')
            return false;
    return true;
}

/* A single zero before typed digits is dropped. */
static void append_typed_digits(struct numbers *n, const void *s, size_t len)
{
    if (n->state == WHOLE && n->value.len == 1 && n->value.data[0] == '0')
        empty(&n->value);
    buf_put(&n->value, s, len);
    n->state = TYPED;
}

static void take_small(struct numbers *n, struct meaning m, struct meaning prev)
{
    size_t places = m.n < 10 ? 1 : 2;
    char digits[8];
    int len = snprintf(digits, sizeof(digits), "%u", m.n);
    bool fits;

    if (n->state == WHOLE && !(m.kind == SMALL && is_bare(prev, SMALL)))
        fits = ends_in(n, places);
    else
        fits = n->state == TYPED && m.kind == SMALL && m.n < 10 && is_bare(prev, TENS) &&
               ends_in(n, 1);
    if (n->state == NONE)
        n->state = WHOLE;
    else if (fits)
        n->value.len -= n->value.len < places ? n->value.len : places;
    else
        n->state = TYPED;
    buf_put(&n->value, digits, (size_t)len);
    if (m.mark)
        flush_number(n, m.mark);
}

/* value = its thousands + (its last three digits) * 10^zeros. */
static void scale_whole(struct numbers *n, unsigned zeros)
{
    struct buf *v = &n->value, *sum = &n->spare;
    size_t low = v->len < 3 ? v->len : 3, places;
    unsigned carry = 0;

    places = (v->len > low + zeros ? v->len : low + zeros) + 1;
    empty(sum);
    if (!buf_reserve(sum, places)) {
        v->failed = true;
        return;
    }
    sum->len = places;
    for (size_t i = 0; i < places; i++) { /* i: the place, from the right */
        unsigned d = carry;

        if (i >= 3 && i < v->len)
            d += v->data[v->len - 1 - i] - '0';
        if (i >= zeros && i - zeros < low)
            d += v->data[v->len - 1 - (i - zeros)] - '0';
        sum->data[places - 1 - i] = (uint8_t)('0' + d % 10);
        carry = d / 10;
    }
    strip_zeros(sum);
    empty(v);
    buf_put(v, sum->data, sum->len);
}

/* Nobody says a longer one; "million million ..." would take the square of its length. */
#define SCALED_MAX_DIGITS 128

static void take_multiplier(struct numbers *n, struct meaning m)
{
    size_t point;

    if (n->state != NONE && n->value.len > SCALED_MAX_DIGITS) {
        flush_number(n, NULL);
    } else if (n->state == TYPED) {
        struct word w = {(const char *)n->value.data, n->value.len};

        if (read_digits(w, true, &n->spare, &point) && scale_number(&n->spare, point, m.n)) {
            empty(&n->value);
            buf_put(&n->value, n->spare.data, n->spare.len);
            n->state = WHOLE;
        } else {
            flush_number(n, NULL);
        }
    } else if (n->state == WHOLE) {
        scale_whole(n, m.n);
    }
    if (n->state == NONE) {
        buf_put_u8(&n->value, '1');
        for (unsigned i = 0; i < m.n; i++)
            buf_put_u8(&n->value, '0');
        n->state = WHOLE;
    }
    if (m.mark)
        flush_number(n, m.mark);
}

/* "$" and its like in front of a word. */
static size_t currency_length(struct word w)
{
    static const char *const signs[] = {"$", "£", "€", "¢"};

    for (size_t i = 0; i < COUNT(signs); i++)
        if (w.len >= strlen(signs[i]) && memcmp(w.s, signs[i], strlen(signs[i])) == 0)
            return strlen(signs[i]);
    return 0;
}

/* True when w was digits, perhaps with a currency, and was taken. */
static bool take_digits(struct numbers *n, struct word w)
{
    size_t sign = currency_length(w), point = 0;
    struct word bare = {w.s + sign, w.len - sign};

    if (!read_digits(bare, false, &n->spare, &point))
        return false;
    if (n->state == TYPED && n->value.len > 0 && n->value.data[n->value.len - 1] == '.') {
        buf_put(&n->value, w.s, w.len);
        return true;
    }
    flush_number(n, NULL);
    if (sign > 0) {
        n->prefix = w.s;
        n->prefix_len = sign;
    }
    if (scale_number(&n->spare, point, 0)) {
        buf_put(&n->value, n->spare.data, n->spare.len);
        n->state = WHOLE;
    } else {
        buf_put(&n->value, bare.s, bare.len);
        n->state = TYPED;
    }
    return true;
}

/* The word with its neighbours; empty words at the ends of the text. */
struct place {
    struct word prev, w, next;
    struct meaning before, is, after;
    bool next_digits; /* next is a number in digits */
};

/* "and", "double", "point": they belong to a number only when one follows. True: next is taken. */
static bool take_joint(struct numbers *n, const struct place *p)
{
    bool follows = p->after.kind != PLAIN || p->next_digits;

    if (follows && p->is.kind == AND && is_bare(p->before, MULTIPLIER))
        return false;
    if (follows && p->is.kind == POINT) {
        if (p->next_digits || p->after.kind == ZERO || is_bare(p->after, SMALL) ||
            is_bare(p->after, TENS))
            append_typed_digits(n, ".", 1);
        return false;
    }
    if (follows && p->is.kind == REPEAT && (p->after.kind == ZERO || is_bare(p->after, SMALL))) {
        char digits[8];
        int len = snprintf(digits, sizeof(digits), "%u", p->after.n);

        for (unsigned i = 0; i < p->is.n; i++)
            append_typed_digits(n, digits, (size_t)len);
        return true;
    }
    finish_and_write(n, p->w);
    return false;
}

static bool take_per(struct numbers *n, const struct place *p)
{
    if (n->state != NONE && word_equals(p->next, "cent")) {
        flush_number(n, "%");
        return true;
    }
    finish_and_write(n, p->w);
    return false;
}

static void take_sign(struct numbers *n, const struct place *p)
{
    flush_number(n, NULL);
    if (p->after.kind != PLAIN || p->next_digits)
        set_prefix(n, p->is.mark);
    else
        write_text(n, p->w.s, p->w.len, NULL);
}

static void take_currency(struct numbers *n, const struct place *p)
{
    if (n->state == NONE) {
        write_text(n, p->w.s, p->w.len, NULL);
        return;
    }
    set_prefix(n, p->is.mark);
    flush_number(n, NULL);
}

/* True when the next word is taken, too. */
static bool consume_word(struct numbers *n, const struct place *p)
{
    if (take_digits(n, p->w))
        return false;
    switch (p->is.kind) {
    case PLAIN:
        finish_and_write(n, p->w);
        return false;
    case ZERO:
        append_typed_digits(n, "0", 1);
        return false;
    case SMALL:
    case TENS:
        take_small(n, p->is, p->before);
        return false;
    case MULTIPLIER:
        take_multiplier(n, p->is);
        return false;
    case SIGN:
        take_sign(n, p);
        return false;
    case CURRENCY:
        take_currency(n, p);
        return false;
    case PERCENT:
        if (n->state == NONE)
            write_text(n, p->w.s, p->w.len, NULL);
        else
            flush_number(n, "%");
        return false;
    case PER:
        return take_per(n, p);
    default:
        return take_joint(n, p);
    }
}

/* The word at or behind *s; empty at the end. The text's blanks are all of one byte. */
static struct word next_word(const char **s)
{
    struct word w;

    while (**s == ' ')
        (*s)++;
    w.s = *s;
    w.len = strcspn(*s, " ");
    *s += w.len;
    return w;
}

void normalize_numbers(const char *text, struct buf *out)
{
    struct numbers n = {.out = out};
    struct place p = {.prev = {"", 0}};
    size_t point;
    bool skip = false;

    p.w = next_word(&text);
    p.is = meaning_of(p.w);
    while (p.w.len > 0 && !out->failed) {
        p.next = next_word(&text);
        p.after = meaning_of(p.next);
        p.next_digits = read_digits(p.next, false, &n.spare, &point);
        skip = skip ? false : consume_word(&n, &p);
        out->failed |= n.value.failed || n.spare.failed;
        p.prev = p.w;
        p.before = p.is;
        p.w = p.next;
        p.is = p.after;
    }
    flush_number(&n, NULL);
    buf_free(&n.value);
    buf_free(&n.spare);
}
