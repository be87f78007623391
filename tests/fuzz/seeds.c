/* Writes the seeds of the fuzz targets: one valid input of each kind, made by the program's own
 * writers, so that they never fall behind the formats. Usage: fuzz_seeds DIRECTORY MODEL ENCODERS.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "scheduler/control_path.h"
#include "store/request.h"
#include "tests/common/zip_writer.h"
#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

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

/* ---- messages */

/* Also appends it to frames: every message once, as a stream. */
static int seed_message(const char *dir, const char *name, uint8_t type, struct buf *payload,
                        struct buf *frames)
{
    struct buf b = BUF_INIT;
    char file[64];
    int rc;

    frame_put(frames, type, payload->data, payload->len);
    buf_put_u8(&b, type);
    buf_put(&b, payload->data, payload->len);
    snprintf(file, sizeof(file), "protocol-%s", name);
    rc = write_seed(dir, file, &b);
    buf_free(&b);
    buf_free(payload);
    return rc;
}

#define SEED(name, type, ...)                                \
    do {                                                     \
        struct msg_##name m = {__VA_ARGS__};                 \
        struct buf p = BUF_INIT;                             \
        msg_##name##_put(&p, &m);                            \
        if (seed_message(dir, #name, type, &p, frames) != 0) \
            return -1;                                       \
    } while (0)
#define S(text) (char *)text

static int seed_messages(const char *dir, struct buf *frames)
{
    uint32_t skip[] = {3, 5};
    struct result_word words[] = {{900, 1400, S(" sí,"), 0.9f}, {1400, 2000, S(" no."), 0.5f}};
    struct result_segment segments[] = {
        {0, 900, S("hello."), S("en"), -0.2f, 0.1f, 1.2f, 0, 1, -1, true, S("loop"), NULL, 0},
        {900, 2000, S("sí, no."), S("es"), -0.4f, 0.1f, 1.1f, 0.2f, 2, 0.8f, false, S(""), words,
         2}};
    struct msg_passage passages[] = {{0, 900, S("hello.")}, {900, 2000, S("sí, no.")}};
    struct result_sound sounds[] = {{0, 960, 0, S("Speech"), 1},
                                    {480, 2000, 62, S("Applause"), 0.5f}};
    float values[] = {0.6f, -0.8f, 0, 1}, voice[] = {-3.5f, 2, 0, 1};
    struct result_vector vectors[] = {{0, 900, values}, {900, 2000, values + 2}};
    struct msg_speaker speakers[] = {{1200, values}, {500, values + 2}};
    struct result_turn turns[] = {{0, 900, 1}, {100, 2000, 0}};
    uint8_t active[] = {0, 3, 7, 4, 0, 1};
    uint32_t of[] = {1, 5};
    struct msg_companion companions[] = {{S("sounds"), S("/s"), S("11ee"), S("{}")}};
    char *reasons[] = {S("no room")};

    buf_put_u8(frames, 0);
    SEED(hello, MSG_HELLO, 7, S("cpu"), S("0.1.0"));
    SEED(setup, MSG_SETUP, .stage = S("diarize"), .model_dir = S("/m"), .model_hash = S("00ff"),
         .precision = S("fp32"), .params_json = S("{}"), .slots = 8, .decoders = 2, .threads = 1,
         .pcm_bytes = 1 << 20, .windows = 4, .vram_budget = 1 << 30, .deterministic = true,
         .tuned_slots = 16, .tuned_windows = 4, .tuned_rate = 120.5f, .companion_count = 1,
         .companions = companions);
    SEED(ready, MSG_READY, .capacity = 16, .description = S("cpu"), .device = S("a processor"),
         .device_id = S("cpu"), .driver = S(""), .precision = S("bf16"), .slots = 8, .windows = 2,
         .predicted_bytes = 1 << 20, .allocated_bytes = 1 << 19, .rate = 12.5f, .measured = true,
         .companion_count = 1, .companions = reasons);
    SEED(fatal, MSG_FATAL, ERR_MODEL, S("no model"));
    SEED(lease, MSG_LEASE, .lease_id = 1, .media_id = 2, .companion = 1, .with = 7,
         .path = S("/a.zip"), .member = S("b//c"), .nth = 1, .size_bytes = 99,
         .fingerprint = {1, 2}, .want_hash = true, .language = S("en"), .shard_ms = 300000,
         .first = 2, .last = 9, .skip_count = 2, .skip = skip, .total_ms = 60000,
         .passage_count = 2, .passages = passages);
    SEED(cap, MSG_CAP, 1, 4);
    SEED(cancel, MSG_CANCEL, 1);
    SEED(media, MSG_MEDIA, 1, 2, 60000, 44100, 2, S("mp3"), S("mp3"), S("title"));
    SEED(shard_done, MSG_SHARD_DONE, 1, 2, 3, 0, 2000, S("en"), 0.9f, 1, 50, 2, segments, 2, sounds,
         2, 2, vectors, {300, 2, 3, 3, 2, 2, active, of, voice});
    SEED(shard_failed, MSG_SHARD_FAILED, 1, 2, 3, ERR_INPUT, S("bad"));
    SEED(lease_end, MSG_LEASE_END, 1, 2, 0, S(""), true, 2000, 1, true, {1, 2}, S(""));
    SEED(heartbeat, MSG_HEARTBEAT, 1, 2, 3, 4, 5, 6, 7, 8);
    SEED(log, MSG_LOG, 1, S("a line"));
    SEED(tuned, MSG_TUNED, 8, 1, S("no memory"));
    SEED(settle, MSG_SETTLE, 7, S("/m"), S("00ff"), S("{}"), 36000);
    SEED(voices, MSG_VOICES, 300, 2, 3, 3, 2, 2, active, of, voice);
    SEED(settled, MSG_SETTLED, 7, 2, 2, 2, speakers, turns, 15);
    SEED(settle_failed, MSG_SETTLE_FAILED, 7, ERR_INPUT, S("bad"));
    return write_seed(dir, "protocol-stream", frames);
}

/* ---- requests to a run */

/* As fuzz_request wants it: `kind`, then the payload; also appended to frames. */
static int seed_control(const char *dir, const char *name, uint8_t kind, uint8_t type,
                        struct buf *payload, struct buf *frames)
{
    struct buf b = BUF_INIT;
    char file[64];
    int rc;

    frame_put(frames, type, payload->data, payload->len);
    buf_put_u8(&b, kind);
    buf_put(&b, payload->data, payload->len);
    snprintf(file, sizeof(file), "request-%s", name);
    rc = write_seed(dir, file, &b);
    buf_free(&b);
    buf_free(payload);
    return rc;
}

static int seed_answers(const char *dir, struct buf *frames)
{
    const struct request_reply reply = {.job_id = 3, .counts = {.seen = 9, .added = 2}};
    const struct control_live live = {7, 2, 1, 1700000000000, 60000, 12.5, -1, false};
    const struct err err = {ERR_FULL, "the disk is full"};
    struct buf b = BUF_INIT;
    int rc;

    request_reply_put(&b, &reply);
    rc = seed_control(dir, "reply", 1, CONTROL_REPLY, &b, frames);
    control_live_put(&b, &live);
    if (rc == 0)
        rc = seed_control(dir, "live", 2, CONTROL_LIVE, &b, frames);
    control_error_put(&b, &err);
    if (rc == 0)
        rc = seed_control(dir, "error", 3, CONTROL_ERROR, &b, frames);
    frame_put(frames, CONTROL_STATUS, NULL, 0);
    return rc;
}

static int seed_requests(const char *dir)
{
    static const char *const roots[] = {"/archive", "/b"}, *const unread[] = {"/archive/c.zip"};
    static const int64_t places[] = {4, 5};
    static const struct store_found found[] = {
        {"/archive/a.zip", 14, "b.mp3", 5, 1, 100, 900, 17, 3, 4, {1, 2}},
        {"/archive/c.wav", 14, "", 0, 0, 200, 200, 18, 5, 4, {3}}};
    static const struct request_trouble trouble = {"/archive/d", 10, "", 0, 0, ERR_DENIED, "no"};
    const struct store_stage transcribe = {"transcribe", "nano", "/m", "aa", "{}", NULL};
    const struct request all[] = {
        {.type = REQUEST_ENQUEUE_BEGIN,
         .command_line = "nightshift enqueue /archive",
         .stage = transcribe,
         .language = "en"},
        {.type = REQUEST_ENQUEUE_BEGIN,
         .command_line = "nightshift enqueue --embed /archive",
         .stage = {"embed-text", "minilm", "/e", "bb", "{}", &transcribe},
         .language = ""},
        {.type = REQUEST_ENQUEUE_ADD, .job_id = 1, .found = found, .count = 2},
        {.type = REQUEST_ENQUEUE_SAME, .job_id = 1, .place_ids = places, .count = 2},
        {.type = REQUEST_ENQUEUE_KNOWN, .job_id = 1, .place_ids = places, .count = 2},
        {.type = REQUEST_ENQUEUE_TROUBLE, .job_id = 1, .troubles = &trouble, .count = 1},
        {.type = REQUEST_ENQUEUE_END,
         .job_id = 1,
         .roots = roots,
         .root_count = 2,
         .unread = unread,
         .unread_count = 1},
        {.type = REQUEST_RETRY, .select_job = 2},
        {.type = REQUEST_CANCEL, .select_path = "/archive"},
        {.type = REQUEST_PAUSE},
        {.type = REQUEST_RESUME},
        {.type = REQUEST_NAME_SPEAKER, .speaker_id = 3, .speaker_name = "Ana"},
    };
    struct buf frames = BUF_INIT, b = BUF_INIT;
    char name[16];
    int rc = 0;

    buf_put_u8(&frames, 9);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && rc == 0; i++) {
        snprintf(name, sizeof(name), "%02d", (int)all[i].type);
        request_put(&b, &all[i]);
        rc = seed_control(dir, name, 0, CONTROL_REQUEST, &b, &frames);
    }
    if (rc == 0)
        rc = seed_answers(dir, &frames);
    if (rc == 0)
        rc = write_seed(dir, "request-stream", &frames);
    buf_free(&frames);
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

int main(int argc, char **argv)
{
    struct buf frames = BUF_INIT;

    if (argc != 4)
        return 64;
    mkdir(argv[1], 0777);
    if (seed_messages(argv[1], &frames) != 0 || seed_requests(argv[1]) != 0 ||
        seed_probe(argv[1]) != 0 || seed_safetensors(argv[1]) != 0 || seed_pickles(argv[1]) != 0 ||
        seed_tokenizer_small(argv[1]) != 0 || seed_tokenizer_model(argv[1], argv[2]) != 0 ||
        seed_text_tokenizers(argv[1], argv[3]) != 0 || seed_text_tokenizer_small(argv[1]) != 0) {
        fprintf(stderr, "fuzz_seeds: the seeds cannot be written to %s\n", argv[1]);
        return 74;
    }
    buf_free(&frames);
    return 0;
}
