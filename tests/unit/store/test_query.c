/* What is typed to search for: as FTS5 has it, or refused with its place. */
#include "store/full_text.h"
#include "store/search/query.h"
#include "tests/common/nomem.h"
#include "tests/common/test.h"

/* Letters and digits of ASCII, and every byte beyond. */
static int count_index_words(void *arg, const char *s, size_t n, struct err *err)
{
    bool in = false;
    int words = 0;

    (void)arg, (void)err;
    for (size_t i = 0; i < n; i++) {
        bool is = (unsigned char)s[i] >= 0x80 || (s[i] >= '0' && s[i] <= '9') ||
                  (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z');

        words += is && !in;
        in = is;
    }
    return words;
}
static const struct query_words words = {count_index_words, NULL};

TEST(what_is_understood)
{
    static const struct {
        const char *text, *match;
        bool exact, operators;
        size_t terms;
    } table[] = {
        {"market", "\"market\"", false, false, 1},
        {"  market \t square\n", "\"market\" AND \"square\"", false, false, 2},
        {"don't C++ text:market -again ^x it's",
         "\"don't\" AND \"C++\" AND \"text:market\" AND \"-again\" AND \"^x\" AND \"it's\"", false,
         false, 6},
        {"and or not near And Or nOT",
         "\"and\" AND \"or\" AND \"not\" AND \"near\" AND \"And\" AND \"Or\" AND \"nOT\"", false,
         false, 7},
        {"ANDES NEARBY", "\"ANDES\" AND \"NEARBY\"", false, false, 2},
        {"\xe6\x9d\xb1\xe4\xba\xac\xe3\x80\x80\xe5\xa4\xa7\xe9\x98\xaa",
         "\"\xe6\x9d\xb1\xe4\xba\xac\" AND \"\xe5\xa4\xa7\xe9\x98\xaa\"", false, false, 2},
        {"a\xc2\xa0"
         "b\xe2\x80\xaf"
         "c",
         "\"a\" AND \"b\" AND \"c\"", false, false, 3},
        {"\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85", "\"\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85\"", false, false,
         1},
        {"mark*", "\"mark\"*", true, false, 1},
        {"\"market square\"", "\"market square\"", true, false, 1},
        {"\"market squ\"*", "\"market squ\"*", true, false, 1},
        {"\"say \"\"no\"\" to\"", "\"say \"\"no\"\" to\"", true, false, 1},
        {"a\"b c\"d", "\"a\" AND \"b c\" AND \"d\"", true, false, 3},
        {"\"a OR b) *\"", NULL, false, false, 0},
        {"\"a OR b)\"", "\"a OR b)\"", true, false, 1},
        {"a OR b", "\"a\" OR \"b\"", true, true, 1},
        {"a AND b", "\"a\" AND \"b\"", true, true, 2},
        {"a NOT b", "\"a\" NOT (\"b\")", true, true, 1},
        {"a NOT b NOT c d", "\"a\" NOT (\"b\" OR \"c\" AND \"d\")", true, true, 1},
        {"a b NOT c", "(\"a\" AND \"b\") NOT (\"c\")", true, true, 2},
        {"a AND b NOT c", "\"a\" AND \"b\" NOT (\"c\")", true, true, 2},
        {"a OR b c", "\"a\" OR \"b\" AND \"c\"", true, true, 1},
        {"a OR b AND c NOT d", "\"a\" OR \"b\" AND \"c\" NOT (\"d\")", true, true, 1},
        {"(a OR b) c", "(\"a\" OR \"b\") AND \"c\"", true, true, 2},
        {"(a OR b)c", "(\"a\" OR \"b\") AND \"c\"", true, true, 2},
        {"((a))", "\"a\"", true, false, 1},
        {"a NOT (b OR c)", "\"a\" NOT ((\"b\" OR \"c\"))", true, true, 1},
        {"(a NOT b) NOT c", "\"a\" NOT (\"b\" OR \"c\")", true, true, 1},
        {"NEAR(a b)", "NEAR(\"a\" \"b\", 10)", true, true, 1},
        {"NEAR (a \"b c\" d* , 3 ) e", "NEAR(\"a\" \"b c\" \"d\"*, 3) AND \"e\"", true, true, 2},
        {"NEAR(a,0)", "NEAR(\"a\", 0)", true, true, 1},
        {"market, square", "\"market,\" AND \"square\"", false, false, 2},
        {"((((((((((a))))))))))", "\"a\"", true, false, 1},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct query *q = NULL;
        char *match = NULL;
        struct err e = {0};
        size_t at;
        int rc = query_parse(table[i].text, &words, &q, &at, &e);

        print_message("%s\n", table[i].text);
        assert_int_equal(rc, table[i].match ? 0 : ERR_USAGE);
        if (rc != 0)
            continue;
        assert_ok(query_match(q, &match, &e), e);
        assert_string_equal(match, table[i].match);
        assert_int_equal(query_is_exact(q), table[i].exact);
        assert_int_equal(query_has_operators(q), table[i].operators);
        assert_int_equal(query_terms(q), table[i].terms);
        free(match);
        query_free(q);
    }
}

/* Only what stands by itself, wherever it stands; and nothing that is typed says so. */
static int find(void *arg, const char *word, size_t n, struct buf *ret, struct err *err)
{
    (void)arg;
    if (n == 5 && memcmp(word, "fails", 5) == 0)
        return err_set(err, ERR_IO, "no");
    if (word[0] == 'h')
        buf_printf(ret, "%c%.*s!%c%.*s?", FULL_TEXT_FORM, (int)n, word, FULL_TEXT_FORM, (int)n,
                   word);
    return 0;
}

TEST(words_in_other_forms)
{
    static const struct {
        const char *text, *match;
    } table[] = {
        {"harbour", "\"harbour\x01harbour!\x01harbour?\""},
        {"a (hat OR b) NOT h", "(\"a\" AND (\"hat\x01hat!\x01hat?\" OR \"b\")) NOT (\"h\")"},
        {"(h NOT (h OR x)) NOT h", "\"h\x01h!\x01h?\" NOT ((\"h\" OR \"x\") OR \"h\")"},
        {"NEAR(hat b, 5)", "NEAR(\"hat\x01hat!\x01hat?\" \"b\", 5)"},
        {"\"hat\" \"h b\" h* h-b", "\"hat\" AND \"h b\" AND \"h\"* AND \"h-b\""},
        {"\"x\x01y\" x\x01y", "\"x y\" AND \"x\" AND \"y\""},
    };
    const struct query_forms forms = {find, NULL};
    struct query *q = NULL;
    struct err e = {0};
    size_t at;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char *match = NULL;
        size_t terms;

        assert_ok(query_parse(table[i].text, &words, &q, &at, &e), e);
        terms = query_terms(q);
        assert_ok(query_widen(q, &forms, &e), e);
        assert_ok(query_widen(q, &forms, &e), e); /* once is enough */
        assert_int_equal(query_terms(q), terms);
        assert_ok(query_match(q, &match, &e), e);
        assert_string_equal(match, table[i].match);
        free(match);
        query_free(q);
    }
    assert_ok(query_parse("hat fails", &words, &q, &at, &e), e);
    assert_int_equal(query_widen(q, &forms, &e), ERR_IO);
    query_free(q);
}

TEST(what_is_not)
{
    static const struct {
        const char *text;
        size_t at;
        const char *why; /* a part of it */
    } table[] = {
        {"", 0, "no word in it; type words"},
        {"  ", 2, "no word in it; type words"},
        {"- a", 0, "no letter and no digit"},
        {"a & b", 2, "no letter and no digit"},
        {"a \"--\"", 2, "no letter and no digit"},
        {"a \"\" b", 2, "no letter and no digit"},
        {"a \"b c", 2, "quotation mark is not closed"},
        {"\"", 0, "quotation mark is not closed"},
        {"\"a\"\"", 0, "quotation mark is not closed"},
        {"(a OR b", 0, "parenthesis is not closed"},
        {"a (b (c)", 2, "parenthesis is not closed"},
        {"(", 0, "parenthesis is not closed"},
        {"a)", 1, "no parenthesis is open"},
        {"a OR b) c", 6, "no parenthesis is open"},
        {"a ()", 2, "no word in these parentheses"},
        {"a(b)", 1, "right behind a word"},
        {"a OR", 2, "behind OR there is no word"},
        {"a AND OR b", 2, "behind AND there is no word"},
        {"(a AND) b", 3, "behind AND there is no word"},
        {"OR a", 0, "before OR there is no word"},
        {"a (AND b)", 3, "before AND there is no word"},
        {"NOT a", 0, "before NOT there is no word"},
        {"a OR (NOT b)", 6, "before NOT there is no word"},
        {"a AND NOT b", 2, "AND and NOT do not stand together"},
        {"a NOT NOT b", 2, "NOT and NOT do not stand together"},
        {"a NEAR b", 2, "NEAR wants its words in parentheses"},
        {"NEAR", 0, "NEAR wants its words in parentheses"},
        {"a NEAR()", 2, "no word in this NEAR"},
        {"NEAR(, 3)", 0, "no word in this NEAR"},
        {"NEAR(a b", 4, "parenthesis is not closed"},
        {"NEAR(a b, 3", 4, "parenthesis is not closed"},
        {"NEAR(a, b)", 8, "how many words may lie between"},
        {"NEAR(a b, 3x)", 10, "how many words may lie between"},
        {"NEAR(a b, 10001)", 10, "how many words may lie between"},
        {"NEAR(a b, 99999999999999999999)", 10, "how many words may lie between"},
        {"NEAR(a b, -1)", 10, "how many words may lie between"},
        {"NEAR(a OR b)", 7, "in NEAR there are words and phrases"},
        {"NEAR(a (b c))", 7, "in NEAR there are words and phrases"},
        {"NEAR(a b, 3, 4)", 11, "in NEAR there are words and phrases"},
        {"*", 0, "behind the beginning of a word"},
        {"*ket", 0, "behind the beginning of a word"},
        {"mar*et", 3, "behind the beginning of a word"},
        {"mark**", 4, "behind the beginning of a word"},
        {"a \"mark*\"", 7, "a star within quotation marks"},
        {"(((((((((((a)))))))))))", 10, "more than 10 parentheses"},
        {"\xc3\xa4 ma\xffrket", 5, "no text in UTF-8"},
        {"a \xed\xa0\x80", 2, "no text in UTF-8"},
        {"a \xe3\x80", 2, "no text in UTF-8"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct query *q = NULL;
        struct err e = {0};
        size_t at = 77;

        print_message("%s\n", table[i].text);
        assert_int_equal(query_parse(table[i].text, &words, &q, &at, &e), ERR_USAGE);
        assert_null(q);
        print_message("  %s\n", e.msg);
        assert_non_null(strstr(e.msg, table[i].why));
        assert_int_equal(at, table[i].at);
    }
}

/* People count characters, not bytes. */
TEST(a_place_is_a_character)
{
    struct query *q = NULL;
    struct err e = {0};
    size_t at;

    assert_int_equal(query_parse("\xc3\xa4\xe6\x9d\xb1 \xf0\x9f\x99\x82 )", &words, &q, &at, &e),
                     ERR_USAGE);
    assert_int_equal(at, 11);
    assert_non_null(strstr(e.msg, "at character 6: no parenthesis"));
}

static struct query *parsed(const char *text)
{
    struct query *q = NULL;
    struct err e = {0};
    size_t at;

    assert_ok(query_parse(text, &words, &q, &at, &e), e);
    return q;
}

TEST(what_must_be_there)
{
    struct query *q = parsed("a (b OR c) AND \"d e\" NOT f* NOT (g h) AND (i NOT NEAR(j k, 2))");
    static const char *const terms[] = {"(\"a\")", "(\"b\" OR \"c\")", "(\"d e\")", "(\"i\")"};
    struct err e = {0};
    char *match = NULL;

    assert_int_equal(query_terms(q), 4);
    for (size_t k = 0; k < 4; k++) {
        assert_ok(query_match_term(q, k, &match, &e), e);
        assert_string_equal(match, terms[k]);
        free(match);
    }
    assert_ok(query_match_any(q, &match, &e), e);
    assert_string_equal(match, "(\"a\") OR (\"b\" OR \"c\") OR (\"d e\") OR (\"i\")");
    free(match);
    assert_ok(query_match_none(q, &match, &e), e);
    assert_string_equal(match, "(\"f\"*) OR (\"g\" AND \"h\") OR (NEAR(\"j\" \"k\", 2))");
    free(match);
    query_free(q);
    q = parsed("a b");
    assert_ok(query_match_none(q, &match, &e), e);
    assert_null(match);
    query_free(q);
}

TEST(one_word)
{
    static const char *const one[] = {"market", "(market*)", "\"market\"", "C++"};
    static const char *const more[] = {"a b", "well-known", "\"a b\"", "a OR b", "NEAR(a)"};

    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
        struct query *q = parsed(one[i]);

        assert_true(query_is_one_word(q));
        query_free(q);
    }
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct query *q = parsed(more[i]);

        assert_false(query_is_one_word(q));
        query_free(q);
    }
}

TEST(how_long)
{
    char *text = malloc(QUERY_BYTES + 2);
    struct query *q = NULL;
    struct err e = {0};
    size_t at;

    memset(text, 'a', QUERY_BYTES + 1);
    text[QUERY_BYTES + 1] = 0;
    assert_int_equal(query_parse(text, &words, &q, &at, &e), ERR_USAGE);
    assert_int_equal(at, QUERY_BYTES);
    text[QUERY_BYTES] = 0;
    q = parsed(text);
    query_free(q);
    free(text);
}

static int all_of_it(void *arg, struct err *err)
{
    char *whole = NULL, *term = NULL, *any = NULL, *none = NULL;
    struct query *q = NULL;
    size_t at;
    int rc = query_parse(arg, &words, &q, &at, err);

    assert_true(rc == 0 || !q);
    if (rc == 0)
        rc = query_match(q, &whole, err);
    if (rc == 0)
        rc = query_match_term(q, 1, &term, err);
    if (rc == 0)
        rc = query_match_any(q, &any, err);
    if (rc == 0)
        rc = query_match_none(q, &none, err);
    assert_true(rc != 0 || (whole && term && any && none));
    free(whole);
    free(term);
    free(any);
    free(none);
    query_free(q);
    return rc;
}

TEST(without_memory)
{
    char text[] = "a b (c OR d OR \"e f\") NEAR(g h) i j k l m NOT (n OR o)";

    assert_true(nomem_each(all_of_it, text) > 6);
}

TEST_MAIN(NULL, NULL)
