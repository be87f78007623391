/* Searches among points against every pair's distance. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/unit/speakers/made.h"
#include "workers/speakers/points.h"

static double apart(const float *x, uint32_t size, uint32_t a, uint32_t b)
{
    double sum = 0;

    for (uint32_t k = 0; k < size; k++) {
        double d = (double)x[(size_t)a * size + k] - (double)x[(size_t)b * size + k];

        sum += d * d;
    }
    return sqrt(sum);
}

/* Distances are lowered, by little; nobody who is not listed is nearer than `rest`. */
static void is_right(const struct nearest *l, const float *x, uint32_t n, uint32_t size,
                     uint32_t of, float radius, double slack)
{
    uint8_t *listed = calloc(n, 1);
    uint32_t within = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        double d = apart(x, size, of, l->items[i].id);

        assert_true(l->items[i].id != of && !listed[l->items[i].id]);
        assert_true((double)l->items[i].distance <= d && (double)l->items[i].distance >= d - slack);
        assert_true(i == 0 || l->items[i].distance >= l->items[i - 1].distance);
        listed[l->items[i].id] = 1;
    }
    assert_true(l->rest <= radius);
    for (uint32_t i = 0; i < n; i++) {
        double d = apart(x, size, of, i);

        within += i != of && d < (double)radius;
        assert_true(i == of || listed[i] || d >= (double)l->rest);
    }
    assert_true(l->n == l->cap || l->n >= within);
    free(listed);
}

static struct nearest **lists_of(uint32_t n, uint32_t cap, float radius)
{
    struct nearest **ret = calloc(n + 1, sizeof(struct nearest *));

    for (uint32_t i = 0; i < n; i++)
        ret[i] = nearest_new(cap, radius);
    return ret;
}

static void lists_free(struct nearest **lists, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(lists[i]);
    free(lists);
}

static void search_all(const struct points *all, const float *x, uint32_t n, uint32_t size,
                       float radius)
{
    struct nearest **one = lists_of(n, 9, radius), **some = lists_of(n, 9, radius);

    points_search_all(all, 1, one);
    points_search_all(all, 4, some);
    for (uint32_t i = 0; i < n; i++) {
        if (i % 5 == 0)
            is_right(one[i], x, n, size, i, radius, 2e-3);
        assert_int_equal(one[i]->n, some[i]->n);
        assert_true(one[i]->rest == some[i]->rest);
        assert_memory_equal(one[i]->items, some[i]->items, one[i]->n * sizeof(struct near));
    }
    lists_free(one, n);
    lists_free(some, n);
}

static void search_each(const struct points *all, const float *x, uint32_t n, uint32_t size,
                        float radius)
{
    float *point = malloc(points_stride(all) * sizeof(*point));

    for (uint32_t slot = 0; slot < n; slot += 13) {
        struct nearest *l = nearest_new(9, radius);

        points_copy(all, slot, point);
        points_search(all, point, points_id(all, slot), 0, n, l);
        is_right(l, x, n, size, points_id(all, slot), radius, 2e-3);
        free(l);
    }
    free(point);
}

/* Groups, some of them of one point that is there often. */
static float *points(uint32_t n, uint32_t size)
{
    float *x = malloc((size_t)n * size * sizeof(*x));

    for (uint32_t i = 0; i < n; i++)
        made_voice(i % 9, size, i % 9 == 4 ? 0 : 0.1 * (i % 9), 3, i, x + (size_t)i * size);
    return x;
}

TEST(nearest_are_found)
{
    static const char *const sets[] = {"avx512", "avx2", "plain"};
    static const uint32_t shapes[][2] = {{40, 3}, {513, 64}, {700, 70}};

    for (uint32_t i = 0; i < 9; i++) {
        uint32_t n = shapes[i / 3][0], size = shapes[i / 3][1];
        float *x = points(n, size);
        struct points *all = NULL;
        struct err e = {0};

        setenv("NIGHTSHIFT_CPU", sets[i % 3], 1);
        assert_ok(points_new(x, n, size, n + 1, &all, &e), e);
        assert_int_equal(points_used(all), n);
        search_all(all, x, n, size, INFINITY);
        search_all(all, x, n, size, 0.9f);
        search_each(all, x, n, size, INFINITY);
        search_each(all, x, n, size, 0.9f);
        points_free(all);
        free(x);
    }
    unsetenv("NIGHTSHIFT_CPU");
}

/* What is dropped is not found; what is added is, by its id, also after the gaps are closed. */
TEST(points_change)
{
    enum { N = 600, SIZE = 64 };
    float *x = points(N, SIZE);
    double new[SIZE];
    float point[SIZE];
    struct points *all = NULL;
    struct nearest *l;
    struct err e = {0};
    uint32_t slot;

    assert_ok(points_new(x, N, SIZE, N + 40, &all, &e), e);
    for (uint32_t i = 0; i < 20; i++) {
        for (uint32_t k = 0; k < SIZE; k++)
            new[k] = (double)x[k] + i;
        slot = points_add(all, N + 2 * i, new);
        assert_int_equal(points_id(all, slot), N + 2 * i);
    }
    for (uint32_t i = 0; i < N; i += 2)
        points_drop(all, i);
    for (uint32_t packed = 0; packed < 2; packed++) {
        slot = points_slot_from(all, N + 11);
        assert_int_equal(points_id(all, slot), N + 12);
        points_copy(all, slot, point);
        l = nearest_new(2, INFINITY);
        points_search(all, point, N + 12, points_slot_from(all, N), points_used(all), l);
        assert_int_equal(l->n, 2);
        assert_int_equal(l->items[0].id + l->items[1].id, 2 * (N + 12));
        free(l);
        l = nearest_new(2 * N, INFINITY);
        points_search(all, point, POINTS_NONE, 0, points_used(all), l);
        assert_int_equal(l->n, N / 2 + 20);
        free(l);
        points_pack(all);
        assert_int_equal(points_used(all), N / 2 + 20);
    }
    points_free(all);
    free(x);
}

TEST_MAIN(NULL, NULL)
