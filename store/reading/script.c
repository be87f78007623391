#include "store/reading/script.h"

#include <stdint.h>

struct range {
    uint32_t first, last;
};

static const struct range blanks[] = {
    {0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

/* Thai, Lao, Tibetan, Burmese, Khmer; kana, their punctuation and extensions; Han; kana of half a
 * width. Hangul has blanks. */
static const struct range unparted[] = {
    {0x0E00, 0x0EFF}, {0x0F00, 0x0FFF},   {0x1000, 0x109F},   {0x1780, 0x17FF},
    {0x2E80, 0x2FDF}, {0x3001, 0x312F},   {0x31A0, 0x9FFF},   {0xF900, 0xFAFF},
    {0xFF66, 0xFF9F}, {0x1AFF0, 0x1B16F}, {0x20000, 0x3FFFF},
};

/* Of ASCII, Latin-1, Greek, Armenian, Hebrew, Arabic, Devanagari; general; of Chinese and Japanese,
 * and their wide forms. */
static const struct range punctuation[] = {
    {0x00, 0x2F},     {0x3A, 0x40},     {0x5B, 0x60},     {0x7B, 0xA9},     {0xAB, 0xB1},
    {0xB4, 0xB4},     {0xB6, 0xB8},     {0xBB, 0xBB},     {0xBF, 0xBF},     {0x37E, 0x37E},
    {0x55A, 0x55F},   {0x589, 0x58A},   {0x5BE, 0x5BE},   {0x60C, 0x60D},   {0x61B, 0x61F},
    {0x6D4, 0x6D4},   {0x964, 0x965},   {0x2000, 0x206F}, {0x2E00, 0x2E7F}, {0x3000, 0x3003},
    {0x3008, 0x3020}, {0x3030, 0x3030}, {0xFE30, 0xFE6F}, {0xFF00, 0xFF0F}, {0xFF1A, 0xFF20},
    {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}, {0xFFFD, 0xFFFD},
};

static bool within(uint32_t c, const struct range *list, size_t n)
{
    size_t i = 0;

    while (i < n && c > list[i].last)
        i++;
    return i < n && c >= list[i].first;
}

/* The bytes of the character, and the code point. */
static size_t decode(const unsigned char *s, uint32_t *ret)
{
    size_t n = s[0] < 0xC2 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 1;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            *ret = 0xFFFD;
            return 1;
        }
        c = c << 6 | (s[i] & 0x3Fu);
    }
    *ret = n == 1 && c >= 0x80 ? 0xFFFD : c;
    return n;
}

enum script script_of(const char *s, size_t *bytes)
{
    uint32_t c;

    *bytes = decode((const unsigned char *)s, &c);
    if (within(c, blanks, sizeof(blanks) / sizeof(blanks[0])))
        return SCRIPT_BLANK;
    if (within(c, unparted, sizeof(unparted) / sizeof(unparted[0])))
        return SCRIPT_UNPARTED;
    return SCRIPT_OTHER;
}

bool script_is_punctuation(const char *s, size_t *bytes)
{
    uint32_t c;

    *bytes = decode((const unsigned char *)s, &c);
    return within(c, punctuation, sizeof(punctuation) / sizeof(punctuation[0]));
}
