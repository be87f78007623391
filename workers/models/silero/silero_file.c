/* Which file holds Silero's model, and which one it is: for whoever enqueues, too, and so apart
 * from the network. */
#include <stdio.h>
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
                   "` fetches it, --vad off does without: %s",
                   msg);
}

int silero_hash(const char *file, char *ret, struct err *err)
{
    return model_dir_hash_file(file, ret, err);
}
