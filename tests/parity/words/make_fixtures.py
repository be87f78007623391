#!/usr/bin/env python3
"""Makes dtw.txt, split.txt and words.txt of this folder with the openai-whisper package (CPU, float32).

    make_fixtures.py [MODEL_DIR]        default: workers/models/whisper-nano

Needs torch (Debian: python3-torch), ffmpeg, and from PyPI numba, tiktoken, more-itertools, tqdm, tokenizers and
openai-whisper==20250625 (--no-deps keeps a second torch away). The reference's own functions make every number here:
dtw, Tokenizer.split_to_word_tokens, merge_punctuations, decode and add_word_timestamps, the last two on the model's
weights put into its model class under its names.

  dtw.txt     per case "KIND SEED ROWS COLUMNS" and the first column of each row; the matrices come from a
              counter-based generator, the same as in the test
  split.txt   per text: language, token ids, the words that split_to_word_tokens makes of them and those that
              merge_punctuations leaves: words and counts of tokens, words in hex
  words.txt   per window "window AUDIO LANGUAGE FIRST_SAMPLE SAMPLES"; per segment "segment START END IDS..." as decoded
              and "fitted START END"; per word "word START END PROBABILITY TEXT", the text in hex
"""
import json
import os
import sys

import numpy as np
import tiktoken
import torch
import whisper
from tokenizers import Tokenizer as FastTokenizer
from whisper import timing, tokenizer as whisper_tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
PREPEND, APPEND = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"
TYPES = {"F16": np.float16, "F32": np.float32}

# ---------------------------------------------------------------------------------------------- dynamic time warping


def mix(z):
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def matrix(kind, seed, n, m):
    """base/number.h's number_uniform(seed, i) for the elements in order, then shaped by the kind."""
    with np.errstate(over="ignore"):
        z = mix(mix(np.array([seed], np.uint64)) ^ np.arange(n * m, dtype=np.uint64))
    u = ((z >> np.uint64(11)).astype(np.float64) * 2.0 ** -53).reshape(n, m)
    if kind == "steps":  # few values: equals everywhere
        u = np.floor(u * 4.0)
    elif kind == "ridge":  # as attention looks: noise, and a path that is better
        at = np.arange(m)[None, :] - (np.arange(n)[:, None] + 0.5) * m / n
        u = u - 3.0 * (np.abs(at) < max(1.0, 0.6 * m / n))
    return u.astype(np.float32)


CASES = [("noise", 1, 1, 1), ("noise", 2, 1, 9), ("noise", 3, 9, 1), ("noise", 4, 2, 2), ("noise", 5, 7, 40),
         ("noise", 6, 40, 7), ("noise", 7, 60, 400), ("noise", 8, 64, 64), ("steps", 9, 5, 5), ("steps", 10, 8, 30),
         ("steps", 11, 30, 8), ("steps", 12, 40, 300), ("steps", 13, 100, 1500), ("ridge", 14, 20, 150),
         ("ridge", 15, 90, 1000), ("ridge", 16, 230, 1500), ("ridge", 17, 449, 1500), ("same", 18, 30, 100)]


def write_dtw(path):
    with open(path, "w") as f:
        for kind, seed, n, m in CASES:
            x = np.zeros((n, m), np.float32) if kind == "same" else matrix(kind, seed, n, m)
            rows, columns = timing.dtw(torch.from_numpy(x))
            first = columns[np.pad(np.diff(rows), (1, 0), constant_values=1).astype(bool)]
            assert len(first) == n
            print(kind, seed, n, m, *first, file=f)


# ---------------------------------------------------------------------------------------------- the model and its tokens


def byte_of():
    """GPT-2's letters for bytes: printable ones stand for themselves, the rest from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for b in range(256):
        letters[chr(b if b in plain else 256 + extra)] = b
        extra += b not in plain
    return letters


def load_safetensors(path):
    """Name to array: eight bytes of length, a JSON header with types, shapes and offsets, the data."""
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    return {k: np.frombuffer(raw[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]],
                             TYPES[v["dtype"]]).reshape(v["shape"]) for k, v in header.items()}


class Model:
    def __init__(self, folder):
        self.config = json.load(open(os.path.join(folder, "config.json")))
        self.generation = json.load(open(os.path.join(folder, "generation_config.json")))
        self.spec = json.load(open(os.path.join(folder, "tokenizer.json")))
        bare = dict(self.spec, added_tokens=[], post_processor=None)
        self.fast = FastTokenizer.from_str(json.dumps(bare))
        letters = byte_of()
        ranks = {bytes(letters[c] for c in s): i for s, i in self.spec["model"]["vocab"].items()
                 if all(c in letters for c in s)}
        special = {t["content"]: t["id"] for t in self.spec["added_tokens"]}
        ranks = {s: i for s, i in ranks.items() if i not in special.values()}
        self.encoding = tiktoken.Encoding("model", pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens=special)
        self.network = self.load(folder)

    def tokenizer(self, language):
        t = whisper_tokenizer.Tokenizer(self.encoding, num_languages=99, language=language, task="transcribe")
        t.sot_sequence = (t.sot, self.generation["lang_to_id"][f"<|{language}|>"], t.transcribe)
        return t

    def encode(self, text):
        return self.fast.encode(text, add_special_tokens=False).ids

    def load(self, folder):
        c = self.config
        dims = whisper.model.ModelDimensions(
            n_mels=c["num_mel_bins"], n_audio_ctx=1500, n_audio_state=c["d_model"],
            n_audio_head=c["encoder_attention_heads"], n_audio_layer=c["encoder_layers"], n_vocab=c["vocab_size"],
            n_text_ctx=c["max_target_positions"], n_text_state=c["d_model"], n_text_head=c["decoder_attention_heads"],
            n_text_layer=c["decoder_layers"])
        network = whisper.model.Whisper(dims)
        weights = {theirs(k): torch.from_numpy(v.astype(np.float32)) for k, v in load_safetensors(
            os.path.join(folder, "model.safetensors")).items() if k != "proj_out.weight"}
        weights["encoder.positional_embedding"] = weights.get("encoder.positional_embedding",
                                                              network.encoder.positional_embedding)
        network.load_state_dict(weights)
        heads = torch.zeros(dims.n_text_layer, dims.n_text_head, dtype=torch.bool)
        for layer, head in self.generation["alignment_heads"]:
            heads[layer, head] = True
        network.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
        return network.eval()


RENAMES = [("model.", ""), (".layers.", ".blocks."), ("encoder_attn_layer_norm", "cross_attn_ln"),
           ("self_attn_layer_norm", "attn_ln"), ("final_layer_norm", "mlp_ln"), ("encoder_attn", "cross_attn"),
           ("self_attn", "attn"), (".q_proj", ".query"), (".k_proj", ".key"), (".v_proj", ".value"),
           (".out_proj", ".out"), (".fc1", ".mlp.0"), (".fc2", ".mlp.2"), ("encoder.layer_norm", "encoder.ln_post"),
           ("decoder.layer_norm", "decoder.ln"), ("embed_tokens", "token_embedding"),
           ("embed_positions.weight", "positional_embedding")]


def theirs(name):
    for ours, other in RENAMES:
        name = name.replace(ours, other)
    return name


# ---------------------------------------------------------------------------------------------- words of texts

TEXTS = [
    ("en", " farmer from the south. tuesday station may wednesday tuesday."),
    ("en", " Hello, world! \"I'm here,\" she said (quietly); it's -- well... 3.14, $5 & 50%."),
    ("en", " 'Tis the season. \"Really?!\" \"(No.)\" [Music] {x} -5 -a- what?!? Why!"),
    ("en", "no blank first, \"quoted\" ' ' \" x"), ("en", " a  b   c \n d\t.  e ."), ("en", " . , ! ? ( ) \" ' -"),
    ("en", "..."), ("en", " "), ("en", "\n"), ("en", " ¿no? “curly” ‘single’ – dash — em"),
    ("en", " 😀 smile 👩‍👩‍👧‍👦 family. 🇩🇪!"), ("en", " e\u0301te\u0301 \u00a0 nbsp\u2003em x"),
    ("es", " una noche y un viento. el puente cierra el domingo."),
    ("es", " ¿Qué día es? ¡Hola! \"Sí\", dijo él; mañana... (o no)."), ("es", " familia río miércoles"),
    ("de", " „Guten Tag“, sagte er. Straße, Äpfel & Öl: 3,5 kg! ‚ja‘ »nein«"),
    ("fr", " L'été, c'est « l'heure » ; n'est-ce pas ?"),
    ("zh", "你好\uff0c世界。“今天天气很好\uff01”他说\uff1a真的吗\uff1f"), ("zh", " 你好 world 2024年,ok?"), ("yue", "我哋去飲茶啦、好唔好\uff1f"),
    ("ja", "「こんにちは」、世界。東京は晴れです\uff01"), ("ja", "コーヒーをください。(笑) [音楽]"), ("th", "สวัสดีชาวโลก ครับ"),
    ("ko", " 안녕하세요, 세계! 반갑습니다."), ("ru", " Привет, мир! «Да», — сказал он."), ("lo", "ສະບາຍດີ"), ("my", "မင်္ဂလာပါ"),
    ("ar", " مرحبا، بالعالم؟ نعم."),
]


def entries(words):
    return "|".join(f"{w.encode().hex() or '-'}:{len(t)}" for w, t in words if w)


def write_split(model, path):
    with open(path, "w") as f:
        cases = [(language, model.encode(text)) for language, text in TEXTS]
        # A character's first byte at the end; with more of it, or elsewhere, the reference raises IndexError.
        cases += [("en", model.encode(" x 😀")[:-3]), ("zh", model.encode("你好")[:-2])]
        for language, ids in cases:
            t = model.tokenizer("en")
            t.language = language
            words, groups = t.split_to_word_tokens(list(ids))
            parts = [timing.WordTiming(w, list(g), 0, 0, 0) for w, g in zip(words, groups)]
            split = entries((p.word, p.tokens) for p in parts)
            timing.merge_punctuations(parts, PREPEND, APPEND)
            merged = entries((p.word, p.tokens) for p in parts)
            print(language, ",".join(map(str, ids)), split, merged, sep="\t", file=f)


# ---------------------------------------------------------------------------------------------- words of recordings

WINDOWS = [("tests/samples/01_en_short.wav", "en", 0), ("tests/parity/nano/04_es_clean/audio.wav", "es", 0),
           ("tests/parity/nano/04_es_clean/audio.wav", "es", 8 * 16000 + 160), ("tests/samples/12_en_long_90s.mp3", "en", 0),
           ("tests/samples/12_en_long_90s.mp3", "en", 37 * 16000), ("tests/samples/13_es_long_45s.ogg", "es", 0),
           ("tests/samples/03_en_noisy.ogg", "en", 0)]


def segments_of(tokens, t, seconds):
    """Between pairs of timestamps; what has no end goes to the window's."""
    out, start, text = [], 0.0, []
    for token in tokens:
        if token < t.timestamp_begin:
            text.append(token)
            continue
        at = min((token - t.timestamp_begin) * 0.02, seconds)
        if text:
            out.append(dict(seek=0, start=start, end=max(at, start), tokens=text))
        start, text = at, []
    return out + ([dict(seek=0, start=start, end=seconds, tokens=text)] if text else [])


def write_words(model, path):
    with open(path, "w") as f:
        for name, language, first in WINDOWS:
            audio = whisper.load_audio(os.path.join(ROOT, name))[first:first + 480000]
            t = model.tokenizer(language)
            whisper.decoding.get_tokenizer = lambda *a, **k: t
            mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(audio), model.config["num_mel_bins"])
            result = whisper.decode(model.network, mel, whisper.DecodingOptions(
                language=language, fp16=False, suppress_tokens=None))
            segments = segments_of(result.tokens, t, len(audio) / 16000)
            print("window", name, language, first, len(audio), file=f)
            before = [(s["start"], s["end"]) for s in segments]
            timing.add_word_timestamps(segments=segments, model=model.network, tokenizer=t, mel=mel,
                                       num_frames=min(3000, len(audio) // 160), last_speech_timestamp=0.0)
            for (start, end), s in zip(before, segments):
                print("segment", f"{start:.3f} {end:.3f}", *s["tokens"], file=f)
                print("fitted", f"{s['start']:.4f} {s['end']:.4f}", file=f)
                for w in s["words"]:
                    print("word", f"{w['start']:.4f} {w['end']:.4f} {w['probability']:.5f}",
                          w["word"].encode().hex(), file=f)


def main():
    model = Model(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "workers/models/whisper-nano"))
    write_dtw(os.path.join(HERE, "dtw.txt"))
    write_split(model, os.path.join(HERE, "split.txt"))
    with torch.no_grad():
        write_words(model, os.path.join(HERE, "words.txt"))


if __name__ == "__main__":
    main()
