#include "tests/gpu/nets.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"

const struct net *const nets[NETS] = {&net_pyannet,   &net_resnet,     &net_ge2e,
                                      &net_yamnet,    &net_clap_audio, &net_bert,
                                      &net_bert_base, &net_xlmr,       &net_clap_text};

const char *net_name(const struct net *n, bool published)
{
    const char *name = published ? n->published : n->small,
               *part = getenv("NIGHTSHIFT_GPU_NETWORK");

    return name && (!part || strstr(name, part)) ? name : NULL;
}

enum precision net_takes(const struct net *n, const struct backend *be)
{
    if (!n->narrow || !(be->info.have & 1u << PRECISION_TF32))
        return PRECISION_F32;
    return be->info.have & 1u << PRECISION_F16 && !be->info.deterministic ? PRECISION_F16
                                                                          : PRECISION_TF32;
}

enum precision net_last(const struct net *n)
{
    return n->choice ? PRECISION_COUNT - 1 : n->narrow ? PRECISION_F16 : PRECISION_TF32;
}

int net_open(const struct net *n, const struct net_setup *s, struct backend *be,
             struct net_model **ret, struct err *err)
{
    const precision_set have = be->info.have;
    int rc;

    for (int p = PRECISION_F16; n->narrow && p > (int)s->precision && p > PRECISION_F32; p--)
        be->info.have &= ~(1u << p);
    rc = n->open(s, be, ret, err);
    be->info.have = have;
    return rc;
}

void net_clean(void)
{
    DIR *dir = opendir(NET_FOLDER);
    struct dirent *entry;
    char path[512];

    unlink(NET_FILE);
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", NET_FOLDER, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(NET_FOLDER);
}

void *net_memory(size_t count, size_t each)
{
    void *p = calloc(count ? count : 1, each);

    if (!p) {
        fprintf(stderr, "out of memory for a network's input\n");
        exit(70);
    }
    return p;
}
