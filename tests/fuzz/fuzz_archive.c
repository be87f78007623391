/* Any bytes as an archive: the walk ends, within its bounds, and what it lists as readable is found
 * again under its name, by its fingerprint, however the reader jumps in it, and when all is handed
 * on at once. */
#include <stdlib.h>
#include <string.h>

#include "workers/media/stream/fingerprint.h"
#include "workers/media/stream/stream.h"
#include "workers/media/archive_walk.h"

#define MAX_ENTRIES 500
#define MAX_BYTES (4u << 20)
#define MEMORY_BYTES 6000 /* archives inside are smaller and larger */
#define KEPT 4
#define SAME_NAME 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct kept {
    char *member;
    uint32_t nth;
    uint64_t size;
    uint8_t fingerprint[16];
};

struct input {
    const uint8_t *data;
    size_t size;
    uint64_t entries;
    struct kept kept[KEPT];
    size_t kept_count;
    /* Of the member that is handed on: */
    uint64_t left;
    const struct kept *one; /* NULL: it was not kept */
    bool under_way;         /* its bytes come */
    struct fingerprint *fingerprint;
};

static int open_input(void *arg, struct stream **ret, struct err *err)
{
    const struct input *in = arg;

    return stream_of_memory(in->data, in->size, (struct stream_pulse){0}, ret, err);
}

static void forget_one(struct input *in)
{
    uint8_t ignored[16];
    struct err err;

    if (in->fingerprint)
        (void)fingerprint_end(in->fingerprint, ignored, &err);
    in->fingerprint = NULL;
    in->one = NULL;
}

/* What did not come whole is told of once more, and is none. */
static int on_entry(void *arg, const struct decoder_entry *e, struct err *err)
{
    struct input *in = arg;
    const bool again = in->under_way;

    if (e->head_len > sizeof(e->head) || e->member[0] == '\0' || e->code > 0 ||
        (e->code != 0) != (e->message[0] != '\0') || (again && e->code == 0) ||
        (!again && ++in->entries > MAX_ENTRIES))
        abort();
    if (again && in->one)
        free(in->kept[--in->kept_count].member);
    forget_one(in);
    in->under_way = e->code == 0;
    in->left = e->size_bytes;
    if (e->code == 0 && in->kept_count < KEPT) {
        struct kept *k = &in->kept[in->kept_count++];

        k->member = strdup(e->member);
        k->nth = e->nth;
        k->size = e->size_bytes;
        in->one = k;
        return fingerprint_new(e->size_bytes, &in->fingerprint, err);
    }
    return 0;
}

static int on_listed(void *arg, const void *data, size_t n, struct err *err)
{
    struct input *in = arg;
    int rc = 0;

    if (!in->under_way || n > in->left || (n == 0 && in->left > 0))
        abort();
    in->left -= n;
    in->under_way = n > 0;
    if (in->fingerprint && n > 0)
        fingerprint_feed(in->fingerprint, data, n);
    if (in->fingerprint && n == 0) {
        rc = fingerprint_end(in->fingerprint, in->kept[in->kept_count - 1].fingerprint, err);
        in->fingerprint = NULL;
        if (rc != 0)
            abort();
    }
    return 0;
}

static int on_offer(void *arg, const struct decoder_entry *e, struct err *err)
{
    struct input *in = arg;

    if (++in->entries > MAX_ENTRIES || e->code != 0 || e->member[0] == '\0')
        abort();
    forget_one(in);
    in->left = e->size_bytes;
    for (size_t i = 0; i < in->kept_count; i++)
        if (in->kept[i].nth == e->nth && strcmp(in->kept[i].member, e->member) == 0)
            in->one = &in->kept[i];
    if (in->one && fingerprint_new(e->size_bytes, &in->fingerprint, err) != 0)
        return err->code;
    return 1;
}

static int on_bytes(void *arg, const void *data, size_t n, struct err *err)
{
    struct input *in = arg;
    uint8_t got[16];
    int rc = 0;

    if (n > in->left || (n == 0 && in->left > 0))
        abort();
    in->left -= n;
    if (in->fingerprint && n > 0)
        fingerprint_feed(in->fingerprint, data, n);
    if (in->fingerprint && n == 0) {
        rc = fingerprint_end(in->fingerprint, got, err);
        in->fingerprint = NULL;
        if (rc != 0 || memcmp(got, in->one->fingerprint, sizeof(got)) != 0)
            abort();
    }
    return rc;
}

/* 1: this one; 0: another of the same name; negative: it cannot be read. */
static int is_entry(struct stream *s, const struct kept *k)
{
    uint8_t got[16], buf[3000];
    struct fingerprint *f;
    struct err err;
    int64_t n = 1;

    if (s->size < 0 || (uint64_t)s->size != k->size)
        return 0;
    /* The end first, then the beginning again. */
    if (stream_seek(s, s->size > 10 ? s->size - 10 : 0, &err) != 0 ||
        stream_read(s, buf, 10, &err) < 0 || stream_seek(s, 0, &err) != 0 ||
        fingerprint_new(k->size, &f, &err) != 0)
        return -1;
    while (n > 0) {
        n = stream_read(s, buf, sizeof(buf), &err);
        if (n > 0)
            fingerprint_feed(f, buf, (size_t)n);
    }
    if (fingerprint_end(f, got, &err) != 0 || n < 0)
        return -1;
    return memcmp(got, k->fingerprint, sizeof(got)) == 0;
}

static void find_again(struct input *in, const struct kept *k)
{
    const struct unpack_limits limits = {.max_bytes = 4 * (uint64_t)MAX_BYTES};

    for (unsigned nth = 0; nth < SAME_NAME; nth++) {
        struct stream *s;
        struct err err;
        int found;

        if (open_input(in, &s, &err) != 0)
            return;
        if (member_open(s, k->member, nth, &limits, &s, &err) != 0)
            abort(); /* listed, so it is found; the right one comes before the last of that name */
        found = is_entry(s, k);
        stream_close(s);
        if (found > 0)
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .size = size};
    struct archive_walk_task task = {.open = open_input,
                                     .entry = on_entry,
                                     .bytes = on_listed,
                                     .arg = &in,
                                     .max_entries = MAX_ENTRIES,
                                     .max_bytes = MAX_BYTES,
                                     .memory_bytes = MEMORY_BYTES};
    struct err err = {0};
    int rc = archive_walk(&task, &err);

    if (rc > 0 || (rc < 0 && (err.code != rc || err.msg[0] == '\0')))
        abort();
    /* The walk ended within one. */
    if (in.under_way && in.one)
        free(in.kept[--in.kept_count].member);
    forget_one(&in);
    task.entry = on_offer;
    task.offers = true;
    task.bytes = on_bytes;
    in.entries = 0;
    (void)archive_walk(&task, &err);
    forget_one(&in);
    for (size_t i = 0; i < in.kept_count; i++) {
        find_again(&in, &in.kept[i]);
        free(in.kept[i].member);
    }
    return 0;
}
