/* The libraries that this process has loaded, and their versions. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "tools/doctor/doctor.h"
#include "tools/hub/hub.h"
#include "workers/media/decoder.h"

/* Versions are asked of the libraries that this process has really loaded, by the name of the
 * function: their headers belong to other folders, and the file's name is found beside it. */
struct known {
    const char *name, *symbol;
    int (*version)(void *symbol, int v[3]); /* how it answers */
    int want[2];
    const char *package;
    bool pull; /* for `nightshift model pull` alone: nothing else lacks it */
};

static int version_packed16(void *symbol, int v[3]) /* FFmpeg: major << 16 | minor << 8 | micro */
{
    unsigned n = ((unsigned (*)(void))symbol)();

    v[0] = (int)(n >> 16);
    v[1] = (int)(n >> 8 & 255);
    v[2] = (int)(n & 255);
    return 0;
}

static int version_millions(void *symbol, int v[3]) /* libarchive: 3006002 */
{
    int n = ((int (*)(void))symbol)();

    v[0] = n / 1000000;
    v[1] = n / 1000 % 1000;
    v[2] = n % 1000;
    return 0;
}

static int version_openssl(void *symbol, int v[3]) /* 0xMNN00PP0 */
{
    unsigned long n = ((unsigned long (*)(void))symbol)();

    v[0] = (int)(n >> 28);
    v[1] = (int)(n >> 20 & 255);
    v[2] = (int)(n >> 4 & 255);
    return 0;
}

static int version_said(void *symbol, int v[3]) /* "libcurl/7.88.1 OpenSSL/3.0.15 ..." */
{
    const char *words = ((const char *(*)(void))symbol)();

    return sscanf(words, "%*[^/]/%d.%d.%d", &v[0], &v[1], &v[2]) == 3 ? 0 : -1;
}

static int version_ints(void *symbol, int v[3]) /* a struct that begins with three of them */
{
    const int *n = ((const int *(*)(void))symbol)();

    if (!n)
        return -1;
    memcpy(v, n, 3 * sizeof(*n));
    return 0;
}

static const struct known libraries[] = {
    {"avformat", "avformat_version", version_packed16, {59, 0}, "libavformat59", false},
    {"avcodec", "avcodec_version", version_packed16, {59, 0}, "libavcodec59", false},
    {"swresample", "swresample_version", version_packed16, {4, 0}, "libswresample4", false},
    {"libarchive", "archive_version_number", version_millions, {3, 6}, "libarchive13", false},
    {"libcurl", "curl_version", version_said, {7, 85}, "libcurl4", true},
    {"OpenSSL", "OpenSSL_version_num", version_openssl, {3, 0}, "libssl3", true},
    {"libuv", "uv_version", version_packed16, {1, 44}, "libuv1", false},
    {"libseccomp", "seccomp_version", version_ints, {2, 5}, "libseccomp2", false},
    {"oneDNN", "dnnl_version", version_ints, {2, 6}, "libdnnl2", false},
};

static void check_library(struct doctor *d, const struct known *l)
{
    enum finding_state otherwise = l->pull ? FINDING_WARNING : FINDING_BROKEN;
    void *symbol = dlsym(RTLD_DEFAULT, l->symbol);
    char wanted[80], todo[100];
    int v[3] = {0};
    Dl_info where = {0};
    bool good;

    snprintf(wanted, sizeof(wanted), "version %d.%d or later%s", l->want[0], l->want[1],
             l->pull ? ", for `nightshift model pull` alone" : "");
    snprintf(todo, sizeof(todo), "sudo apt install --reinstall %s", l->package);
    if (!symbol || l->version(symbol, v) != 0) {
        doctor_finding(d, otherwise, l->name, wanted, todo, "%s is not to be found", l->package);
        return;
    }
    dladdr(symbol, &where);
    good = v[0] > l->want[0] || (v[0] == l->want[0] && v[1] >= l->want[1]);
    doctor_finding(d, good ? FINDING_WELL : otherwise, l->name, wanted, todo, "%d.%d.%d (%s)", v[0],
                   v[1], v[2], where.dli_fname ? where.dli_fname : "built in");
}

static void check_sqlite(struct doctor *d)
{
    const char *version = store_sqlite_version();
    int v[3] = {0};
    char *s = NULL;

    v[0] = (int)strtol(version, &s, 10);
    v[1] = s && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    v[2] = s && *s == '.' ? (int)strtol(s + 1, &s, 10) : 0;
    if (v[0] < 3 || (v[0] == 3 && v[1] < 40))
        doctor_finding(d, FINDING_BROKEN, "SQLite", "version 3.40 or later",
                       "sudo apt install libsqlite3-0", "%s", version);
    else if (v[0] == 3 && (v[1] < 51 || (v[1] == 51 && v[2] < 3)))
        doctor_finding(
            d, FINDING_WELL, "SQLite", NULL, NULL,
            "%s; its WAL-reset fault (before 3.51.3) needs several writers, and nightshift "
            "keeps to one: do not write to the catalog from other programs during a run",
            version);
    else
        doctor_finding(d, FINDING_WELL, "SQLite", NULL, NULL, "%s", version);
}

void doctor_libraries(struct doctor *d)
{
    struct err ignored; /* what is not there is told of below, each by itself */

    decoder_load(&ignored);
    hub_load(&ignored);
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        check_library(d, &libraries[i]);
    check_sqlite(d);
}
