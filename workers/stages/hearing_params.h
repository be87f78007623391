/* workers/stages/hearing_params.h - which tracks and channels a stage hears, as parameters that all
 * stages have that hear (workers/audio/hearing.h): `hearing` of their structures. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_HEARING_PARAMS_H
#define NIGHTSHIFT_WORKERS_STAGES_HEARING_PARAMS_H

#include "workers/audio/hearing.h"
#include "workers/stages/param_table.h"

/* Rows of a table. */
#define HEARING_CHANNELS(type) \
    .name = "channels", .kind = PARAM_TEXT, PARAM_AT(type, hearing.channels)
#define HEARING_TRACKS(type) .name = "tracks", .kind = PARAM_TEXT, PARAM_AT(type, hearing.tracks)
#define HEARING_FIELDS(type) \
    {HEARING_CHANNELS(type)}, { HEARING_TRACKS(type) }

static inline int hearing_check(const struct hearing_words *w, struct err *err)
{
    struct hearing h;

    return hearing_read(w, &h, err);
}

#endif
