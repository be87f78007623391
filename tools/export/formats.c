#include "tools/export/formats.h"

#include <stdio.h>
#include <string.h>

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

void formats_values(const struct complete *c, void *wanted)
{
    (void)wanted;
    for (unsigned i = 0; i < formats_count; i++)
        complete_put(c, formats[i].name);
}
