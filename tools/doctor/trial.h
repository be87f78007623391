/* tools/doctor/trial.h - the recording that doctor transcribes: tests/samples/01_en_short.wav as
 * Opus, machine speech made for this project, within the vocabulary of the smallest model. */
#ifndef NIGHTSHIFT_TOOLS_DOCTOR_TRIAL_H
#define NIGHTSHIFT_TOOLS_DOCTOR_TRIAL_H

#include <stddef.h>

#define TRIAL_TEXT "farmer from the south. tuesday station may wednesday tuesday."

extern const unsigned char trial_recording[];
extern const size_t trial_recording_len;

#endif
