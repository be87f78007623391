#include "workers/pass/state.h"

#include <string.h>

#include "base/utf8.h"

void worker_changed(struct worker *w)
{
    w->changes++;
    pthread_cond_broadcast(&w->work);
    pthread_cond_broadcast(&w->room);
}

char *worker_sentence(const struct err *e)
{
    size_t n = strlen(e->msg);

    return utf8_valid(e->msg, n) ? strdup(e->msg) : utf8_repair(e->msg, n);
}
