/* tests/cuda/emulator/cudnn_part.c - one of the seven libraries beside libcudnn: nothing but what
 * tells its version, in its data and by comparing itself. PART: graph, ops, cnn ... */
#include <cudnn_graph.h>
#include <cudnn_version.h>

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)

extern const unsigned JOIN(cudnn_, PART, _version);
const unsigned JOIN(cudnn_, PART,
                    _version) = (unsigned)(CUDNN_MAJOR << 16 | CUDNN_MINOR << 8 | CUDNN_PATCHLEVEL);

#ifdef PART_CHECK
cudnnStatus_t PART_CHECK(void);
cudnnStatus_t PART_CHECK(void) { return CUDNN_STATUS_SUCCESS; }
#endif
