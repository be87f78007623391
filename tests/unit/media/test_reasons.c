/* What a recording cannot be heard for is said as it is, and what is whole is not called damaged.
 */
#include <string.h>

#include "tests/unit/media/media_util.h"

/* Bytes `from` (of len) of a file become `to`, wherever they stand first. */
static void patch(const char *path, const char *from, const char *to, size_t len)
{
    size_t size;
    uint8_t *data = slurp(path, &size), *at = memmem(data, size, from, len);
    FILE *f = fopen(path, "wb");

    assert_non_null(at);
    memcpy(at, to, len);
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(data);
}

static void refused(const char *path, const char *words)
{
    struct outcome o = decode_path(path, NULL);

    assert_sentence(&o, ERR_INPUT, words);
    if (strstr(o.err.msg, "damaged"))
        fail_msg("%s: %s", path, o.err.msg);
    outcome_free(&o);
}

static void whole(const char *path, double seconds)
{
    struct outcome o = decode_path(path, &(struct ask){.discard = true});

    if (o.rc != 0 || o.damage[0] || (double)o.samples / DECODER_RATE_HZ < seconds - 0.1 ||
        (double)o.samples / DECODER_RATE_HZ > seconds + 0.1)
        fail_msg("%s: %.2f s, %s%s", path, (double)o.samples / DECODER_RATE_HZ, o.damage,
                 o.rc ? o.err.msg : "");
    outcome_free(&o);
}

/* xHE-AAC is AAC to its container; only its decoder knows that it is another one. */
TEST(an_object_type_without_a_decoder)
{
    need_tools("ffmpeg");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=3 -ar 44100 -ac 1 -c:a aac "
       "x.m4a");
    patch("x.m4a", "\x12\x08\x56\xe5", "\xf9\x48\x20\xe5", 4);
    refused("x.m4a", "Audio object type 42");
}

/* FFmpeg knows two codecs of DSS, and names the others in a warning of two lines. */
TEST(dss_of_another_kind)
{
    static uint8_t data[4096] = "\2dss";
    FILE *f = fopen("odd.dss", "wb");

    memcpy(data + 0x26, "260101120000260101120100", 24);
    data[0x2a4] = 9;
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, sizeof(data), f), sizeof(data));
    assert_int_equal(fclose(f), 0);
    refused("odd.dss", "Support for codec 9 in DSS");
}

TEST(a_scrambled_transport_stream)
{
    size_t size;
    uint8_t *data;
    FILE *f;

    need_tools("ffmpeg");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=5 -c:a mp2 x.ts");
    data = slurp("x.ts", &size);
    for (size_t at = 0; at + 188 <= size; at += 188) {
        const unsigned pid = (data[at + 1] & 0x1fu) << 8 | data[at + 2];

        for (size_t i = 12; pid == 0x100 && i < 188; i++)
            data[at + i] ^= (uint8_t)(0x5a + i);
        data[at + 3] |= pid == 0x100 ? 0xc0 : 0;
    }
    f = fopen("scrambled.ts", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(data);
    whole("x.ts", 5);
    refused("scrambled.ts", "encrypted");
}

/* Its stream is of a type that FFmpeg 5.1 has never heard of. */
TEST(mpeg_h_in_a_transport_stream)
{
    size_t size;
    uint8_t *data;
    FILE *f;
    bool found = false;

    need_tools("ffmpeg");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=5 -c:a mp2 -f mpegts h.ts");
    data = slurp("h.ts", &size);
    /* The table of the programme: type 3 or 4 (MPEG audio), PID 0x100. Its sum is made anew. */
    for (size_t at = 0; at + 188 <= size; at += 188) {
        uint8_t *p = data + at + 5;
        const unsigned pid = (data[at + 1] & 0x1fu) << 8 | data[at + 2];
        size_t len, end;
        uint32_t crc = 0xffffffff;

        for (size_t i = 5; pid == 0x100 && i < 188; i++) /* no frames that FFmpeg would find */
            data[at + i] = data[at + i] == 0xff ? 0x11 : data[at + i];
        if (pid != 0x1000)
            continue;
        len = ((p[1] & 15u) << 8 | p[2]) + 3;
        assert_true(p[0] == 2 && len < 180 && (p[12] == 3 || p[12] == 4));
        p[12] = 0x2d;
        end = len - 4;
        for (size_t i = 0; i < end; i++) {
            crc ^= (uint32_t)p[i] << 24;
            for (int bit = 0; bit < 8; bit++)
                crc = crc & 0x80000000 ? crc << 1 ^ 0x04c11db7 : crc << 1;
        }
        for (size_t i = 0; i < 4; i++)
            p[end + i] = (uint8_t)(crc >> (24 - 8 * i));
        found = true;
    }
    assert_true(found);
    f = fopen("h.ts", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(data);
    refused("h.ts", "MPEG-H");
}

/* Links of other rates, widths and channels, each with a header of its own. */
TEST(chained_flac_in_ogg)
{
    need_tools("ffmpeg");
    sh("for i in '1 16000 1 s16' '2 44100 1 s16' '3 44100 2 s16' '4 96000 1 s32'; do set -- $i; "
       "ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=3 -ar $2 -ac $3 -sample_fmt $4 "
       "-c:a flac link$1.oga; done; cat link1.oga link2.oga link3.oga link4.oga link1.oga > c.oga");
    whole("c.oga", 15);
}

/* 65 bytes a block: what is left over at the end is no block. */
TEST(gsm_in_wav_with_a_short_last_block)
{
    need_tools("ffmpeg");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=4 -ar 8000 -ac 1 -c:a libgsm_ms "
       "g.wav");
    sh("head -c 20 /dev/zero >> g.wav");
    {
        size_t size;
        uint8_t *data = slurp("g.wav", &size), *at = memmem(data, size, "data", 4), sizes[4];

        assert_non_null(at);
        for (size_t i = 0; i < 4; i++)
            sizes[i] = (uint8_t)((size - (size_t)(at - data) - 8) >> (8 * i));
        memcpy(at + 4, sizes, 4);
        for (size_t i = 0; i < 4; i++)
            data[4 + i] = (uint8_t)((size - 8) >> (8 * i));
        FILE *f = fopen("g.wav", "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(data, 1, size, f), size);
        assert_int_equal(fclose(f), 0);
        free(data);
    }
    whole("g.wav", 4);
}

/* No damage: libarchive does not do it. */
TEST(archives_that_are_packed_in_a_way_of_their_own)
{
    struct outcome o;

    need_tools("zstd tar");
    sh("head -c 100000 /dev/urandom > r.wav; tar c r.wav | zstd -qf --ultra -21 --long=31 -o "
       "l.tar.zst");
    o = list_path("l.tar.zst", NULL);
    assert_sentence(&o, ERR_INPUT, "more memory");
    assert_null(strstr(o.err.msg, "damaged"));
    outcome_free(&o);
    need_tools("python3");
    sh("python3 -c \"import tarfile, io; t = tarfile.open('n.tar', 'w', "
       "format=tarfile.GNU_FORMAT); "
       "i = tarfile.TarInfo('x/' * 600000 + 'a.wav'); i.size = 4; t.addfile(i, "
       "io.BytesIO(b'RIFF')); "
       "t.close()\"");
    o = list_path("n.tar", NULL);
    assert_sentence(&o, ERR_INPUT, "longer than can be read");
    outcome_free(&o);
}

static FILE *rar;

/* A block of the old RAR: its sum, type, flags, and what follows. */
static void put_block(uint8_t type, unsigned flags, const uint8_t *body, size_t len)
{
    uint8_t head[64] = {0, 0, type, (uint8_t)flags, (uint8_t)(flags >> 8), (uint8_t)(len + 7), 0};
    uint32_t crc = 0xffffffff;

    memcpy(head + 7, body, len);
    for (size_t i = 2; i < len + 7; i++) {
        crc ^= head[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    crc = ~crc;
    head[0] = (uint8_t)crc;
    head[1] = (uint8_t)(crc >> 8);
    assert_int_equal(fwrite(head, 1, len + 7, rar), len + 7);
}

static void put_member(char name, unsigned flags)
{
    static const uint8_t packed[200] = {7};
    const uint8_t body[30] = {sizeof(packed),
                              0,
                              0,
                              0,
                              250,
                              1,
                              0,
                              0,
                              3,
                              1,
                              2,
                              3,
                              4,
                              0,
                              0,
                              0,
                              0,
                              29,
                              0x33,
                              5,
                              0,
                              0xa4,
                              0x81,
                              0,
                              0,
                              (uint8_t)name,
                              '.',
                              'w',
                              'a',
                              'v'};

    put_block(0x74, 0x8000 | flags, body, sizeof(body));
    assert_int_equal(fwrite(packed, 1, sizeof(packed), rar), sizeof(packed));
}

TEST(old_rar_solid_and_encrypted)
{
    static const uint8_t zeros[6];
    struct outcome o;

    for (int encrypted = 0; encrypted < 2; encrypted++) {
        rar = fopen("s.rar", "wb");
        assert_non_null(rar);
        assert_int_equal(fwrite("Rar!\x1a\x07\0", 1, 7, rar), 7);
        put_block(0x73, encrypted ? 0 : 8, zeros, 6);
        put_member('a', encrypted ? 4 : 0);
        put_member('b', encrypted ? 4 : 0x10);
        put_block(0x7b, 0x4000, zeros, 0);
        assert_int_equal(fclose(rar), 0);
        o = list_path("s.rar", NULL);
        if (encrypted) {
            assert_int_equal(o.entry_count, 2);
            assert_non_null(strstr(o.entries[1].message, "encrypted"));
        } else {
            assert_sentence(&o, ERR_INPUT, "not supported (RAR solid");
        }
        outcome_free(&o);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        return decoder_main(argc, argv);
    return suite_run(NULL, NULL);
}
