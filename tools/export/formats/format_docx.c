/* docx: a transcript as people hand it in, for Word and LibreOffice: a title, what recording it is,
 * and a paragraph for each turn with its time and its speaker. */

#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

/* ---- a zip file of members that are stored as they are, the same bytes at any time.
 *
 * By hand, since a docx needs no more of a zip than this: libarchive stays in the decoder's
 * process with what parses strangers' bytes (docs/design/sandbox.md), and libzip would be one more
 * dependency, with a source in memory and a time for each member to be set, for fifty lines.
 * python-docx reads what comes of it (tests/unit/tools/test_field_formats.py). */

struct zip {         /* zero at first but for out */
    struct buf *out; /* empty at first */
    struct buf index;
    unsigned count;
};

#define DATE 0x21 /* the first day of 1980, which is the first there is */
#define UTF8_NAMES 0x0800

/* The fields that a member's own head and its index entry share. */
static void put_entry(struct buf *out, uint32_t crc, size_t len, size_t name)
{
    buf_put_u16(out, 20); /* version that is needed: 2.0 */
    buf_put_u16(out, UTF8_NAMES);
    buf_put_u16(out, 0); /* stored */
    buf_put_u16(out, 0);
    buf_put_u16(out, DATE);
    buf_put_u32(out, crc);
    buf_put_u32(out, (uint32_t)len);
    buf_put_u32(out, (uint32_t)len);
    buf_put_u16(out, (uint16_t)name);
    buf_put_u16(out, 0);
}

static void zip_add(struct zip *z, const char *name, const void *data, size_t len)
{
    size_t at = z->out->len, n = strlen(name);
    uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, len);

    if (len > UINT32_MAX - n - 64 || at > UINT32_MAX - len - n - 64) {
        z->out->failed = true; /* no zip of this kind is so long */
        return;
    }
    buf_put(z->out, "PK\3\4", 4);
    put_entry(z->out, crc, len, n);
    buf_put(z->out, name, n);
    buf_put(z->out, data, len);
    buf_put(&z->index, "PK\1\2", 4);
    buf_put_u16(&z->index, 20);
    put_entry(&z->index, crc, len, n);
    buf_put_u16(&z->index, 0);
    buf_put_u16(&z->index, 0);
    buf_put_u16(&z->index, 0);
    buf_put_u32(&z->index, 0);
    buf_put_u32(&z->index, (uint32_t)at);
    buf_put(&z->index, name, n);
    z->count++;
}

/* frees the index; out->failed tells of errors */
static void zip_end(struct zip *z)
{
    size_t at = z->out->len, len = z->index.len;

    if (len > 0)
        buf_put(z->out, z->index.data, len);
    buf_put(z->out, "PK\5\6\0\0\0\0", 8);
    buf_put_u16(z->out, (uint16_t)z->count);
    buf_put_u16(z->out, (uint16_t)z->count);
    buf_put_u32(z->out, (uint32_t)len);
    buf_put_u32(z->out, (uint32_t)at);
    buf_put_u16(z->out, 0);
    z->out->failed |= z->index.failed;
    buf_free(&z->index);
}

/* ---- the document */

#define PARAGRAPH_MS 60000 /* a paragraph is no longer, where a sentence ends */
#define PAUSE_MS 3000      /* and ends before such a pause */

static const char types[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
    "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">"
    "<Default Extension=\"rels\" "
    "ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>"
    "<Default Extension=\"xml\" ContentType=\"application/xml\"/>"
    "<Override PartName=\"/word/document.xml\" ContentType=\"application/"
    "vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/>"
    "<Override PartName=\"/docProps/core.xml\" "
    "ContentType=\"application/vnd.openxmlformats-package.core-properties+xml\"/>"
    "</Types>\n";
static const char relations[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
    "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">"
    "<Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/"
    "relationships/officeDocument\" Target=\"word/document.xml\"/>"
    "<Relationship Id=\"rId2\" Type=\"http://schemas.openxmlformats.org/package/2006/"
    "relationships/metadata/core-properties\" Target=\"docProps/core.xml\"/>"
    "</Relationships>\n";

static bool is_right_to_left(const char *language)
{
    static const char *const languages[] = {"ar", "fa", "he", "ps", "sd", "ur", "yi"};

    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++)
        if (strcmp(languages[i], language) == 0)
            return true;
    return false;
}

/* properties: of its letters, "" none. */
static void put_run(struct buf *out, const char *properties, const char *text, const char *behind)
{
    buf_printf(out, "<w:r>%s<w:t xml:space=\"preserve\">", properties);
    escape_line(out, text, ESCAPE_XML);
    escape_put(out, behind);
    escape_put(out, "</w:t></w:r>");
}

static void put_title(struct buf *out, const struct document *d)
{
    size_t len;
    const char *name = document_name(d, &len);
    struct buf stem = BUF_INIT;

    buf_put(&stem, name, len);
    escape_line(out, d->title[0] ? d->title : buf_cstr(&stem) ? buf_cstr(&stem) : "", ESCAPE_XML);
    out->failed |= stem.failed;
    buf_free(&stem);
}

static void put_fact(struct buf *out, const char *what, const char *value)
{
    if (!value[0])
        return;
    escape_put(out, "<w:p>");
    put_run(out, "<w:rPr><w:b/></w:rPr>", what, ": ");
    put_run(out, "", value, "");
    escape_put(out, "</w:p>\n");
}

static void put_time(struct buf *out, int64_t ms)
{
    ms = ms < 0 ? 0 : ms;
    buf_printf(out,
               "<w:r><w:rPr><w:color w:val=\"666666\"/></w:rPr><w:t xml:space=\"preserve\">"
               "[%02lld:%02d:%02d] </w:t></w:r>",
               (long long)(ms / 3600000), (int)(ms / 60000 % 60), (int)(ms / 1000 % 60));
}

static bool ends_sentence(const char *text)
{
    size_t n = strlen(text);

    return n > 0 &&
           (strchr(".?!", text[n - 1]) || (n > 2 && (strcmp(text + n - 3, "\xE3\x80\x82") == 0 ||
                                                     strcmp(text + n - 3, "\xE2\x80\xA6") == 0)));
}

static void put_paragraphs(struct buf *out, const struct document *d)
{
    int64_t began = 0;

    for (size_t i = 0; i < d->segment_count; i++) {
        const struct document_segment *s = &d->segments[i], *before = i > 0 ? s - 1 : NULL;
        bool turn = !before || strcmp(before->speaker, s->speaker) != 0;
        bool rtl = is_right_to_left(s->language);

        if (turn || s->start_ms - before->end_ms >= PAUSE_MS ||
            (s->start_ms - began >= PARAGRAPH_MS && ends_sentence(before->text))) {
            escape_put(out, i > 0 ? "</w:p>\n<w:p>" : "<w:p>");
            escape_put(out, rtl ? "<w:pPr><w:bidi/></w:pPr>" : "");
            put_time(out, s->start_ms);
            if (turn && s->speaker[0])
                put_run(out, "<w:rPr><w:b/></w:rPr>", s->speaker, ": ");
            began = s->start_ms;
        }
        put_run(out, rtl ? "<w:rPr><w:rtl/></w:rPr>" : "", s->text,
                i + 1 < d->segment_count ? " " : "");
    }
    escape_put(out, d->segment_count > 0 ? "</w:p>\n" : "");
}

static void put_document(struct buf *out, const struct document *d)
{
    escape_put(out, "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
                    "<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/"
                    "2006/main\"><w:body>\n<w:p><w:r><w:rPr><w:b/><w:sz w:val=\"36\"/></w:rPr>"
                    "<w:t xml:space=\"preserve\">");
    put_title(out, d);
    escape_put(out, "</w:t></w:r></w:p>\n");
    put_fact(out, "Recording", d->path);
    put_fact(out, "Member", d->member);
    put_fact(out, "Recorded", d->recorded_on);
    put_fact(out, "Language", d->language);
    put_fact(out, "Note", d->made ? d->made : "");
    put_paragraphs(out, d);
    escape_put(out, "<w:sectPr/></w:body></w:document>\n");
}

static void put_core(struct buf *out, const struct document *d)
{
    escape_put(out, "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n"
                    "<cp:coreProperties xmlns:cp=\"http://schemas.openxmlformats.org/package/2006/"
                    "metadata/core-properties\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\">"
                    "<dc:title>");
    put_title(out, d);
    escape_put(out, "</dc:title></cp:coreProperties>\n");
}

WRITER(docx)
{
    struct zip z = {.out = out};
    struct buf part = BUF_INIT;

    (void)o;
    (void)err;
    zip_add(&z, "[Content_Types].xml", types, sizeof(types) - 1);
    zip_add(&z, "_rels/.rels", relations, sizeof(relations) - 1);
    put_document(&part, d);
    zip_add(&z, "word/document.xml", part.data, part.len);
    out->failed |= part.failed;
    buf_clear(&part);
    put_core(&part, d);
    zip_add(&z, "docProps/core.xml", part.data, part.len);
    out->failed |= part.failed;
    buf_free(&part);
    zip_end(&z);
    return 0;
}
