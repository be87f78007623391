/* A libcudnn that names a version, or one of its parts.
 *
 * -DVERSION=91900     the main library, as cudnnGetVersion says it; -DCHECK=status: what its
 *                     comparisons of the parts give (0: all of one version)
 * -DPART_GRAPH ...    the part, with -DPACKED=0x91300 in its data (0: without) and -DCHECK=status
 *                     as the result of its own comparison
 * Calling anything else ends the process, as the real one does when a part is missing. */
#include "tests/cuda/broken/fake.h"

#define ANSWERS(name) \
    int name(void);   \
    int name(void) { return CHECK; }

#ifdef VERSION
size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return VERSION; }
ANSWERS(cudnnGraphVersionCheck)
ANSWERS(cudnnOpsVersionCheck)
ANSWERS(cudnnCnnVersionCheck)
ANSWERS(cudnnAdvVersionCheck)
NEVER(cudnnGetLastErrorString)
NEVER(cudnnGetErrorString)
NEVER(cudnnCreate)
NEVER(cudnnDestroy)
NEVER(cudnnSetStream)
NEVER(cudnnBackendCreateDescriptor)
NEVER(cudnnBackendDestroyDescriptor)
NEVER(cudnnBackendFinalize)
NEVER(cudnnBackendSetAttribute)
NEVER(cudnnBackendGetAttribute)
NEVER(cudnnBackendExecute)
#endif

#ifdef PART_GRAPH
extern const unsigned cudnn_graph_version;
const unsigned cudnn_graph_version = PACKED;
ANSWERS(cudnnGraphVersionCheck)
#endif
#ifdef PART_OPS
extern const unsigned cudnn_ops_infer_version;
const unsigned cudnn_ops_infer_version = PACKED;
ANSWERS(cudnnOpsVersionCheck)
#endif
#ifdef PART_CNN
ANSWERS(cudnnCnnVersionCheck)
#endif
#ifdef PART_ADV
extern const unsigned cudnn_adv_infer_version;
const unsigned cudnn_adv_infer_version = PACKED;
ANSWERS(cudnnAdvVersionCheck)
#endif
#ifdef PART_OTHER
NEVER(dummySymbol)
#endif
