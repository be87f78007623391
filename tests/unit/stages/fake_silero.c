#include "tests/unit/stages/fake_silero.h"

#include <stdbool.h>

#include "workers/models/silero/silero.h"

struct silero {
    int unused;
};

struct fake_ear fake_ear = {.fails_at = -1};

struct silero *fake_silero(void)
{
    static struct silero s;

    return &s;
}

int silero_load(const char *file, struct backend *be, uint32_t blocks, struct silero **ret,
                struct err *err)
{
    (void)file;
    (void)be;
    (void)blocks;
    (void)err;
    *ret = fake_silero();
    return 0;
}

void silero_free(struct silero *s) { (void)s; }

uint64_t silero_predict_bytes(uint32_t blocks) { return blocks; }

uint32_t silero_blocks(const struct silero *s)
{
    (void)s;
    return fake_ear.blocks ? fake_ear.blocks : 1;
}

static bool sounds(const struct silero_block *b, uint32_t step)
{
    uint32_t end = (step + 1) * SILERO_STEP;

    if (b->samples < end)
        end = b->samples;
    for (uint32_t i = step * SILERO_STEP; i < end; i++)
        if (b->pcm[i] != 0)
            return true;
    return false;
}

int silero_run(struct silero *s, struct silero_block *blocks, uint32_t n, struct err *err)
{
    if (fake_ear.fails_at >= 0 && fake_ear.calls++ >= (uint64_t)fake_ear.fails_at)
        return err_set(err, ERR_DEVICE, "the device is lost");
    if (fake_ear.lacks) {
        fake_ear.lacks--;
        return err_set(err, ERR_VRAM, "no room to hear %u blocks", n);
    }
    if (n > silero_blocks(s))
        return err_set(err, ERR_DEVICE, "%u blocks are too many", n);
    if (n > fake_ear.largest)
        fake_ear.largest = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!blocks[i].steps || blocks[i].steps > SILERO_BLOCK)
            return err_set(err, ERR_DEVICE, "a block of %u steps", blocks[i].steps);
        for (uint32_t k = 0; k < i; k++)
            if (blocks[k].stream == blocks[i].stream || blocks[k].prob == blocks[i].prob)
                return err_set(err, ERR_DEVICE, "one stream twice");
        for (uint32_t k = 0; k < blocks[i].steps; k++)
            blocks[i].prob[k] = sounds(&blocks[i], k) ? FAKE_VOICE : FAKE_QUIET;
        fake_ear.steps += blocks[i].steps;
    }
    return 0;
}
