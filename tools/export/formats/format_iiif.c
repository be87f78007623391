/* iiif: a manifest of IIIF's Presentation API 3 with one canvas, the recording on it, and its
 * transcript as W3C annotations. */
#include <stdio.h>
#include <string.h>

#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

#define URL "https://example.org" /* no host of anybody: RFC 2606 */

struct iiif {
    const struct document *d;
    const char *url; /* of everything; without a slash at its end */
    int64_t end_ms;
};

/* "id": URL/ID/what. */
static void put_id(struct buf *out, const struct iiif *x, const char *what)
{
    struct buf id = BUF_INIT;

    buf_printf(&id, "%s/%lld/%s", x->url, (long long)x->d->id, what);
    escape_put(out, "\"id\": ");
    escape_json(out, buf_cstr(&id) ? buf_cstr(&id) : "");
    out->failed |= id.failed;
    buf_free(&id);
}

static void put_media(struct buf *out, const struct iiif *x)
{
    const char *name = x->d->member[0] ? x->d->member : x->d->path, *slash = strrchr(name, '/');
    struct buf id = BUF_INIT;

    name = slash ? slash + 1 : name;
    buf_printf(&id, "%s/%lld/", x->url, (long long)x->d->id);
    escape_uri(&id, name, strlen(name), false);
    escape_put(out, "\"id\": ");
    escape_json(out, buf_cstr(&id) ? buf_cstr(&id) : "");
    out->failed |= id.failed;
    buf_free(&id);
}

static void put_seconds(struct buf *out, int64_t ms)
{
    ms = ms < 0 ? 0 : ms;
    buf_printf(out, "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
}

static void put_annotation(struct buf *out, const struct iiif *x, size_t i)
{
    const struct document_segment *s = &x->d->segments[i];
    char what[64];
    struct buf said = BUF_INIT;

    snprintf(what, sizeof(what), "annotation/%zu", i + 1);
    escape_put(out, i > 0 ? ",\n            {" : "\n            {");
    put_id(out, x, what);
    escape_put(out, ", \"type\": \"Annotation\", \"motivation\": \"supplementing\", \"body\": "
                    "{\"type\": \"TextualBody\", \"format\": \"text/plain\", \"value\": ");
    if (s->speaker[0])
        buf_printf(&said, "%s: ", s->speaker);
    escape_put(&said, s->text);
    escape_json(out, buf_cstr(&said) ? buf_cstr(&said) : "");
    if (s->language[0]) {
        escape_put(out, ", \"language\": ");
        escape_json(out, s->language);
    }
    buf_printf(out, "}, \"target\": \"%s/%lld/canvas#t=", x->url, (long long)x->d->id);
    put_seconds(out, s->start_ms);
    escape_put(out, ",");
    put_seconds(out, s->end_ms > s->start_ms ? s->end_ms : s->start_ms + 1);
    escape_put(out, "\"}");
    out->failed |= said.failed;
    buf_free(&said);
}

static void put_canvas(struct buf *out, const struct iiif *x)
{
    escape_put(out, "  \"items\": [\n    {");
    put_id(out, x, "canvas");
    escape_put(out, ", \"type\": \"Canvas\", \"duration\": ");
    put_seconds(out, x->end_ms);
    escape_put(out, ",\n      \"items\": [\n        {");
    put_id(out, x, "page/media");
    escape_put(out, ", \"type\": \"AnnotationPage\", \"items\": [\n          {");
    put_id(out, x, "annotation/media");
    escape_put(out,
               ", \"type\": \"Annotation\", \"motivation\": \"painting\",\n           \"body\": {");
    put_media(out, x);
    escape_put(out, ", \"type\": \"Sound\", \"duration\": ");
    put_seconds(out, x->end_ms);
    buf_printf(out, "},\n           \"target\": \"%s/%lld/canvas\"}]}],\n", x->url,
               (long long)x->d->id);
    escape_put(out, "      \"annotations\": [\n        {");
    put_id(out, x, "page/transcript");
    escape_put(out, ", \"type\": \"AnnotationPage\", \"items\": [");
    for (size_t i = 0; i < x->d->segment_count; i++)
        put_annotation(out, x, i);
    escape_put(out, "]}]}]\n");
}

WRITER(iiif)
{
    size_t len;
    const char *name = document_name(d, &len);
    struct iiif x = {d, o->url ? o->url : URL, d->duration_ms > 0 ? d->duration_ms : 1};
    struct buf label = BUF_INIT;

    (void)err;
    for (size_t i = 0; i < d->segment_count; i++)
        if (d->segments[i].end_ms > x.end_ms)
            x.end_ms = d->segments[i].end_ms;
    escape_put(out, "{\n  \"@context\": \"http://iiif.io/api/presentation/3/context.json\",\n  ");
    put_id(out, &x, "manifest");
    escape_put(out, ",\n  \"type\": \"Manifest\",\n  \"label\": {\"none\": [");
    buf_put(&label, name, len);
    escape_json(out, d->title[0] ? d->title : buf_cstr(&label) ? buf_cstr(&label) : "");
    out->failed |= label.failed;
    buf_free(&label);
    escape_put(out, "]},\n");
    put_canvas(out, &x);
    escape_put(out, "}\n");
    return 0;
}
