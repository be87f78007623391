/* Words for others, and names in front of texts. */
#include "tests/common/nomem.h"
#include "tests/common/test.h"
#include "tests/unit/store/corrections_fixture.h"
#include "tools/correct/changes.h"
#include "tools/correct/labels.h"
#include "tools/correct/replace.h"

/* "PLACES:TEXT". */
static const char *replaced(const char *text, const char *what, const char *with)
{
    static char said[400];
    struct err err = {0};
    char *ret;
    size_t count;

    assert_ok(replace_words(text, what, with, &ret, &count, &err), err);
    assert_true((ret != NULL) == (count > 0));
    snprintf(said, sizeof(said), "%zu:%s", count, ret ? ret : text);
    free(ret);
    return said;
}

TEST(whole_words_in_exactly_these_letters)
{
    static const char *const table[][4] = {
        {"the Sanches family", "Sanches", "Sánchez", "1:the Sánchez family"},
        {"Sanches, Sanches. (Sanches)", "Sanches", "S", "3:S, S. (S)"},
        {"sanches SANCHES Sanchesen Sanches2 ÁSanches Sanches_", "Sanches", "S",
         "0:sanches SANCHES Sanchesen Sanches2 ÁSanches Sanches_"},
        {"Sanches's Sanches-Ruiz", "Sanches", "S", "2:S's S-Ruiz"},
        {"San  Juan and San\tJuan, SanJuan", "San Juan", "Saint John",
         "2:Saint John and Saint John, SanJuan"},
        {"a a a", "a a", "b", "1:b a"},
        {"é e\xCC\x81", "é", "e", "1:e e\xCC\x81"},
        {"e\xCC\x81 e", "e", "a", "1:e\xCC\x81 a"},
        {"what? what", "what?", "what!", "1:what! what"},
        {"今日は港へ行く", "港", "市場", "1:今日は市場へ行く"},
        {"a b", "b", "", "1:a "},
        {"", "a", "b", "0:"},
        {"a", "", "b", "0:a"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_string_equal(replaced(table[i][0], table[i][1], table[i][2]), table[i][3]);
}

static int replace_one(void *arg, struct err *err)
{
    char *ret;
    size_t count;
    int rc = replace_words(arg, "b", "c", &ret, &count, err);

    free(ret);
    return rc;
}

TEST(memory_runs_out) { assert_true(nomem_each(replace_one, (void *)"a b c") >= 1); }

TEST(known_names_are_no_words)
{
    struct labels l = {0};
    struct cues c = {0};
    struct err err = {0};
    static const char *const left[] = {"hello",      "hello: you", "[Music] hello",
                                       "Eva: hello", "",           "hello"};

    assert_ok(labels_add(&l, "Ana", &err), err);
    assert_ok(labels_add(&l, "SPEAKER_00", &err), err);
    assert_ok(labels_add(&l, "", &err), err);
    assert_ok(labels_add(&l, "Ana", &err), err);
    assert_int_equal(l.count, 2);
    assert_ok(
        cues_parse(CUES_TXT,
                   "Ana: hello\nhello: you\n[Music] hello\nEva: hello\nAna:\n[SPEAKER_00]  hello\n",
                   &c, &err),
        err);
    labels_strip(&l, &c);
    for (size_t i = 0; i < c.count; i++) {
        assert_string_equal((char *)c.text.data + c.list[i].at, left[i]);
        assert_int_equal(c.list[i].len, strlen(left[i]));
    }
    cues_free(&c);
    labels_free(&l);
}

/* Between reading and writing somebody else was there. */
TEST(what_changed_since_it_was_read)
{
    struct store *st = catalog_new();
    struct changes changes = {0};
    struct current now = {0};
    struct writer *writer = NULL;
    struct err err = {0};
    uint64_t affected = 0;

    hear(st, &stage_nano, nano, 3);
    assert_ok(current_read(st, 1, &now, &err), err);
    assert_ok(changes_begin(&changes, 1, "/a/1.wav", "", &err), err);
    assert_ok(changes_add(&changes, &now.list[0], "good evening", false, &err), err);
    correct(st, 0, "good evening my name is Eva Sanches");
    catalog_close(st);
    assert_ok(writer_open(CATALOG, "correct", 0, true, &writer, &err), err);
    assert_int_equal(changes_apply(&changes, writer, "ana", "at 0:00", &affected, &err), ERR_INPUT);
    assert_says(err.msg, "reads otherwise by now");
    assert_int_equal(affected, 0);
    assert_string_equal(reads(0), "good evening my name is Eva Sanches");
    writer_close(writer);
    current_free(&now);
    changes_free(&changes);
}

TEST_MAIN(NULL, NULL)
