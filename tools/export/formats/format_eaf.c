/* eaf: ELAN's annotations (EAF 3.0). */
#include <string.h>

#include "tools/export/escape.h"
#include "tools/export/formats/tiers.h"
#include "tools/export/formats/writers.h"

static void put_head(struct buf *out, const struct document *d)
{
    escape_put(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
               "<ANNOTATION_DOCUMENT AUTHOR=\"\" DATE=\"1970-01-01T00:00:00+00:00\" FORMAT=\"3.0\" "
               "VERSION=\"3.0\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
               "xsi:noNamespaceSchemaLocation=\"http://www.mpi.nl/tools/elan/EAFv3.0.xsd\">\n"
               "  <HEADER MEDIA_FILE=\"\" TIME_UNITS=\"milliseconds\">\n");
    if (d->member[0] == 0) { /* no program opens what lies in an archive */
        escape_put(out, "    <MEDIA_DESCRIPTOR MEDIA_URL=\"file://");
        escape_uri(out, d->path, strlen(d->path), true);
        escape_put(out, "\" MIME_TYPE=\"unknown\"/>\n");
    }
    escape_put(out, "  </HEADER>\n");
}

struct ids { /* of time slots and annotations, each from 1 */
    size_t slot, annotation;
};

static void put_slots(struct buf *out, const struct tiers_span *spans, size_t n, size_t *slot)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "    <TIME_SLOT TIME_SLOT_ID=\"ts%zu\" TIME_VALUE=\"%lld\"/>\n", ++*slot,
                   (long long)spans[i].start_ms);
        buf_printf(out, "    <TIME_SLOT TIME_SLOT_ID=\"ts%zu\" TIME_VALUE=\"%lld\"/>\n", ++*slot,
                   (long long)spans[i].end_ms);
    }
}

static void put_tier(struct buf *out, const char *name, const char *parent,
                     const struct tiers_span *spans, size_t n, struct ids *ids)
{
    buf_printf(out, "  <TIER LINGUISTIC_TYPE_REF=\"%s\" TIER_ID=\"", parent ? "words" : "speech");
    escape_line(out, name, ESCAPE_XML);
    escape_put(out, parent ? "\" PARENT_REF=\"" : "\" PARTICIPANT=\"");
    escape_line(out, parent ? parent : name, ESCAPE_XML);
    escape_put(out, "\">\n");
    for (size_t i = 0; i < n; i++) {
        buf_printf(out,
                   "    <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID=\"a%zu\" "
                   "TIME_SLOT_REF1=\"ts%zu\" TIME_SLOT_REF2=\"ts%zu\"><ANNOTATION_VALUE>",
                   ++ids->annotation, ids->slot + 1, ids->slot + 2);
        ids->slot += 2;
        escape_line(out, spans[i].text + strspn(spans[i].text, " "), ESCAPE_XML);
        escape_put(out, "</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>\n");
    }
    escape_put(out, "  </TIER>\n");
}

WRITER(eaf)
{
    struct tiers t = {0};
    struct ids ids = {0};
    size_t slot = 0;
    int rc = tiers_make(d, &t, err);

    (void)o;
    put_head(out, d);
    escape_put(out, "  <TIME_ORDER>\n");
    for (size_t i = 0; i < t.count; i++) {
        put_slots(out, t.list[i].spans, t.list[i].count, &slot);
        put_slots(out, t.list[i].words, t.list[i].word_count, &slot);
    }
    escape_put(out, "  </TIME_ORDER>\n");
    for (size_t i = 0; i < t.count; i++) {
        const struct tier *tier = &t.list[i];

        put_tier(out, tier->name, NULL, tier->spans, tier->count, &ids);
        if (tier->word_count > 0)
            put_tier(out, tier->words_name, tier->name, tier->words, tier->word_count, &ids);
    }
    tiers_free(&t);
    escape_put(out, "  <LINGUISTIC_TYPE GRAPHIC_REFERENCES=\"false\" LINGUISTIC_TYPE_ID=\"speech\" "
                    "TIME_ALIGNABLE=\"true\"/>\n"
                    "  <LINGUISTIC_TYPE CONSTRAINTS=\"Included_In\" GRAPHIC_REFERENCES=\"false\" "
                    "LINGUISTIC_TYPE_ID=\"words\" TIME_ALIGNABLE=\"true\"/>\n"
                    "  <CONSTRAINT DESCRIPTION=\"Time alignable annotations within the parent "
                    "annotation's time interval, gaps are allowed\" STEREOTYPE=\"Included_In\"/>\n"
                    "</ANNOTATION_DOCUMENT>\n");
    return rc;
}
