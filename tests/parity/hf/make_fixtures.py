#!/usr/bin/env python3
"""Makes the fixtures of this folder with Hugging Face transformers (CPU, float32).

    make_fixtures.py [--audio tests/samples/01_en_short.wav]

Needs torch and transformers 4.40 (Debian: python3-torch; PyPI: transformers==4.40.2). Three tiny
configurations have the real models' vocabularies and mel bins: English-only (51864), multilingual
(51865) and v3 (51866, 128 bins). Their weights come from a counter-based generator, the same as in
random_weights.c, so that no weights lie in the repository. Per configuration, written as float32:

  NAME.mel.f32      [mel_bins][60]      every 50th frame of the log-mel
  NAME.encoder.f32  [60][d_model]       every 25th position of the encoder's output
  NAME.logits.f32   [2][ceil(vocab/61)] every 61st logit after the first and after the last prompt token
  NAME.tokens.txt   the greedy tokens after the prompt, then the best logit's margin at each
"""
import argparse
import os
import sys
import wave

import numpy as np
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from formula import uniform

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = {"en": (51864, 80), "multilingual": (51865, 80), "v3": (51866, 128)}
D_MODEL, HEADS, FFN, LAYERS = 128, 2, 256, 2
PROMPT = [50257, 50258, 50358, 50362]
GREEDY = 24


def tensor(config, name, shape):
    u = uniform(f"{config}:{name}", int(np.prod(shape)))
    if "layer_norm" in name:
        v = u * np.float32(0.125) + np.float32(1 if name.endswith("weight") else 0)
    elif name.endswith("bias"):
        v = u * np.float32(0.0625)
    elif "embed_tokens" in name:
        v = u * np.float32(0.0625)
    else:
        v = u * np.float32(0.25)
    return torch.from_numpy(v.reshape(shape))


def read_wav(path):
    with wave.open(path) as f:
        assert f.getframerate() == 16000 and f.getnchannels() == 1 and f.getsampwidth() == 2
        return np.frombuffer(f.readframes(f.getnframes()), "<i2").astype(np.float32) / 32768


def make(name, vocab, bins, audio):
    cfg = WhisperConfig(vocab_size=vocab, num_mel_bins=bins, d_model=D_MODEL, encoder_layers=LAYERS,
                        decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                        encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, num_hidden_layers=LAYERS)
    model = WhisperForConditionalGeneration(cfg).eval()
    with torch.no_grad():
        for key, param in model.named_parameters():
            param.copy_(tensor(name, key, tuple(param.shape)))
        fe = WhisperFeatureExtractor(feature_size=bins)
        mel = torch.from_numpy(fe(audio, sampling_rate=16000, return_tensors="np").input_features)
        enc = model.model.encoder(mel).last_hidden_state
        ids, tokens, margins, first = list(PROMPT), [], [], None
        for _ in range(GREEDY):
            h = model.model.decoder(input_ids=torch.tensor([ids]), encoder_hidden_states=enc).last_hidden_state
            logits = model.proj_out(h)[0]
            if first is None:
                first = torch.stack([logits[0], logits[-1]])
            top = torch.topk(logits[-1], 2)
            tokens.append(int(top.indices[0]))
            margins.append(float(top.values[0] - top.values[1]))
            ids.append(tokens[-1])
    put = lambda part, a: np.ascontiguousarray(a, "<f4").tofile(os.path.join(HERE, f"{name}.{part}.f32"))
    put("mel", mel[0, :, ::50].numpy())
    put("encoder", enc[0, ::25].numpy())
    put("logits", first[:, ::61].numpy())
    with open(os.path.join(HERE, f"{name}.tokens.txt"), "w") as f:
        f.write(" ".join(map(str, tokens)) + "\n" + " ".join(f"{m:.5f}" for m in margins) + "\n")
    print(f"{name}: tokens {tokens[:6]}..., smallest margin {min(margins):.5f}, "
          f"encoder rms {enc.pow(2).mean().sqrt():.3f}, logits rms {first.pow(2).mean().sqrt():.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--audio", default=os.path.join(HERE, "../../samples/01_en_short.wav"))
    audio = read_wav(ap.parse_args().audio)
    torch.set_num_threads(2)
    for name, (vocab, bins) in CONFIGS.items():
        make(name, vocab, bins, audio)


if __name__ == "__main__":
    sys.exit(main())
