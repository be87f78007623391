/* Listings of archives: what is in them, by which name, and what cannot be read and why. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/media/media_util.h"
#include "base/memory.h"
#include "base/hash.h"
#include "workers/media/stream/fingerprint.h"
#include "workers/media/unpacker.h"

static void fingerprint_of(const char *path, uint8_t ret[16])
{
    struct stat st;
    struct err err;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_ok(fingerprint_fd(fd, (uint64_t)st.st_size, ret, &err), err);
    close(fd);
}

static void hash_of_file(const char *path, uint8_t ret[HASH_BYTES])
{
    size_t len;
    uint8_t *data = slurp(path, &len);

    hash_of(data, len, ret);
    free(data);
}

static void make_inputs(void)
{
    write_tone("a.wav", 16000, 2); /* fingerprinted whole */
    write_tone("b.wav", 44100, 6); /* by blocks */
    sh("mkdir -p sub && cp a.wav sub/noname && cp a.wav sub/c.WAV && echo hello >note.txt && "
       "echo hello >unknown && ln -sf a.wav link.wav && touch -d '2001-02-03 04:05:06 UTC' b.wav");
}

/* The bytes of an entry that is wanted have its fingerprint; ev: the one behind them. */
static void expect_bytes(struct decoder *d, const struct decoder_entry *e, struct decoder_event *ev)
{
    struct fingerprint *f;
    uint8_t got[16];
    struct err err;

    assert_ok(fingerprint_new(e->size_bytes, &f, &err), err);
    do {
        assert_ok(decoder_next(d, ev, &err), err);
        assert_int_equal(ev->type, DECODER_BYTES);
        fingerprint_feed(f, ev->bytes, ev->byte_count);
    } while (ev->byte_count > 0);
    assert_ok(fingerprint_end(f, got, &err), err);
    assert_memory_equal(got, e->fingerprint, 16);
    assert_ok(decoder_next(d, ev, &err), err);
}

/* What is handed on is what the listing says, under the same names in the same order, whichever of
 * it is wanted. */
static void unpacks_as_listed(const char *archive, const struct outcome *listed)
{
    for (size_t odd = 0; odd < 2; odd++) {
        struct decoder_event ev;
        struct decoder *d;
        struct err err;
        int fd = open(archive, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_ok(decoder_start_unpack(fd, NULL, &d, &err), err);
        close(fd);
        assert_ok(decoder_next(d, &ev, &err), err);
        for (size_t i = 0; i < listed->entry_count; i++) {
            const struct decoder_entry *e = &listed->entries[i];

            if (e->code != 0)
                continue;
            assert_int_equal(ev.type, DECODER_ENTRY);
            assert_string_equal(ev.entry.member, e->member);
            assert_int_equal(ev.entry.nth, e->nth);
            assert_int_equal(ev.entry.size_bytes, e->size_bytes);
            assert_ok(decoder_answer(d, i % 2 == odd, &err), err);
            if (i % 2 == odd)
                expect_bytes(d, e, &ev);
            else
                assert_ok(decoder_next(d, &ev, &err), err);
        }
        assert_int_equal(ev.type, DECODER_END);
        decoder_close(d);
    }
}

/* In every kind of archive, the same three recordings. */
static void every_kind_is_listed(void **state)
{
    static const char *const kinds[][3] = {
        {"zip", "k.zip", "zip -qr k.zip a.wav b.wav sub note.txt unknown"},
        {"zip", "k0.zip", "zip -qr0 k0.zip a.wav b.wav sub note.txt unknown"},
        {"tar", "k.tar", "tar cf k.tar a.wav b.wav sub note.txt unknown link.wav"},
        {"tar gzip", "k.tar.gz", "tar czf k.tar.gz a.wav b.wav sub note.txt unknown"},
        {"tar bzip2", "k.tar.bz2", "tar cjf k.tar.bz2 a.wav b.wav sub note.txt"},
        {"tar xz", "k.tar.xz", "tar cJf k.tar.xz a.wav b.wav sub note.txt"},
        {"tar zstd", "k.tar.zst", "tar --zstd -cf k.tar.zst a.wav b.wav sub note.txt"},
        {"7z", "k.7z", "7z a -bso0 k.7z a.wav b.wav sub note.txt unknown"},
        {"genisoimage", "k.iso",
         "genisoimage -quiet -R -graft-points -o k.iso a.wav b.wav sub=sub note.txt"},
        /* Lzip, whose stream is LZMA's between a head and a tail of its own. */
        {"python3 tar", "k.tar.lz",
         "tar cf k.tar a.wav b.wav sub note.txt unknown && python3 -c 'import lzma, struct, zlib; "
         "d = open(\"k.tar\", \"rb\").read(); "
         "z = b\"LZIP\\1\\x17\" + lzma.compress(d, lzma.FORMAT_RAW, filters=[{"
         "\"id\": lzma.FILTER_LZMA1, \"dict_size\": 1 << 23}]); "
         "z += struct.pack(\"<IQQ\", zlib.crc32(d), len(d), len(z) + 20); "
         "open(\"k.tar.lz\", \"wb\").write(z)'"},
        {"cpio", "k.cpio", "find a.wav b.wav sub note.txt | cpio -o -H newc >k.cpio"},
    };
    uint8_t whole[16], blocks[16], all[2][HASH_BYTES];

    (void)state;
    make_inputs();
    fingerprint_of("a.wav", whole);
    fingerprint_of("b.wav", blocks);
    hash_of_file("a.wav", all[0]);
    hash_of_file("b.wav", all[1]);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        static const char *const names[] = {"a.wav", "b.wav", "sub/noname", "sub/c.WAV"};
        struct outcome o;

        if (!have_tools(kinds[i][0])) {
            print_message("left out: %s needs %s\n", kinds[i][1], kinds[i][0]);
            continue;
        }
        sh("rm -f %s; %s", kinds[i][1], kinds[i][2]);
        o = list_path(kinds[i][1], NULL);
        if (o.rc != 0 || o.entry_count != 4)
            print_error("%s: %zu entries, %s\n", kinds[i][1], o.entry_count, o.rc ? o.err.msg : "");
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.entry_count, 4);
        for (int k = 0; k < 4; k++) {
            const struct decoder_entry *e = entry_of(&o, names[k]);

            assert_non_null(e);
            assert_int_equal(e->code, 0);
            assert_memory_equal(e->fingerprint, k == 1 ? blocks : whole, 16);
            assert_memory_equal(e->content_hash, all[k == 1], HASH_BYTES);
            assert_int_equal(e->head_len, 64);
            assert_memory_equal(e->head, "RIFF", 4);
        }
        assert_int_equal(entry_of(&o, "b.wav")->size_bytes, 44 + 2 * 6 * 44100);
        assert_in_range(entry_of(&o, "b.wav")->mtime_ms, 981173106000 - 86400000,
                        981173106000 + 86400000); /* zip knows no zone */
        unpacks_as_listed(kinds[i][1], &o);
        outcome_free(&o);
    }
}

/* What the listing says can be decoded under that name, and is what was listed. */
static void listed_names_decode(const char *archive, size_t want)
{
    struct outcome o = list_path(archive, NULL);

    if (o.rc != 0 || o.entry_count != want)
        print_error("%s: %zu entries, %s\n", archive, o.entry_count, o.rc ? o.err.msg : "");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, want);
    unpacks_as_listed(archive, &o);
    for (size_t i = 0; i < want; i++) {
        struct ask ask = {.member = o.entries[i].member,
                          .nth = o.entries[i].nth,
                          .fingerprint = o.entries[i].fingerprint};
        struct outcome d = decode_path(archive, &ask);

        if (d.rc != 0)
            print_error("%s of %s: %s\n", ask.member, archive, d.err.msg);
        assert_int_equal(d.rc, 0);
        assert_true(d.samples > 0);
        outcome_free(&d);
    }
    outcome_free(&o);
}

/* How the reading of it all ended, in which so many members came whole. */
static int unpack_all(const char *archive, unsigned want)
{
    struct decoder_event ev = {0};
    struct decoder *d;
    struct err err;
    unsigned whole = 0;
    int fd = open(archive, O_RDONLY | O_CLOEXEC), rc;

    assert_true(fd >= 0);
    assert_ok(decoder_start_unpack(fd, NULL, &d, &err), err);
    close(fd);
    while ((rc = decoder_next(d, &ev, &err)) == 0 && ev.type != DECODER_END)
        if (ev.type == DECODER_ENTRY)
            assert_ok(decoder_answer(d, true, &err), err);
        else
            whole += ev.byte_count == 0;
    assert_true(rc != 0 || !ev.end.damage[0]);
    decoder_close(d);
    assert_int_equal(whole, want);
    return rc;
}

/* A member that ends too early is not handed on as if it were whole. */
static void half_a_member_is_not_whole(void **state)
{
    uint8_t *data;
    size_t len;
    FILE *f;

    (void)state;
    need_tools("tar gzip");
    make_inputs();
    sh("rm -f harm.tgz; tar czf harm.tgz a.wav b.wav");
    data = slurp("harm.tgz", &len);
    f = fopen("harm.tgz", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len - 100, f), len - 100);
    assert_int_equal(fclose(f), 0);
    free(data);
    assert_int_equal(unpack_all("harm.tgz", 1), ERR_INPUT); /* the first */
}

/* A member that has more than it says harms itself alone. */
static void more_than_a_member_says(void **state)
{
    (void)state;
    need_tools("tar python3");
    make_inputs();
    /* Its size, in both of its headers, is 10. */
    sh("rm -f more.zip more.tgz; python3 -c 'import zipfile; "
       "zipfile.ZipFile(\"more.zip\", \"w\", zipfile.ZIP_DEFLATED).write(\"b.wav\"); "
       "d = bytearray(open(\"more.zip\", \"rb\").read()); c = d.index(b\"PK\\1\\2\"); "
       "d[22:26] = d[c + 24:c + 28] = (10).to_bytes(4, \"little\"); "
       "open(\"more.zip\", \"wb\").write(d)' && tar czf more.tgz more.zip a.wav");
    assert_int_equal(unpack_all("more.tgz", 1), 0); /* a.wav */
}

static void any_name_will_do(void **state)
{
    static const char *const names[] = {"line\nbreak.wav",
                                        "bad\xff\xfeutf8.wav",
                                        ("gr\xc3\xbc\xc3\x9f"
                                         "e \xe6\x97\xa5.wav"),
                                        "-dash.wav",
                                        "a  b'\"$(x).wav",
                                        "caf\xe9.wav"};
    const size_t count = sizeof(names) / sizeof(names[0]);
    struct outcome o;

    (void)state;
    need_tools("zip tar 7z");
    sh("rm -rf odd && mkdir odd");
    for (size_t i = 0; i < count; i++) {
        char path[128];

        snprintf(path, sizeof(path), "odd/%s", names[i]);
        write_tone(path, 8000, 0.2 + 0.1 * (double)i);
    }
    sh("rm -f odd.tar odd.zip; tar cf odd.tar -C odd . && tar --format=pax -cf odd.pax.tar -C odd "
       ". "
       "&& (cd odd && zip -qr ../odd.zip .)");
    o = list_path("odd.tar", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, count);
    for (size_t i = 0; i < count; i++) {
        char member[128];

        snprintf(member, sizeof(member), "./%s", names[i]);
        assert_non_null(entry_of(&o, member));
    }
    outcome_free(&o);
    listed_names_decode("odd.tar", count);
    listed_names_decode("odd.pax.tar", count);
    listed_names_decode("odd.zip", count);
    sh("rm -f uni.7z && 7z a -bso0 uni.7z odd/gr*");
    listed_names_decode("uni.7z", 1);
    o = list_path("uni.7z", NULL);
    assert_non_null(entry_of(&o, "odd/gr\xc3\xbc\xc3\x9f"
                                 "e \xe6\x97\xa5.wav"));
    outcome_free(&o);
}

static void archives_in_archives(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("zip tar gzip");
    make_inputs();
    sh("rm -f in.zip in.tgz out.zip out.tar deep.zip; zip -q in.zip a.wav && tar czf in.tgz a.wav "
       "b.wav && zip -q out.zip in.zip in.tgz b.wav && tar cf out.tar in.zip in.tgz b.wav && "
       "zip -q deep.zip out.zip b.wav");
    listed_names_decode("out.zip", 4);
    listed_names_decode("out.tar", 4);
    o = list_path("out.zip", NULL);
    assert_non_null(entry_of(&o, "in.zip//a.wav"));
    assert_non_null(entry_of(&o, "in.tgz//b.wav"));
    assert_non_null(entry_of(&o, "b.wav"));
    outcome_free(&o);
    /* Three deep is said to be too deep; what lies beside it is listed all the same. */
    o = list_path("deep.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, 4);
    assert_non_null(entry_of(&o, "out.zip//b.wav"));
    assert_non_null(entry_of(&o, "b.wav"));
    assert_int_equal(entry_of(&o, "out.zip//in.zip")->code, ERR_LIMIT);
    assert_non_null(strstr(entry_of(&o, "out.zip//in.zip")->message, "three deep"));
    outcome_free(&o);
    {
        const struct ask ask = {.member = "out.zip//in.zip//a.wav"};

        o = decode_path("deep.zip", &ask);
        assert_sentence(&o, ERR_MISSING, "no such member");
        outcome_free(&o);
    }
}

static void names_with_separators(void **state)
{
    (void)state;
    need_tools("tar");
    write_tone("x.wav", 8000, 0.3);
    sh("tar cf sep.tar --transform 's,^x,in.zip//x,' x.wav");
    listed_names_decode("sep.tar", 1);
}

/* The nth member of that name is a tone of so many samples, with or without being told apart by its
 * fingerprint. */
static void nth_is(const char *archive, const char *member, uint32_t nth, size_t samples)
{
    struct outcome o = list_path(archive, NULL), d;
    struct ask ask = {.member = member, .nth = nth};
    size_t found = 0;

    for (size_t i = 0; i < o.entry_count; i++) {
        if (strcmp(o.entries[i].member, member) == 0 && o.entries[i].nth == nth) {
            assert_int_equal(o.entries[i].size_bytes, 44 + samples); /* half the rate, two bytes */
            found++;
        }
    }
    assert_int_equal(found, 1);
    outcome_free(&o);
    d = decode_path(archive, &ask);
    if (d.rc != 0)
        print_error("%s, %u of %s: %s\n", member, nth, archive, d.err.msg);
    assert_int_equal(d.rc, 0);
    assert_in_range(d.samples, samples - 100, samples + 100);
    outcome_free(&d);
}

/* A member that was put into a tar several times: each is found by its number, and, should the
 * archive have changed since, by its fingerprint. */
static void same_name_twice(void **state)
{
    static const char *const seconds[] = {"0.5", "0.7", "0.9"};
    struct outcome o, d;

    (void)state;
    need_tools("tar");
    sh("rm -f twice.tar");
    for (int i = 0; i < 3; i++) {
        write_tone("twice.wav", 8000, strtod(seconds[i], NULL));
        sh("tar rf twice.tar twice.wav");
    }
    listed_names_decode("twice.tar", 3);
    nth_is("twice.tar", "twice.wav", 0, 8000);
    nth_is("twice.tar", "twice.wav", 1, 11200);
    nth_is("twice.tar", "twice.wav", 2, 14400);
    o = list_path("twice.tar", NULL);
    for (uint32_t nth = 0; nth < 6; nth++) {
        const struct ask moved = {
            .member = "twice.wav", .nth = nth, .fingerprint = o.entries[1].fingerprint};

        d = decode_path("twice.tar", &moved);
        assert_int_equal(d.rc, 0);
        assert_in_range(d.samples, 11100, 11300);
        outcome_free(&d);
    }
    for (uint32_t nth = 2; nth < 5; nth++) {
        uint8_t other[16] = {1};
        const struct ask gone = {.member = "twice.wav", .nth = nth, .fingerprint = other};

        d = decode_path("twice.tar", &gone);
        assert_sentence(&d, ERR_CHANGED, "changed since it was enqueued");
        outcome_free(&d);
    }
    d = decode_path("twice.tar", &(struct ask){.member = "twice.wav", .nth = 3});
    assert_sentence(&d, ERR_MISSING, "no such member");
    outcome_free(&d);
    d = decode_path(
        "twice.tar",
        &(struct ask){.member = "once.wav", .nth = 2, .fingerprint = o.entries[1].fingerprint});
    assert_sentence(&d, ERR_MISSING, "no such member");
    outcome_free(&d);
    outcome_free(&o);
}

/* Inner archives of one name, one of them cut off: members are counted through all of them. */
static void same_name_in_inner_archives(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("tar gzip");
    sh("rm -rf reels && mkdir -p reels/1 reels/2 reels/3 && rm -f reels.tar reels.tgz");
    write_tone("reels/x.wav", 8000, 0.5);
    sh("tar czf reels/1/reel.tgz -C reels x.wav");
    write_tone("reels/x.wav", 8000, 0.7);
    write_tone("reels/y.wav", 8000, 60);
    sh("tar czf reels/whole.tgz -C reels x.wav y.wav && "
       "head -c $(($(stat -c %%s reels/whole.tgz) - 99)) reels/whole.tgz >reels/2/reel.tgz");
    write_tone("reels/x.wav", 8000, 0.9);
    sh("tar cf reels/x.tar -C reels x.wav && "
       "tar rf reels/x.tar -C reels x.wav && gzip -c reels/x.tar >reels/3/reel.tgz && "
       "for i in 1 2 3; do tar rf reels.tar -C reels/$i reel.tgz; done && gzip -c reels.tar "
       ">reels.tgz");
    for (int i = 0; i < 2; i++) {
        static const char *const archives[] = {"reels.tar", "reels.tgz"};

        nth_is(archives[i], "reel.tgz//x.wav", 0, 8000);
        nth_is(archives[i], "reel.tgz//x.wav", 1, 11200);
        nth_is(archives[i], "reel.tgz//x.wav", 2, 14400);
        nth_is(archives[i], "reel.tgz//x.wav", 3, 14400);
        o = list_path(archives[i], NULL);
        assert_int_equal(o.rc, 0);
        assert_int_equal(entry_of(&o, "reel.tgz")->code, ERR_INPUT);
        assert_int_equal(entry_of(&o, "reel.tgz")->nth, 1); /* the second */
        outcome_free(&o);
        o = decode_path(archives[i], &(struct ask){.member = "reel.tgz//x.wav", .nth = 4});
        assert_sentence(&o, ERR_INPUT, "damaged or cut short");
        outcome_free(&o);
    }
}

static void changed_or_missing_members(void **state)
{
    uint8_t other[16] = {1};
    struct ask ask = {.member = "a.wav", .fingerprint = other};
    struct outcome o;

    (void)state;
    need_tools("zip");
    make_inputs();
    sh("rm -f c.zip; zip -q c.zip a.wav");
    o = decode_path("c.zip", &ask);
    assert_sentence(&o, ERR_CHANGED, "changed since it was enqueued");
    outcome_free(&o);
    ask = (struct ask){.member = "gone.wav"};
    o = decode_path("c.zip", &ask);
    assert_sentence(&o, ERR_MISSING, "no such member");
    outcome_free(&o);
    ask = (struct ask){.member = "a.wav"};
    o = decode_path("a.wav", &ask); /* no archive at all */
    assert_sentence(&o, ERR_INPUT, "not an archive");
    outcome_free(&o);
}

static void encrypted(void **state)
{
    const struct ask ask = {.member = "a.wav"};
    struct outcome o;

    (void)state;
    need_tools("zip 7z");
    make_inputs();
    sh("rm -f e.zip e.7z h.7z; zip -q -P secret e.zip a.wav note.txt && 7z a -bso0 -psecret e.7z "
       "a.wav && 7z a -bso0 -psecret -mhe=on h.7z a.wav && zip -q e.zip b.wav");
    o = list_path("e.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, 2);
    assert_int_equal(entry_of(&o, "a.wav")->code, ERR_INPUT);
    assert_non_null(strstr(entry_of(&o, "a.wav")->message, "encrypted"));
    assert_int_equal(entry_of(&o, "b.wav")->code, 0);
    outcome_free(&o);
    o = decode_path("e.zip", &ask);
    assert_sentence(&o, ERR_INPUT, "encrypted");
    outcome_free(&o);
    o = list_path("e.7z", NULL);
    if (o.rc == 0) {
        assert_int_equal(o.entry_count, 1);
        assert_non_null(strstr(o.entries[0].message, "encrypted"));
    } else {
        assert_sentence(&o, ERR_INPUT, "encrypted");
    }
    outcome_free(&o);
    o = list_path("h.7z", NULL);
    assert_sentence(&o, ERR_INPUT, "encrypted");
    outcome_free(&o);
}

/* What was read before the damage is there, then comes the error. */
static void damaged(void **state)
{
    const struct ask ask = {.member = "b.wav"};
    uint8_t *data;
    size_t len;
    struct outcome o;
    FILE *f;

    (void)state;
    need_tools("zip tar gzip");
    make_inputs();
    sh("rm -f whole.*; tar czf whole.tgz a.wav b.wav && zip -q whole.zip a.wav b.wav && "
       "head -c $(($(stat -c %%s whole.tgz) * 2 / 3)) whole.tgz >cut.tgz && "
       "head -c $(($(stat -c %%s whole.zip) * 2 / 3)) whole.zip >cut.zip");
    o = list_path("cut.tgz", NULL);
    assert_sentence(&o, ERR_INPUT, "damaged or cut short");
    assert_non_null(entry_of(&o, "a.wav"));
    assert_int_equal(entry_of(&o, "a.wav")->code, 0);
    assert_non_null(entry_of(&o, "b.wav"));
    assert_int_equal(entry_of(&o, "b.wav")->code, ERR_INPUT);
    outcome_free(&o);
    o = list_path("cut.zip", NULL);
    assert_true(o.rc == ERR_INPUT || o.entry_count == 2);
    assert_non_null(entry_of(&o, "a.wav"));
    outcome_free(&o);

    /* A flipped bit in the middle of a member: found by the checksum, that member alone is bad. */
    data = slurp("whole.zip", &len);
    data[len / 2] ^= 0x10;
    f = fopen("flip.zip", "wb");
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(data);
    o = list_path("flip.zip", NULL);
    assert_non_null(entry_of(&o, "a.wav"));
    assert_int_equal(entry_of(&o, "a.wav")->code, 0);
    assert_non_null(entry_of(&o, "b.wav"));
    assert_int_equal(entry_of(&o, "b.wav")->code, ERR_INPUT);
    outcome_free(&o);
    o = decode_path("flip.zip", &ask); /* what comes before the damage is audio */
    assert_true(o.rc == ERR_INPUT || o.damage[0] != '\0');
    outcome_free(&o);

    sh("rm -f holder.zip; zip -q holder.zip cut.tgz b.wav");
    o = list_path("holder.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(entry_of(&o, "cut.tgz//a.wav")->code, 0);
    assert_int_equal(entry_of(&o, "cut.tgz")->code, ERR_INPUT);
    assert_int_equal(entry_of(&o, "b.wav")->code, 0);
    outcome_free(&o);
}

static void not_archives(void **state)
{
    struct outcome o;
    FILE *f = fopen("empty.zip", "wb");

    (void)state;
    assert_int_equal(fclose(f), 0);
    o = list_path("empty.zip", NULL);
    assert_sentence(&o, ERR_INPUT, "empty file");
    outcome_free(&o);
    f = fopen("text.zip", "wb");
    for (int i = 0; i < 3000; i++)
        fputs("This is not an archive at all. ", f);
    assert_int_equal(fclose(f), 0);
    o = list_path("text.zip", NULL);
    assert_sentence(&o, ERR_INPUT, "not an archive of a known kind");
    outcome_free(&o);
}

/* Compressed by itself: the one recording in it is called "data", alone and inside an archive. */
static void compressed_recordings(void **state)
{
    static const char *const files[] = {"b.wav.gz", "b.wav.bz2", "b.wav.xz", "b.wav.zst",
                                        "outer.zip"};
    uint8_t whole[16];
    struct outcome o;

    (void)state;
    need_tools("gzip bzip2 xz zip");
    make_inputs();
    fingerprint_of("b.wav", whole);
    sh("rm -f b.wav.*; gzip -k b.wav && bzip2 -k b.wav && xz -k b.wav && gzip -c note.txt >note.gz "
       "&& (zstd -q b.wav || gzip -c b.wav >b.wav.zst) && rm -f outer.zip && "
       "zip -q0 outer.zip b.wav.bz2");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct ask ask = {.want_hash = true, .fingerprint = whole};
        struct outcome d;

        o = list_path(files[i], NULL);
        if (o.rc != 0)
            print_error("%s: %s\n", files[i], o.err.msg);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.entry_count, 1);
        assert_string_equal(o.entries[0].member, i == 4 ? "b.wav.bz2//data" : "data");
        assert_int_equal(o.entries[0].code, 0);
        assert_int_equal(o.entries[0].size_bytes, 44 + 2 * 6 * 44100);
        assert_memory_equal(o.entries[0].fingerprint, whole, 16);
        ask.member = o.entries[0].member;
        d = decode_path(files[i], &ask);
        assert_int_equal(d.rc, 0);
        assert_int_equal(d.samples, 6 * DECODER_RATE_HZ);
        assert_string_equal(d.damage, "");
        outcome_free(&d);
        outcome_free(&o);
    }
    o = list_path("note.gz", NULL);
    assert_sentence(&o, ERR_INPUT, "not an archive of a known kind");
    outcome_free(&o);
    for (int keep = 24; keep < 8000; keep *= 4) {
        sh("head -c %d b.wav.gz >cut.wav.gz", keep);
        o = list_path("cut.wav.gz", NULL);
        assert_sentence(&o, ERR_INPUT, "damaged or cut short");
        assert_int_equal(o.entry_count, 0);
        outcome_free(&o);
    }
    {
        const struct decoder_limits tight = {.max_unpacked_bytes = 100000};

        o = list_path("b.wav.xz", &tight);
        assert_sentence(&o, ERR_LIMIT, "unpacks to more than");
        outcome_free(&o);
    }
}

static void packed_otherwise(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("7z");
    make_inputs();
    sh("rm -f d64.zip; 7z a -bso0 -bsp0 -tzip -mm=Deflate64 d64.zip b.wav");
    o = list_path("d64.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, 1);
    assert_int_equal(o.entries[0].code, ERR_INPUT);
    assert_non_null(strstr(o.entries[0].message, "not supported"));
    assert_null(strstr(o.entries[0].message, "damaged"));
    outcome_free(&o);
}

/* By what their bytes say; enqueue and the walk know the others by their names. */
static void parts(void **state)
{
    static const uint8_t rar[] = {'R',  'a', 'r',  '!',  0x1a, 7, 0,    0x52, 0x1a,
                                  0x73, 1,   0,    13,   0,    0, 0,    0,    0,
                                  0,    0,   0x99, 0x99, 0x74, 2, 0x80, 40,   0};
    struct outcome o;
    FILE *f = fopen("old.rar", "wb");

    (void)state;
    assert_int_equal(fwrite(rar, 1, sizeof(rar), f), sizeof(rar));
    assert_int_equal(fclose(f), 0);
    o = list_path("old.rar", NULL);
    assert_sentence(&o, ERR_INPUT, "a part of a split archive");
    outcome_free(&o);
    need_tools("zip 7z");
    write_tone("b.wav", 44100, 6);
    write_tone("a.wav", 16000, 2);
    sh("rm -f z.z* s.7z.*; zip -q -0 -s 100k z.zip b.wav a.wav && "
       "7z a -bso0 -bsp0 -mx0 -v200k s.7z b.wav a.wav && rm -f holder.zip && "
       "zip -q -0 holder.zip s.7z.001 s.7z.003 z.z02 a.wav");
    o = list_path("z.zip", NULL);
    assert_sentence(&o, ERR_INPUT, "a part of a split archive");
    outcome_free(&o);
    o = list_path("holder.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, 4);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"s.7z.001", "s.7z.003", "z.z02"};

        assert_non_null(strstr(entry_of(&o, names[i])->message, "a part of a split archive"));
    }
    assert_int_equal(entry_of(&o, "a.wav")->code, 0);
    outcome_free(&o);
}

/* A recorder that crashed leaves the room it had reserved: the recording ends in a hole, which
 * every dialect of tar writes in its own way. */
static void sparse_tails(void **state)
{
    static const char *const dialects[] = {"--format=gnu", "--format=pax --sparse-version=0.0",
                                           "--format=pax --sparse-version=0.1",
                                           "--format=pax --sparse-version=1.0"};
    static const char *const names[] = {"tail.wav", "holes.wav", "nothing.wav", "full.wav"};
    uint8_t whole[16];

    (void)state;
    need_tools("tar");
    write_tone("full.wav", 16000, 10);
    sh("rm -f tail.wav holes.wav nothing.wav; cp full.wav tail.wav && truncate -s 3M tail.wav && "
       "truncate -s 4M holes.wav && dd if=full.wav of=holes.wav bs=65536 count=1 conv=notrunc && "
       "dd if=full.wav of=holes.wav bs=65536 count=1 seek=40 conv=notrunc && "
       "truncate -s 1M nothing.wav");
    for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
        struct ask ask = {.member = "tail.wav"};
        struct outcome o;

        sh("tar %s -Scf s.tar tail.wav holes.wav nothing.wav full.wav && "
           "test $(stat -c %%s s.tar) -lt 2000000",
           dialects[i]);
        o = list_path("s.tar", NULL);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.entry_count, 4);
        for (int k = 0; k < 4; k++) {
            const struct decoder_entry *e = entry_of(&o, names[k]);

            fingerprint_of(names[k], whole);
            if (e->code != 0)
                print_error("%s %s: %s\n", dialects[i], names[k], e->message);
            assert_int_equal(e->code, 0);
            assert_memory_equal(e->fingerprint, whole, 16);
        }
        ask.fingerprint = entry_of(&o, "tail.wav")->fingerprint;
        {
            struct outcome d = decode_path("s.tar", &ask);

            assert_int_equal(d.rc, 0);
            assert_true(d.samples >= 160000);
            assert_string_equal(d.damage, "");
            outcome_free(&d);
        }
        outcome_free(&o);
    }
    /* A hole is unpacked like anything else, and bounded like it. */
    {
        const struct decoder_limits tight = {.max_unpacked_bytes = 2 << 20};
        struct outcome o = list_path("s.tar", &tight);

        assert_sentence(&o, ERR_LIMIT, "unpacks to more than 2 MiB");
        outcome_free(&o);
    }
}

/* 200 MiB of zeros in 200 KiB, called a recording. */
static void bombs(void **state)
{
    const struct decoder_limits tight = {.max_unpacked_bytes = 50 << 20};
    const struct decoder_limits few = {.max_entries = 3};
    struct ask ask = {.member = "bomb.wav", .want_hash = true, .limits = tight};
    struct outcome o;

    (void)state;
    need_tools("zip tar gzip");
    write_tone("bomb.wav", 8000, 0);
    sh("truncate -s 200M bomb.wav; printf '\\377\\377\\377\\177' | dd of=bomb.wav bs=1 seek=40 "
       "conv=notrunc; rm -f bomb.zip bomb.tgz bombs.zip many.zip;"
       "zip -q bomb.zip bomb.wav && tar czf bomb.tgz bomb.wav && zip -q bombs.zip bomb.zip "
       "bomb.tgz "
       "&& rm -rf many && mkdir many && for i in 1 2 3 4 5; do cp a.wav many/$i.wav; done && zip "
       "-qr "
       "many.zip many && rm bomb.wav");
    for (int i = 0; i < 3; i++) {
        static const char *const archives[] = {"bomb.zip", "bomb.tgz", "bombs.zip"};

        o = list_path(archives[i], &tight);
        assert_sentence(&o, ERR_LIMIT, "unpacks to more than 50 MiB");
        assert_int_equal(o.entry_count, 0);
        outcome_free(&o);
    }
    ask.discard = true;
    o = decode_path("bomb.zip", &ask);
    assert_sentence(&o, ERR_LIMIT, "unpacks to more than 50 MiB");
    outcome_free(&o);
    o = list_path("many.zip", &few);
    assert_sentence(&o, ERR_LIMIT, "more than 3 entries");
    outcome_free(&o);
}

/* All of them not more than one, but that one has a bound of its own. */
static void what_several_may_keep(void **state)
{
    const uint64_t one = unpacker_most(1), eight = unpacker_most(8);
    struct memory m;

    (void)state;
    memory_look(&m);
    assert_int_equal(unpacker_most(0), one);
    assert_true(one >= UINT64_C(128) << 20 && one <= UINT64_C(1) << 30);
    assert_true(eight > 0 && eight <= one);
    assert_true(8 * eight <= (m.total / 16 > one ? m.total / 16 : one));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kind_is_listed),
    cmocka_unit_test(half_a_member_is_not_whole),
    cmocka_unit_test(more_than_a_member_says),
    cmocka_unit_test(any_name_will_do),
    cmocka_unit_test(archives_in_archives),
    cmocka_unit_test(names_with_separators),
    cmocka_unit_test(same_name_twice),
    cmocka_unit_test(same_name_in_inner_archives),
    cmocka_unit_test(changed_or_missing_members),
    cmocka_unit_test(encrypted),
    cmocka_unit_test(damaged),
    cmocka_unit_test(not_archives),
    cmocka_unit_test(compressed_recordings),
    cmocka_unit_test(packed_otherwise),
    cmocka_unit_test(parts),
    cmocka_unit_test(sparse_tails),
    cmocka_unit_test(bombs),
    cmocka_unit_test(what_several_may_keep),
};

MEDIA_TEST_MAIN(tests)
