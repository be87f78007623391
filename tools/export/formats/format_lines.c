/* txt, tsv and csv: a line for each segment. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

WRITER(txt)
{
    (void)o;
    (void)err;
    for (size_t i = 0; i < d->segment_count; i++) {
        const struct document_segment *s = &d->segments[i];

        if (s->speaker[0] != 0) {
            escape_line(out, s->speaker, ESCAPE_NONE);
            escape_put(out, ": ");
        }
        escape_line(out, s->text, ESCAPE_NONE);
        escape_put(out, "\n");
    }
    return 0;
}

WRITER(tsv)
{
    (void)o;
    (void)err;
    escape_put(out, "start\tend\ttext\tspeaker\n");
    for (size_t i = 0; i < d->segment_count; i++) {
        const struct document_segment *s = &d->segments[i];

        buf_printf(out, "%lld\t%lld\t", (long long)s->start_ms, (long long)s->end_ms);
        escape_tsv(out, s->text);
        escape_put(out, "\t");
        escape_tsv(out, s->speaker);
        escape_put(out, "\n");
    }
    return 0;
}

WRITER(csv)
{
    (void)o;
    (void)err;
    escape_put(out, "start,end,speaker,text\r\n");
    for (size_t i = 0; i < d->segment_count; i++) {
        const struct document_segment *s = &d->segments[i];

        escape_time(out, s->start_ms, '.');
        escape_put(out, ",");
        escape_time(out, s->end_ms, '.');
        escape_put(out, ",");
        escape_csv(out, s->speaker);
        escape_put(out, ",");
        escape_csv(out, s->text);
        escape_put(out, "\r\n");
    }
    return 0;
}
