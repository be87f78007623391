/* nightshift score: word and character error rates of transcripts against references, and with
 * --der diarization error rates of turns against turns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "store/read/read.h"
#include "store/store.h"
#include "tools/cli/cli.h"
#include "tools/score/pairs.h"
#include "tools/score/score_der.h"
#include "tools/cli/text.h"
#include "tools/commands/commands.h"
#include "tools/export/transcript.h"
#include "workers/models/files/model_dir.h"
#include "tools/score/normalize.h"
#include "tools/score/score.h"

struct wanted {
    int normalizer; /* -1: by language */
    const char *language, *spellings, *model;
    bool cer, diff;
    bool rttm, collar_said; /* --der */
    struct der_params der;
};

static int take_collar(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;
    char *end;

    w->collar_said = true;
    w->der.collar_s = strtod(value, &end);
    return end != value && *end == 0 && w->der.collar_s >= 0.0 && w->der.collar_s <= 3600.0
               ? 0
               : err_set(err, ERR_USAGE, "--collar wants seconds such as 0.25, not '%s'", value);
}

static int take_normalizer(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    w->normalizer = normalizer_from_name(value);
    return w->normalizer >= 0
               ? 0
               : err_set(err, ERR_USAGE, "--normalizer is english, basic or none, not '%s'", value);
}

static int take_language(void *wanted, const char *value, struct err *err)
{
    struct wanted *w = wanted;

    w->language = cli_language(value);
    if (!utf8_valid(value, strlen(value)))
        return err_set(err, ERR_USAGE, "--language wants a name or code such as Spanish or es");
    return value[0] && strlen(w->language) < CUES_LANGUAGE_LEN
               ? 0
               : err_set(err, ERR_USAGE,
                         "--language wants a name or code such as Spanish or es, not '%.60s'",
                         value);
}

/* The scores of one pair. */
struct result {
    struct score words, characters;
    enum normalizer normalizer;
    bool letters, scored;
    char language[CUES_LANGUAGE_LEN];
};

struct scoring {
    const struct cli *cli;
    const struct wanted *w;
    struct store *store;
    struct spellings *spellings;
    char *spellings_model; /* owned: whose they are; NULL: a file's */
    struct pairs pairs;
    struct result *results; /* one for each pair */
    struct score words, characters;
    uint64_t scored, missing, bad;
    bool any_english, any_basic, unknown_language, any_letters;
};

/* ------------------------------------------------------------------------------- one pair */

static int put_segment(void *arg, const struct read_segment *row)
{
    buf_put(arg, row->text, strlen(row->text));
    buf_put_u8(arg, '\n');
    return 0;
}

static int text_of_recording(struct scoring *s, int64_t id, char **ret, struct err *err)
{
    struct buf text = BUF_INIT;
    int rc = read_heard(s->store, id, 0, put_segment, &text, err); /* not what people mended */

    if (rc == 0 && !buf_cstr(&text))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc != 0) {
        buf_free(&text);
        return rc;
    }
    *ret = (char *)text.data;
    return 0;
}

/* Both texts as they are, and what is spoken. */
static int read_pair(struct scoring *s, const struct pair *p, char *texts[2], struct result *r,
                     struct err *err)
{
    char ours[CUES_LANGUAGE_LEN] = "", theirs[CUES_LANGUAGE_LEN] = "";
    int rc = transcript_read(p->reference, &texts[0], theirs, err);

    if (rc == 0)
        rc = p->hypothesis ? transcript_read(p->hypothesis, &texts[1], ours, err)
                           : text_of_recording(s, p->media_id, &texts[1], err);
    if (!p->hypothesis)
        utf8_copy(ours, sizeof(ours), p->language);
    utf8_copy(r->language, sizeof(r->language),
              s->w->language ? s->w->language
              : ours[0]      ? ours
                             : theirs);
    return rc;
}

static int normalize_both(struct scoring *s, char *texts[2], struct result *r, struct err *err)
{
    struct normalize_options o = {.spellings = s->spellings};
    int rc = 0;

    r->normalizer = s->w->normalizer >= 0            ? (enum normalizer)s->w->normalizer
                    : strcmp(r->language, "en") == 0 ? NORMALIZE_ENGLISH
                                                     : NORMALIZE_BASIC;
    r->letters = r->normalizer == NORMALIZE_BASIC && normalize_wants_letters(r->language);
    o.normalizer = r->normalizer;
    o.split_letters = r->letters;
    for (int i = 0; rc == 0 && i < 2; i++) {
        char *plain = NULL;

        rc = normalize(&o, texts[i], strlen(texts[i]), &plain, err);
        if (rc == 0) {
            free(texts[i]);
            texts[i] = plain;
        }
    }
    return rc;
}

static int put_step(void *arg, enum score_step step, struct score_word ref, struct score_word hyp)
{
    struct buf *out = arg;

    if (out->len > 0)
        buf_put_u8(out, ' ');
    if (step == SCORE_SAME)
        buf_put(out, ref.s, ref.len);
    if (step == SCORE_DELETED || step == SCORE_SUBSTITUTED)
        buf_printf(out, "[-%.*s-]", (int)ref.len, ref.s);
    if (step == SCORE_SUBSTITUTED)
        buf_put_u8(out, ' ');
    if (step == SCORE_INSERTED || step == SCORE_SUBSTITUTED)
        buf_printf(out, "{+%.*s+}", (int)hyp.len, hyp.s);
    return 0;
}

static int show_difference(const struct pair *p, char *texts[2], struct err *err)
{
    struct buf out = BUF_INIT;
    int rc = score_diff(texts[0], texts[1], put_step, &out, err);
    char *shown = NULL;

    if (rc == 0 && (out.failed || !(shown = utf8_display(out.data, out.len))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        cli_paint(stdout, "1", p->name);
        fputs("\n  ", stdout);
        cli_wrap(stdout, shown, 2, 2);
        putchar('\n');
    }
    free(shown);
    buf_free(&out);
    return rc;
}

static int score_pair(struct scoring *s, const struct pair *p, struct result *r, struct err *err)
{
    char *texts[2] = {NULL, NULL};
    int rc = read_pair(s, p, texts, r, err);

    if (rc == 0)
        rc = normalize_both(s, texts, r, err);
    if (rc == 0)
        rc = score_words(texts[0], texts[1], &r->words, err);
    if (rc == 0 && s->w->cer)
        rc = score_characters(texts[0], texts[1], &r->characters, err);
    if (rc == 0 && s->w->diff)
        rc = show_difference(p, texts, err);
    free(texts[0]);
    free(texts[1]);
    return rc;
}

/* A file that is bad is said and left out; without memory nothing more can be done. */
static int score_all(struct scoring *s, struct err *err)
{
    for (size_t i = 0; i < s->pairs.n; i++) {
        const struct pair *p = &s->pairs.list[i];
        struct result *r = &s->results[i];
        struct err why = {0};

        if (p->missing) {
            cli_note("%s.", p->missing);
            s->missing++;
            continue;
        }
        if (score_pair(s, p, r, &why) != 0) {
            if (why.code == ERR_NOMEM) {
                *err = why;
                return why.code;
            }
            cli_note("%s: %s.", p->name, why.msg);
            s->bad++;
            continue;
        }
        r->scored = true;
        s->scored++;
        score_add(&s->words, &r->words);
        score_add(&s->characters, &r->characters);
        s->any_english |= r->normalizer == NORMALIZE_ENGLISH;
        s->any_basic |= r->normalizer == NORMALIZE_BASIC;
        s->any_letters |= r->letters;
        s->unknown_language |= s->w->normalizer < 0 && r->language[0] == 0;
    }
    return 0;
}

/* ------------------------------------------------------------------------------- for people */

static void print_rate(const struct score *s)
{
    if (s->reference > 0)
        printf("%7.2f %%", 100 * score_rate(s));
    else
        printf("%9s", "-");
}

#define NUMBERS_WIDE 46 /* columns of what stands behind the name */
#define NUMBERS_NARROW 28

static void print_row(const struct scoring *s, const char *name, const struct score *words,
                      const struct score *characters)
{
    unsigned columns = cli_columns(stdout);
    bool wide = columns >= 72;
    size_t width = columns - (wide ? NUMBERS_WIDE : NUMBERS_NARROW);
    char *shown = text_fit(name, width);

    printf("%s%*s", shown ? shown : "", shown ? (int)(width - text_width(shown)) : (int)width, "");
    free(shown);
    printf(" %9llu", (unsigned long long)words->reference);
    if (wide)
        printf(" %5llu %5llu %5llu", (unsigned long long)words->substitutions,
               (unsigned long long)words->deletions, (unsigned long long)words->insertions);
    print_rate(words);
    if (s->w->cer)
        print_rate(characters);
    putchar('\n');
}

/* Do the scored pairs have several languages? */
static bool has_languages(const struct scoring *s)
{
    const char *first = NULL;

    for (size_t i = 0; i < s->pairs.n; i++) {
        const char *language = s->results[i].language;

        if (s->results[i].scored && first && strcmp(language, first) != 0)
            return true;
        if (s->results[i].scored)
            first = language;
    }
    return false;
}

static void print_pair(const struct scoring *s, size_t i, bool language)
{
    const struct result *r = &s->results[i];
    struct buf name = BUF_INIT;

    buf_printf(&name, "%s", s->pairs.list[i].name);
    if (language)
        buf_printf(&name, " (%s)", r->language[0] ? r->language : "?");
    print_row(s, buf_cstr(&name) ? buf_cstr(&name) : "", &r->words, &r->characters);
    buf_free(&name);
}

static void print_table(const struct scoring *s)
{
    const bool languages = has_languages(s);
    unsigned columns = cli_columns(stdout);
    bool wide = columns >= 72;
    char total[64], count[TEXT_LEN];

    printf("%-*s %9s", (int)(columns - (wide ? NUMBERS_WIDE : NUMBERS_NARROW)), "", "words");
    if (wide)
        printf(" %5s %5s %5s", "sub", "del", "ins");
    printf("%9s%s\n", "WER", s->w->cer ? "      CER" : "");
    for (size_t i = 0; i < s->pairs.n && !s->cli->quiet; i++)
        if (s->results[i].scored)
            print_pair(s, i, languages);
    if (s->pairs.n > 1 || s->cli->quiet) {
        snprintf(total, sizeof(total), "all %s", text_count(s->scored, count));
        print_row(s, total, &s->words, &s->characters);
    }
}

static void print_sentence(const char *text) { cli_wrap(stdout, text, 0, 0); }

static void print_rules(const struct scoring *s)
{
    char line[512], unified[TEXT_LEN + 160], count[TEXT_LEN];

    putchar('\n');
    snprintf(unified, sizeof(unified), "%s spellings were unified%s%.120s",
             s->spellings ? text_count(spellings_count(s->spellings), count) : "",
             s->spellings_model ? " by the table of " : "",
             s->spellings_model ? s->spellings_model : "");
    snprintf(line, sizeof(line), "Normalised by Whisper's English rules%s; %s.",
             s->any_basic ? ", what is not English by its basic ones" : "",
             s->spellings ? unified
                          : "British and American spellings were not unified: `nightshift model "
                            "pull` fetches a table with a model of Whisper's (--spellings)");
    if (s->any_english)
        print_sentence(line);
    else if (s->any_basic)
        print_sentence("Normalised by Whisper's basic rules.");
    if (!s->any_english && !s->any_basic)
        print_sentence("Not normalised: case and punctuation count.");
    if (s->unknown_language)
        print_sentence("Some transcripts have no language. For English rules, try --language en.");
    if (s->any_letters)
        print_sentence(
            "In languages without blanks between words, each character counts as a word.");
}

/* ------------------------------------------------------------------------------- for programs */

static json_t *score_json(const struct score *s)
{
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "reference", (json_int_t)s->reference,
                  "hypothesis", (json_int_t)s->hypothesis, "errors", (json_int_t)score_errors(s),
                  "substitutions", (json_int_t)s->substitutions, "deletions",
                  (json_int_t)s->deletions, "insertions", (json_int_t)s->insertions);

    if (o)
        json_object_set_new(o, "rate", s->reference ? json_real(score_rate(s)) : json_null());
    return o;
}

static json_t *pair_json(const struct scoring *s, const struct pair *p, const struct result *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", p->name, "language", r->language,
                          "normalizer", normalizer_name(r->normalizer), "letters", r->letters,
                          "spellings_unified", r->normalizer == NORMALIZE_ENGLISH && s->spellings);

    if (!o)
        return NULL;
    if (p->media_id > 0)
        json_object_set_new(o, "recording", json_integer(p->media_id));
    json_object_set_new(o, "words", score_json(&r->words));
    if (s->w->cer)
        json_object_set_new(o, "characters", score_json(&r->characters));
    return o;
}

static void print_json(const struct scoring *s)
{
    json_t *o = json_object(), *pairs = json_array();

    for (size_t i = 0; i < s->pairs.n; i++)
        if (s->results[i].scored)
            json_array_append_new(pairs, pair_json(s, &s->pairs.list[i], &s->results[i]));
    json_object_set_new(o, "pairs", pairs);
    json_object_set_new(o, "spellings",
                        !s->spellings        ? json_null()
                        : s->spellings_model ? json_string(s->spellings_model)
                                             : json_string(s->w->spellings));
    json_object_set_new(o, "scored", json_integer((json_int_t)s->scored));
    json_object_set_new(o, "missing", json_integer((json_int_t)s->missing));
    json_object_set_new(o, "unreadable", json_integer((json_int_t)s->bad));
    json_object_set_new(o, "words", score_json(&s->words));
    if (s->w->cer)
        json_object_set_new(o, "characters", score_json(&s->characters));
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(o);
}

/* ------------------------------------------------------------------------------- the command */

static int open_table(struct scoring *s, const char *dir, struct err *err)
{
    struct buf path = BUF_INIT;
    int rc;

    buf_printf(&path, "%s/normalizer.json", dir);
    rc = path.failed ? err_set(err, ERR_NOMEM, "out of memory")
                     : spellings_open(buf_cstr(&path), &s->spellings, err);
    buf_free(&path);
    return rc;
}

/* The first that has a table which can be read. */
static void on_model(void *arg, const char *name, const char *dir)
{
    struct scoring *s = arg;
    struct err none = {0};

    if (!s->spellings && open_table(s, dir, &none) == 0)
        s->spellings_model = utf8_display(name, strlen(name));
}

static int open_spellings(struct scoring *s, struct err *err)
{
    char *dir = NULL;
    struct err none = {0};
    int rc;

    if (s->w->spellings)
        return strcmp(s->w->spellings, "none") == 0
                   ? 0
                   : spellings_open(s->w->spellings, &s->spellings, err);
    if (!s->w->model) {
        (void)model_dir_list(on_model, s, &none); /* without models, without a table */
        return 0;
    }
    rc = model_dir_find(s->w->model, &dir, err);
    if (rc == 0)
        rc = open_table(s, dir, err);
    if (rc == 0)
        s->spellings_model = utf8_display(s->w->model, strlen(s->w->model));
    free(dir);
    return rc;
}

static int find_pairs(struct cli *cli, struct scoring *s, const char *reference,
                      const char *hypothesis)
{
    struct err err = {0};
    int rc;

    if (hypothesis) {
        rc = pairs_of_files(&s->pairs, reference, hypothesis, &err);
    } else {
        if (cli_catalog(cli, false, &err) != 0)
            return cli_fail("find the catalog", &err, NULL);
        if (store_open(cli->catalog, STORE_READ, &s->store, &err) != 0)
            return cli_fail("open the catalog", &err,
                            err.code == ERR_MISSING
                                ? "Try `nightshift score REFERENCE HYPOTHESIS` with two files."
                                : NULL);
        rc = pairs_of_catalog(&s->pairs, reference, s->store, &err);
    }
    return rc == 0 ? -1 : cli_fail("score", &err, "Check the names (ls -l).");
}

static int score_and_print(const struct cli *cli, struct scoring *s)
{
    struct err err = {0};

    s->results = calloc(s->pairs.n + 1, sizeof(*s->results));
    if (!s->results) {
        err_set(&err, ERR_NOMEM, "out of memory");
        return cli_fail("score", &err, NULL);
    }
    if (score_all(s, &err) != 0)
        return cli_fail("score", &err, NULL);
    if (cli->json)
        print_json(s);
    else if (s->scored > 0)
        print_table(s);
    if (!cli->json && !cli->quiet && s->scored > 0)
        print_rules(s);
    if (s->scored > 0 && s->words.reference == 0)
        cli_note("the reference has no words in it, so that there is no rate. Try another one.");
    if (s->bad > 0 || (s->scored > 0 && s->words.reference == 0))
        return cli_flush(EX_DATAERR);
    return cli_flush(s->missing > 0 ? EX_NOINPUT : EX_OK);
}

/* -1: go on; else the status to leave with. */
static int check_der(const struct cli *cli, const struct wanted *w, int operands)
{
    if (!w->rttm && (w->collar_said || w->der.skip_overlap))
        return cli_usage(cli, "--collar and --skip-overlap belong to --der");
    if (!w->rttm)
        return -1;
    if (w->normalizer >= 0 || w->language || w->spellings || w->model || w->cer || w->diff)
        return cli_usage(cli, "--der compares who speaks, not words; with --collar and "
                              "--skip-overlap alone");
    return operands == 2 ? -1 : cli_usage(cli, "--der wants two RTTM files");
}

static const struct command_option options[] = {
    {COMMAND_READ("normalizer", 'n', take_normalizer, "N",
                  "english, basic or none (default: english for English, otherwise basic)"),
     .manual = "How both texts are normalised before they are compared: by Whisper's English rules "
               "(numbers, contractions, fillers, punctuation), by its basic rules (case, "
               "punctuation), or not at all. The default is english for English, otherwise basic."},
    {COMMAND_READ("language", 'l', take_language, "NAME",
                  "the language, as Spanish or es (default: that of the transcript)"),
     .manual = "The language, by its name or code. The default is that of the transcript. Chinese, "
               "Japanese, Thai, Lao, Burmese and Cantonese are counted in characters."},
    {COMMAND_VALUE(COMMAND_TEXT, "spellings", 0, wanted, spellings, "FILE",
                   "a JSON table of British and American spellings that count as the same; none: "
                   "they differ (default: the table of a Whisper model that is here)")},
    {COMMAND_VALUE(COMMAND_TEXT, "model", 'm', wanted, model, "NAME",
                   "use the spelling table of this model; it does not choose the results to score"),
     .manual = "Use the spelling table that this model carries (`normalizer.json`). Without either "
               "option, different spellings count as errors if there is no table; the result says "
               "which it is. The option does not choose the results to score."},
    {COMMAND_SWITCH("cer", 0, wanted, cer, "also character error rates")},
    {COMMAND_SWITCH("diff", 0, wanted, diff,
                    "show where they differ: [-reference-] {+transcript+}")},
    {COMMAND_SWITCH("der", 0, wanted, rttm, "diarization error rates of two RTTM files instead"),
     .manual =
         "Compare who speaks when instead of words: REFERENCE and HYPOTHESIS are two RTTM files. "
         "The diarization error rate is the time of missed speech, false speech and wrong "
         "speakers, divided by the speech of the reference. Two people who speak at once count "
         "twice. Names of speakers do not matter: those who agree longest are matched. Recordings "
         "are matched by their names in the files. The numbers are those of pyannote.metrics."},
    {COMMAND_READ("collar", 0, take_collar, "SECONDS",
                  "with --der: ignore this much around each boundary of the reference, half on "
                  "either side (default: 0)")},
    {COMMAND_SWITCH("skip-overlap", 0, wanted, der.skip_overlap,
                    "with --der: ignore overlapping speakers of the reference")},
    {0},
};

const struct command command_score = {
    .name = "score",
    .usage = "[OPTION]... REFERENCE [HYPOTHESIS]\n"
             "--der [OPTION]... REFERENCE.rttm HYPOTHESIS.rttm",
    .about =
        "Count wrong words: compare HYPOTHESIS with REFERENCE, two files (txt, srt, vtt, tsv, "
        "json) or two folders with files of the same names. Without HYPOTHESIS, the current "
        "transcripts of the catalog are compared (see `nightshift pin`). Their recordings must be "
        "named as the references are.\nBoth texts are first normalised, as is usual for Whisper's "
        "error rates. Words are substituted (sub), left out (del) or inserted (ins). The word "
        "error rate (WER) is their sum divided by the number of reference words.",
    .notes = "Chinese, Japanese, Thai, Lao, Burmese and Cantonese are counted in characters, since "
             "they have no blanks between words.",
    .options = options,
    .json = "the result as JSON",
    .quiet = "print only the total",
    .examples = "score interview.reference.txt interview.srt --language en --diff\n"
                "score references/ transcripts/ --cer\n"
                "score references/          # against the catalog\n"
                "score --der reference.rttm found.rttm --collar 0.25",
    .statuses = "0; 65 if a file is not a transcript, or the reference has no words; 66 if a "
                "reference has no counterpart; others: see sysexits.h.",
};

int cmd_score(struct cli *cli, int argc, char **argv)
{
    struct wanted w = {.normalizer = -1};
    struct scoring s = {.cli = cli, .w = &w};
    struct err err = {0};
    int status = command_parse(cli, &command_score, &w, argc, argv), operands;

    if (status >= 0)
        return status;
    operands = argc - optind;
    status = check_der(cli, &w, operands);
    if (status >= 0)
        return status;
    if (w.rttm)
        return score_der(cli, argv[optind], argv[optind + 1], &w.der);
    if (operands < 1 || operands > 2)
        return cli_usage(cli, operands < 1 ? "name a reference"
                                           : "name one reference and one transcript");
    if (w.diff && cli->json)
        return cli_usage(cli, "--diff is for people, --json for programs; one of them");
    if (w.spellings && w.model)
        return cli_usage(cli, "--spellings or --model, not both");
    if (open_spellings(&s, &err) != 0)
        status = cli_fail("use the table of spellings", &err,
                          "Try --spellings FILE with another one, or without it.");
    else
        status = find_pairs(cli, &s, argv[optind], operands == 2 ? argv[optind + 1] : NULL);
    if (status < 0)
        status = score_and_print(cli, &s);
    pairs_free(&s.pairs);
    spellings_free(s.spellings);
    store_close(s.store);
    free(s.spellings_model);
    free(s.results);
    return status;
}
