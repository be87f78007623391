#include "workers/audio/hearing.h"

#include <string.h>

/* 0: it is none from 1 to most. */
static uint32_t number_of(const char *word, uint32_t most)
{
    uint32_t n = 0;

    if (*word < '1' || *word > '9')
        return 0;
    for (; *word >= '0' && *word <= '9' && n <= most; word++)
        n = n * 10 + (uint32_t)(*word - '0');
    return *word == 0 && n <= most ? n : 0;
}

int hearing_read(const struct hearing_words *w, struct hearing *ret, struct err *err)
{
    struct hearing h = {number_of(w->channels, HEARING_CHANNELS_MAX),
                        number_of(w->tracks, HEARING_TRACKS_MAX)};

    if (!h.channel && strcmp(w->channels, "mix") != 0)
        return err_set(err, ERR_USAGE, "channels is 'mix' or a number from 1 to %u, not '%s'",
                       HEARING_CHANNELS_MAX, w->channels);
    if (!h.track && strcmp(w->tracks, "best") != 0)
        return err_set(err, ERR_USAGE, "tracks is 'best' or a number from 1 to %u, not '%s'",
                       HEARING_TRACKS_MAX, w->tracks);
    *ret = h;
    return 0;
}
