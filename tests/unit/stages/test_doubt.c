/* Which signs make a segment doubtful, and which of them drop it. */
#include "tests/common/test.h"

#include <math.h>

#include "workers/stages/transcribe/outcome/doubt.h"

static struct transcribe_params params;

/* Two seconds of somebody's good speech; voice not measured. */
static const struct doubt_facts good = {
    .text = "We meet at the station on Tuesday.",
    .language = "en",
    .start_ms = 1000,
    .end_ms = 3000,
    .avg_logprob = -0.2f,
    .no_speech_prob = 0.01f,
    .compression_ratio = 1.1f,
    .attempts = 1,
    .speech_prob = -1.0f,
};

static uint32_t signs_of(struct doubt_facts f) { return doubt_signs(&f, &params); }

#define WITH(...) (change = good, __VA_ARGS__, change)

static struct doubt_facts change;

TEST(test_each_sign)
{
    assert_int_equal(signs_of(good), 0);
    assert_int_equal(signs_of(WITH(change.no_speech_prob = 0.61f)), DOUBT_NO_SPEECH);
    assert_int_equal(signs_of(WITH(change.no_speech_prob = 0.6f)), 0);
    assert_int_equal(signs_of(WITH(change.avg_logprob = -1.01f)), DOUBT_UNLIKELY);
    assert_int_equal(signs_of(WITH(change.compression_ratio = 2.5f)), DOUBT_REPETITIVE);
    assert_int_equal(signs_of(WITH(change.text = "Thank you. Thank you. Thank you.")), DOUBT_LOOP);
    assert_int_equal(signs_of(WITH(change.text = "Thanks for watching!")), DOUBT_PHRASE);
    assert_int_equal(signs_of(WITH(change.attempts = 3)), DOUBT_TRIED_AGAIN);
    assert_int_equal(signs_of(WITH(change.attempts = 2, change.was_unlikely = true)),
                     DOUBT_TRIED_AGAIN | DOUBT_WAS_UNLIKELY);
    /* What an attempt was refused for says nothing where there was one alone. */
    assert_int_equal(signs_of(WITH(change.was_repetitive = true)), 0);
}

TEST(test_no_numbers)
{
    assert_int_equal(signs_of(WITH(change.avg_logprob = NAN)), 0);
    assert_int_equal(signs_of(WITH(change.no_speech_prob = NAN)), 0);
    assert_int_equal(signs_of(WITH(change.compression_ratio = NAN)), 0);
    assert_int_equal(signs_of(WITH(change.speech_prob = NAN)), 0);
}

TEST(test_voice)
{
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.9f)), DOUBT_VOICE);
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.3f)), 0);
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.05f)), DOUBT_NO_VOICE);
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.0f)), DOUBT_NO_VOICE);
    /* A word of 0.6 s in twenty seconds. */
    assert_int_equal(signs_of(WITH(change.end_ms = 21000, change.speech_prob = 0.03f)), 0);
    assert_int_equal(signs_of(WITH(change.end_ms = 21000, change.speech_prob = 0.01f)),
                     DOUBT_NO_VOICE);
}

/* Who lowers the threshold below which speech ends has fainter voices. */
TEST(test_faint_voice)
{
    params.vad_neg_threshold = 0.03f;
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.05f)), 0);
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.02f)), DOUBT_NO_VOICE);
    params.vad_neg_threshold = -1;
    params.vad_threshold = 0.2f; /* ends below 0.05 */
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.06f)), 0);
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.04f)), DOUBT_NO_VOICE);
    params.vad_threshold = 0.9f;
    assert_int_equal(signs_of(WITH(change.speech_prob = 0.2f)), 0);
    transcribe_params_default(&params);
}

/* "Thank you." alone is no sign; where nobody is heard, it is. */
TEST(test_common_phrases)
{
    assert_int_equal(signs_of(WITH(change.text = "Thank you.")), 0);
    assert_int_equal(signs_of(WITH(change.text = "Thank you.", change.avg_logprob = -1.2f)),
                     DOUBT_UNLIKELY);
    assert_int_equal(signs_of(WITH(change.text = "Thank you.", change.no_speech_prob = 0.9f)),
                     DOUBT_NO_SPEECH);
    assert_int_equal(signs_of(WITH(change.text = "Thank you.", change.no_speech_prob = 0.9f,
                                   change.avg_logprob = -1.2f)),
                     DOUBT_NO_SPEECH | DOUBT_UNLIKELY | DOUBT_PHRASE);
    assert_int_equal(
        signs_of(WITH(change.text = "Thanks for watching!", change.no_speech_prob = 0.9f)),
        DOUBT_NO_SPEECH | DOUBT_PHRASE);
    assert_int_equal(signs_of(WITH(change.text = "Thank you.", change.speech_prob = 0.01f)),
                     DOUBT_NO_VOICE | DOUBT_PHRASE);
    /* Applause behind it makes the model unsure; a voice is a voice. */
    assert_int_equal(signs_of(WITH(change.text = "Thank you.", change.no_speech_prob = 0.9f,
                                   change.speech_prob = 0.3f)),
                     DOUBT_NO_SPEECH);
}

static void pace(const char *text, int64_t ms, bool odd)
{
    uint32_t signs = signs_of(WITH(change.text = text, change.end_ms = change.start_ms + ms));

    if (((signs & DOUBT_PACE) != 0) != odd)
        fail_msg("'%s' in %d ms", text, (int)ms);
}

TEST(test_pace)
{
    static const char spoken[] = "We meet at the station on Tuesday, all of us who were there.";
    static const char han[] = "今天天气很好我们一起去公园散步然后回家吃饭";
    static const char kana[] = "きょうはとてもいいてんきですねこうえんにいきましょう";

    pace(spoken, 3000, false);
    pace(spoken, 1000, false); /* times are that wrong at times */
    pace(spoken, 500, true);
    pace("Yes.", 0, false);
    pace("Yes.", 20, false);
    pace(spoken, 0, true);
    pace(han, 3000, false);
    pace(han, 1000, true);
    pace(kana, 2000, false);
    pace(kana, 700, true);
    pace("안녕하세요 여러분 오늘도 좋은 하루 보내세요 감사합니다", 3000, false);
    pace("안녕하세요 여러분 오늘도 좋은 하루 보내세요 감사합니다", 1000, true);
    pace("1995", 1500, false);
    /* Few: weak, and of long segments alone. */
    pace("Yes.", 9000, false);
    pace("Yes.", 29000, true);
    pace("No, I do not think that we should.", 29000, true);
    pace("No, I do not think that we should.", 20000, false);
    pace("好的", 29000, true);
    /* The end before the begin is no time at all. */
    pace(spoken, -500, true);
    /* Too little is not too much. */
    assert_int_equal(signs_of(WITH(change.text = "Yes.", change.end_ms = change.start_ms + 29000)),
                     DOUBT_PACE);
    assert_int_equal(signs_of(WITH(change.text = spoken, change.end_ms = change.start_ms + 500)),
                     DOUBT_PACE | DOUBT_FAST);
}

static void words(uint32_t n, const struct result_word *w, bool odd)
{
    uint32_t signs = signs_of(WITH(change.words = w, change.word_count = n));

    assert_int_equal((signs & DOUBT_WORDS) != 0, odd);
}

TEST(test_words)
{
    struct result_word w[] = {
        {1000, 1300, " We", 0.9f},
        {1300, 1360, " a", 0.9f}, /* short words are short */
        {1360, 1700, " meet", 0.9f},
        {1700, 1700, ".", 0.01f}, /* punctuation does not count */
    };

    words(0, NULL, false);
    words(4, w, false);
    w[0].probability = 0.1f;
    words(4, w, false);
    w[1].end_ms = 3400;
    words(4, w, true);
    w[1] = (struct result_word){1300, 1300, " miscellaneous", 0.9f};
    words(4, w, true);
    w[0].probability = 0.9f;
    words(4, w, false);
    words(1, w + 1, true);
    words(1, w + 3, false); /* punctuation alone */
}

TEST(test_drops)
{
    static const uint32_t dropped[] = {
        DOUBT_NO_SPEECH | DOUBT_NO_VOICE,
        DOUBT_NO_SPEECH | DOUBT_NO_VOICE | DOUBT_TRIED_AGAIN | DOUBT_PACE,
        DOUBT_UNLIKELY | DOUBT_NO_VOICE,
        DOUBT_PHRASE | DOUBT_NO_VOICE,
        DOUBT_PHRASE | DOUBT_NO_SPEECH,
        DOUBT_PHRASE | DOUBT_UNLIKELY,
        DOUBT_LOOP | DOUBT_NO_VOICE,
        DOUBT_LOOP | DOUBT_REPETITIVE,
        DOUBT_LOOP | DOUBT_REPETITIVE | DOUBT_UNLIKELY | DOUBT_VOICE,
        DOUBT_LOOP | DOUBT_PACE | DOUBT_FAST | DOUBT_VOICE,
    };
    static const uint32_t kept[] = {
        0,
        DOUBT_VOICE,
        DOUBT_NO_SPEECH | DOUBT_UNLIKELY | DOUBT_VOICE,
        DOUBT_PHRASE | DOUBT_VOICE,
        DOUBT_PHRASE | DOUBT_NO_SPEECH | DOUBT_VOICE,
        DOUBT_PHRASE | DOUBT_UNLIKELY | DOUBT_VOICE,
        DOUBT_PHRASE | DOUBT_LOOP,
        DOUBT_LOOP | DOUBT_NO_SPEECH,
        DOUBT_LOOP | DOUBT_REPETITIVE | DOUBT_VOICE,
        DOUBT_PACE | DOUBT_WORDS | DOUBT_TRIED_AGAIN | DOUBT_WAS_REPETITIVE | DOUBT_WAS_UNLIKELY,
        DOUBT_NO_VOICE | DOUBT_PACE | DOUBT_WORDS,
        DOUBT_LOOP | DOUBT_PACE,
        DOUBT_PACE | DOUBT_FAST | DOUBT_WORDS | DOUBT_REPETITIVE,
    };

    for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++)
        assert_true(doubt_drops(dropped[i]));
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        assert_false(doubt_drops(kept[i]));
    /* No sign drops alone. */
    for (uint32_t bit = 1; bit <= DOUBT_FAST; bit <<= 1)
        assert_false(doubt_drops(bit));
}

/* More doubts never save a text, and a voice never costs one. */
TEST(test_drops_monotone)
{
    for (uint32_t s = 0; s < 2 * DOUBT_FAST; s++) {
        if (s & DOUBT_VOICE && doubt_drops(s))
            assert_true(doubt_drops(s & ~(uint32_t)DOUBT_VOICE));
        for (uint32_t bit = 1; bit <= DOUBT_FAST; bit <<= 1)
            if (bit != DOUBT_VOICE && doubt_drops(s))
                assert_true(doubt_drops(s | bit));
    }
}

/* Scenes from archives. */
TEST(test_scenes)
{
    /* A talk ends, voice activity on: it was said. */
    assert_false(doubt_drops(signs_of(
        WITH(change.text = "Thank you very much. Thank you.", change.speech_prob = 0.8f))));
    assert_false(
        doubt_drops(signs_of(WITH(change.text = "Thanks for watching!", change.speech_prob = 0.8f,
                                  change.no_speech_prob = 0.7f))));
    /* Tape noise. */
    assert_true(doubt_drops(signs_of(
        WITH(change.text = "Thank you.", change.end_ms = 31000, change.speech_prob = 0.01f))));
    assert_true(doubt_drops(signs_of(WITH(change.text = "you", change.end_ms = 31000,
                                          change.no_speech_prob = 0.8f, change.avg_logprob = -2))));
    /* Said between long pauses, without voice activity. */
    assert_false(
        doubt_drops(signs_of(WITH(change.text = "Thank you.", change.no_speech_prob = 0.8f))));
    assert_false(doubt_drops(signs_of(WITH(change.text = "Bye.", change.no_speech_prob = 0.8f))));
    assert_true(doubt_drops(signs_of(
        WITH(change.text = "Subtitles by the Amara.org community", change.no_speech_prob = 0.7f))));
    /* A stadium. */
    assert_false(doubt_drops(
        signs_of(WITH(change.text = "Go, go, go, go, go, go, go, go!", change.speech_prob = 0.6f,
                      change.compression_ratio = 2.6f, change.attempts = 6))));
    /* A whisper that voice activity does not hear, the model well. */
    assert_false(doubt_drops(signs_of(WITH(change.speech_prob = 0.02f))));
}

/* What is really said in the samples, at its times, carries no sign. */
TEST(test_samples)
{
    static const char *const names[] = {"01_en_short",          "04_es_clean",
                                        "08_two_voices_stereo", "09_long_silences",
                                        "12_en_long_90s",       "13_es_long_45s"};
    int lines = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char rel[64], line[512], text[400];
        double start, end;
        FILE *f;

        snprintf(rel, sizeof(rel), "tests/samples/%s.tsv", names[i]);
        f = fopen(test_source_path(rel), "r");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f)) {
            if (sscanf(line, "%lf\t%lf\t%*[^\t]\t%399[^\n]", &start, &end, text) != 3)
                continue; /* the heading */
            change = good;
            change.text = text;
            change.start_ms = (int64_t)(start * 1000);
            change.end_ms = (int64_t)(end * 1000);
            if (doubt_signs(&change, &params))
                fail_msg("%s: '%s': %u", names[i], text, doubt_signs(&change, &params));
            lines++;
        }
        fclose(f);
    }
    assert_true(lines > 40);
}

static void names(uint32_t signs, const char *want)
{
    char text[DOUBT_TEXT_MAX];

    assert_ptr_equal(doubt_text(signs, text, sizeof(text)), text);
    assert_string_equal(text, want);
}

TEST(test_text)
{
    char small[12];

    names(0, "");
    names(DOUBT_VOICE, "");
    names(DOUBT_LOOP, "loop");
    names(DOUBT_TRIED_AGAIN, "tried again");
    names(DOUBT_TRIED_AGAIN | DOUBT_WAS_REPETITIVE | DOUBT_LOOP | DOUBT_PHRASE | DOUBT_VOICE,
          "tried again: repetitive; loop; silence phrase");
    names(DOUBT_TRIED_AGAIN | DOUBT_WAS_UNLIKELY | DOUBT_UNLIKELY,
          "tried again: unlikely; too unlikely");
    names(DOUBT_WAS_UNLIKELY, "");
    names(UINT32_MAX, "tried again: repetitive, unlikely; no speech; no voice; too unlikely; "
                      "beyond belief; too repetitive; loop; silence phrase; impossible pace; odd "
                      "words; beside silence");
    doubt_text(UINT32_MAX, small, sizeof(small));
    assert_string_equal(small, "tried again");
    doubt_text(UINT32_MAX, small, 1);
    assert_string_equal(small, "");
}

TEST(test_hostile)
{
    static char text[1 << 20];

    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(signs_of(WITH(change.text = text)), DOUBT_LOOP | DOUBT_PACE | DOUBT_FAST);
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\u0301", 2);
    text[sizeof(text) - 2] = 0;
    assert_int_equal(signs_of(WITH(change.text = text)), DOUBT_PHRASE); /* nothing is said */
    assert_int_equal(signs_of(WITH(change.text = "e\u0301\u0301\u0301\u0301\u0301\u0301")), 0);
    assert_int_equal(signs_of(WITH(change.text = "x")), 0);
    assert_int_equal(signs_of(WITH(change.text = "字")), 0);
    assert_int_equal(signs_of(WITH(change.text = "")), DOUBT_PHRASE);
    assert_int_equal(signs_of(WITH(change.start_ms = INT64_MAX - 1, change.end_ms = INT64_MAX)) &
                         ~(uint32_t)(DOUBT_PACE | DOUBT_FAST),
                     0);
}

/* Each said, one behind the other. */
static void put_sentence(void *arg, const char *text) { strcat(strcat(arg, "|"), text); }

static const char *say(const char *reason)
{
    static char said[4096];

    *said = 0;
    doubt_say(reason, put_sentence, said);
    return said;
}

TEST(test_each_word_has_a_sentence)
{
    uint32_t again = DOUBT_TRIED_AGAIN;
    char text[DOUBT_TEXT_MAX];

    for (uint32_t sign = 1; sign < DOUBT_VOICE; sign <<= 1) {
        doubt_text(sign >= again ? sign | again : sign, text, sizeof(text));
        if (!*text || strchr(say(text), '\'') || *say(text) != '|')
            fail_msg("'%s' is said so: '%s'", text, say(text));
    }
    doubt_text(UINT32_MAX, text, sizeof(text));
    assert_null(strchr(say(text), '\''));
    assert_non_null(strstr(say(text), "refused: they"));
    assert_string_equal(say(""), "");
    assert_string_equal(say("sung; loop;;tried again: bored; "),
                        "|It is doubted: 'sung'.|The same few words come again and again."
                        "|It is doubted: 'tried again: bored'.");
}

int main(void)
{
    transcribe_params_default(&params);
    return suite_run(NULL, NULL);
}
