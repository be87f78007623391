/* Which models are the demo's, and what is said of what they made. */
#include "tests/common/test.h"

#include <stdlib.h>
#include <string.h>

#include "tools/demo_model.h"
#include "workers/models/files/model_dir.h"
#include "workers/stages/stage.h"

/* Who trains one of them anew has its hash to write down, also for catalogs. */
static void is_known(const char *stage, const char *name, unsigned which)
{
    char *dir = NULL, hash[MODEL_HASH_LEN];
    struct err e = {0};

    assert_ok(model_dir_find(name, &dir, &e), e);
    assert_ok(stage_model_hash(stage, dir, hash, &e), e);
    assert_int_equal(demo_model("openai/whisper-large-v3", hash), which);
    assert_int_equal(demo_model(name, "weights of before"), which);
    free(dir);
}

TEST(test_by_weights_and_by_name)
{
    is_known("transcribe", "whisper-nano", DEMO_WHISPER);
    is_known("diarize", "diarization-nano", DEMO_DIARIZATION);
    assert_int_equal(demo_model("openai/whisper-small", "0123456789abcdef0123456789abcdef"), 0);
    assert_int_equal(demo_model("org/whisper-nano-2", ""), 0);
    assert_int_equal(demo_model("", ""), 0);
}

TEST(test_what_is_said)
{
    assert_string_equal(demo_model_made(0), "");
    for (unsigned which = 1; which <= (DEMO_WHISPER | DEMO_DIARIZATION); which++) {
        const char *said = demo_model_made(which);

        assert_non_null(strstr(said, "of the demo: not to be trusted"));
        assert_true(!strstr(said, "whisper-nano") == !(which & DEMO_WHISPER));
        assert_true(!strstr(said, "diarization-nano") == !(which & DEMO_DIARIZATION));
    }
}

TEST_MAIN(NULL, NULL)
