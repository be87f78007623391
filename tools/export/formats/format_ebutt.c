/* EBU-TT-D (EBU Tech 3380): a profile of TTML. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

static void put_head(struct buf *out, const struct document *d)
{
    escape_put(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<tt:tt xmlns:tt=\"http://www.w3.org/ns/ttml\""
                    " xmlns:ttp=\"http://www.w3.org/ns/ttml#parameter\""
                    " xmlns:tts=\"http://www.w3.org/ns/ttml#styling\""
                    " xmlns:ebuttm=\"urn:ebu:tt:metadata\""
                    " xmlns:ebutts=\"urn:ebu:tt:style\""
                    " ttp:timeBase=\"media\" ttp:cellResolution=\"50 30\" xml:lang=\"");
    escape_line(out, d->language, ESCAPE_XML);
    escape_put(out,
               "\">\n"
               "  <tt:head>\n"
               "    <tt:metadata>\n"
               "      <ebuttm:documentMetadata>\n"
               "        <ebuttm:conformsToStandard>urn:ebu:tt:distribution:2018-04"
               "</ebuttm:conformsToStandard>\n"
               "      </ebuttm:documentMetadata>\n"
               "    </tt:metadata>\n"
               "    <tt:styling>\n"
               "      <tt:style xml:id=\"below\" tts:fontFamily=\"proportionalSansSerif\""
               " tts:fontSize=\"100%\" tts:lineHeight=\"normal\" tts:textAlign=\"center\""
               " ebutts:linePadding=\"0.5c\"/>\n"
               "      <tt:style xml:id=\"white\" tts:color=\"#FFFFFF\""
               " tts:backgroundColor=\"#000000\"/>\n"
               "    </tt:styling>\n"
               "    <tt:layout>\n"
               "      <tt:region xml:id=\"bottom\" tts:origin=\"10% 10%\" tts:extent=\"80% 80%\""
               " tts:displayAlign=\"after\"/>\n"
               "    </tt:layout>\n"
               "  </tt:head>\n");
}

static void put_text(struct buf *out, const struct subtitles *s, const struct subtitle *c)
{
    struct buf line = BUF_INIT;

    if (c->turn) {
        escape_put(out, "[");
        escape_line(out, c->speaker, ESCAPE_XML);
        escape_put(out, c->label_line ? "]</tt:span><tt:br/><tt:span style=\"white\">" : "] ");
    }
    if (c->sound) {
        escape_put(out, "[");
        escape_line(out, c->sound, ESCAPE_XML);
        escape_put(out, "]");
    }
    for (size_t i = c->first; i < c->first + c->count; i++) {
        const struct subtitle_piece *p = &s->pieces[i];

        if (i > c->first)
            escape_put(out, p->line    ? "</tt:span><tt:br/><tt:span style=\"white\">"
                            : p->blank ? " "
                                       : "");
        buf_clear(&line);
        buf_put(&line, s->text.data + p->at, p->len);
        escape_line(out, buf_cstr(&line) ? buf_cstr(&line) : "", ESCAPE_XML);
        out->failed |= line.failed;
    }
    buf_free(&line);
}

WRITER(ebutt)
{
    struct subtitles s = {0};
    int rc = subtitles_make(d, &o->limits, true, o->sounds, &s, err);

    put_head(out, d);
    /* The schema has no body without a paragraph. */
    escape_put(out, s.count > 0 ? "  <tt:body>\n    <tt:div>\n" : "");
    for (size_t i = 0; rc == 0 && i < s.count; i++) {
        const struct subtitle *c = &s.list[i];

        buf_printf(out, "      <tt:p xml:id=\"s%zu\" region=\"bottom\" style=\"below\" begin=\"",
                   i + 1);
        escape_time(out, c->start_ms, '.');
        escape_put(out, "\" end=\"");
        escape_time(out, c->end_ms, '.');
        escape_put(out, "\"><tt:span style=\"white\">");
        put_text(out, &s, c);
        escape_put(out, "</tt:span></tt:p>\n");
    }
    escape_put(out, s.count > 0 ? "    </tt:div>\n  </tt:body>\n</tt:tt>\n" : "</tt:tt>\n");
    subtitles_free(&s);
    return rc;
}
