/* workers/media/libarchive.h - libarchive, opened when it is wanted: as ffmpeg.h, and by
 * the same processes. This header stands in for its own. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_LIBARCHIVE_H
#define NIGHTSHIFT_WORKERS_MEDIA_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#include "base/err.h"
#include "base/library.h"

/* The functions that are called. Add new ones here and below. */
/* clang-format off */
#define LIBARCHIVE(of) \
    of(archive_entry_filetype) of(archive_entry_hardlink) \
    of(archive_entry_is_encrypted) of(archive_entry_mtime) \
    of(archive_entry_mtime_is_set) of(archive_entry_mtime_nsec) \
    of(archive_entry_pathname) of(archive_entry_pathname_utf8) \
    of(archive_entry_size) of(archive_entry_size_is_set) \
    of(archive_entry_sparse_count) of(archive_errno) \
    of(archive_error_string) of(archive_filter_bytes) \
    of(archive_filter_count) of(archive_format) \
    of(archive_read_data_block) of(archive_read_free) \
    of(archive_read_has_encrypted_entries) of(archive_read_new) \
    of(archive_read_next_header) of(archive_read_open1) \
    of(archive_read_set_callback_data) of(archive_read_set_read_callback) \
    of(archive_read_set_seek_callback) of(archive_read_set_skip_callback) \
    of(archive_read_support_filter_bzip2) of(archive_read_support_filter_compress) \
    of(archive_read_support_filter_gzip) of(archive_read_support_filter_lz4) \
    of(archive_read_support_filter_lzip) of(archive_read_support_filter_lzma) \
    of(archive_read_support_filter_xz) of(archive_read_support_filter_zstd) \
    of(archive_read_support_format_7zip) of(archive_read_support_format_cab) \
    of(archive_read_support_format_cpio) of(archive_read_support_format_iso9660) \
    of(archive_read_support_format_lha) of(archive_read_support_format_rar) \
    of(archive_read_support_format_rar5) of(archive_read_support_format_raw) \
    of(archive_read_support_format_tar) of(archive_read_support_format_zip) \
    of(archive_set_error)
/* clang-format on */

/* Filled by libarchive_open, and never changed again. */
extern struct libarchive {
    LIBARCHIVE(LIBRARY_PLACE)
} libarchive_functions;

/* By libraries_open, whose errors it has. */
int libarchive_open(struct err *err);

#ifndef LIBARCHIVE_ITSELF
#define archive_entry_filetype libarchive_functions.archive_entry_filetype
#define archive_entry_hardlink libarchive_functions.archive_entry_hardlink
#define archive_entry_is_encrypted libarchive_functions.archive_entry_is_encrypted
#define archive_entry_mtime libarchive_functions.archive_entry_mtime
#define archive_entry_mtime_is_set libarchive_functions.archive_entry_mtime_is_set
#define archive_entry_mtime_nsec libarchive_functions.archive_entry_mtime_nsec
#define archive_entry_pathname libarchive_functions.archive_entry_pathname
#define archive_entry_pathname_utf8 libarchive_functions.archive_entry_pathname_utf8
#define archive_entry_size libarchive_functions.archive_entry_size
#define archive_entry_size_is_set libarchive_functions.archive_entry_size_is_set
#define archive_entry_sparse_count libarchive_functions.archive_entry_sparse_count
#define archive_errno libarchive_functions.archive_errno
#define archive_error_string libarchive_functions.archive_error_string
#define archive_filter_bytes libarchive_functions.archive_filter_bytes
#define archive_filter_count libarchive_functions.archive_filter_count
#define archive_format libarchive_functions.archive_format
#define archive_read_data_block libarchive_functions.archive_read_data_block
#define archive_read_free libarchive_functions.archive_read_free
#define archive_read_has_encrypted_entries libarchive_functions.archive_read_has_encrypted_entries
#define archive_read_new libarchive_functions.archive_read_new
#define archive_read_next_header libarchive_functions.archive_read_next_header
#define archive_read_open1 libarchive_functions.archive_read_open1
#define archive_read_set_callback_data libarchive_functions.archive_read_set_callback_data
#define archive_read_set_read_callback libarchive_functions.archive_read_set_read_callback
#define archive_read_set_seek_callback libarchive_functions.archive_read_set_seek_callback
#define archive_read_set_skip_callback libarchive_functions.archive_read_set_skip_callback
#define archive_read_support_filter_bzip2 libarchive_functions.archive_read_support_filter_bzip2
#define archive_read_support_filter_compress \
    libarchive_functions.archive_read_support_filter_compress
#define archive_read_support_filter_gzip libarchive_functions.archive_read_support_filter_gzip
#define archive_read_support_filter_lz4 libarchive_functions.archive_read_support_filter_lz4
#define archive_read_support_filter_lzip libarchive_functions.archive_read_support_filter_lzip
#define archive_read_support_filter_lzma libarchive_functions.archive_read_support_filter_lzma
#define archive_read_support_filter_xz libarchive_functions.archive_read_support_filter_xz
#define archive_read_support_filter_zstd libarchive_functions.archive_read_support_filter_zstd
#define archive_read_support_format_7zip libarchive_functions.archive_read_support_format_7zip
#define archive_read_support_format_cab libarchive_functions.archive_read_support_format_cab
#define archive_read_support_format_cpio libarchive_functions.archive_read_support_format_cpio
#define archive_read_support_format_iso9660 libarchive_functions.archive_read_support_format_iso9660
#define archive_read_support_format_lha libarchive_functions.archive_read_support_format_lha
#define archive_read_support_format_rar libarchive_functions.archive_read_support_format_rar
#define archive_read_support_format_rar5 libarchive_functions.archive_read_support_format_rar5
#define archive_read_support_format_raw libarchive_functions.archive_read_support_format_raw
#define archive_read_support_format_tar libarchive_functions.archive_read_support_format_tar
#define archive_read_support_format_zip libarchive_functions.archive_read_support_format_zip
#define archive_set_error libarchive_functions.archive_set_error
#endif

#endif
