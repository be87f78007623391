#include "workers/stages/transcribe/decode/prompt.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"

int prompt_encode(const struct vocabulary *v, const char *text, int32_t **ret, uint32_t *count,
                  struct err *err)
{
    size_t begin = strspn(text, BLANKS), n = strlen(text), tokens = 0;
    char *said;
    int rc;

    *ret = NULL;
    *count = 0;
    while (n > begin && strchr(BLANKS, text[n - 1]))
        n--;
    if (n == begin)
        return 0;
    if (vocabulary_ids(v)->sot_prev < 0)
        return err_set(err, ERR_USAGE,
                       "the model takes no prompt: its vocabulary has no <|startofprev|>");
    said = malloc(n - begin + 2);
    if (!said)
        return err_set(err, ERR_NOMEM, "no memory for a prompt");
    said[0] = ' ';
    memcpy(said + 1, text + begin, n - begin);
    said[n - begin + 1] = 0;
    rc = vocabulary_encode(v, said, ret, &tokens, err);
    free(said);
    *count = (uint32_t)tokens;
    return rc;
}

uint32_t prompt_previous_max(uint32_t positions) { return positions / 2; }

uint32_t prompt_previous(const struct vocabulary *v, uint32_t positions, const int32_t *previous,
                         uint32_t n, int32_t *ret)
{
    int32_t sot_prev = vocabulary_ids(v)->sot_prev;
    uint32_t most = prompt_previous_max(positions) - 1;

    if (n == 0 || sot_prev < 0)
        return 0;
    if (n > most) {
        previous += n - most;
        n = most;
    }
    ret[0] = sot_prev;
    memcpy(ret + 1, previous, n * sizeof(*previous));
    return n + 1;
}
