#!/usr/bin/env python3
"""make_checkpoints.py MODEL OUT: a model's weights in every layout in which Whisper models come.

MODEL is a folder with model.safetensors (half precision, Hugging Face's names). OUT becomes

  sharded/       model.safetensors.index.json and three shards
  torch/         pytorch_model.bin as torch.save writes it: parameters of their own storages, the
                 output matrix sharing the embedding's, some tensors views of a larger storage at an
                 offset, one transposed in memory, and _metadata on the dictionary
  torch4/        the same in pickle protocol 4
  torchshards/   pytorch_model.bin.index.json and two shards
  openai/        nano.pt with OpenAI's names and dims, and neither config.json nor its like

Only Python's own library is used. Pickles are made by Python's pickle from classes that call
themselves torch's, so that their instructions are those of a real checkpoint; the archive is laid
out as torch's writer does it (uncompressed, padded to 64 bytes, the folder named after the file).
"""
import collections
import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import types
import zipfile

BESIDE = ("config.json", "generation_config.json", "preprocessor_config.json", "tokenizer.json")


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    start = 8 + length
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["dtype"], entry["shape"], data[start + begin:start + end])
    return tensors


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


# ---- what a pickle of torch's consists of


def torch_modules():
    """Modules that the pickler finds its names in."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def known(module, name, thing):
        thing.__module__, thing.__qualname__, thing.__name__ = module.__name__, name, name
        setattr(module, name, thing)

    for name in ("FloatStorage", "HalfStorage", "BFloat16Storage"):
        known(torch, name, type(name, (), {}))
    known(utils, "_rebuild_tensor_v2", lambda *args: None)
    known(utils, "_rebuild_parameter", lambda *args: None)
    torch._utils = utils
    sys.modules["torch"], sys.modules["torch._utils"] = torch, utils
    return torch


TORCH = torch_modules()
STORAGE = {"F32": ("FloatStorage", 4), "F16": ("HalfStorage", 2), "BF16": ("BFloat16Storage", 2)}


class Storage:
    def __init__(self, dtype, data):
        self.dtype, self.data, self.key = dtype, data, None

    def count(self):
        return len(self.data) // STORAGE[self.dtype][1]


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


class Tensor:
    def __init__(self, storage, shape, offset=0, strides=None):
        self.storage, self.shape, self.offset = storage, tuple(shape), offset
        self.strides = strides or contiguous(self.shape)

    def __reduce_ex__(self, protocol):
        return (TORCH._utils._rebuild_tensor_v2,
                (self.storage, self.offset, self.shape, self.strides, False,
                 collections.OrderedDict()))


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce_ex__(self, protocol):
        return (TORCH._utils._rebuild_parameter, (self.tensor, True, collections.OrderedDict()))


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = []

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        if thing.key is None or thing not in self.storages:
            thing.key = str(len(self.storages))
            self.storages.append(thing)
        return ("storage", getattr(TORCH, STORAGE[thing.dtype][0]), thing.key, "cpu", thing.count())


def torch_save(path, thing, protocol=2):
    text = io.BytesIO()
    pickler = Pickler(text, protocol)
    pickler.dump(thing)
    folder = os.path.splitext(os.path.basename(path))[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        def member(name, data):
            info = zipfile.ZipInfo(f"{folder}/{name}")
            head = archive.fp.tell() + 30 + len(info.filename) + 4
            pad = -head % 64
            info.extra = struct.pack("<2sH", b"FB", pad) + b"Z" * pad
            archive.writestr(info, data)

        member("data.pkl", text.getvalue())
        member("byteorder", b"little")
        for storage in pickler.storages:
            member(f"data/{storage.key}", storage.data)
        member("version", b"3\n")


# ---- layouts


def transposed(dtype, shape, data):
    """The same matrix, its columns one after the other in memory."""
    size = STORAGE[dtype][1]
    rows, cols = shape
    column = bytearray(len(data))
    for i in range(rows):
        for j in range(cols):
            at = (j * rows + i) * size
            column[at:at + size] = data[(i * cols + j) * size:(i * cols + j + 1) * size]
    return Tensor(Storage(dtype, bytes(column)), shape, 0, (1, rows))


def as_torch(tensors):
    """A state_dict, with everything that such a thing may have."""
    state = collections.OrderedDict()
    for i, (name, (dtype, shape, data)) in enumerate(tensors.items()):
        if name == "model.encoder.layers.0.fc1.weight":
            state[name] = transposed(dtype, shape, data)
        elif i % 5 == 1:  # within a larger storage
            size = STORAGE[dtype][1]
            storage = Storage(dtype, b"\x7e" * (7 * size) + data + b"\x7e" * (3 * size))
            state[name] = Tensor(storage, shape, 7)
        else:
            state[name] = Tensor(Storage(dtype, data), shape)
        if i % 7 == 2:
            state[name] = Parameter(state[name])
    embedding = state["model.decoder.embed_tokens.weight"]
    if isinstance(embedding, Parameter):
        embedding = embedding.tensor
    state["proj_out.weight"] = Tensor(embedding.storage, embedding.shape, embedding.offset)
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    return state


NAMES = (
    (r"^model\.(encoder|decoder)\.layers\.", r"\1.blocks."),
    (r"^model\.", ""),
    (r"^decoder\.layer_norm\.", "decoder.ln."),
    (r"^encoder\.layer_norm\.", "encoder.ln_post."),
    (r"\.embed_positions\.weight$", ".positional_embedding"),
    (r"\.embed_tokens\.", ".token_embedding."),
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.self_attn\.", ".attn."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
)


def openai_name(name):
    for pattern, other in NAMES:
        name = re.sub(pattern, other, name)
    return name


def as_openai(tensors, config):
    state = {openai_name(name): Tensor(Storage(dtype, data), shape)
             for name, (dtype, shape, data) in tensors.items()}
    dims = {"n_mels": config["num_mel_bins"], "n_vocab": config["vocab_size"],
            "n_audio_ctx": config["max_source_positions"], "n_audio_state": config["d_model"],
            "n_audio_head": config["encoder_attention_heads"],
            "n_audio_layer": config["encoder_layers"],
            "n_text_ctx": config["max_target_positions"], "n_text_state": config["d_model"],
            "n_text_head": config["decoder_attention_heads"],
            "n_text_layer": config["decoder_layers"]}
    return {"dims": dims, "model_state_dict": state}


def parted(tensors, n):
    """n dictionaries with the tensors in turn."""
    parts = [{} for _ in range(n)]
    for i, (name, value) in enumerate(tensors.items()):
        parts[i % n][name] = value
    return parts


def write_index(path, files):
    names = {name: file for file, part in files.items() for name in part}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": 0}, "weight_map": names}, file)


def folder(model, out, name, beside=BESIDE):
    path = os.path.join(out, name)
    os.makedirs(path)
    for other in beside:
        shutil.copy(os.path.join(model, other), path)
    return path


def main(model, out):
    tensors = read_safetensors(os.path.join(model, "model.safetensors"))
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    shutil.rmtree(out, ignore_errors=True)

    path = folder(model, out, "sharded")
    files = {f"model-{i + 1:05}-of-00003.safetensors": part
             for i, part in enumerate(parted(tensors, 3))}
    for name, part in files.items():
        write_safetensors(os.path.join(path, name), part)
    write_index(os.path.join(path, "model.safetensors.index.json"), files)

    torch_save(os.path.join(folder(model, out, "torch"), "pytorch_model.bin"), as_torch(tensors))
    torch_save(os.path.join(folder(model, out, "torch4"), "pytorch_model.bin"), as_torch(tensors),
               protocol=4)

    path = folder(model, out, "torchshards")
    files = {f"pytorch_model-{i + 1:05}-of-00002.bin": part
             for i, part in enumerate(parted(tensors, 2))}
    for name, part in files.items():
        torch_save(os.path.join(path, name),
                   {n: Tensor(Storage(t, d), s) for n, (t, s, d) in part.items()})
    write_index(os.path.join(path, "pytorch_model.bin.index.json"), files)

    torch_save(os.path.join(folder(model, out, "openai", BESIDE[1:]), "nano.pt"),
               as_openai(tensors, config))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
