/* Which model a folder holds: a hash of the files that decide results. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buf.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"

struct hasher {
    XXH3_state_t *state;
    uint8_t *chunk;
    const char *dir;
    struct err *err;
};

#define CHUNK_BYTES (1u << 20)

/* Name, size and bytes of one file; ERR_MISSING when it is not there. */
static int hash_file(struct hasher *h, const char *name)
{
    struct buf head = BUF_INIT;
    char path[PATH_MAX];
    struct stat st;
    uint64_t left;
    int fd = -1, rc = 0;

    if (snprintf(path, sizeof(path), "%s/%s", h->dir, name) >= (int)sizeof(path))
        return err_set(h->err, ERR_MODEL, "the path of %s is too long", name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        rc = err_sys(h->err, errno, "%s", path);
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        rc = err_set(h->err, ERR_MODEL, "%s is not a file", path);
        goto out;
    }
    left = (uint64_t)st.st_size;
    buf_put_str(&head, name);
    buf_put_u64(&head, left);
    if (head.failed) {
        rc = err_set(h->err, ERR_NOMEM, "no memory to read %s", path);
        goto out;
    }
    XXH3_128bits_update(h->state, head.data, head.len);
    while (left) {
        ssize_t n = read(fd, h->chunk, left < CHUNK_BYTES ? left : CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = n < 0 ? err_sys(h->err, errno, "%s", path)
                       : err_set(h->err, ERR_MODEL, "%s became shorter while it was read", path);
            goto out;
        }
        XXH3_128bits_update(h->state, h->chunk, (size_t)n);
        left -= (uint64_t)n;
    }
out:
    buf_free(&head);
    if (fd >= 0)
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

static int hash_all(struct hasher *h, const struct model_file *files, size_t n, bool weights)
{
    bool openai = weights && weight_layout_is_openai(h->dir);

    for (size_t i = 0; i < n; i++) {
        int rc = hash_file(h, files[i].name);
        if (rc == ERR_MISSING &&
            (files[i].optional || (openai && strcmp(files[i].name, "config.json") == 0)))
            continue;
        if (rc == ERR_MISSING && openai)
            return err_set(h->err, ERR_MODEL,
                           "%s holds a checkpoint of OpenAI's but no %s, which such a checkpoint "
                           "lacks: it must lie beside it, from the same model's Hugging Face "
                           "folder (openai/whisper-...)",
                           h->dir, files[i].name);
        if (rc == ERR_MISSING)
            return err_set(h->err, ERR_MODEL, "%s has no %s; fetch the model's files again", h->dir,
                           files[i].name);
        if (rc)
            return rc;
    }
    return weights ? hash_weights(h) : 0;
}

int model_dir_hash_files(const char *dir, const struct model_file *files, size_t n, bool weights,
                         char ret[MODEL_HASH_LEN], struct err *err)
{
    struct hasher h = {.dir = dir, .err = err};
    XXH128_canonical_t digest;
    int rc;

    h.state = XXH3_createState();
    h.chunk = malloc(CHUNK_BYTES);
    if (!h.state || !h.chunk) {
        rc = err_set(err, ERR_NOMEM, "no memory to read %s", dir);
        goto out;
    }
    XXH3_128bits_reset(h.state);
    if ((rc = hash_all(&h, files, n, weights)))
        goto out;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(h.state));
    for (size_t i = 0; i < 16; i++)
        snprintf(ret + 2 * i, MODEL_HASH_LEN - 2 * i, "%02x", digest.digest[i]);
out:
    XXH3_freeState(h.state);
    free(h.chunk);
    if (rc == ERR_DENIED || rc == ERR_MISSING)
        rc = err->code = ERR_MODEL;
    return rc;
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

    return model_dir_hash_files(dir, files, sizeof(files) / sizeof(files[0]), true, ret, err);
}
