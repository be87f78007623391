#include "tools/export/format_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/export/formats.h"

const char format_args_help[] =
    "  -w, --words          vtt with a time for each word, where there are any (JSON\n"
    "                       always has them)\n"
    "      --style=STYLE    readable (default): subtitles in lines that people can\n"
    "                       read; plain: one for each segment, on one line\n"
    "      --max-line-width=N  columns of a line (default: 42; 39 in Russian; 32\n"
    "                       in Chinese and Korean and 26 in Japanese, where most\n"
    "                       characters are two)\n"
    "      --max-lines=N    at once (default: 2)\n"
    "      --max-cps=N      characters to read in a second (default: 20 in English,\n"
    "                       14 in Korean, 11 in Chinese, 7 in Japanese, else 17)\n"
    "      --min-duration=TIME, --max-duration=TIME\n"
    "                       of a subtitle (default: 833ms and 7s)\n"
    "      --gap=TIME       between two (default: 83ms)\n"
    "      --sounds         subtitles have sounds in brackets where nobody speaks\n"
    "      --url=URL        iiif: where its files will be published (default:\n"
    "                       https://example.org)\n";

static int take_style(const char *value, struct format_options *o, struct err *err)
{
    o->plain = strcmp(value, "plain") == 0;
    if (!o->plain && strcmp(value, "readable") != 0)
        return err_set(err, ERR_USAGE, "--style is readable or plain, not '%s'", value);
    return 0;
}

static int take_cps(const char *value, struct format_options *o, struct err *err)
{
    char *end;
    double cps = strtod(value, &end);

    if (end == value || *end != 0 || !(cps >= 1 && cps <= 100))
        return err_set(err, ERR_USAGE, "--max-cps wants a number from 1 to 100, not '%s'", value);
    o->limits.cps = cps;
    return 0;
}

static int take_gap(const char *value, struct format_options *o, struct err *err)
{
    int64_t ms = 0;
    int rc = cli_length("--gap", value, 0, 2000, &ms, err);

    if (rc == 0)
        o->limits.gap_ms = ms == 0 ? -1 : ms;
    return rc;
}

/* Its characters are those of a URI: it stands in JSON as it is. */
static int take_url(const char *value, struct format_options *o, struct err *err)
{
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
    return 0;
}

bool format_args_take(int option, const char *value, struct format_options *o, int *rc,
                      struct err *err)
{
    struct subtitle_limits *l = &o->limits;

    *rc = 0;
    if (option == 'w')
        o->words = true;
    else if (option == FORMAT_ARG_SOUNDS)
        o->sounds = true;
    else if (option == FORMAT_ARG_STYLE)
        *rc = take_style(value, o, err);
    else if (option == FORMAT_ARG_WIDTH)
        *rc = cli_u32("--max-line-width", value, 10, 200, &l->line_columns, err);
    else if (option == FORMAT_ARG_LINES)
        *rc = cli_u32("--max-lines", value, 1, 5, &l->lines, err);
    else if (option == FORMAT_ARG_CPS)
        *rc = take_cps(value, o, err);
    else if (option == FORMAT_ARG_MIN)
        *rc = cli_length("--min-duration", value, 100, 10000, &l->min_ms, err);
    else if (option == FORMAT_ARG_MAX)
        *rc = cli_length("--max-duration", value, 500, 60000, &l->max_ms, err);
    else if (option == FORMAT_ARG_GAP)
        *rc = take_gap(value, o, err);
    else if (option == FORMAT_ARG_URL)
        *rc = take_url(value, o, err);
    else
        return false;
    o->given |= option == 'w'                 ? FORMAT_OPTION_WORDS
                : option == FORMAT_ARG_SOUNDS ? FORMAT_OPTION_SOUNDS
                : option == FORMAT_ARG_URL    ? FORMAT_OPTION_URL
                                              : FORMAT_OPTION_LAYOUT;
    return true;
}

/* What is asked for and could not be held would be left out without a word. */
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

void format_args_values(const struct complete *c, int option, void *arg)
{
    formats_values(c, option, arg);
    if (option == FORMAT_ARG_STYLE) {
        complete_put(c, "readable");
        complete_put(c, "plain");
    }
}
