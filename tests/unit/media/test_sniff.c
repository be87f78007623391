/* What a file seems to be: names first, bytes where names are silent. */
#include "tests/common/test.h"
#include "workers/media/stream/sniff.h"

static int by_name(const char *name)
{
    enum media_kind kind = (enum media_kind)99;

    return sniff_name(name, &kind) ? (int)kind : -1;
}

TEST(names_decide)
{
    static const char *const recordings[] = {
        "a.wav", "A.WAV",       "x/y.z/a.Mp3",  "a.tar.mp3",     "t.flac", "t.opus", "t.m2ts",
        "t.WMA", "t.mkv",       "t.3gp",        "t.amr",         "t.bwf",  "t.aif",  "t.vob",
        "t.mxf", ".hidden.ogg", "\xff\xfe.mp4", "new\nline.mov", "t.rm",   "t.dss"};
    static const char *const archives[] = {"a.zip",    "a.tar",    "a.TAR.GZ", "a.tgz", "a.tar.zst",
                                           "a.7z",     "a.iso",    "a.cpio",   "a.rar", "a.tar.bz2",
                                           "a.tar.xz", "a.tar.lz", "a.tlz"};
    static const char *const others[] = {"a.txt",   "a.jpg",    "a.srt",   "a.m3u8",
                                         "log.gz",  "a.pdf",    "._a.mp3", "dir/._a.wav",
                                         "wav.txt", "a.txt.gz", "a.gz",    "wav.gz"};
    static const char *const silent[] = {"a",       "",    ".wav",       "a.",  "a.unheard",
                                         "a.wav/b", "mp3", "2024.11.20", "a.ps"};

    for (size_t i = 0; i < sizeof(recordings) / sizeof(recordings[0]); i++)
        assert_int_equal(by_name(recordings[i]), MEDIA_RECORDING);
    for (size_t i = 0; i < sizeof(archives) / sizeof(archives[0]); i++)
        assert_int_equal(by_name(archives[i]), MEDIA_ARCHIVE);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(by_name(others[i]), MEDIA_OTHER);
    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
        assert_int_equal(by_name(silent[i]), -1);
}

static int by_bytes(const char *bytes, size_t n)
{
    uint8_t head[262] = {0};

    memcpy(head, bytes, n < sizeof(head) ? n : sizeof(head));
    return (int)sniff_bytes(head, sizeof(head));
}
#define BYTES(literal) by_bytes(literal, sizeof(literal) - 1)

TEST(bytes_decide)
{
    uint8_t mp3[262] = {0xff, 0xfb, 0x90, 0x64}; /* 128 kbit/s at 44.1 kHz: frames of 417 bytes */
    uint8_t short_mp3[262] = {0xff, 0xf3, 0x10, 0xc4}; /* 8 kbit/s at 22.05 kHz: 26 bytes */
    uint8_t ts[262] = {0x47, 0x40, 0x00, 0x10};
    uint8_t tar[262] = "notes.txt";

    assert_int_equal(BYTES("fLaC\0\0\0\x22"), MEDIA_RECORDING);
    assert_int_equal(BYTES("OggS\0\2"), MEDIA_RECORDING);
    assert_int_equal(BYTES("RIFF\x24\x08\0\0WAVEfmt "), MEDIA_RECORDING);
    assert_int_equal(BYTES("RIFF\x24\x08\0\0WEBPVP8 "), MEDIA_OTHER);
    assert_int_equal(BYTES("FORM\0\0\1\0AIFFCOMM"), MEDIA_RECORDING);
    assert_int_equal(BYTES("FORM\0\0\1\0ILBMBMHD"), MEDIA_OTHER);
    assert_int_equal(BYTES("\0\0\0\x20"
                           "ftypisom"),
                     MEDIA_RECORDING);
    assert_int_equal(BYTES("\0\0\0\x20"
                           "ftypheic"),
                     MEDIA_OTHER);
    assert_int_equal(BYTES("\0\0\0\x20"
                           "ftypavif"),
                     MEDIA_OTHER);
    assert_int_equal(BYTES("\0\0\1\0"
                           "mdat...."),
                     MEDIA_RECORDING);
    assert_int_equal(BYTES("\x1a\x45\xdf\xa3\1\0\0\0"), MEDIA_RECORDING);
    assert_int_equal(BYTES("ID3\4\0\0\0\0\0\0"), MEDIA_RECORDING);
    assert_int_equal(BYTES("#!AMR\n\x3c"), MEDIA_RECORDING);
    assert_int_equal(BYTES("PK\3\4\x14\0"), MEDIA_ARCHIVE);
    assert_int_equal(BYTES("7z\xbc\xaf\x27\x1c\0\4"), MEDIA_ARCHIVE);
    assert_int_equal(BYTES("\x1f\x8b\x08\0"), MEDIA_ARCHIVE);
    assert_int_equal(BYTES("Rar!\x1a\x07\1\0"), MEDIA_ARCHIVE);
    assert_int_equal(BYTES("\x89PNG\r\n\x1a\n"), MEDIA_OTHER);
    assert_int_equal(BYTES("\x7f"
                           "ELF\2\1\1"),
                     MEDIA_OTHER);
    assert_int_equal(BYTES("Dear diary, today I heard"), MEDIA_OTHER);
    assert_int_equal(BYTES("\xff\xfe"
                           "U\0T\0F\0"),
                     MEDIA_OTHER); /* UTF-16 text */
    assert_int_equal(BYTES("\xff\xd8\xff\xe0\0\x10JFIF"), MEDIA_OTHER);
    assert_int_equal(sniff_bytes("", 0), MEDIA_OTHER);

    assert_int_equal(sniff_bytes(mp3, sizeof(mp3)), MEDIA_RECORDING);
    assert_int_equal(sniff_bytes(short_mp3, sizeof(short_mp3)), MEDIA_OTHER); /* alone */
    memcpy(short_mp3 + 26, short_mp3, 4);
    assert_int_equal(sniff_bytes(short_mp3, sizeof(short_mp3)), MEDIA_RECORDING);
    assert_int_equal(sniff_bytes(ts, sizeof(ts)), MEDIA_OTHER);
    ts[188] = 0x47;
    assert_int_equal(sniff_bytes(ts, sizeof(ts)), MEDIA_RECORDING);
    memcpy(tar + 257, "ustar", 5);
    assert_int_equal(sniff_bytes(tar, sizeof(tar)), MEDIA_ARCHIVE);
    assert_int_equal(sniff_bytes(tar, 64), MEDIA_OTHER);
}

TEST(parts_of_archives)
{
    static const char *const parts[] = {"a.zip.001",   "x/a.7z.02",    "a.z01",
                                        "a.part1.rar", "a.PART03.RAR", "a.r00",
                                        "a.tgz.aa",    "a.tar.gz.003", "b.iso.0001"};
    static const char *const none[] = {
        "a.zip", "a.rar",     "part1.rar",  "a.part.rar",  "a.mp3.001",
        "a.001", "zip.001",   "2024.11.20", "a.zip.00001", "a.zip.xx",
        "a.z1",  "a.zip/001", "",           ".001",        "a.partx1.rar"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!sniff_is_part(parts[i]))
            print_error("not taken for a part: %s\n", parts[i]);
        assert_true(sniff_is_part(parts[i]));
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        if (sniff_is_part(none[i]))
            print_error("taken for a part: %s\n", none[i]);
        assert_false(sniff_is_part(none[i]));
    }
}

/* Recordings whose name says nothing, or the name of something else. */
TEST(recordings_without_a_name)
{
    uint8_t latm[512] = {0x56, 0xe0, 0x61}; /* 0x61 + 3 bytes */
    uint8_t eac3[512] = {0x0b, 0x77, 0x00, 0x7f, 0x3f, 0x80};
    uint8_t mp2[2048] = {0xff, 0xf5, 0xe0, 0xc4}; /* layer 2, 160 kbit/s at 22.05 kHz: 1044 bytes */

    assert_int_equal(BYTES("\0\0\1\xba\x44\0\4"), MEDIA_RECORDING);
    assert_int_equal(BYTES("%!PS-Adobe-3.0\n"), MEDIA_OTHER);
    assert_int_equal(BYTES("RIFX\0\0\x08\x24WAVEfmt "), MEDIA_RECORDING);
    assert_int_equal(BYTES("nut/multimedia container\0"), MEDIA_RECORDING);
    assert_int_equal(BYTES("\x60\x38\xff\xd8\xf8\x72\x6f\xba"), MEDIA_RECORDING);
    assert_int_equal(BYTES("\xfe\x7f\x01\x80\xfc\x0f"), MEDIA_RECORDING);
    assert_int_equal(BYTES("MAC \x96\x0f\0\0\x34\0\0\0"), MEDIA_RECORDING);
    assert_int_equal(BYTES("LZIP\1\x17"), MEDIA_ARCHIVE);
    assert_int_equal(BYTES("BZh91AY&SY"), MEDIA_ARCHIVE);

    assert_int_equal(sniff_bytes(latm, sizeof(latm)), MEDIA_OTHER);
    memcpy(latm + 0x64, latm, 2);
    assert_int_equal(sniff_bytes(latm, sizeof(latm)), MEDIA_RECORDING);
    assert_int_equal(sniff_bytes(eac3, sizeof(eac3)), MEDIA_OTHER);
    memcpy(eac3 + 256, eac3, 2);
    assert_int_equal(sniff_bytes(eac3, sizeof(eac3)), MEDIA_RECORDING);
    assert_int_equal(sniff_bytes(mp2, sizeof(mp2)), MEDIA_OTHER);
    memcpy(mp2 + 1044, mp2, 4);
    assert_int_equal(sniff_bytes(mp2, sizeof(mp2)), MEDIA_RECORDING);
}

/* A text that begins as a recording does, by its letters. */
TEST(texts_are_none)
{
    static const char *const texts[] = {
        "The free world, and other essays",
        "MAC addresses of the studio's machines",
        "FLV files, and what to do about them",
        "ID3 tags: a list",
        "MP+ is what Musepack was called first",
        "DSD recordings of the year",
        "BZhang's notes of the interview",
        "caffeine, and how to do without",
        "LZIP is a format of archives",
        "MSCFoundation, annual report",
        ".sndrc of the studio",
        "Grey mornings, a diary",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (sniff_bytes(texts[i], strlen(texts[i])) != MEDIA_OTHER)
            print_error("taken for a recording: %s\n", texts[i]);
        assert_int_equal(sniff_bytes(texts[i], strlen(texts[i])), MEDIA_OTHER);
    }
}

/* No length of any head may be read past its end (the sanitizers watch). */
TEST(any_length_is_safe)
{
    uint32_t seed = 1;

    for (size_t n = 0; n <= 600; n++) {
        for (int round = 0; round < 20; round++) {
            uint8_t *head = malloc(n ? n : 1);

            assert_non_null(head);
            for (size_t i = 0; i < n; i++) {
                seed = seed * 1664525u + 1013904223u;
                head[i] = (uint8_t)(seed >> 24);
            }
            if (n > 4 && round % 4 == 0)
                memcpy(head, "\xff\xfb\x90\x64", 4);
            else if (n > 4 && round % 4 == 1)
                memcpy(head, "\xff\xf1\x50\x80", 4);
            else if (n > 4 && round % 4 == 2)
                memcpy(head, round % 8 == 2 ? "\x0b\x77\x00\x7f" : "\x56\xe0\x61\x00", 4);
            else if (n > 4 && round % 8 == 3)
                head[0] = head[4] = 0x47;
            (void)sniff_bytes(head, n);
            free(head);
        }
    }
}

TEST_MAIN(NULL, NULL)
