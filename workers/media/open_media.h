/* workers/media/open_media.h - a stream of bytes opened as a recording: its container found, its
 * audio track chosen, a decoder for that track made. Runs inside the decoder process; one
 * thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_OPEN_MEDIA_H
#define NIGHTSHIFT_WORKERS_MEDIA_OPEN_MEDIA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/media/decoder.h"
#include "workers/media/ffmpeg.h"
#include "workers/media/stream/sniff.h"
#include "workers/media/stream/wav.h"
#include "workers/media/stream/stream.h"

/* A container that was recognised with no more certainty than this may be noise that looks like
 * one. */
#define MEDIA_DOUBTFUL_SCORE (AVPROBE_SCORE_MAX / 4)

struct media_ear {   /* a track that is heard */
    AVStream *track; /* of fmt */
    AVCodecContext *dec;
    uint32_t nth; /* among the audio tracks, from 1 on */
};

struct media {
    struct stream *in; /* borrowed, or `headed` */
    struct stream *headed;
    uint8_t head[64];              /* in place of the one that the kind has not */
    const struct headerless *bare; /* its name says what it is, for its bytes do not; or NULL */
    struct hearing hearing;
    bool patient;    /* the sound was not found at once: it is looked for in the first 200 MiB */
    bool may_follow; /* set by the caller: nobody asked for this track alone */
    bool follows;    /* the track may go on as another stream, whose packets are read, too
                        (track/ear.h) */
    AVIOContext *io;
    AVFormatContext *fmt;
    struct media_ear ears[HEARING_SOURCES_MAX];
    uint32_t ear_count;
    uint64_t followed;     /* bit i: an ear heard stream i before it went on as another one */
    AVStream *track;       /* of the first of them; NULL: it is a film without sound */
    int score;             /* how sure the container is, of AVPROBE_SCORE_MAX */
    bool elementary;       /* bare frames: a scan for the next one may run through any garbage */
    double promised_bytes; /* by a RIFF or FORM header, 0: by none */
    uint64_t unproductive_bytes;  /* read since media_progress */
    struct err in_err;            /* what the stream said; code 0: nothing */
    uint64_t external;            /* bit i: track i of a mov has its sound in another file */
    struct riff_chunk bext, ixml; /* of a WAV file, as they are */
    int64_t wrong_size;           /* where a WAV states too small a size of its sound (wav.h); 0 */
    int64_t pos;                  /* in the stream, of what FFmpeg reads next */
    char note[160];               /* FFmpeg's last complaint, printable; "" none */
    uint64_t complaints;          /* how many there were */
    char warned[100];             /* its last warning, printable, */
    char missing[100];            /* and the one that says what it has no code for; "" none */
    char undecodable[300];
    uint64_t packets; /* of the tracks that are heard */
    int read_error;   /* FFmpeg's, when it was not the end */
};

/* A decoder for another stream, as which an ear's track goes on (track/ear.h): media_go_on takes
 * it, in place of the ear's own. ERR_INPUT: it cannot be decoded. */
int media_open_next(struct media *m, int stream, struct media_ear *ret, struct err *err);
void media_go_on(struct media *m, uint32_t ear, const struct media_ear *next);

/* m is zeroed by the caller and freed by media_close in any case. Heard are those of hearing's
 * tracks that are there, and have its channel; of a film without sound there is none (ear_count 0).
 * Errors: ERR_INPUT with the reason, and the stream's errors. */
int media_open(struct media *m, struct stream *in, const struct hearing *hearing, struct err *err);
void media_close(struct media *m);

/* How many audio tracks it has. */
uint32_t media_tracks(const struct media *m);
/* How long an audio track is by the container's word, in ms; -1: it does not say. nth: from 1 on.
 */
int64_t media_track_ms(const struct media *m, uint32_t nth);
/* Did an ear hear it, all of it or a stretch? */
bool media_hears(const struct media *m, uint32_t nth);

/* The error for a recording with DRM. */
int media_refuse_encrypted(struct err *err);

/* From here on FFmpeg's complaints are noted in the media that they are of. */
void media_hear_complaints(void);
/* Attributes complaints from FFmpeg's internal contexts in this thread to m; NULL ends that. */
void media_finds_out(struct media *m);
/* No audio track was found. 0: it is a film without sound. ERR_INPUT: it is no film, or has a track
 * of a kind that FFmpeg does not know as audio. */
int media_without_track(struct media *m, struct err *err);
/* There is this one, and it cannot be decoded. */
int media_refuse_track(struct media *m, const AVStream *track, struct err *err);

/* Why nothing came of a track that should be decoded, where it is not cut short; "" where that is
 * not known. Valid until the next call. */
const char *media_undecodable(struct media *m);

/* The next packet of the file: 1. 0: there is none, for it ends or cannot be read on (read_error).
 * *ear: whose it is; ear_count: of a track that is not heard. ERR_LIMIT: no memory. */
int media_next(struct media *m, AVPacket *packet, uint32_t *ear, struct err *err);

/* A packet came: the scan for it is over. */
void media_progress(struct media *m);

/* Before a packet is decoded: where a link of a chained Ogg begins with a header of its own, of
 * which FFmpeg does not tell its decoder (FLAC), the ear gets a decoder anew. */
int media_renew(struct media *m, uint32_t ear, const AVPacket *packet, struct err *err);
/* rate and channels as the container has them. */
void media_describe(const struct media *m, struct decoder_info *ret);

/* Which of a track's channels are heard: bit i: channel i + 1. */
struct media_heard {
    uint32_t channels;
    uint64_t heard; /* of the first 64 */
};
/* Lists the tracks and channels that are not heard: "track 2 (eng, no channel 2), channel 1"; "":
 * all are heard. heard: one for each ear. */
void media_left_out(const struct media *m, const struct media_heard *heard, char *ret, size_t size);

/* When the file begins, by the clock of an ear's program: the earliest of its sound and pictures,
 * in samples at 16 kHz. false: the container has no clock, or does not say. */
bool media_begins(const struct media *m, uint32_t ear, int64_t *ret);

/* When its pictures end by the container's word, in samples at 16 kHz from its beginning; 0: it has
 * none, or does not say. */
int64_t media_pictures_end(const struct media *m);

/* The longest hole in a track that is one, and not a new beginning of the clock, in samples at 16
 * kHz. */
int64_t media_longest_hole(const struct media *m);

/* How many times longer the file would be had it not been cut short, by its own header; 1: it was
 * not, or nobody knows. */
double media_cut_factor(const struct media *m);

/* Length of the audio track as the container states it, in seconds; 0 when it does not. */
double media_stated_seconds(const struct media *m);

#endif
