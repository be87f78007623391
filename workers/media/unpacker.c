#include "workers/media/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "workers/media/decoder.h"
#include "workers/media/stream/sniff.h"

#define MEMORY_LEAST (UINT64_C(128) << 20) /* of all */
#define MEMORY_MOST (UINT64_C(1) << 30)    /* of one */

struct unpacker {
    struct decoder *decoder;
    char *name; /* where it stands, and waits for an answer; NULL: nowhere */
    uint32_t nth;
    uint64_t bytes;
    bool ended, saw_all;
};

bool unpacker_serves(int file, const char *member)
{
    uint8_t head[SNIFF_HEAD_BYTES];
    ssize_t got = pread(file, head, sizeof(head), 0);

    return member[0] && got > 0 &&
           (!sniff_finds_members(head, (size_t)got) || strstr(member, "//"));
}

uint64_t unpacker_most(uint32_t processes)
{
    struct memory m;
    uint64_t all, each;

    memory_look(&m);
    all = m.total / 16 > MEMORY_LEAST ? m.total / 16 : MEMORY_LEAST;
    each = all / (processes ? processes : 1);
    return each < MEMORY_MOST ? each : MEMORY_MOST;
}

int unpacker_open(int file, void (*pulse)(void *arg), void *arg, struct unpacker **ret,
                  struct err *err)
{
    struct unpacker *u = calloc(1, sizeof(*u));
    int rc = u ? decoder_start_unpack(file, NULL, &u->decoder, err)
               : err_set(err, ERR_NOMEM, "out of memory");

    if (rc != 0) {
        free(u);
        return rc;
    }
    decoder_on_pulse(u->decoder, pulse, arg);
    *ret = u;
    return 0;
}

void unpacker_close(struct unpacker *u)
{
    if (!u)
        return;
    decoder_close(u->decoder);
    free(u->name);
    free(u);
}

void unpacker_cancel(struct unpacker *u) { decoder_cancel(u->decoder); }

/* An entry is where it stands then; the archive's end is remembered. */
static int next_event(struct unpacker *u, struct decoder_event *ret, struct err *err)
{
    int rc = decoder_next(u->decoder, ret, err);

    if (rc != 0)
        return rc;
    u->ended = ret->type == DECODER_END;
    u->saw_all = u->ended && ret->end.complete;
    if (ret->type != DECODER_ENTRY)
        return 0;
    u->name = strdup(ret->entry.member);
    u->nth = ret->entry.nth;
    u->bytes = ret->entry.size_bytes;
    return u->name ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int unpacker_next(struct unpacker *u, struct unpacker_member *ret, struct err *err)
{
    struct decoder_event ev;
    int rc = u->name || u->ended ? 0 : next_event(u, &ev, err);

    if (rc == 0 && u->ended)
        rc = err_set(err, ERR_EMPTY, "the archive has ended");
    if (rc == 0)
        *ret = (struct unpacker_member){u->name, u->nth, u->bytes};
    return rc;
}

bool unpacker_saw_all(const struct unpacker *u) { return u->saw_all; }

static int answer_decoder(struct unpacker *u, bool wanted, struct err *err)
{
    free(u->name);
    u->name = NULL;
    return decoder_answer(u->decoder, wanted, err);
}

int unpacker_pass(struct unpacker *u, struct err *err) { return answer_decoder(u, false, err); }

static bool write_all(int fd, const uint8_t *data, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, data, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        data += put;
        n -= (size_t)put;
    }
    return true;
}

/* The member that was just asked for, into fd. *whole: all of it is there, and nobody can change
 * it. */
static int receive_member(struct unpacker *u, int fd, bool *whole, struct err *err)
{
    struct decoder_event ev;
    bool kept = true;
    int rc;

    *whole = false;
    while ((rc = next_event(u, &ev, err)) == 0 && ev.type == DECODER_BYTES) {
        if (ev.byte_count == 0) {
            *whole =
                kept && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0;
            return 0;
        }
        kept = kept && write_all(fd, ev.bytes, ev.byte_count);
    }
    return rc;
}

int unpacker_take(struct unpacker *u, int *ret, struct err *err)
{
    int fd = memfd_create("member", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool whole = false;
    int rc = answer_decoder(u, fd >= 0, err);

    if (rc == 0 && fd >= 0)
        rc = receive_member(u, fd, &whole, err);
    if (fd >= 0 && !(rc == 0 && whole)) {
        close(fd);
        fd = -1;
    }
    *ret = fd;
    return rc;
}
