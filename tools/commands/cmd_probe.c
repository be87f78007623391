/* nightshift probe (hidden): opens the CUDA module and says what it finds, as lines of JSON; or,
 * with --watch, says again and again what the driver sees of GPUs while they work. A process of its
 * own because what it opens may crash, hang, print, or leave at any moment. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/spawn.h"
#include "gpu/devices/cuda_load.h"
#include "gpu/devices/probe.h"
#include "gpu/gpu_sample.h"
#include "tools/cli/cli.h"
#include "tools/commands/commands.h"

/* The answer goes where standard output went, and what libraries print to standard error. */
static FILE *take_output(void)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return NULL;
    return fdopen(fd, "w");
}

/* Every so many ms, of GPUs by their UUIDs, until nobody listens. */
static int watch_gpus(const char *ms, char **uuids, size_t n)
{
    const long period = strtol(ms, NULL, 10);
    FILE *out = take_output();

    if (!out || period < 1 || gpu_sample_write(period, (const char *const *)uuids, n, out) != 0)
        return EX_IOERR;
    _exit(EX_OK);
}

/* CARD: a value of CUDA_VISIBLE_DEVICES. */
static bool parse_request(int argc, char **argv, struct probe_request *ret)
{
    for (int i = 1; i < argc; i++) {
        ret->alone |= strcmp(argv[i], "--alone") == 0;
        if (strcmp(argv[i], "--thorough") == 0)
            ret->thorough = true;
        else if ((strcmp(argv[i], "--card") == 0 || strcmp(argv[i], "--alone") == 0) &&
                 i + 1 < argc && !ret->card)
            ret->card = argv[++i];
        else
            return false;
    }
    return true;
}

int probe_main(int argc, char **argv)
{
    struct probe_request q = {0};
    bool known = parse_request(argc, argv, &q),
         watches = argc > 3 && strcmp(argv[1], "--watch") == 0;
    const struct rlimit no_core = {0, 0}; /* a driver's crash is told, and leaves no file */
    char path[PATH_MAX];
    struct err err = {0};
    FILE *out;

    if (!known && !watches) {
        cli_note("usage: nightshift probe [--card CARD | --alone CARD] [--thorough]\n"
                 "       nightshift probe --watch MS UUID...");
        return EX_USAGE;
    }
    if (!spawn_begun(STDOUT_FILENO))
        return EX_IOERR;
    setrlimit(RLIMIT_CORE, &no_core);
    if (watches)
        return watch_gpus(argv[2], argv + 3, (size_t)argc - 3);
    if (cuda_module_find(path, sizeof(path), &err) != 0)
        return cli_fail("look at the GPUs", &err, NULL);
    out = take_output();
    q.module = path;
    if (!out || probe_write(&q, out) != 0)
        return EX_IOERR;
    /* Not through the libraries' own endings, which crash in some versions once all is said. */
    _exit(EX_OK);
}
