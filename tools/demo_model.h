/* tools/demo_model.h - the models that come with the program for its demo and its tests, and what
 * is said of all that they made, wherever people read it. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_DEMO_MODEL_H
#define NIGHTSHIFT_TOOLS_DEMO_MODEL_H

enum demo_model { DEMO_WHISPER = 1, DEMO_DIARIZATION = 2 };

/* Which of them a model is: by its hash whatever it is called, and by its name whatever its weights
 * were once. 0: another one. */
unsigned demo_model(const char *name, const char *hash);

/* "Made with ...", of one of them or several (their sum): a sentence without its full stop. "" for
 * 0. A literal. */
const char *demo_model_made(unsigned which);

#endif
