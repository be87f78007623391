/* Transcript files: those that programs write, those that editors make of them, and hostile ones.
 */
#include "base/utf8.h"
#include "tests/common/nomem.h"
#include "tests/common/test.h"
#include "tools/export/cues.h"

/* All cues as "from-to:text|", without times as "text|", with what they replace as "text<was|", or
 * what is wrong behind "!". */
static const char *cues_of(enum cues_format format, const char *text)
{
    static struct buf said;
    struct cues c = {0};
    struct err err = {0};

    buf_clear(&said);
    if (cues_parse(format, text, &c, &err) != 0) {
        assert_int_equal(err.code, ERR_INPUT);
        buf_printf(&said, "!%s", err.msg);
    }
    for (size_t i = 0; err.code == 0 && i < c.count; i++) {
        const struct cue *cue = &c.list[i];

        assert_int_equal(strlen((char *)c.text.data + cue->at), cue->len);
        if (cue->start_ms >= 0)
            buf_printf(&said, "%lld-%lld:", (long long)cue->start_ms, (long long)cue->end_ms);
        buf_printf(&said, "%s", (char *)c.text.data + cue->at);
        if (cue->guarded)
            buf_printf(&said, "<%s", (char *)c.text.data + cue->was_at);
        buf_printf(&said, "|");
    }
    cues_free(&c);
    return said.len ? buf_cstr(&said) : "";
}

#define A "1\n00:00:01,000 --> 00:00:02,500\n"
#define B "2\n00:00:03,000 --> 00:00:04,000\n"

TEST(subrip)
{
    static const char *const table[][2] = {
        {"", ""},
        {A "hello\n\n" B "there\n\n", "1000-2500:hello|3000-4000:there|"},
        {"\xEF\xBB\xBF" A "hello\r\nyou\r\n\r\n", "1000-2500:hello\nyou|"},
        {A "hello\r\r" B "there", "1000-2500:hello|3000-4000:there|"},
        {"00:00:01.000 --> 00:00:02.500 X1:40 X2:600 Y1:20 Y2:50\nhello\n", "1000-2500:hello|"},
        {"  01:01.5-->1:02 \nhello\n", "61500-62000:hello|"},
        /* No empty line between them; no number; a number that is said. */
        {A "hello\n" B "there\n", "1000-2500:hello|3000-4000:there|"},
        {A "hello\n00:00:03,000 --> 00:00:04,000\nthere\n", "1000-2500:hello|3000-4000:there|"},
        {A "42\n\n" B "there\n43\n\n", "1000-2500:42|3000-4000:there\n43|"},
        /* An empty line inside a text, and one that has a number alone. */
        {A "hello\n\nyou\n\n" B "there\n", "1000-2500:hello\nyou|3000-4000:there|"},
        {A "hello\n\n7\n\n" B "there\n", "1000-2500:hello|3000-4000:there|"},
        {A "\n" B "there\n", "1000-2500:|3000-4000:there|"},
        /* Markup is none, and what is none stays. */
        {A "<i>hello</i> <font color=\"red\">you</font> {\\an8}there\n",
         "1000-2500:hello you there|"},
        {A "1 < 2 > 0 {x} &amp; a<\n", "1000-2500:1 < 2 > 0 {x} &amp; a<|"},
        {A "<<<<<<<<<<<<<<<<<<<<<a\n", "1000-2500:<<<<<<<<<<<<<<<<<<<<<a|"},
        /* Times that cannot be. */
        {"1\nsoon --> later\nhello\n", "hello|"},
        {"1\n00:00:05,000 --> 00:00:04,000\nhello\n", "hello|"},
        {"1\n999999999999999999999:00:00 --> 1\nhello\n", "hello|"},
        {"hello\n", "!there are no subtitles in it: no line with a time"},
        {"hello\n\n" A "you\n", "1000-2500:you|"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(cues_of(CUES_SRT, table[i][0]), table[i][1]);
}

TEST(web_vtt)
{
    static const char *const table[][2] = {
        {"WEBVTT\n", ""},
        {"WEBVTT - a title\nKind: captions\n\n00:01.000 --> 00:02.000\nhello\n",
         "1000-2000:hello|"},
        {"WEBVTT\n\nSTYLE\n::cue {\n}\n\nNOTE\nnobody\nsaid this\n\nintro\n"
         "00:00:01.000 --> 00:00:02.000 align:start position:0%\n<v Ana Ruiz>hello &lt;you&gt; "
         "&amp;&nbsp;me\n",
         "1000-2000:hello <you> & me|"},
        {"WEBVTT\n\n00:01.000 --> 00:02.000\n<c>hel</c><00:01.500><c>lo</c>\n\nNOTE nothing\n",
         "1000-2000:hello|"},
        {"WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n\nthere\n", "1000-2000:hello\nthere|"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(cues_of(CUES_VTT, table[i][0]), table[i][1]);
}

TEST(lines_and_columns)
{
    assert_string_equal(cues_of(CUES_TXT, "\xEF\xBB\xBF"
                                          "a b\n\n  \r\nc\r\nd"),
                        "a b|c|d|");
    assert_string_equal(cues_of(CUES_TSV, "start\tend\ttext\n0\t1500\ta\tb\n\n1500\tx\tc\n"),
                        "0-1500:a\tb|c|");
    assert_string_equal(
        cues_of(CUES_TSV, "start\tend\ttext\tspeaker\n0\t1500\ta\tAna\n1500\t2000\tc\n2\t3\t\t\n"),
        "0-1500:a|1500-2000:c|2-3:|");
    assert_string_equal(cues_of(CUES_TSV, "0\t1\ta\n"),
                        "!it does not begin with a line of \"start\", \"end\" and \"text\"");
    assert_string_equal(cues_of(CUES_TSV, "start\tend\ttext\n1\t2\n"),
                        "!line 2 of it has less than three columns");
}

TEST(json)
{
    static const char *const table[][2] = {
        {"{\"segments\": []}", ""},
        {"{\"segments\": [{\"start_ms\": 10, \"end_ms\": 20, \"text\": \"a\"}, {\"text\": \"b\"}]}",
         "10-20:a|b|"},
        {"{\"segments\": [{\"start\": 0.5, \"end\": 2, \"text\": \" a\"}]}", "500-2000: a|"},
        {"{\"segments\": [{\"start\": 1e300, \"end\": -2, \"text\": \"a\"}]}", "a|"},
        {"{\"text\": \"a\"}", "a|"},
        {"{}", "!it has neither \"segments\" nor \"text\""},
        {"{\"segments\": [1]}", "!segment 0 of it has no \"text\""},
        {"{\"segments\": [{\"was\": \"x\", \"text\": \"\"}, {\"text\": \"b\"},"
         " {\"was\": \"\", \"text\": \"c\"}]}",
         "<x|b|c<|"},
        {"{\"segments\": [{\"was\": 1, \"text\": \"a\"}]}",
         "!\"was\" of segment 0 of it is not text"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(cues_of(CUES_JSON, table[i][0]), table[i][1]);
    assert_int_equal(cues_of(CUES_JSON, "[[[[")[0], '!');
    assert_says(cues_of(CUES_JSON, "{\"text\": \"a\\u0000b\"}"), "!it is not JSON: line 1");
}

TEST(times)
{
    static const struct {
        const char *s;
        int64_t ms;
    } table[] = {{"0", 0},      {"12:34.5", 754500}, {"1:02:03,45", 3723450},
                 {"61", 61000}, {"1.2345", 1234},    {"", -1},
                 {"-1", -1},    {"1:", -1},          {"1:2:3:4", -1},
                 {"x", -1},     {"400000000", -1}};
    const char *end;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(cues_time(table[i].s, &end), table[i].ms);
    assert_int_equal(cues_time("5 s", &end), 5000);
    assert_string_equal(end, " s");
    /* A file is read as it is; people made a slip. */
    assert_int_equal(cues_time("9:99", &end), 639000);
    assert_int_equal(cues_time_whole("9:99"), -1);
    assert_int_equal(cues_time_whole("1:60:00"), -1);
    assert_int_equal(cues_time_whole("5 s"), -1);
    assert_int_equal(cues_time_whole("90:59.5"), 5459500);
    assert_int_equal(cues_time_whole("1:02:03"), 3723000);
}

static int parse_all(void *arg, struct err *err)
{
    struct cues c = {0};
    int rc = cues_parse(CUES_SRT, arg, &c, err);

    cues_free(&c);
    return rc;
}

TEST(memory_runs_out)
{
    assert_true(nomem_each(parse_all, (void *)(A "hello\n\n" B "there\n")) > 1);
}

TEST_MAIN(NULL, NULL)
