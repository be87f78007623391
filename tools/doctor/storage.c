/* Disk, catalog and models. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/read/read.h"
#include "store/store.h"
#include "tools/doctor/doctor.h"
#include "tools/demo_model.h"
#include "tools/model_check.h"
#include "tools/cli/text.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"

/* The first folder on the way up that exists. */
static char *existing_folder(const char *path)
{
    char *dir = strdup(path), *slash;

    while (dir && (slash = strrchr(dir, '/'))) {
        slash[slash == dir] = 0;
        if (access(dir, F_OK) == 0 || slash == dir)
            break;
    }
    return dir;
}

static bool is_network(const char *dir)
{
    static const unsigned long types[] = {0x6969 /* NFS */, 0x517B /* SMB */, 0xFF534D42 /* CIFS */,
                                          0xFE534D42 /* SMB2 */, 0x65735546 /* FUSE, sshfs */};
    struct statfs fs;

    if (statfs(dir, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if ((unsigned long)fs.f_type == types[i] || (uint32_t)fs.f_type == types[i])
            return true;
    return false;
}

static void check_disk(struct doctor *d)
{
    char *dir = existing_folder(d->catalog), n[TEXT_LEN];
    struct statvfs vfs;
    uint64_t room;

    if (!dir || statvfs(dir, &vfs) != 0) {
        doctor_finding(d, FINDING_BROKEN, "disk", "a folder for the catalog",
                       "try --catalog FILE in another place", "%s: %s", dir ? dir : d->catalog,
                       strerror(errno));
        free(dir);
        return;
    }
    room = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (access(dir, W_OK | X_OK) != 0)
        doctor_finding(d, FINDING_BROKEN, "disk", "a folder that you may write",
                       "change its permissions, or try --catalog FILE in another place", "%s: %s",
                       dir, strerror(errno));
    else if (room < 1000000000)
        doctor_finding(d, room < 50000000 ? FINDING_BROKEN : FINDING_WARNING, "disk", "1 GB free",
                       "make room; a catalog takes about 1 MB for every ten hours of speech",
                       "%s free at %s", text_bytes(room, n), dir);
    else if (is_network(dir))
        doctor_finding(d, FINDING_WARNING, "disk",
                       "a disk of this machine: SQLite's log needs shared memory",
                       "try --catalog FILE on a local disk; recordings may lie anywhere",
                       "%s is on a network or user-space file system", dir);
    else
        doctor_finding(d, FINDING_WELL, "disk", NULL, NULL, "%s free at %s", text_bytes(room, n),
                       dir);
    free(dir);
}

/* A model in a folder that is no models directory. */
static int keep_stage(void *arg, const struct read_progress *row)
{
    struct doctor *d = arg;

    d->transcribes |= strcmp(row->stage, stage_transcribe.name) == 0 &&
                      demo_model(row->model, row->model_hash) == 0 &&
                      access(row->model_dir, R_OK) == 0;
    return 0;
}

static void check_catalog(struct doctor *d)
{
    struct store *st = NULL;
    struct err err = {0};
    int rc;

    rc = store_open(d->catalog, STORE_READ, &st, &err);
    if (rc == ERR_MISSING)
        doctor_finding(d, FINDING_WELL, "catalog", NULL, NULL,
                       "none yet; `nightshift enqueue` will make %s", d->catalog);
    else if (rc == ERR_VERSION)
        doctor_finding(
            d, FINDING_WARNING, "catalog", "a catalog of this version",
            "an older one is changed over by the next enqueue or run; a newer one wants the "
            "nightshift that wrote it",
            "%s", err.msg);
    else if (rc != 0)
        doctor_finding(d, FINDING_BROKEN, "catalog", "a readable catalog of nightshift's",
                       rc == ERR_CORRUPT
                           ? "keep a copy of it and its -wal; `sqlite3 FILE .recover` saves "
                             "what it holds"
                       : rc == ERR_DENIED ? "look at its permissions (ls -ld)"
                                          : "try --catalog FILE with another one; keep this file",
                       "%s", err.msg);
    else
        doctor_finding(d, FINDING_WELL, "catalog", NULL, NULL, "%s (schema %d)", d->catalog,
                       store_schema_version(st));
    if (rc == 0)
        (void)read_progress(st, keep_stage, d, &err);
    store_close(st);
}

/* Those that an option takes by itself are small enough to be read as a worker would; of others,
 * which may have gigabytes, and where it is to be quick, what the files claim must do. */
static int check_model_usable(const struct doctor *d, bool taken, const char *stage,
                              const char *dir, char hash[MODEL_HASH_LEN], struct err *err)
{
    int rc = stage_model_hash(stage, dir, hash, err);

    if (rc != 0)
        return rc;
    return taken && !d->quick ? model_opens(stage, dir, "{}", err) : model_whole(stage, dir, err);
}

static void check_model(void *arg, const char *name, const char *dir)
{
    struct doctor *d = arg;
    /* A damaged one may not say any more what it is. */
    const struct stage_kind *taking = stage_kind_taking(name);
    const char *stage = taking ? taking->name : stage_of_model(dir);
    char hash[MODEL_HASH_LEN];
    struct err err = {0};
    bool demo;

    if (check_model_usable(d, taking != NULL, stage, dir, hash, &err) != 0) {
        doctor_finding(d, FINDING_WARNING, "model",
                       "the files of a model of its kind (docs/reference/models.md)",
                       "download it again, or remove the folder", "%s: %s", name, err.msg);
        return;
    }
    demo = demo_model(name, hash) != 0;
    d->demo |= demo;
    d->transcribes |= !demo && strcmp(stage, stage_transcribe.name) == 0;
    doctor_finding(d, FINDING_WELL, "model", NULL, NULL, "%s, for --%s%s (%s)", name,
                   stage_kind_find(stage)->option, demo ? " in the demo" : "", dir);
}

/* Voice activity is one file. */
static void check_voice_activity(struct doctor *d)
{
    struct err err = {0};
    char *file = NULL;

    if (silero_find(SILERO_NAME, &file, &err) != 0)
        doctor_finding(
            d, FINDING_WARNING, "model", "Silero's model of voice activity",
            "`nightshift model pull " SILERO_NAME "` fetches it, or `nightshift setup`",
            "voice activity detection is off: text may be invented in silence and noise");
    else if (silero_verify_file(file, &err) != 0)
        doctor_finding(d, FINDING_WARNING, "model",
                       "the file of Silero's model (docs/reference/models.md)",
                       "`nightshift model pull " SILERO_NAME "`, or remove it", "%s: %s",
                       SILERO_NAME, err.msg);
    else
        doctor_finding(d, FINDING_WELL, "model", NULL, NULL, "%s, for --vad (%s)", SILERO_NAME,
                       file);
    free(file);
}

void doctor_models(struct doctor *d)
{
    struct err err = {0};

    if (model_dir_list(check_model, d, &err) != 0)
        doctor_finding(d, FINDING_WARNING, "model", "readable model folders",
                       "look at their permissions", "%s", err.msg);
    check_voice_activity(d);
}

void doctor_storage(struct doctor *d)
{
    check_disk(d);
    check_catalog(d);
    if (!d->transcribes)
        doctor_finding(d, FINDING_WARNING, "model", "a Whisper model",
                       "`nightshift setup` fetches one that fits this machine",
                       "there is none to transcribe with%s",
                       d->demo ? ": " MODEL_DEMO " knows 330 words, and is for the demo" : "");
}
