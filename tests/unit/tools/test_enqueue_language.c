/* --language: what people type, and the codes that the catalog keeps. */
#include "tests/common/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/common/nano.h"
#include "tools/enqueue/stages/enqueue_language.h"
#include "workers/stages/transcribe/transcribe_params.h"
#include "workers/text/json_file.h"

static void taken(const char *value, const char *codes)
{
    struct transcribe_params p, same;
    struct err e;

    transcribe_params_default(&p);
    same = p;
    strcpy(p.language, "something,longer,before"); /* nothing of it is left */
    strcpy(same.language, codes);
    assert_ok(enqueue_language_take(value, &p, &e), e);
    assert_string_equal(p.language, codes);
    assert_memory_equal(&p, &same, sizeof(p));
    assert_ok(transcribe_params_check(&p, &e), e);
}

static void refused(const char *value, const char *says)
{
    struct transcribe_params p;
    struct err e;

    transcribe_params_default(&p);
    assert_int_equal(enqueue_language_take(value, &p, &e), ERR_USAGE);
    assert_says(e.msg, says);
    assert_string_equal(p.language, "");
}

TEST(test_taken)
{
    taken("en", "en");
    taken("English", "en");
    taken("DE", "de");
    taken("Español", "es");
    taken("auto", "");
    taken("en,de", "de,en");
    taken("German, english ,FR", "de,en,fr");
    taken("es,Castilian,spanish", "es");
    taken("haitian creole", "ht");
    taken("Klingon", "klingon"); /* a model may know it */
    taken("h,g,f,e,d,c,b,a", "a,b,c,d,e,f,g,h");
}

TEST(test_refused)
{
    refused("", "names or codes");
    refused(",", "names or codes");
    refused("en,", "names or codes");
    refused(" ", "names or codes");
    refused("\xff", "names or codes");
    refused("espa\xc3\xb1l", "Perhaps 'espa");
    refused("engl1sh", "Perhaps 'english' was meant");
    refused("x1", "Try a name or code");
    refused("abcdefghijklmnop", "Try a name or code");
    refused("en,auto,x!", "'x!'");
    refused("a,b,c,d,e,f,g,h,i", "up to 8");
    refused("abcdefghijklmno,bbcdefghijklmno,cbcdefghijklmno,dbcdefghijklmno,en", "at most 63");
    {
        char *lengthy = malloc(100001);

        memset(lengthy, 'e', 100000);
        lengthy[100000] = 0;
        refused(lengthy, "names or codes");
        free(lengthy);
    }
}

static const char *own = "en"; /* of a family whose models of one language know that */

static int check(const struct vocabulary *v, const char *codes, char ret[64], struct err *err)
{
    struct transcribe_params p;
    int rc;

    transcribe_params_default(&p);
    strcpy(p.language, codes);
    rc = enqueue_language_check(v, own, &p, err);
    strcpy(ret, p.language);
    return rc;
}

TEST(test_model)
{
    char left[64];
    struct err e;

    assert_ok(check(nano, "", left, &e), e);
    assert_ok(check(nano, "es", left, &e), e);
    assert_string_equal(left, "es");
    assert_ok(check(nano, "en,es", left, &e), e);
    assert_string_equal(left, "en,es");
    assert_int_equal(check(nano, "de", left, &e), ERR_USAGE);
    assert_says(e.msg, "'de' (german). Try one of: en es");
    assert_int_equal(check(nano, "de,en", left, &e), ERR_USAGE);
    assert_int_equal(check(nano, "engish", left, &e), ERR_USAGE);
    assert_says(e.msg, "'engish'. Perhaps 'english' was meant");
    assert_int_equal(check(nano, "xx", left, &e), ERR_USAGE);
    assert_says(e.msg, "'xx'. Try one of: en es");
}

/* It has no tokens of languages: what its family says is what it does anyway, said or not. */
TEST(test_one_language)
{
    struct vocabulary_source source = {.generation = "{\"is_multilingual\":false}"};
    struct buf tokenizer = BUF_INIT;
    struct vocabulary *v;
    char left[64];
    struct err e;

    assert_ok(json_file_slurp(test_source_path("workers/models/whisper-nano"), "tokenizer.json",
                              &tokenizer, &e),
              e);
    source.generation_len = strlen(source.generation);
    source.tokenizer = (const char *)tokenizer.data;
    source.tokenizer_len = tokenizer.len;
    assert_ok(vocabulary_parse(&source, &v, &e), e);
    assert_false(vocabulary_multilingual(v));
    assert_ok(check(v, "en", left, &e), e);
    assert_string_equal(left, "");
    assert_ok(check(v, "", left, &e), e);
    assert_int_equal(check(v, "es", left, &e), ERR_USAGE);
    assert_says(e.msg, "knows only English, not 'es'");
    assert_int_equal(check(v, "de,en", left, &e), ERR_USAGE);
    assert_says(e.msg, "not 'de,en'");
    own = "de";
    assert_ok(check(v, "de", left, &e), e);
    assert_string_equal(left, "");
    assert_int_equal(check(v, "en", left, &e), ERR_USAGE);
    assert_says(e.msg, "knows only German, not 'en'");
    own = "yue-x"; /* a code without a name */
    assert_int_equal(check(v, "en", left, &e), ERR_USAGE);
    assert_says(e.msg, "knows only yue-x, not 'en'");
    own = "en";
    vocabulary_free(v);
    buf_free(&tokenizer);
}

TEST_MAIN(nano_open, nano_close)
