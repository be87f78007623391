#include "tools/export/html/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/list.h"
#include "workers/media/decoder.h"
#include "workers/media/unpacker.h"
#include "workers/media/stream/fingerprint.h"

#define PEAK_SAMPLES 1600 /* 100 ms: a day are 864,000 */
#define COLUMNS 1000

static bool ends_in(const char *path, const char *const endings[])
{
    const char *dot = strrchr(path, '.');

    for (; dot && *endings; endings++)
        if (strcasecmp(dot + 1, *endings) == 0)
            return true;
    return false;
}

bool listen_is_film(const char *path)
{
    static const char *const films[] = {"mp4", "m4v", "webm", NULL};

    return ends_in(path, films);
}

bool listen_is_played(const char *container, const char *codec, const char *path)
{
    static const struct {
        const char *container, *codecs; /* codecs between blanks; NULL: any */
    } played[] = {
        {"wav", " pcm_s16le pcm_u8 pcm_s24le pcm_f32le "},
        {"mp3", NULL},
        {"flac", NULL},
        {"ogg", " vorbis opus flac "},
        {"mp4", " aac mp3 flac opus "},
        {"matroska", " opus vorbis "}, /* as WebM alone */
        {"aac", " aac "},
    };
    static const char *const webm[] = {"webm", NULL};
    char wanted[48];

    snprintf(wanted, sizeof(wanted), " %.40s ", codec);
    for (size_t i = 0; i < sizeof(played) / sizeof(played[0]); i++)
        if (strcmp(container, played[i].container) == 0)
            return (!played[i].codecs || strstr(played[i].codecs, wanted)) &&
                   (strcmp(container, "matroska") != 0 || ends_in(path, webm));
    return false;
}

/* ------------------------------------------------------------------------------------ peaks */

struct peaks {
    uint8_t *list; /* of each PEAK_SAMPLES, 0 to 255 */
    size_t count, capacity;
    size_t filled; /* samples of the last one */
    unsigned loudest;
};

static int add_peak(struct peaks *p, unsigned peak)
{
    if (!list_grow(&p->list, &p->capacity, p->count, sizeof(*p->list)))
        return -1;
    p->list[p->count++] = (uint8_t)(peak >> 7 > 255 ? 255 : peak >> 7);
    return 0;
}

static int add_samples(struct peaks *p, const int16_t *pcm, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned v = (unsigned)abs(pcm[i]);

        p->loudest = v > p->loudest ? v : p->loudest;
        if (++p->filled < PEAK_SAMPLES)
            continue;
        if (add_peak(p, p->loudest) != 0)
            return -1;
        p->filled = p->loudest = 0;
    }
    return 0;
}

/* The loudest of the stretch that a column stands for. */
static unsigned find_column_peak(const struct peaks *p, size_t i)
{
    size_t from = i * p->count / COLUMNS, to = (i + 1) * p->count / COLUMNS;
    unsigned best = p->list[from];

    for (size_t k = from; k < to; k++)
        best = p->list[k] > best ? p->list[k] : best;
    return best;
}

/* Scales the waveform to its loudest peak: an archive has quiet tapes. */
static void put_waveform(const struct peaks *p, struct buf *out)
{
    unsigned most = 8;

    for (size_t i = 0; i < p->count; i++)
        most = p->list[i] > most ? p->list[i] : most;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d 100\" "
               "preserveAspectRatio=\"none\"><path fill=\"#6f7f92\" d=\"",
               COLUMNS);
    for (size_t i = 0; p->count > 0 && i < COLUMNS; i++) {
        unsigned half = find_column_peak(p, i) * 50 / most;

        half = half > 0 ? half : 1;
        buf_printf(out, "M%zu %uh1v%uh-1z", i, 50 - half, 2 * half);
    }
    buf_printf(out, "\"/></svg>\n");
}

/* ---------------------------------------------------------------------------------- decoding */

static int open_origin(const struct read_origin *origin, int *ret, struct err *err)
{
    char *path = strndup(origin->path_raw, origin->path_raw_len);

    if (!path)
        return err_set(err, ERR_NOMEM, "out of memory");
    *ret = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    free(path);
    return *ret >= 0 ? 0 : err_sys(err, errno, "open the recording");
}

void listen_archive_close(struct listen_archive *a)
{
    unpacker_close(a->unpacker);
    free(a->path);
    *a = (struct listen_archive){0};
}

/* The reading of this archive that is on, or another from its front. */
static int read_archive(struct listen_archive *a, const struct read_origin *origin, int file,
                        struct err *err)
{
    if (a->path && strncmp(a->path, origin->path_raw, origin->path_raw_len) == 0 &&
        a->path[origin->path_raw_len] == '\0')
        return 0;
    listen_archive_close(a);
    a->most = unpacker_most(1);
    a->path = strndup(origin->path_raw, origin->path_raw_len);
    return a->path ? unpacker_open(file, NULL, NULL, &a->unpacker, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
}

/* The member by the reading of its archive: its bytes alone. -1: that did not come by it. */
static int take_member(struct listen_archive *a, const struct read_origin *origin,
                       const char *member, int file)
{
    struct unpacker_member at;
    struct err ignored;
    int ret = -1, rc = read_archive(a, origin, file, &ignored);

    while (rc == 0 && ret < 0) {
        bool is_it;

        rc = unpacker_next(a->unpacker, &at, &ignored);
        is_it = rc == 0 && at.nth == origin->nth && strcmp(at.name, member) == 0;
        if (is_it && at.bytes <= a->most)
            rc = unpacker_take(a->unpacker, &ret, &ignored);
        else if (rc == 0)
            rc = unpacker_pass(a->unpacker, &ignored);
        if (is_it)
            break;
    }
    if (rc != 0)
        listen_archive_close(a);
    return ret;
}

/* The recording's decoder, and the first that it says. unpacked: of the member's bytes alone. */
static int start_at(int file, const struct decoder_work *work, struct decoder **ret,
                    struct decoder_event *first, struct err *err)
{
    int rc = decoder_start(file, work, NULL, ret, err);

    if (rc == 0)
        rc = decoder_next(*ret, first, err);
    return rc;
}

static int start_decoder(struct listen_archive *archive, const struct read_origin *origin,
                         struct decoder **ret, struct decoder_event *first, struct err *err)
{
    char *member = strndup(origin->member_raw, origin->member_raw_len);
    char *path = strndup(origin->path_raw, origin->path_raw_len);
    /* A page gets no sound but that which was transcribed. */
    const bool whole = origin->hash && origin->member_raw_len == 0;
    struct decoder_work work = {.name = member && member[0] ? member : path,
                                .nth = origin->nth,
                                .fingerprint = whole ? origin->hash : origin->fingerprint};
    int file = -1, unpacked = -1, rc = 0;

    if (!member || !path)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = open_origin(origin, &file, err);
    if (rc == 0 && unpacker_serves(file, member))
        unpacked = take_member(archive, origin, member, file);
    if (rc == 0 && unpacked >= 0)
        rc = start_at(unpacked, &work, ret, first, err);
    /* Not come by, or another member of that name is meant: its decoder looks at all. */
    if ((rc == 0 && unpacked < 0) || (unpacked >= 0 && rc == ERR_CHANGED)) {
        decoder_close(*ret);
        *ret = NULL;
        work.member = member;
        rc = start_at(file, &work, ret, first, err);
    }
    if (file >= 0)
        close(file);
    if (unpacked >= 0)
        close(unpacked);
    free(member);
    free(path);
    return rc;
}

static int copy_all(int fd, struct fingerprint *f, struct hash *whole, opus_file_write write,
                    void *arg, struct err *err)
{
    char chunk[1 << 16];
    ssize_t n = 1;
    int rc = 0;

    while (rc == 0 && n != 0) {
        n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read the recording");
        fingerprint_feed(f, chunk, (size_t)n);
        hash_put(whole, chunk, (size_t)n);
        rc = write(arg, chunk, (size_t)n, err);
    }
    return rc;
}

int listen_copy(const struct read_origin *origin, opus_file_write write, void *arg, struct err *err)
{
    struct hash *whole = hash_new();
    struct fingerprint *f = NULL;
    struct err ignored = {0};
    uint8_t found[16], all[HASH_BYTES];
    struct stat st;
    int fd = -1, rc = open_origin(origin, &fd, err);
    bool same = rc == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

    if (same && !whole)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (same && rc == 0)
        rc = fingerprint_new((uint64_t)st.st_size, &f, err);
    if (same && rc == 0)
        rc = copy_all(fd, f, whole, write, arg, err);
    /* Also if it grew meanwhile. */
    same = f && fingerprint_end(f, found, &ignored) == 0;
    if (same) {
        hash_get(whole, all);
        same = memcmp(found, origin->fingerprint, sizeof(found)) == 0 ||
               memcmp(all, origin->fingerprint, sizeof(all)) == 0;
        same &= !origin->hash || memcmp(all, origin->hash, sizeof(all)) == 0;
    }
    hash_free(whole);
    if (fd >= 0)
        close(fd);
    return rc != 0 || same ? rc
                           : err_set(err, ERR_CHANGED,
                                     "it is not the file any more that was "
                                     "transcribed: enqueue it again");
}

int listen_to(struct listen_archive *archive, const struct read_origin *origin,
              struct buf *waveform, opus_file_write opus, void *arg, struct err *err)
{
    struct decoder_event event = {0};
    struct opus_file *encoder = NULL;
    struct decoder *d = NULL;
    struct peaks p = {0};
    int rc = opus ? opus_file_new(opus, arg, &encoder, err) : 0;

    if (rc == 0)
        rc = start_decoder(archive, origin, &d, &event, err);
    while (rc == 0 && event.type != DECODER_END) {
        rc = decoder_next(d, &event, err);
        if (rc != 0 || event.type != DECODER_PCM)
            continue;
        if (waveform && add_samples(&p, event.pcm, event.samples) != 0)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        if (rc == 0 && opus)
            rc = opus_file_put(encoder, event.pcm, event.samples, err);
    }
    if (rc == 0 && opus)
        rc = opus_file_end(encoder, err);
    if (rc == 0 && waveform && p.filled > 0 && add_peak(&p, p.loudest) != 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && waveform)
        put_waveform(&p, waveform);
    decoder_close(d);
    opus_file_free(encoder);
    free(p.list);
    return rc;
}
