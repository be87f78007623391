/* How compute threads wait. GNU OpenMP's spin for milliseconds after every operation before they
 * sleep: on cores that the decoder processes need, and, where other programs run as well, on those
 * that the operation itself waits for. Measured on two cores with a load of 2 beside it, tiny in
 * bf16: a decoder step of 16 slots takes 17 ms asleep and 125 ms spinning.
 *
 * To sleep at once is too soon: an operation of a small network is over in less than a thread takes
 * to fall asleep and wake up. SPINS is some ten microseconds: of more little is gained, and where
 * other programs want the processors it is lost. */
#include <stdlib.h>
#include <unistd.h>

#include "gpu/backend.h"

#define SPINS "500"

void backend_host_sleep_when_idle(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    setenv("GOMP_SPINCOUNT", SPINS, 1); /* GNU's alone; it comes before the policy there */
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0 && argv)
        execv("/proc/self/exe", argv); /* returns where there is no /proc: slower, not wrong */
}
