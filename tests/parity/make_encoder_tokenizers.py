#!/usr/bin/env python3
"""Makes tests/unit/text/encoders/: small tokenizers of the three kinds that text encoders have, and
the ids that the `tokenizers` library gives texts with them.

    pip install tokenizers==0.19.1 sentencepiece protobuf
    tests/parity/make_encoder_tokenizers.py

They are trained on tests/parity/embed/sentences.txt: wordpiece as BERT's (uncased), unigram as
XLM-RoBERTa's (trained by SentencePiece, with a compiled normaliser of a few hundred rules of NFKC
and its like), bpe as RoBERTa's. encode.tsv has a line for each text: its UTF-8 bytes in hex, then
the ids of each tokenizer, special tokens included, in that order, parted by tabs; a last number
before the hex is how many ids there may be at most (0: any number). The random texts come from a
fixed seed; characters younger than Unicode 8 are left out, for the library knows none.
"""
import base64
import io
import json
import os
import random
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "../unit/text/encoders")

WRITTEN = [
    "", " ", "   ", "\n", "a", " a", "a ", "  a  b  ", "Hello, World!", "HELLO world", "don't you're", "e-mail a_b c/d",
    "Überraschung für Señor Ñandú", "U\u0308ber e\u0301 n\u0303", "a\u0300\u0301\u0302b", "\u0301a", "İstanbul ISTANBUL ıŞ",
    "ΣΟΦΟΣ Σ ς", "Ёжик ёлка Й", "Straße STRASSE ẞ", "ﬁnance ﬀ ﬃ ﬅ", "½ ¼ Ⅷ ² ① ㎏ ™ №", "Ａ１！ ＡＢＣ", "ﾊﾝｶｸ ｶﾞｷﾞ", "か\u3099く", "が",
    "档案馆里有四万小时的访谈录音", "港は霧に包まれ、カモメが鳴いていた。", "한국어 각 \u1112\u1161\u11ab", "관객이 박수를", "مرحبا بالعالم المُعَلِّمُ", "שָׁלוֹם עולם",
    "क्षेत्र के विद्यार्थी", "สวัสดีชาวโลก กำ", "Γειά σου Κόσμε", "გამარჯობა", "tiếng Việt Nguyễn", "😀 😀😀 a😀b", "👩\u200d👩\u200d👧 👍🏽 🇩🇪🇫🇷 ❤\ufe0f",
    "\u200b\u200cx\u200d", "a\u00adb", "\ufeffx", "a\u00a0b\u3000c\u2003d", "a\u2028b\u2029c", "\x00\x01a\x07b\x1f", "\x7f\x80\x85x", "a\tb\r\nc\rd",
    "\ufffd\ufffdx", "\ue000 x \U000f0000", "\U00020000\U0002a6df 㐀 豈", "￥ ＄ € £5 $5.00", "...!?… «q» “q” ‘q’ „q“", "1,000.5 3.14 2024-01-01",
    "[CLS] [SEP] [MASK] x[SEP]y", "<s> </s> <mask> a <mask>b <unk><pad>", "[ CLS ] < s >", "[cls] <MASK>", "▁ ▁▁a a▁b ▁", "##a #a a##b", "http://example.org/x?y=z&w=1#f",
    "x" * 100, "x" * 101, "ab" * 300, "é" * 120, "\u4e00" * 60, " " * 40 + "a", "a" + " " * 40, "\n\n\na\n\nb", "-" * 50, "\u0301" * 30,
    "ﷺ ﷺ", "ᾳ ΐ ǰ ŉ", "Ǆ ǅ ǆ ǈ", "ſ K Å", "\u1680x\u180e", "م\u0651\u064e", "ア゛ ァ", "々〆〇", "a\u20ddb", "x\u0489y", "٣ ३ ３ 3",
]
PIECES = ["a", "B", "the", " archive", " ", "  ", "\n", "\t", "'", "1", "23", "½", ".", ",", "!?", "é", "e\u0301", "ñ", "ß", "Ж", "й", "日", "本", "\u3000",
          "\u00a0", "한", "\u1112\u1161", "ا", "\u064e", "\u0301", "😀", "\u200d", "\ufe0f", "€", "_", "-", "Ⅳ", "\x01", "\u200b", "Brücke", " мост", "ing", "का", "\u094d",
          "[SEP]", "<mask>", "▁", "ｶﾞ", "Ａ", "\u00ad", "က", "ﬁ", "##"]
LIMITS = [0, 0, 0, 5, 2, 1, 9]


def rules():
    """SentencePiece's rules: characters and what they become, in hex."""
    out = {}
    for c in list(range(0xA0, 0x250)) + list(range(0x370, 0x400)) + list(range(0x2000, 0x2190)) + list(range(0x2460, 0x2474)) + \
            list(range(0x3300, 0x3358)) + list(range(0xF900, 0xF920)) + list(range(0xFB00, 0xFB07)) + list(range(0xFF01, 0xFFA0)) + [0x3000, 0xFDFA, 0x0E33]:
        s = unicodedata.normalize("NFKC", chr(c))
        if s != chr(c):
            out[chr(c)] = s
    for base in "aeiounAEIOUNyc":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u0327":
            s = unicodedata.normalize("NFKC", base + mark)
            if len(s) == 1:
                out[base + mark] = s
    for base in "ｶｷｸｹｺﾊﾋﾌﾍﾎかきくけこはひふへほ":
        for mark in "ﾞﾟ\u3099\u309a":
            s = unicodedata.normalize("NFKC", base + mark)
            if len(s) == 1:
                out[base + mark] = s
    out["\u1112\u1161"], out["\u1112\u1161\u11ab"] = "하", "한"
    for c in "\t\n\r\u200b\u200e\u2028\u2029":
        out[c] = " "
    for c in list(range(1, 9)) + [0xB, 0x7F, 0xFEFF]:
        out[chr(c)] = ""
    hexes = lambda s: " ".join("%X" % ord(c) for c in s)
    return "".join("%s\t%s\n" % (hexes(a), hexes(b)) for a, b in sorted(out.items()))


def special(tokens, left=()):
    return [dict(id=i, content=t, single_word=False, lstrip=t in left, rstrip=False, normalized=False, special=True)
            for t, i in tokens.items()]


def frame(first, last, ids):
    pieces = [{"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": last, "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (first, last)}}


def wordpiece(lines):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=900, special_tokens=names, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return json.loads(t.to_str())


def unigram(lines):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as f:
        f.write(rules())
        f.flush()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=700,
                                                 model_type="unigram", normalization_rule_tsv=f.name, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    vocab += [[p.piece, round(p.score, 4)] for p in proto.pieces[3:]] + [["<mask>", 0.0]]
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": len(vocab) - 1}
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special(ids, ["<mask>"]),
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}]},
            "post_processor": frame("<s>", "</s>", ids), "decoder": None,
            "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab}}


def bpe(lines):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=600, special_tokens=names, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    spec = json.loads(t.to_str())
    spec["added_tokens"] = special({n: i for i, n in enumerate(names)}, ["<mask>"])
    return spec


def main():
    with open(os.path.join(HERE, "embed/sentences.txt"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    made = {"wordpiece": wordpiece(lines), "unigram": unigram(lines), "bpe": bpe(lines)}
    for name, spec in made.items():
        os.makedirs(os.path.join(OUT, name), exist_ok=True)
        with open(os.path.join(OUT, name, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(spec, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
    rng = random.Random(20261122)
    texts = WRITTEN + lines[::5] + ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 16))) for _ in range(160)]
    with open(os.path.join(OUT, "encode.tsv"), "w", encoding="ascii") as f:
        for i, text in enumerate(texts):
            limit = LIMITS[i % len(LIMITS)] if i >= len(WRITTEN) else 0
            columns = [str(limit), text.encode().hex()]
            for spec in made.values():
                t = Tokenizer.from_str(json.dumps(spec))
                if limit >= 2:
                    t.enable_truncation(limit)
                ids = t.encode(text).ids
                columns.append(" ".join(map(str, ids if limit != 1 else (ids[0], ids[-1]))))
            f.write("\t".join(columns) + "\n")


main()
