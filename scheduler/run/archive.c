#include "scheduler/run/archive.h"

struct rate_backlog archive_backlog(const struct store_archive *a)
{
    const uint64_t all = store_archive_all(a);

    return (struct rate_backlog){
        .known_left_ms = a->audio_left_ms,
        .tasks_unknown = a->unknown,
        .bytes_unknown = a->bytes_unknown,
        .bytes_known = a->bytes_known,
        .known_ms = a->audio_known_ms,
        .tasks_known = all > a->unknown ? all - a->unknown : 0,
    };
}

struct progress archive_progress(const struct store_archive *a)
{
    return (struct progress){
        .done = a->done,
        .all = store_archive_all(a),
        .failed = a->failed,
        .paused = a->paused,
        .cancelled = a->cancelled,
        .gone = a->absent,
        .audio_done_ms = a->audio_done_ms,
        .audio_all_ms = -1,
        .low_ms = -1,
        .high_ms = -1,
        .note = "",
        .work_percent = -1,
    };
}
