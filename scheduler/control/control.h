/* scheduler/control/control.h - the local socket of a run, seen from another command.
 *
 * The run listens on FILE.sock beside the catalog (mode 0600; the peer's uid is checked). One frame
 * asks, one frame answers (workers/wire/frame.h): CONTROL_REQUEST carries a store request, answered
 * by CONTROL_REPLY or CONTROL_ERROR; CONTROL_STATUS is answered by CONTROL_LIVE. Blocking; for
 * tools.
 */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_H

#include "scheduler/control/control_socket.h"
#include "store/requests/request.h"

struct control;
/* ERR_EMPTY: no run listens on this catalog. */
int control_connect(const char *catalog, struct control **ret, struct err *err);
int control_request(struct control *c, const struct request *rq, struct request_reply *ret,
                    struct err *err);
int control_status(struct control *c, struct control_live *ret, struct err *err);
/* Is a run on, and what does it say? false: nobody answers; *ret is not to be used. */
bool control_look(const char *catalog, struct control_live *ret);
void control_close(struct control *c);

#endif
