#include "workers/pass/faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_one(struct faults *f, const char *item)
{
    const char *arg = strchr(item, ':');
    size_t n = arg ? (size_t)(arg - item) : 0;

    if (!arg)
        return;
    arg++;
#define IS(name) (n == strlen(name) && strncmp(item, name, n) == 0)
    if (IS("crash-on-path"))
        snprintf(f->crash, sizeof(f->crash), "%s", arg);
    else if (IS("hang-on-path"))
        snprintf(f->hang, sizeof(f->hang), "%s", arg);
    else if (IS("stall-on-path"))
        snprintf(f->stall, sizeof(f->stall), "%s", arg);
    else if (IS("exit-after-shards"))
        f->exit_after = strtoll(arg, NULL, 10);
    else if (IS("device-after-shards"))
        f->device_after = strtoll(arg, NULL, 10);
    else if (IS("slow-step"))
        f->slow_ms = (uint32_t)strtoul(arg, NULL, 10);
#undef IS
}

void faults_read(const char *fault, const char *once, struct faults *ret)
{
    *ret = (struct faults){.exit_after = -1, .device_after = -1};
    snprintf(ret->once, sizeof(ret->once), "%s", once ? once : "");
    while (fault && *fault) {
        char item[300];
        size_t n = strcspn(fault, ",");

        snprintf(item, sizeof(item), "%.*s", (int)(n < sizeof(item) ? n : sizeof(item) - 1), fault);
        read_one(ret, item);
        fault += n + (fault[n] == ',');
    }
}

static bool first_time(const struct faults *f)
{
    int fd;

    if (!f->once[0])
        return true;
    fd = open(f->once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

enum fault_kind faults_on_recording(const struct faults *f, const char *path, const char *member)
{
    const char *texts[] = {f->crash, f->hang, f->stall};

    for (int i = 0; i < 3; i++)
        if (texts[i][0] && (strstr(path, texts[i]) || strstr(member, texts[i])))
            return first_time(f) ? (enum fault_kind)(FAULT_CRASH + i) : FAULT_NONE;
    return FAULT_NONE;
}

bool faults_exit_now(const struct faults *f, uint64_t shards_sent)
{
    return f->exit_after >= 0 && shards_sent >= (uint64_t)f->exit_after && first_time(f);
}

bool faults_device_now(const struct faults *f, uint64_t shards_done)
{
    return f->device_after >= 0 && shards_done >= (uint64_t)f->device_after && first_time(f);
}
