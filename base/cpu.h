/* base/cpu.h - what of the processor is used: for which instruction set inner loops are taken,
 * where they are compiled for several, and how many threads compute. Any thread, as long as none
 * changes the environment. */
#ifndef NIGHTSHIFT_BASE_CPU_H
#define NIGHTSHIFT_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Each has what those before it have: AVX2 and FMA; AVX-512 F, BW, VL and DQ; its BF16. */
enum cpu_isa { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16 };

/* The most that this processor has; NIGHTSHIFT_CPU=avx512, avx2 or plain asks for no more than that
 * (tests, and a way round a processor that promises what it cannot). CPU_PLAIN where it is no
 * x86-64. */
enum cpu_isa cpu_isa(void);

/* ThreadSanitizer does not see the OpenMP run time's barriers: every operation would look like a
 * race, and suppressing so many takes minutes. Under it one thread does OpenMP's work, and only our
 * own threads are tested. */
#if defined(__SANITIZE_THREAD__)
#define CPU_ONE_THREAD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CPU_ONE_THREAD 1
#endif
#endif
#ifndef CPU_ONE_THREAD
#define CPU_ONE_THREAD 0
#endif

/* Whether it multiplies integers of 8 bits and adds up the products in registers of that set (VNNI:
 * AVX-512's, or AVX2's own). */
bool cpu_has_vnni(void);

#define CPU_THREADS_MOST 4095u

uint32_t cpu_processors(void); /* that this process may run on; at least 1 */
/* How many threads compute in each of so many processes that share the processor: as many as
 * OMP_NUM_THREADS says, else its part of cpu_processors. 1 .. CPU_THREADS_MOST. */
uint32_t cpu_threads(uint32_t processes);

#endif
