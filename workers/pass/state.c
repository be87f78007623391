#include "workers/pass/state.h"

#include <stdlib.h>
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

void worker_post_fatal(struct worker *w, const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_fatal m = {.code = why->code, .message = sentence};

    msg_fatal_put(&b, &m);
    outbox_post(&w->out, MSG_FATAL, &b);
    free(sentence);
}
