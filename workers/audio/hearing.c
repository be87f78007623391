#include "workers/audio/hearing.h"

#include <stdbool.h>
#include <string.h>

/* Reads the number at *word and moves *word behind it. 0: there is none from 1 to most. */
static uint32_t number_of(const char **word, uint32_t most)
{
    const char *s = *word;
    uint32_t n = 0;

    if (*s < '1' || *s > '9')
        return 0;
    for (; *s >= '0' && *s <= '9' && n <= most; s++)
        n = n * 10 + (uint32_t)(*s - '0');
    *word = s;
    return n <= most ? n : 0;
}

static bool read_channels(const char *word, struct hearing *ret)
{
    static const char *const words[] = {
        [HEARING_MIX] = "mix", [HEARING_SPLIT] = "split", [HEARING_AUTO] = "auto"};

    for (uint8_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i]) == 0) {
            ret->channels = i;
            return true;
        }
    ret->channel = number_of(&word, HEARING_CHANNELS_MAX);
    return ret->channel && *word == 0;
}

static bool read_tracks(const char *word, struct hearing *ret)
{
    uint32_t last = 0, n;

    if (strcmp(word, "best") == 0)
        return true;
    if (strcmp(word, "all") == 0) {
        ret->tracks = HEARING_ALL;
        return true;
    }
    do {
        n = number_of(&word, HEARING_TRACKS_MAX);
        if (n <= last)
            return false;
        ret->tracks |= UINT32_C(1) << (n - 1);
        last = n;
    } while (*word++ == ',');
    return word[-1] == 0;
}

int hearing_read(const struct hearing_words *w, struct hearing *ret, struct err *err)
{
    struct hearing h = {0};

    if (!read_channels(w->channels, &h))
        return err_set(err, ERR_USAGE,
                       "channels is auto, mix, split or a number from 1 to %u, not '%s'",
                       HEARING_CHANNELS_MAX, w->channels);
    if (!read_tracks(w->tracks, &h))
        return err_set(
            err, ERR_USAGE,
            "tracks is best, all, or ascending numbers from 1 to %u such as 1,3; not '%s'",
            HEARING_TRACKS_MAX, w->tracks);
    *ret = h;
    return 0;
}
