#!/usr/bin/env python3
"""restore.py CACHE MODEL: checkpoints to train on from, of weights as export.py left them in the folder
MODEL: CACHE/segmentation.pt and CACHE/voices.pt.

Batch norms lie folded in the convolutions. They are unfolded about what the layers yield on CACHE's
training voices, so that the network is the same one, and stays near itself when its norms begin to
follow their batches."""
import json
import struct
import sys

import numpy as np
import torch
from torch import nn

import export
import mixture
import networks
import train_voices

BATCHES = 24


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    kinds, found = {"F16": "<f2", "F32": "<f4"}, {}
    for name, t in header.items():
        value = np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]])
        found[name] = torch.from_numpy(value.astype(np.float32).reshape(t["shape"]))
    return found


def segmentation(folder):
    network = networks.PyanNet()
    tensors = read(f"{folder}/segmentation.safetensors")
    network.load_state_dict({name: tensors[name] for name in network.state_dict()})
    return network


def convolutions(network):
    """[(the convolution's name, it, its norm's name, its norm)] as export.py pairs them."""
    modules = dict(network.named_modules())
    for name, norm in modules.items():
        if isinstance(norm, nn.BatchNorm2d):
            conv = name[:-1] + "0" if name.endswith("shortcut.1") else name.replace("bn", "conv")
            yield conv, modules[conv], name, norm


def unfolded(folder):
    """The encoder with norms that do nothing but add the folded bias."""
    tensors = read(f"{folder}/embedding.safetensors")
    network = networks.like({name[len("resnet."):]: value for name, value in tensors.items()}).eval()
    with torch.no_grad():
        for name, conv, _, norm in convolutions(network):
            conv.weight.copy_(tensors[f"resnet.{name}.weight"])
            norm.bias.copy_(tensors[f"resnet.{name}.bias"])
            norm.running_var.fill_(1 - export.NORM_EPSILON)
        network.seg_1.weight.copy_(tensors["resnet.seg_1.weight"])
        network.seg_1.bias.copy_(tensors["resnet.seg_1.bias"])
        network.bn_seg_1.running_var.fill_(1 - export.NORM_EPSILON)
    return network


def voices(folder, mixer):
    network = unfolded(folder)
    sums = {}

    def count(name):
        def hook(_, __, out):
            sums.setdefault(name, []).append((out.mean((0, 2, 3)), out.var((0, 2, 3))))
        return hook
    hooks = [conv.register_forward_hook(count(name)) for name, conv, _, _ in convolutions(network)]
    with torch.no_grad():
        for _ in range(BATCHES):
            network(*train_voices.batch(mixer)[:3])
        for hook in hooks:
            hook.remove()
        for name, _, _, norm in convolutions(network):
            mean, var = (torch.stack(each).mean(0) for each in zip(*sums[name]))
            norm.weight.copy_(torch.sqrt(var + export.NORM_EPSILON))
            norm.bias.add_(mean)
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(var)
    return network


def main():
    cache, folder = sys.argv[1:3]
    torch.set_num_threads(1)
    torch.manual_seed(train_voices.SEED)
    torch.save({"network": segmentation(folder).state_dict(), "done": 1.0}, f"{cache}/segmentation.pt")
    mixer = mixture.Mixer(mixture.Bank(cache, "train"), train_voices.SEED, wide=True)
    torch.save({"network": voices(folder, mixer).state_dict(), "done": 1.0}, f"{cache}/voices.pt")


if __name__ == "__main__":
    main()
