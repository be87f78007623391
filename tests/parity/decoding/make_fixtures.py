#!/usr/bin/env python3
"""Makes tests/parity/decoding/fixtures.json: what openai-whisper decodes from a model that is a formula.

    pip install --no-deps openai-whisper==20250625
    pip install numpy tiktoken more-itertools tqdm numba torch    # torch: a processor's is enough
    tests/parity/decoding/make_fixtures.py > tests/parity/decoding/fixtures.json

whisper.transcribe runs as it is, with its decoding, its ranking and its ladder, on a stand-in for
the model: logits are computed from the tokens before them (`logits_after`; test_decoding.c has the
same formula), and a token's text is a word made of its id. Each case is one window.
"""
import dataclasses
import json
import random
import sys
import warnings

import numpy as np
import torch
import whisper
import whisper.decoding
import whisper.tokenizer

TOKENIZER = whisper.tokenizer.get_tokenizer(True, num_languages=99)
EOT, SOT, NO_SPEECH, NO_TIMESTAMPS = TOKENIZER.eot, TOKENIZER.sot, TOKENIZER.no_speech, TOKENIZER.no_timestamps
TIMES = TOKENIZER.timestamp_begin
VOCAB = TIMES + 1501
IDS = np.arange(VOCAB, dtype=np.uint32)


def mix(x):
    """A bijection of 32 bits without pattern."""
    x = np.asarray(x, dtype=np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def logits_after(seed, tokens):
    """float32, exact in every operation. Each token's is large with a small probability: the more
    leading zeros its hash has. The end grows likelier with each token after the start."""
    state = np.uint32(seed)
    for token in tokens:
        state = mix(state ^ (np.uint32(token) * np.uint32(0x9E3779B1)))
    x = mix(state + IDS * np.uint32(0x85EBCA6B))
    zeros = 32 - np.frexp(x.astype(np.float64))[1]
    logits = zeros * 1.25 + (x & np.uint32(0xFFFF)) / 65536.0
    after = len(tokens) - 1 - max(i for i, t in enumerate(tokens) if t == SOT)
    logits[EOT] = 6 + after * 0.625 + (int(x[EOT]) & 0xFFFF) / 65536.0
    if int(state) >> 3 & 3 == 0:
        logits[TIMES:] += 4
    if NO_TIMESTAMPS in tokens:
        logits[TIMES:] = -30
    if tokens[-1] != SOT:
        logits[SOT:TIMES] = -30
    elif seed % 3 == 0:
        logits[NO_SPEECH] = 20.5
    return logits.astype(np.float32)


def spell(token):
    if token >= EOT:
        return TOKENIZER.encoding.decode([token])
    letters = [chr(ord("a") + token // 26**i % 26) for i in range(4)]
    return " " + "".join(letters)


class Inference(whisper.decoding.Inference):
    def __init__(self, model, initial_token_length):
        self.model, self.initial = model, initial_token_length

    def logits(self, tokens, audio_features):
        return self.model.logits(tokens, audio_features, tokens.shape[1] > self.initial)

    def rearrange_kv_cache(self, source_indices):
        pass

    def cleanup_caching(self):
        pass


class Model:
    """What whisper.transcribe wants of a model, with the first decoding's result kept."""
    is_multilingual, num_languages, device = True, 99, torch.device("cpu")
    dims = whisper.model.ModelDimensions(80, 1500, 4, 1, 1, VOCAB, 448, 4, 1, 1)

    def __init__(self, seed, prompt):
        self.seed, self.prompt, self.results, self.language = seed, prompt, [], None

    def encoder(self, mel):
        return torch.zeros(mel.shape[0], 1500, 4)

    def logits(self, tokens, audio_features, last_only=False):
        rows = [row.tolist() for row in tokens]
        first = len(rows[0]) if last_only else 1
        return torch.tensor(np.array([
            [logits_after(self.seed, row[:n]) if SOT in row[:n] else np.zeros(VOCAB, np.float32)
             for n in range(first, len(row) + 1)] for row in rows]))

    def detect_language(self, mel):
        tokens, probs = whisper.decoding.detect_language(self, mel)
        self.language = (int(tokens), max(probs.values()))
        return tokens, probs

    def decode(self, mel, options):
        if options.temperature > 0: # a fallback; what it would give is a matter of chance
            self.results.append(None)
            return self.results[0]
        result = whisper.decoding.decode(self, mel, dataclasses.replace(options, prompt=self.prompt))
        self.results.append(result)
        return result


def random_case(rng, number):
    beams = [1, 2, 5][number % 3]
    case = {
        "seed": rng.getrandbits(31),
        "beam_size": beams,
        "patience": rng.choice([1, 2]) if beams > 1 else 1,
        "length_penalty": rng.choice([-1, 0, 0.6, 1]),
        "language": rng.choice(["en", "fr", None]),
        "task": rng.choice(["transcribe", "transcribe", "translate"]),
        "without_timestamps": rng.random() < 0.2,
        "sample_len": rng.choice([224, 224, 224, 12, 5]),
        "prompt": [rng.randrange(EOT) for _ in range(rng.choice([0, 0, 0, 1, 7, 30]))],
        "logprob_threshold": rng.choice([-1, -0.6, -0.45, -100]),
        "compression_ratio_threshold": rng.choice([0.95, 1.05, 1.1, 2.4]),
        "no_speech_threshold": 0.4,
    }
    if number == 0: # more than half of the positions
        case.update(prompt=[rng.randrange(EOT) for _ in range(260)], sample_len=224)
    return case


def run(case):
    model = Model(case["seed"], case["prompt"])
    options = {key: case[key] for key in (
        "logprob_threshold", "compression_ratio_threshold", "no_speech_threshold", "language", "task",
        "without_timestamps", "sample_len")}
    if case["beam_size"] > 1:
        options.update(beam_size=case["beam_size"], patience=case["patience"])
    if case["length_penalty"] >= 0:
        options["length_penalty"] = case["length_penalty"]
    told = whisper.transcribe(model, np.zeros(320, np.float32), temperature=(0.0, 1.0), fp16=False, **options)
    first = model.results[0]
    language = model.language or (TOKENIZER.to_language_token(case["language"]), 1)
    if first.no_speech_prob > 0.9: # ours is sure then, and looks no further
        return run(dict(case, seed=case["seed"] + 3))
    return dict(case, tokens=first.tokens, avg_logprob=first.avg_logprob, no_speech_prob=first.no_speech_prob,
                compression_ratio=first.compression_ratio, language_id=language[0], language_prob=language[1],
                fallback=len(model.results) > 1, silent=len(told["segments"]) == 0)


def main():
    warnings.simplefilter("ignore")
    np.seterr(over="ignore")
    whisper.decoding.PyTorchInference = Inference
    whisper.tokenizer.Tokenizer.decode = lambda self, tokens, **_: "".join(spell(t) for t in tokens if t < TIMES)
    suppressed = whisper.decoding.DecodingTask(Model(0, []), whisper.DecodingOptions(fp16=False))._get_suppress_tokens()
    generation = {
        "is_multilingual": True,
        "lang_to_id": dict(zip((f"<|{c}|>" for c in TOKENIZER.all_language_codes), TOKENIZER.all_language_tokens)),
        "suppress_tokens": list(suppressed),
        "begin_suppress_tokens": TOKENIZER.encoding.encode(" ") + [EOT],
        "max_initial_timestamp_index": 50,
    }
    rng = random.Random(20250625)
    cases = [run(random_case(rng, number)) for number in range(72)]
    print("{\"generation\": %s,\n \"cases\": [" % json.dumps(generation, separators=(",", ":")))
    print(",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in cases))
    print("]}")
    for key in ("fallback", "silent"):
        print(key, sum(case[key] for case in cases), "of", len(cases), file=sys.stderr)
    print("tokens", [len(case["tokens"]) for case in cases], file=sys.stderr)


if __name__ == "__main__":
    main()
