/* Text from outside stays text, wherever in a page it stands. */
#include "tests/common/test.h"
#include "tools/export/escape.h"

static const char *of(void (*put)(struct buf *, const char *), const char *s)
{
    static struct buf out;

    buf_clear(&out);
    put(&out, s);
    return buf_cstr(&out);
}

TEST(text_is_escaped)
{
    assert_string_equal("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;",
                        of(html_text, "<script>alert(\"1\")</script> & '"));
    assert_string_equal("a\tb\nc d ñ 語", of(html_text, "a\tb\nc\x1b"
                                                        "d ñ 語"));
    assert_string_equal("a b", of(html_text, "a\xC2\x9B"
                                             "b"));
    assert_string_equal("\xC2\xA0", of(html_text, "\xC2\xA0"));
    assert_string_equal("", of(html_text, ""));
}

TEST(json_ends_no_script)
{
    assert_string_equal("\"\\u003c/script\\u003e\\u003c!-- \\u0026 \\\" \\\\ \\u000a\"",
                        of(html_json, "</script><!-- & \" \\ \n"));
    assert_string_equal("\"\\u2028\\u2029é\"", of(html_json, "\xE2\x80\xA8\xE2\x80\xA9é"));
    assert_string_equal("\"\xE2\x80\xA6\"", of(html_json, "\xE2\x80\xA6"));
}

TEST(paths_are_references_and_nothing_else)
{
    const char name[] = "../a b/javascript:x?#%\"<\xFF.wav";
    struct buf out = BUF_INIT;

    html_url_path(&out, name, strlen(name));
    assert_string_equal("../a%20b/javascript%3Ax%3F%23%25%22%3C%FF.wav", buf_cstr(&out));
    buf_free(&out);
}

TEST(a_page_begins_with_its_policy)
{
    struct buf out = BUF_INIT;

    html_begin(&out, html_policy_folder, "</title><script>");
    assert_non_null(strstr(buf_cstr(&out), "<title>&lt;/title&gt;&lt;script&gt;</title>"));
    assert_non_null(strstr(buf_cstr(&out), "default-src 'none'; script-src 'self';"));
    assert_null(strstr(html_policy_folder, "unsafe"));
    buf_free(&out);
}

TEST_MAIN(NULL, NULL)
