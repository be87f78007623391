/* Words of all scripts, and scripts of words: what archive.js is to find. */
#include "tests/common/nomem.h"
#include "tests/common/test.h"

#include "tools/export/keys.h"
#include "tools/export/html/word_index.h"

static const char *folded(const char *text)
{
    static struct buf out;
    struct err err = {0};

    buf_clear(&out);
    assert_int_equal(word_index_fold(text, &out, &err), 0);
    return buf_cstr(&out);
}

TEST(words_are_bare)
{
    assert_string_equal(folded("Don't stop, ÑANDÚ!"), "don\nt\nstop\nnandu\n");
    assert_string_equal(folded("ΟΔΟΣ οδος"), "οδοσ\nοδοσ\n");
    assert_string_equal(folded("ﬁne x² Ⅳ"), "fine\nx2\niv\n");
    assert_string_equal(folded("a\xCC\x81o"), "ao\n"); /* a mark of its own parts nothing */
    assert_string_equal(folded("... -- "), "");
}

TEST(words_without_blanks_are_characters)
{
    assert_string_equal(folded("北京2008年"), "北\n京\n2008\n年\n");
    assert_string_equal(folded("in東京x"), "in\n東\n京\nx\n");
}

TEST(long_words_are_cut)
{
    char long_word[101];
    size_t n;

    memset(long_word, 'a', 100);
    long_word[100] = 0;
    n = strlen(folded(long_word));
    assert_int_equal(n, WORD_INDEX_CHARACTERS + 1);
}

static int append(void *arg, const char *id, const struct buf *script)
{
    assert_int_equal(strlen(id), 16);
    buf_put(arg, script->data, script->len);
    return 0;
}

TEST(pieces_have_who_says_what)
{
    struct buf all = BUF_INIT, table = BUF_INIT;
    struct word_index *w = NULL;
    struct err err = {0};
    int rc = word_index_new(&w, &err);

    assert_int_equal(rc, 0);
    assert_int_equal(word_index_add(w, 0, "tape tape", &err), 0);
    assert_int_equal(word_index_add(w, 1, "Tape 2", &err), 0);
    assert_int_equal(word_index_add(w, 41, "tape \xF0\x9D\x9F\x98 \xEF\xB9\xB0", &err), 0);
    assert_int_equal(word_index_pieces(w, append, &all, &table, &err), 0);
    assert_memory_equal(buf_cstr(&table), "pieces([[\"0\",\"", 14);
    assert_non_null(strstr(buf_cstr(&all), "[\"0\",\"qB\"]")); /* 42: 10, and 1 of 32 */
    assert_non_null(strstr(buf_cstr(&all), "[\"2\",\"C\"]"));
    assert_non_null(strstr(buf_cstr(&all), "[\"tape\",\"BBoB\"]"));
    buf_free(&all);
    buf_free(&table);
    word_index_free(w);
}

TEST(a_key_keeps_its_number)
{
    struct keys k = {0};
    struct err err = {0};
    char name[16];
    size_t n;

    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof(name), "key %d", i);
            assert_int_equal(keys_has(&k, name, strlen(name)), again);
            assert_int_equal(keys_give(&k, name, strlen(name), &n, &err), 0);
            assert_int_equal(n, i);
            assert_string_equal(keys_text(&k, n), name);
        }
    assert_int_equal(k.count, 5000);
    assert_false(keys_has(&k, "key", 3));
    keys_free(&k);
}

static int on_piece(void *arg, const char *id, const struct buf *script)
{
    (void)id;
    *(size_t *)arg += script->len;
    return 0;
}

static int index_all(void *arg, struct err *err)
{
    struct word_index *w = NULL;
    struct buf table = BUF_INIT;
    size_t bytes = 0;
    int rc = word_index_new(&w, err);

    for (uint32_t i = 0; rc == 0 && i < 3; i++)
        rc = word_index_add(w, i, arg, err);
    if (rc == 0)
        rc = word_index_pieces(w, on_piece, &bytes, &table, err);
    if (rc == 0)
        assert_in_range(bytes, 1, 100000);
    buf_free(&table);
    word_index_free(w);
    return rc;
}

TEST(without_memory)
{
    char text[] = "Ñandú one two three four five six seven eight 北京";

    assert_true(nomem_each(index_all, text) > 10);
}

TEST(a_text_without_blanks)
{
    const size_t n = 1 << 20;
    char *text = malloc(n + 1);
    struct err err = {0};

    assert_true(text);
    memset(text, 'x', n);
    text[n] = 0;
    assert_ok(index_all(text, &err), err);
    free(text);
}

TEST_MAIN(NULL, NULL)
