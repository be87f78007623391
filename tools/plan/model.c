/* What a Whisper model takes and does, from its dimensions alone. */
#include "gpu/backend.h"
#include "tools/plan/plan.h"
#include "workers/models/whisper/whisper_vocabulary.h"
#include "workers/text/tokenizer/vocabulary.h"

static uint64_t bytes_of(const void *arg, const struct device *d, enum precision p, uint32_t slots,
                         uint32_t windows)
{
    const struct footprint_device on = {.gpu = d->kind == DEVICE_CUDA,
                                        .halves = d->kind != DEVICE_CUDA && backend_host_halves()};

    return footprint_bytes(arg, &on, p, slots, windows);
}

/* Its tokenizer says which heads word times need. A model whose tokenizer cannot be read is refused
 * by the run, with a better sentence than there is room for here. */
static void read_shape(struct plan_model *m, const char *dir)
{
    struct vocabulary *vocab = NULL;
    struct err err = {0};

    if (dir && m->params.word_timestamps)
        (void)whisper_vocabulary(dir, &vocab, &err);
    m->footprint = (struct footprint){.config = &m->config, .voice = m->params.vad_model[0] != 0};
    transcribe_shape(&m->params, &m->config, vocab, &m->footprint.shape);
    transcribe_decoding(&m->params, m->decoding);
    vocabulary_free(vocab);
}

/* Products alone, as the encoder and the decoder's rows have them. */
void plan_model_ready(struct plan_model *m, const char *name, const char *dir)
{
    const struct whisper_config *c = &m->config;
    double d = c->d_model, t = WHISPER_POSITIONS, layers = c->decoder_layers;
    double conv = 2.0 * WHISPER_FRAMES * d * 3.0 * c->mel_bins + 2.0 * t * d * 3.0 * d;
    double cross = layers * 2.0 * t * 2.0 * d * d; /* keys and values of a window */
    double weights = layers * (6.0 * d * d + 2.0 * d * c->decoder_ffn) + d * c->vocab_size;
    double rows = transcribe_rows(&m->params);

    read_shape(m, dir);
    m->placement = (struct placement_model){
        .name = name,
        .hash = m->hash,
        .decoding = m->decoding,
        .branches = m->footprint.shape.branches,
        .bytes = bytes_of,
        .arg = &m->footprint,
        .encoder_flop = conv + cross +
                        c->encoder_layers *
                            (2.0 * t * (4.0 * d * d + 2.0 * d * c->encoder_ffn) + 4.0 * t * t * d),
        .token_flop = rows * 2.0 * weights,
        .decoder_weights = weights,
        .token_values = rows * layers * 2.0 * t * d,
    };
}
