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
#include "workers/media/stream/kinds.h"
#include "workers/media/stream/riff_chunk.h"
#include "workers/media/stream/stream.h"

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
    AVIOContext *io;
    AVFormatContext *fmt;
    struct media_ear ears[HEARING_SOURCES_MAX];
    uint32_t ear_count;
    AVStream *track;       /* of the first of them */
    int score;             /* how sure the container is, of AVPROBE_SCORE_MAX */
    bool elementary;       /* bare frames: a scan for the next one may run through any garbage */
    double promised_bytes; /* by a RIFF or FORM header, 0: by none */
    uint64_t unproductive_bytes;  /* read since media_progress */
    struct err in_err;            /* what the stream said; code 0: nothing */
    uint64_t external;            /* bit i: track i of a mov has its sound in another file */
    struct riff_chunk bext, ixml; /* of a WAV file, as they are */
    char note[160];               /* FFmpeg's last complaint, printable; "" none */
    char warned[100];             /* its last warning, printable, */
    char missing[100];            /* and the one that says what it has no code for; "" none */
    char undecodable[300];
    uint64_t packets; /* of the tracks that are heard */
};

/* m is zeroed by the caller and freed by media_close in any case. Heard are those of hearing's
 * tracks that are there, and have its channel. Errors: ERR_INPUT with the reason, and what the
 * stream gives. */
int media_open(struct media *m, struct stream *in, const struct hearing *hearing, struct err *err);
void media_close(struct media *m);

/* What is said of a recording that DRM keeps from everybody but a player. */
int media_refuse_encrypted(struct err *err);

/* From here on FFmpeg's complaints are noted in the media that they are of. */
void media_hear_complaints(void);
/* Those of contexts that FFmpeg makes for itself are m's, until NULL. Of the thread. */
void media_finds_out(struct media *m);
/* There is no audio track, or one of a kind that FFmpeg does not know as such. */
int media_refuse_silence(struct media *m, struct err *err);
/* There is this one, and it cannot be decoded. */
int media_refuse_track(struct media *m, const AVStream *track, struct err *err);

/* Why nothing came of a track that should be decoded, where it is not cut short; "" where that is
 * not known. Valid until the next call. */
const char *media_undecodable(struct media *m);

/* A packet came: the scan for it is over. */
void media_progress(struct media *m);

/* Before a packet is decoded: where a link of a chained Ogg begins with a header of its own, of
 * which FFmpeg does not tell its decoder (FLAC), the ear gets a decoder anew. */
int media_follow(struct media *m, uint32_t ear, const AVPacket *packet, struct err *err);
/* Is it the last block of a codec with blocks of one length, and shorter than these? What writes
 * such ones pads with nothing; no decoder takes it, and nothing is lost but its few milliseconds.
 */
bool media_is_stub(const struct media *m, uint32_t ear, const AVPacket *packet);

/* rate and channels as the container has them. */
void media_describe(const struct media *m, struct decoder_info *ret);

/* Which of a track's channels are heard: bit i: channel i + 1. */
struct media_heard {
    uint32_t channels;
    uint64_t heard; /* of the first 64 */
};
/* What is not heard: "track 2 (eng, no channel 2), channel 1"; "" where all is. heard: of each ear.
 */
void media_left_out(const struct media *m, const struct media_heard *heard, char *ret, size_t size);

/* How many times longer the file would be had it not been cut short, by its own header; 1: it was
 * not, or nobody knows. */
double media_cut_factor(const struct media *m);

/* Length of the audio track as the container states it, in seconds; 0 when it does not or when it
 * was only guessed from the bit rate. */
double media_stated_seconds(const struct media *m);

#endif
