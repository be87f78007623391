/* The seeded random networks of networks.py, tensor by tensor: the same values from the same
 * formula, as files that the loaders read; whole, or spoiled. */
#ifndef NIGHTSHIFT_TESTS_PARITY_DIARIZATION_NETWORKS_H
#define NIGHTSHIFT_TESTS_PARITY_DIARIZATION_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETWORK_MAX_TENSORS 256
#define NETWORK_SAMPLES 160000
#define NETWORK_MASKS 9
#define NETWORK_MASK_FRAMES 589

struct network_tensor {
    char name[80]; /* "": left out of a file */
    uint32_t rank, dim[4];
    size_t count;
    float *value;
};

struct network {
    char config[16];
    size_t n;
    struct network_tensor tensor[NETWORK_MAX_TENSORS];
};

struct network *network_segmentation(const char *config); /* "pyannet", "small", "tiny" */
struct network *network_resnet(const char *config);       /* "resnet34", "resnet", "speck" */
struct network *network_ge2e(const char *config);         /* "ge2e", "little" */
void network_free(struct network *n);
/* NULL: there is none. */
struct network_tensor *network_find(struct network *n, const char *name);
/* The folded layout: filters for bands, biases for norms. Computed in float64. */
void network_fold(struct network *n);
/* safetensors, `cut` bytes short. */
void network_write(const struct network *n, const char *path, size_t cut);

/* networks.py's audio of a window, and its masks: returns the window. */
void network_sound(uint32_t window, float *pcm);
uint32_t network_mask(uint32_t m, float *weights);

#endif
