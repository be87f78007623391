/* tests/unit/models/layout_copy.h - a copy of a model that make_layouts.py has written, to be
 * changed. */
#ifndef NIGHTSHIFT_TESTS_UNIT_MODELS_LAYOUT_COPY_H
#define NIGHTSHIFT_TESTS_UNIT_MODELS_LAYOUT_COPY_H

#define MADE "../run_layouts/layouts/"

/* The folder of the copy, in the test's own. */
#define COPY "changed"

/* Makes COPY anew of this folder. */
void layout_copy(const char *layout);
/* A file of the copy; of the last two calls. */
const char *layout_file(const char *name);

#endif
