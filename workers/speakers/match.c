#include "workers/speakers/match.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Inside, rows are the smaller side and costs are gains with the sign turned. */
struct matcher {
    double *row_price, *column_price, *shortest; /* the duals; cost of the way to a column */
    int32_t *row_of, *column_of, *from;          /* from: the row before a column on its way */
    bool *row_done, *column_done;
};

struct problem {
    const double *gain;
    uint32_t rows, columns;
    bool turned; /* gain is [columns][rows] */
};

int matcher_new(uint32_t rows, uint32_t columns, struct matcher **ret, struct err *err)
{
    size_t most = (rows > columns ? rows : columns) + (size_t)1;
    struct matcher *m = calloc(1, sizeof(*m));

    if (m) {
        m->row_price = calloc(3 * most, sizeof(double));
        m->row_of = calloc(3 * most, sizeof(int32_t));
        m->row_done = calloc(2 * most, sizeof(bool));
    }
    if (!m || !m->row_price || !m->row_of || !m->row_done) {
        matcher_free(m);
        return err_set(err, ERR_NOMEM, "no memory to match %u with %u", rows, columns);
    }
    m->column_price = m->row_price + most;
    m->shortest = m->column_price + most;
    m->column_of = m->row_of + most;
    m->from = m->column_of + most;
    m->column_done = m->row_done + most;
    *ret = m;
    return 0;
}

void matcher_free(struct matcher *m)
{
    if (!m)
        return;
    free(m->row_price);
    free(m->row_of);
    free(m->row_done);
    free(m);
}

static double compute_cell_cost(const struct problem *p, uint32_t row, uint32_t column)
{
    return -(p->turned ? p->gain[(size_t)column * p->rows + row]
                       : p->gain[(size_t)row * p->columns + column]);
}

/* The nearest column that is not done, a free one of equals, by ways through `row`. */
static uint32_t next_column(struct matcher *m, const struct problem *p, uint32_t row, double least,
                            double *ret)
{
    double best = INFINITY;
    uint32_t found = 0;

    for (uint32_t c = 0; c < p->columns; c++) {
        double way;

        if (m->column_done[c])
            continue;
        way = least + compute_cell_cost(p, row, c) - m->row_price[row] - m->column_price[c];
        if (way < m->shortest[c]) {
            m->shortest[c] = way;
            m->from[c] = (int32_t)row;
        }
        if (m->shortest[c] < best ||
            (m->shortest[c] == best && m->row_of[c] < 0 && m->row_of[found] >= 0)) {
            best = m->shortest[c];
            found = c;
        }
    }
    *ret = best;
    return found;
}

/* Gives one more row a column; those on the way to it change theirs. */
static void augment_matching(struct matcher *m, const struct problem *p, uint32_t first)
{
    double least = 0.0;
    uint32_t row = first, end;

    memset(m->row_done, 0, p->rows * sizeof(bool));
    memset(m->column_done, 0, p->columns * sizeof(bool));
    for (uint32_t c = 0; c < p->columns; c++)
        m->shortest[c] = INFINITY;
    for (;;) {
        m->row_done[row] = true;
        end = next_column(m, p, row, least, &least);
        m->column_done[end] = true;
        if (m->row_of[end] < 0)
            break;
        row = (uint32_t)m->row_of[end];
    }
    m->row_price[first] += least;
    for (uint32_t r = 0; r < p->rows; r++)
        if (m->row_done[r] && r != first)
            m->row_price[r] += least - m->shortest[m->column_of[r]];
    for (uint32_t c = 0; c < p->columns; c++)
        if (m->column_done[c])
            m->column_price[c] -= least - m->shortest[c];
    for (bool done = false; !done;) {
        int32_t before;

        row = (uint32_t)m->from[end];
        m->row_of[end] = (int32_t)row;
        before = m->column_of[row];
        m->column_of[row] = (int32_t)end;
        done = row == first;
        end = (uint32_t)before;
    }
}

void matcher_run(struct matcher *m, const double *gain, uint32_t rows, uint32_t columns,
                 int32_t *column_of)
{
    struct problem p = {gain, rows, columns, rows > columns};

    if (p.turned) {
        p.rows = columns;
        p.columns = rows;
    }
    memset(m->row_price, 0, p.rows * sizeof(double));
    memset(m->column_price, 0, p.columns * sizeof(double));
    memset(m->row_of, 0xff, p.columns * sizeof(int32_t));
    memset(m->column_of, 0xff, p.rows * sizeof(int32_t));
    for (uint32_t r = 0; r < p.rows; r++)
        augment_matching(m, &p, r);
    memcpy(column_of, p.turned ? m->row_of : m->column_of, rows * sizeof(int32_t));
}
