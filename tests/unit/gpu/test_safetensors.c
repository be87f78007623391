/* Weight files, whole and hostile. */
#include "tests/common/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "gpu/safetensors.h"
#include "gpu/tensor.h"

/* A file of this header and `data` zero bytes. claim: header length as written; 0: the true one. */
static uint8_t *file_of(const char *header, size_t data, uint64_t claim, size_t *len)
{
    size_t n = strlen(header);
    uint8_t *f = calloc(1, 8 + n + data + 1);

    assert_non_null(f);
    if (!claim)
        claim = n;
    for (int i = 0; i < 8; i++)
        f[i] = (uint8_t)(claim >> (8 * i));
    memcpy(f + 8, header, n);
    *len = 8 + n + data;
    return f;
}

struct refused {
    const char *header;
    size_t data;
    uint64_t claim;
    const char *sentence;
};

#define T(type, shape, offsets) \
    "{\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct refused refused[] = {
    {"{}", 0, 3, "header claims"},
    {"{}", 0, UINT64_MAX, "header claims"},
    {"{}", 0, (100u << 20) + 1, "header claims"},
    {"{}", 0, 1, "header claims"},
    {"[]", 0, 0, "no JSON object"},
    {"{\"a\":", 0, 0, "no JSON object"},
    {"{\"a\":1}", 0, 0, "unknown number type"},
    {"{\"a\":{},\"a\":{}}", 0, 0, "no JSON object"},
    {T("F99", "[1]", "[0,4]"), 4, 0, "unknown number type 'F99'"},
    {T("F32", "1", "[0,4]"), 4, 0, "no shape"},
    {T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, 0, "no shape"},
    {T("F32", "[-1]", "[0,4]"), 4, 0, "impossible shape"},
    {T("F32", "[1.5]", "[0,4]"), 4, 0, "impossible shape"},
    {T("F32", "[4611686018427387904,8]", "[0,4]"), 4, 0, "impossible shape"},
    {T("F32", "[4611686018427387904]", "[0,4]"), 4, 0, "its shape wants others"},
    {T("F32", "[2]", "[0,4]"), 4, 0, "its shape wants others"},
    {T("F32", "[1]", "[0]"), 4, 0, "data_offsets"},
    {T("F32", "[1]", "[4,0]"), 4, 0, "data_offsets"},
    {T("F32", "[1]", "[-4,0]"), 4, 0, "data_offsets"},
    {T("F32", "[1]", "[0,4]"), 3, 0, "ends 1 bytes past the end"},
    {T("F32", "[1]", "[9223372036854775800,9223372036854775804]"), 4, 0, "past the end"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[6,10]}}",
     10, 0, "'a' and 'b' share bytes"},
};

TEST(hostile)
{
    struct safetensors *st;
    struct err e;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        size_t len;
        uint8_t *f = file_of(refused[i].header, refused[i].data, refused[i].claim, &len);
        int rc = safetensors_parse(f, len, &st, &e);

        if (rc != ERR_MODEL || !strstr(e.msg, refused[i].sentence))
            print_error("case %zu: %d, %s\n", i, rc, e.msg);
        assert_int_equal(rc, ERR_MODEL);
        assert_non_null(strstr(e.msg, refused[i].sentence));
        free(f);
    }
    for (size_t len = 0; len < 8; len++)
        assert_int_equal(safetensors_parse("\0\0\0\0\0\0\0", len, &st, &e), ERR_MODEL);
}

TEST(reads_every_type)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[20,22]},"
        "\"i\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[22,30]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[30,30]}}";
    const float single[2] = {1.5f, -2.25f};
    const uint16_t half[6] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000}, brain = 0x3fc0;
    struct safetensors *st;
    size_t len;
    uint8_t *f = file_of(header, 30, 0, &len), *data = f + 8 + strlen(header);
    float out[6];
    struct err e;

    memcpy(data, single, 8);
    memcpy(data + 8, half, 12);
    memcpy(data + 20, &brain, 2);
    assert_ok(safetensors_parse(f, len, &st, &e), e);
    assert_int_equal(safetensors_count(st), 5);
    assert_null(safetensors_find(st, "__metadata__"));
    assert_null(safetensors_find(st, "x"));
    assert_ok(safetensor_read(safetensors_find(st, "w"), out, &e), e);
    assert_memory_equal(out, single, 8);
    assert_int_equal(safetensors_find(st, "h")->rank, 2);
    assert_ok(safetensor_read(safetensors_find(st, "h"), out, &e), e);
    assert_true(out[0] == 1.0f && out[1] == -2.0f && out[2] == 0x1p-24f && out[3] == 65504.0f);
    assert_true(out[4] > 1e38f && out[5] == 0.0f);
    assert_ok(safetensor_read(safetensors_find(st, "b"), out, &e), e);
    assert_true(out[0] == 1.5f);
    assert_int_equal(safetensor_read(safetensors_find(st, "i"), out, &e), ERR_MODEL);
    assert_int_equal(safetensors_find(st, "none")->count, 0);
    safetensors_close(st);
    free(f);
}

/* Every half there is, against its definition; and bf16 back and forth. */
TEST(halves)
{
    for (uint32_t v = 0; v < 65536; v++) {
        uint32_t exponent = v >> 10 & 31, fraction = v & 1023;
        double want = exponent ? (1.0 + fraction / 1024.0) * (double)(1u << exponent) / 32768.0
                               : fraction / 1024.0 / 16384.0;
        float got = f16_to_f32((uint16_t)v), brain = bf16_to_f32((uint16_t)v);

        if (exponent == 31)
            assert_true(fraction ? got != got : got - got != 0.0f);
        else
            assert_true((double)got == (v & 0x8000 ? -want : want));
        assert_true(brain != brain ? bf16_to_f32(f32_to_bf16(brain)) != brain
                                   : f32_to_bf16(brain) == v);
    }
    assert_int_equal(f32_to_bf16(0x1.01p0f), 0x3f80); /* a tie goes to the even one */
    assert_int_equal(f32_to_bf16(0x1.03p0f), 0x3f82);
    assert_int_equal(f32_to_bf16(0x1.0100p0f + 0x1p-20f), 0x3f81);
}

TEST(files)
{
    char path[] = "/tmp/nightshift-weights-XXXXXX";
    struct safetensors *st;
    struct err e;
    int fd;

    assert_ok(safetensors_open(test_source_path("workers/models/whisper-nano/model.safetensors"),
                               &st, &e),
              e);
    assert_int_equal(safetensors_count(st), 119);
    safetensors_close(st);
    assert_int_equal(safetensors_open("/nonexistent/x.safetensors", &st, &e), ERR_MISSING);
    assert_int_equal(safetensors_open("/", &st, &e), ERR_MODEL);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(safetensors_open(path, &st, &e), ERR_MODEL);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(safetensors_open(path, &st, &e), ERR_MODEL);
    close(fd);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(safetensors_open(path, &st, &e), ERR_MODEL); /* nobody writes to it */
    unlink(path);
    safetensors_close(NULL);
}

TEST_MAIN(NULL, NULL)
