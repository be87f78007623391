#!/usr/bin/env python3
"""Makes the fixtures of this folder with Hugging Face transformers (CPU, float32).

    make_fixtures.py

Needs torch and transformers 4.40 (Debian: python3-torch; PyPI: transformers==4.40.2). Two
configurations of ClapModel: a small one, and the published one's audio tower
(laion/clap-htsat-unfused). Weights and audio come from the generator of
tests/common/formula_weights.c and test_clap.c, so that neither lies in the repository. Written as
float32:

  NAME.mel.f32    [2 recordings][every 13th frame][64]   ClapFeatureExtractor's log-mel
  NAME.audio.f32  [2 recordings][projection]             get_audio_features
  small.text.f32  [texts][projection]                    get_text_features
  tokenizer.json  a byte-level BPE without merges, in RoBERTa's frame: a token for each byte
"""
import json
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from formula import uniform

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = {"long": 480000, "short": 200001}
TEXTS = ["the sound of a dog barking", "Applause.", "", "música: añil \U0001F3B5", "x" * 200]
TEXT = dict(vocab_size=300, hidden_size=48, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=96, max_position_embeddings=66)
CONFIGS = {
    "small": (dict(spec_size=128, patch_embeds_hidden_size=32, depths=[2, 2, 1],
                   num_attention_heads=[2, 4, 8], hidden_size=128), 24, 1920),
    "published": (dict(), 512, 480),
}


def scale(name, shape):
    """mul and plus of a tensor: such that values stay near 1 on the way through."""
    if name.endswith("batch_norm.weight"):
        return 0.01, 0.04
    if name.endswith("running_mean"):
        return 5.0, -60.0
    if name.endswith("running_var"):
        return 0.5, 1.0
    if name.endswith("bias"):
        return 0.0625, 0.0
    if "norm" in name.lower():
        return 0.125, 1.0
    if name.endswith("relative_position_bias_table"):
        return 0.5, 0.0
    if "embeddings" in name:
        return 0.5, 0.0
    return np.sqrt(3.0 / np.prod(shape[1:])), 0.0


def fill(model, name):
    skipped = ("relative_position_index", "position_ids", "token_type_ids", "num_batches_tracked",
               "logit_scale_a", "logit_scale_t")
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if key.endswith(skipped):
                continue
            mul, plus = scale(key, tuple(value.shape))
            u = uniform(f"{name}:{key}", value.numel()) * np.float32(mul) + np.float32(plus)
            value.copy_(torch.from_numpy(u.reshape(tuple(value.shape))))


def audio(kind):
    """A rising tone, louder and softer, in noise; 48 kHz."""
    n = SAMPLES[kind]
    t = np.arange(n) / 48000.0
    tone = 0.3 * np.sin(2.0 * np.pi * (200.0 + 300.0 * t) * t) * (1.0 + 0.5 * np.sin(9.0 * t))
    return tone.astype(np.float32) + uniform("audio:" + kind, n) * np.float32(0.02)


def tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>"] + alphabet)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return t


def put(name, part, a):
    np.ascontiguousarray(a, "<f4").tofile(os.path.join(HERE, f"{name}.{part}.f32"))


def make(name, audio_config, size, hop):
    cfg = ClapConfig(text_config=dict(TEXT), audio_config=dict(audio_config), projection_dim=size)
    model = ClapModel(cfg).eval()
    fill(model, name)
    extract = ClapFeatureExtractor(hop_length=hop, frequency_min=50, frequency_max=14000, truncation="rand_trunc")
    mels, vectors = [], []
    for kind in SAMPLES:
        mel = extract(audio(kind), sampling_rate=48000, return_tensors="pt").input_features
        mels.append(mel[0, 0, ::13].numpy())
        with torch.no_grad():
            vectors.append(model.get_audio_features(mel)[0].numpy())
    put(name, "mel", np.stack(mels))
    put(name, "audio", np.stack(vectors))
    print(f"{name}: audio cosine {float(vectors[0] @ vectors[1]):.4f}")
    return model


def make_texts(model):
    t = tokenizer()
    t.save(os.path.join(HERE, "tokenizer.json"))
    vectors = []
    with torch.no_grad():
        for text in TEXTS:
            ids = t.encode(text).ids
            ids = ids if len(ids) <= 64 else ids[:63] + [2]
            vectors.append(model.get_text_features(input_ids=torch.tensor([ids]))[0].numpy())
    put("small", "text", np.stack(vectors))
    print("text cosines", [round(float(vectors[0] @ v), 4) for v in vectors])


def main():
    torch.set_num_threads(2)
    for name, (audio_config, size, hop) in CONFIGS.items():
        model = make(name, audio_config, size, hop)
        if name == "small":
            make_texts(model)


if __name__ == "__main__":
    sys.exit(main())
