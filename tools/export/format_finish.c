#include "tools/export/format_finish.h"

#include <string.h>

#include "store/read/find.h"

struct finishing {
    enum format format;
    const struct format_recording *r;
    struct buf *out;
    uint64_t n; /* entries of the list so far */
    bool chapters;
};

static int on_turn(void *arg, const struct find_turn *row)
{
    struct finishing *f = arg;

    format_turn(f->out, f->format, f->r, f->n++,
                &(struct format_turn){row->start_ms, row->end_ms, row->speaker, row->label});
    return 0;
}

static int on_sound(void *arg, const struct find_sound *row)
{
    struct finishing *f = arg;

    format_sound(f->out, f->format, f->n++,
                 &(struct format_sound){row->start_ms, row->end_ms, row->name, row->score});
    return 0;
}

static int on_tag(void *arg, const struct result_tag *row)
{
    struct finishing *f = arg;

    if ((strcmp(row->source, "chapter") == 0) != f->chapters)
        return 0;
    if (f->chapters)
        format_chapter(f->out, f->format, f->n++,
                       &(struct format_chapter){row->start_ms, row->end_ms, row->value});
    else
        format_tag(f->out, f->format, f->n++,
                   &(struct format_tag){row->source, row->key, row->value});
    return 0;
}

static void begin(struct finishing *f, const char *list)
{
    format_list(f->out, f->format, list, f->n);
    f->n = 0;
}

int format_finish(struct store *st, enum format format, const struct format_recording *r,
                  uint64_t segments, struct buf *out, struct err *err)
{
    struct finishing f = {format, r, out, segments, false};
    bool all = format == FORMAT_JSON && !r->dropped;
    int rc = 0;

    if (all)
        begin(&f, "turns");
    if (all || format == FORMAT_RTTM)
        rc = find_turns(st, r->id, on_turn, &f, err);
    if (rc == 0 && all) {
        begin(&f, "sounds");
        rc = find_sounds_of(st, r->id, on_sound, &f, err);
    }
    for (int i = 0; rc == 0 && all && i < 2; i++) {
        f.chapters = i > 0;
        begin(&f, f.chapters ? "chapters" : "tags");
        rc = find_tags(st, r->id, on_tag, &f, err);
    }
    if (rc == 0)
        format_end(out, format, f.n);
    return rc;
}
