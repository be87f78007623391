#include "tools/enqueue/stages/enqueue_vad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "workers/models/silero/silero.h"

int enqueue_vad_take(const char *option, const char *value, struct enqueue_vad *ret,
                     struct err *err)
{
    if (value[0] == 0)
        return err_set(err, ERR_USAGE, "--%s is auto, on, off, or the file of Silero's model",
                       option);
    ret->wish = strcmp(value, "auto") == 0  ? VAD_AUTO
                : strcmp(value, "on") == 0  ? VAD_ON
                : strcmp(value, "off") == 0 ? VAD_OFF
                                            : VAD_PATH;
    ret->path = ret->wish == VAD_PATH ? value : NULL;
    if (ret->wish == VAD_PATH && !strchr(value, '/') && access(value, F_OK) != 0)
        return err_set(err, ERR_USAGE,
                       "--%s is auto, on, off, or a file; there is none '%.200s' here", option,
                       value);
    return 0;
}

/* name: as the catalog keeps it, by which the worker finds the file again. */
static int use_vad_model(const char *name, const char *file, char model[ENQUEUE_VAD_NAME],
                         char hash[ENQUEUE_VAD_HASH], struct err *err)
{
    int rc = silero_verify_file(file, err);

    if (rc == 0 && (strlen(name) >= ENQUEUE_VAD_NAME || !utf8_valid(name, strlen(name))))
        rc = err_set(err, ERR_USAGE,
                     "the path of the voice activity model is too long, or not UTF-8. Try it in "
                     "another folder");
    if (rc == 0)
        rc = silero_hash(file, hash, err);
    if (rc == 0)
        memcpy(model, name, strlen(name));
    return rc;
}

/* Who names a file wants to hear of that file, not of the model that could be fetched. */
static int no_file(const char *path, struct err *err)
{
    struct stat st;

    if (stat(path, &st) < 0 && errno != ENOENT && errno != ENOTDIR)
        return err_sys(err, errno, "%.300s", path);
    if (stat(path, &st) < 0)
        return err_set(err, ERR_MODEL, "there is no file '%.300s'", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_MODEL, "'%.300s' is not a file, but a folder without " SILERO_FILE,
                       path);
    return err_set(err, ERR_MODEL, "'%.300s' is not a file", path);
}

int enqueue_vad_find(const struct enqueue_vad *v, char model[ENQUEUE_VAD_NAME],
                     char hash[ENQUEUE_VAD_HASH], struct err *err)
{
    char *file = NULL, *path = NULL;
    int rc = 0;

    memset(model, 0, ENQUEUE_VAD_NAME);
    memset(hash, 0, ENQUEUE_VAD_HASH);
    if (v->wish == VAD_OFF)
        return 0;
    if (v->wish == VAD_PATH)
        rc = cli_absolute(v->path, &path, err);
    if (rc == 0)
        rc = silero_find(path ? path : SILERO_NAME, &file, err);
    if (rc == 0)
        rc = use_vad_model(path ? file : SILERO_NAME, file, model, hash, err);
    else if (rc == ERR_MODEL && path)
        rc = no_file(path, err);
    else if (rc == ERR_MODEL && v->wish == VAD_AUTO) {
        *err = (struct err){0};
        rc = 0;
    }
    free(file);
    free(path);
    return rc;
}
