/* gpu/devices/nvidia.h - what the system itself says of NVIDIA hardware: files of the kernel alone,
 * no library of NVIDIA's, so that it can be asked anywhere and at no cost. */
#ifndef NIGHTSHIFT_GPU_DEVICES_NVIDIA_H
#define NIGHTSHIFT_GPU_DEVICES_NVIDIA_H

#include <stdbool.h>
#include <stdint.h>

struct nvidia {
    bool present;     /* a GPU is here, or a driver that serves one: it should be usable */
    bool driver;      /* the kernel has the driver */
    char version[32]; /* the driver's: "580.95.05"; "" when it does not say */
    uint32_t gpus;    /* that the driver serves, else that the PCI bus has; 0: not known */
};

/* root: put before every path that is read; "" for this machine. */
void nvidia_look(const char *root, struct nvidia *ret);

#endif
