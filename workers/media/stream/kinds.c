#include "workers/media/stream/kinds.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

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
