#include "workers/media/stream/sniff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Sorted by kind, then by name. Playlists, cue sheets and subtitles are no recordings. */
static const char *const recording_names[] = {
    "3g2",  "3ga",  "3gp",  "3gpp", "8svx", "aa",   "aa3",  "aac",  "ac3",   "adts", "aea",
    "aif",  "aifc", "aiff", "amr",  "ape",  "asf",  "ast",  "au",   "avi",   "avr",  "awb",
    "bwf",  "caf",  "dav",  "divx", "dff",  "dsf",  "dss",  "dts",  "dtshd", "dv",   "dvr-ms",
    "eac3", "ec3",  "f4a",  "f4b",  "f4v",  "flac", "flv",  "gsm",  "gxf",   "ivr",  "loas",
    "m1v",  "m2a",  "m2t",  "m2ts", "m2v",  "m4a",  "m4b",  "m4p",  "m4r",   "m4v",  "mka",
    "mkv",  "mlp",  "mov",  "mp1",  "mp2",  "mp3",  "mp4",  "mp4a", "mpa",   "mpc",  "mpe",
    "mpeg", "mpg",  "mpga", "mpv",  "mts",  "mxf",  "nist", "nsv",  "nut",   "nuv",  "oga",
    "ogg",  "ogm",  "ogv",  "ogx",  "oma",  "opus", "paf",  "pvf",  "qcp",   "qt",   "ra",
    "rf64", "rm",   "rmvb", "rso",  "sf",   "shn",  "snd",  "sph",  "spx",   "svx",  "tak",
    "thd",  "tod",  "trp",  "ts",   "tta",  "ty",   "vob",  "voc",  "vqf",   "vro",  "w64",
    "wav",  "wave", "weba", "webm", "wma",  "wmv",  "wtv",  "wv",   "xa",    "xwma",
};
static const char *const archive_names[] = {
    "7z",  "cab", "cpio", "iso", "lha", "lzh", "rar",  "tar", "taz",
    "tb2", "tbz", "tbz2", "tgz", "tlz", "txz", "tzst", "zip", "zipx",
};
/* Behind ".tar" these make an archive, behind a recording's name they hold that one. */
static const char *const filter_names[] = {"bz2", "gz", "lz", "lz4", "lzma", "xz", "z", "zst"};
/* Files that lie beside recordings in real archives; their first bytes need not be read. ".ts" may
 * be a program's text, but the recording is what an archive of media holds. ".ps" is not here:
 * PostScript and MPEG program streams share it. */
static const char *const other_names[] = {
    "asx", "bak",  "bmp",    "c",        "cfg",  "conf", "cpp",     "css",  "csv",  "cue", "db",
    "dll", "doc",  "docx",   "eaf",      "epub", "exe",  "gif",     "h",    "heic", "htm", "html",
    "ico", "ini",  "jar",    "jpe",      "jpeg", "jpg",  "js",      "json", "lnk",  "log", "lrc",
    "m3u", "m3u8", "md",     "md5",      "mid",  "midi", "mpd",     "nfo",  "o",    "odt", "par2",
    "pdf", "php",  "pls",    "png",      "ppt",  "pptx", "psd",     "py",   "rtf",  "sbv", "sfv",
    "sh",  "sha1", "sha256", "smi",      "smil", "so",   "sqlite",  "srt",  "ssa",  "ass", "stl",
    "sub", "svg",  "tex",    "textgrid", "tif",  "tiff", "torrent", "tsv",  "ttml", "txt", "url",
    "vtt", "webp", "wpl",    "xls",      "xlsx", "xml",  "xmp",     "xspf", "yaml", "yml",
};

static bool is_one_of(const char *ext, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(ext, names[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(ext, names) is_one_of(ext, names, sizeof(names) / sizeof(names[0]))

/* The kind by the name's last extension alone: 1, or 0 if that says nothing. */
static int kind_of_ext(const char *ext, enum media_kind *ret)
{
    if (IS_ONE_OF(ext, recording_names))
        *ret = MEDIA_RECORDING;
    else if (IS_ONE_OF(ext, archive_names))
        *ret = MEDIA_ARCHIVE;
    else if (IS_ONE_OF(ext, filter_names) || IS_ONE_OF(ext, other_names))
        *ret = MEDIA_OTHER;
    else
        return 0;
    return 1;
}

/* The extension before `dot`; "": there is none. */
static void ext_before(const char *base, const char *dot, char ret[8])
{
    const char *at = dot;

    ret[0] = '\0';
    while (at > base && at[-1] != '.' && dot - at < 7)
        at--;
    if (at - base > 1 && at[-1] == '.') {
        memcpy(ret, at, (size_t)(dot - at));
        ret[dot - at] = '\0';
    }
}

/* "01", "001", "0001", and what split(1) gives: "aa", "ab" ... */
static bool is_count(const char *ext)
{
    size_t len = strlen(ext);

    return (len == 2 && ext[0] == 'a' && ext[1] >= 'a' && ext[1] <= 'z') ||
           (len >= 2 && len <= 4 && strspn(ext, "0123456789") == len);
}

bool sniff_is_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    enum media_kind kind;
    char before[8];

    if (!dot || dot == base)
        return false;
    ext_before(base, dot, before);
    if (strcasecmp(dot, ".rar") == 0) {
        return strncasecmp(before, "part", 4) == 0 && before[4] != '\0' &&
               strspn(before + 4, "0123456789") == strlen(before + 4);
    }
    if (is_count(dot + 1)) { /* filters too: "a.tar.gz.aa" */
        return (kind_of_ext(before, &kind) == 1 && kind == MEDIA_ARCHIVE) ||
               IS_ONE_OF(before, filter_names);
    }
    return strlen(dot) == 4 && strchr("zZrR", dot[1]) && strspn(dot + 2, "0123456789") == 2;
}

int sniff_name(const char *name, enum media_kind *ret)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    enum media_kind inside;
    char before[8];

    /* "._x.mp3" is what a Mac leaves beside x.mp3 on foreign disks and in archives: its icon. */
    if (base[0] == '.' && base[1] == '_') {
        *ret = MEDIA_OTHER;
        return 1;
    }
    if (!dot || dot == base || dot[1] == '\0')
        return 0;
    if (sniff_is_part(name)) {
        *ret = MEDIA_ARCHIVE;
        return 1;
    }
    if (kind_of_ext(dot + 1, ret) == 0)
        return 0;
    /* "x.tar.gz" and "x.wav.gz" are worth a look; of "x.gz" nothing is known. */
    if (IS_ONE_OF(dot + 1, filter_names)) {
        ext_before(base, dot, before);
        if (strcasecmp(before, "tar") == 0 ||
            (kind_of_ext(before, &inside) == 1 && inside == MEDIA_RECORDING))
            *ret = MEDIA_ARCHIVE;
    }
    return 1;
}

struct magic {
    uint16_t offset;
    uint8_t len;
    enum media_kind kind;
    const char *bytes;
};

/* Letters alone are not enough where a text could begin with them ("MAC addresses", "FLV files").
 */
static const struct magic magics[] = {
    {0, 4, MEDIA_RECORDING, "fLaC"},
    {0, 4, MEDIA_RECORDING, "OggS"},
    {0, 4, MEDIA_RECORDING, "RF64"},
    {0, 4, MEDIA_RECORDING, "BW64"},
    {0, 12, MEDIA_RECORDING, "riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb"}, /* Sony Wave64 */
    {0, 5, MEDIA_RECORDING, ".snd\0"},
    {0, 6, MEDIA_RECORDING, "caff\0\1"},
    {0, 4, MEDIA_RECORDING, "wvpk"},
    {0, 8, MEDIA_RECORDING, "TWIN9701"}, /* VQF */
    {0, 8, MEDIA_RECORDING, "TWIN0005"},
    {4, 4, MEDIA_RECORDING, "\x57\x90\x75\x36"}, /* Audible's .aa */
    {0, 7, MEDIA_RECORDING, "#!iLBC3"},
    {0, 7, MEDIA_RECORDING, "#!iLBC2"},
    {0, 4, MEDIA_RECORDING, "TTA1"},
    {0, 4, MEDIA_RECORDING, "tBaK"},
    {0, 4, MEDIA_RECORDING, "MPCK"},
    {0, 4, MEDIA_RECORDING, "MP+\x07"},
    {0, 4, MEDIA_RECORDING, "MP+\x17"},
    {0, 4, MEDIA_RECORDING, "ajkg"}, /* Shorten */
    {0, 8, MEDIA_RECORDING, "DSD \x1c\0\0\0"},
    {0, 4, MEDIA_RECORDING, "FRM8"},
    {0, 6, MEDIA_RECORDING, "#!AMR\n"},
    {0, 9, MEDIA_RECORDING, "#!AMR-WB\n"},
    {0, 5, MEDIA_RECORDING, ".RMF\0"},
    {0, 4, MEDIA_RECORDING, ".ra\xfd"},
    {0, 4, MEDIA_RECORDING, "\x30\x26\xb2\x75"}, /* ASF: wma, wmv */
    {0, 4, MEDIA_RECORDING, "\x1a\x45\xdf\xa3"}, /* Matroska, WebM */
    {0, 4, MEDIA_RECORDING, "FLV\1"},
    {0, 4, MEDIA_RECORDING, "ID3\2"},
    {0, 4, MEDIA_RECORDING, "ID3\3"},
    {0, 4, MEDIA_RECORDING, "ID3\4"},
    {0, 4, MEDIA_RECORDING, "ea3\3"},
    {0, 4, MEDIA_RECORDING, "EA3\1"},
    {0, 4, MEDIA_RECORDING, "\x00\x00\x01\xba"},                 /* MPEG program stream */
    {0, 4, MEDIA_RECORDING, "\x06\x0e\x2b\x34"},                 /* MXF */
    {0, 6, MEDIA_RECORDING, "\x00\x00\x00\x00\x01\xbc"},         /* GXF */
    {0, 8, MEDIA_RECORDING, "\xb7\xd8\x00\x20\x37\x49\xda\x11"}, /* WTV */
    {0, 24, MEDIA_RECORDING, "nut/multimedia container"},
    {0, 3, MEDIA_RECORDING, "\x1f\x07\x00"},     /* DV */
    {0, 4, MEDIA_RECORDING, "\x7f\xfe\x80\x01"}, /* DTS, and its other orders and widths */
    {0, 4, MEDIA_RECORDING, "\xfe\x7f\x01\x80"},
    {0, 4, MEDIA_RECORDING, "\x1f\xff\xe8\x00"},
    {0, 4, MEDIA_RECORDING, "\xff\x1f\x00\xe8"},
    {0, 8, MEDIA_RECORDING, "DTSHDHDR"},
    {4, 4, MEDIA_RECORDING, "\xf8\x72\x6f\xba"}, /* TrueHD, MLP */
    {4, 4, MEDIA_RECORDING, "\xf8\x72\x6f\xbb"},
    {0, 4, MEDIA_RECORDING, "\x64\xa3\x01\x00"}, /* IRCAM, little and big endian */
    {0, 4, MEDIA_RECORDING, "\x64\xa3\x02\x00"},
    {0, 4, MEDIA_RECORDING, "\x00\x02\xa3\x64"},
    {0, 8, MEDIA_RECORDING, ".SoX\x1c\0\0\0"},
    {0, 8, MEDIA_RECORDING, "XoS.\0\0\0\x1c"},
    {0, 6, MEDIA_RECORDING, "STRM\0\1"}, /* AST */
    {0, 4, MEDIA_RECORDING, "NSVf"},
    {0, 4, MEDIA_RECORDING, "NSVs"},
    {0, 8, MEDIA_RECORDING, " paf\0\0\0\0"},
    {0, 8, MEDIA_RECORDING, "fap \0\0\0\0"},
    {0, 5, MEDIA_RECORDING, "PVF1\n"},
    {0, 7, MEDIA_RECORDING, "NIST_1A"},
    {0, 20, MEDIA_RECORDING, "Creative Voice File\x1a"},
    {0, 4, MEDIA_RECORDING,
     "\x02"
     "dss"},
    {0, 4, MEDIA_RECORDING,
     "\x03"
     "dss"},
    {0, 4, MEDIA_ARCHIVE, "PK\x03\x04"},
    {0, 4, MEDIA_ARCHIVE, "PK\x05\x06"},
    {0, 6, MEDIA_ARCHIVE, "7z\xbc\xaf\x27\x1c"},
    {0, 6, MEDIA_ARCHIVE, "Rar!\x1a\x07"},
    {0, 3, MEDIA_ARCHIVE, "\x1f\x8b\x08"},
    {4, 6, MEDIA_ARCHIVE, "1AY&SY"}, /* bzip2, behind "BZh9" */
    {0, 6, MEDIA_ARCHIVE,
     "\xfd"
     "7zXZ"},
    {0, 5, MEDIA_ARCHIVE, "LZIP\1"},
    {0, 4, MEDIA_ARCHIVE, "\x28\xb5\x2f\xfd"}, /* Zstandard */
    {0, 8, MEDIA_ARCHIVE, "MSCF\0\0\0\0"},
    {0, 6, MEDIA_ARCHIVE, "070701"},
    {0, 6, MEDIA_ARCHIVE, "070702"},
    {0, 6, MEDIA_ARCHIVE, "070707"},
    {257, 5, MEDIA_ARCHIVE, "ustar"},
};

/* RIFF, FORM and ISO base media say behind their length what they hold. */
static bool is_chunked_recording(const uint8_t *p, size_t len)
{
    static const char *const moov_first[] = {"moov", "free", "skip", "wide", "pnot"};

    if (len < 12)
        return false;
    if (memcmp(p, "RIFF", 4) == 0 || memcmp(p, "RIFX", 4) == 0) {
        return memcmp(p + 8, "WAVE", 4) == 0 || memcmp(p + 8, "AVI ", 4) == 0 ||
               memcmp(p + 8, "QLCM", 4) == 0 || memcmp(p + 8, "XWMA", 4) == 0 ||
               memcmp(p + 8, "CDXA", 4) == 0;
    }
    if (memcmp(p, "FORM", 4) == 0) {
        return memcmp(p + 8, "AIFF", 4) == 0 || memcmp(p + 8, "AIFC", 4) == 0 ||
               memcmp(p + 8, "8SVX", 4) == 0;
    }
    if (memcmp(p + 4, "ftyp", 4) == 0) {
        static const char *const pictures[] = {"avif", "avis", "heic", "heix", "mif1", "crx "};

        for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++)
            if (memcmp(p + 8, pictures[i], 4) == 0)
                return false;
        return true;
    }
    if (memcmp(p + 4, "mdat", 4) == 0)
        return true;
    /* "The free" is how a text begins; these boxes are smaller than letters make them. */
    for (size_t i = 0; i < sizeof(moov_first) / sizeof(moov_first[0]); i++)
        if (memcmp(p + 4, moov_first[i], 4) == 0)
            return p[0] < 0x20;
    /* Monkey's Audio: its version times a thousand, 3.0 to 4.x */
    return memcmp(p, "MAC ", 4) == 0 && p[5] >= 0x0b && p[5] <= 0x13;
}

/* Length of the MPEG audio frame whose header stands at p (layer 1 to 3), 0 when it is none. */
static size_t mpeg_frame_len(const uint8_t *p)
{
    static const uint16_t kbps[2][3][15] = {
        {{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
         {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
         {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}},
        {{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
         {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
         {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}}};
    static const uint32_t rates[3] = {44100, 48000, 32000};
    unsigned version = (p[1] >> 3) & 3, layer = 4 - ((p[1] >> 1) & 3), bitrate = p[2] >> 4;
    unsigned rate_index = (p[2] >> 2) & 3, padding = (p[2] >> 1) & 1;
    uint32_t rate, bits;

    if (p[0] != 0xff || (p[1] & 0xe0) != 0xe0 || version == 1 || layer == 4 || bitrate == 0 ||
        bitrate == 15 || rate_index == 3)
        return 0;
    rate = rates[rate_index] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    bits = kbps[version != 3][layer - 1][bitrate] * 1000u;
    if (layer == 1)
        return (12 * bits / rate + padding) * 4;
    return (layer == 3 && version != 3 ? 72 : 144) * bits / rate + padding;
}

/* Transport packets, one behind the other as far as the head reaches, of which there must be two:
 * the mark of one is a letter. */
static bool has_packets(const uint8_t *p, size_t len, size_t at, size_t packet)
{
    if (at + packet >= len)
        return false;
    for (; at < len; at += packet)
        if (p[at] != 0x47)
            return false;
    return true;
}

/* Frames without a file header. A header alone is eleven bits of luck, so where the next frame lies
 * in reach it must be one too; where it does not, the header must be a usual one. */
static bool is_bare_frames(const uint8_t *p, size_t len)
{
    size_t frame;

    if (len < 8)
        return false;
    if (p[0] == 0xff && (p[1] & 0xf6) == 0xf0) { /* ADTS AAC */
        frame = ((size_t)(p[3] & 3) << 11) | ((size_t)p[4] << 3) | (p[5] >> 5);
        if (frame < 8 || ((p[2] >> 2) & 15) > 12)
            return false;
        return frame + 2 > len || (p[frame] == 0xff && (p[frame + 1] & 0xf6) == 0xf0);
    }
    frame = mpeg_frame_len(p);
    if (frame != 0) {
        return frame + 4 > len ? (p[1] & 0xfe) == 0xfa || (p[1] & 0xfe) == 0xfc || p[1] == 0xf3
                               : mpeg_frame_len(p + frame) != 0;
    }
    if (p[0] == 0x0b && p[1] == 0x77 && p[5] >> 3 > 10) { /* E-AC-3 */
        frame = ((((size_t)p[2] & 7) << 8 | p[3]) + 1) * 2;
        return p[5] >> 3 <= 16 && (frame + 2 > len || (p[frame] == 0x0b && p[frame + 1] == 0x77));
    }
    if (p[0] == 0x0b && p[1] == 0x77) /* AC-3: sample rate code and frame size code in range */
        return (p[4] >> 6) != 3 && (p[4] & 0x3f) < 38;
    if (p[0] == 0x56 && (p[1] & 0xe0) == 0xe0) { /* LOAS AAC: letters, but for the next frame */
        frame = (((size_t)p[1] & 0x1f) << 8 | p[2]) + 3;
        return frame + 2 <= len && p[frame] == 0x56 && (p[frame + 1] & 0xe0) == 0xe0;
    }
    /* Transport streams: packets of 188 bytes, or of 192 with a time stamp before each. */
    return has_packets(p, len, 0, 188) || has_packets(p, len, 4, 192);
}

static const struct magic *magic_of(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        const struct magic *m = &magics[i];

        if (len >= (size_t)m->offset + m->len && memcmp(p + m->offset, m->bytes, m->len) == 0)
            return m;
    }
    return NULL;
}

enum media_kind sniff_bytes(const void *head, size_t len)
{
    const struct magic *m = magic_of(head, len);

    if (m)
        return m->kind;
    if (is_chunked_recording(head, len) || is_bare_frames(head, len))
        return MEDIA_RECORDING;
    return MEDIA_OTHER;
}

bool sniff_has_header(const void *head, size_t len)
{
    return magic_of(head, len) || is_chunked_recording(head, len);
}

bool sniff_finds_members(const void *head, size_t len)
{
    const uint8_t *p = head;

    return (len >= 2 && memcmp(p, "PK", 2) == 0) ||
           (len >= 262 && memcmp(p + 257, "ustar", 5) == 0);
}

/* ---- recordings that their bytes alone do not tell */

/* Dialogic's .vox says no rate either: 8 kHz is what telephones have. .raw and .pcm are not here:
 * they may be anything. */
static const struct headerless bare[] = {
    {"vox", "wav", NULL, 0, 0x10, 4, 8000}, /* OKI ADPCM */
    {"ul", "mulaw", "sample_rate", 8000, 0, 0, 0},
    {"ulaw", "mulaw", "sample_rate", 8000, 0, 0, 0},
    {"mulaw", "mulaw", "sample_rate", 8000, 0, 0, 0},
    {"mu", "mulaw", "sample_rate", 8000, 0, 0, 0},
    {"al", "alaw", "sample_rate", 8000, 0, 0, 0},
    {"alaw", "alaw", "sample_rate", 8000, 0, 0, 0},
    {"g722", "g722", NULL, 0, 0, 0, 0},
    {"g723", "g723_1", NULL, 0, 0, 0, 0},
    {"g729", "g729", NULL, 0, 0, 0, 0},
    {"gsm", "gsm", NULL, 0, 0, 0, 0},
    /* Asterisk's */
    {"g726-40", "g726le", "code_size", 5, 0, 0, 0},
    {"g726-32", "g726le", "code_size", 4, 0, 0, 0},
    {"g726-24", "g726le", "code_size", 3, 0, 0, 0},
    {"g726-16", "g726le", "code_size", 2, 0, 0, 0},
    {"sln", "sln", "sample_rate", 8000, 0, 0, 0},
    {"slin", "sln", "sample_rate", 8000, 0, 0, 0},
    {"sln12", "sln", "sample_rate", 12000, 0, 0, 0},
    {"sln16", "sln", "sample_rate", 16000, 0, 0, 0},
    {"slin16", "sln", "sample_rate", 16000, 0, 0, 0},
    {"sln24", "sln", "sample_rate", 24000, 0, 0, 0},
    {"sln32", "sln", "sample_rate", 32000, 0, 0, 0},
    {"sln44", "sln", "sample_rate", 44100, 0, 0, 0},
    {"sln48", "sln", "sample_rate", 48000, 0, 0, 0},
    {"sln96", "sln", "sample_rate", 96000, 0, 0, 0},
    {"sln192", "sln", "sample_rate", 192000, 0, 0, 0},
};
#define BARE (sizeof(bare) / sizeof(bare[0]))
_Static_assert(BARE <= HEADERLESS_MAX, "their numbers go over a wire");

static const char *ending_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');

    return dot && dot != base ? dot + 1 : "";
}

uint8_t headerless_of(const char *name)
{
    const char *ending = ending_of(name);

    for (uint8_t i = 0; i < BARE; i++)
        if (strcasecmp(ending, bare[i].ending) == 0)
            return (uint8_t)(i + 1);
    return 0;
}

const struct headerless *headerless_at(uint8_t number)
{
    return number > 0 && number <= BARE ? &bare[number - 1] : NULL;
}

/* Perl's .al and others': samples are never all of these. */
static bool is_text(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r') || p[i] > '~')
            return false;
    return true;
}

int headerless_fits(const void *head, size_t len)
{
    const uint8_t *p = head;

    return !is_text(p, len) && !sniff_has_header(p, len) &&
           !(len >= 8 && memcmp(p, "VOX ", 4) == 0 && p[5] == 0 && p[6] == 0); /* MagicaVoxel's */
}

enum media_kind kind_of_file(const char *name, const void *head, size_t len)
{
    const enum media_kind kind = sniff_bytes(head, len);

    return kind == MEDIA_OTHER && headerless_of(name) && len > 0 && headerless_fits(head, len)
               ? MEDIA_RECORDING
               : kind;
}

struct kind {
    const char *ending; /* of its name; with magic bytes that does not matter */
    uint8_t at, len;    /* of the magic bytes; 0: the name alone tells */
    const char *bytes;
    const char *sentence;
};

#define NOBODY "which nothing here can decode: convert it to WAV with "

static const struct kind kinds[] = {
    {NULL, 0, 4,
     "\x03"
     "ds2",
     "a dictation in DS2 (Olympus, Philips, Grundig), " NOBODY
     "the maker's program (Olympus ODMS, Philips SpeechExec)"},
    {NULL, 0, 4,
     "\x01"
     "ds2",
     "a dictation in DS2 (Olympus, Philips, Grundig), " NOBODY
     "the maker's program (Olympus ODMS, Philips SpeechExec)"},
    {NULL, 0, 4,
     "\x03"
     "enc",
     "an encrypted dictation in DS2 (Olympus, Philips), " NOBODY
     "the maker's program and its password"},
    {NULL, 0, 9, "#!SILK_V3", "a voice message in SILK (Skype), " NOBODY "silk-v3-decoder"},
    {NULL, 1, 9, "#!SILK_V3", "a voice message in SILK (WeChat, QQ), " NOBODY "silk-v3-decoder"},
    {NULL, 0, 8, "MS_VOICE",
     "a Sony voice recording (DVF, MSV), " NOBODY "Sony's Digital Voice Editor or Sound Organizer"},
    {NULL, 0, 4, "OFR ", "OptimFROG, " NOBODY "its own program (ofr --decode)"},
    {NULL, 8, 4, "CDDA",
     "a track of an audio CD by its number alone, without its sound: copy the disc's tracks with a "
     "program that reads audio CDs"},
    {"ac4", 0, 0, NULL, "AC-4, " NOBODY "a Dolby decoder"},
    {"aup3", 0, 0, NULL,
     "a project of Audacity, which only Audacity reads: export it there as WAV"},
    {"evs", 0, 0, NULL, "EVS (telephony), " NOBODY "3GPP's reference decoder (TS 26.443)"},
    {"lc3", 0, 0, NULL, "LC3 (Bluetooth), " NOBODY "liblc3's dlc3"},
    {"mhas", 0, 0, NULL, "MPEG-H Audio, " NOBODY "a decoder of MPEG-H"},
    {"nmf", 0, 0, NULL, "a call recorded by NICE, " NOBODY "NICE Player"},
    {"pcm", 0, 0, NULL,
     "samples without a header, of which nobody knows rate and width: say these to ffmpeg (ffmpeg "
     "-f s16le -ar 16000 -ac 1 -i IN.pcm OUT.wav)"},
    {"siren7", 0, 0, NULL, "Siren 7 (Asterisk), " NOBODY "Asterisk (file convert)"},
    {"siren14", 0, 0, NULL, "Siren 14 (Asterisk), " NOBODY "Asterisk (file convert)"},
    {"trm", 0, 0, NULL,
     "a court's recording by For The Record, " NOBODY "FTR Player or The Record Player"},
    {"vm1", 0, 0, NULL, "a Panasonic voice recording, " NOBODY "Panasonic's Voice Editing"},
};

const char *undecodable(const char *name, const void *head, size_t len)
{
    const char *ending = ending_of(name);
    const uint8_t *p = head;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind *k = &kinds[i];

        if (k->len ? len >= (size_t)k->at + k->len && memcmp(p + k->at, k->bytes, k->len) == 0
                   : strcasecmp(ending, k->ending) == 0 && len > 0 && !is_text(p, len))
            return k->sentence;
    }
    return NULL;
}
