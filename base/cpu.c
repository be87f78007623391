#include "base/cpu.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* By the leaf itself: not every compiler's list of names has both. */
bool cpu_has_vnni(void)
{
#if defined(__x86_64__)
    enum cpu_isa isa = cpu_isa();
    unsigned a = 0, b, c = 0, d;

    if (isa >= CPU_AVX512)
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_AVX512VNNI;
    return isa == CPU_AVX2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & bit_AVXVNNI;
#else
    return false;
#endif
}

uint32_t cpu_processors(void)
{
    cpu_set_t set;
    long n;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    n = sysconf(_SC_NPROCESSORS_ONLN); /* more than a set holds */
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t cpu_threads(uint32_t processes)
{
    const char *said = getenv("OMP_NUM_THREADS");
    long n = said ? strtol(said, NULL, 10) : 0;

    if (n <= 0)
        n = cpu_processors() / (processes ? processes : 1);
    if (n > CPU_THREADS_MOST)
        n = CPU_THREADS_MOST;
    return n > 0 ? (uint32_t)n : 1;
}
