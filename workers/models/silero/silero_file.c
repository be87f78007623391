/* Finds and identifies Silero's model file. Apart from the network, because enqueueing uses it,
 * too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"

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
                   "` fetches it, 'off' (--vad, --diarize-vad) does without: %s",
                   msg);
}

int silero_hash(const char *file, char *ret, struct err *err)
{
    return model_dir_hash_file(file, ret, err);
}

int silero_find_same(const char *name, const char *hash, char **ret, struct err *err)
{
    char now[33];
    char *file = NULL;
    int rc;

    *ret = NULL;
    if (!name[0])
        return 0;
    rc = silero_find(name, &file, err);
    if (rc == 0)
        rc = silero_hash(file, now, err);
    if (rc == 0 && strcmp(now, hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the voice activity's file '%s' is not the one that the job was set up with "
                     "(now %s, then %s): restore it, or enqueue with this one",
                     file, now, hash);
    if (rc != 0)
        free(file);
    else
        *ret = file;
    return rc;
}

int silero_check(const char *name, const char *hash, struct err *err)
{
    size_t n = strlen(hash);

    if (name[0] == 0)
        return n == 0 ? 0 : err_set(err, ERR_USAGE, "vad_hash is given without vad_model");
    if (name[0] != '/' && strchr(name, '/'))
        return err_set(err, ERR_USAGE, "vad_model is neither a name nor an absolute path");
    if (n != 32 || strspn(hash, "0123456789abcdef") != n)
        return err_set(err, ERR_USAGE, "vad_hash is not 32 hexadecimal digits");
    return 0;
}
