/* base/cpu.h - for which instruction set inner loops are taken, where they are compiled for
 * several. Any thread, as long as none changes the environment. */
#ifndef NIGHTSHIFT_BASE_CPU_H
#define NIGHTSHIFT_BASE_CPU_H

/* Each has what those before it have: AVX2 and FMA; AVX-512 F, BW, VL and DQ; its BF16. */
enum cpu_isa { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16 };

/* The most that this processor has; NIGHTSHIFT_CPU=avx512, avx2 or plain asks for no more than that
 * (tests, and a way round a processor that promises what it cannot). CPU_PLAIN where it is no
 * x86-64. */
enum cpu_isa cpu_isa(void);

#endif
