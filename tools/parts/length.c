#include "tools/parts/length.h"

#include <fcntl.h>
#include <unistd.h>

#include "workers/media/decoder.h"
#include "workers/media/sandbox.h"

#define SILENCE_MS 10000 /* a split waits for none longer */

int64_t length_of(const char *path, const char *member, uint32_t nth)
{
    const struct decoder_work work = {.member = member, .name = path, .nth = nth};
    const struct decoder_limits limits = {.silence_ms = SILENCE_MS};
    struct decoder_event event = {0};
    struct decoder *d = NULL;
    char unguarded[SANDBOX_WORDS];
    struct err err = {0};
    int64_t ret = -1;
    int file = sandbox_demand(false, unguarded, &err) == 0
                   ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
                   : -1;

    if (file < 0)
        return -1;
    if (decoder_start(file, &work, &limits, &d, &err) == 0 && decoder_next(d, &event, &err) == 0 &&
        event.type == DECODER_INFO)
        ret = event.info.duration_ms;
    decoder_close(d);
    close(file);
    return ret;
}
