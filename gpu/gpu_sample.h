/* gpu/gpu_sample.h - what NVIDIA's driver sees of GPUs while they work: values, and the
 * lines in which a process that may crash or hang over it tells them.
 *
 * The child (`nightshift probe --watch MS UUID...`, hidden) opens NVML and
 * writes one JSON object a line:
 *   {"driver":"580.95.05"}  NVML is there. Or, and nothing follows:
 *   {"error":"..."}         why it is not
 *   {"gpus":[{"percent":87, "celsius":71, "milliwatts":412000, "used":0, "total":0,
 *             "processes":[{"pid":1, "computes":true, "percent":3}]}, ...]}
 *                           every MS, in the order of the UUIDs; what is not known is left out.
 *                           Also "slowed" (bits), "ecc_corrected", "ecc_uncorrected",
 *                           "rows_remapped", "rows_pending", "rows_failed", "lanes", "lanes_most",
 *                           and "xids":[79], those reported since the line before
 * The parent believes none of it. */
#ifndef NIGHTSHIFT_GPU_GPU_SAMPLE_H
#define NIGHTSHIFT_GPU_GPU_SAMPLE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GPU_SAMPLE_PROCESSES 32u /* of one GPU; more are as good as so many */
#define GPU_SAMPLE_COLD INT_MIN  /* a temperature that is not known */
#define GPU_SAMPLE_LINE 262144u  /* bytes of a line, at most */

struct gpu_process {
    uint32_t pid;  /* as the driver counts them: outside of a container another than inside */
    bool computes; /* it has a CUDA context; else it draws */
    int percent;   /* of the GPU's time that it took in the last moments; -1: not known */
};

/* Why a GPU runs slower than it could: NVML's bits (nvmlClocksThrottleReason...), of which idling
 * and chosen clocks are left out. */
enum gpu_slowed {
    GPU_SLOWED_POWER_LIMIT = 0x4, /* usual under full load */
    GPU_SLOWED_HARDWARE = 0x8,    /* heat or power, to half or less */
    GPU_SLOWED_HEAT = 0x20,
    GPU_SLOWED_OVERHEATED = 0x40, /* by the hardware */
    GPU_SLOWED_BRAKE = 0x80,      /* the power supply asks for it */
    GPU_SLOWED_ANY = 0xec,
};

#define GPU_SAMPLE_XIDS 8u /* between two looks; more are as good as so many */

struct gpu_health {                           /* -1: not known */
    int64_t slowed;                           /* of gpu_slowed */
    int64_t ecc_corrected, ecc_uncorrected;   /* errors of memory since the driver was loaded */
    int64_t rows_remapped;                    /* of memory, for errors */
    bool rows_pending, rows_failed;           /* one waits for a reset; one could not be */
    int lanes, lanes_most;                    /* of PCIe: in use, possible here; 0: not known */
    uint32_t xid[GPU_SAMPLE_XIDS], xid_count; /* errors that the driver reported (NVIDIA's "Xid") */
};

struct gpu_sample {                   /* of one GPU, everything that runs on it together */
    int percent;                      /* of the last moments in which it computed; -1: not known */
    int celsius;                      /* GPU_SAMPLE_COLD: not known */
    int64_t milliwatts;               /* -1: not known */
    uint64_t used_bytes, total_bytes; /* of its memory; total 0: not known */
    bool lists;                       /* its processes are known */
    struct gpu_process process[GPU_SAMPLE_PROCESSES];
    uint32_t process_count;
    struct gpu_health health;
};

void gpu_sample_nothing(struct gpu_sample *ret); /* nothing is known */

/* The child's part: every period_ms, until `out` cannot be written any more. Returns 0 when there
 * is no NVML, and -1 when nobody listens. */
int gpu_sample_write(int64_t period_ms, const char *const uuids[], size_t n, FILE *out);

enum gpu_sample_line {
    GPU_SAMPLE_NONSENSE,
    GPU_SAMPLE_BEGUN,
    GPU_SAMPLE_ERROR, /* *words says why, printable */
    GPU_SAMPLE_SEEN,  /* ret[0 .. n) are filled; a value that cannot be is one that is not known */
};
/* Reads a line without its newline, of n GPUs. *ret is untouched but by GPU_SAMPLE_SEEN. */
enum gpu_sample_line gpu_sample_read(const char *line, size_t len, struct gpu_sample *ret, size_t n,
                                     char *words, size_t capacity);

#endif
