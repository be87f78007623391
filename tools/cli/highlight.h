/* tools/cli/highlight.h - a text with marks around parts of it, on standard output. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CLI_HIGHLIGHT_H
#define NIGHTSHIFT_TOOLS_CLI_HIGHLIGHT_H

#include <stddef.h>

/* Marks that cannot stand in a text: control characters, replaced when printed. */
#define MARK_BEGIN "\001"
#define MARK_END "\002"

/* The text and a line end, safe to print, wrapped, with marks as the output has them: "[" and "]",
 * or colour. The caller has written `indent` columns, and so much every line has in front. */
void highlight_print(const char *text, size_t indent);

#endif
