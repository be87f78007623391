/* A libnvrtc: it is opened for cuDNN, and nothing of it is called. */
#include "tests/cuda/broken/fake.h"

NEVER(nvrtcVersion)
