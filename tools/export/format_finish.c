#include "tools/export/format_finish.h"

#include "store/read/find.h"

struct finishing {
    enum format format;
    const struct format_recording *r;
    struct buf *out;
    uint64_t n; /* entries of the list so far */
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

static void begin(struct finishing *f, const char *list)
{
    format_list(f->out, f->format, list, f->n);
    f->n = 0;
}

int format_finish(struct store *st, enum format format, const struct format_recording *r,
                  uint64_t segments, struct buf *out, struct err *err)
{
    struct finishing f = {format, r, out, segments};
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
    if (rc == 0)
        format_end(out, format, f.n);
    return rc;
}
