/* tools/cli/shell.h - words of commands that people copy into their shell. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_SHELL_H
#define NIGHTSHIFT_TOOLS_CLI_SHELL_H

#include "base/buf.h"

/* Puts bytes (without a NUL) as one word that every POSIX shell reads back as they are: in single
 * quotes. Control characters and bytes that are not UTF-8 need $'...', which bash, zsh, ksh and
 * POSIX of 2024 know. */
void shell_quote(struct buf *out, const void *bytes, size_t len);

#endif
