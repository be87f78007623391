/* tools/hub/libcurl.h - libcurl, opened when it is wanted: of all commands one uses the network.
 * This header stands in for its own. */
#ifndef NIGHTSHIFT_TOOLS_HUB_LIBCURL_H
#define NIGHTSHIFT_TOOLS_HUB_LIBCURL_H

#include <curl/curl.h>

#include "base/err.h"
#include "base/library.h"

/* The functions that are called. New ones are added here and below. */
/* clang-format off */
#define LIBCURL(of) \
    of(curl_easy_cleanup) of(curl_easy_getinfo) of(curl_easy_init) \
    of(curl_easy_perform) of(curl_easy_reset) of(curl_easy_setopt) \
    of(curl_easy_strerror) of(curl_free) of(curl_global_init) \
    of(curl_slist_append) of(curl_slist_free_all) of(curl_url) \
    of(curl_url_cleanup) of(curl_url_get) of(curl_url_set)
/* clang-format on */

/* Macros that check the kind of an option's value: of the functions themselves, which are not here.
 */
#undef curl_easy_setopt
#undef curl_easy_getinfo

/* Filled by libcurl_open, and never changed again. */
extern struct libcurl {
    LIBCURL(LIBRARY_PLACE)
} libcurl_functions;

/* By libraries_open, whose errors it has. */
int libcurl_open(struct err *err);

#ifndef LIBCURL_ITSELF
#define curl_easy_cleanup libcurl_functions.curl_easy_cleanup
#define curl_easy_getinfo libcurl_functions.curl_easy_getinfo
#define curl_easy_init libcurl_functions.curl_easy_init
#define curl_easy_perform libcurl_functions.curl_easy_perform
#define curl_easy_reset libcurl_functions.curl_easy_reset
#define curl_easy_setopt libcurl_functions.curl_easy_setopt
#define curl_easy_strerror libcurl_functions.curl_easy_strerror
#define curl_free libcurl_functions.curl_free
#define curl_global_init libcurl_functions.curl_global_init
#define curl_slist_append libcurl_functions.curl_slist_append
#define curl_slist_free_all libcurl_functions.curl_slist_free_all
#define curl_url libcurl_functions.curl_url
#define curl_url_cleanup libcurl_functions.curl_url_cleanup
#define curl_url_get libcurl_functions.curl_url_get
#define curl_url_set libcurl_functions.curl_url_set
#endif

#endif
