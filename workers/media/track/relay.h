/* workers/media/track/relay.h - a track that goes on as another stream.
 *
 * A broadcast's sound may change its PID in the middle of a recording: one stream ends, another one
 * begins. Here the packets of a stream that is not heard are held back, a few seconds of them. When
 * no packet of the stream that is heard came among them, the track goes on with these. Inside the
 * decoder process; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_RELAY_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_RELAY_H

#include "workers/media/open_media.h"

#define RELAY_PACKETS 1024

struct relay { /* zeroed */
    AVPacket *held[RELAY_PACKETS];
    uint32_t count;
    int64_t since_us; /* of held[0]'s stream, since the last packet of the one that is heard */
    uint64_t
        beside; /* bit i: stream i runs beside the one that is heard, and never goes on as it */
};

/* A packet of the stream that is heard; ear: its track. Only held packets that are later than it
 * stay. */
void relay_heard(struct relay *r, const struct media *m, const AVPacket *packet);
/* A packet of any other stream. true: the track goes on as the stream of held[0]. */
bool relay_hold(struct relay *r, const struct media *m, const AVPacket *packet);
/* At the end of the file: alike. */
bool relay_at_end(const struct relay *r);
/* The track has gone on as `stream`: what is held up to that one's last packet was heard, or beside
 * it. */
void relay_done(struct relay *r, const struct media *m, int stream);
void relay_clear(struct relay *r);

#endif
