/* Streams and the archive walk in this very process, so that the sanitizers see leaks: random seeks
 * against the plain bytes, hashes, bounds, damaged archives cut at every place. */
#include <xxhash.h>

#include "base/hash.h"
#include "tests/unit/media/media_util.h"
#include "workers/media/stream/stream.h"
#include "workers/media/archive_walk.h"

static const struct unpack_limits plenty = {.max_bytes = UINT64_MAX};

/* Bytes that compress a little and never repeat exactly. */
static uint8_t *content(size_t n, uint32_t seed)
{
    uint8_t *data = malloc(n + 1);

    assert_non_null(data);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)((seed >> 26) + (i >> 12));
    }
    return data;
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static struct stream *memory(const uint8_t *data, size_t n)
{
    struct stream *s;
    struct err err;

    assert_ok(stream_of_memory(data, n, (struct stream_pulse){0}, &s, &err), err);
    return s;
}

static void content_of(const void *data, size_t n, uint8_t ret[16])
{
    XXH128_canonical_t c;

    XXH128_canonicalFromHash(&c, XXH3_128bits(data, n));
    memcpy(ret, c.digest, 16);
}

/* Reads at many places and compares with the bytes themselves. */
static void poke(struct stream *s, const uint8_t *data, size_t n, int rounds, size_t reach)
{
    uint32_t seed = 99;
    uint8_t buf[5000];
    struct err err;

    for (int i = 0; i < rounds; i++) {
        size_t at, want, len;
        int64_t got;

        seed = seed * 1664525u + 1013904223u;
        at = (seed >> 4) % reach;
        len = seed % sizeof(buf) + 1;
        want = at >= n ? 0 : n - at < len ? n - at : len;
        assert_ok(stream_seek(s, (int64_t)at, &err), err);
        got = stream_read_full(s, buf, len, &err);
        assert_int_equal(got, want);
        assert_memory_equal(buf, data + (at < n ? at : 0), want);
    }
}

TEST(memory_reads_anywhere)
{
    uint8_t *data = content(100000, 1);
    struct stream *s = memory(data, 100000);
    struct err err;

    assert_int_equal(s->size, 100000);
    poke(s, data, 100000, 200, 120000);
    assert_int_equal(stream_seek(s, -1, &err), ERR_INPUT);
    stream_close(s);
    free(data);
}

TEST(the_hash_survives_any_order)
{
    const size_t n = 9 << 20; /* more than a gap that is read through */
    uint8_t *data = content(n, 2), want[16], got[16];
    struct err err;

    content_of(data, n, want);
    for (int way = 0; way < 4; way++) {
        struct stream *s;
        uint8_t byte[3];

        assert_ok(hashed_open(memory(data, n), &s, &err), err);
        if (way == 1) {
            poke(s, data, n, 100, n + 1000);
        } else if (way >= 2) { /* the end first, then near, then far */
            assert_ok(stream_seek(s, way == 2 ? (int64_t)n - 3 : 3 << 20, &err), err);
            assert_int_equal(stream_read_full(s, byte, 3, &err), 3);
            assert_memory_equal(byte, data + (way == 2 ? n - 3 : 3 << 20), 3);
        }
        assert_ok(hashed_finish(s, got, &err), err);
        assert_memory_equal(got, want, 16);
        stream_close(s);
    }
    content_of("", 0, want);
    {
        struct stream *s;

        assert_ok(hashed_open(memory(data, 0), &s, &err), err);
        assert_ok(hashed_finish(s, got, &err), err);
        assert_memory_equal(got, want, 16);
        stream_close(s);
    }
    free(data);
}

/* 20 MiB in a compressed archive: more than stays in memory, so that going back starts anew. */
TEST(members_seek_both_ways)
{
    const size_t n = 20 << 20;
    static const char *const kinds[][3] = {
        {"zip", "zip", "rm -f m.zip && zip -q -1 m.zip first.bin big.bin"},
        {"7z", "7z", "rm -f m.7z && 7z a -bso0 -mx1 m.7z first.bin big.bin"},
        {"tar gzip", "tgz", "tar cf - first.bin big.bin | gzip -1 >m.tgz"},
    };
    uint8_t *data = content(n, 3);

    write_file("big.bin", data, n);
    write_file("first.bin", data, 1000);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        char path[16];
        uint8_t *packed, want[16], got[16], tail[16];
        size_t packed_len;
        struct stream *s;
        struct err err;

        if (!have_tools(kinds[k][0])) {
            print_message("left out: needs %s\n", kinds[k][0]);
            continue;
        }
        sh("%s", kinds[k][2]);
        snprintf(path, sizeof(path), "m.%s", kinds[k][1]);
        packed = slurp(path, &packed_len);
        assert_ok(member_open(memory(packed, packed_len), "big.bin", 0, &plenty, &s, &err), err);
        assert_int_equal(s->size, n);
        assert_true(s->sequential);
        /* The end first, as an mp4's index; then the beginning, then hops within the window. */
        assert_ok(stream_seek(s, (int64_t)n - 16, &err), err);
        assert_int_equal(stream_read_full(s, tail, 16, &err), 16);
        assert_memory_equal(tail, data + n - 16, 16);
        assert_ok(stream_seek(s, 0, &err), err);
        assert_int_equal(stream_read_full(s, tail, 16, &err), 16);
        assert_memory_equal(tail, data, 16);
        poke(s, data, n, 30, 8 << 20);
        assert_ok(stream_seek(s, 0, &err), err);
        assert_ok(hashed_open(s, &s, &err), err);
        assert_ok(hashed_finish(s, got, &err), err);
        content_of(data, n, want);
        assert_memory_equal(got, want, 16);
        stream_close(s);

        assert_int_equal(member_open(memory(packed, packed_len), "none", 0, &plenty, &s, &err),
                         ERR_MISSING);
        assert_int_equal(member_open(memory(packed, packed_len), "big.bin", 1, &plenty, &s, &err),
                         ERR_MISSING);
        free(packed);
    }
    free(data);
}

TEST(back_and_forth_has_an_end)
{
    const size_t n = 17 << 20;
    uint8_t *data = calloc(1, n), *packed, byte;
    size_t packed_len;
    struct stream *s;
    struct err err = {0};
    int64_t got = 1;

    need_tools("zip");
    write_file("zeros.bin", data, n);
    sh("rm -f z.zip && zip -q -1 z.zip zeros.bin");
    packed = slurp("z.zip", &packed_len);
    assert_ok(member_open(memory(packed, packed_len), "zeros.bin", 0, &plenty, &s, &err), err);
    for (int i = 0; i < 600 && got >= 0; i++) {
        assert_ok(stream_seek(s, i % 2 ? (int64_t)n - 1 : 0, &err), err);
        got = stream_read(s, &byte, 1, &err);
    }
    assert_int_equal(got, ERR_LIMIT);
    stream_close(s);
    free(packed);
    free(data);
}

/* --- the walk --- */

struct bytes {
    const uint8_t *data;
    size_t len;
    uint64_t memory_bytes; /* 0: as the decoder has it */
    unsigned entries, unreadable, pulses;
    unsigned reads; /* of the outer archive, 64 KiB each */
    bool under_way; /* an entry, whose bytes come */
    struct hash *sum;
    XXH64_hash_t said;
};

static void count_read(void *arg) { ((struct bytes *)arg)->reads++; }

static int open_bytes(void *arg, struct stream **ret, struct err *err)
{
    struct bytes *b = arg;

    return stream_of_memory(b->data, b->len, (struct stream_pulse){count_read, b}, ret, err);
}

static int count_entry(void *arg, const struct decoder_entry *e, struct err *err)
{
    struct bytes *b = arg;

    (void)err;
    assert_non_null(e->member);
    assert_true(e->head_len <= sizeof(e->head));
    /* What did not come whole is told of once more. */
    assert_true(!b->under_way || e->code != 0);
    b->entries += e->code != 0;
    b->unreadable += e->code != 0;
    b->under_way = e->code == 0;
    hash_free(b->sum);
    b->sum = hash_new();
    b->said = XXH3_64bits_withSeed(e->member, strlen(e->member), b->said + e->nth);
    b->said = XXH3_64bits_withSeed(&e->size_bytes, sizeof(e->size_bytes), b->said);
    return 0;
}

static int count_bytes(void *arg, const void *data, size_t n, struct err *err)
{
    struct bytes *b = arg;

    (void)err;
    assert_true(b->under_way);
    b->under_way = n > 0;
    hash_put(b->sum, data, n);
    if (n == 0) {
        uint8_t sum[HASH_BYTES];

        hash_get(b->sum, sum);
        b->said = XXH3_64bits_withSeed(sum, sizeof(sum), b->said);
        b->entries++;
    }
    return 0;
}

static void count_pulse(void *arg) { ((struct bytes *)arg)->pulses++; }

static int walk(struct bytes *b, uint64_t max_entries, uint64_t max_bytes, struct err *err)
{
    struct archive_walk_task task = {
        .open = open_bytes,
        .entry = count_entry,
        .bytes = count_bytes,
        .arg = b,
        .pulse = {count_pulse, b},
        .max_entries = max_entries,
        .max_bytes = max_bytes,
        .memory_bytes = b->memory_bytes ? b->memory_bytes : 32 << 20,
    };
    int rc;

    b->entries = b->unreadable = b->pulses = b->reads = 0;
    b->said = 0;
    b->under_way = false;
    rc = archive_walk(&task, err);
    hash_free(b->sum);
    b->sum = NULL;
    return rc;
}

/* Archives cut anywhere, and with any byte wrong, end in an error or in fewer entries. */
TEST(damage_anywhere_is_survived)
{
    static const char *const paths[] = {"d.zip", "d.7z", "d.tgz", "d.tar", "d.iso", "n.zip"};

    need_tools("zip 7z tar gzip genisoimage");
    write_tone("a.wav", 8000, 0.1);
    write_tone("b.wav", 8000, 0.05);
    sh("rm -f d.* n.zip; zip -q d.zip a.wav b.wav; 7z a -bso0 d.7z a.wav b.wav;"
       "tar czf d.tgz a.wav b.wav; tar cf d.tar a.wav b.wav; zip -q n.zip d.zip d.tgz;"
       "genisoimage -quiet -R -o d.iso a.wav b.wav");
    for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
        size_t len, step;
        uint8_t *data = slurp(paths[k], &len);
        struct bytes b = {.data = data, .len = len};
        struct err err = {0};
        unsigned whole;

        assert_ok(walk(&b, 1000, 1 << 24, &err), err);
        whole = b.entries;
        assert_int_equal(whole, strcmp(paths[k], "n.zip") == 0 ? 4 : 2);
        assert_true((b.pulses > 0) == (whole == 4)); /* inner archives are read from memory */
        step = len / 150 + 1;
        for (size_t cut = 0; cut < len; cut += step) {
            b = (struct bytes){.data = data, .len = cut};
            (void)walk(&b, 1000, 1 << 24, &err);
            assert_true(b.entries <= whole + 2);
        }
        for (size_t at = 0; at < len; at += step) {
            b = (struct bytes){.data = data, .len = len};
            data[at] ^= 0xff;
            (void)walk(&b, 1000, 1 << 24, &err);
            data[at] ^= 0xff;
        }
        free(data);
    }
}

TEST(bounds_of_the_walk)
{
    struct bytes b = {0};
    struct err err = {0};
    uint8_t *data;
    size_t len;

    need_tools("zip tar gzip");
    write_tone("a.wav", 8000, 5);
    write_tone("b.wav", 8000, 5);
    sh("rm -f l.zip l.tgz; zip -q l.zip a.wav b.wav; tar czf l.tgz a.wav b.wav");
    for (int k = 0; k < 2; k++) {
        data = slurp(k ? "l.tgz" : "l.zip", &len);
        b = (struct bytes){.data = data, .len = len};
        assert_int_equal(walk(&b, 1, 1 << 24, &err), ERR_LIMIT);
        assert_int_equal(b.entries, 1);
        assert_int_equal(walk(&b, 100, 100000, &err), ERR_LIMIT);
        assert_non_null(strstr(err.msg, "unpacks to more than"));
        assert_true(b.entries <= 1);
        free(data);
    }
    assert_true(unpack_default_bytes(1 << 20) >= (uint64_t)16 << 30);
    assert_int_equal(unpack_default_bytes(UINT64_MAX), UINT64_MAX);
}

/* However many archives that do not fit into memory are inside, the outer one is unpacked once, and
 * once more where they are read back and forth; what is listed is the same. */
TEST(large_archives_inside_share_their_passes)
{
    /* Larger than what a member keeps of itself, by zeros that the outer one takes out. */
    static const struct {
        const char *name, *tools, *make;
        unsigned passes;
    } kinds[] = {
        {"in.tar", "tar gzip", "tar cf in$i.tar n$i.wav zeros m.wav", 1},
        {"in.zip", "tar gzip zip", "zip -q0 in$i.zip n$i.wav zeros m.wav", 2},
        {"in.7z", "tar gzip 7z", "7z a -bso0 -bsp0 -mx0 in$i.7z n$i.wav zeros m.wav", 2},
    };
    uint8_t *data = content(1 << 19, 5);

    write_file("m.wav", data, 100000);
    for (int i = 0; i < 3; i++) {
        char path[16];

        snprintf(path, sizeof(path), "n%d.wav", i);
        write_file(path, data + i, (1 << 19) - 5);
    }
    free(data);
    sh("truncate -s 17M zeros");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        struct bytes in_memory = {0}, b;
        struct err err = {0};
        unsigned pass;

        if (!have_tools(kinds[k].tools)) {
            print_message("left out: %s needs %s\n", kinds[k].name, kinds[k].tools);
            continue;
        }
        sh("rm -f in*.* outer.tgz; for i in 0 1 2; do %s || exit 1; done; "
           "tar cf - in*.* | gzip -1 >outer.tgz",
           kinds[k].make);
        data = slurp("outer.tgz", &in_memory.len);
        in_memory.data = data;
        b = in_memory;
        b.memory_bytes = 4096;
        assert_ok(walk(&in_memory, 1000, 1 << 30, &err), err);
        assert_int_equal(in_memory.entries, 6);
        assert_int_equal(in_memory.unreadable, 0);
        pass = in_memory.reads;
        assert_true(pass > 20);
        assert_ok(walk(&b, 1000, 1 << 30, &err), err);
        assert_int_equal(b.said, in_memory.said);
        assert_in_range(b.reads, kinds[k].passes * pass - 4, kinds[k].passes * pass + 4);
        /* What the outer one unpacks to is within the bound, but not with what was read of the
         * archives before the last one. */
        assert_int_equal(walk(&b, 1000, 3 * ((17 << 20) + (1 << 19) + 100000) + 600000, &err),
                         ERR_LIMIT);
        assert_true(b.entries < 6);
        free(data);
    }
}

TEST_MAIN(NULL, NULL)
