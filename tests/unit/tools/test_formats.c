/* Transcripts as files: byte for byte. */
#include "tests/common/test.h"
#include "tests/common/nomem.h"

#include <math.h>

#include <jansson.h>

#include "tools/export/cues.h"
#include "tools/export/escape.h"
#include "tools/export/formats.h"

static const struct document recording = {.id = 7,
                                          .duration_ms = 5000,
                                          .path = "/a/\"x\"\\n.wav",
                                          .member = "in/side.mp3",
                                          .state = "done",
                                          .language = "en",
                                          .title = "tab\there",
                                          .recorded_on = "2003-05",
                                          .damage = ""};

static const struct document_segment segments[] = {
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

/* The file of it, freed with the next one's. */
static char *file_of(const char *format, const struct document *d, const struct format_options *o)
{
    static const struct format_options none = {.plain = true};
    static struct buf b;
    struct err err = {0};

    buf_clear(&b);
    assert_ok(formats_find(format)->write(d, o ? o : &none, &b, &err), err);
    assert_non_null(buf_cstr(&b));
    return buf_cstr(&b);
}

static char *written(const char *format, size_t n)
{
    struct document d = recording;

    d.segments = segments;
    d.segment_count = n;
    return file_of(format, &d, NULL);
}

TEST(txt)
{
    assert_string_equal(written("txt", 2), "hello <i>there</i> & you --> me\n"
                                           "A <B>: two lines and  a gap  \n");
    assert_string_equal(written("txt", 0), "");
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* SubRip has no escape: whatever stands before it, and in whichever piece, no arrow comes out. */
TEST(srt_has_no_arrow_in_a_text)
{
    static const char *const texts[] = {"a --> b", "a ---> b", "a -----> b",
                                        "-->",     "---->>",   "ab--->cd-->ef"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (int plain = 0; plain < 2; plain++) {
            const struct document_segment s = {
                .end_ms = 5000, .text = texts[i], .language = "en", .speaker = "-", .reason = ""};
            const struct format_options o = {.plain = plain};
            struct document d = recording;
            const char *text;

            d.segments = &s;
            d.segment_count = 1;
            text = file_of("srt", &d, &o);
            if (count_of(text, "-->") != count_of(text, " --> 00:00:0"))
                fail_msg("'%s' became %s", texts[i], text);
        }
}

TEST(srt)
{
    assert_string_equal(written("srt", 2), "1\n"
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
    assert_string_equal(written("vtt", 2), "WEBVTT\n"
                                           "\n"
                                           "00:00:00.000 --> 00:00:01.234\n"
                                           "hello &lt;i&gt;there&lt;/i&gt; &amp; you --&gt; me\n"
                                           "\n"
                                           "100:00:00.000 --> 100:00:00.001\n"
                                           "<v A &lt;B&gt;>two lines and  a gap  \n"
                                           "\n");
    assert_string_equal(written("vtt", 0), "WEBVTT\n\n");
}

/* A spreadsheet takes what begins so for a formula, which may ask the network. */
TEST(no_formulas_in_tables)
{
    static const char *const texts[] = {"=HYPERLINK(\"http://x\")", "+1", "-2+3", "@SUM(1)"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct document_segment s = {
            .text = texts[i], .speaker = texts[i], .language = "", .reason = ""};
        struct document d = recording;
        const char *line;
        char begins[3] = {'\t', texts[i][0], 0};

        d.segments = &s;
        d.segment_count = 1;
        line = file_of("tsv", &d, NULL);
        assert_null(strstr(line, begins));
        assert_non_null(strstr(line, texts[i]));
        begins[0] = '"';
        assert_null(strstr(file_of("csv", &d, NULL), begins));
    }
}

TEST(tsv)
{
    assert_string_equal(written("tsv", 2), "start\tend\ttext\tspeaker\n"
                                           "0\t1234\thello <i>there</i> & you --> me\t\n"
                                           "360000000\t360000000\ttwo lines and  a gap  \tA <B>\n");
}

TEST(json)
{
    json_error_t e;
    json_t *o = json_loads(written("json", 2), 0, &e), *s;

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
    o = json_loads(written("json", 0), 0, &e);
    assert_non_null(o);
    assert_int_equal(json_array_size(json_object_get(o, "segments")), 0);
    json_decref(o);
}

static const struct document_word words[] = {
    {1000, 1500, " Fish", 0.5, ""},   {1500, 1500, " &", 0.25, ""},  {1500, 1800, " chips", 1, ""},
    {1800, 2600, "-to-go.", NAN, ""}, {2600, 2700, " Yes. ", 0, ""},
};
static const struct document_segment spoken = {.start_ms = 1000,
                                               .end_ms = 2600,
                                               .text = "Fish & chips-to-go. Yes.",
                                               .language = "en",
                                               .speaker = "",
                                               .reason = "",
                                               .words = words,
                                               .word_count = 5};

static const char *cue_of(const struct document_segment *s, bool timed)
{
    const struct document d = {.path = "", .member = "", .segments = s, .segment_count = 1};
    const struct format_options o = {.words = timed, .plain = true};

    return strchr(file_of("vtt", &d, &o) + strlen("WEBVTT\n\n"), '\n') + 1;
}

/* A time only where it is later than the last and before the cue's end; the text as it was. */
TEST(vtt_with_times_of_words)
{
    struct document_segment s = spoken;

    assert_string_equal(cue_of(&s, true), "<c>Fish</c><00:00:01.500><c> &amp;</c><c> chips</c>"
                                          "<00:00:01.800><c>-to-go.</c><c> Yes. </c>\n\n");
    assert_string_equal(cue_of(&s, false), "Fish &amp; chips-to-go. Yes.\n\n");
    /* A text that was corrected by hand, shortened, or made longer is not the words'. */
    s.text = "Fish & chips to go. Yes.";
    assert_string_equal(cue_of(&s, true), "Fish &amp; chips to go. Yes.\n\n");
    s.text = "Fish & chips-to-go.";
    assert_string_equal(cue_of(&s, true), "Fish &amp; chips-to-go.\n\n");
    s.text = "Fish & chips-to-go. Yes. No.";
    assert_string_equal(cue_of(&s, true), "Fish &amp; chips-to-go. Yes. No.\n\n");
    s.word_count = 0;
    assert_string_equal(cue_of(&s, true), "Fish &amp; chips-to-go. Yes. No.\n\n");
}

TEST(json_with_words)
{
    const struct document_segment both[] = {spoken, segments[0]};
    struct document d = recording;
    json_error_t e;
    json_t *o, *all, *list;

    d.segments = both;
    d.segment_count = 2;
    all = json_loads(file_of("json", &d, NULL), 0, &e);
    assert_non_null(all);
    o = json_array_get(json_object_get(all, "segments"), 0);
    list = json_object_get(o, "words");
    assert_int_equal(json_array_size(list), 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "word")), " &");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 2), "end_ms")), 1800);
    assert_true(json_is_null(json_object_get(json_array_get(list, 3), "probability")));
    assert_true(json_is_null(json_object_get(o, "attempts")));
    o = json_array_get(json_object_get(all, "segments"), 1);
    assert_null(json_object_get(o, "words"));
    assert_int_equal(json_integer_value(json_object_get(o, "attempts")), 2);
    assert_true(json_real_value(json_object_get(o, "speech_prob")) == 0.25);
    assert_string_equal(json_string_value(json_object_get(o, "reason")), segments[0].reason);
    json_decref(all);
}

static const char *text_in(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static double number_in(const json_t *o, const char *key)
{
    assert_true(json_is_number(json_object_get(o, key)));
    return json_number_value(json_object_get(o, key));
}

/* What readers of openai-whisper's JSON look for, in its types, and what those of WhisperX's do. */
TEST(whisper_json)
{
    static const struct document_word two[] = {{61000, 61500, "Harbour", 0.5, "Ana"},
                                               {61500, 62250, " lights.", NAN, ""}};
    const struct document_segment three[] = {segments[0],
                                             {.start_ms = 61000,
                                              .end_ms = 62250,
                                              .text = "Harbour lights.",
                                              .heard = "Harbor lights.",
                                              .language = "en",
                                              .speaker = "Ana",
                                              .avg_logprob = -0.5,
                                              .no_speech_prob = 0.25,
                                              .compression_ratio = 1.25,
                                              .temperature = 0.2,
                                              .reason = "",
                                              .words = two,
                                              .word_count = 2},
                                             {.start_ms = 36000123,
                                              .end_ms = 36000999,
                                              .text = "你好",
                                              .language = "zh",
                                              .speaker = "",
                                              .reason = ""}};
    struct document d = recording;
    json_error_t e;
    json_t *o, *list, *s, *w;

    d.segments = three;
    d.segment_count = 3;
    o = json_loads(file_of("whisper-json", &d, NULL), JSON_REJECT_DUPLICATES, &e);
    assert_non_null(o);
    assert_string_equal(text_in(o, "text"), " hello <i>there</i> & you --> me Harbour lights.你好");
    assert_string_equal(text_in(o, "language"), "en");
    list = json_object_get(o, "segments");
    assert_int_equal(json_array_size(list), 3);
    s = json_array_get(list, 0);
    assert_string_equal(text_in(s, "text"), " hello <i>there</i> & you --> me");
    assert_null(json_object_get(s, "speaker"));
    assert_int_equal(json_array_size(json_object_get(s, "words")), 0);
    assert_true(json_is_array(json_object_get(s, "words")));
    s = json_array_get(list, 1);
    assert_true(json_is_integer(json_object_get(s, "id")));
    assert_int_equal(json_integer_value(json_object_get(s, "id")), 1);
    assert_int_equal(json_integer_value(json_object_get(s, "seek")), 6100);
    assert_true(number_in(s, "start") == 61 && number_in(s, "end") == 62.25);
    assert_true(number_in(s, "temperature") == 0.2 && number_in(s, "avg_logprob") == -0.5);
    assert_true(number_in(s, "compression_ratio") == 1.25);
    assert_true(number_in(s, "no_speech_prob") == 0.25);
    assert_string_equal(text_in(s, "text"), " Harbour lights.");
    assert_string_equal(text_in(s, "speaker"), "Ana");
    assert_true(json_is_array(json_object_get(s, "tokens")));
    assert_int_equal(json_array_size(json_object_get(s, "tokens")), 0);
    w = json_array_get(json_object_get(s, "words"), 0);
    assert_string_equal(text_in(w, "word"), " Harbour");
    assert_string_equal(text_in(w, "speaker"), "Ana");
    assert_true(number_in(w, "start") == 61 && number_in(w, "end") == 61.5);
    assert_true(number_in(w, "probability") == 0.5 && number_in(w, "score") == 0.5);
    w = json_array_get(json_object_get(s, "words"), 1);
    assert_string_equal(text_in(w, "word"), " lights.");
    assert_true(json_is_null(json_object_get(w, "probability")));
    assert_null(json_object_get(w, "speaker"));
    s = json_array_get(list, 2);
    assert_string_equal(text_in(s, "text"), "你好");
    assert_true(number_in(s, "start") == 36000.123 && number_in(s, "end") == 36000.999);
    list = json_object_get(o, "word_segments");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(text_in(json_array_get(list, 1), "word"), "lights.");
    assert_true(number_in(json_array_get(list, 1), "end") == 62.25);
    json_decref(o);
}

/* Without times of words there are no lists of them, as Whisper has it. */
TEST(whisper_json_without_words)
{
    struct document d = recording;
    json_error_t e;
    json_t *o = json_loads(written("whisper-json", 2), 0, &e), *s;

    assert_non_null(o);
    s = json_array_get(json_object_get(o, "segments"), 1);
    assert_null(json_object_get(s, "words"));
    assert_true(json_is_null(json_object_get(s, "avg_logprob")));
    assert_null(json_object_get(o, "word_segments"));
    json_decref(o);
    d.language = "";
    o = json_loads(file_of("whisper-json", &d, NULL), 0, &e);
    assert_non_null(o);
    assert_string_equal(text_in(o, "text"), "");
    assert_int_equal(json_array_size(json_object_get(o, "segments")), 0);
    assert_true(json_is_null(json_object_get(o, "language")));
    json_decref(o);
}

/* `score` and `correct` read it: the same texts at the same times. */
TEST(whisper_json_is_read_again)
{
    struct cues c = {0};
    struct err err = {0};

    assert_ok(cues_parse(CUES_JSON, written("whisper-json", 2), &c, &err), err);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.language, "en");
    for (size_t i = 0; i < 2; i++) {
        const char *text = (const char *)c.text.data + c.list[i].at;

        assert_string_equal(text + strspn(text, " "), segments[i].text);
        assert_int_equal(c.list[i].start_ms, segments[i].start_ms);
        assert_int_equal(c.list[i].end_ms, segments[i].end_ms);
    }
    cues_free(&c);
}

/* Its files are called as json's are: not both into one folder. */
TEST(two_formats_of_one_ending)
{
    const uint32_t json = 1u << (formats_find("json") - formats),
                   whisper = 1u << (formats_find("whisper-json") - formats),
                   srt = 1u << (formats_find("srt") - formats);
    const struct format_options none = {0};
    char why[FORMAT_ARGS_WHY];

    assert_true(format_args_fit(&none, whisper | srt, why));
    assert_true(format_args_fit(&none, json | srt, why));
    assert_false(format_args_fit(&none, json | whisper | srt, why));
    assert_non_null(strstr(why, "json and whisper-json have the same names"));
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
    escape_json(&b, all);
    o = json_loads(buf_cstr(&b), JSON_DECODE_ANY, &e);
    assert_non_null(o);
    assert_string_equal(json_string_value(o), all);
    json_decref(o);
    buf_free(&b);
}

static void assert_turn(const struct document *of, struct document_turn turn, const char *line)
{
    struct document d = *of;

    d.segments = segments;
    d.segment_count = 1;
    d.turns = &turn;
    d.turn_count = 1;
    assert_string_equal(file_of("rttm", &d, NULL), line);
}

TEST(rttm_of_turns)
{
    const struct document odd = {.path = "/a/tape\t3\xc2\xa0x.b.wav", .member = ""};
    const struct document wide = {.path = "/a/\xe4\xbc\x9a\xe8\xad\xb0\xe3\x80\x80"
                                          "2020.wav",
                                  .member = ""};
    const struct document second = {.path = "/a/t.tar", .member = "in/take.wav (2)"};
    const struct document hidden = {.path = "/a/.wav", .member = ""};

    assert_turn(&second, (struct document_turn){0, 1, "x", "A"},
                "SPEAKER take.wav_(2) 1 0.000 0.001 <NA> <NA> x <NA> <NA>\n");
    assert_turn(&odd, (struct document_turn){0, 1234, "Ana Ruiz\n\xc2\x9b", "A"},
                "SPEAKER tape_3_x.b 1 0.000 1.234 <NA> <NA> Ana_Ruiz__ <NA> <NA>\n");
    assert_turn(&recording, (struct document_turn){3600000, 3600050, "", "A"},
                "SPEAKER side 1 3600.000 0.050 <NA> <NA> _ <NA> <NA>\n");
    assert_turn(&hidden, (struct document_turn){5, 5, "x", "A"},
                "SPEAKER .wav 1 0.005 0.000 <NA> <NA> x <NA> <NA>\n");
    assert_turn(&wide,
                (struct document_turn){
                    0, 1000,
                    "\xe1\x9a\x80\xe2\x80\x80\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\xa8\xe2\x80\xa9\xe2"
                    "\x80\xaf\xe2\x81\x9f\xe3\x80\x80\xe3\x80",
                    "A"},
                "SPEAKER \xe4\xbc\x9a\xe8\xad\xb0_2020 1 0.000 1.000 <NA> <NA> "
                "___\xe2\x80\x8b_____\xe3\x80 <NA> <NA>\n");
}

/* Behind the segments, however many there are of each. */
TEST(json_of_lists)
{
    static const char *const lists[] = {"segments", "turns",    "sounds",
                                        "tags",     "chapters", "channels"};
    static const struct document_turn turns[] = {{0, 1000, "\"Ana\"", "SPEAKER_01"},
                                                 {1, 1001, "\"Ana\"", "SPEAKER_01"}};
    static const struct document_sound sounds[] = {{0, 2000, "Bell\n", 0.25}, {1, 2001, "", 1}};
    static const struct document_tag tags[] = {{"csv", "\"box\"", "7\n8"}, {"bext", "a", "b"}};
    static const struct document_chapter chapters[] = {{0, 9, "Harbour"}, {9, 10, ""}};

    static const struct result_channel channels[] = {{1, 2, 900, 1000, true},
                                                     {2, 0, -1, -1, false}};

    for (unsigned n = 0; n < 729; n++) {
        struct document d = recording;
        size_t *const counts[] = {&d.segment_count, &d.turn_count,    &d.sound_count,
                                  &d.tag_count,     &d.chapter_count, &d.channel_count};
        json_error_t e;
        json_t *o;

        d.segments = segments;
        d.turns = turns;
        d.sounds = sounds;
        d.tags = tags;
        d.chapters = chapters;
        d.channels = channels;
        for (unsigned k = 0, left = n; k < 6; k++, left /= 3)
            *counts[k] = left % 3;
        o = json_loads(file_of("json", &d, NULL), JSON_REJECT_DUPLICATES, &e);
        assert_non_null(o);
        for (unsigned k = 0; k < 6; k++)
            assert_int_equal(json_array_size(json_object_get(o, lists[k])), *counts[k]);
        assert_string_equal(json_string_value(json_object_get(o, "recorded_on")), "2003-05");
        json_decref(o);
        if (n == 364)
            assert_non_null(strstr(
                file_of("json", &d, NULL),
                "}\n  ],\n  \"turns\": [\n    {\"start_ms\": 0, \"end_ms\": 1000, \"speaker\": "
                "\"\\\"Ana\\\"\", \"label\": \"SPEAKER_01\"}\n  ],\n  \"sounds\": [\n    "
                "{\"start_ms\": 0, \"end_ms\": 2000, \"sound\": \"Bell\\n\", \"score\": 0.25}\n"
                "  ],\n  \"tags\": [\n    {\"key\": \"\\\"box\\\"\", \"value\": \"7\\n8\", "
                "\"source\": \"csv\"}\n  ],\n  \"chapters\": [\n    {\"start_ms\": 0, \"end_ms\": "
                "9, \"title\": \"Harbour\"}\n  ],\n  \"channels\": [\n    {\"track\": 1, "
                "\"channel\": 2, \"sound_ms\": 900, \"length_ms\": 1000, \"heard\": true}\n"
                "  ]\n}\n"));
        if (n == 728)
            assert_non_null(strstr(file_of("json", &d, NULL),
                                   "{\"track\": 2, \"channel\": null, \"sound_ms\": null, "
                                   "\"length_ms\": null, \"heard\": false}\n  ]\n}\n"));
    }
}

/* Of what was not believed there is nothing beside it, and the file says what it is. */
TEST(dropped)
{
    struct document d = recording;

    d.segments = segments;
    d.segment_count = 1;
    d.dropped = true;
    assert_non_null(strstr(file_of("json", &d, NULL), "\"dropped\": [\n"));
    assert_null(strstr(file_of("json", &d, NULL), "chapters"));
    assert_non_null(strstr(file_of("vtt", &d, NULL), "\n\nNOTE What was not believed"));
}

TEST(the_table)
{
    char names[256];
    struct err err = {0};
    struct buf help = BUF_INIT;

    for (unsigned f = 0; f < formats_count; f++) {
        assert_ptr_equal(formats_find(formats[f].name), &formats[f]);
        assert_true(strlen(formats[f].about) <= 56);
        assert_true(!formats[f].write != !formats[f].folder);
        assert_true(formats[f].needs & (FORMAT_TEXT | FORMAT_TURNS));
    }
    assert_null(formats_find("txtx"));
    assert_null(formats_find(""));
    formats_names(FORMAT_OPTION_WORDS, false, names, sizeof(names));
    assert_string_equal(names, "vtt, json or whisper-json");
    formats_names(0, false, names, 12);
    assert_string_equal(names, "txt, srt, v");
    assert_int_equal(formats_take("xyz", true, NULL, &err), ERR_USAGE);
    assert_non_null(strstr(err.msg, "--format is txt, srt, "));
    formats_help(&help, true);
    assert_non_null(strstr(buf_cstr(&help), "      txt              a line"));
    buf_free(&help);
}

static int write_all(void *arg, struct err *err)
{
    static const struct document_word word = {0, 9, " said", 0.5, "A"};
    static const struct document_segment s = {.text = "\"said\"",
                                              .language = "en",
                                              .speaker = "A",
                                              .reason = "",
                                              .words = &word,
                                              .word_count = 1};
    static const struct document_turn turn = {0, 9, "A", "SPEAKER_00"};
    static const struct document_sound sound = {0, 9, "Dog", 0.5};
    struct document d = recording;
    int rc = 0;

    (void)arg;
    d.segments = &s;
    d.turns = &turn;
    d.sounds = &sound;
    d.segment_count = d.turn_count = d.sound_count = 1;
    for (unsigned f = 0; rc == 0 && f < formats_count; f++) {
        const struct format_options o = {.words = true};
        struct buf b = BUF_INIT;

        if (formats[f].write)
            rc = formats[f].write(&d, &o, &b, err);
        if (rc == 0 && b.failed)
            rc = err_set(err, ERR_NOMEM, "format %u", f);
        buf_free(&b);
    }
    return rc;
}

/* Whoever puts into a buffer looks at it in the end: nothing is lost silently before. */
TEST(no_memory) { assert_true(nomem_each(write_all, NULL) > 5); }

TEST_MAIN(NULL, NULL)
