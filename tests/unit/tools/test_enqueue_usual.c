/* Which model is taken where none is named, and what is said when there is none. */
#include "tests/common/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/files.h"
#include "tools/enqueue/stages/enqueue_usual.h"

static char models[300]; /* the only models directory of this user */

static int set_up(void **state)
{
    char dir[] = "usual-XXXXXX", *at;

    (void)state;
    if (!mkdtemp(dir))
        return -1;
    at = realpath(dir, NULL);
    if (!at)
        return -1;
    snprintf(models, sizeof(models), "%s", at);
    free(at);
    setenv("NIGHTSHIFT_MODELS", models, 1);
    setenv("HF_HUB_CACHE", models, 1);
    return 0;
}

static void make(const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", models, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void unmake(const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", models, name);
    assert_int_equal(rmdir(path), 0);
}

static void put(const char *name)
{
    char path[400];

    make(name);
    snprintf(path, sizeof(path), "%s/%s/config.json", models, name);
    file_text(path, "{\"model_type\": \"nightshift-diarization\"}");
}

/* Names that no models directory of the build has. */
static const struct stage_kind wanted = {.option = "diarize",
                                         .name = "diarize",
                                         .model = "own-voices",
                                         .hub = "pulled-voices",
                                         .embedded = "embedded-voices",
                                         .told_by = "they were told by",
                                         .no_model = "it has nothing"};

static void find(const char *name)
{
    char want[400], *dir = NULL;
    const char *found = NULL;
    struct err e = {0};

    assert_ok(enqueue_usual_find(&wanted, NULL, &dir, &found, &e), e);
    assert_string_equal(found, name);
    snprintf(want, sizeof(want), "%s/%s", models, name);
    assert_string_equal(dir, want);
    free(dir);
}

static void find_nothing(const struct stage_kind *k, const char *says)
{
    char *dir = NULL;
    const char *found = NULL;
    struct err e = {0};

    assert_int_equal(enqueue_usual_find(k, NULL, &dir, &found, &e), ERR_MODEL);
    assert_null(dir);
    assert_says(e.msg, says);
}

TEST(one_after_the_other)
{
    struct stage_kind alone = wanted;

    put("embedded-voices"); /* never by itself */
    find_nothing(&wanted, "there is no 'own-voices' here: `nightshift model pull pulled-voices` "
                          "fetches a free one; or try --diarize=FOLDER");
    alone.embedded = NULL;
    find_nothing(&alone, "there is no 'own-voices' here: `nightshift model pull pulled-voices` "
                         "fetches it; or try --diarize=FOLDER");
    alone.hub = alone.model; /* what was begun is completed by a pull */
    make("own-voices");
    find_nothing(&alone, "there is no 'own-voices' here: `nightshift model pull own-voices`");
    find_nothing(&wanted, "own-voices is not a model: it has nothing (docs/reference/models.md");
    alone = wanted;
    alone.no_model = NULL;
    find_nothing(&alone,
                 "own-voices is not a model: it has no config.json (docs/reference/models.md");
    unmake("own-voices");
    put("pulled-voices");
    find("pulled-voices");
    put("own-voices");
    find("own-voices");
}

TEST_MAIN(set_up, NULL)
