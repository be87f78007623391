/* tests/cuda/emulator/dnn.h - what the files of cuDNN's double share. */
#ifndef NIGHTSHIFT_TESTS_CUDA_DNN_H
#define NIGHTSHIFT_TESTS_CUDA_DNN_H

#include <cudnn.h>

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

/* Keeps the words for cudnnGetLastErrorString, prints them, returns the status. */
cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *why);
/* The status of what was put on the handle's stream. */
cudnnStatus_t dnn_queued(cudaError_t e);

#endif
