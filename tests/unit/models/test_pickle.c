/* Pickles and checkpoints, whole and hostile: what is no list of tensors is refused, by name where
 * it has one. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/buf.h"
#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/formats/pickle.h"

/* Pickles are written as C strings; L counts their bytes, NULs within included. */
#define L(text) (text), sizeof(text) - 1

/* A storage of n float32 in data/0, and a tensor of it: offset, sizes, strides as given. */
#define STORAGE(type, n) "((X\7\0\0\0storagectorch\n" type "\nX\1\0\0\0000X\3\0\0\0cpuK" n "tQ"
#define TENSOR(type, n, offset, sizes, strides)                                            \
    "ctorch._utils\n_rebuild_tensor_v2\n" STORAGE(type, n) "K" offset sizes strides "\x89" \
                                                           "}tR"
#define NAMED(tensor) "\x80\2}X\1\0\0\0a" tensor "s."

/* ---- pickles */

static const struct {
    const char *what, *bytes;
    size_t len;
    const char *sentence;
} hostile[] = {
    {"a command",
     L("\x80\2"
       "cos\nsystem\nX\4\0\0\0true\x85R."),
     "wants to run code: os.system"},
    {"posix",
     L("\x80\2"
       "cposix\nsystem\n."),
     "wants to run code: posix.system"},
    {"eval",
     L("\x80\2"
       "c__builtin__\neval\n."),
     "wants to run code: __builtin__.eval"},
    {"by the stack", L("\x80\4\x8c\2os\x8c\6system\x93."), "wants to run code: os.system"},
    {"nearly a name",
     L("\x80\2"
       "ctorch._utils\n_rebuild_tensor\n."),
     "_utils._rebuild_tensor."},
    {"a name with a tail",
     L("\x80\2"
       "ctorch\nFloatStorage.__reduce__\n."),
     "torch.FloatStorage.__reduce__"},
    {"an attribute of torch",
     L("\x80\2"
       "ctorch\nload\n."),
     "wants to run code: torch.load"},
    {"control characters",
     L("\x80\2"
       "co\x1b[2Js\nsystem\n."),
     "o\\x1B[2Js.system"},
    {"no protocol 2", L("\x80\1."), "pickle protocol 1"},
    {"a new object",
     L("\x80\2"
       "ccollections\nOrderedDict\n)\x81."),
     "0x81"},
    {"an old instance", L("(ios\nsystem\n."), "0x69"},
    {"an extension", L("\x82\1."), "0x82"},
    {"a text number", L("I1\n."), "0x49"},
    {"a call of a number", L("K\1)R."), "no function"},
    {"a call without a tuple", L("ccollections\nOrderedDict\nK\1R."), "no function"},
    {"a storage that is called", L("ctorch\nFloatStorage\n)R."), "out of nothing"},
    {"a dictionary of pairs", L("ccollections\nOrderedDict\n]\x85R."), "another kind"},
    {"no storage", L("K\1Q."), "no storage"},
    {"another persistent id", L("(X\6\0\0\0moduleK\1K\1K\1K\1tQ."), "no storage"},
    {"a storage of no type", L("(X\7\0\0\0storageK\1X\1\0\0\0000X\3\0\0\0cpuK\1tQ."),
     "storage that"},
    {"a storage of a function",
     L("(X\7\0\0\0storageccollections\nOrderedDict\nX\1\0\0\0000X\3\0\0\0cpuK\1tQ."),
     "storage that"},
    {"a storage of less than nothing",
     L("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuJ\xff\xff\xff\xfftQ."),
     "storage that"},
    {"a tensor of nothing", L("ctorch._utils\n_rebuild_tensor_v2\n)R."), "a tensor that is none"},
    {"a tensor of texts", L(NAMED(TENSOR("FloatStorage", "\4", "\0", "X\0\0\0\0\x85", "K\1\x85"))),
     "a tensor that is none"},
    {"a stride too few", L(NAMED(TENSOR("FloatStorage", "\4", "\0", "K\2K\2\x86", "K\1\x85"))),
     "a tensor that is none"},
    {"nine dimensions",
     L(NAMED(TENSOR("FloatStorage", "\1", "\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t",
                    "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t"))),
     "a tensor that is none"},
    {"a negative size",
     L(NAMED(TENSOR("FloatStorage", "\4", "\0", "J\xff\xff\xff\xff\x85", "K\1\x85"))),
     "a tensor that is none"},
    {"a parameter of a number", L("ctorch._utils\n_rebuild_parameter\n(K\1\x89}tR."),
     "a tensor that is none"},
    {"a number of nine bytes",
     L("\x8a\x9"
       "123456789."),
     "a number of 9 bytes"},
    {"nothing", L(""), "damaged"},
    {"no end", L("\x80\2}"), "damaged"},
    {"an end of nothing", L("."), "damaged"},
    {"an end within brackets", L("K\1(K\2."), "damaged"},
    {"a pop of nothing", L("0."), "damaged"},
    {"a pop past a bracket", L("K\1(0."), "damaged"},
    {"a closed bracket that is none", L("t."), "damaged"},
    {"a pair without its half", L("}(K\1u."), "damaged"},
    {"a pair for a number", L("K\1K\2K\3s."), "damaged"},
    {"a pair for nothing", L("K\2K\3s."), "damaged"},
    {"items for a dictionary", L("}(K\1e."), "damaged"},
    {"a tuple of too few", L("K\1\x86."), "damaged"},
    {"attributes of a list", L("]}b."), "damaged"},
    {"a memo of nothing", L("q\0."), "damaged"},
    {"a memo that nobody kept", L("h\5."), "damaged"},
    {"a memo past its end", L("K\1q\1j\xff\xff\xff\xff."), "damaged"},
    {"a memo without bounds", L("K\1r\xff\xff\xff\x7f."), "more than 1048576 parts"},
    {"a text past the end",
     L("X\xff\xff\xff\xff"
       "a."),
     "damaged"},
    {"a text without bounds",
     L("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
       "a."),
     "damaged"},
    {"a number past the end", L("J\1\1"), "damaged"},
    {"half a name", L("cos\nsystem"), "damaged"},
    {"a name of numbers", L("K\1K\2\x93."), "damaged"},
};

TEST(hostile_pickles)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        uint8_t *exact = malloc(hostile[i].len + !hostile[i].len); /* for AddressSanitizer */
        struct pickle *p = NULL;
        struct err e = {0};
        int rc;

        assert_non_null(exact);
        memcpy(exact, hostile[i].bytes, hostile[i].len);
        rc = pickle_parse(exact, hostile[i].len, &p, &e);
        if (rc != ERR_MODEL || !strstr(e.msg, hostile[i].sentence))
            print_error("%s: %d, %s\n", hostile[i].what, rc, e.msg);
        assert_int_equal(rc, ERR_MODEL);
        assert_non_null(strstr(e.msg, hostile[i].sentence));
        assert_null(p);
        free(exact);
    }
}

/* `unit`, n times, between two others. */
static int parse_many(const char *before, const char *unit, size_t n, const char *after,
                      struct err *e)
{
    struct buf b = BUF_INIT;
    struct pickle *p = NULL;
    int rc;

    buf_put(&b, before, strlen(before));
    for (size_t i = 0; i < n; i++)
        buf_put(&b, unit, strlen(unit));
    buf_put(&b, after, strlen(after));
    assert_false(b.failed);
    rc = pickle_parse(b.data, b.len, &p, e);
    pickle_free(p);
    buf_free(&b);
    return rc;
}

TEST(bounds)
{
    uint8_t *zeros = calloc(1, PICKLE_MAX_BYTES + 1);
    struct pickle *p;
    struct err e;

    assert_int_equal(parse_many("", "(", PICKLE_MAX_MARKS, "", &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "damaged")); /* no end, but no bound either */
    assert_int_equal(parse_many("", "(", PICKLE_MAX_MARKS + 1, "", &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "nested 64 deep"));
    assert_int_equal(parse_many("", "N", PICKLE_MAX_VALUES, ".", &e), 0);
    assert_int_equal(parse_many("", "N", PICKLE_MAX_VALUES + 1, ".", &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "more than 1048576 parts"));
    assert_int_equal(parse_many("N", "2", PICKLE_MAX_VALUES, ".", &e), ERR_MODEL);
    assert_int_equal(parse_many("N", "2a", 10, ".", &e), ERR_MODEL);
    assert_int_equal(parse_many("]", "2a", 100000, ".", &e), 0); /* a list within itself */
    assert_non_null(zeros);
    assert_int_equal(pickle_parse(zeros, PICKLE_MAX_BYTES + 1, &p, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "bytes, over"));
    free(zeros);
}

TEST(reads_values)
{
    static const char bytes[] =
        "\x80\2}(X\1\0\0\0iJ\xfe\xff\xff\xffX\1\0\0\0lK\7\x8a\2\x18\xfc\x86X\1\0\0\0f"
        "G\x3f\xf8\0\0\0\0\0\0X\1\0\0\0b\x88X\1\0\0\0nNX\1\0\0\0m]q\5(K\1M\1\2eX\1\0\0\0oh\5u.";
    const struct pickle_value *root, *v;
    struct pickle *p;
    struct err e;

    assert_ok(pickle_parse(bytes, sizeof(bytes) - 1, &p, &e), e);
    root = pickle_root(p);
    assert_int_equal(root->kind, PICKLE_DICT);
    assert_int_equal(pickle_get(p, root, "i")->u.integer, -2);
    v = pickle_get(p, root, "l");
    assert_int_equal(v->kind, PICKLE_TUPLE);
    assert_int_equal(pickle_at(p, v->u.list.item[0])->u.integer, 7);
    assert_int_equal(pickle_at(p, v->u.list.item[1])->u.integer, -1000);
    assert_true(pickle_get(p, root, "f")->u.real == 1.5);
    assert_int_equal(pickle_get(p, root, "b")->u.integer, 1);
    assert_int_equal(pickle_get(p, root, "n")->kind, PICKLE_NONE);
    v = pickle_get(p, root, "m");
    assert_int_equal(v->u.list.n, 2);
    assert_int_equal(pickle_at(p, v->u.list.item[1])->u.integer, 513);
    assert_ptr_equal(pickle_get(p, root, "o"), v);
    assert_null(pickle_get(p, root, "x"));
    assert_null(pickle_get(p, v, "i"));
    pickle_free(p);
}

/* ---- archives */

struct member {
    const char *name;
    const void *data;
    size_t len;
    uint16_t method, flags;
};

static void put_header(struct buf *b, const struct member *m, bool central, uint32_t local)
{
    buf_put_u32(b, central ? 0x02014b50u : 0x04034b50u);
    if (central)
        buf_put_u16(b, 45);
    buf_put_u16(b, 45);
    buf_put_u16(b, m->flags);
    buf_put_u16(b, m->method);
    buf_put_u32(b, 0); /* time and date */
    buf_put_u32(b, 0); /* checksum */
    buf_put_u32(b, central ? UINT32_MAX : (uint32_t)m->len);
    buf_put_u32(b, central ? UINT32_MAX : (uint32_t)m->len);
    buf_put_u16(b, (uint16_t)strlen(m->name));
    buf_put_u16(b, central ? 28 : 3);
    if (central) {
        buf_put_u16(b, 0); /* comment, disk, attributes */
        buf_put_u16(b, 0);
        buf_put_u16(b, 0);
        buf_put_u32(b, 0);
        buf_put_u32(b, UINT32_MAX);
    }
    buf_put(b, m->name, strlen(m->name));
    if (central) { /* zip64: size, packed size, place */
        buf_put_u16(b, 1);
        buf_put_u16(b, 24);
        buf_put_u64(b, m->len);
        buf_put_u64(b, m->len);
        buf_put_u64(b, local);
    } else {
        buf_put(b, "pad", 3);
    }
}

/* An archive with zip64 everywhere, as torch writes large ones. */
static void put_zip64(struct buf *b, const struct member *m, size_t n)
{
    uint32_t local[8];
    uint64_t start, end;

    for (size_t i = 0; i < n; i++) {
        local[i] = (uint32_t)b->len;
        put_header(b, &m[i], false, 0);
        buf_put(b, m[i].data, m[i].len);
    }
    start = b->len;
    for (size_t i = 0; i < n; i++)
        put_header(b, &m[i], true, local[i]);
    end = b->len;
    buf_put_u32(b, 0x06064b50u);
    buf_put_u64(b, 44);
    buf_put_u32(b, 45 << 16 | 45);
    buf_put_u64(b, 0); /* disks */
    buf_put_u64(b, n);
    buf_put_u64(b, n);
    buf_put_u64(b, end - start);
    buf_put_u64(b, start);
    buf_put_u32(b, 0x07064b50u);
    buf_put_u32(b, 0);
    buf_put_u64(b, end);
    buf_put_u32(b, 1);
    buf_put_u32(b, 0x06054b50u);
    buf_put_u32(b, 0);
    buf_put_u32(b, UINT32_MAX); /* counts */
    buf_put_u64(b, UINT64_MAX); /* bytes and place */
    buf_put_u16(b, 0);
}

static const float values[6] = {1, 2, 3, 4, 5, 6};

static int parse_members(const struct member *m, size_t n, struct buf *b, struct checkpoint **ret,
                         struct err *e)
{
    *b = BUF_INIT;
    put_zip64(b, m, n);
    assert_false(b->failed);
    return checkpoint_parse(b->data, b->len, ret, e);
}

static int parse_list(const char *list, size_t len, struct buf *b, struct checkpoint **ret,
                      struct err *e)
{
    const struct member m[] = {{"x/data.pkl", list, len, 0, 0},
                               {"x/byteorder", "little", 6, 0, 0},
                               {"x/data/0", values, sizeof(values), 0, 0}};

    return parse_members(m, 3, b, ret, e);
}

#define MATRIX TENSOR("FloatStorage", "\6", "\0", "K\2K\3\x86", "K\3K\1\x86")

TEST(reads_views)
{
    static const struct {
        const char *bytes;
        size_t len, count;
        float want[6];
    } cases[] = {
        {L(NAMED(MATRIX)), 6, {1, 2, 3, 4, 5, 6}},
        {L(NAMED(TENSOR("FloatStorage", "\6", "\0", "K\3K\2\x86", "K\1K\3\x86"))),
         6,
         {1, 4, 2, 5, 3, 6}}, /* transposed */
        {L(NAMED(TENSOR("FloatStorage", "\6", "\1", "K\2\x85", "K\3\x85"))),
         2,
         {2, 5}}, /* a column */
        {L(NAMED(TENSOR("FloatStorage", "\6", "\2", "K\2K\2\x86", "K\2K\1\x86"))), 4, {3, 4, 5, 6}},
        {L(NAMED(TENSOR("FloatStorage", "\6", "\5", ")", ")"))), 1, {6}},             /* a number */
        {L(NAMED(TENSOR("FloatStorage", "\6", "\6", "K\0\x85", "K\1\x85"))), 0, {0}}, /* nothing */
        {L(NAMED("ctorch._utils\n_rebuild_parameter\n(" MATRIX "\x88}tR")), 6, {1, 2, 3, 4, 5, 6}},
    };
    float out[6];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct checkpoint *c = NULL;
        struct err e = {0};
        struct buf b;

        assert_ok(parse_list(cases[i].bytes, cases[i].len, &b, &c, &e), e);
        assert_int_equal(checkpoint_count(c), 1);
        assert_false(checkpoint_is_openai(c));
        assert_int_equal(checkpoint_find(c, "a")->count, cases[i].count);
        assert_null(checkpoint_find(c, "b"));
        assert_ok(weight_read(checkpoint_find(c, "a"), out, &e), e);
        assert_memory_equal(out, cases[i].want, cases[i].count * sizeof(float));
        checkpoint_close(c);
        buf_free(&b);
    }
}

static const struct {
    const char *what, *bytes;
    size_t len;
    const char *sentence;
} bad_tensors[] = {
    {"no dictionary", L("K\1."), "no dictionary of tensors"},
    {"no tensors", L("}X\1\0\0\0aK\1s."), "no dictionary of tensors"},
    {"a name that is a number", L("}K\1" MATRIX "s."), "of no valid name"},
    {"a name with a NUL", L("}X\2\0\0\0a\0" MATRIX "s."), "of no valid name"},
    {"twice", L("}X\1\0\0\0a" MATRIX "sX\1\0\0\0a" MATRIX "s."), "'a' is there twice"},
    {"past its storage", L(NAMED(TENSOR("FloatStorage", "\6", "\1", "K\2K\3\x86", "K\3K\1\x86"))),
     "outside of its storage"},
    {"an offset past its storage",
     L(NAMED(TENSOR("FloatStorage", "\6", "\7", "K\0\x85", "K\1\x85"))), "outside of its storage"},
    {"a stride past its storage",
     L(NAMED(TENSOR("FloatStorage", "\6", "\0", "K\2\x85", "K\6\x85"))), "outside of its storage"},
    {"expanded", L(NAMED(TENSOR("FloatStorage", "\6", "\0", "K\x40\x85", "K\0\x85"))),
     "shows values of its storage twice"},
    {"a size that overflows",
     L(NAMED(TENSOR("FloatStorage", "\6", "\0",
                    "\x8a\10\0\0\0\0\0\0\0\x40"
                    "K\x10\x86",
                    "K\0K\0\x86"))),
     "an impossible shape"},
    {"a reach that overflows",
     L(NAMED(TENSOR("FloatStorage", "\6", "\0", "K\5\x85", "\x8a\10\0\0\0\0\0\0\0\x70\x85"))),
     "an impossible shape"},
    {"another number of bytes", L(NAMED(TENSOR("HalfStorage", "\6", "\0", "K\1\x85", "K\1\x85"))),
     "has 24 bytes, not 12"},
    {"dims that are none", L("}(X\4\0\0\0dimsK\1X\20\0\0\0model_state_dict}u."), "of OpenAI's"},
};

TEST(bad_checkpoints)
{
    for (size_t i = 0; i < sizeof(bad_tensors) / sizeof(bad_tensors[0]); i++) {
        struct checkpoint *c = NULL;
        struct err e = {0};
        struct buf b;
        int rc = parse_list(bad_tensors[i].bytes, bad_tensors[i].len, &b, &c, &e);

        if (rc != ERR_MODEL || !strstr(e.msg, bad_tensors[i].sentence))
            print_error("%s: %d, %s\n", bad_tensors[i].what, rc, e.msg);
        assert_int_equal(rc, ERR_MODEL);
        assert_non_null(strstr(e.msg, bad_tensors[i].sentence));
        buf_free(&b);
    }
}

#define LIST L(NAMED(MATRIX)), 0, 0

static const struct {
    struct member member[3];
    size_t n;
    const char *sentence;
} bad_archives[] = {
    {{{"x/data.pkl", LIST}}, 1, "the bytes of tensor 'a' are not in the file"},
    {{{"data.pkl", LIST}}, 1, "no data.pkl"},
    {{{"x/y/data.pkl", LIST}}, 1, "no data.pkl"},
    {{{"x/data.pkl", LIST}, {"y/data.pkl", LIST}}, 2, "two checkpoints"},
    {{{"x/data.pkl", LIST}, {"x/data.pkl", LIST}}, 2, "two members of a name"},
    {{{"x/data.pkl", LIST}, {"x/constants.pkl", LIST}}, 2, "TorchScript"},
    {{{"x/data.pkl", LIST}, {"x/byteorder", "big", 3, 0, 0}}, 2, "big-endian"},
    {{{"x/data.pkl", L(NAMED(MATRIX)), 8, 0}}, 1, "is compressed"},
    {{{"x/data.pkl", L(NAMED(MATRIX)), 0, 1}}, 1, "is encrypted"},
    {{{"x/data.pkl",
       L("\x80\2"
         "cos\nsystem\n."),
       0, 0}},
     1,
     "os.system"},
};

TEST(hostile_archives)
{
    for (size_t i = 0; i < sizeof(bad_archives) / sizeof(bad_archives[0]); i++) {
        struct checkpoint *c = NULL;
        struct err e = {0};
        struct buf b;
        int rc = parse_members(bad_archives[i].member, bad_archives[i].n, &b, &c, &e);

        if (rc != ERR_MODEL || !strstr(e.msg, bad_archives[i].sentence))
            print_error("case %zu: %d, %s\n", i, rc, e.msg);
        assert_int_equal(rc, ERR_MODEL);
        assert_non_null(strstr(e.msg, bad_archives[i].sentence));
        buf_free(&b);
    }
}

/* Every byte of an archive turned over, and every length of it: refused or read, never past it. */
TEST(damaged_archives)
{
    struct checkpoint *c = NULL;
    struct err e = {0};
    struct buf b;

    assert_ok(parse_list(L(NAMED(MATRIX)), &b, &c, &e), e);
    checkpoint_close(c);
    for (size_t i = 0; i < 2 * b.len; i++) {
        size_t len = i < b.len ? i : b.len;
        uint8_t *exact = malloc(len + 1 - (len > 0));
        float out[64];

        assert_non_null(exact);
        memcpy(exact, b.data, len);
        if (i >= b.len)
            exact[i - b.len] ^= 0xff;
        if (checkpoint_parse(exact, len, &c, &e) == 0) {
            assert_true(i >= b.len);
            assert_int_equal(checkpoint_count(c), 1);
            assert_true(checkpoint_at(c, 0)->count <= 6);
            (void)weight_read(checkpoint_at(c, 0), out, &e);
            checkpoint_close(c);
        } else {
            assert_int_equal(e.code, ERR_MODEL);
        }
        free(exact);
    }
    buf_free(&b);
}

TEST(not_archives)
{
    static uint8_t tar[1024] = "pickle";
    struct checkpoint *c = NULL;
    struct err e = {0};

    assert_int_equal(
        checkpoint_parse("\x80\2\x8a\12\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8P\x19.", 15, &c, &e),
        ERR_MODEL);
    assert_non_null(strstr(e.msg, "before 1.6"));
    assert_non_null(strstr(e.msg, "safe_serialization=True"));
    memcpy(tar + 257, "ustar", 6);
    assert_int_equal(checkpoint_parse(tar, sizeof(tar), &c, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "before 1.6"));
    assert_int_equal(checkpoint_parse("version https://git-lfs", 23, &c, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "no PyTorch checkpoint"));
    assert_int_equal(checkpoint_parse("", 0, &c, &e), ERR_MODEL);
    assert_int_equal(checkpoint_open("not/there.bin", &c, &e), ERR_MISSING);
    assert_int_equal(checkpoint_open("/dev/null", &c, &e), ERR_MODEL);
}

/* What Lightning's checkpoints hold beside the tensors: objects of classes, made, filled and called
 * in every way that a pickle knows. */
#define OTHERS                                                                     \
    "X\1\0\0\0ccos\nsystem\nX\4\0\0\0true\x85R"                                    \
    "X\1\0\0\0dcpyannote.audio.core.task\nSpecifications\n)\x81}X\1\0\0\0xK\1sb"   \
    "X\1\0\0\0ecomegaconf\nListConfig\n)R(K\1K\2eK\3a"                             \
    "X\1\0\0\0fccollections\ndefaultdict\nc__builtin__\nint\n\x85R(K\1K\2uK\1K\2s" \
    "X\1\0\0\0gcone\nname\n)R)R"
#define TRAINING(key)     \
    "\x80\2}(" OTHERS key \
    "}X\1\0\0\0a" TENSOR("FloatStorage", "\6", "\0", "K\2\x85", "K\1\x85") "su."

TEST(skips_objects)
{
    static const char *const wrong[] = {"\x80\2\x81.",         "\x80\2ca\nb\n\x81.",
                                        "\x80\2ca\nb\nK\1.R.", "\x80\2ca\nb\nR.",
                                        "\x80\2ca\nb\n(K\1b.", "\x80\2ca\nb\n(K\1"};
    static const char others[] = "\x80\2}(" OTHERS "u.";
    struct pickle *p = NULL;
    struct err e;

    assert_int_equal(pickle_parse(others, sizeof(others) - 1, &p, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "os.system"));
    assert_ok(pickle_parse_skipping(others, sizeof(others) - 1, &p, &e), e);
    for (const char *key = "cdefg"; *key; key++) {
        const struct pickle_value *v = pickle_get(p, pickle_root(p), (char[]){*key, 0});

        assert_non_null(v);
        assert_int_equal(v->kind, PICKLE_OPAQUE);
    }
    pickle_free(p);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        p = NULL;
        if (pickle_parse_skipping(wrong[i], strlen(wrong[i]), &p, &e) == 0)
            assert_int_equal(pickle_root(p)->kind, PICKLE_INT); /* what stood before the end */
        else
            assert_non_null(strstr(e.msg, "damaged"));
        pickle_free(p);
    }
}

TEST(training_checkpoints)
{
    struct buf b = BUF_INIT;
    struct checkpoint *c = NULL;
    float out[2];
    struct err e;

    assert_int_equal(parse_list(L(TRAINING("X\xa\0\0\0state_dict")), &b, &c, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "os.system"));
    assert_ok(checkpoint_parse_training(b.data, b.len, &c, &e), e);
    assert_int_equal(checkpoint_count(c), 1);
    assert_ok(weight_read(checkpoint_find(c, "a"), out, &e), e);
    checkpoint_close(c);
    buf_free(&b);
    assert_int_equal(parse_list(L(TRAINING("X\xb\0\0\0model_state")), &b, &c, &e), ERR_MODEL);
    assert_ok(checkpoint_parse_training(b.data, b.len, &c, &e), e);
    checkpoint_close(c);
    buf_free(&b);
    assert_int_equal(parse_list(L(TRAINING("X\5\0\0\0model")), &b, &c, &e), ERR_MODEL);
    assert_int_equal(checkpoint_parse_training(b.data, b.len, &c, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "no dictionary of tensors"));
    buf_free(&b);
}

TEST_MAIN(NULL, NULL)
