/* tools/hub/libcrypto.h - OpenSSL for hashes, opened when it is wanted, as libcurl.h. This header
 * stands in for its own. */
#ifndef NIGHTSHIFT_TOOLS_HUB_LIBCRYPTO_H
#define NIGHTSHIFT_TOOLS_HUB_LIBCRYPTO_H

#include <openssl/evp.h>
#include <openssl/opensslv.h>

#include "base/err.h"
#include "base/library.h"

/* The functions that are called. New ones are added here and below. */
/* clang-format off */
#define LIBCRYPTO(of) \
    of(EVP_DigestFinal_ex) of(EVP_DigestInit_ex) of(EVP_DigestUpdate) \
    of(EVP_MD_CTX_free) of(EVP_MD_CTX_new) of(EVP_sha1) \
    of(EVP_sha256)
/* clang-format on */

/* Filled by libcrypto_open, and never changed again. */
extern struct libcrypto {
    LIBCRYPTO(LIBRARY_PLACE)
} libcrypto_functions;

/* By libraries_open, whose errors it has. */
int libcrypto_open(struct err *err);

#ifndef LIBCRYPTO_ITSELF
#define EVP_DigestFinal_ex libcrypto_functions.EVP_DigestFinal_ex
#define EVP_DigestInit_ex libcrypto_functions.EVP_DigestInit_ex
#define EVP_DigestUpdate libcrypto_functions.EVP_DigestUpdate
#define EVP_MD_CTX_free libcrypto_functions.EVP_MD_CTX_free
#define EVP_MD_CTX_new libcrypto_functions.EVP_MD_CTX_new
#define EVP_sha1 libcrypto_functions.EVP_sha1
#define EVP_sha256 libcrypto_functions.EVP_sha256
#endif

#endif
