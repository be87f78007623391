#!/usr/bin/env python3
"""Makes tests/parity/decoding/nano.json: openai-whisper's beam search with the nano model's weights.

    pip install --no-deps openai-whisper==20250625
    pip install numpy tiktoken more-itertools tqdm numba torch    # torch: a processor's is enough
    tests/parity/decoding/make_nano_fixtures.py ../shared/samples > tests/parity/decoding/nano.json

whisper.decoding runs as it is; only its tokenizer is replaced, by the nano model's ids. To the
sample noise is added (`noise`; test_nano_beams.c has the same formula), so that the search has
something to choose from.
"""
import json
import os
import sys
import wave

import numpy as np
import torch
import whisper
import whisper.decoding

MODEL = os.path.join(os.path.dirname(__file__), "../../../workers/models/whisper-nano")
NAMES = [("model.", ""), (".layers.", ".blocks."), ("encoder_attn_layer_norm", "cross_attn_ln"), ("encoder_attn", "cross_attn"),
         ("self_attn_layer_norm", "attn_ln"), ("self_attn", "attn"), ("q_proj", "query"), ("k_proj", "key"),
         ("v_proj", "value"), ("out_proj", "out"), ("fc1", "mlp.0"), ("fc2", "mlp.2"), ("final_layer_norm", "mlp_ln"),
         ("embed_tokens", "token_embedding"), ("embed_positions.weight", "positional_embedding"),
         ("encoder.layer_norm", "encoder.ln_post"), ("decoder.layer_norm", "decoder.ln")]


class NanoTokenizer:
    eot, sot, translate, transcribe, sot_lm, sot_prev, no_speech, no_timestamps, timestamp_begin = \
        640, 641, 644, 645, 646, 647, 648, 649, 650
    all_language_tokens, all_language_codes = (642, 643), ("en", "es")

    def __init__(self, language, task):
        self.language = language
        self.language_token = 642 + self.all_language_codes.index(language)
        self.sot_sequence = (self.sot, self.language_token, getattr(self, task))
        self.sot_sequence_including_notimestamps = self.sot_sequence + (self.no_timestamps,)

    def encode(self, text):
        assert text == " "
        return [220]

    def decode(self, tokens):
        return ""


def load_tensors(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    head.pop("__metadata__", None)
    types = {"F16": "<f2", "F32": "<f4"}
    return {name: torch.tensor(np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]])
                               .astype(np.float32).reshape(t["shape"])) for name, t in head.items()}


def load_model():
    model = whisper.model.Whisper(whisper.model.ModelDimensions(80, 1500, 192, 3, 4, 2151, 448, 192, 3, 2))
    weights = {}
    for name, tensor in load_tensors(os.path.join(MODEL, "model.safetensors")).items():
        for a, b in NAMES:
            name = name.replace(a, b)
        if name != "proj_out.weight":
            weights[name] = tensor
    model.load_state_dict(weights)
    return model.eval()


def noise(n):
    x = np.arange(n, dtype=np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return ((x >> np.uint32(16)).astype(np.float32) - 32768) / np.float32(32768)


def run(model, samples, case):
    with wave.open(os.path.join(samples, case["sample"])) as w:
        pcm = np.frombuffer(w.readframes(480000), "<i2").astype(np.float32) / 32768
    pcm = pcm + np.float32(case["noise"]) * noise(len(pcm))
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(pcm))
    options = {key: case[key] for key in ("without_timestamps", "language", "prompt")}
    if case["beam_size"] > 1:
        options.update(beam_size=case["beam_size"], patience=case["patience"])
    if case["length_penalty"] >= 0:
        options["length_penalty"] = case["length_penalty"]
    suppressed = [NanoTokenizer.sot]
    if case["without_timestamps"]: # which ours never produces then; the reference only discourages them
        suppressed += range(NanoTokenizer.timestamp_begin, 2151)
    result = whisper.decoding.decode(model, mel, whisper.DecodingOptions(
        fp16=False, suppress_tokens=suppressed, **options))
    return dict(case, tokens=result.tokens, avg_logprob=result.avg_logprob, no_speech_prob=result.no_speech_prob)


def main():
    whisper.decoding.get_tokenizer = lambda multilingual, num_languages=0, language="en", task="transcribe": \
        NanoTokenizer(language, task)
    model = load_model()
    cases = []
    for amplitude in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        for beams in (1, 2, 5):
            cases.append(run(model, sys.argv[1], {
                "sample": "01_en_short.wav", "noise": amplitude, "beam_size": beams, "patience": 1 + len(cases) % 2,
                "length_penalty": (-1, 0, 0.6, 1)[len(cases) % 4], "without_timestamps": len(cases) % 5 == 4,
                "language": ("en", "es")[len(cases) % 7 == 3], "prompt": list(range(300, 300 + len(cases) % 3 * 4))}))
    print("[" + ",\n ".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]")


if __name__ == "__main__":
    main()
