/* Writes the seeds of the fuzz targets: one valid input of each kind. Messages are those whose
 * bytes the tests hold, so that they never fall behind the program. Usage: fuzz_seeds DIRECTORY
 * MODEL ENCODERS MESSAGES. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "scheduler/control/control.h"
#include "tests/common/zip_writer.h"
#include "workers/wire/frame.h"

static int write_seed(const char *dir, const char *name, const struct buf *b)
{
    char path[4096];
    FILE *f;
    int bad;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f || b->failed)
        return -1;
    bad = fwrite(b->data, 1, b->len, f) != b->len;
    return fclose(f) != 0 || bad ? -1 : 0;
}

/* ---- messages: those whose bytes the tests hold (tests/common/golden.h), each alone, behind the
 * type of its frame, and all of one target as a stream */

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static int seed_message(const char *dir, const char *line, struct buf streams[2])
{
    struct buf b = BUF_INIT;
    unsigned type;
    char name[64], file[128];
    int hex, rc;
    bool is_control;

    if (sscanf(line, "%u %63s %n", &type, name, &hex) != 2)
        return -1;
    is_control = type >= CONTROL_REQUEST;
    buf_put_u8(&b, (uint8_t)type);
    for (; line[hex] > ' '; hex += 2)
        buf_put_u8(&b, (uint8_t)(digit(line[hex]) << 4 | digit(line[hex + 1])));
    if (!b.failed)
        frame_put(&streams[is_control], (uint8_t)type, b.data + 1, b.len - 1);
    snprintf(file, sizeof(file), "%s-%s", is_control ? "request" : "protocol", name);
    rc = write_seed(dir, file, &b);
    buf_free(&b);
    return rc;
}

static int seed_messages(const char *dir, const char *messages)
{
    FILE *f = fopen(messages, "r");
    struct buf streams[2] = {BUF_INIT, BUF_INIT};
    char *line = NULL;
    size_t cap = 0;
    int rc = f ? 0 : -1;

    for (int i = 0; i < 2; i++)
        buf_put_u8(&streams[i], 0); /* no type: frames */
    while (rc == 0 && getline(&line, &cap, f) > 0)
        rc = seed_message(dir, line, streams);
    free(line);
    if (f)
        fclose(f);
    if (rc == 0)
        rc = write_seed(dir, "protocol-stream", &streams[0]);
    if (rc == 0)
        rc = write_seed(dir, "request-stream", &streams[1]);
    buf_free(&streams[0]);
    buf_free(&streams[1]);
    return rc;
}

/* ---- devices */

static int seed_probe(const char *dir)
{
    static const char answer[] =
        "{\"doing\":\"devices were asked for\"}\n"
        "{\"module\":\"/lib/m.so\",\"built_for\":\"CUDA 13.0\"}\n"
        "{\"device\":{\"ordinal\":0,\"name\":\"NVIDIA H200\",\"uuid\":\"GPU-8f3c-12\",\"major\":9,"
        "\"minor\":0,\"total\":150000000000,\"free\":149000000000,\"precisions\":126}}\n"
        "{\"finding\":{\"state\":1,\"name\":\"cuDNN ops\",\"found\":\"9.1\",\"wanted\":\"9.2\","
        "\"do\":\"update\"}}\n"
        "{\"error\":{\"code\":\"missing\",\"message\":\"no driver\"}}\n"
        "{\"end\":true}\n";
    struct buf b = BUF_INIT;
    int rc;

    buf_put(&b, answer, strlen(answer));
    rc = write_seed(dir, "probe-small", &b);
    buf_free(&b);
    return rc;
}

/* ---- weights */

static int seed_safetensors(const char *dir)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[16,22]},"
        "\"c\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[22,24]}}";
    struct buf b = BUF_INIT;
    int rc;

    buf_put_u64(&b, strlen(header));
    buf_put(&b, header, strlen(header));
    for (int i = 0; i < 24; i++)
        buf_put_u8(&b, (uint8_t)(i * 37));
    rc = write_seed(dir, "safetensors-small", &b);
    buf_free(&b);
    return rc;
}

static void put_ct2_name(struct buf *b, const char *name)
{
    buf_put_u16(b, (uint16_t)(strlen(name) + 1));
    buf_put(b, name, strlen(name) + 1);
}

/* Zeros of this type, each of `size` bytes: rows x cols, a row (cols 0), or a number (rows 0). */
static void put_ct2(struct buf *b, const char *name, uint32_t rows, uint32_t cols, uint8_t type,
                    uint32_t size)
{
    uint32_t n = (rows ? rows : 1) * (cols ? cols : 1) * size;

    put_ct2_name(b, name);
    buf_put_u8(b, rows ? cols ? 2 : 1 : 0);
    if (rows)
        buf_put_u32(b, rows);
    if (cols)
        buf_put_u32(b, cols);
    buf_put_u8(b, type);
    buf_put_u32(b, n);
    while (n--)
        buf_put_u8(b, 0);
}

static int seed_ct2(const char *dir)
{
    struct buf b = BUF_INIT;
    int rc;

    buf_put_u32(&b, 6);
    put_ct2_name(&b, "WhisperSpec");
    buf_put_u32(&b, 3);
    buf_put_u32(&b, 6);
    put_ct2(&b, "decoder/embeddings/weight", 4, 2, 1, 1);
    put_ct2(&b, "decoder/embeddings/weight_scale", 4, 0, 0, 4);
    put_ct2(&b, "decoder/layer_0/attention/linear_1/bias", 4, 0, 4, 2);
    put_ct2(&b, "encoder/conv1/weight", 2, 3, 2, 2);
    put_ct2(&b, "encoder/conv1/weight_scale", 0, 0, 5, 2);
    put_ct2(&b, "encoder/num_heads", 0, 0, 2, 2);
    buf_put_u32(&b, 1);
    put_ct2_name(&b, "decoder/projection/weight");
    put_ct2_name(&b, "decoder/embeddings/weight");
    rc = write_seed(dir, "ct2-small", &b);
    buf_free(&b);
    return rc;
}

/* A tensor of each type, of one row of 256 values. */
static int seed_ggml(const char *dir)
{
    static const struct {
        uint32_t type, bytes;
    } types[] = {{0, 1024}, {1, 512},  {2, 144},  {3, 160},  {6, 176},  {7, 192}, {8, 272},
                 {10, 84},  {11, 110}, {12, 144}, {13, 176}, {14, 210}, {30, 512}};
    struct buf b = BUF_INIT;
    int rc;

    buf_put_u32(&b, 0x67676d6c);
    for (int i = 0; i < 11; i++)
        buf_put_u32(&b, 4);
    buf_put_u32(&b, 1); /* a filter of one value */
    buf_put_u32(&b, 1);
    buf_put_f32(&b, 1);
    buf_put_u32(&b, 2); /* tokens */
    buf_put_u32(&b, 0);
    buf_put_u32(&b, 2);
    buf_put(&b, "ab", 2);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        buf_put_u32(&b, 2);
        buf_put_u32(&b, 1);
        buf_put_u32(&b, types[i].type);
        buf_put_u32(&b, 256);
        buf_put_u32(&b, 1);
        buf_put_u8(&b, (uint8_t)('a' + i));
        for (uint32_t k = 0; k < types[i].bytes; k++)
            buf_put_u8(&b, (uint8_t)k);
    }
    rc = write_seed(dir, "ggml-small", &b);
    buf_free(&b);
    return rc;
}

/* A dictionary with one tensor of float32, "a": 2 x 3. */
static const char pickle_seed[] =
    "\x80\2ccollections\nOrderedDict\nq\0)Rq\1(X\1\0\0\0a"
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
    "X\1\0\0\0000X\3\0\0\0cpuK\6tQK\0K\2K\3\x86K\3K\1\x86\x89h\0)RtR"
    "X\5\0\0\0epochG\x3f\xf0\0\0\0\0\0\0u}X\11\0\0\0_metadataNsb.";
static const char pickle4_seed[] =
    "\x80\4\x95\20\0\0\0\0\0\0\0}\x94\x8c\1a\x94\x8c\13collections\x94\x8c\13OrderedDict\x94"
    "\x93\x94)R\x94s.";

/* The checkpoint of such a pickle and the bytes that it describes. */
static int seed_checkpoint(const char *dir)
{
    const struct zip_member members[] = {{"x/data.pkl", pickle_seed, sizeof(pickle_seed) - 1},
                                         {"x/data/0", "abcdabcdabcdabcdabcdabcd", 24}};
    struct buf b = BUF_INIT;
    int rc;

    zip_write(&b, members, 2);
    rc = write_seed(dir, "pickle-checkpoint", &b);
    buf_free(&b);
    return rc;
}

static int seed_bytes(const char *dir, const char *name, const char *bytes, size_t len)
{
    struct buf b = BUF_INIT;
    int rc;

    buf_put(&b, bytes, len);
    rc = write_seed(dir, name, &b);
    buf_free(&b);
    return rc;
}

static int seed_pickles(const char *dir)
{
    static const char index[] =
        "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"a\":\"m-1.safetensors\","
        "\"b\":\"m-2.safetensors\"}}";
    static const char torch[] = "{\"weight_map\":{\"a\":\"m-1.bin\",\"b\":\"m-1.bin\"}}";
    int rc = seed_checkpoint(dir);

    if (rc == 0)
        rc = seed_bytes(dir, "pickle-plain", pickle_seed, sizeof(pickle_seed) - 1);
    if (rc == 0)
        rc = seed_bytes(dir, "pickle-four", pickle4_seed, sizeof(pickle4_seed) - 1);
    if (rc == 0)
        rc = seed_bytes(dir, "weight_index-small", index, sizeof(index) - 1);
    if (rc == 0)
        rc = seed_bytes(dir, "weight_index-torch", torch, sizeof(torch) - 1);
    return rc;
}

/* ---- tokenizers: three JSON files and a text, parted by NUL bytes */

static int seed_tokenizer_small(const char *dir)
{
    static const char *const parts[] = {
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\u0120\":2,\"ab\":3},"
        "\"merges\":[\"a b\"]},\"added_tokens\":[{\"id\":4,\"content\":\"<|endoftext|>\"},"
        "{\"id\":5,\"content\":\"<|startoftranscript|>\"},{\"id\":6,\"content\":\"<|en|>\"},"
        "{\"id\":7,\"content\":\"<|notimestamps|>\"},{\"id\":8,\"content\":\"<|0.00|>\"}]}",
        "{\"suppress_tokens\":[1],\"lang_to_id\":{\"<|en|>\":6}}",
        "{\"vocab_size\":9}",
        "ab ba",
    };
    struct buf b = BUF_INIT;
    int rc;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        buf_put(&b, parts[i], strlen(parts[i]));
        if (i < 3)
            buf_put_u8(&b, 0);
    }
    rc = write_seed(dir, "tokenizer-small", &b);
    buf_free(&b);
    return rc;
}

static int append_file(struct buf *b, const char *dir, const char *name)
{
    char path[4096];
    uint8_t *room;
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "rb");
    if (!f)
        return -1;
    while ((room = buf_reserve(b, 4096)) && (n = fread(room, 1, 4096, f)) > 0)
        b->len += n;
    fclose(f);
    return b->failed ? -1 : 0;
}

static int seed_tokenizer_model(const char *dir, const char *model)
{
    static const char *const files[] = {"tokenizer.json", "generation_config.json", "config.json"};
    struct buf b = BUF_INIT;
    int rc = 0;

    for (int i = 0; i < 3 && rc == 0; i++) {
        rc = append_file(&b, model, files[i]);
        buf_put_u8(&b, 0);
    }
    buf_put(&b, "hello there", 11);
    if (rc == 0)
        rc = write_seed(dir, "tokenizer-model", &b);
    buf_free(&b);
    return rc;
}

/* One of each kind: text encoders' tokenizers, and a text. */
static int seed_text_tokenizers(const char *dir, const char *encoders)
{
    static const char *const kinds[] = {"wordpiece", "unigram", "bpe"};
    static const char text[] =
        "Hello, w\xC3\xB6rld! <mask> [SEP] \xE6\x97\xA5\xE6\x9C\xAC e\xCC\x81";
    int rc = 0;

    for (int i = 0; i < 3 && rc == 0; i++) {
        struct buf b = BUF_INIT;
        char name[64];

        snprintf(name, sizeof(name), "%s/tokenizer.json", kinds[i]);
        rc = append_file(&b, encoders, name);
        buf_put_u8(&b, 0);
        buf_put(&b, text, sizeof(text) - 1);
        snprintf(name, sizeof(name), "text_tokenizer-%s", kinds[i]);
        if (rc == 0)
            rc = write_seed(dir, name, &b);
        buf_free(&b);
    }
    return rc;
}

/* Small enough that a changed byte matters: options that the trained ones lack. */
static int seed_text_tokenizer_small(const char *dir)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"_\"},{\"type\":\"Strip\"},"
        "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAP////8A\"}]},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
        "\"first\"},\"added_tokens\":[{\"id\":3,\"content\":\"X\",\"lstrip\":true,\"normalized\":"
        "true,\"single_word\":true}],\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":"
        "[\"s\",1],\"cls\":[\"c\",2]},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
        "[\"u\",0],[\"_\",-2],[\"a\",-2.5],[\"_a\",-1]]}}\0a  b X a";
    struct buf b = BUF_INIT;
    int rc;

    buf_put(&b, json, sizeof(json) - 1);
    rc = write_seed(dir, "text_tokenizer-small", &b);
    buf_free(&b);
    return rc;
}

/* ---- what is typed to search for: one of each kind */

static int seed_queries(const char *dir)
{
    static const char *const texts[] = {
        "market square", "\"market \"\"square\" OR harb*", "(a OR b) AND c NOT (d e)",
        "NEAR(a \"b c\" d*, 5) NEAR (a)", "don't \xc3\xa4\xe3\x80\x80\xe6\x9d\xb1 ((((a))))"};
    char name[32];
    int rc = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && rc == 0; i++) {
        struct buf b = BUF_INIT;

        buf_put(&b, texts[i], strlen(texts[i]));
        snprintf(name, sizeof(name), "query-%zu", i);
        rc = write_seed(dir, name, &b);
        buf_free(&b);
    }
    return rc;
}

/* A table, and a WAV file with a chunk of each kind. */
static int seed_describing(const char *dir)
{
    static const char table[] = "\xef\xbb\xbf"
                                "path;date;\"a \"\"b\"\"\"\r\nx.wav;1990;\"1\n2\"\n";
    static const char ixml[] =
        "<BWFXML><A b=\"c\">1 &amp; 2</A><!-- > --><T><N>x</N></T><E/></BWFXML>";
    struct buf b = BUF_INIT;
    int rc = seed_bytes(dir, "csv-table", table, sizeof(table) - 1);

    buf_put(&b, "RIFF\0\0\0\0WAVEbext", 16);
    buf_put_bytes(&b, "short", 6);
    buf_put(&b, "iXML", 4);
    buf_put_bytes(&b, ixml, sizeof(ixml) - 1);
    buf_put(&b, "data", 4);
    buf_put_bytes(&b, "\0\0\0", 4);
    if (rc == 0)
        rc = write_seed(dir, "wav_chunks-wav", &b);
    if (rc == 0)
        rc = seed_bytes(dir, "wav_chunks-ixml", ixml, sizeof(ixml) - 1);
    buf_free(&b);
    return rc;
}

/* The format's number, and a file of what fuzz_subtitles.c has for a transcript. */
static int seed_subtitles(const char *dir)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"subtitles-txt", "\x00Ana: The Sánchez family came from the harbour.\nYes, yes.\n"},
        {"subtitles-srt",
         "\x01"
         "1\r\n00:00:04,000 --> 00:00:09,000 X1:1\r\n<i>The Sanches family</i>\r\n\r\nfled.\r\n\r\n"
         "2\r\n00:00:09,000 --> 00:00:12,000\r\n{\\an8}Yes, yes, yes.\r\n"},
        {"subtitles-vtt",
         "\x02WEBVTT\n\nNOTE of me\n\nSTYLE\n::cue {}\n\nid\n00:04.000 --> 00:09.000 align:start\n"
         "<v Ana>The <c>Sanches</c><00:05.000> family &amp; me came from the harbour.\n\n"
         "00:09.000 --> 00:12.000\n今日は港へ行きます。\n"},
        {"subtitles-tsv", "\x03start\tend\ttext\n4000\t9000\tThe Sanches family\n"},
        {"subtitles-json",
         "\x04{\"language\": \"en\", \"segments\": [{\"start\": 4, \"end_ms\": 9000, "
         "\"text\": \"Nobody knew where the gold went.\"}]}"},
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(files) / sizeof(files[0]); i++)
        rc = seed_bytes(dir, files[i].name, files[i].text, 1 + strlen(files[i].text + 1));
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    mkdir(argv[1], 0777);
    if (seed_messages(argv[1], argv[4]) != 0 || seed_probe(argv[1]) != 0 ||
        seed_safetensors(argv[1]) != 0 || seed_ct2(argv[1]) != 0 || seed_ggml(argv[1]) != 0 ||
        seed_pickles(argv[1]) != 0 || seed_tokenizer_small(argv[1]) != 0 ||
        seed_tokenizer_model(argv[1], argv[2]) != 0 ||
        seed_text_tokenizers(argv[1], argv[3]) != 0 || seed_text_tokenizer_small(argv[1]) != 0 ||
        seed_queries(argv[1]) != 0 || seed_describing(argv[1]) != 0 ||
        seed_subtitles(argv[1]) != 0) {
        fprintf(stderr, "fuzz_seeds: the seeds cannot be written to %s\n", argv[1]);
        return 74;
    }
    return 0;
}
