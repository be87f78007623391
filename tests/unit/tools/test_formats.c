/* Transcripts as files: byte for byte. */
#include "tests/common/test.h"

#include <math.h>

#include <jansson.h>

#include "tools/export/formats.h"

static const struct format_recording recording = {.id = 7,
                                                  .duration_ms = 5000,
                                                  .path = "/a/\"x\"\\n.wav",
                                                  .member = "in/side.mp3",
                                                  .state = "done",
                                                  .language = "en",
                                                  .title = "tab\there",
                                                  .recorded_on = "2003-05",
                                                  .damage = ""};

static const struct format_segment segments[] = {
    {.start_ms = 0,
     .end_ms = 1234,
     .text = "hello <i>there</i> & you --> me",
     .language = "en",
     .speaker = "",
     .avg_logprob = -0.25,
     .no_speech_prob = 0.5,
     .compression_ratio = 1.5,
     .temperature = 0,
     .attempts = 2,
     .speech_prob = 0.25,
     .reason = "tried again: \"x\""},
    {.start_ms = 360000000,
     .end_ms = 360000000,
     .heard = "to \"line\"",
     .text = "two\r\nlines\tand\n\na gap\x7f\xc2\x9b",
     .language = "en",
     .speaker = "A <B>",
     .avg_logprob = NAN,
     .no_speech_prob = NAN,
     .compression_ratio = NAN,
     .temperature = NAN,
     .speech_prob = NAN,
     .reason = ""},
};

static char *written(enum format format, size_t n)
{
    static char out[4096];
    struct buf b = BUF_INIT;

    format_begin(&b, format, &recording);
    for (size_t i = 0; i < n; i++)
        format_segment(&b, format, i, &segments[i]);
    format_end(&b, format, n);
    assert_false(b.failed);
    snprintf(out, sizeof(out), "%s", n == 0 && b.len == 0 ? "" : buf_cstr(&b));
    buf_free(&b);
    return out;
}

TEST(txt)
{
    assert_string_equal(written(FORMAT_TXT, 2), "hello <i>there</i> & you --> me\n"
                                                "A <B>: two lines and  a gap  \n");
    assert_string_equal(written(FORMAT_TXT, 0), "");
}

TEST(srt)
{
    assert_string_equal(written(FORMAT_SRT, 2), "1\n"
                                                "00:00:00,000 --> 00:00:01,234\n"
                                                "hello <i>there</i> & you -> me\n"
                                                "\n"
                                                "2\n"
                                                "100:00:00,000 --> 100:00:00,001\n"
                                                "[A <B>] two lines and  a gap  \n"
                                                "\n");
}

TEST(vtt)
{
    assert_string_equal(written(FORMAT_VTT, 2),
                        "WEBVTT\n"
                        "\n"
                        "00:00:00.000 --> 00:00:01.234\n"
                        "hello &lt;i&gt;there&lt;/i&gt; &amp; you --&gt; me\n"
                        "\n"
                        "100:00:00.000 --> 100:00:00.001\n"
                        "<v A &lt;B&gt;>two lines and  a gap  \n"
                        "\n");
    assert_string_equal(written(FORMAT_VTT, 0), "WEBVTT\n\n");
}

TEST(tsv)
{
    assert_string_equal(written(FORMAT_TSV, 2), "start\tend\ttext\n"
                                                "0\t1234\thello <i>there</i> & you --> me\n"
                                                "360000000\t360000000\ttwo lines and  a gap  \n");
}

TEST(json)
{
    json_error_t e;
    json_t *o = json_loads(written(FORMAT_JSON, 2), 0, &e), *s;

    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "path")), recording.path);
    assert_string_equal(json_string_value(json_object_get(o, "title")), recording.title);
    assert_int_equal(json_array_size(json_object_get(o, "segments")), 2);
    s = json_array_get(json_object_get(o, "segments"), 1);
    assert_string_equal(json_string_value(json_object_get(s, "text")), segments[1].text);
    assert_string_equal(json_string_value(json_object_get(s, "heard")), segments[1].heard);
    assert_true(json_is_null(json_object_get(s, "avg_logprob")));
    s = json_array_get(json_object_get(o, "segments"), 0);
    assert_null(json_object_get(s, "heard"));
    assert_true(fabs(json_number_value(json_object_get(s, "avg_logprob")) + 0.25) < 1e-6);
    json_decref(o);
    o = json_loads(written(FORMAT_JSON, 0), 0, &e);
    assert_non_null(o);
    assert_int_equal(json_array_size(json_object_get(o, "segments")), 0);
    json_decref(o);
}

static const struct format_word words[] = {
    {1000, 1500, " Fish", 0.5, "", 0, 0}, {1500, 1500, " &", 0.25, "", 0, 0},
    {1500, 1800, " chips", 1, "", 0, 0},  {1800, 2600, "-to-go.", NAN, "", 0, 0},
    {2600, 2700, " Yes. ", 0, "", 0, 0},
};
static const struct format_segment spoken = {.start_ms = 1000,
                                             .end_ms = 2600,
                                             .text = "Fish & chips-to-go. Yes.",
                                             .language = "en",
                                             .speaker = "",
                                             .reason = "",
                                             .words = words,
                                             .word_count = 5,
                                             .time_words = true};

static const char *cue_of(const struct format_segment *s)
{
    static char out[1024];
    struct buf b = BUF_INIT;

    format_segment(&b, FORMAT_VTT, 0, s);
    snprintf(out, sizeof(out), "%s", buf_cstr(&b));
    buf_free(&b);
    return strchr(out, '\n') + 1;
}

/* A time only where it is later than the last and before the cue's end; the text as it was. */
TEST(vtt_with_times_of_words)
{
    struct format_segment s = spoken;

    assert_string_equal(cue_of(&s), "<c>Fish</c><00:00:01.500><c> &amp;</c><c> chips</c>"
                                    "<00:00:01.800><c>-to-go.</c><c> Yes. </c>\n\n");
    s.time_words = false;
    assert_string_equal(cue_of(&s), "Fish &amp; chips-to-go. Yes.\n\n");
    /* A text that was corrected by hand, shortened, or made longer is not the words'. */
    s.time_words = true;
    s.text = "Fish & chips to go. Yes.";
    assert_string_equal(cue_of(&s), "Fish &amp; chips to go. Yes.\n\n");
    s.text = "Fish & chips-to-go.";
    assert_string_equal(cue_of(&s), "Fish &amp; chips-to-go.\n\n");
    s.text = "Fish & chips-to-go. Yes. No.";
    assert_string_equal(cue_of(&s), "Fish &amp; chips-to-go. Yes. No.\n\n");
    s.word_count = 0;
    assert_string_equal(cue_of(&s), "Fish &amp; chips-to-go. Yes. No.\n\n");
}

TEST(json_with_words)
{
    struct buf b = BUF_INIT;
    json_error_t e;
    json_t *o, *list;

    format_segment(&b, FORMAT_JSON, 0, &spoken);
    o = json_loads(buf_cstr(&b), 0, &e);
    assert_non_null(o);
    list = json_object_get(o, "words");
    assert_int_equal(json_array_size(list), 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "word")), " &");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 2), "end_ms")), 1800);
    assert_true(json_is_null(json_object_get(json_array_get(list, 3), "probability")));
    assert_true(json_is_null(json_object_get(o, "attempts")));
    json_decref(o);
    buf_clear(&b);
    format_segment(&b, FORMAT_JSON, 0, &segments[0]);
    o = json_loads(buf_cstr(&b), 0, &e);
    assert_non_null(o);
    assert_null(json_object_get(o, "words"));
    assert_int_equal(json_integer_value(json_object_get(o, "attempts")), 2);
    assert_true(json_real_value(json_object_get(o, "speech_prob")) == 0.25);
    assert_string_equal(json_string_value(json_object_get(o, "reason")), segments[0].reason);
    json_decref(o);
    buf_free(&b);
}

TEST(every_character_survives_json)
{
    struct buf b = BUF_INIT;
    char all[256];
    json_error_t e;
    json_t *o;

    for (int i = 1; i < 128; i++)
        all[i - 1] = (char)i;
    memcpy(all + 127, "\xC3\xA9\xE2\x80\xA8\xF0\x9F\x8E\xA4", 10);
    format_json_string(&b, all);
    o = json_loads(buf_cstr(&b), JSON_DECODE_ANY, &e);
    assert_non_null(o);
    assert_string_equal(json_string_value(o), all);
    json_decref(o);
    buf_free(&b);
}

TEST(rttm_of_turns)
{
    const struct format_recording odd = {.path = "/a/tape\t3\xc2\xa0x.b.wav", .member = ""};
    const struct format_recording wide = {.path = "/a/\xe4\xbc\x9a\xe8\xad\xb0\xe3\x80\x80"
                                                  "2020.wav",
                                          .member = ""};
    const struct format_recording second = {.path = "/a/t.tar", .member = "in/take.wav (2)"};
    const struct format_recording hidden = {.path = "/a/.wav", .member = ""};
    struct buf b = BUF_INIT;

    format_begin(&b, FORMAT_RTTM, &odd);
    format_segment(&b, FORMAT_RTTM, 0, &segments[0]);
    format_turn(&b, FORMAT_RTTM, &second, 0, &(struct format_turn){0, 1, "x", "A"});
    format_turn(&b, FORMAT_RTTM, &odd, 0,
                &(struct format_turn){0, 1234, "Ana Ruiz\n\xc2\x9b", "A"});
    format_turn(&b, FORMAT_RTTM, &recording, 1, &(struct format_turn){3600000, 3600050, "", "A"});
    format_turn(&b, FORMAT_RTTM, &hidden, 2, &(struct format_turn){5, 5, "x", "A"});
    format_turn(&b, FORMAT_SRT, &odd, 3, &(struct format_turn){0, 1, "x", "A"});
    format_list(&b, FORMAT_RTTM, "sounds", 4);
    format_sound(&b, FORMAT_RTTM, 0, &(struct format_sound){0, 1, "x", 1});
    format_turn(
        &b, FORMAT_RTTM, &wide, 4,
        &(struct format_turn){
            0, 1000,
            "\xe1\x9a\x80\xe2\x80\x80\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\xa8\xe2\x80\xa9\xe2\x80"
            "\xaf\xe2\x81\x9f\xe3\x80\x80\xe3\x80",
            "A"});
    format_end(&b, FORMAT_RTTM, 5);
    assert_string_equal(buf_cstr(&b),
                        "SPEAKER take.wav_(2) 1 0.000 0.001 <NA> <NA> x <NA> <NA>\n"
                        "SPEAKER tape_3_x.b 1 0.000 1.234 <NA> <NA> Ana_Ruiz__ <NA> <NA>\n"
                        "SPEAKER side 1 3600.000 0.050 <NA> <NA> _ <NA> <NA>\n"
                        "SPEAKER .wav 1 0.005 0.000 <NA> <NA> x <NA> <NA>\n"
                        "SPEAKER \xe4\xbc\x9a\xe8\xad\xb0_2020 1 0.000 1.000 <NA> <NA> "
                        "___\xe2\x80\x8b_____\xe3\x80 <NA> <NA>\n");
    buf_free(&b);
}

/* Behind the segments, however many there are of each. */
TEST(json_of_turns_and_sounds)
{
    for (unsigned n = 0; n < 27; n++) {
        const unsigned counts[] = {n % 3, n / 3 % 3, n / 9};
        static const char *const lists[] = {"segments", "turns", "sounds"};
        struct buf b = BUF_INIT;
        json_error_t e;
        json_t *o;

        format_begin(&b, FORMAT_JSON, &recording);
        for (unsigned i = 0; i < counts[0]; i++)
            format_segment(&b, FORMAT_JSON, i, &segments[i]);
        format_list(&b, FORMAT_JSON, "turns", counts[0]);
        for (unsigned i = 0; i < counts[1]; i++)
            format_turn(&b, FORMAT_JSON, &recording, i,
                        &(struct format_turn){i, 1000 + i, "\"Ana\"", "SPEAKER_01"});
        format_list(&b, FORMAT_JSON, "sounds", counts[1]);
        for (unsigned i = 0; i < counts[2]; i++)
            format_sound(&b, FORMAT_JSON, i, &(struct format_sound){i, 2000 + i, "Bell\n", 0.25});
        format_end(&b, FORMAT_JSON, counts[2]);
        o = json_loads(buf_cstr(&b), JSON_REJECT_DUPLICATES, &e);
        assert_non_null(o);
        for (int k = 0; k < 3; k++)
            assert_int_equal(json_array_size(json_object_get(o, lists[k])), counts[k]);
        json_decref(o);
        if (n == 13)
            assert_non_null(strstr(
                buf_cstr(&b),
                "}\n  ],\n  \"turns\": [\n    {\"start_ms\": 0, \"end_ms\": 1000, \"speaker\": "
                "\"\\\"Ana\\\"\", \"label\": \"SPEAKER_01\"}\n  ],\n  \"sounds\": [\n    "
                "{\"start_ms\": 0, "
                "\"end_ms\": 2000, \"sound\": \"Bell\\n\", \"score\": 0.25}\n  ]\n}\n"));
        buf_free(&b);
    }
}

/* What is known of it comes last. */
TEST(json_of_tags_and_chapters)
{
    for (unsigned n = 0; n < 9; n++) {
        struct buf b = BUF_INIT;
        json_error_t e;
        json_t *o;

        format_begin(&b, FORMAT_JSON, &recording);
        format_list(&b, FORMAT_JSON, "tags", 0);
        for (unsigned i = 0; i < n % 3; i++)
            format_tag(&b, FORMAT_JSON, i, &(struct format_tag){"csv", "\"box\"", "7\n8"});
        format_list(&b, FORMAT_JSON, "chapters", n % 3);
        for (unsigned i = 0; i < n / 3; i++)
            format_chapter(&b, FORMAT_JSON, i, &(struct format_chapter){i, 9, "Harbour"});
        format_end(&b, FORMAT_JSON, n / 3);
        o = json_loads(buf_cstr(&b), JSON_REJECT_DUPLICATES, &e);
        assert_non_null(o);
        assert_string_equal(json_string_value(json_object_get(o, "recorded_on")), "2003-05");
        assert_int_equal(json_array_size(json_object_get(o, "tags")), n % 3);
        assert_int_equal(json_array_size(json_object_get(o, "chapters")), n / 3);
        json_decref(o);
        if (n == 4)
            assert_non_null(strstr(buf_cstr(&b),
                                   "\"tags\": [\n    {\"key\": \"\\\"box\\\"\", \"value\": "
                                   "\"7\\n8\", \"source\": \"csv\"}\n  ],\n  \"chapters\": "
                                   "[\n    {\"start_ms\": 0, \"end_ms\": 9, \"title\": "
                                   "\"Harbour\"}\n  ]\n}\n"));
        buf_free(&b);
    }
    struct buf b = BUF_INIT;

    format_tag(&b, FORMAT_SRT, 0, &(struct format_tag){"csv", "box", "7"});
    format_chapter(&b, FORMAT_TSV, 0, &(struct format_chapter){0, 9, "Harbour"});
    assert_int_equal(b.len, 0);
}

TEST(names_round_trip)
{
    for (int f = FORMAT_TXT; f <= FORMAT_RTTM; f++)
        assert_int_equal(format_from_name(format_name((enum format)f)), f);
    assert_int_equal(format_from_name("docx"), -1);
    assert_int_equal(format_from_name(""), -1);
}

TEST_MAIN(NULL, NULL)
