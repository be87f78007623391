/* Tables of text: those of RFC 4180, those that offices write, and hostile ones. */
#include "base/buf.h"
#include "tests/common/nomem.h"
#include "tests/common/test.h"
#include "tools/describe/csv.h"

/* All rows, unless said is NULL, as "line:column|column", one behind the other, or what is wrong
 * behind "!". */
static int read_all(const char *table, size_t len, struct buf *said, struct err *err)
{
    char *text = malloc(len + 1);
    struct csv c = {0};
    int rc;

    if (!text)
        return err_set(err, ERR_NOMEM, "out of memory");
    memcpy(text, table, len);
    rc = csv_begin(&c, text, len, err);
    if (rc == 0)
        rc = 1;
    while (rc == 1 && (rc = csv_next(&c, err)) == 1) {
        if (!said)
            continue;
        buf_printf(said, "%llu:", (unsigned long long)c.row_line);
        for (size_t i = 0; i < c.count; i++)
            buf_printf(said, "%s%s", i ? "|" : "", c.columns[i]);
        buf_printf(said, " ");
    }
    csv_free(&c);
    free(text);
    return rc;
}

static const char *rows_of(const char *table, size_t len)
{
    static struct buf said;
    struct err err = {0};

    buf_clear(&said);
    if (read_all(table, len, &said, &err) != 0) {
        assert_int_equal(err.code, ERR_INPUT);
        buf_printf(&said, "!%s", err.msg);
    }
    return said.len ? buf_cstr(&said) : "";
}

TEST(tables_are_read)
{
    static const char *const table[][2] = {
        {"", ""},
        {"\n\r\n", ""},
        {"a,b\n1,2\n", "1:a|b 2:1|2 "},
        {"a,b\r\n1,2", "1:a|b 2:1|2 "},
        {"a,b\r1,2\r", "1:a|b 2:1|2 "},
        {"a,b\n\n\n1,2\n\n", "1:a|b 4:1|2 "},
        {"\xef\xbb\xbf"
         "a,b\n1,2\n",
         "1:a|b 2:1|2 "},
        {"a;b,c;d\n1;2;3\n", "1:a|b,c|d 2:1|2|3 "},
        {"a\tb\n1,5\t2\n", "1:a|b 2:1,5|2 "},
        {"\"a;b;c\",d\n1,2\n", "1:a;b;c|d 2:1|2 "},
        {"one\n1;2\n", "1:one 2:1;2 "},
        {"a,b,\n,,\n", "1:a|b| 2:|| "},
        {"a,b\n\"1\"\"2\",\"3,4\"\n", "1:a|b 2:1\"2|3,4 "},
        {"a,b\n\"1\n2\r\n3\",4\n5,6", "1:a|b 2:1\n2\r\n3|4 5:5|6 "},
        {"a,b\n\"\",\"\"\"\"\n", "1:a|b 2:|\" "},
        {"a,b\n1\"2,3\"\n", "1:a|b 2:1\"2|3\" "},
        {"a,b\n \"1\",2\n", "1:a|b 2: \"1\"|2 "},
        {"a,b\n1,2,3\n4\n", "1:a|b 2:1|2|3 3:4 "},
        {"a,b\n1,\"2\"", "1:a|b 2:1|2 "},
        {"\xc3\xbc,b\n\xe2\x82\xac,2\n", "1:\xc3\xbc|b 2:\xe2\x82\xac|2 "},
        {"a,b\n1,\"2", "1:a|b !line 2 begins a quote that is never closed"},
        {"a,b\n1,\"", "1:a|b !line 2 begins a quote that is never closed"},
        {"a,b\n1,\"2\"\"\n3,4\n", "1:a|b !line 2 begins a quote that is never closed"},
        {"a,b\n1,\"2\"3\n", "1:a|b !line 2 has something behind a closing quote"},
        {"a,b\n\n\"x\ny\",\xff\n", "1:a|b !line 4 is not UTF-8: save the table as UTF-8"},
        {"a,b\n\xc3\n", "1:a|b !line 2 is not UTF-8: save the table as UTF-8"},
        {"\xff\xfe"
         "a",
         "!it is UTF-16: save it as UTF-8"},
        {"\xfe\xff"
         "a",
         "!it is UTF-16: save it as UTF-8"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(rows_of(table[i][0], strlen(table[i][0])), table[i][1]);
    assert_string_equal(rows_of("a\0b", 3), "!it is not text: it contains zero bytes");
}

TEST(tables_are_bounded)
{
    const size_t n = 3 << 20;
    char *text = malloc(n);

    assert_non_null(text);
    memset(text, ',', n);
    assert_string_equal(rows_of(text, n), "!line 1 has more than 1000 columns");
    memset(text, 'x', n);
    assert_string_equal(rows_of(text, n), "!line 1 has a field of more than 1 MiB");
    memset(text, '"', n);
    assert_string_equal(rows_of(text, n), "!line 1 has a field of more than 1 MiB");
    memset(text, '"', n - 1);
    assert_string_equal(rows_of(text, n - 1), "!line 1 begins a quote that is never closed");
    memset(text, '\n', n);
    assert_string_equal(rows_of(text, n), "");
    free(text);
}

/* Cut anywhere, with any byte in place of any other: read or refused, and nothing beyond it. */
TEST(no_table_is_too_bent)
{
    static const char table[] = "\xef\xbb\xbfpath;t\n\"a \"\"b\"\"\";\xc3\xa4\r\n\"x\ny\";\n";
    static const char bytes[] = "\";\n\r,\xff\xc3x\0";
    char text[sizeof(table)];

    for (size_t len = 0; len < sizeof(table); len++)
        rows_of(table, len);
    for (size_t at = 0; at < sizeof(table) - 1; at++)
        for (size_t i = 0; i < sizeof(bytes); i++) {
            memcpy(text, table, sizeof(text));
            text[at] = bytes[i];
            rows_of(text, sizeof(text) - 1);
        }
}

static int read_some(void *arg, struct err *err) { return read_all(arg, strlen(arg), NULL, err); }

TEST(memory_runs_out)
{
    char table[200];

    memset(table, ',', sizeof(table));
    table[sizeof(table) - 1] = '\0';
    assert_true(nomem_each(read_some, table) >= 3);
}

TEST_MAIN(NULL, NULL)
