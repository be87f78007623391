#include "workers/models/files/formats/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "workers/models/files/formats/pickle_machine.h"

/* ---- memory */

/* Room for `need` elements of a list that may hold `max`. */
static int grow_list(void **list, uint32_t *capacity, uint32_t need, uint32_t max, size_t size,
                     struct err *err)
{
    uint32_t wanted = *capacity ? *capacity : 4;
    void *p;

    if (need <= *capacity)
        return 0;
    if (need > max)
        return err_set(err, ERR_MODEL, "the checkpoint's list of tensors has more than %u parts",
                       max);
    while (wanted < need)
        wanted *= 2; /* max is far below 2^31 */
    p = realloc(*list, wanted * size);
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint's list of tensors");
    *list = p;
    *capacity = wanted;
    return 0;
}

static int push_old(struct pickle *p, uint32_t value, struct err *err)
{
    int rc = grow_list((void **)&p->stack, &p->stack_cap, p->height + 1, PICKLE_MAX_VALUES,
                       sizeof(*p->stack), err);

    if (rc == 0)
        p->stack[p->height++] = value;
    return rc;
}

int pickle_push(struct pickle *p, struct pickle_value v, struct err *err)
{
    int rc = grow_list((void **)&p->values, &p->value_cap, p->value_count + 1, PICKLE_MAX_VALUES,
                       sizeof(*p->values), err);

    if (rc == 0)
        rc = push_old(p, p->value_count, err);
    if (rc == 0)
        p->values[p->value_count++] = v;
    return rc;
}

int pickle_push_opaque(struct pickle *p, struct err *err)
{
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_OPAQUE}, err);
}

static uint32_t floor_of(const struct pickle *p)
{
    return p->mark_count ? p->marks[p->mark_count - 1] : 0;
}

static int report_pickle_damage(struct err *err)
{
    return err_set(err, ERR_MODEL, "the checkpoint's list of tensors is damaged: fetch it again");
}

int pickle_pop(struct pickle *p, uint32_t *ret, struct err *err)
{
    if (p->height <= floor_of(p))
        return report_pickle_damage(err);
    *ret = p->stack[--p->height];
    return 0;
}

/* The value under the top one that a list's instruction works on. */
static int top_of_kind(struct pickle *p, enum pickle_kind kind, uint32_t *ret, struct err *err)
{
    if (p->height <= floor_of(p))
        return report_pickle_damage(err);
    *ret = p->stack[p->height - 1];
    return p->values[*ret].kind == kind ? 0 : report_pickle_damage(err);
}

static bool opaque_on_top(const struct pickle *p)
{
    return p->height > floor_of(p) && p->values[p->stack[p->height - 1]].kind == PICKLE_OPAQUE;
}

/* ---- brackets, lists, tuples, dictionaries */

static int open_mark(struct pickle *p, struct err *err)
{
    if (p->mark_count == PICKLE_MAX_MARKS)
        return err_set(err, ERR_MODEL, "the checkpoint's list of tensors is nested %d deep",
                       PICKLE_MAX_MARKS);
    p->marks[p->mark_count++] = p->height;
    return 0;
}

/* Closes the bracket: its values are stack[*from, *from + *n), and are off the stack. */
static int close_mark(struct pickle *p, uint32_t *from, uint32_t *n, struct err *err)
{
    if (!p->mark_count)
        return report_pickle_damage(err);
    *from = p->marks[--p->mark_count];
    *n = p->height - *from;
    p->height = *from;
    return 0;
}

/* Stack[from, from + n) behind what list holds. */
static int extend_list(struct pickle *p, uint32_t list, uint32_t from, uint32_t n, struct err *err)
{
    struct pickle_value *v = &p->values[list];
    int rc = grow_list((void **)&v->u.list.item, &v->u.list.capacity, v->u.list.n + n,
                       PICKLE_MAX_VALUES, sizeof(uint32_t), err);

    if (rc != 0 || n == 0)
        return rc;
    memcpy(v->u.list.item + v->u.list.n, p->stack + from, n * sizeof(uint32_t));
    v->u.list.n += n;
    return 0;
}

/* A tuple of the n values from stack[from], which takes their place. */
static int make_tuple(struct pickle *p, uint32_t from, uint32_t n, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_TUPLE};
    int rc = grow_list((void **)&v.u.list.item, &v.u.list.capacity, n, PICKLE_MAX_VALUES,
                       sizeof(uint32_t), err);

    if (rc != 0)
        return rc;
    if (n)
        memcpy(v.u.list.item, p->stack + from, n * sizeof(uint32_t));
    v.u.list.n = n;
    p->height = from;
    rc = pickle_push(p, v, err);
    if (rc != 0)
        free(v.u.list.item);
    return rc;
}

static int tuple_of(struct pickle *p, uint32_t n, struct err *err)
{
    if (p->height - floor_of(p) < n)
        return report_pickle_damage(err);
    return make_tuple(p, p->height - n, n, err);
}

static int tuple_of_mark(struct pickle *p, struct err *err)
{
    uint32_t from = 0, n = 0;
    int rc = close_mark(p, &from, &n, err);

    return rc != 0 ? rc : make_tuple(p, from, n, err);
}

/* APPENDS and SETITEMS: a bracket's values into what lies below it. */
static int extend_of_mark(struct pickle *p, enum pickle_kind kind, struct err *err)
{
    uint32_t from = 0, n = 0, list = 0;
    int rc = close_mark(p, &from, &n, err);

    if (rc == 0 && opaque_on_top(p))
        return 0;
    if (rc == 0)
        rc = top_of_kind(p, kind, &list, err);
    if (rc == 0 && kind == PICKLE_DICT && n % 2)
        rc = report_pickle_damage(err);
    return rc != 0 ? rc : extend_list(p, list, from, n, err);
}

/* APPEND and SETITEM: the n values on top into what lies below them. */
static int extend_by(struct pickle *p, enum pickle_kind kind, uint32_t n, struct err *err)
{
    uint32_t list = 0;
    int rc;

    if (p->height - floor_of(p) < n)
        return report_pickle_damage(err);
    p->height -= n;
    if (opaque_on_top(p))
        return 0;
    rc = top_of_kind(p, kind, &list, err);
    return rc != 0 ? rc : extend_list(p, list, p->height, n, err);
}

/* BUILD sets an object's attributes. Dictionaries of tensors have one, _metadata, that says nothing
 * about the tensors. */
static int drop_attributes(struct pickle *p, struct err *err)
{
    uint32_t attributes, object;
    int rc = pickle_pop(p, &attributes, err);

    if (rc == 0 && opaque_on_top(p))
        return 0;
    return rc != 0 ? rc : top_of_kind(p, PICKLE_DICT, &object, err);
}

/* NEWOBJ: a class and its arguments; both are ignored. */
static int skip_object(struct pickle *p, struct err *err)
{
    uint32_t value;
    int rc = pickle_pop(p, &value, err);

    if (rc == 0)
        rc = pickle_pop(p, &value, err);
    return rc != 0 ? rc : pickle_push_opaque(p, err);
}

static int pop_mark(struct pickle *p, struct err *err)
{
    uint32_t from = 0, n = 0;

    return close_mark(p, &from, &n, err);
}

static int pop_one(struct pickle *p, struct err *err)
{
    uint32_t value;

    return pickle_pop(p, &value, err);
}

/* ---- numbers and text */

static int push_kind(struct pickle *p, enum pickle_kind kind, struct err *err)
{
    return pickle_push(p, (struct pickle_value){.kind = kind}, err);
}

static int push_int(struct pickle *p, int64_t v, struct err *err)
{
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_INT, .u.integer = v}, err);
}

static int push_bool(struct pickle *p, bool v, struct err *err)
{
    return pickle_push(p, (struct pickle_value){.kind = PICKLE_BOOL, .u.integer = v}, err);
}

/* LONG1: a length and as many bytes, little-endian, two's complement. */
static int push_long(struct pickle *p, struct err *err)
{
    uint8_t n = reader_u8(&p->in);
    const uint8_t *b = reader_raw(&p->in, n);
    uint64_t v = 0;

    if (!b && n)
        return report_pickle_damage(err);
    if (n > 8)
        return err_set(err, ERR_MODEL, "the checkpoint has a number of %u bytes", n);
    for (uint32_t i = 0; i < n; i++)
        v |= (uint64_t)b[i] << (8 * i);
    if (n && n < 8 && b[n - 1] & 0x80)
        v |= UINT64_MAX << (8 * n);
    return push_int(p, (int64_t)v, err);
}

/* BINFLOAT, the one number that is big-endian. */
static int push_float(struct pickle *p, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_FLOAT};
    uint64_t bits = __builtin_bswap64(reader_u64(&p->in));

    memcpy(&v.u.real, &bits, sizeof(bits));
    return pickle_push(p, v, err);
}

static int push_text(struct pickle *p, enum pickle_kind kind, uint64_t len, struct err *err)
{
    struct pickle_value v = {.kind = kind};

    if (p->in.failed || len > p->in.len - p->in.pos)
        return report_pickle_damage(err);
    v.u.text.at = (const char *)p->in.data + p->in.pos;
    v.u.text.len = (size_t)len;
    p->in.pos += (size_t)len;
    return pickle_push(p, v, err);
}

/* ---- the memo */

static int memo_put(struct pickle *p, uint32_t slot, struct err *err)
{
    uint32_t before = p->memo_cap;
    int rc;

    if (p->height <= floor_of(p))
        return report_pickle_damage(err);
    if (slot >= PICKLE_MAX_MEMO)
        return err_set(err, ERR_MODEL, "the checkpoint's list of tensors has more than %u parts",
                       PICKLE_MAX_MEMO);
    rc = grow_list((void **)&p->memo, &p->memo_cap, slot + 1, PICKLE_MAX_MEMO, sizeof(*p->memo),
                   err);
    if (rc != 0)
        return rc;
    for (uint32_t i = before; i < p->memo_cap; i++)
        p->memo[i] = PICKLE_UNSET;
    p->memo[slot] = p->stack[p->height - 1];
    return 0;
}

static int memo_get(struct pickle *p, uint32_t slot, struct err *err)
{
    if (slot >= p->memo_cap || p->memo[slot] == PICKLE_UNSET)
        return report_pickle_damage(err);
    return push_old(p, p->memo[slot], err);
}

static int duplicate_top(struct pickle *p, struct err *err)
{
    return p->height > floor_of(p) ? push_old(p, p->stack[p->height - 1], err)
                                   : report_pickle_damage(err);
}

/* ---- names */

static int read_line(struct pickle *p, const char **ret, size_t *len, struct err *err)
{
    const char *at = (const char *)p->in.data + p->in.pos;
    const char *end = memchr(at, '\n', p->in.len - p->in.pos);

    if (!end)
        return report_pickle_damage(err);
    *ret = at;
    *len = (size_t)(end - at);
    p->in.pos += *len + 1;
    return 0;
}

static int global_of_lines(struct pickle *p, struct err *err)
{
    const char *module = NULL, *name = NULL;
    size_t module_len = 0, name_len = 0;
    int rc = read_line(p, &module, &module_len, err);

    if (rc == 0)
        rc = read_line(p, &name, &name_len, err);
    return rc != 0 ? rc : pickle_global(p, module, module_len, name, name_len, err);
}

static int global_of_stack(struct pickle *p, struct err *err)
{
    const struct pickle_value *m, *n;
    uint32_t module = 0, name = 0;
    int rc = pickle_pop(p, &name, err);

    if (rc == 0)
        rc = pickle_pop(p, &module, err);
    if (rc != 0)
        return rc;
    m = &p->values[module];
    n = &p->values[name];
    if (m->kind != PICKLE_TEXT || n->kind != PICKLE_TEXT)
        return report_pickle_damage(err);
    return pickle_global(p, m->u.text.at, m->u.text.len, n->u.text.at, n->u.text.len, err);
}

/* ---- the machine */

static int check_protocol(struct pickle *p, struct err *err)
{
    uint8_t version = reader_u8(&p->in);

    if (version < 2 || version > 5)
        return err_set(err, ERR_MODEL,
                       "the checkpoint is written in pickle protocol %u, not 2 to 5", version);
    return 0;
}

/* Python's names of the instructions are beside them. */
static int step_text(struct pickle *p, uint8_t op, struct err *err)
{
    switch (op) {
    case 'X': /* BINUNICODE */
    case 'T': /* BINSTRING, of Python 2 */
        return push_text(p, PICKLE_TEXT, reader_u32(&p->in), err);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U':  /* SHORT_BINSTRING */
        return push_text(p, PICKLE_TEXT, reader_u8(&p->in), err);
    case 0x8d: /* BINUNICODE8 */
        return push_text(p, PICKLE_TEXT, reader_u64(&p->in), err);
    case 'C': /* SHORT_BINBYTES */
        return push_text(p, PICKLE_BYTES, reader_u8(&p->in), err);
    case 'B': /* BINBYTES */
        return push_text(p, PICKLE_BYTES, reader_u32(&p->in), err);
    default:
        return err_set(err, ERR_MODEL,
                       "this checkpoint wants more than tensors (pickle instruction 0x%02x): "
                       "refused",
                       op);
    }
}

static int step_value(struct pickle *p, uint8_t op, struct err *err)
{
    switch (op) {
    case 'N': /* NONE */
        return push_kind(p, PICKLE_NONE, err);
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push_bool(p, op == 0x88, err);
    case 'J': /* BININT */
        return push_int(p, (int32_t)reader_u32(&p->in), err);
    case 'K': /* BININT1 */
        return push_int(p, reader_u8(&p->in), err);
    case 'M': /* BININT2 */
        return push_int(p, reader_u16(&p->in), err);
    case 0x8a: /* LONG1 */
        return push_long(p, err);
    case 'G': /* BINFLOAT */
        return push_float(p, err);
    case ']': /* EMPTY_LIST */
        return push_kind(p, PICKLE_LIST, err);
    case '}': /* EMPTY_DICT */
        return push_kind(p, PICKLE_DICT, err);
    case ')': /* EMPTY_TUPLE */
        return push_kind(p, PICKLE_TUPLE, err);
    default:
        return step_text(p, op, err);
    }
}

static int execute_opcode(struct pickle *p, uint8_t op, struct err *err)
{
    switch (op) {
    case 0x80: /* PROTO */
        return check_protocol(p, err);
    case 0x95: /* FRAME: its length bounds nothing that the input's does not */
        (void)reader_u64(&p->in);
        return 0;
    case '(': /* MARK */
        return open_mark(p, err);
    case 't': /* TUPLE */
        return tuple_of_mark(p, err);
    case 0x85: /* TUPLE1, 2, 3 */
    case 0x86:
    case 0x87:
        return tuple_of(p, op - 0x84u, err);
    case 'a': /* APPEND */
        return extend_by(p, PICKLE_LIST, 1, err);
    case 'e': /* APPENDS */
        return extend_of_mark(p, PICKLE_LIST, err);
    case 's': /* SETITEM */
        return extend_by(p, PICKLE_DICT, 2, err);
    case 'u': /* SETITEMS */
        return extend_of_mark(p, PICKLE_DICT, err);
    case 'q': /* BINPUT */
        return memo_put(p, reader_u8(&p->in), err);
    case 'r': /* LONG_BINPUT */
        return memo_put(p, reader_u32(&p->in), err);
    case 0x94: /* MEMOIZE */
        return memo_put(p, p->memo_next++, err);
    case 'h': /* BINGET */
        return memo_get(p, reader_u8(&p->in), err);
    case 'j': /* LONG_BINGET */
        return memo_get(p, reader_u32(&p->in), err);
    case '0': /* POP */
        return pop_one(p, err);
    case '1': /* POP_MARK */
        return pop_mark(p, err);
    case '2': /* DUP */
        return duplicate_top(p, err);
    case 'c': /* GLOBAL */
        return global_of_lines(p, err);
    case 0x93: /* STACK_GLOBAL */
        return global_of_stack(p, err);
    case 'Q': /* BINPERSID */
        return pickle_persistent(p, err);
    case 'R': /* REDUCE */
        return pickle_reduce(p, err);
    case 'b': /* BUILD */
        return drop_attributes(p, err);
    case 0x81: /* NEWOBJ */
        return p->skips ? skip_object(p, err) : step_value(p, op, err);
    default:
        return step_value(p, op, err);
    }
}

static int execute_pickle(struct pickle *p, struct err *err)
{
    for (;;) {
        uint8_t op = reader_u8(&p->in);
        int rc;

        if (p->in.failed)
            return report_pickle_damage(err);
        if (op == '.') /* STOP */
            return p->mark_count ? report_pickle_damage(err) : pickle_pop(p, &p->root, err);
        rc = execute_opcode(p, op, err);
        if (rc != 0)
            return rc;
    }
}

static int parse_pickle(const void *data, size_t len, bool skips, struct pickle **ret,
                        struct err *err)
{
    struct pickle *p;
    int rc;

    if (len > PICKLE_MAX_BYTES)
        return err_set(err, ERR_MODEL, "the checkpoint's list of tensors has %zu bytes, over %u",
                       len, PICKLE_MAX_BYTES);
    p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint");
    p->in = reader_of(data, len);
    p->skips = skips;
    rc = execute_pickle(p, err);
    if (rc != 0) {
        pickle_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

int pickle_parse(const void *data, size_t len, struct pickle **ret, struct err *err)
{
    return parse_pickle(data, len, false, ret, err);
}

int pickle_parse_skipping(const void *data, size_t len, struct pickle **ret, struct err *err)
{
    return parse_pickle(data, len, true, ret, err);
}

void pickle_free(struct pickle *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->value_count; i++) {
        struct pickle_value *v = &p->values[i];

        if (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE || v->kind == PICKLE_DICT)
            free(v->u.list.item);
        else if (v->kind == PICKLE_TENSOR)
            free(v->u.tensor);
    }
    free(p->values);
    free(p->stack);
    free(p->memo);
    free(p);
}

/* ---- what was read */

const struct pickle_value *pickle_root(const struct pickle *p) { return &p->values[p->root]; }

const struct pickle_value *pickle_at(const struct pickle *p, uint32_t value)
{
    return &p->values[value];
}

bool pickle_is_text(const struct pickle_value *v, const char *text)
{
    return v->kind == PICKLE_TEXT && v->u.text.len == strlen(text) &&
           memcmp(v->u.text.at, text, v->u.text.len) == 0;
}

const struct pickle_value *pickle_get(const struct pickle *p, const struct pickle_value *dict,
                                      const char *key)
{
    for (uint32_t i = 0; dict->kind == PICKLE_DICT && i < dict->u.list.n; i += 2)
        if (pickle_is_text(pickle_at(p, dict->u.list.item[i]), key))
            return pickle_at(p, dict->u.list.item[i + 1]);
    return NULL;
}
