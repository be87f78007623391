/* What is left of a text to be compared, loops in it, and what models say to silence. */
#include "tests/common/test.h"

#include "workers/text/codepoints.h"
#include "workers/text/doubtful_text.h"

static void folds_to(const char *text, const char *want)
{
    static struct folded f;
    struct codepoints c = {0};
    char *have;

    folded_make(&f, text);
    for (uint32_t i = 0; i < f.len; i++)
        codepoints_put(&c, f.at[i]);
    have = codepoints_utf8(&c);
    assert_string_equal(have, want);
    free(have);
    codepoints_free(&c);
}

TEST(test_folded)
{
    folds_to("", "");
    folds_to(" ... ♪ !? ", "");
    folds_to(" Hello, World!", "hello world ");
    folds_to("Don't you’re ʼtis", "dont youre tis ");
    folds_to("É e\u0301 Ñandú Й", "e e nandu и ");
    folds_to("ÇA été — très «bien»", "ca ete tres bien ");
    folds_to("3.14 x2 ٣", "3 14 x2 ٣ ");
    folds_to("謝謝。觀看!", "謝謝 觀看 ");
    folds_to("시청해 주셔서", "시청해 주셔서 ");
    folds_to("\u200ba\u00adb\u200d c\ufeff", "ab c ");
    folds_to("a\xff"
             "b",
             "a b ");
    folds_to("a\xe2\x82", "a ");
    folds_to("\u0301\u0301", "");
    folds_to("😀 ok 👩‍👧", "ok ");
}

TEST(test_folded_long)
{
    static char text[3 * 100000 + 1];
    static struct folded f;

    for (int i = 0; i < 100000; i++)
        memcpy(text + 3 * i, "語", 3);
    folded_make(&f, text);
    assert_int_equal(f.len, FOLDED_MAX);
    memset(text, ' ', sizeof(text) - 1);
    folded_make(&f, text);
    assert_int_equal(f.len, 0);
    /* Marks without end on one letter are left out one by one. */
    text[0] = 'e';
    for (int i = 1; i + 2 < (int)sizeof(text); i += 2)
        memcpy(text + i, "\u0301", 2);
    folded_make(&f, text);
    assert_true(f.len >= 2 && f.len <= 3);
    assert_int_equal(f.at[0], 'e');
}

static void loops(const char *text, bool want)
{
    static struct folded f;

    folded_make(&f, text);
    if (repetition_loops(&f) != want)
        fail_msg("'%s' %s a loop", text, want ? "is" : "is not");
}

TEST(test_loops)
{
    static const char *const are[] = {
        "you you you",
        "You, you, you, you.",
        " Thank you. Thank you. Thank you.",
        "I'm going to go. I'm going to go. I'm going to go. I'm going to go.",
        "uno uno uno uno uno uno",
        "ご視聴ありがとうございました。ご視聴ありがとうございました。ご視聴ありがとうございました"
        "。",
        "ご視聴ありがとうございましたご視聴ありがとうございましたご視聴ありがとうございましたご視聴"
        "ありがとうございました",
        "谢谢大家谢谢大家谢谢大家谢谢大家",
        "Good evening. and the and the and the and the and the and the and the",
        "We begin with the news of the day, and it is this that we say to you: no no no no no no "
        "no no",
        "ababababababababababababababababababab",
        "हां हां हां हां",
        "สวัสดี สวัสดี สวัสดี",
        "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0",
        "la-la-la-la-la-la",
    };
    static const char *const are_not[] = {
        "",
        "a",
        "...",
        "you",
        "you you",
        "It is very, very good.",
        "It was a very, very, very long day for all of us.",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "one two three four five six seven",
        "My number is 555 5555, again: 555 5555.",
        "000 000 000",
        "1000000",
        "10 20 30 40 50 60 70 80 90 100",
        "twenty one, twenty two, twenty three, twenty four, twenty five",
        "banana",
        "Hahaha!",
        "Mmmm.",
        "Mississippi",
        "哈哈哈哈",
        "Thank you. Thank you.",
        "The first, the second, the third and the fourth.",
        "No, no. That is not what I said, no.",
        "To be, or not to be, that is the question.",
        "He said that she said that he said it.",
        "天天向上, 好好学习",
    };

    for (size_t i = 0; i < sizeof(are) / sizeof(*are); i++)
        loops(are[i], true);
    for (size_t i = 0; i < sizeof(are_not) / sizeof(*are_not); i++)
        loops(are_not[i], false);
}

/* Whatever period a long text has, and wherever: found; and no text reads beyond its ends. */
TEST(test_loops_hostile)
{
    static struct folded f;

    for (uint32_t period = 2; period <= 400; period += 7) {
        f.len = 0;
        for (uint32_t i = 0; i < period * 5 && i < FOLDED_MAX; i++)
            f.at[f.len++] = i % period == period - 1 ? ' ' : (int32_t)(0x4E00 + i % period);
        assert_true(repetition_loops(&f));
    }
    for (uint32_t i = 0; i < FOLDED_MAX; i++)
        f.at[i] = (int32_t)(0x4E00 + i);
    f.len = FOLDED_MAX;
    assert_false(repetition_loops(&f));
    for (uint32_t i = 0; i < FOLDED_MAX; i++)
        f.at[i] = 'a';
    assert_true(repetition_loops(&f));
    f.len = 2;
    assert_false(repetition_loops(&f));
    f.len = 0;
    assert_false(repetition_loops(&f));
}

static void phrase(const char *text, enum silence_phrase want)
{
    static struct folded f;
    enum silence_phrase have;

    folded_make(&f, text);
    have = silence_phrase_find(&f);
    if (have != want)
        fail_msg("'%s': %d, not %d", text, (int)have, (int)want);
}

TEST(test_phrases)
{
    static const char *const typical[] = {
        "Thanks for watching!",
        " THANK YOU FOR WATCHING.",
        "Thanks for watching! Don't forget to like and subscribe.",
        "Thank you. Thanks for watching.",
        "Subtitles by the Amara.org community",
        "Subtitles by: someone",
        "Untertitel der Amara.org-Community",
        "Untertitelung des ZDF, 2020",
        "Vielen Dank für's Zuschauen!",
        "Sous-titres réalisés par la communauté d'Amara.org",
        "Sous-titrage ST' 501",
        "Subtítulos realizados por la comunidad de Amara.org",
        "¡Gracias por ver el vídeo!",
        "Sottotitoli creati dalla comunità Amara.org",
        "Legendas pela comunidade Amara.org",
        "Субтитры сделал DimaTorzok",
        "Продолжение следует...",
        "Редактор субтитров А.Семкин Корректор А.Егорова",
        "Napisy stworzone przez społeczność Amara.org",
        "ご視聴ありがとうございました",
        "ご視聴ありがとうございました。ご視聴ありがとうございました。",
        "謝謝觀看!",
        "字幕by索兰娅",
        "请不吝点赞 订阅 转发 打赏支持明镜与点点栏目",
        "시청해 주셔서 감사합니다.",
        "İzlediğiniz için teşekkürler.",
        "Cảm ơn các bạn đã theo dõi!",
        "شكرا للمشاهدة",
        "[Music]",
        "♪ ♪",
        "...",
        "",
    };
    static const char *const common[] = {"Thank you.", "you",    "Thank you. Bye.",
                                         "Gracias.",   "Merci.", "谢谢。",
                                         "OK",         "Danke.", "Спасибо."};
    static const char *const none[] = {
        "Thank you for coming.",
        "Thanks for watching the children.",
        "You know",
        "So we begin.",
        "Music was his life.",
        "The translation by Constance Garnett appeared in the year nineteen hundred and twelve in "
        "London, and was read by everybody who could read.",
        "I said thanks for watching",
        "谢谢你的帮助",
        "Danke schön, Herr Doktor.",
        "Subtitlesby",
        "farmer from the south.",
        "字",
    };

    for (size_t i = 0; i < sizeof(typical) / sizeof(*typical); i++)
        phrase(typical[i], SILENCE_PHRASE_TYPICAL);
    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
        phrase(common[i], SILENCE_PHRASE_COMMON);
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        phrase(none[i], SILENCE_PHRASE_NONE);
}

TEST_MAIN(NULL, NULL)
