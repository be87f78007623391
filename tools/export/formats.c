#include "tools/export/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/cli/command.h"
#include "tools/export/format.h"
#include "tools/export/formats/writers.h"
#include "tools/export/html/html_format.h"

const struct format formats[] = {
    {.name = "txt",
     .ending = "txt",
     .about = "a line for each segment (the default)",
     .needs = FORMAT_TEXT,
     .write = write_txt},
    {.name = "srt",
     .ending = "srt",
     .about = "subtitles, SubRip",
     .needs = FORMAT_TEXT,
     .takes = FORMAT_OPTION_LAYOUT | FORMAT_OPTION_SOUNDS,
     .write = write_srt},
    {.name = "vtt",
     .ending = "vtt",
     .about = "subtitles, WebVTT",
     .needs = FORMAT_TEXT | FORMAT_TAGS,
     .takes = FORMAT_OPTION_WORDS | FORMAT_OPTION_LAYOUT | FORMAT_OPTION_SOUNDS,
     .dropped = true,
     .notes = true,
     .write = write_vtt},
    {.name = "ebutt",
     .ending = "ebutt.xml",
     .about = "subtitles, EBU-TT-D (TTML for broadcast and the web)",
     .needs = FORMAT_TEXT,
     .takes = FORMAT_OPTION_LAYOUT | FORMAT_OPTION_SOUNDS,
     .write = write_ebutt},
    {.name = "tsv",
     .ending = "tsv",
     .about = "milliseconds, text and speaker, with tabs between",
     .needs = FORMAT_TEXT,
     .write = write_tsv},
    {.name = "json",
     .ending = "json",
     .about = "all that is known, with the words that there are",
     .needs = FORMAT_TEXT | FORMAT_WORDS | FORMAT_TURNS | FORMAT_SOUNDS | FORMAT_TAGS,
     .takes = FORMAT_OPTION_WORDS,
     .dropped = true,
     .notes = true,
     .write = write_json},
    {.name = "whisper-json",
     .ending = "json",
     .about = "JSON as openai-whisper and WhisperX write it",
     .needs = FORMAT_TEXT | FORMAT_WORDS,
     .takes = FORMAT_OPTION_WORDS,
     .write = write_whisper_json},
    {.name = "csv",
     .ending = "csv",
     .about = "start, end, speaker and text, for spreadsheets",
     .needs = FORMAT_TEXT,
     .write = write_csv},
    {.name = "docx",
     .ending = "docx",
     .about = "a document for Word and LibreOffice, by turns",
     .needs = FORMAT_TEXT,
     .notes = true,
     .write = write_docx},
    {.name = "eaf",
     .ending = "eaf",
     .about = "ELAN: a tier for each speaker, and for their words",
     .needs = FORMAT_TEXT | FORMAT_WORDS,
     .write = write_eaf},
    {.name = "textgrid",
     .ending = "TextGrid",
     .about = "Praat: the same",
     .needs = FORMAT_TEXT | FORMAT_WORDS,
     .write = write_textgrid},
    {.name = "iiif",
     .ending = "iiif.json",
     .about = "IIIF manifest with the text as W3C annotations",
     .needs = FORMAT_TEXT,
     .takes = FORMAT_OPTION_URL,
     .write = write_iiif},
    {.name = "ohms",
     .ending = "ohms.vtt",
     .about = "WebVTT for OHMS: a cue for each segment",
     .needs = FORMAT_TEXT,
     .notes = true,
     .write = write_ohms},
    {.name = "rttm",
     .ending = "rttm",
     .about = "who speaks when",
     .needs = FORMAT_TURNS,
     .write = write_rttm},
    {.name = "html",
     .ending = "html",
     .about = "a folder of pages to read, hear and search by",
     .needs = FORMAT_TEXT,
     .takes = FORMAT_OPTION_MEDIA,
     .notes = true,
     .folder = &html_folder},
};
const unsigned formats_count = sizeof(formats) / sizeof(formats[0]);
_Static_assert(sizeof(formats) / sizeof(formats[0]) <= FORMATS_MAX, "a set has room for each");

const struct format *formats_find(const char *name)
{
    for (unsigned i = 0; i < formats_count; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static bool is_of(const struct format *f, unsigned option, bool single)
{
    return (option == 0 || (f->takes & option)) && (!single || !f->folder);
}

char *formats_names(unsigned option, bool single, char *to, size_t n)
{
    unsigned last = 0, at = 0;

    for (unsigned i = 0; i < formats_count; i++)
        last += is_of(&formats[i], option, single);
    to[0] = 0;
    for (unsigned i = 0; i < formats_count; i++)
        if (is_of(&formats[i], option, single)) {
            size_t len = strlen(to);

            at++;
            snprintf(to + len, n - len, "%s%s",
                     at == 1      ? ""
                     : at == last ? " or "
                                  : ", ",
                     formats[i].name);
        }
    return to;
}

int formats_take(const char *name, bool single, const struct format **ret, struct err *err)
{
    const struct format *f = formats_find(name);
    char names[256];

    if (!f)
        return err_set(err, ERR_USAGE, "--format is %s, not '%s'",
                       formats_names(0, single, names, sizeof(names)), name);
    if (single && f->folder)
        return err_set(err, ERR_USAGE,
                       "%s is a folder for many recordings: `nightshift export` writes it", name);
    *ret = f;
    return 0;
}

uint32_t formats_taking(unsigned option)
{
    uint32_t set = 0;

    for (unsigned i = 0; i < formats_count; i++)
        set |= (uint32_t)((formats[i].takes & option) != 0) << i;
    return set;
}

unsigned formats_needs(const struct format *f, const struct format_options *o)
{
    bool layout = (f->takes & FORMAT_OPTION_LAYOUT) && !o->plain;
    bool words = layout || (o->words && (f->takes & FORMAT_OPTION_WORDS));
    bool sounds = o->sounds && (f->takes & FORMAT_OPTION_SOUNDS);

    return f->needs | (words ? FORMAT_WORDS : 0) | (sounds ? FORMAT_SOUNDS : 0);
}

void formats_help(struct buf *out, bool single)
{
    for (unsigned i = 0; i < formats_count; i++)
        if (is_of(&formats[i], 0, single))
            buf_printf(out, "      %-17s%s\n", formats[i].name, formats[i].about);
}

void formats_values(const struct complete *c, const struct command_option *o)
{
    (void)o;
    for (unsigned i = 0; i < formats_count; i++)
        complete_put(c, formats[i].name);
}

/* ---- the options of formats, for `export` and `show` */

static const char *const styles[] = {"readable", "plain", NULL};

/* Notes that the user gave an option of the layout. */
static struct format_options *laid_out(void *at)
{
    struct format_options *o = at;

    o->given |= FORMAT_OPTION_LAYOUT;
    return o;
}

static int take_words(void *at, const char *value, struct err *err)
{
    struct format_options *o = at;

    (void)value;
    (void)err;
    o->words = true;
    o->given |= FORMAT_OPTION_WORDS;
    return 0;
}

static int take_sounds(void *at, const char *value, struct err *err)
{
    struct format_options *o = at;

    (void)value;
    (void)err;
    o->sounds = true;
    o->given |= FORMAT_OPTION_SOUNDS;
    return 0;
}

static int take_style(void *at, const char *value, struct err *err)
{
    struct format_options *o = laid_out(at);

    o->plain = strcmp(value, "plain") == 0;
    if (!o->plain && strcmp(value, "readable") != 0)
        return err_set(err, ERR_USAGE, "--style is readable or plain, not '%s'", value);
    return 0;
}

static int take_width(void *at, const char *value, struct err *err)
{
    return cli_u32("--max-line-width", value, 10, 200, &laid_out(at)->limits.line_columns, err);
}

static int take_lines(void *at, const char *value, struct err *err)
{
    return cli_u32("--max-lines", value, 1, 5, &laid_out(at)->limits.lines, err);
}

static int take_cps(void *at, const char *value, struct err *err)
{
    char *end;
    double cps = strtod(value, &end);

    if (end == value || *end != 0 || !(cps >= 1 && cps <= 100))
        return err_set(err, ERR_USAGE, "--max-cps wants a number from 1 to 100, not '%s'", value);
    laid_out(at)->limits.cps = cps;
    return 0;
}

static int take_min(void *at, const char *value, struct err *err)
{
    return cli_length("--min-duration", value, 100, 10000, &laid_out(at)->limits.min_ms, err);
}

static int take_max(void *at, const char *value, struct err *err)
{
    return cli_length("--max-duration", value, 500, 60000, &laid_out(at)->limits.max_ms, err);
}

static int take_gap(void *at, const char *value, struct err *err)
{
    int64_t ms = 0;
    int rc = cli_length("--gap", value, 0, 2000, &ms, err);

    if (rc == 0)
        laid_out(at)->limits.gap_ms = ms == 0 ? -1 : ms;
    return rc;
}

/* Its characters are those of a URI: it stands in JSON as it is. */
static int take_url(void *at, const char *value, struct err *err)
{
    struct format_options *o = at;
    size_t n = strlen(value), host = strncmp(value, "https://", 8) == 0  ? 8
                                     : strncmp(value, "http://", 7) == 0 ? 7
                                                                         : 0;

    for (size_t i = 0; i < n; i++)
        if (value[i] <= 0x20 || value[i] >= 0x7F || strchr("\"<>\\^`{|}#?", value[i]))
            host = 0;
    if (host == 0 || n == host || n > 1000 || value[n - 1] == '/')
        return err_set(
            err, ERR_USAGE,
            "--url wants https://HOST/FOLDER, percent-encoded and without a slash at its "
            "end");
    o->url = value;
    o->given |= FORMAT_OPTION_URL;
    return 0;
}

const struct command_option format_args[] = {
    {COMMAND_READ("words", 'w', take_words, NULL,
                  "vtt: write word times, if there are any (JSON always has them)"),
     .manual = "WebVTT with a time for each word, if word times were enqueued. JSON always has the "
               "words that there are."},
    {COMMAND_READ("style", 0, take_style, "STYLE",
                  "readable (default): subtitles that people can read in time; plain: one for each "
                  "segment, on one line"),
     .choices = styles,
     .manual = "readable, the default: subtitles (srt, vtt) that people can read in time. plain: "
               "one subtitle for each segment, on one line."},
    {COMMAND_READ("max-line-width", 0, take_width, "N",
                  "columns of a line (default: 42; 39 in Russian, 32 in Chinese and Korean, 26 in "
                  "Japanese, where most characters take two)"),
     .manual = "Columns of a subtitle's line; East Asian characters take two. The default is 42; "
               "39 in Russian, 32 in Chinese and Korean, 26 in Japanese."},
    {COMMAND_READ("max-lines", 0, take_lines, "N", "lines of a subtitle (default: 2)"),
     .manual = "Lines of a subtitle (default: 2)."},
    {COMMAND_READ("max-cps", 0, take_cps, "N",
                  "most characters per second (default: 20 in English, 14 in Korean, 11 in "
                  "Chinese, 7 in Japanese, otherwise 17)"),
     .manual = "Most characters per second. A subtitle stays long enough for that, unless the next "
               "one begins. The default is 20 in English, 14 in Korean, 11 in Chinese, 7 in "
               "Japanese, and 17 in other languages."},
    {COMMAND_READ("min-duration", 0, take_min, "TIME", "")},
    {COMMAND_READ("max-duration", 0, take_max, "TIME",
                  "shortest and longest subtitle (default: 833ms and 7s)"),
     .manual = "Shortest and longest subtitle (default: 833ms and 7s)."},
    {COMMAND_READ("gap", 0, take_gap, "TIME", "shortest gap between two subtitles (default: 83ms)"),
     .manual = "Shortest gap between two subtitles (default: 83ms)."},
    {COMMAND_READ("sounds", 0, take_sounds, NULL, "write sounds in brackets where nobody speaks"),
     .manual = "Write sounds in brackets into subtitles where nobody speaks."},
    {COMMAND_READ("url", 0, take_url, "URL",
                  "iiif: address where the files will be published (default: https://example.org)"),
     .manual = "Address where the files of iiif will be published (default: https://example.org)."},
    {0},
};

/* Refuses limits that cannot be held, which would be ignored silently. */
static bool layout_fits(const struct format_options *o, char why[FORMAT_ARGS_WHY])
{
    const struct subtitle_limits *l = &o->limits,
                                 usual = subtitle_usual((struct subtitle_limits){0}, "");
    bool limited = l->line_columns || l->lines || l->cps > 0 || l->min_ms || l->max_ms || l->gap_ms;

    if (o->plain && (limited || o->sounds))
        snprintf(why, FORMAT_ARGS_WHY, "--style=plain has segments as they are, without %s",
                 limited ? "limits" : "--sounds");
    else if (l->min_ms > (l->max_ms > 0 ? l->max_ms : usual.max_ms))
        snprintf(why, FORMAT_ARGS_WHY, "--min-duration is above --max-duration");
    else
        return true;
    return false;
}

/* Two formats of one ending would write over each other. */
static bool endings_differ(uint32_t chosen, char why[FORMAT_ARGS_WHY])
{
    for (unsigned a = 0; a < formats_count; a++)
        for (unsigned b = a + 1; b < formats_count; b++)
            if ((chosen >> a & 1) && (chosen >> b & 1) &&
                strcmp(formats[a].ending, formats[b].ending) == 0) {
                snprintf(why, FORMAT_ARGS_WHY,
                         "the files of %s and %s have the same names. Export them one after the "
                         "other, each with its own --output",
                         formats[a].name, formats[b].name);
                return false;
            }
    return true;
}

bool format_args_fit(const struct format_options *o, uint32_t chosen, char why[FORMAT_ARGS_WHY])
{
    static const struct {
        unsigned option;
        const char *says;
    } options[] = {{FORMAT_OPTION_LAYOUT, "how subtitles are laid out is"},
                   {FORMAT_OPTION_SOUNDS, "--sounds is"},
                   {FORMAT_OPTION_MEDIA, "--media, --no-waveform and --allow-unsandboxed are"},
                   {FORMAT_OPTION_URL, "--url is"}};
    char names[200];

    if ((o->given & FORMAT_OPTION_WORDS) && !(formats_taking(FORMAT_OPTION_WORDS) & chosen)) {
        snprintf(why, FORMAT_ARGS_WHY, "--words is about --format=vtt (JSON has them without it)");
        return false;
    }
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if ((o->given & options[i].option) && !(formats_taking(options[i].option) & chosen)) {
            snprintf(why, FORMAT_ARGS_WHY, "%s about --format=%s", options[i].says,
                     formats_names(options[i].option, false, names, sizeof(names)));
            return false;
        }
    return layout_fits(o, why) && endings_differ(chosen, why);
}
