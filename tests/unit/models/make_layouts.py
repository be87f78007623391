#!/usr/bin/env python3
"""make_layouts.py MODEL OUT: a model in the layouts of other programs, and what their integers mean.

MODEL is a folder with model.safetensors (half precision, Hugging Face's names). OUT becomes

  ct2/           CTranslate2's model.bin in float16, with tokenizer.json and vocabulary.json
  ct2list/       the same in float32, its tokens in vocabulary.txt alone
  ct2int/        8-bit integers with a scale for each row, in one layer 16-bit integers with one scale
                 for all; other variables float16, float32 or bfloat16; tokens in vocabulary.json
  ct2int-same/   what those integers stand for, as float32 in model.safetensors

Only Python's own library is used. CTranslate2's format is as its converter writes it: fused queries,
keys and values, a bias of zeros for the keys, and aliases for variables that are equal.
"""
import json
import os
import shutil
import struct
import sys

from make_checkpoints import folder, read_safetensors, write_safetensors

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


def main(model, out):
    tensors = read_safetensors(os.path.join(model, "model.safetensors"))
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    shutil.rmtree(out, ignore_errors=True)
    make_ct2(model, out, tensors, config)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
