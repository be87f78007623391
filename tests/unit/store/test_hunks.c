/* What differs between two texts, in words; and a segment made of what was heard and of what was
 * put into it. */
#include "store/reading/hunks.h"
#include "base/buf.h"
#include "store/reading/rebuild.h"
#include "tests/common/nomem.h"
#include "tests/common/random.h"
#include "tests/common/test.h"

static void put_words(struct buf *out, const char *text, const struct hunk_word *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%.*s", i ? " " : "", (int)w[i].len, text + w[i].at);
}

/* "a b>c, d>": one behind the other. */
static char *hunks_of(const char *said, const char *meant)
{
    struct hunks h = {0};
    struct buf out = BUF_INIT;
    struct err e = {0};

    assert_ok(hunks_make(said, meant, &h, &e), e);
    for (size_t i = 0; i < h.count; i++) {
        buf_printf(&out, "%s", i ? ", " : "");
        put_words(&out, said, h.said + h.list[i].said_at, h.list[i].said_count);
        buf_printf(&out, ">");
        put_words(&out, meant, h.meant + h.list[i].meant_at, h.list[i].meant_count);
    }
    hunks_free(&h);
    assert_non_null(buf_cstr(&out));
    return (char *)out.data;
}

TEST(what_differs)
{
    static const struct {
        const char *said, *meant, *hunks;
    } table[] = {
        {"", "", ""},
        {"a b c", "a b c", ""},
        {" a\tb\n c ", "a b c", ""},
        {"a b c", "a x c", "b>x"},
        {"a b c", "", "a b c>"},
        {"a b c", "a c", "b>"},
        {"a c", "a b c", "a>a b"},
        {"b c", "a b c", "b>a b"},
        {"a b", "a b c", "b>b c"},
        {"a", "x a y", "a>x a y"},
        {"", "a", ">a"},
        {"a b c d e", "a x c y e", "b>x, d>y"},
        {"Ana said no.", "ana said no", "Ana>ana, no.>no"},
        {"we went to Sanches house", "we went to the S\u00e1nchez' house",
         "Sanches>the S\u00e1nchez'"},
        {"\u4f60\u597d\u4e16\u754c", "\u4f60\u597d\u4e16\u4ef6", "\u754c>\u4ef6"},
        {"\u4f60 \u597d", "\u4f60\u597d", ""},
        {"ok\u4f60", "no\u4f60", "ok>no"},
        {"\u0e01\u0e02", "\u0e01\u0e03", "\u0e02>\u0e03"},
        {"a\u00a0b\u3000c", "a b c", ""},
        {"\xff\xfe x", "\xff\xfe y", "x>y"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *got = hunks_of(table[i].said, table[i].meant);

        assert_string_equal(got, table[i].hunks);
        free(got);
    }
}

static void random_text(uint64_t *r, struct buf *to, size_t most)
{
    static const char *const words[] = {"a", "b", "c,", "D", "\u00e9", "\u4e16", "e"};

    buf_clear(to);
    for (size_t n = random_below(r, (uint32_t)most + 1); n-- > 0;)
        buf_printf(to, "%s%s", words[random_below(r, 7)], n ? " " : "");
    assert_non_null(buf_cstr(to));
}

/* The hunks put into what was said make what was meant; a word between them is the same. */
static void holds(const char *said, const char *meant)
{
    struct hunks h = {0};
    struct err e = {0};
    struct rebuild_part parts[64];
    struct buf texts[64], out = BUF_INIT;
    char *left;

    assert_ok(hunks_make(said, meant, &h, &e), e);
    assert_true(h.count <= 64);
    for (size_t i = 0; i < h.count; i++) {
        const struct hunk *k = &h.list[i];
        const struct hunk_word *last = &h.said[k->said_at + k->said_count - 1];

        assert_true(k->said_count > 0);
        if (i)
            assert_true(k->said_at >= h.list[i - 1].said_at + h.list[i - 1].said_count);
        texts[i] = BUF_INIT;
        put_words(&texts[i], meant, h.meant + k->meant_at, k->meant_count);
        parts[i] = (struct rebuild_part){h.said[k->said_at].at, last->at + last->len,
                                         buf_cstr(&texts[i]), texts[i].len};
    }
    rebuild_text(&out, said, parts, h.count);
    left = hunks_of(buf_cstr(&out), meant);
    assert_string_equal(left, "");
    free(left);
    for (size_t i = 0; i < h.count; i++)
        buf_free(&texts[i]);
    buf_free(&out);
    hunks_free(&h);
}

TEST(put_in_they_make_what_was_meant)
{
    uint64_t r = 7;
    struct buf said = BUF_INIT, meant = BUF_INIT;

    for (int i = 0; i < 3000; i++) {
        random_text(&r, &said, 12);
        random_text(&r, &meant, 12);
        if (said.len)
            holds((char *)said.data, (char *)meant.data);
    }
    buf_free(&said);
    buf_free(&meant);
}

/* Too much for the table: from the first difference to the last. */
TEST(very_long_texts)
{
    struct buf said = BUF_INIT, meant = BUF_INIT;
    struct hunks h = {0};
    struct err e = {0};

    for (int i = 0; i < 6000; i++) {
        buf_printf(&said, "a%d ", i);
        buf_printf(&meant, "%c%d ", i == 0 || i == 5999 ? 'a' : 'b', i);
    }
    assert_ok(hunks_make(buf_cstr(&said), buf_cstr(&meant), &h, &e), e);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.list[0].said_at, 1);
    assert_int_equal(h.list[0].said_count, 5998);
    hunks_free(&h);
    buf_free(&said);
    buf_free(&meant);
}

/* "text start-end": one behind the other, with the parts "from,to,text". */
static const char *rows_of(const char *heard, const struct rebuild_row *rows, size_t n,
                           const struct rebuild_part *parts, size_t part_count)
{
    static char out[500];
    struct rebuilt to = {0};
    struct err e = {0};
    size_t at = 0;

    assert_ok(rebuild_rows(heard, rows, n, parts, part_count, &to, &e), e);
    *out = 0;
    for (size_t i = 0; i < to.count; i++)
        at += (size_t)snprintf(out + at, sizeof(out) - at, "|%s %d-%d", to.rows[i].text,
                               (int)to.rows[i].start_ms, (int)to.rows[i].end_ms);
    rebuilt_free(&to);
    return out;
}

#define ROW(start, end, text)                      \
    {                                              \
        start, end, text, sizeof(text) - 1, 0.5, 0 \
    }

TEST(words_with_their_times)
{
    static const struct rebuild_row rows[] = {ROW(0, 100, " twenty"), ROW(100, 200, "-five"),
                                              ROW(200, 300, " men"), ROW(300, 400, ".")};
    static const char heard[] = "twenty-five men.";
    const struct rebuild_part five = {0, 11, "thirty six", 10}, none = {0, 11, "", 0};
    const struct rebuild_part men = {12, 16, "women.", 6};

    assert_string_equal(rows_of(heard, rows, 4, &five, 1), "| thirty 0-133| six 133-200| men "
                                                           "200-300|. 300-400");
    assert_string_equal(rows_of(heard, rows, 4, &none, 1), "| men 200-300|. 300-400");
    assert_string_equal(rows_of(heard, rows, 4, &men, 1),
                        "| twenty 0-100|-five 100-200| women. 200-400");
    /* Rows that are not its words: all of them are new. */
    assert_string_equal(rows_of("other", rows, 4, &(struct rebuild_part){0, 5, "a b", 3}, 1),
                        "| a 0-200| b 200-400");
    assert_string_equal(rows_of(heard, rows, 0, &men, 1), "");
}

static const char *fitted(const char *there, const char *said, const char *meant)
{
    static char out[100];
    struct buf b = BUF_INIT;

    rebuild_fit(&b, there, strlen(there), said, meant);
    snprintf(out, sizeof(out), "%s", buf_cstr(&b));
    buf_free(&b);
    return out;
}

TEST(punctuation_that_was_not_corrected)
{
    assert_string_equal(fitted("Sanches,", "Sanches", "S\u00e1nchez"), "S\u00e1nchez,");
    assert_string_equal(fitted("\u00bfSanches", "Sanches", "S\u00e1nchez"), "\u00bfS\u00e1nchez");
    assert_string_equal(fitted("Sanches", "Sanches,", "S\u00e1nchez,"), "S\u00e1nchez");
    assert_string_equal(fitted("evening.", "evening", "evening,"), "evening,");
    assert_string_equal(fitted("um,", "um", ""), "");
    assert_string_equal(fitted("...", "a", "b"), "b");
}

static int all_of_it(void *arg, struct err *err)
{
    static const struct rebuild_row rows[] = {ROW(0, 100, " a"), ROW(100, 200, " b")};
    struct hunks h = {0};
    struct rebuilt to = {0};
    int rc = hunks_make("a b c", "a x y c", &h, err);

    (void)arg;
    hunks_free(&h);
    if (rc == 0)
        rc = rebuild_rows("a b", rows, 2, &(struct rebuild_part){2, 3, "x y", 3}, 1, &to, err);
    rebuilt_free(&to);
    return rc;
}

TEST(memory_that_runs_out) { assert_true(nomem_each(all_of_it, NULL) > 8); }

TEST_MAIN(NULL, NULL)
