/* workers/wire/fields.h - messages from lists of their fields.
 *
 * One table describes a message: its members, how they are written, and their bounds. Writing,
 * reading, checking and freeing use this table, so that none of them can forget a field. Every
 * message of the program's pipes and sockets is made so, but for plain audio.
 *
 * On the wire all is little-endian. One rule of ownership: the strings and arrays of a message that
 * was read belong to it, each allocated by itself, and fields_free frees them. A message that is
 * only written may borrow them.
 *
 * A reader believes nothing: each value is held against its bounds, and a length or count against
 * the bytes that are really there before memory is taken for it. Rules between fields are the
 * message's `holds`. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_WIRE_FIELDS_H
#define NIGHTSHIFT_WORKERS_WIRE_FIELDS_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum field_kind {
    FIELD_IS_U8,
    FIELD_IS_U32,
    FIELD_IS_U64,
    FIELD_IS_I64,
    FIELD_IS_F32, /* never NaN or infinite */
    FIELD_IS_BOOL,
    FIELD_IS_CODE,   /* an int of 32 bits */
    FIELD_IS_SPAN,   /* two int64_t, the second not below the first */
    FIELD_IS_STRING, /* char *, NUL-terminated; on the wire its length and bytes */
    FIELD_IS_CHARS,  /* the same as an array within the struct */
    FIELD_IS_BYTES,  /* a pointer and a size_t; NULs are well */
    FIELD_IS_HEAD,   /* the same as an array within the struct */
    FIELD_IS_FIXED,  /* an array of bytes within the struct, without a length */
    FIELD_IS_STRUCT, /* within the struct: its fields follow */
    FIELD_IS_ONE,    /* a pointer to a struct, or NULL: a bool, and its fields */
    FIELD_IS_ARRAY,  /* a pointer to structs and a uint32_t; on the wire the count, then they */
    FIELD_IS_UNIT,   /* float * of an array's element, see FIELD_UNIT */
    FIELD_IS_U8S,    /* a pointer to a block of uint8_t, as long as the product of two others */
    FIELD_IS_F32S,   /* the same of floats */
    FIELD_IS_REST,   /* nothing: but what follows is there only if that uint32_t is not 0 */
};

struct field {
    enum field_kind kind;
    bool utf8;       /* STRING: it must be valid */
    bool optional;   /* STRING, UNIT: a bool before it says whether there is one, else NULL */
    uint16_t offset; /* of the member */
    uint16_t by;     /* of another: SPAN its end, BYTES, HEAD the length, ARRAY the count, UNIT and
                        blocks a factor of the length */
    uint16_t by_too; /* blocks: the other factor */
    uint16_t stride; /* ARRAY, ONE: sizeof of what is pointed to */
    uint16_t of_count;
    const struct field *of; /* STRUCT, ONE, ARRAY: its fields */
    float low, high;        /* F32 */
    int64_t least;          /* whole numbers */
    uint64_t most;          /* whole numbers; bytes of strings, CHARS with its NUL; elements */
};

/* A kind of message. */
struct fields {
    const char *name; /* for sentences: "LEASE" */
    size_t size;      /* of its struct */
    const struct field *list;
    size_t count;
    bool (*holds)(const void *m); /* the rules between fields that are well alone; NULL: none */
};

void fields_put(struct buf *out, const struct fields *k, const void *m);
/* ret: a struct of k->size. 0, or ERR_PROTOCOL, ERR_NOMEM with *ret zeroed. */
int fields_get(const uint8_t *data, size_t len, const struct fields *k, void *ret, struct err *err);
/* Whether a reader would accept a message that was built here; its memory must be valid. */
bool fields_hold(const struct fields *k, const void *m);
void fields_free(const struct fields *k, void *m); /* and zeroes it; a zeroed one is fine */

/* The same for what is kept: whole numbers take as few bytes as they need (buf.h, packed), and the
 * end of a span is written as its length. A negative number takes ten bytes. */
void fields_pack(struct buf *out, const struct fields *k, const void *m);
int fields_unpack(const uint8_t *data, size_t len, const struct fields *k, void *ret,
                  struct err *err);

/* The same as functions of a message's own type. */
#define FIELDS_PUT(name, tag, k) \
    static inline void name(struct buf *out, const struct tag *m) { fields_put(out, k, m); }
#define FIELDS_GET(name, tag, k)                                                              \
    static inline int name(const uint8_t *data, size_t len, struct tag *ret, struct err *err) \
    {                                                                                         \
        return fields_get(data, len, k, ret, err);                                            \
    }
#define FIELDS_FREE(name, tag, k) \
    static inline void name(struct tag *m) { fields_free(k, m); }

/* ---- the rows of a table: FIELD_X(struct's tag, member, bounds). A member of another type than X
 * takes does not compile. */

#define FIELD_(is, at, ...)                                \
    {                                                      \
        .kind = FIELD_IS_##is, .offset = (at), __VA_ARGS__ \
    }
/* The offset of a member of this type; of one that points to it. */
#define FIELD_AT_(tag, m, type) _Generic(&((struct tag *)0)->m, type * : offsetof(struct tag, m))
#define FIELD_TO_(tag, m, type) \
    _Generic(((struct tag *)0)->m, type * : offsetof(struct tag, m), \
                                   const type * : offsetof(struct tag, m))
#define FIELD_SIZE_(tag, m) sizeof(((struct tag *)0)->m)
#define FIELD_COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define FIELD_LIST_(list) .of = (list), .of_count = FIELD_COUNT(list)

#define FIELDS(label, tag, fields, rules)                             \
    {                                                                 \
        label, sizeof(struct tag), fields, FIELD_COUNT(fields), rules \
    }

#define FIELD_U8(tag, m, hi) FIELD_(U8, FIELD_AT_(tag, m, uint8_t), .most = (hi))
#define FIELD_U32(tag, m, lo, hi) \
    FIELD_(U32, FIELD_AT_(tag, m, uint32_t), .least = (lo), .most = (hi))
#define FIELD_U64(tag, m, hi) FIELD_(U64, FIELD_AT_(tag, m, uint64_t), .most = (hi))
#define FIELD_I64(tag, m, lo, hi) \
    FIELD_(I64, FIELD_AT_(tag, m, int64_t), .least = (lo), .most = (hi))
#define FIELD_F32(tag, m, lo, hi) FIELD_(F32, FIELD_AT_(tag, m, float), .low = (lo), .high = (hi))
#define FIELD_BOOL(tag, m) FIELD_(BOOL, FIELD_AT_(tag, m, bool), .most = 1)
#define FIELD_CODE(tag, m, lo, hi) \
    FIELD_(CODE, FIELD_AT_(tag, m, int), .least = (lo), .most = (uint64_t)(hi))
#define FIELD_SPAN(tag, from, to, hi) \
    FIELD_(SPAN, FIELD_AT_(tag, from, int64_t), .by = FIELD_AT_(tag, to, int64_t), .most = (hi))
#define FIELD_NAME(tag, m, hi) FIELD_(STRING, FIELD_TO_(tag, m, char), .most = (hi))
#define FIELD_TEXT(tag, m, hi) FIELD_(STRING, FIELD_TO_(tag, m, char), .most = (hi), .utf8 = true)
#define FIELD_MAYBE_NAME(tag, m, hi) \
    FIELD_(STRING, FIELD_TO_(tag, m, char), .most = (hi), .optional = true)
#define FIELD_CHARS(tag, m) FIELD_(CHARS, offsetof(struct tag, m), .most = FIELD_SIZE_(tag, m))
#define FIELD_BYTES(tag, m, n, hi) \
    FIELD_(BYTES, FIELD_TO_(tag, m, void), .by = FIELD_AT_(tag, n, size_t), .most = (hi))
#define FIELD_HEAD(tag, m, n)                                              \
    FIELD_(HEAD, offsetof(struct tag, m), .by = FIELD_AT_(tag, n, size_t), \
           .most = FIELD_SIZE_(tag, m))
#define FIELD_FIXED(tag, m) FIELD_(FIXED, offsetof(struct tag, m), .most = FIELD_SIZE_(tag, m))
#define FIELD_STRUCT(tag, m, fields) FIELD_(STRUCT, offsetof(struct tag, m), FIELD_LIST_(fields))
#define FIELD_ONE(tag, m, fields) \
    FIELD_(ONE, offsetof(struct tag, m), .stride = FIELD_SIZE_(tag, m[0]), FIELD_LIST_(fields))
#define FIELD_ARRAY(tag, m, n, hi, fields)                                    \
    FIELD_(ARRAY, offsetof(struct tag, m), .by = FIELD_AT_(tag, n, uint32_t), \
           .stride = FIELD_SIZE_(tag, m[0]), .most = (hi), FIELD_LIST_(fields))
/* A unit vector in an array's element, with as many values as the uint32_t `size` of the struct
 * that has the array. The vectors stand on the wire behind all of its elements. */
#define FIELD_UNIT(tag, m, owner, size) \
    FIELD_(UNIT, FIELD_TO_(tag, m, float), .by = FIELD_AT_(owner, size, uint32_t))
#define FIELD_MAYBE_UNIT(tag, m, owner, size) \
    FIELD_(UNIT, FIELD_TO_(tag, m, float), .by = FIELD_AT_(owner, size, uint32_t), .optional = true)
/* Blocks of n * k values. */
#define FIELD_U8S(tag, m, n, k)                                                \
    FIELD_(U8S, FIELD_TO_(tag, m, uint8_t), .by = FIELD_AT_(tag, n, uint32_t), \
           .by_too = FIELD_AT_(tag, k, uint32_t))
#define FIELD_F32S(tag, m, n, k)                                              \
    FIELD_(F32S, FIELD_TO_(tag, m, float), .by = FIELD_AT_(tag, n, uint32_t), \
           .by_too = FIELD_AT_(tag, k, uint32_t))
#define FIELD_REST_IF(tag, m) FIELD_(REST, FIELD_AT_(tag, m, uint32_t), .most = 0)

#endif
