#include "workers/media/opus_file.h"

#include <stdlib.h>
#include <string.h>

#include "workers/media/ffmpeg.h"

#define RATE_HZ 16000
#define IO_BYTES 16384

struct opus_file {
    AVCodecContext *enc;
    AVFormatContext *fmt;
    AVIOContext *io;
    AVFrame *frame; /* enc->frame_size samples, `filled` of them there */
    AVPacket *packet;
    int filled;
    int64_t next_sample;
    opus_file_write write;
    void *arg;
    struct err unwritten; /* code not 0: what `write` said */
};

void opus_file_free(struct opus_file *o)
{
    if (!o)
        return;
    av_packet_free(&o->packet);
    av_frame_free(&o->frame);
    avformat_free_context(o->fmt);
    if (o->io)
        av_freep(&o->io->buffer);
    avio_context_free(&o->io);
    avcodec_free_context(&o->enc);
    free(o);
}

static int report_opus_failure(const struct opus_file *o, int code, const char *doing,
                               struct err *err)
{
    char why[AV_ERROR_MAX_STRING_SIZE] = "";

    if (o->unwritten.code != 0) {
        *err = o->unwritten;
        return err->code;
    }
    if (code == AVERROR(ENOMEM))
        return err_set(err, ERR_NOMEM, "out of memory");
    av_strerror(code, why, sizeof(why));
    return err_set(err, ERR_IO, "%s: %s", doing, why);
}

#if LIBAVFORMAT_VERSION_MAJOR < 61
static int write_bytes(void *arg, uint8_t *data, int n)
#else
static int write_bytes(void *arg, const uint8_t *data, int n)
#endif
{
    struct opus_file *o = arg;

    /* FFmpeg may go on behind an error. */
    if (o->unwritten.code == 0)
        (void)o->write(o->arg, data, (size_t)n, &o->unwritten);
    return o->unwritten.code != 0 ? AVERROR(EIO) : n;
}

static int open_encoder(struct opus_file *o, struct err *err)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libopus");
    int rc;

    if (!codec)
        return err_set(err, ERR_MISSING, "this FFmpeg has no encoder libopus");
    o->enc = avcodec_alloc_context3(codec);
    if (!o->enc)
        return err_set(err, ERR_NOMEM, "out of memory");
    o->enc->sample_rate = RATE_HZ;
    o->enc->sample_fmt = AV_SAMPLE_FMT_S16;
    o->enc->ch_layout = (AVChannelLayout)AV_CHANNEL_LAYOUT_MONO;
    o->enc->bit_rate = OPUS_FILE_BITS;
    o->enc->time_base = (AVRational){1, RATE_HZ};
    o->enc->compression_level = 5; /* of 10, which takes 3.7 times as long */
    o->enc->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    rc = avcodec_open2(o->enc, codec, NULL);
    return rc < 0 ? report_opus_failure(o, rc, "open the encoder libopus", err) : 0;
}

static int open_container(struct opus_file *o, struct err *err)
{
    unsigned char *bytes = av_malloc(IO_BYTES);
    AVStream *stream;
    int rc = avformat_alloc_output_context2(&o->fmt, NULL, "ogg", NULL);

    o->io = bytes ? avio_alloc_context(bytes, IO_BYTES, 1, o, NULL, write_bytes, NULL) : NULL;
    if (!o->io)
        av_free(bytes);
    stream = rc >= 0 && o->io ? avformat_new_stream(o->fmt, NULL) : NULL;
    if (!stream)
        return report_opus_failure(o, AVERROR(ENOMEM), "begin an Ogg file", err);
    o->fmt->pb = o->io;
    o->fmt->flags |= AVFMT_FLAG_BITEXACT; /* the same samples are the same file */
    stream->time_base = o->enc->time_base;
    rc = avcodec_parameters_from_context(stream->codecpar, o->enc);
    if (rc >= 0)
        rc = avformat_write_header(o->fmt, NULL);
    return rc < 0 ? report_opus_failure(o, rc, "begin an Ogg file", err) : 0;
}

static int make_frame(struct opus_file *o, struct err *err)
{
    o->packet = av_packet_alloc();
    o->frame = av_frame_alloc();
    if (!o->packet || !o->frame)
        return err_set(err, ERR_NOMEM, "out of memory");
    o->frame->nb_samples = o->enc->frame_size;
    o->frame->format = o->enc->sample_fmt;
    o->frame->sample_rate = RATE_HZ;
    o->frame->ch_layout = (AVChannelLayout)AV_CHANNEL_LAYOUT_MONO;
    return av_frame_get_buffer(o->frame, 0) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int opus_file_new(opus_file_write write, void *arg, struct opus_file **ret, struct err *err)
{
    struct opus_file *o = NULL;
    int rc = ffmpeg_open(err);

    if (rc == 0 && !(o = calloc(1, sizeof(*o))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        o->write = write;
        o->arg = arg;
        rc = open_encoder(o, err);
    }
    if (rc == 0)
        rc = open_container(o, err);
    if (rc == 0)
        rc = make_frame(o, err);
    if (rc != 0)
        opus_file_free(o);
    else
        *ret = o;
    return rc;
}

/* frame NULL: there is no other. */
static int encode_opus_frame(struct opus_file *o, const AVFrame *frame, struct err *err)
{
    int rc = avcodec_send_frame(o->enc, frame);

    while (rc >= 0) {
        rc = avcodec_receive_packet(o->enc, o->packet);
        if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
            return 0;
        if (rc < 0)
            break;
        av_packet_rescale_ts(o->packet, o->enc->time_base, o->fmt->streams[0]->time_base);
        rc = av_write_frame(o->fmt, o->packet);
        av_packet_unref(o->packet);
    }
    return report_opus_failure(o, rc, "encode Opus", err);
}

static int send_frame(struct opus_file *o, struct err *err)
{
    o->frame->nb_samples = o->filled;
    o->frame->pts = o->next_sample;
    o->next_sample += o->filled;
    o->filled = 0;
    return encode_opus_frame(o, o->frame, err);
}

int opus_file_put(struct opus_file *o, const int16_t *pcm, size_t n, struct err *err)
{
    int rc = 0;

    while (rc == 0 && n > 0) {
        size_t capacity = (size_t)(o->enc->frame_size - o->filled),
               take = n < capacity ? n : capacity;

        if (o->filled == 0 && av_frame_make_writable(o->frame) < 0)
            return err_set(err, ERR_NOMEM, "out of memory");
        memcpy((int16_t *)(void *)o->frame->data[0] + o->filled, pcm, take * sizeof(*pcm));
        o->filled += (int)take;
        pcm += take;
        n -= take;
        if (o->filled == o->enc->frame_size)
            rc = send_frame(o, err);
    }
    return rc;
}

int opus_file_end(struct opus_file *o, struct err *err)
{
    int rc = o->filled > 0 ? send_frame(o, err) : 0;

    if (rc == 0)
        rc = encode_opus_frame(o, NULL, err);
    if (rc == 0 && av_write_trailer(o->fmt) < 0)
        rc = report_opus_failure(o, AVERROR(EIO), "end an Ogg file", err);
    return rc;
}
