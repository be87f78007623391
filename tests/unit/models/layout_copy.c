#include "tests/unit/models/layout_copy.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/common/test.h"

const char *layout_file(const char *name)
{
    static char path[2][PATH_MAX];
    static int turn;

    turn = !turn;
    snprintf(path[turn], PATH_MAX, COPY "/%s", name);
    return path[turn];
}

void layout_copy(const char *layout)
{
    char command[512];

    snprintf(command, sizeof(command), "rm -rf " COPY " && cp -r %s " COPY, layout);
    assert_int_equal(system(command), 0);
}
