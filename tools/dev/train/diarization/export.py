#!/usr/bin/env python3
"""export.py CACHE FOLDER: the two checkpoints as safetensors in float16, in the folded layout of
docs/reference/models.md: sinc filters themselves, batch norms within their convolutions."""
import json
import os
import struct
import sys

import numpy as np
import torch

import features
import networks

NORM_EPSILON = 1e-5


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    data = {name: np.ascontiguousarray(value, "<f2") for name, value in sorted(tensors.items())}
    for name, value in data.items():
        if not np.isfinite(value).all():
            sys.exit(f"{path}: {name} does not fit float16")
        header[name] = {"dtype": "F16", "shape": value.shape, "data_offsets": (at, at + value.nbytes)}
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in data.values():
            file.write(value.tobytes())
    os.replace(path + ".part", path)
    print(f"{path}: {sum(v.size for v in data.values())} values, {os.path.getsize(path)} bytes")


def segmentation(state):
    tensors = {name: value.numpy() for name, value in state.items()}
    tensors["sincnet.wav_norm1d.weight"] = np.ones(1)
    tensors["sincnet.wav_norm1d.bias"] = np.zeros(1)
    tensors["sincnet.conv1d.0.weight"] = features.sinc_filters(networks.BANDS)[:, None].numpy()
    return tensors


def fold(state, conv, norm):
    scale = state[norm + ".weight"] / torch.sqrt(state[norm + ".running_var"] + NORM_EPSILON)
    weight = state[conv + ".weight"] * scale[:, None, None, None]
    return weight, state[norm + ".bias"] - state[norm + ".running_mean"] * scale


def embedding(state):
    last = torch.sqrt(state["bn_seg_1.running_var"] + NORM_EPSILON)
    tensors = {"resnet.seg_1.weight": state["seg_1.weight"] / last[:, None],
               "resnet.seg_1.bias": (state["seg_1.bias"] - state["bn_seg_1.running_mean"]) / last}
    for name in state:
        if not name.endswith("running_mean") or name.startswith("bn_seg_1"):
            continue
        norm = name[:-len(".running_mean")]
        conv = norm[:-1] + "0" if norm.endswith("shortcut.1") else norm.replace("bn", "conv")
        weight, bias = fold(state, conv, norm)
        tensors[f"resnet.{conv}.weight"] = weight
        tensors[f"resnet.{conv}.bias"] = bias
    return {name: value.numpy() for name, value in tensors.items()}


def main():
    cache, folder = sys.argv[1:3]
    for name, source, layout in (("segmentation", "segmentation", segmentation),
                                 ("embedding", "voices", embedding)):
        checkpoint = torch.load(f"{cache}/{source}.pt", map_location="cpu")
        print(f"{source}.pt: {100 * checkpoint['done']:.0f} % of its training")
        write(f"{folder}/{name}.safetensors", layout(checkpoint["network"]))


if __name__ == "__main__":
    main()
