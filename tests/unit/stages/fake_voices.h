/* Stand-ins for workers/models/{pyannet,voiceprint,diarization_dir,yamnet,clap,embedder}.h, linked
 * in place of the real ones: what they say of a window follows from its first samples by a rule
 * that a test can compute itself. */
#ifndef NIGHTSHIFT_TESTS_FAKE_VOICES_H
#define NIGHTSHIFT_TESTS_FAKE_VOICES_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_VOICE_SIZE 4

/* One test at a time. */
struct fake_models {
    uint32_t windows;     /* that a call takes; 0: 4 */
    uint32_t patches;     /* that a call of sounds takes; 0: as many */
    uint32_t voices;      /* windows that a call of the speaker encoder takes; 0: 2 */
    uint32_t size;        /* of a voice, where none is computed; 0: FAKE_VOICE_SIZE */
    const char *plda;     /* of the folder; NULL: none, and no VBx */
    uint32_t lacks;       /* calls of the speaker encoder that get ERR_VRAM */
    uint32_t fails_after; /* patches of sounds; 0: never, else with this code: */
    int fails_with;
    uint32_t asked; /* windows of the segmentation, when it was loaded */
    uint32_t calls, largest, voice_calls, largest_voices;
    /* NULL: silence. sets: [589], of a window whose first sample is `first`. */
    void (*sets)(float first, uint8_t *sets);
    /* NULL: none. scores: [3], of a patch that begins with this sample. */
    void (*scores)(float first, float *scores);
};
extern struct fake_models fake_models;

#endif
