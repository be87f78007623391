/* Which model a folder holds: a hash of the files that decide results. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "workers/models/files/adapter.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"

_Static_assert(MODEL_HASH_LEN == HASH_HEX_LEN, "a model's hash is one of base/hash.h");

struct hasher {
    struct hash *hash;
    const char *dir;
    struct err *err;
};

/* ERR_MISSING when it is not there. */
static int open_file(const char *path, int *ret, uint64_t *ret_size, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_sys(err, errno, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_MODEL, "%s is not a file", path);
    if (rc != 0) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    *ret = fd;
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

static int put_bytes(struct hash *h, int fd, uint64_t size, const char *path, struct err *err)
{
    uint64_t bytes;
    int rc = hash_put_file(h, fd, size, &bytes, err);

    if (rc != 0)
        return err_prefix(err, "%s", path);
    return bytes == size ? 0 : err_set(err, ERR_MODEL, "%s became shorter while it was read", path);
}

/* Name, size and bytes of one file; ERR_MISSING when it is not there. */
static int hash_file(struct hasher *h, const char *name)
{
    struct buf head = BUF_INIT;
    char path[PATH_MAX];
    uint64_t size;
    int fd, rc;

    if (snprintf(path, sizeof(path), "%s/%s", h->dir, name) >= (int)sizeof(path))
        return err_set(h->err, ERR_MODEL, "the path of %s is too long", name);
    rc = open_file(path, &fd, &size, h->err);
    if (rc != 0)
        return rc;
    buf_put_str(&head, name);
    buf_put_u64(&head, size);
    if (head.failed)
        rc = err_set(h->err, ERR_NOMEM, "no memory to read %s", path);
    else
        hash_put(h->hash, head.data, head.len);
    if (rc == 0)
        rc = put_bytes(h->hash, fd, size, path, h->err);
    buf_free(&head);
    close(fd);
    return rc;
}

/* The index, if there is one, and every file of weights. */
static int hash_weights(struct hasher *h)
{
    struct weight_layout l = {0};
    int rc = weight_layout_find(h->dir, &l, h->err);

    if (rc == 0 && l.index)
        rc = hash_file(h, l.index);
    for (uint32_t i = 0; rc == 0 && i < l.file_count; i++)
        rc = hash_file(h, l.file[i]);
    weight_layout_free(&l);
    return rc;
}

/* The files that an OpenAI checkpoint and a CTranslate2 folder may lack. */
static bool may_lack(enum weight_format format, const char *name)
{
    return (format == WEIGHT_FORMAT_OPENAI && strcmp(name, "config.json") == 0) ||
           (format == WEIGHT_FORMAT_CT2 && strcmp(name, "tokenizer.json") == 0);
}

static int not_there(const struct hasher *h, enum weight_format format, const char *name)
{
    if (format == WEIGHT_FORMAT_OPENAI)
        return err_set(h->err, ERR_MODEL,
                       "%s holds a checkpoint of OpenAI's but no %s, which such a checkpoint "
                       "lacks: it must lie beside it, from the same model's Hugging Face "
                       "folder (openai/whisper-...)",
                       h->dir, name);
    return err_set(h->err, ERR_MODEL, "%s has no %s; fetch the model's files again", h->dir, name);
}

/* The lists of tokens that CTranslate2's folders have, and which others may hold unread. */
static int hash_lists(struct hasher *h)
{
    static const char *const names[] = {"vocabulary.json", "vocabulary.txt"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int rc = hash_file(h, names[i]);

        if (rc && rc != ERR_MISSING)
            return rc;
    }
    return 0;
}

static int hash_all(struct hasher *h, const struct model_file *files, size_t n, bool weights)
{
    enum weight_format format = weights ? weight_layout_format(h->dir) : WEIGHT_FORMAT_NONE;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        rc = hash_file(h, files[i].name);
        if (rc == ERR_MISSING && (files[i].optional || may_lack(format, files[i].name)))
            continue;
        if (rc == ERR_MISSING)
            return not_there(h, format, files[i].name);
        if (rc)
            return rc;
    }
    rc = format == WEIGHT_FORMAT_CT2 ? hash_lists(h) : 0;
    return rc == 0 && weights ? hash_weights(h) : rc;
}

/* A file that is not there, or not for us, makes the model one that cannot be used. */
static int mark_model_unusable(int rc, struct err *err)
{
    return rc == ERR_DENIED || rc == ERR_MISSING ? (err->code = ERR_MODEL) : rc;
}

int model_dir_hash_files(const char *dir, const struct model_file *files, size_t n, bool weights,
                         char ret[MODEL_HASH_LEN], struct err *err)
{
    struct hasher h = {hash_new(), dir, err};
    uint8_t hash[HASH_BYTES];
    int rc;

    if (!h.hash)
        return err_set(err, ERR_NOMEM, "no memory to read %s", dir);
    rc = hash_all(&h, files, n, weights);
    if (rc == 0) {
        hash_get(h.hash, hash);
        hash_hex(hash, ret);
    }
    hash_free(h.hash);
    return mark_model_unusable(rc, err);
}

int model_dir_hash_file(const char *file, char ret[MODEL_HASH_LEN], struct err *err)
{
    struct hash *h = hash_new();
    uint8_t hash[HASH_BYTES];
    uint64_t size = 0;
    int fd = -1, rc;

    if (!h)
        return err_set(err, ERR_NOMEM, "no memory to read %s", file);
    rc = open_file(file, &fd, &size, err);
    if (rc == 0)
        rc = put_bytes(h, fd, size, file, err);
    if (rc == 0) {
        hash_get(h, hash);
        hash_hex(hash, ret);
    }
    if (fd >= 0)
        close(fd);
    hash_free(h);
    return mark_model_unusable(rc, err);
}

/* The adapter's two files and the hash of its base model. */
static int hash_adapter(const char *dir, char ret[MODEL_HASH_LEN], struct err *err)
{
    struct hasher h = {hash_new(), dir, err};
    char base[MODEL_HASH_LEN];
    uint8_t hash[HASH_BYTES];
    struct adapter a = {0};
    int rc = h.hash ? 0 : err_set(err, ERR_NOMEM, "no memory to read %s", dir);

    if (rc == 0)
        rc = adapter_read(dir, &a, err);
    if (rc == 0)
        rc = hash_file(&h, ADAPTER_CONFIG);
    if (rc == 0)
        rc = hash_file(&h, a.file);
    if (rc == 0)
        rc = model_dir_hash(a.base, base, err);
    if (rc == 0) {
        hash_put(h.hash, base, sizeof(base));
        hash_get(h.hash, hash);
        hash_hex(hash, ret);
    }
    adapter_free(&a);
    hash_free(h.hash);
    return mark_model_unusable(rc, err);
}

int model_dir_hash(const char *dir, char ret[MODEL_HASH_LEN], struct err *err)
{
    static const struct model_file files[] = {{"config.json", false},
                                              {"generation_config.json", true},
                                              {"preprocessor_config.json", true},
                                              {"tokenizer.json", false},
                                              /* Sentence encoders have these, too. */
                                              {"modules.json", true},
                                              {"1_Pooling/config.json", true},
                                              {"sentence_bert_config.json", true},
                                              {"config_sentence_transformers.json", true}};

    if (weight_layout_format(dir) == WEIGHT_FORMAT_ADAPTER)
        return hash_adapter(dir, ret, err);
    if (weight_layout_format(dir) == WEIGHT_FORMAT_GGML) /* a file with everything in it */
        return model_dir_hash_file(dir, ret, err);
    return model_dir_hash_files(dir, files, sizeof(files) / sizeof(files[0]), true, ret, err);
}
