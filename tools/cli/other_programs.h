/* tools/cli/other_programs.h - options of other programs around Whisper (openai-whisper,
 * faster-whisper, whisper-ctranslate2, WhisperX, whisper.cpp), and what does the same here. Pure;
 * any thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_OTHER_PROGRAMS_H
#define NIGHTSHIFT_TOOLS_CLI_OTHER_PROGRAMS_H

#include <stddef.h>

/* A sentence without its full stop about the option `name`, which is without "--" and has '-' for
 * '_'; NULL: no program is known to have it, and nothing is written. Whatever option of ours it
 * names stands as `nightshift COMMAND --option`, which a test holds against the commands. */
#define OTHER_PROGRAMS_LEN 240
const char *other_programs_say(const char *name, char out[OTHER_PROGRAMS_LEN]);

#endif
