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
    /* The sources, if there are several; borrowed like the tags. Samples hold the mix, then each
     * source. */
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
    /* Listings only: the parent computes these, because a decoder cannot be trusted with
     * identities. */
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
    /* The channels of the whole recording, whatever was skipped: a decoder reads from the
     * beginning. Borrowed like the info's tags. */
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

/* The work of a decoder; borrowed during the call. All zeros: a file from its beginning. */
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

/* Reads an archive once and returns the wanted recordings. Each readable recording, in the order
 * and by the names of a listing, is a DECODER_ENTRY (without fingerprint and first bytes), at which
 * the decoder waits for decoder_answer. If the recording is wanted, its bytes come as
 * DECODER_BYTES; an empty one at the end shows that it is complete. If another event comes first,
 * the recording is incomplete. */
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

/* Makes all decoders share a fork server, which saves each of them loading its libraries. The
 * server and its decoders end with the calling thread; so the main thread calls both, before others
 * start and after they have ended. If the server dies, the first time is logged, and the thread
 * that notices starts another one; such a thread must live as long as decoders are wanted. Without
 * it each decoder has a server of its own. */
void decoder_share_server(void);
void decoder_drop_server(void);

/* Loads a decoder's libraries into this process, to examine them, and to explain why decoders end.
 * ERR_LIBRARY says which one is missing or not whole. */
int decoder_load(struct err *err);

/* The program to start instead of /proc/self/exe (tests); NULL restores. Before threads only. */
void decoder_set_program(const char *path);

/* A decoder's exit status if it could not read its request. It has not touched the file then, so
 * the recording is not to blame. A manual call ends so, too: it is usage in sysexits.h. */
#define DECODER_EXIT_UNASKED 64
/* The argument of a decoder that will not decode: it opens no libraries. */
#define DECODER_BARE "--bare"
/* main() of the hidden `nightshift decoder` command. Returns the exit status. */
int decoder_main(int argc, char **argv);

#endif
