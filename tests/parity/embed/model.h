/* tests/parity/embed/model.h - folders of small encoders with made-up weights, as make_fixtures.py
 * makes them. */
#ifndef NIGHTSHIFT_TESTS_PARITY_EMBED_MODEL_H
#define NIGHTSHIFT_TESTS_PARITY_EMBED_MODEL_H

#include <stdint.h>

struct encoder_shape {
    const char *name;      /* of the generator's model */
    const char *type;      /* "bert", "xlm-roberta" */
    const char *tokenizer; /* folder in tests/unit/text/encoders */
    uint32_t vocab, positions, types;
    double epsilon;
    uint32_t hidden, layers, heads, ffn;
};

#define ENCODER_HIDDEN 48 /* of the small ones */

/* Small ones; and ones of the sizes of all-MiniLM-L6-v2 and bge-base-en, with the same tokenizer.
 */
extern const struct encoder_shape encoder_bert, encoder_xlmr, encoder_minilm, encoder_bge;

/* A new folder in dir ("....XXXXXX", becomes its name) with config.json, model.safetensors and
 * tokenizer.json. Ends the test when it cannot be made. */
void encoder_folder(const struct encoder_shape *shape, char *dir);
/* Puts a file into it, or takes it out again where text is NULL. name may lie in a folder. */
void encoder_file(const char *dir, const char *name, const char *text);
void encoder_remove(const char *dir);

#endif
