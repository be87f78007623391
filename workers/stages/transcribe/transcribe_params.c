/* The parameters of the transcribe stage: their table, and what they must agree on. */
#include <stdio.h>
#include <string.h>

#include "workers/models/silero/silero.h"
#include "workers/stages/hearing_params.h"
#include "workers/stages/transcribe/transcribe_params.h"

#define FIELD(field, of) .name = #field, .kind = PARAM_##of, PARAM_AT(transcribe_params, field)
#define HOUR_MS 3600000

/* Those that are `always` written are the first catalogs'. */
static const struct param_field fields[] = {
    {FIELD(language, TEXT), .always = true, .letter = 'l', .value = "NAME,...",
     .help = "en, spanish ..., or several: en,de (default: detected)",
     .manual = "The spoken language, by its code or its English name, such as en or Spanish. With "
               "up to 8 languages, Nightshift detects which of these it is. Without this option, "
               "it detects the language among all."},
    {FIELD(translate, BOOL), .always = true,
     .help = "translate into English; the same as --task=translate"},

    {HEARING_CHANNELS(transcribe_params), .value = "WHICH",
     .title = "Audio tracks and channels, for every stage",
     .help = "auto (default), mix, split, or the number of one channel",
     .manual =
         "One of auto, mix, split and the number of a channel. auto, the default: if different "
         "people speak in the channels, one microphone each, each channel is transcribed by "
         "itself, and has voices of its own; otherwise all channels are mixed. mix: all channels "
         "are mixed to one. split: each channel by itself. A number, from 1 on: only that channel; "
         "a recording without it fails. What a catalog has mixed already stays so, unless auto is "
         "given. This holds for every stage that listens."},
    {HEARING_TRACKS(transcribe_params), .value = "WHICH",
     .help = "best (default), all, or numbers of audio tracks: 1,3",
     .manual =
         "One of best, all and numbers of audio tracks. best, the default: the track that players "
         "would choose. Numbers, from 1 on and ascending: those of these tracks that a recording "
         "has. Several tracks are transcribed each by itself, in its own language. The view "
         "'recordings' says what was left out. This holds for every stage that listens."},

    {FIELD(vad_model, TEXT), .option = "vad", .value = "WHEN",
     .title = "Voice activity detection (Silero's model)",
     .help = "auto (default: on if its model is here), on, off, or the model's file",
     .manual = "One of auto, on and off, or the model's file or folder. The default, auto, is on "
               "if a models directory has the model as 'silero-vad', and otherwise off, with a "
               "message. Recordings that were enqueued before the model was there stay as they "
               "are, unless --again is given. Speech is packed into windows, and Whisper never "
               "sees silence. With off, Whisper's own windows of 30 seconds follow each other. The "
               "parameters have faster-whisper's names and meanings."},
    {FIELD(vad_hash, TEXT)},
    {FIELD(vad_threshold, FLOAT), .high = 1, .value = "P",
     .help = "speech starts above this probability (0.5)",
     .manual = "Speech starts where the model's probability is at least this (0.5)."},
    {FIELD(vad_neg_threshold, FLOAT), .high = 1, .unset = true, .value = "P",
     .help = "speech ends below this probability (0.15 less)",
     .manual = "Speech ends where the probability falls below this (0.15 less)."},
    {FIELD(vad_min_speech_duration_ms, U32), .high = HOUR_MS, .value = "N",
     .help = "ignore shorter speech (0)"},
    {FIELD(vad_min_silence_duration_ms, U32), .high = HOUR_MS, .value = "N",
     .help = "ignore shorter pauses (160)"},
    {FIELD(vad_speech_pad_ms, U32), .high = 10000, .value = "N",
     .help = "keep this much before and after speech (400; at most 10000)"},

    {FIELD(multilingual, BOOL), .title = "Languages",
     .help = "detect the language of each stretch of speech (default)",
     .manual =
         "Detect the language of each stretch of speech, since it may change in a recording. This "
         "is the default, unless --language names one language or the model knows only one."},
    {FIELD(language_detection_segments, U32), .low = 1, .high = 16, .value = "N",
     .help = "windows to check until one is sure (4; at most 16)",
     .manual = "Windows with speech to check until one is sure (4; at most 16). If none is, the "
               "most frequent language is taken. Only with voice activity; without it, the first "
               "window with speech decides."},
    {FIELD(language_detection_threshold, FLOAT), .high = 1, .value = "P",
     .help = "probability that counts as sure (0.5)"},

    {FIELD(beam_size, U32), .low = 1, .high = 16, .value = "N", .title = "Decoding",
     .help = "beams at temperature 0 (5; 1: greedy)"},
    {FIELD(best_of, U32), .low = 1, .high = 16, .value = "N",
     .help = "candidates at temperatures above 0 (5)",
     .manual = "Candidates at temperatures above 0; the likeliest is taken (5)."},
    {FIELD(patience, FLOAT), .low = 0.1, .high = 10, .value = "X",
     .help = "above 1, beams search longer (1)",
     .manual = "The search ends when X times the beam size hypotheses have ended (1)."},
    {FIELD(length_penalty, FLOAT), .high = 10, .unset = true, .value = "X",
     .help =
         "exponent of Google's length penalty, up to 10 (default: rank by mean log probability)",
     .manual = "Exponent of the length penalty for comparing hypotheses of different lengths. "
               "Without it, their mean log probabilities are compared."},
    {FIELD(temperatures, FLOATS), .high = 2, .always = true, .option = "temperature",
     .count = offsetof(struct transcribe_params, temperature_count), .value = "T,...",
     .help = "try these in turn until a window looks right: up to 8 rising numbers from 0 to 2 "
             "(0,0.2,0.4,0.6,0.8,1)"},
    {FIELD(max_tokens, U32), .high = 100000, .always = true, .value = "N", .option_low = 1,
     .option_high = 448,
     .help = "most tokens of a 30 s window, up to 448 (half of the model's positions)",
     .manual = "Most tokens of a window of 30 seconds. The limit is the model's positions without "
               "its own three, or five with --word-timestamps."},
    {FIELD(without_timestamps, BOOL), .help = "one segment per window"},
    {FIELD(max_initial_timestamp, FLOAT), .high = 30, .unset = true, .value = "S",
     .help = "latest start of a window's first text, in seconds (the model's: 1)",
     .manual = "The latest second at which a window's first text may begin (what the model says, "
               "mostly 1)."},
    {FIELD(condition_on_previous_text, BOOL),
     .help = "show the model the previous window's text; needs --vad=off",
     .manual = "The model sees the previous window's text. Only without voice activity."},
    {FIELD(prompt_reset_on_temperature, FLOAT), .high = 2, .value = "T",
     .help = "but not text decoded above this temperature (0.5)",
     .manual = "But not if that text was decoded at a temperature above this (0.5)."},
    {FIELD(initial_prompt, TEXT), .value = "TEXT",
     .help = "text to put before each shard (with voice activity: each window), for names and "
             "style; up to 223 tokens",
     .manual =
         "Text that the model sees as if it had been said before: names, spelling, style; up to "
         "223 tokens. It goes before every window of voice activity. Without voice activity, it "
         "goes before the first window of each shard (about five minutes of a recording)."},
    {FIELD(hotwords, TEXT), .value = "TEXT", .help = "names and words to expect; up to 223 tokens",
     .manual =
         "Words to expect, put before every window that has no other prompt; up to 223 tokens."},
    {FIELD(suppress_tokens, TOKENS), .value = "N,...",
     .count = offsetof(struct transcribe_params, suppress_count),
     .flag = offsetof(struct transcribe_params, suppress_model),
     .help = "tokens never to write; -1: the model's list (default)",
     .manual = "Tokens never to write. -1, the default, is the model's own list; an empty value "
               "allows all tokens."},

    {FIELD(sparse_silence, BOOL),
     .help = "faster for short recordings on a processor; some words differ",
     .manual = "A window that has little speech is computed faster: the model sees the silence "
               "behind the speech at every eighth place. Recordings of a few seconds gain most. "
               "Some words differ, for better or worse. GPUs ignore this."},

    {FIELD(compression_ratio_threshold, FLOAT), .high = 1000, .always = true, .option_low = 1,
     .option_high = 1000, .value = "X", .title = "When a text is rejected",
     .help = "try again above this ratio: the text repeats itself (2.4)",
     .manual = "A window whose text compresses better than this repeats itself, and is tried again "
               "(2.4)."},
    {FIELD(logprob_threshold, FLOAT), .low = -1000, .always = true, .option_low = -100,
     .value = "X", .help = "try again below this mean log probability (-1)",
     .manual = "A window with a lower mean log probability is tried again (-1)."},
    {FIELD(no_speech_threshold, FLOAT), .high = 1, .always = true, .value = "P",
     .help = "a window above this probability is silence (0.6)",
     .manual = "A window with a higher probability of silence has no text (0.6)."},

    {FIELD(word_timestamps, BOOL), .title = "Word times", .help = "a time for each word",
     .manual =
         "A time for each word, in the catalog's table 'word' and in JSON and WebVTT. Existing "
         "text that was made with the same other options is kept, and its words get their times."},
    {FIELD(hallucination_silence_threshold, FLOAT), .high = 3600, .value = "S",
     .help = "drop words that look invented beside a silence of S seconds"},
};

/* A stage that says nothing is what the first catalogs had; `enqueue` asks for the second. */
#define PARAMS(heard, hypotheses, many)                                                          \
    {                                                                                            \
        .hearing = heard, .temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f},                  \
        .temperature_count = 6, .compression_ratio_threshold = 2.4f, .logprob_threshold = -1.0f, \
        .no_speech_threshold = 0.6f, .beam_size = (hypotheses), .best_of = (hypotheses),         \
        .multilingual = (many), .patience = 1.0f, .length_penalty = -1.0f,                       \
        .max_initial_timestamp = -1.0f, .prompt_reset_on_temperature = 0.5f,                     \
        .suppress_model = true, .language_detection_segments = 4,                                \
        .language_detection_threshold = 0.5f, .vad_threshold = 0.5f, .vad_neg_threshold = -1.0f, \
        .vad_min_silence_duration_ms = 160, .vad_speech_pad_ms = 400,                            \
    }
static const struct transcribe_params usual = PARAMS(HEARING_USUAL, 1, false);
static const struct transcribe_params asked = PARAMS(HEARING_ASKED, 5, true);

bool transcribe_next_language(const char **list, char ret[TRANSCRIBE_CODE_LEN])
{
    const char *at = *list;
    size_t n = strcspn(at, ",");

    if (!at[0])
        return false;
    snprintf(ret, TRANSCRIBE_CODE_LEN, "%.*s", (int)n, at);
    *list = at + n + (at[n] == ',');
    return true;
}

bool transcribe_many_languages(const struct transcribe_params *p)
{
    return strchr(p->language, ',') != NULL;
}

/* Equal lists must be equal texts, or one stage would become two: so they are ascending. */
static int check_language(const char *list, struct err *err)
{
    char code[TRANSCRIBE_CODE_LEN], last[TRANSCRIBE_CODE_LEN] = "";
    uint32_t n = 0;

    if (strspn(list, "abcdefghijklmnopqrstuvwxyz-_,") < strlen(list))
        return err_set(err, ERR_USAGE, "the language must be a code in lower case, as 'en'");
    for (const char *at = list, *begin = at; transcribe_next_language(&at, code); begin = at) {
        if (strcspn(begin, ",") >= sizeof(code))
            return err_set(err, ERR_USAGE, "the code of a language has %zu letters at most",
                           sizeof(code) - 1);
        if (strcmp(last, code) >= 0) /* an empty one, too */
            return err_set(err, ERR_USAGE,
                           "several languages must be codes in ascending order, as 'de,en'");
        memcpy(last, code, sizeof(last));
        n++;
    }
    if (list[0] && list[strlen(list) - 1] == ',')
        return err_set(err, ERR_USAGE, "the languages '%.63s' end with a comma", list);
    if (n > TRANSCRIBE_LANGUAGES_MAX)
        return err_set(err, ERR_USAGE, "%u languages are too many; the limit is %d", n,
                       TRANSCRIBE_LANGUAGES_MAX);
    return 0;
}

static int check_vad(const struct transcribe_params *p, struct err *err)
{
    int rc = silero_check(p->vad_model, p->vad_hash, err);

    if (rc != 0 || p->vad_model[0] == 0)
        return rc;
    if (p->condition_on_previous_text)
        return err_set(err, ERR_USAGE,
                       "condition_on_previous_text works without voice activity alone: speech "
                       "that it has cut is decoded in any order");
    if (p->vad_neg_threshold >= 0 && p->vad_neg_threshold > p->vad_threshold)
        return err_set(err, ERR_USAGE, "vad_neg_threshold is %g, above vad_threshold, %g",
                       (double)p->vad_neg_threshold, (double)p->vad_threshold);
    return 0;
}

static int check_transcribe_params(const void *params, struct err *err)
{
    const struct transcribe_params *p = params;
    int rc = check_language(p->language, err);

    if (rc == 0)
        rc = hearing_check(&p->hearing, err);
    if (rc == 0)
        rc = check_vad(p, err);
    if (rc != 0)
        return rc;
    if (p->hallucination_silence_threshold > 0 && !p->word_timestamps)
        return err_set(err, ERR_USAGE,
                       "hallucination_silence_threshold goes by word times: word_timestamps must "
                       "be on");
    if (p->multilingual && p->language[0] && !transcribe_many_languages(p))
        return err_set(err, ERR_USAGE,
                       "multilingual asks each window for its language, and language says which "
                       "it is: one of them must go");
    return 0;
}

const struct param_table transcribe_table = {.what = "transcription",
                                             PARAM_TABLE(transcribe_params, fields, &usual),
                                             .asked = &asked,
                                             .check = check_transcribe_params};

void transcribe_params_default(struct transcribe_params *p)
{
    param_table_default(&transcribe_table, p);
}

int transcribe_params_check(const struct transcribe_params *p, struct err *err)
{
    return param_table_check(&transcribe_table, p, err);
}

int transcribe_params_to_json(const struct transcribe_params *p, char **ret, struct err *err)
{
    return param_table_to_json(&transcribe_table, p, ret, err);
}

int transcribe_params_from_json(const char *json, struct transcribe_params *ret, struct err *err)
{
    return param_table_from_json(&transcribe_table, json, ret, err);
}

int transcribe_params_untimed(const char *json, char **ret, struct err *err)
{
    struct transcribe_params p;
    int rc = transcribe_params_from_json(json, &p, err);

    *ret = NULL;
    if (rc || !p.word_timestamps || p.hallucination_silence_threshold > 0)
        return rc;
    p.word_timestamps = false;
    return transcribe_params_to_json(&p, ret, err);
}
