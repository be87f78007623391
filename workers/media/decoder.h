/* workers/media/decoder.h - one decoder process, seen from its parent.
 *
 * Untrusted bytes are parsed only there: `nightshift decoder` is this very program, forked by one
 * of its kind that has seen no file (fork_server.h) with a socket and one read-only file
 * descriptor, then locked in (rlimits always; seccomp and Landlock where the kernel has them). It
 * decodes one recording to 16 kHz mono signed 16-bit PCM, or lists or unpacks one archive, and says
 * everything as frames (workers/wire/frame.h).
 *
 * Blocking; one thread per struct decoder. decoder_cancel alone may be called from another thread
 * and makes a blocked decoder_next return ERR_CANCELLED. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_DECODER_H
#define NIGHTSHIFT_WORKERS_MEDIA_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/hearing.h"
#include "workers/results.h"

#define DECODER_RATE_HZ 16000

struct decoder;

struct decoder_limits {
    uint64_t memory_bytes;       /* RLIMIT_AS of the process; 0: default */
    uint32_t silence_ms;         /* no frame for so long: killed, ERR_TIMEOUT; 0: default */
    uint64_t cpu_seconds;        /* RLIMIT_CPU; 0: by the file's size */
    uint64_t max_entries;        /* of an archive listing; 0: default */
    uint64_t max_unpacked_bytes; /* of one archive listing or member; 0: default */
    uint64_t wait_ms;            /* for all of its frames: ERR_TIMEOUT; 0: by the file's size */
};

enum decoder_event_type {
    DECODER_INFO,  /* first, when decoding; once more where its tracks turned out otherwise */
    DECODER_PCM,   /* many */
    DECODER_ENTRY, /* many, when listing or unpacking */
    DECODER_BYTES, /* many, when unpacking */
    DECODER_END,   /* once, last; nothing follows */
};

struct decoder_info {
    int64_t duration_ms;               /* the container's word, -1 unknown */
    uint32_t sample_rate_hz, channels; /* of the track that is heard */
    uint32_t tracks;                   /* of audio; 0: a film without sound */
    char container[32], codec[32];     /* valid UTF-8 */
    char left_out[200];                /* as well: the tracks and channels that are not heard */
    char mix_left_out[200]; /* by whoever hears the mix, which has all channels of a track */
    /* What is heard apart, if it is more than one; as the tags. Samples are those of the mix, and
     * of each of these. */
    const struct result_source *sources;
    uint32_t source_count;         /* 0, or 2 to RESULT_SOURCES_MAX */
    const struct result_tag *tags; /* the title is among them; of an event: until the next call */
    uint32_t tag_count;
};

struct decoder_entry {
    const char *member; /* raw bytes, NUL-terminated; "inner.zip//name" when nested */
    uint32_t nth;       /* how many of that name were listed before it */
    uint64_t size_bytes;
    int64_t mtime_ms; /* -1 unknown */
    /* Of a listing: made of its bytes by the parent, for nobody may say of himself who he is. */
    uint8_t fingerprint[16];  /* as workers/media/stream/fingerprint.h */
    uint8_t content_hash[16]; /* XXH3-128 of all its bytes, canonical */
    uint8_t head[64];         /* its first bytes, for sniffing */
    size_t head_len;
    int code; /* 0, or why this member cannot be read (encrypted, damaged) */
    const char *message;
};

struct decoder_end {
    int64_t total_samples; /* PCM samples sent, counting those below skip_samples */
    bool complete;         /* decoded to its end; of an archive: nothing had to be left out */
    bool has_hash;
    uint8_t content_hash[16]; /* XXH3-128 of all bytes, canonical big-endian */
    const char *damage;       /* "" or what was wrong though audio came out */
    int64_t length; /* as total_samples: of a film whose pictures go on behind the sound; else 0 */
    const char *clock; /* "" or where the container's clock jumps, in words */
    /* Of all of the recording, whatever was skipped: a decoder reads from the beginning. As the
     * info's tags. */
    const struct result_channel *channels;
    uint32_t channel_count;
};

struct decoder_event {
    enum decoder_event_type type;
    const int16_t *pcm; /* DECODER_PCM: of all sources, interleaved; valid until the next call */
    size_t samples;     /* of each */
    int64_t at_sample;  /* position of pcm[0] in the recording */
    const void *bytes;  /* DECODER_BYTES: valid until the next call */
    size_t byte_count;
    struct decoder_info info;
    struct decoder_entry entry;
    struct decoder_end end;
};

/* What is decoded; borrowed during the call. All zeros: a file from its beginning. */
struct decoder_work {
    const char *member; /* NULL or "": the file itself */
    const char *name;   /* what the file is called, by which some kinds are known alone; or NULL */
    uint32_t nth;       /* which of the members of that name, 0 ... */
    int64_t skip_samples; /* those before are decoded but not sent */
    bool want_hash;
    /* NULL: not compared; else, when the nth has another one, the first of that name that has it is
     * decoded: ERR_CHANGED when there is none. */
    const uint8_t *fingerprint;
    struct hearing hearing;
};

/* Starts a decoder on file (borrowed, may be closed after the call; read with pread only, so that
 * its offset is nobody's). ERR_NOMEM: memory, descriptors or processes are short. ERR_LIBRARY: one
 * that it opens as it begins is missing or not whole; the log says nothing of that. */
int decoder_start(int file, const struct decoder_work *work, const struct decoder_limits *limits,
                  struct decoder **ret, struct err *err);

/* Lists the recordings of an archive, looking into archives inside it once. */
int decoder_start_list(int file, const struct decoder_limits *limits, struct decoder **ret,
                       struct err *err);

/* Reads an archive once and hands on what is wanted of it: of each recording that can be read, in
 * the order and by the names of a listing, there is a DECODER_ENTRY (without its fingerprint and
 * first bytes), at which the decoder waits for decoder_answer. Are the recording's bytes wanted,
 * they come as DECODER_BYTES, the last of them empty: the recording came whole. Where that one is
 * missing before the next event, what came is not the recording. */
int decoder_start_unpack(int file, const struct decoder_limits *limits, struct decoder **ret,
                         struct err *err);
/* Answers the DECODER_ENTRY that decoder_next has just returned. An error says what is wrong with
 * the decoder, as decoder_next's. */
int decoder_answer(struct decoder *d, bool wanted, struct err *err);

/* fn is called inside decoder_next for every message but audio, those of a decoder that has nothing
 * to give yet included: it skips to the middle of a long recording, or to a member at the end of an
 * archive. */
void decoder_on_pulse(struct decoder *d, void (*fn)(void *arg), void *arg);

/* The next event. Errors: ERR_INPUT (bad media, with the reason), ERR_LIMIT, ERR_CHANGED,
 * ERR_TIMEOUT, ERR_STALLED (what the file lies on does not answer; the decoder is left behind where
 * it cannot be killed), ERR_CANCELLED, ERR_NOMEM, ERR_IO (of the file, or it could not read its
 * request); a decoder that crashed is ERR_INPUT ("the decoder crashed on it (signal 11)"), one that
 * somebody killed ERR_CRASH. After an error or DECODER_END only close it. */
int decoder_next(struct decoder *d, struct decoder_event *ret, struct err *err);

void decoder_cancel(struct decoder *d);
/* Kills and reaps; NULL is fine. One that cannot be killed is left behind after some seconds. */
void decoder_close(struct decoder *d);

/* Many decoders will be started: they share a fork server from here on, which spares each of them
 * the loading of its libraries. It ends with the calling thread, and what it started with it; so
 * the main thread calls both, before others start and after they have ended. One that died is told
 * of in the log, the first time, and whichever thread finds out starts another one: such threads
 * live as long as decoders are wanted. Without it each decoder has a server of its own. */
void decoder_share_server(void);
void decoder_drop_server(void);

/* Into this process the libraries that a decoder opens as it begins: to look at them, and to say
 * why decoders end.
 * ERR_LIBRARY says which one is missing or not whole. */
int decoder_load(struct err *err);

/* The program to start instead of /proc/self/exe (tests); NULL restores. Before threads only. */
void decoder_set_program(const char *path);

/* Its exit status when it could not read what it was asked for: before it touched the file, so that
 * this says nothing of the recording. Whoever calls it by hand sees it, too: sysexits.h's usage. */
#define DECODER_EXIT_UNASKED 64
/* Its argument where no recording will be decoded: it opens no libraries. */
#define DECODER_BARE "--bare"
/* main() of the hidden `nightshift decoder` command. Returns the exit status. */
int decoder_main(int argc, char **argv);

#endif
