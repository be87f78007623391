#!/usr/bin/env python3
"""make_layouts.py MODEL OUT: a model in the layouts of other programs, and what their integers mean.

MODEL is a folder with model.safetensors (half precision, Hugging Face's names). OUT becomes

  ct2/           CTranslate2's model.bin in float16, with tokenizer.json and vocabulary.json
  ct2list/       the same in float32, its tokens in vocabulary.txt alone
  ct2int/        8-bit integers with a scale for each row, in one layer 16-bit integers with one scale
                 for all; other variables float16, float32 or bfloat16; tokens in vocabulary.json
  ct2int-same/   what those integers stand for, as float32 in model.safetensors
  ggml.bin       whisper.cpp's file, matrices in float16
  ggml32.bin     the same in float32, its list of tokens with the one for the end
  ggmlq.bin      matrices in all of ggml's packed types, one after the other
  ggmlq-same/    what those stand for, as float32 in model.safetensors
  lora/          an adapter of PEFT's over MODEL, for matrices and a convolution; factors of its own for
                 some
  lora2/         another one over ct2/ (rank-stabilized, adapter_model.bin)
  lora-same/, lora2-same/    what these make of the model, as float32 in model.safetensors

Only Python's own library is used. CTranslate2's format is as its converter writes it: fused queries,
keys and values, a bias of zeros for the keys, and aliases for variables that are equal.
whisper.cpp's is as its converter and its quantizer write it, but that each matrix has a type of its
own; the rounding is simpler than theirs.
"""
import json
import os
import shutil
import struct
import sys

from make_checkpoints import (Storage, Tensor, folder, openai_name, read_safetensors, torch_save,
                              write_safetensors)

FORMAT = {"F32": "f", "F16": "e", "I8": "b", "I16": "h"}


def values_of(data):
    """The numbers of half-precision bytes."""
    return struct.unpack(f"<{len(data) // 2}e", data)


def pack(dtype, values):
    if dtype == "BF16":
        wide = struct.pack(f"<{len(values)}f", *values)
        return b"".join(wide[i + 2:i + 4] for i in range(0, len(wide), 4))
    return struct.pack(f"<{len(values)}{FORMAT[dtype]}", *values)


def unpack(dtype, data):
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
        dtype = "F32"
    return struct.unpack(f"<{len(data) // struct.calcsize(FORMAT[dtype])}{FORMAT[dtype]}", data)


# ---- CTranslate2

CT2_TYPES = {"F32": 0, "I8": 1, "I16": 2, "F16": 4, "BF16": 5}


def ct2_variables(tensors):
    """{CTranslate2's name: (shape, values)}: the fused variables of Hugging Face's tensors."""
    def get(name):
        return list(values_of(tensors[name][2]))

    def shape(name):
        return list(tensors[name][1])

    out = {}

    def linear(into, names):
        weights, biases = [], []
        for name in names:
            weights += get(name + ".weight")
            rows = shape(name + ".weight")[0]
            biases += get(name + ".bias") if name + ".bias" in tensors else [0.0] * rows
        out[into + "/weight"] = ([len(biases)] + shape(names[0] + ".weight")[1:], weights)
        out[into + "/bias"] = ([len(biases)], biases)

    def norm(into, name):
        out[into + "/gamma"] = (shape(name + ".weight"), get(name + ".weight"))
        out[into + "/beta"] = (shape(name + ".bias"), get(name + ".bias"))

    def whole(into, name):
        out[into] = (shape(name), get(name))

    for side in ("encoder", "decoder"):
        i = 0
        while f"model.{side}.layers.{i}.fc1.weight" in tensors:
            to, of = f"{side}/layer_{i}", f"model.{side}.layers.{i}."
            linear(to + "/self_attention/linear_0", [of + f"self_attn.{x}_proj" for x in "qkv"])
            linear(to + "/self_attention/linear_1", [of + "self_attn.out_proj"])
            norm(to + "/self_attention/layer_norm", of + "self_attn_layer_norm")
            if side == "decoder":
                linear(to + "/attention/linear_0", [of + "encoder_attn.q_proj"])
                linear(to + "/attention/linear_1", [of + f"encoder_attn.{x}_proj" for x in "kv"])
                linear(to + "/attention/linear_2", [of + "encoder_attn.out_proj"])
                norm(to + "/attention/layer_norm", of + "encoder_attn_layer_norm")
            linear(to + "/ffn/linear_0", [of + "fc1"])
            linear(to + "/ffn/linear_1", [of + "fc2"])
            norm(to + "/ffn/layer_norm", of + "final_layer_norm")
            i += 1
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
        whole(f"{side}/position_encodings/encodings", f"model.{side}.embed_positions.weight")
    for conv in ("conv1", "conv2"):
        linear(f"encoder/{conv}", [f"model.encoder.{conv}"])
    whole("decoder/embeddings/weight", "model.decoder.embed_tokens.weight")
    return out


def quantize(shape, values, bits, rows):
    """Integers and scales, as CTranslate2's converter rounds them: a scale is what a weight was
    multiplied by."""
    step = len(values) // rows
    most = 127.0 if bits == 8 else 1024.0
    whole, scales = [], []
    for r in range(rows):
        row = values[r * step:(r + 1) * step]
        scale = unpack("F32", pack("F32", [most / (max(map(abs, row)) or most)]))[0]
        scales.append(scale)
        whole += [round(x * scale) for x in row]
    return whole, scales


def write_ct2(path, variables, aliases, config):
    def text(s):
        return struct.pack("<H", len(s) + 1) + s.encode() + b"\0"

    settings = {"decoder/activation": ("b", 1, 3), "decoder/alibi": ("b", 1, 0),
                "decoder/pre_norm": ("b", 1, 1), "decoder/scale_embeddings": ("b", 1, 0),
                "decoder/alignment_heads": ("h", 2, 1), "decoder/alignment_layer": ("h", 2, -1),
                "decoder/num_heads": ("h", 2, config["decoder_attention_heads"]),
                "encoder/num_heads": ("h", 2, config["encoder_attention_heads"])}
    with open(path, "wb") as file:
        file.write(struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<I", 3))
        file.write(struct.pack("<I", len(variables) + len(settings)))
        for name, (shape, dtype, data) in variables.items():
            file.write(text(name) + struct.pack("<B", len(shape)))
            file.write(struct.pack(f"<{len(shape)}I", *shape))
            file.write(struct.pack("<BI", CT2_TYPES[dtype], len(data)) + data)
        for name, (form, dtype, value) in settings.items():
            data = struct.pack("<" + form, value)
            file.write(text(name) + struct.pack("<BBI", 0, dtype, len(data)) + data)
        file.write(struct.pack("<I", len(aliases)))
        for name, of in aliases.items():
            file.write(text(name) + text(of))


def with_aliases(variables):
    """Equal variables are written once."""
    kept, seen, aliases = {}, {}, {"decoder/projection/weight": "decoder/embeddings/weight"}
    for name in sorted(variables):
        key = (tuple(variables[name][0]),) + variables[name][1:]
        if key in seen:
            aliases[name] = seen[key]
        else:
            seen[key] = name
            kept[name] = variables[name]
    return kept, aliases


def ct2_config(model):
    with open(os.path.join(model, "generation_config.json"), encoding="utf-8") as file:
        generation = json.load(file)
    return {"suppress_ids": generation["suppress_tokens"],
            "suppress_ids_begin": generation["begin_suppress_tokens"],
            "lang_ids": sorted(generation["lang_to_id"].values()),
            "alignment_heads": generation["alignment_heads"]}


def token_list(model, size):
    """Every token by its id, as CTranslate2's converter lists them."""
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    ids = dict(tokenizer["model"]["vocab"])
    ids.update({t["content"]: t["id"] for t in tokenizer["added_tokens"]})
    names = {i: name for name, i in ids.items()}
    return [names[i] for i in range(size)]


def write_json(path, thing):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(thing, file)


def ct2_folder(model, out, name, variables, config):
    path = folder(model, out, name, ())
    kept, aliases = with_aliases(variables)
    write_ct2(os.path.join(path, "model.bin"), kept, aliases, config)
    write_json(os.path.join(path, "config.json"), ct2_config(model))
    return path


def integers(variables):
    """What ct2int holds, and the same numbers as float32."""
    held, meant = {}, {}
    for name, (shape, values) in variables.items():
        dtype = "F32"
        if name.endswith("/weight"):
            wide = name.startswith("encoder/layer_1/")
            whole, scales = quantize(shape, values, 16 if wide else 8, 1 if wide else shape[0])
            held[name] = (shape, "I16" if wide else "I8", pack("I16" if wide else "I8", whole))
            held[name + "_scale"] = ([] if wide else [len(scales)], "F32", pack("F32", scales))
            step = len(whole) // len(scales)
            values = [q / scales[i // step] for i, q in enumerate(whole)]
        else:
            dtype = {"gamma": "BF16", "encodings": "F16"}.get(name.split("/")[-1], "F32")
            held[name] = (shape, dtype, pack(dtype, values))
            values = unpack(dtype, held[name][2])
        meant[name] = (shape, values)
    return held, meant


def unfused(meant, tensors):
    """Hugging Face's tensors of CTranslate2's variables, as float32."""
    out = {}

    def take(names, variable, suffix):
        shape, values = meant[variable]
        rows = shape[0] // len(names)
        step = len(values) // len(names)
        for i, name in enumerate(names):
            if name + suffix in tensors:
                out[name + suffix] = ("F32", [rows] + shape[1:],
                                      pack("F32", values[i * step:(i + 1) * step]))

    for name in tensors:
        side, base = name.split(".")[1], name.rsplit(".", 1)[0]
        suffix = "." + name.rsplit(".", 1)[1]
        at = f"{side}/"
        if ".layers." in name:
            at += f"layer_{name.split('.')[3]}/"
        before = base.rsplit(".", 1)[0]
        last = base.rsplit(".", 1)[1]
        block = {"self_attn": "self_attention", "encoder_attn": "attention"}.get(
            before.rsplit(".", 1)[-1], "ffn")
        ours = {"conv1": "conv1", "conv2": "conv2", "fc1": "ffn/linear_0", "fc2": "ffn/linear_1",
                "out_proj": block + ("/linear_1" if block[0] == "s" else "/linear_2"),
                "embed_tokens": "embeddings", "embed_positions": "position_encodings",
                "self_attn_layer_norm": "self_attention/layer_norm",
                "encoder_attn_layer_norm": "attention/layer_norm",
                "final_layer_norm": "ffn/layer_norm", "layer_norm": "layer_norm"}
        end = suffix.replace(".", "/")
        if last in ("q_proj", "k_proj", "v_proj"):
            fused = "qkv" if block == "self_attention" else "q" if last[0] == "q" else "kv"
            into = f"{at}{block}/linear_{0 if 'q' in fused else 1}"
            take([f"{before}.{x}_proj" for x in fused], into + end, suffix)
            continue
        if "norm" in last:
            end = "/gamma" if suffix == ".weight" else "/beta"
        elif last == "embed_positions":
            end = "/encodings"
        take([base], at + ours[last] + end, suffix)
    return out


def make_ct2(model, out, tensors, config):
    variables = ct2_variables(tensors)
    tokens = token_list(model, config["vocab_size"])

    path = ct2_folder(model, out, "ct2",
                      {n: (s, "F16", pack("F16", v)) for n, (s, v) in variables.items()}, config)
    shutil.copy(os.path.join(model, "tokenizer.json"), path)
    write_json(os.path.join(path, "vocabulary.json"), tokens)

    path = ct2_folder(model, out, "ct2list",
                      {n: (s, "F32", pack("F32", v)) for n, (s, v) in variables.items()}, config)
    with open(os.path.join(path, "vocabulary.txt"), "w", encoding="utf-8") as file:
        file.writelines(token + "\n" for token in tokens)

    held, meant = integers(variables)
    path = ct2_folder(model, out, "ct2int", held, config)
    write_json(os.path.join(path, "vocabulary.json"), tokens)
    path = folder(model, out, "ct2int-same")
    write_safetensors(os.path.join(path, "model.safetensors"), unfused(meant, tensors))


# ---- whisper.cpp: blocks of packed values


def half(x):
    return unpack("F16", pack("F16", [x]))[0]


def clamp(x, most):
    return max(0, min(most, int(x)))


def nibbles(low, high):
    return bytes(a | b << 4 for a, b in zip(low, high))


def simple(bits, offset):
    """Blocks of 32 with a factor, and either a fixed offset (Q4_0, Q5_0) or a least value."""
    most = 2 ** bits - 1

    def quantize_block(x):
        least = 0.0 if offset else half(min(x))
        d = half(max(map(abs, x)) / offset if offset else (max(x) - least) / most) or 1.0
        q = [clamp(round((v - least) / d) + offset, most) for v in x]
        data = pack("F16", [d] if offset else [d, least])
        if bits == 5:
            data += struct.pack("<I", sum((v >> 4) << i for i, v in enumerate(q)))
        data += nibbles([v & 15 for v in q[:16]], [v & 15 for v in q[16:]])
        return data, [(v - offset) * d + least for v in q]
    return 32, quantize_block


def block_q8_0(x):
    d = half(max(map(abs, x)) / 127) or 1.0
    q = [max(-127, min(127, round(v / d))) for v in x]
    return pack("F16", [d]) + pack("I8", q), [v * d for v in q]


def with_least(x, size, bits, most):
    """Groups with an integer factor and an integer least value each, of a block's two factors."""
    groups = [x[i:i + size] for i in range(0, 256, size)]
    leasts = [max(0.0, -min(g)) for g in groups]
    factors = [(max(g) + m) / (2 ** bits - 1) for g, m in zip(groups, leasts)]
    d, m = half(max(factors) / most) or 1.0, half(max(leasts) / most) or 1.0
    fs = [clamp(round(f / d), most) for f in factors]
    ls = [clamp(round(v / m), most) for v in leasts]
    q, values = [], []
    for g, f, l in zip(groups, fs, ls):
        for v in g:
            q.append(clamp(round((v + m * l) / (d * f or 1.0)), 2 ** bits - 1))
            values.append(d * f * q[-1] - m * l)
    return d, m, fs, ls, q, values


def without_least(x, bits, low, high):
    """Groups of 16 with an integer factor each; integers of both signs."""
    groups = [x[i:i + 16] for i in range(0, 256, 16)]
    half_range = 2 ** (bits - 1)
    factors = [max(map(abs, g)) / half_range for g in groups]
    d = half(max(factors) / high) or 1.0
    fs = [max(low, min(high, round(f / d))) for f in factors]
    fs[1] = -fs[1]
    q, values = [], []
    for g, f in zip(groups, fs):
        for v in g:
            q.append(clamp(round(v / (d * f or 1.0)) + half_range, 2 * half_range - 1))
            values.append(d * f * (q[-1] - half_range))
    return d, fs, q, values


def spread(q, bits, per_byte, run):
    """Values of some bits, `run` bytes wide: the first `run` values are the lowest bits of the
    bytes, the next ones the bits above them."""
    out = bytearray()
    for i in range(0, len(q), run * per_byte):
        for j in range(run):
            out.append(sum(q[i + j + k * run] << (k * bits) for k in range(per_byte)))
    return bytes(out)


def block_q2_k(x):
    d, m, fs, ls, q, values = with_least(x, 16, 2, 15)
    return nibbles(fs, ls) + spread(q, 2, 4, 32) + pack("F16", [d, m]), values


def block_q3_k(x):
    d, fs, q, values = without_least(x, 3, -32, 31)
    fs = [f + 32 for f in fs]
    factors = nibbles([f & 15 for f in fs[:8]], [f & 15 for f in fs[8:]])
    factors += spread([f >> 4 for f in fs], 2, 4, 4)
    return (spread([v >> 2 for v in q], 1, 8, 32) + spread([v & 3 for v in q], 2, 4, 32) + factors
            + pack("F16", [d])), values


def six_bits(fs, ls):
    return (bytes(fs[i] | fs[i + 4] >> 4 << 6 for i in range(4))
            + bytes(ls[i] | ls[i + 4] >> 4 << 6 for i in range(4))
            + nibbles([f & 15 for f in fs[4:]], [v & 15 for v in ls[4:]]))


def block_q4_k(x):
    d, m, fs, ls, q, values = with_least(x, 32, 4, 63)
    return pack("F16", [d, m]) + six_bits(fs, ls) + spread(q, 4, 2, 32), values


def block_q5_k(x):
    d, m, fs, ls, q, values = with_least(x, 32, 5, 63)
    return (pack("F16", [d, m]) + six_bits(fs, ls) + spread([v >> 4 for v in q], 1, 8, 32)
            + spread([v & 15 for v in q], 4, 2, 32)), values


def block_q6_k(x):
    d, fs, q, values = without_least(x, 6, -128, 127)
    return (spread([v & 15 for v in q], 4, 2, 64) + spread([v >> 4 for v in q], 2, 4, 32)
            + pack("I8", fs) + pack("F16", [d])), values


PACKED = {2: simple(4, 8), 3: simple(4, 0), 6: simple(5, 16), 7: simple(5, 0), 8: (32, block_q8_0),
          10: (256, block_q2_k), 11: (256, block_q3_k), 12: (256, block_q4_k),
          13: (256, block_q5_k), 14: (256, block_q6_k)}


def packed(kind, values):
    size, block = PACKED[kind]
    data, meant = [], []
    for i in range(0, len(values), size):
        one, means = block(values[i:i + size])
        data.append(one)
        meant += means
    return b"".join(data), meant


# ---- whisper.cpp: the file


def text_bytes(model):
    """The text tokens' bytes by their ids."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in plain}
    byte_of.update({chr(256 + i): b
                    for i, b in enumerate(b for b in range(256) if b not in plain)})
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as file:
        vocab = json.load(file)["model"]["vocab"]
    with open(os.path.join(model, "generation_config.json"), encoding="utf-8") as file:
        end = json.load(file)["eos_token_id"]
    names = {i: name for name, i in vocab.items()}
    return [bytes(byte_of[c] for c in names[i]) for i in range(end)]


def write_ggml(path, tensors, tokens, config):
    """tensors: {OpenAI's name: (shape, ggml's type, bytes)}."""
    sizes = [config["vocab_size"], config["max_source_positions"], config["d_model"],
             config["encoder_attention_heads"], config["encoder_layers"],
             config["max_target_positions"], config["d_model"], config["decoder_attention_heads"],
             config["decoder_layers"], config["num_mel_bins"], 1]
    with open(path, "wb") as file:
        file.write(struct.pack("<I11i", 0x67676D6C, *sizes))
        file.write(struct.pack("<ii", config["num_mel_bins"], 201))
        file.write(bytes(4 * 201 * config["num_mel_bins"]))
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        for name, (shape, kind, data) in tensors.items():
            file.write(struct.pack("<iii", len(shape), len(name), kind))
            file.write(struct.pack(f"<{len(shape)}i", *reversed(shape)))
            file.write(name.encode() + data)


def make_ggml(model, out, tensors, config):
    tokens = text_bytes(model)
    floats, halves, mixed, meant = {}, {}, {}, {}
    small, wide = (2, 3, 6, 7, 8), (10, 11, 12, 13, 14)
    turn = 0
    for name, (_, shape, data) in tensors.items():
        values, ours = list(values_of(data)), openai_name(name)
        if "conv" in ours and ours.endswith(".bias"):
            shape = [shape[0], 1]
        matrix = len(shape) > 1 and shape[-1] > 1 and "positional" not in ours
        floats[ours] = (shape, 0, pack("F32", values))
        halves[ours] = (shape, 1, data) if matrix else floats[ours]
        mixed[ours] = halves[ours]
        if matrix and len(shape) == 2:
            kind = (wide if shape[1] % 256 == 0 else small)[turn % 5]
            turn += 1
            block, values = packed(kind, values)
            mixed[ours] = (shape, kind, block)
        meant[name] = ("F32", tensors[name][1], pack("F32", values))
    missing = set(PACKED) - {kind for _, kind, _ in mixed.values()}
    assert not missing, missing
    write_ggml(os.path.join(out, "ggml.bin"), halves, tokens, config)
    write_ggml(os.path.join(out, "ggml32.bin"), floats, tokens + [b"<|endoftext|>"], config)
    write_ggml(os.path.join(out, "ggmlq.bin"), mixed, tokens, config)
    path = folder(model, out, "ggmlq-same")
    write_safetensors(os.path.join(path, "model.safetensors"), meant)


# ---- PEFT: numbers of few bits, so that every sum is exact in float32


def low_rank(rank, rows, cols, seed):
    """A [rank][cols] and B [rows][rank]."""
    state = seed
    out = []
    for n in (rank * cols, rows * rank):
        values = []
        for _ in range(n):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            values.append(((state >> 16) % 7 - 3) / 64)
        out.append(values)
    return out


def product(a, b, rank, cols):
    for i in range(0, len(b), rank):
        row = [0.0] * cols
        for k in range(rank):
            if b[i + k]:
                row = [x + b[i + k] * y for x, y in zip(row, a[k * cols:(k + 1) * cols])]
        yield from row


def adapted(tensors, wanted, rank, factor):
    """The adapter's tensors, and all of the model's with what is added to them."""
    adapter, meant = {}, {}
    for i, (name, (_, shape, data)) in enumerate(tensors.items()):
        values = list(values_of(data))
        module = name[:-len(".weight")]
        if name.endswith(".weight") and any(module.endswith(w) for w in wanted):
            cols = len(values) // shape[0]
            a, b = low_rank(rank, shape[0], cols, i)
            values = [w + factor(module) * d
                      for w, d in zip(values, product(a, b, rank, cols), strict=True)]
            kernel = [1] * (len(shape) - 2)
            before = "base_model.model." + module
            adapter[before + ".lora_A.weight"] = ("F32", [rank] + shape[1:], pack("F32", a))
            adapter[before + ".lora_B.weight"] = ("F32", [shape[0], rank] + kernel, pack("F32", b))
        meant[name] = ("F32", shape, pack("F32", values))
    return adapter, meant


def make_lora(model, out, tensors):
    config = {"peft_type": "LORA", "base_model_name_or_path": os.path.abspath(model), "r": 4,
              "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "fc1", "conv1"],
              "alpha_pattern": {"layers.1.fc1": 2, "encoder.conv1": 16}, "bias": "none",
              "fan_in_fan_out": False, "init_lora_weights": True, "modules_to_save": None,
              "revision": None, "use_dora": False, "use_rslora": False}
    path = folder(model, out, "lora", ())
    adapter, meant = adapted(
        tensors, config["target_modules"], 4,
        lambda m: (2 if m.endswith("layers.1.fc1") else 16 if m.endswith("conv1") else 8) / 4)
    write_json(os.path.join(path, "adapter_config.json"), config)
    write_safetensors(os.path.join(path, "adapter_model.safetensors"), adapter)
    path = folder(model, out, "lora-same")
    write_safetensors(os.path.join(path, "model.safetensors"), meant)

    config.update({"base_model_name_or_path": "../ct2", "use_rslora": True, "lora_alpha": 2,
                   "target_modules": ["k_proj", "out_proj"], "alpha_pattern": {}})
    path = folder(model, out, "lora2", ())
    adapter, meant = adapted(tensors, config["target_modules"], 4, lambda m: 1.0)
    write_json(os.path.join(path, "adapter_config.json"), config)
    torch_save(os.path.join(path, "adapter_model.bin"),
               {n: Tensor(Storage(t, d), s) for n, (t, s, d) in adapter.items()})
    path = folder(model, out, "lora2-same")
    write_safetensors(os.path.join(path, "model.safetensors"), meant)


def main(model, out):
    tensors = read_safetensors(os.path.join(model, "model.safetensors"))
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    shutil.rmtree(out, ignore_errors=True)
    make_ct2(model, out, tensors, config)
    make_ggml(model, out, tensors, config)
    make_lora(model, out, tensors)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
