#include "workers/media/archive_walk.h"

#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "workers/media/stream/archive.h"
#include "workers/media/stream/sniff.h"
#include "workers/media/wire.h"

#define CHUNK_BYTES (256u << 10)

struct walk {
    const struct archive_walk_task *task;
    uint64_t entries, unpacked;
    uint8_t *chunk;            /* CHUNK_BYTES */
    void *met;                 /* a tree of struct met */
    struct member_again again; /* over the outer archive */
};

/* How often a name was met. Names are long where somebody wants memory to run out: their hashes. */
struct met {
    uint8_t name[HASH_BYTES];
    uint32_t times;
};

/* One archive that is being read. */
struct level {
    struct walk *walk;
    const char *prefix; /* name of the archive inside the outer one; NULL: the outer one */
    struct archive_reader *src;
    /* The current entry: */
    struct buf name; /* in full, with the archive's inside */
    uint32_t nth;    /* of that name */
    uint8_t head[SNIFF_HEAD_BYTES];
    size_t head_len;
};

static int walk_level(struct walk *w, struct stream *s, const char *prefix, struct err *err);

/* These end the listing; all others are the entry's own. */
static bool is_final(int code) { return code == ERR_LIMIT || code == ERR_IO || code == ERR_NOMEM; }

static int compare_met(const void *a, const void *b)
{
    return memcmp(((const struct met *)a)->name, ((const struct met *)b)->name, HASH_BYTES);
}

/* Makes out the current entry's full name, and how many of that name came before it. */
static int take_name(struct level *l, const char *name, struct err *err)
{
    struct met *new = malloc(sizeof(*new)), **slot = NULL;

    buf_clear(&l->name);
    if (l->prefix)
        buf_printf(&l->name, "%s//", l->prefix);
    buf_put(&l->name, name, strlen(name));
    if (new &&buf_cstr(&l->name)) {
        new->times = 0;
        hash_of(l->name.data, l->name.len, new->name);
        slot = tsearch(new, &l->walk->met, compare_met);
    }
    if (!slot || *slot != new)
        free(new);
    if (!slot)
        return err_set(err, ERR_NOMEM, "out of memory");
    l->nth = (*slot)->times++;
    return 0;
}

/* Reports `entry`, the current one, with `why` (code 0: nothing wrong). */
static int report_archive_entry(struct level *l, struct decoder_entry *entry, const struct err *why,
                                struct err *err)
{
    struct err too_long;
    int rc;

    if (l->name.len >= WIRE_MEMBER_MAX) {
        l->name.len = 255;
        err_set(&too_long, ERR_INPUT, "its name is longer than %u bytes", WIRE_MEMBER_MAX);
        why = &too_long;
    }
    entry->member = buf_cstr(&l->name);
    entry->nth = l->nth;
    entry->code = why ? why->code : 0;
    entry->message = why ? why->msg : "";
    rc = entry->member ? l->walk->task->entry(l->walk->task->arg, entry, err)
                       : err_set(err, ERR_NOMEM, "out of memory");
    entry->member = entry->message = NULL; /* valid during the call only */
    return rc;
}

/* The entry's first bytes, once. */
static int read_head(struct level *l, struct err *err)
{
    while (l->head_len < SNIFF_HEAD_BYTES) {
        int64_t got =
            archive_reader_read(l->src, l->head + l->head_len, SNIFF_HEAD_BYTES - l->head_len, err);

        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
        l->head_len += (size_t)got;
    }
    return 0;
}

/* The entry's bytes, and behind the last of as many as it should have an empty piece. */
static int give_bytes(struct level *l, int64_t size, struct err *err)
{
    const struct archive_walk_task *task = l->walk->task;
    int64_t left = size - (int64_t)l->head_len, got = 1;
    int rc = 0;

    if (l->head_len > 0 && left >= 0)
        rc = task->bytes(task->arg, l->head, l->head_len, err);
    while (rc == 0 && got > 0 && left >= 0) {
        got = archive_reader_read(l->src, l->walk->chunk, CHUNK_BYTES, err);
        left -= got > 0 ? got : 0;
        if (got < 0)
            rc = (int)got;
        else if (left >= 0 && (got > 0 || left == 0))
            rc = task->bytes(task->arg, l->walk->chunk, (size_t)got, err);
    }
    if (rc == 0 && left < 0)
        return err_set(err, ERR_INPUT, "holds more than the %lld bytes announced", (long long)size);
    if (rc == 0 && left > 0)
        return err_set(err, ERR_INPUT, "ends after %lld of %lld bytes", (long long)(size - left),
                       (long long)size);
    return rc;
}

/* Records that an unreadable entry was left out: whoever asks for it by name gets the reason. */
static int leave_out(const struct level *l)
{
    if (l->walk->task->left_out)
        *l->walk->task->left_out = true;
    return 0;
}

/* Hands the recording on, if it is wanted. */
static int hand_on(struct level *l, const struct archive_item *item, struct err *err)
{
    struct decoder_entry entry = {.mtime_ms = item->mtime_ms};
    struct err why = {0};
    int rc;

    if (item->is_encrypted || item->size < 0 || l->name.len >= WIRE_MEMBER_MAX)
        return leave_out(l);
    entry.size_bytes = (uint64_t)item->size;
    rc = report_archive_entry(l, &entry, NULL, err);
    if (rc <= 0)
        return rc;
    rc = read_head(l, &why);
    if (rc == 0)
        rc = give_bytes(l, item->size, &why);
    if (is_final(rc))
        *err = why;
    return is_final(rc) ? rc : 0;
}

static int walk_recording(struct level *l, const struct archive_item *item, struct err *err)
{
    struct decoder_entry entry = {.size_bytes = item->size > 0 ? (uint64_t)item->size : 0,
                                  .mtime_ms = item->mtime_ms};
    struct err why = {0};
    int rc = item->is_encrypted ? archive_refuse_encrypted(&why) : read_head(l, &why);

    if (rc == 0 && item->size < 0)
        rc = err_set(&why, ERR_INPUT, "its size is unknown: the archive is cut short");
    entry.head_len = l->head_len < sizeof(entry.head) ? l->head_len : sizeof(entry.head);
    memcpy(entry.head, l->head, entry.head_len);
    if (rc == 0 && l->name.len < WIRE_MEMBER_MAX) {
        rc = report_archive_entry(l, &entry, NULL, err);
        if (rc != 0)
            return rc;
        rc = give_bytes(l, item->size, &why);
        if (rc == 0)
            return 0;
    }
    if (is_final(rc)) {
        *err = why;
        return rc;
    }
    return report_archive_entry(l, &entry, rc != 0 ? &why : NULL, err);
}

/* The archive inside as a stream: from memory when it is small (*data is then to be freed behind
 * the stream), else from the pass over the outer one, and where it goes back from a second one. */
static int open_inner(struct level *l, const struct archive_item *item, uint8_t **data,
                      struct stream **ret, struct err *err)
{
    struct walk *w = l->walk;
    struct unpack_limits limits = {.max_bytes = w->task->max_bytes - w->unpacked};
    int64_t done = (int64_t)l->head_len, got = 1;
    int rc = 0;

    if (item->size < 0 || (uint64_t)item->size > w->task->memory_bytes) {
        if (!w->again.under)
            rc = w->task->open(w->task->arg, &w->again.under, err);
        return rc != 0 ? rc
                       : member_open_current(l->src, item, l->head, l->head_len, &w->again, &limits,
                                             ret, err);
    }
    *data = malloc((size_t)item->size + SNIFF_HEAD_BYTES);
    if (!*data)
        return err_set(err, ERR_NOMEM, "out of memory");
    memcpy(*data, l->head, l->head_len);
    /* One byte more than it should have: its checksum is compared behind the last one. */
    while (got > 0 && done <= item->size) {
        got = archive_reader_read(l->src, *data + done, (size_t)(item->size - done + 1), err);
        if (got < 0)
            return (int)got;
        done += got;
    }
    if (done != item->size)
        return err_set(err, ERR_INPUT, "is not of the %lld bytes announced", (long long)item->size);
    return stream_of_memory(*data, (size_t)done, w->task->pulse, ret, err);
}

/* by_name: its name says that it is an archive, so that a failure is worth a report. Other files
 * may begin with an archive's bytes and be something else. */
static int walk_inner(struct level *l, const struct archive_item *item, bool by_name,
                      struct err *err)
{
    struct decoder_entry entry = {.size_bytes = item->size > 0 ? (uint64_t)item->size : 0,
                                  .mtime_ms = item->mtime_ms};
    struct stream *inner = NULL;
    uint8_t *data = NULL;
    char *prefix = strdup(item->name);
    const uint64_t before = l->walk->entries;
    struct err why = {0};
    int rc = 0;

    if (!prefix)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (l->prefix) {
        rc = err_set(&why, ERR_LIMIT,
                     "an archive three deep is not looked into: unpack the outer one first");
    } else if (item->is_encrypted) {
        rc = archive_refuse_encrypted(&why);
    } else {
        rc = read_head(l, &why);
        if (rc == 0)
            rc = open_inner(l, item, &data, &inner, &why);
        if (rc == 0)
            rc = walk_level(l->walk, inner, prefix, &why);
        if (sniff_is_part(prefix) && (rc == ERR_INPUT || (rc == 0 && l->walk->entries == before)))
            rc = archive_refuse_part(&why);
        if (is_final(rc)) {
            *err = why;
            goto out;
        }
    }
    if (rc != 0 && l->walk->task->offers)
        rc = leave_out(l);
    else
        rc = rc != 0 && by_name ? report_archive_entry(l, &entry, &why, err) : 0;
out:
    stream_close(inner);
    free(data);
    free(prefix);
    return rc;
}

/* A recording that nobody can decode must not be passed over like a text. */
static int walk_undecodable(struct level *l, const struct archive_item *item, const char *sentence,
                            struct err *err)
{
    struct decoder_entry entry = {.size_bytes = item->size > 0 ? (uint64_t)item->size : 0,
                                  .mtime_ms = item->mtime_ms};
    struct err why = {0};

    err_set(&why, ERR_INPUT, "%s", sentence);
    entry.head_len = l->head_len < sizeof(entry.head) ? l->head_len : sizeof(entry.head);
    memcpy(entry.head, l->head, entry.head_len);
    return take_name(l, item->name, err) != 0 ? err->code
                                              : report_archive_entry(l, &entry, &why, err);
}

static int walk_item(struct level *l, const struct archive_item *item, struct err *err)
{
    struct err why = {0};
    enum media_kind kind;
    bool by_name = sniff_name(item->name, &kind) == 1;
    const char *sentence = NULL;
    int rc;

    l->head_len = 0;
    if (!by_name) {
        if (item->is_encrypted)
            return leave_out(l); /* neither its name nor its bytes say that it is a recording */
        rc = read_head(l, &why);
        if (is_final(rc)) {
            *err = why;
            return rc;
        }
        kind = rc == 0 ? kind_of_file(item->name, l->head, l->head_len) : MEDIA_OTHER;
        if (rc != 0)
            leave_out(l);
        if (rc == 0 && kind == MEDIA_OTHER && !l->walk->task->offers)
            sentence = undecodable(item->name, l->head, l->head_len);
        if (sentence)
            return walk_undecodable(l, item, sentence, err);
    }
    if (kind != MEDIA_OTHER && take_name(l, item->name, err) != 0)
        return err->code;
    switch (kind) {
    case MEDIA_RECORDING:
        return l->walk->task->offers ? hand_on(l, item, err) : walk_recording(l, item, err);
    case MEDIA_ARCHIVE:
        return walk_inner(l, item, by_name, err);
    case MEDIA_OTHER:
        break;
    }
    return 0;
}

/* s is borrowed. */
static int walk_level(struct walk *w, struct stream *s, const char *prefix, struct err *err)
{
    struct level l = {.walk = w, .prefix = prefix, .name = BUF_INIT};
    struct archive_item item;
    int rc = archive_reader_open(s, w->task->max_bytes - w->unpacked, &l.src, err);

    while (rc == 0) {
        rc = archive_reader_next(l.src, &item, err);
        if (rc != 0)
            break;
        if (++w->entries > w->task->max_entries) {
            rc = err_set(err, ERR_LIMIT, "the archive has more than %llu entries",
                         (unsigned long long)w->task->max_entries);
        } else if (item.is_file) {
            rc = archive_reader_measure(l.src, &item, err);
            rc = rc == 0 ? walk_item(&l, &item, err) : rc;
        }
    }
    if (l.src) {
        w->unpacked += archive_reader_unpacked(l.src);
        archive_reader_close(l.src);
    }
    buf_free(&l.name);
    if (w->unpacked > w->task->max_bytes)
        w->unpacked = w->task->max_bytes;
    return rc == ERR_EMPTY ? 0 : rc;
}

int archive_walk(const struct archive_walk_task *task, struct err *err)
{
    struct walk w = {.task = task, .chunk = malloc(CHUNK_BYTES)};
    struct stream *s = NULL;
    int rc = w.chunk ? task->open(task->arg, &s, err) : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0)
        rc = walk_level(&w, s, NULL, err);
    member_again_end(&w.again);
    stream_close(s);
    tdestroy(w.met, free);
    free(w.chunk);
    return rc;
}
