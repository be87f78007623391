/* Any bytes as a WAV file whose chunks are looked for, and as iXML: strings within their bounds, or
 * nothing. */
#include <stdlib.h>
#include <string.h>

#include "workers/media/container_tags.h"
#include "workers/media/stream/wav.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_tag(void *arg, const char *key, const char *value)
{
    (void)arg;
    if (!key[0] || strlen(key) > IXML_KEY_MAX || strlen(value) > IXML_VALUE_MAX)
        abort();
}

static void chunks(const uint8_t *data, size_t size, bool sequential)
{
    struct riff_chunk wanted[] = {{"bext", NULL, 0}, {"iXML", NULL, 0}};
    struct stream *in = NULL;
    int64_t wrong_size = 0;
    struct err err;

    if (stream_of_memory(data, size, (struct stream_pulse){NULL, NULL}, &in, &err) != 0)
        return;
    in->sequential = sequential;
    if (riff_chunks(in, wanted, 2, &wrong_size, &err) == 0)
        for (int i = 0; i < 2; i++) {
            if (wanted[i].data &&
                (wanted[i].len > RIFF_CHUNK_MAX || wanted[i].data[wanted[i].len] != '\0'))
                abort();
            if (wanted[i].data)
                ixml_scan(wanted[i].data, on_tag, NULL);
            free(wanted[i].data);
        }
    if (wrong_size < 0 || (uint64_t)wrong_size > size)
        abort();
    stream_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    ixml_scan(text, on_tag, NULL);
    free(text);
    chunks(data, size, false);
    chunks(data, size, true);
    return 0;
}
