/* Which file holds Silero's model, and which one it is: for whoever enqueues, too, and so apart
 * from the network. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"

#define CHUNK_BYTES (1u << 16)

int silero_find(const char *name, char **ret, struct err *err)
{
    char msg[sizeof(err->msg)];
    /* The plain name is what a catalog has: it means the same file wherever a run is started. */
    bool here = strcmp(name, SILERO_NAME) != 0;
    int rc = model_dir_find_file(name, SILERO_FILE, here, ret, err);

    if (rc != ERR_MODEL)
        return rc;
    snprintf(msg, sizeof(msg), "%s", err->msg);
    return err_set(err, rc,
                   "voice activity needs Silero's model; `nightshift model pull " SILERO_NAME
                   "` fetches it, --vad off does without: %s",
                   msg);
}

static int hash_bytes(int fd, XXH3_state_t *state, const char *file, struct err *err)
{
    uint8_t chunk[CHUNK_BYTES];
    ssize_t n;

    do {
        n = read(fd, chunk, sizeof(chunk));
        if (n > 0)
            XXH3_128bits_update(state, chunk, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? err_sys(err, errno, "%.200s", file) : 0;
}

int silero_hash(const char *file, char *ret, struct err *err)
{
    XXH3_state_t *state = XXH3_createState();
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    XXH128_canonical_t digest;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_sys(err, errno, "%.200s", file);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_MODEL, "%.200s is not a file", file);
    else if (!state)
        rc = err_set(err, ERR_NOMEM, "no memory to read %.200s", file);
    if (rc == 0) {
        XXH3_128bits_reset(state);
        rc = hash_bytes(fd, state, file, err);
    }
    if (rc == 0) {
        XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
        for (size_t i = 0; i < sizeof(digest.digest); i++)
            snprintf(ret + 2 * i, 3, "%02x", digest.digest[i]);
    }
    if (rc == ERR_DENIED || rc == ERR_MISSING)
        rc = err->code = ERR_MODEL;
    if (fd >= 0)
        close(fd);
    XXH3_freeState(state);
    return rc;
}
