/* workers/media/ffmpeg.h - FFmpeg, opened when it is wanted.
 *
 * It brings some 130 libraries with it (base/library.h); only decoders call it, so it is opened
 * there. Its functions are called by their names all the same: below, each is a macro for its place
 * in a table. This header stands in for FFmpeg's own. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_FFMPEG_H
#define NIGHTSHIFT_WORKERS_MEDIA_FFMPEG_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/channel_layout.h>
#include <libavutil/dict.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/log.h>
#include <libavutil/mathematics.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
#include <libswresample/swresample.h>

#include "base/err.h"
#include "base/library.h"

/* The functions that are called, by library. Add new ones here and below. */
#define FFMPEG_UTIL(of)                                                                    \
    of(av_channel_layout_compare) of(av_channel_layout_copy) of(av_channel_layout_default) \
        of(av_channel_layout_from_mask) of(av_channel_layout_uninit) of(av_dict_free)      \
            of(av_dict_get) of(av_dict_set) of(av_fourcc_make_string) of(av_frame_alloc)   \
                of(av_frame_free) of(av_frame_get_buffer) of(av_frame_make_writable)       \
                    of(av_frame_move_ref) of(av_frame_unref) of(av_free) of(av_freep)      \
                        of(av_get_bytes_per_sample) of(av_get_packed_sample_fmt)           \
                            of(av_log_set_callback) of(av_malloc) of(av_malloc_array)      \
                                of(av_mallocz) of(av_match_list) of(av_rescale_q)          \
                                    of(av_sample_fmt_is_planar) of(av_strerror)
#define FFMPEG_RESAMPLE(of)                                                                   \
    of(swr_alloc_set_opts2) of(swr_convert) of(swr_free) of(swr_get_out_samples) of(swr_init) \
        of(swr_set_compensation) of(swr_set_matrix)
#define FFMPEG_CODEC(of)                                                                       \
    of(av_codec_is_decoder) of(av_codec_iterate) of(av_packet_alloc) of(av_packet_clone)       \
        of(av_packet_free) of(av_packet_get_side_data) of(av_packet_rescale_ts)                \
            of(av_packet_unref) of(avcodec_alloc_context3) of(avcodec_find_decoder)            \
                of(avcodec_find_encoder_by_name) of(avcodec_free_context) of(avcodec_get_name) \
                    of(avcodec_open2) of(avcodec_parameters_from_context)                      \
                        of(avcodec_parameters_to_context) of(avcodec_receive_frame)            \
                            of(avcodec_receive_packet) of(avcodec_send_frame)                  \
                                of(avcodec_send_packet)
#define FFMPEG_FORMAT(of)                                                                          \
    of(av_find_best_stream) of(av_find_input_format) of(av_find_program_from_stream)               \
        of(av_probe_input_buffer2) of(av_read_frame) of(av_write_frame) of(av_write_trailer)       \
            of(avformat_alloc_context) of(avformat_alloc_output_context2) of(avformat_close_input) \
                of(avformat_find_stream_info) of(avformat_free_context) of(avformat_new_stream)    \
                    of(avformat_open_input) of(avformat_write_header) of(avio_alloc_context)       \
                        of(avio_context_free) of(avio_seek)

/* Filled by ffmpeg_open, and never changed again. */
extern struct ffmpeg {
    FFMPEG_UTIL(LIBRARY_PLACE)
    FFMPEG_RESAMPLE(LIBRARY_PLACE)
    FFMPEG_CODEC(LIBRARY_PLACE)
    FFMPEG_FORMAT(LIBRARY_PLACE)
} ffmpeg_functions;

/* Opens the libraries that the program was compiled for, by libraries_open, whose errors it has:
 * they are no fault of a recording's. */
int ffmpeg_open(struct err *err);

#ifndef FFMPEG_ITSELF
#define av_channel_layout_compare ffmpeg_functions.av_channel_layout_compare
#define av_channel_layout_copy ffmpeg_functions.av_channel_layout_copy
#define av_channel_layout_default ffmpeg_functions.av_channel_layout_default
#define av_channel_layout_from_mask ffmpeg_functions.av_channel_layout_from_mask
#define av_channel_layout_uninit ffmpeg_functions.av_channel_layout_uninit
#define av_dict_free ffmpeg_functions.av_dict_free
#define av_dict_get ffmpeg_functions.av_dict_get
#define av_dict_set ffmpeg_functions.av_dict_set
#define av_fourcc_make_string ffmpeg_functions.av_fourcc_make_string
#define av_frame_alloc ffmpeg_functions.av_frame_alloc
#define av_frame_free ffmpeg_functions.av_frame_free
#define av_frame_get_buffer ffmpeg_functions.av_frame_get_buffer
#define av_frame_make_writable ffmpeg_functions.av_frame_make_writable
#define av_frame_move_ref ffmpeg_functions.av_frame_move_ref
#define av_frame_unref ffmpeg_functions.av_frame_unref
#define av_free ffmpeg_functions.av_free
#define av_freep ffmpeg_functions.av_freep
#define av_get_bytes_per_sample ffmpeg_functions.av_get_bytes_per_sample
#define av_get_packed_sample_fmt ffmpeg_functions.av_get_packed_sample_fmt
#define av_log_set_callback ffmpeg_functions.av_log_set_callback
#define av_malloc ffmpeg_functions.av_malloc
#define av_malloc_array ffmpeg_functions.av_malloc_array
#define av_mallocz ffmpeg_functions.av_mallocz
#define av_match_list ffmpeg_functions.av_match_list
#define av_rescale_q ffmpeg_functions.av_rescale_q
#define av_sample_fmt_is_planar ffmpeg_functions.av_sample_fmt_is_planar
#define av_strerror ffmpeg_functions.av_strerror
#define swr_alloc_set_opts2 ffmpeg_functions.swr_alloc_set_opts2
#define swr_convert ffmpeg_functions.swr_convert
#define swr_free ffmpeg_functions.swr_free
#define swr_get_out_samples ffmpeg_functions.swr_get_out_samples
#define swr_init ffmpeg_functions.swr_init
#define swr_set_compensation ffmpeg_functions.swr_set_compensation
#define swr_set_matrix ffmpeg_functions.swr_set_matrix
#define av_codec_is_decoder ffmpeg_functions.av_codec_is_decoder
#define av_codec_iterate ffmpeg_functions.av_codec_iterate
#define av_packet_alloc ffmpeg_functions.av_packet_alloc
#define av_packet_clone ffmpeg_functions.av_packet_clone
#define av_packet_free ffmpeg_functions.av_packet_free
#define av_packet_get_side_data ffmpeg_functions.av_packet_get_side_data
#define av_packet_rescale_ts ffmpeg_functions.av_packet_rescale_ts
#define av_packet_unref ffmpeg_functions.av_packet_unref
#define avcodec_alloc_context3 ffmpeg_functions.avcodec_alloc_context3
#define avcodec_find_decoder ffmpeg_functions.avcodec_find_decoder
#define avcodec_find_encoder_by_name ffmpeg_functions.avcodec_find_encoder_by_name
#define avcodec_free_context ffmpeg_functions.avcodec_free_context
#define avcodec_get_name ffmpeg_functions.avcodec_get_name
#define avcodec_open2 ffmpeg_functions.avcodec_open2
#define avcodec_parameters_from_context ffmpeg_functions.avcodec_parameters_from_context
#define avcodec_parameters_to_context ffmpeg_functions.avcodec_parameters_to_context
#define avcodec_receive_frame ffmpeg_functions.avcodec_receive_frame
#define avcodec_receive_packet ffmpeg_functions.avcodec_receive_packet
#define avcodec_send_frame ffmpeg_functions.avcodec_send_frame
#define avcodec_send_packet ffmpeg_functions.avcodec_send_packet
#define av_find_program_from_stream ffmpeg_functions.av_find_program_from_stream
#define av_find_best_stream ffmpeg_functions.av_find_best_stream
#define av_find_input_format ffmpeg_functions.av_find_input_format
#define av_probe_input_buffer2 ffmpeg_functions.av_probe_input_buffer2
#define av_read_frame ffmpeg_functions.av_read_frame
#define av_write_frame ffmpeg_functions.av_write_frame
#define av_write_trailer ffmpeg_functions.av_write_trailer
#define avformat_alloc_context ffmpeg_functions.avformat_alloc_context
#define avformat_alloc_output_context2 ffmpeg_functions.avformat_alloc_output_context2
#define avformat_close_input ffmpeg_functions.avformat_close_input
#define avformat_find_stream_info ffmpeg_functions.avformat_find_stream_info
#define avformat_free_context ffmpeg_functions.avformat_free_context
#define avformat_new_stream ffmpeg_functions.avformat_new_stream
#define avformat_open_input ffmpeg_functions.avformat_open_input
#define avformat_write_header ffmpeg_functions.avformat_write_header
#define avio_alloc_context ffmpeg_functions.avio_alloc_context
#define avio_context_free ffmpeg_functions.avio_context_free
#define avio_seek ffmpeg_functions.avio_seek
#endif

#endif
