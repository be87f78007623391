/* gpu/devices/nvidia.h - what the system itself says of NVIDIA hardware: files of the kernel alone,
 * no library of NVIDIA's, so that it can be asked anywhere and at no cost. */
#ifndef NIGHTSHIFT_GPU_DEVICES_NVIDIA_H
#define NIGHTSHIFT_GPU_DEVICES_NVIDIA_H

#include <stdbool.h>
#include <stdint.h>

#define NVIDIA_CARDS 64u

struct nvidia_card {
    char place[16]; /* on the PCI bus: "0000:3b:00.0" */
    char uuid[48];  /* "GPU-8f3c..."; "" where the driver does not say */
    char model[64]; /* printable; "" */
};

/* Some 9 kB. */
struct nvidia {
    bool present;     /* a GPU is here, or a driver that serves one: it should be usable */
    bool driver;      /* the kernel has the driver */
    char version[32]; /* the driver's: "580.95.05"; "" when it does not say */
    uint32_t gpus;    /* that the driver serves, else that the PCI bus has; 0: not known */
    struct nvidia_card card[NVIDIA_CARDS]; /* of those that the driver serves, by their place */
    uint32_t cards;
};

/* Can it be a UUID of a GPU? It becomes a worker's argument and a key in the catalog. */
bool nvidia_uuid_fits(const char *s);
/* root: put before every path that is read; "" for this machine. */
void nvidia_look(const char *root, struct nvidia *ret);

#endif
