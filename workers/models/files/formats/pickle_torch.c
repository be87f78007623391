/* The names that a checkpoint may use, and their meanings. Nothing here calls anything. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/models/files/formats/pickle_machine.h"

enum { GLOBAL_DICT, GLOBAL_TENSOR, GLOBAL_PARAMETER, GLOBAL_STORAGE };

/* GLOBAL_STORAGE and above: a storage type each, GLOBAL_STORAGE + enum pickle_storage_type. */
static const struct {
    const char *module, *name;
    uint32_t global;
} globals[] = {
    {"collections", "OrderedDict", GLOBAL_DICT},
    {"torch._utils", "_rebuild_tensor_v2", GLOBAL_TENSOR},
    {"torch._utils", "_rebuild_parameter", GLOBAL_PARAMETER},
    {"torch", "FloatStorage", GLOBAL_STORAGE + PICKLE_FLOAT32},
    {"torch", "HalfStorage", GLOBAL_STORAGE + PICKLE_FLOAT16},
    {"torch", "BFloat16Storage", GLOBAL_STORAGE + PICKLE_BFLOAT16},
    {"torch", "DoubleStorage", GLOBAL_STORAGE + PICKLE_FLOAT64},
    {"torch", "LongStorage", GLOBAL_STORAGE + PICKLE_INT64},
    {"torch", "IntStorage", GLOBAL_STORAGE + PICKLE_INT32},
    {"torch", "ShortStorage", GLOBAL_STORAGE + PICKLE_INT16},
    {"torch", "CharStorage", GLOBAL_STORAGE + PICKLE_INT8},
    {"torch", "ByteStorage", GLOBAL_STORAGE + PICKLE_UINT8},
    {"torch", "BoolStorage", GLOBAL_STORAGE + PICKLE_BOOLEAN},
};

static bool text_equals(const char *text, const char *bytes, size_t len)
{
    return strlen(text) == len && memcmp(text, bytes, len) == 0;
}

int pickle_global(struct pickle *p, const char *module, size_t module_len, const char *name,
                  size_t name_len, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_GLOBAL};
    char *m, *n;

    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
        if (text_equals(globals[i].module, module, module_len) &&
            text_equals(globals[i].name, name, name_len)) {
            v.u.global = globals[i].global;
            return pickle_push(p, v, err);
        }
    }
    if (p->skips)
        return pickle_push_opaque(p, err);
    m = utf8_display(module, module_len < 100 ? module_len : 100);
    n = utf8_display(name, name_len < 100 ? name_len : 100);
    err_set(err, ERR_MODEL,
            "this checkpoint wants to run code: %.160s.%.160s. Refused, and nothing of it was run; "
            "only checkpoints of tensors are read",
            m ? m : "?", n ? n : "?");
    free(m);
    free(n);
    return ERR_MODEL;
}

static int bad_tensor(struct err *err)
{
    return err_set(err, ERR_MODEL, "the checkpoint describes a tensor that is none");
}

static bool is_count(const struct pickle_value *v)
{
    return v->kind == PICKLE_INT && v->u.integer >= 0;
}

/* The i-th part of a tuple that has it. */
static const struct pickle_value *find_tuple_item(const struct pickle *p,
                                                  const struct pickle_value *tuple, uint32_t i)
{
    return pickle_at(p, tuple->u.list.item[i]);
}

/* ("storage", type, key, device, elements): the bytes lie in the archive's data/KEY. Torch may add
 * a sixth part, a view, which has not been written since 0.4. */
int pickle_persistent(struct pickle *p, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_STORAGE};
    const struct pickle_value *id, *type, *key, *count;
    uint32_t index = 0;
    int rc = pickle_pop(p, &index, err);

    if (rc != 0)
        return rc;
    id = pickle_at(p, index);
    if (id->kind != PICKLE_TUPLE || id->u.list.n != 5 ||
        !pickle_is_text(find_tuple_item(p, id, 0), "storage"))
        return err_set(err, ERR_MODEL, "the checkpoint refers to something that is no storage");
    type = find_tuple_item(p, id, 1);
    key = find_tuple_item(p, id, 2);
    count = find_tuple_item(p, id, 4);
    if (type->kind != PICKLE_GLOBAL || type->u.global < GLOBAL_STORAGE ||
        key->kind != PICKLE_TEXT || !is_count(count))
        return err_set(err, ERR_MODEL, "the checkpoint describes a storage that is none");
    v.u.storage.key = id->u.list.item[2];
    v.u.storage.type = (enum pickle_storage_type)(type->u.global - GLOBAL_STORAGE);
    v.u.storage.count = (uint64_t)count->u.integer;
    return pickle_push(p, v, err);
}

static int read_counts(const struct pickle *p, const struct pickle_value *tuple,
                       uint64_t ret[PICKLE_MAX_RANK], struct err *err)
{
    for (uint32_t i = 0; i < tuple->u.list.n; i++) {
        if (!is_count(find_tuple_item(p, tuple, i)))
            return bad_tensor(err);
        ret[i] = (uint64_t)find_tuple_item(p, tuple, i)->u.integer;
    }
    return 0;
}

/* _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks, metadata = None). */
static int push_tensor(struct pickle *p, const struct pickle_value *args, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_TENSOR};
    const struct pickle_value *sizes, *strides;
    int rc;

    if (args->u.list.n < 6 || args->u.list.n > 7 ||
        find_tuple_item(p, args, 0)->kind != PICKLE_STORAGE ||
        !is_count(find_tuple_item(p, args, 1)))
        return bad_tensor(err);
    sizes = find_tuple_item(p, args, 2);
    strides = find_tuple_item(p, args, 3);
    if (sizes->kind != PICKLE_TUPLE || strides->kind != PICKLE_TUPLE ||
        sizes->u.list.n != strides->u.list.n || sizes->u.list.n > PICKLE_MAX_RANK)
        return bad_tensor(err);
    v.u.tensor = calloc(1, sizeof(*v.u.tensor));
    if (!v.u.tensor)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint's list of tensors");
    v.u.tensor->storage = args->u.list.item[0];
    v.u.tensor->offset = (uint64_t)find_tuple_item(p, args, 1)->u.integer;
    v.u.tensor->rank = sizes->u.list.n;
    rc = read_counts(p, sizes, v.u.tensor->dim, err);
    if (rc == 0)
        rc = read_counts(p, strides, v.u.tensor->stride, err);
    if (rc == 0)
        rc = pickle_push(p, v, err);
    if (rc != 0)
        free(v.u.tensor);
    return rc;
}

/* _rebuild_parameter(tensor, requires_grad, hooks): the tensor. Pushed as the same value would be
 * twice in the table, so it is copied. */
static int push_parameter(struct pickle *p, const struct pickle_value *args, struct err *err)
{
    struct pickle_value v = {.kind = PICKLE_TENSOR};
    int rc;

    if (args->u.list.n != 3 || find_tuple_item(p, args, 0)->kind != PICKLE_TENSOR)
        return bad_tensor(err);
    v.u.tensor = malloc(sizeof(*v.u.tensor));
    if (!v.u.tensor)
        return err_set(err, ERR_NOMEM, "out of memory for a checkpoint's list of tensors");
    *v.u.tensor = *find_tuple_item(p, args, 0)->u.tensor;
    rc = pickle_push(p, v, err);
    if (rc != 0)
        free(v.u.tensor);
    return rc;
}

int pickle_reduce(struct pickle *p, struct err *err)
{
    const struct pickle_value *f, *args;
    uint32_t args_index = 0, f_index = 0;
    int rc = pickle_pop(p, &args_index, err);

    if (rc == 0)
        rc = pickle_pop(p, &f_index, err);
    if (rc != 0)
        return rc;
    f = pickle_at(p, f_index);
    args = pickle_at(p, args_index);
    if (f->kind == PICKLE_OPAQUE)
        return pickle_push_opaque(p, err);
    if (f->kind != PICKLE_GLOBAL || args->kind != PICKLE_TUPLE)
        return err_set(err, ERR_MODEL, "the checkpoint calls something that is no function");
    switch (f->u.global) {
    case GLOBAL_TENSOR:
        return push_tensor(p, args, err);
    case GLOBAL_PARAMETER:
        return push_parameter(p, args, err);
    case GLOBAL_DICT:
        if (args->u.list.n == 0)
            return pickle_push(p, (struct pickle_value){.kind = PICKLE_DICT}, err);
        if (p->skips)
            return pickle_push_opaque(p, err);
        return err_set(err, ERR_MODEL, "the checkpoint has a dictionary of another kind");
    default:
        return err_set(err, ERR_MODEL, "the checkpoint makes a storage out of nothing");
    }
}
