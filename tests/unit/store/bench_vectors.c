/* How fast the vectors most like one are found: `bench_store_vectors [ROWS] [SIZE] [THREADS]`, a
 * million rows of 384 values unless said otherwise. The rows are made up (clusters, as speech makes
 * them), written straight into an index in the current folder, and searched five times; of the rows
 * that may be among the best 100 the exact product is computed as well, from rows that are made up
 * again. Not a test: it asserts that the best ones are those of a plain search over the exact rows,
 * for the first query, and prints times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/vectors/vector_file.h"
#include "store/vectors/vector_scan.h"
#include "tests/common/random.h"

#define LIMIT 100u

static uint64_t mix(uint64_t x) { return random_next(&x); }

static float unit(uint64_t x) { return (float)(mix(x) >> 40) / 8388608.0f - 1; }

static void row_of(uint64_t id, float *ret, uint32_t size)
{
    uint64_t cluster = mix(id) % 5000 + (UINT64_C(1) << 40);
    double all = 0;

    for (uint32_t i = 0; i < size; i++) {
        ret[i] = unit(cluster * size + i) + 0.8f * unit(id * size + i);
        all += (double)ret[i] * ret[i];
    }
    for (uint32_t i = 0; i < size; i++)
        ret[i] = (float)(ret[i] / sqrt(all));
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

static int make(const char *path, uint64_t rows, uint32_t size, float *row, struct err *err)
{
    const struct vector_state state = {.size = size, .identity = "benchmark"};
    struct vector_writer *w = NULL;
    int rc = vector_writer_open(path, NULL, &state, &w, err);

    for (uint64_t i = 0; i < rows && rc == 0; i++) {
        row_of(i, row, size);
        rc = vector_writer_add(w, (int64_t)i, row, err);
    }
    if (rc == 0)
        return vector_writer_finish(w, (int64_t)rows, err);
    vector_writer_drop(w);
    return rc;
}

/* The LIMIT best of all rows, exactly. */
static void plain(uint64_t rows, uint32_t size, const float *query, float *row, double best[LIMIT])
{
    double *all = malloc(rows * sizeof(*all));

    if (!all)
        exit(1);
    for (uint64_t i = 0; i < rows; i++) {
        row_of(i, row, size);
        all[i] = dot(query, row, size);
    }
    qsort(all, rows, sizeof(*all), descending);
    memcpy(best, all, LIMIT * sizeof(*all));
    free(all);
}

static int search(struct vector_file *f, uint32_t size, uint32_t threads, uint64_t k,
                  const double *want, struct err *err)
{
    float *query = malloc(size * sizeof(float)), *row = malloc(size * sizeof(float));
    struct vector_near *near = NULL;
    double *exact, took, cpu;
    clock_t cpu_begin;
    int64_t begin;
    size_t n = 0;
    int rc;

    row_of(UINT64_MAX / 2 + k, query, size);
    begin = clock_mono_ms();
    cpu_begin = clock();
    rc = vector_scan(f, query, LIMIT, threads, NULL, &near, &n, err);
    took = (double)(clock_mono_ms() - begin) / 1000;
    cpu = (double)(clock() - cpu_begin) / CLOCKS_PER_SEC;
    exact = calloc(n + 1, sizeof(*exact));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        row_of((uint64_t)near[i].id, row, size);
        exact[i] = dot(query, row, size);
    }
    qsort(exact, n, sizeof(*exact), descending);
    printf("query %llu: %.3f s (%.3f s of all threads), %zu rows may be among the best %u\n",
           (unsigned long long)k, took, cpu, n, LIMIT);
    for (size_t i = 0; want && rc == 0 && i < LIMIT; i++)
        if (n < LIMIT || exact[i] != want[i]) {
            printf("the ranking differs at %zu\n", i);
            rc = -1;
        }
    free(exact);
    free(near);
    free(query);
    free(row);
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    uint32_t size = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 384;
    uint32_t threads = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    float *row = malloc(size * sizeof(float)), *query = malloc(size * sizeof(float));
    struct vector_file *f = NULL;
    struct err err = {0};
    double best[LIMIT];
    int64_t begin = clock_mono_ms();
    int rc;

    if (rows < LIMIT || !row || !query)
        return 2;
    rc = make("bench.vectors", rows, size, row, &err);
    printf("%llu rows of %u values: made up and written in %.1f s\n", (unsigned long long)rows,
           size, (double)(clock_mono_ms() - begin) / 1000);
    if (rc == 0)
        rc = vector_file_open("bench.vectors", &f, &err);
    row_of(UINT64_MAX / 2, query, size);
    if (rc == 0)
        plain(rows, size, query, row, best);
    for (uint64_t k = 0; k < 5 && rc == 0; k++)
        rc = search(f, size, threads, k, k == 0 ? best : NULL, &err);
    if (rc != 0)
        fprintf(stderr, "%s\n", err.msg);
    vector_file_close(f);
    unlink("bench.vectors");
    free(row);
    free(query);
    return rc != 0;
}
