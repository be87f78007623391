# cmake -DOUT=trial.c -DFILE=trial.ogg -P embed.cmake
# Writes the trial recording as a C array.
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "/* Made from trial.ogg by tools/doctor/embed.cmake. */
#include \"tools/doctor/trial.h\"

const unsigned char trial_recording[] = {
${hex}};
const size_t trial_recording_len = sizeof(trial_recording);
")
