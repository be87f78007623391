#include "tools/enqueue/found/dry_run.h"

#include <jansson.h>
#include <search.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/utf8.h"
#include "tools/pair_set.h"

struct present {
    int64_t media_id, place_id;
    uint64_t places;
};

struct dry_run {
    struct store *known;
    struct pair_set contents, places; /* hashes of what was found */
    struct pair_set same, other;      /* rows of places: with what they had, with something else */
    struct pair_set media;            /* rows that were found, */
    struct pair_set back;             /* places and recordings that were asked about being back */
    void *bytes;                      /* a tree of struct dry_run_content */
    struct present *list;             /* at the end */
    size_t count, capacity;
};

int dry_run_new(struct store *known, struct dry_run **ret, struct err *err)
{
    struct dry_run *f = calloc(1, sizeof(*f));

    if (!f)
        return err_set(err, ERR_NOMEM, "out of memory");
    f->known = known;
    *ret = f;
    return 0;
}

static void content_free(void *of)
{
    struct dry_run_content *c = of;

    free(c->path);
    free(c);
}

void dry_run_free(struct dry_run *f)
{
    if (!f)
        return;
    pair_set_free(&f->contents);
    pair_set_free(&f->places);
    pair_set_free(&f->same);
    pair_set_free(&f->other);
    pair_set_free(&f->media);
    pair_set_free(&f->back);
    tdestroy(f->bytes, content_free);
    free(f->list);
    free(f);
}

/* ------------------------------------------------------------------------------- finding */

static int add_hash(struct pair_set *s, const uint8_t hash[HASH_BYTES], struct err *err)
{
    uint64_t half[2];

    memcpy(half, hash, sizeof(half));
    return pair_set_add(s, half[0], half[1] | 1, err);
}

/* 1: nothing was found there yet. */
static int add_place(struct dry_run *f, const struct store_found *found, struct err *err)
{
    struct buf name = BUF_INIT;
    uint8_t hash[HASH_BYTES];
    int rc;

    buf_put(&name, found->path, found->path_len);
    buf_put(&name, "", 1);
    buf_put(&name, found->member, found->member_len);
    buf_put(&name, &found->nth, sizeof(found->nth));
    if (name.failed) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    } else {
        hash_of(name.data, name.len, hash);
        rc = add_hash(&f->places, hash, err);
    }
    buf_free(&name);
    return rc;
}

/* 1: nor was its content found yet. */
static int add_content(struct dry_run *f, const struct store_found *found, struct err *err)
{
    return add_hash(&f->contents, found->fingerprint, err);
}

static int by_fingerprint(const void *a, const void *b)
{
    return memcmp(((const struct dry_run_content *)a)->fingerprint,
                  ((const struct dry_run_content *)b)->fingerprint, 16);
}

struct dry_run_content *dry_run_content(const struct dry_run *f, const uint8_t fingerprint[16])
{
    struct dry_run_content key = {0}, **slot;

    memcpy(key.fingerprint, fingerprint, sizeof(key.fingerprint));
    slot = tfind(&key, &f->bytes, by_fingerprint);
    return slot ? *slot : NULL;
}

/* path: copied, or NULL. */
static int add_bytes(struct dry_run *f, const uint8_t fingerprint[16], const uint8_t *hash,
                     const char *path, size_t path_len, struct err *err)
{
    struct dry_run_content *c = calloc(1, sizeof(*c));

    if (c) {
        memcpy(c->fingerprint, fingerprint, sizeof(c->fingerprint));
        c->has_hash = hash != NULL;
        if (hash)
            memcpy(c->hash, hash, sizeof(c->hash));
        c->path = path ? strndup(path, path_len) : NULL;
    }
    if (!c || (path && !c->path) || !tsearch(c, &f->bytes, by_fingerprint)) {
        if (c)
            content_free(c);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

static int add_row(struct pair_set *s, int64_t id, struct err *err)
{
    int rc = id ? pair_set_add(s, 0, (uint64_t)id, err) : 0;

    return rc < 0 ? rc : 0;
}

/* A row of a place, or else of a recording, is counted when it is met first. */
static int add_back(struct dry_run *f, int64_t place_id, int64_t media_id,
                    struct store_enqueue_counts *counts, struct err *err)
{
    bool back = false;
    int rc = 0;

    if (f->known && (place_id || media_id))
        rc = pair_set_add(&f->back, place_id != 0, (uint64_t)(place_id ? place_id : media_id), err);
    if (rc == 1)
        rc = store_back(f->known, place_id, media_id, &back, err);
    counts->back += back;
    return rc < 0 ? rc : 0;
}

int dry_run_found(struct dry_run *f, const struct store_found *found,
                  struct store_enqueue_counts *counts, struct err *err)
{
    struct store_met met = {0};
    int rc = f->known ? store_meet(f->known, found, &met, err) : 0;
    const bool same = met.place_id && met.place_media == met.media_id;
    bool twice;

    if (rc == 0 && met.erased_id) {
        counts->erased++;
        return 0;
    }
    if (rc == 0)
        rc = add_back(f, 0, met.media_id, counts, err);
    if (rc == 0)
        rc = add_row(&f->media, met.media_id, err);
    if (rc == 0)
        rc = add_row(same ? &f->same : &f->other, met.place_id, err);
    if (rc == 0)
        rc = add_place(f, found, err);
    twice = rc == 0;
    if (rc >= 0 && found->size_bytes > STORE_WHOLE_BYTES && !met.media_id &&
        !dry_run_content(f, found->fingerprint))
        rc = add_bytes(f, found->fingerprint, found->has_hash ? found->hash : NULL,
                       found->member_len ? NULL : found->path, found->path_len, err);
    if (rc >= 0)
        rc = add_content(f, found, err);
    if (rc < 0)
        return rc;
    counts->seen++;
    if (twice || same)
        counts->unchanged++;
    else if (met.place_id)
        counts->changed++;
    else if (rc == 1 && !met.media_id)
        counts->added++;
    else
        counts->places++;
    return 0;
}

int dry_run_same(struct dry_run *f, const int64_t *place_ids, uint32_t n,
                 struct store_enqueue_counts *counts, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = add_row(&f->same, place_ids[i], err);
        if (rc == 0 && counts)
            rc = add_back(f, place_ids[i], 0, counts, err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------- vanishing */

static int store_present_place(void *arg, int64_t place_id, int64_t media_id, uint64_t places,
                               struct err *err)
{
    struct dry_run *f = arg;

    if (!list_grow(&f->list, &f->capacity, f->count, sizeof(*f->list)))
        return err_set(err, ERR_NOMEM, "out of memory for what has vanished");
    f->list[f->count++] = (struct present){media_id, place_id, places};
    return 0;
}

static int by_media(const void *a, const void *b)
{
    const struct present *x = a, *y = b;

    if (x->media_id != y->media_id)
        return x->media_id < y->media_id ? -1 : 1;
    return (x->place_id > y->place_id) - (x->place_id < y->place_id);
}

/* Counts one recording's places, which are adjacent in the list, and twice there if roots overlap.
 * Returns how many rows they have. */
static size_t count_media(const struct dry_run *f, size_t first,
                          struct store_enqueue_counts *counts)
{
    const struct present *p = &f->list[first];
    uint64_t vanished = 0, other = 0;
    size_t n = 0;

    for (; first + n < f->count && p[n].media_id == p->media_id; n++) {
        if (n > 0 && p[n].place_id == p[n - 1].place_id)
            continue;
        if (pair_set_has(&f->other, 0, (uint64_t)p[n].place_id))
            other++;
        else
            vanished += !pair_set_has(&f->same, 0, (uint64_t)p[n].place_id);
    }
    counts->vanished += vanished;
    counts->gone += vanished > 0 && vanished + other == p->places &&
                    !pair_set_has(&f->media, 0, (uint64_t)p->media_id);
    return n;
}

int dry_run_end(struct dry_run *f, const struct request *end, struct store_enqueue_counts *counts,
                struct err *err)
{
    int rc = f->known ? store_present(f->known, end, store_present_place, f, err) : 0;

    if (rc != 0)
        return rc;
    if (f->count > 0)
        qsort(f->list, f->count, sizeof(*f->list), by_media);
    for (size_t i = 0; i < f->count;)
        i += count_media(f, i, counts);
    f->count = 0;
    return 0;
}

/* ---- what a dry run would take and what it would skip, one line for each, written as it is met:
 * memory does not grow with the walk */

/* Columns of the reason; the path comes last, since it may be of any length. */
#define WHY_WIDTH 17

void dry_run_lines_open(const struct dry_run_lines *l)
{
    if (l->json)
        fputs("{\n  \"listed\": [", stdout);
}

void dry_run_lines_close(const struct dry_run_lines *l)
{
    if (l->json)
        fputs(l->lines ? "\n  ],\n" : "],\n", stdout);
    else if (l->lines)
        putchar('\n');
}

static void add_json(const struct dry_run_lines *l, const struct dry_run_line *line,
                     const char *path, const char *member)
{
    json_t *o = json_pack("{s:b, s:s, s:s, s:b}", "taken", (int)line->taken, "why", line->why,
                          "path", path, "directory", (int)line->directory);

    if (o && member[0])
        json_object_set_new(o, "member", json_string(member));
    if (o && line->recordings)
        json_object_set_new(o, "recordings", json_integer((json_int_t)line->recordings));
    if (o && line->error)
        json_object_set_new(o, "error", json_string(line->error));
    fputs(l->lines ? ",\n    " : "\n    ", stdout);
    if (o)
        json_dumpf(o, stdout, JSON_COMPACT);
    json_decref(o);
}

void dry_run_lines_add(struct dry_run_lines *l, const struct dry_run_line *line)
{
    char *path = utf8_display(line->path, line->path_len);
    char *member = utf8_display_nth(line->member, strlen(line->member), line->nth);

    if (path && member && l->json) {
        add_json(l, line, path, member);
    } else if (path && member) {
        printf("%s  %-*s  %s%s%s%s", line->taken ? "take" : "skip", WHY_WIDTH, line->why, path,
               line->directory ? "/" : "", member[0] ? "//" : "", member);
        if (line->recordings > 1)
            printf(" (%u recordings)", line->recordings);
        putchar('\n');
    }
    l->lines += path && member;
    free(path);
    free(member);
}
