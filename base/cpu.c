#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

static enum cpu_isa most_of_processor(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return CPU_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return CPU_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? CPU_AVX512_BF16 : CPU_AVX512;
#else
    return CPU_PLAIN;
#endif
}

enum cpu_isa cpu_isa(void)
{
    static const char *const names[] = {"plain", "avx2", "avx512"};
    const char *asked = getenv("NIGHTSHIFT_CPU");
    enum cpu_isa most = most_of_processor();

    for (enum cpu_isa isa = CPU_PLAIN; asked && isa < most; isa++)
        if (strcmp(asked, names[isa]) == 0)
            return isa;
    return most;
}
