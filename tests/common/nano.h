/* tests/common/nano.h - the vocabulary of whisper-nano, the model that comes with the source, for
 * all tests of a file: TEST_MAIN(nano_open, nano_close). */
#ifndef NIGHTSHIFT_TESTS_COMMON_NANO_H
#define NIGHTSHIFT_TESTS_COMMON_NANO_H

#include "base/err.h"
#include "tests/common/test.h"
#include "workers/text/tokenizer/vocabulary.h"

static struct vocabulary *nano;

static inline int nano_open(void **state)
{
    struct err e = {0};

    (void)state;
    assert_ok(vocabulary_load(test_source_path("workers/models/whisper-nano"), &nano, &e), e);
    return 0;
}

static inline int nano_close(void **state)
{
    (void)state;
    vocabulary_free(nano);
    return 0;
}

#endif
