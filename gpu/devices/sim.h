/* gpu/devices/sim.h - simulated devices: the host's operations with the memory and the speed of
 * another device, so that what many devices of different sizes do can be seen on a machine without
 * any.
 *
 * $NIGHTSHIFT_DEVICES names them: sim:SIZE[*SPEED], several with commas. SIZE is a whole number of
 * bytes, KiB, MiB or GiB; SPEED, at most 1, is a share of the host's: "sim:24GiB,sim:8GiB*0.5". The
 * memory is accounted, not held.
 *
 * $NIGHTSHIFT_SIM_CONTROL may name a folder in which the file sim-0, for the first device, is a
 * command that is obeyed between operations, within some hundredths of a second:
 *
 *   oom N      the next N allocations or encoder runs fail for lack of memory; then the file is
 *              removed
 *   hang       it stands still in its work (which measuring is, and loading a model is not) until
 *              the file says something else; "hang in N": first when N encoder runs have begun
 *   die        the process is killed; "die once" removes the file first
 *   gone       it is lost to its process, and cannot be opened
 *   ok, none   it works */
#ifndef NIGHTSHIFT_GPU_DEVICES_SIM_H
#define NIGHTSHIFT_GPU_DEVICES_SIM_H

#include <stdint.h>

#include "base/err.h"
#include "gpu/device.h"

/* The devices of such a list. ERR_USAGE: says what is wrong with which entry; *n is untouched. */
int sim_devices_parse(const char *spec, struct device *ret, uint32_t cap, uint32_t *n,
                      struct err *err);
/* Opens "sim:0", the first of $NIGHTSHIFT_DEVICES. */
int backend_open_sim(const char *name, const struct device_options *o, struct backend **ret,
                     struct err *err);

#endif
