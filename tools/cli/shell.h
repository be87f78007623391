/* tools/cli/shell.h - words of commands that people copy into their shell. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_SHELL_H
#define NIGHTSHIFT_TOOLS_CLI_SHELL_H

#include "base/buf.h"

/* Puts bytes (without a NUL) as one word that every POSIX shell reads back as they are: in single
 * quotes. What cannot be shown so, bytes that are no UTF-8 and control characters, makes it
 * $'...', which bash, zsh, ksh and POSIX of 2024 know. */
void shell_quote(struct buf *out, const void *bytes, size_t len);

#endif
