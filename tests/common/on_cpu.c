/* on_cpu PROGRAM [ARG]... - runs a test with lesser instructions than the processor has
 * (NIGHTSHIFT_CPU). Where it has no more than those the test without them was the same: 77,
 * skipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"

int main(int argc, char **argv)
{
    const char *asked = getenv("NIGHTSHIFT_CPU");
    enum cpu_isa with = cpu_isa();
    char *name = asked ? strdup(asked) : NULL;

    if (argc < 2 || !name)
        return 64;
    unsetenv("NIGHTSHIFT_CPU");
    if (cpu_isa() == with) {
        printf("skipped: this processor has no more than %s, or not even that\n", name);
        return 77;
    }
    setenv("NIGHTSHIFT_CPU", name, 1);
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
