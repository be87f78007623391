#!/usr/bin/env python3
"""make_fixtures.py: what pyannote.audio's and Resemblyzer's networks make of seeded random weights.

    apt-get install python3-torch            # 1.13, on the processor
    python3 -m venv --system-site-packages venv
    venv/bin/pip install --no-deps pyannote.audio==3.1.1 asteroid-filterbanks==0.4.0 einops \\
        pyannote.core torchaudio==2.0.2 Resemblyzer==0.1.4 'librosa<0.11' numba llvmlite \\
        lazy_loader decorator pooch platformdirs packaging msgpack soxr joblib==1.4.2 audioread \\
        soundfile typing_extensions
    venv/bin/python make_fixtures.py

Written beside this file, little-endian float32: NAME.scores.f32 (every fourth frame's
log-probabilities of three windows), NAME.vectors.f32 (a vector for each mask of networks.py),
kaldi.f32 and power.f32 (features of single frames); and lightning.bin, the network "tiny" as
Lightning saves it. Of the packages only the networks themselves are imported: what they import
beside that (Lightning, the Hub, sound files) is replaced by empty modules. No weights that come
with a package are read.
"""
import importlib.util
import inspect
import pathlib
import sys
import tempfile
import types

import numpy as np
import torch

import networks

HERE = pathlib.Path(__file__).resolve().parent
WINDOWS = 3
FRAMES_APART = 37


def package_path(name):
    for place in map(pathlib.Path, sys.path):
        if (place / name).is_dir():
            return place / name
    sys.exit(f"{name} is not installed")


def stub(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module
    return module


def stub_packages():
    """Packages whose own __init__ is not run; their sub-modules are the real ones."""
    for name in ("pyannote", "pyannote/core", "pyannote/core/utils", "pyannote/audio",
                 "pyannote/audio/core", "pyannote/audio/models", "pyannote/audio/models/blocks",
                 "pyannote/audio/models/segmentation", "pyannote/audio/models/embedding",
                 "pyannote/audio/utils", "torchaudio",
                 "resemblyzer"):
        stub(name.replace("/", "."), __path__=[str(package_path(name))])
    stub("webrtcvad")


class Model(torch.nn.Module):
    """What the networks use of pyannote.audio's base class."""

    def __init__(self, sample_rate=16000, num_channels=1, task=None):
        super().__init__()
        self.specifications = types.SimpleNamespace(powerset=True, num_powerset_classes=7)

    def save_hyperparameters(self, *names):
        values = inspect.currentframe().f_back.f_locals
        self.hparams = types.SimpleNamespace(**{n: values[n] for n in names})

    def default_activation(self):
        return torch.nn.LogSoftmax(dim=-1)


def vmap(function, in_dims=0):
    """torch.vmap, which 1.13 does not have, for the two ways in which it is called."""

    def mapped(*args):
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        count = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
        return torch.stack([
            function(*(a if d is None else a.select(d, i) for a, d in zip(args, dims)))
            for i in range(count)])

    return mapped


def load(network, tensors):
    missing, unexpected = network.load_state_dict(
        {n: torch.from_numpy(v.copy()) for n, v in tensors.items()}, strict=False)
    assert not unexpected, unexpected
    assert all(n.endswith(("window_", "n_", "num_batches_tracked")) or n.startswith("similarity")
               for n in missing), missing
    return network.eval()


def write(name, values):
    values = np.ascontiguousarray(values, dtype="<f4")
    assert np.isfinite(values).all(), name
    (HERE / name).write_bytes(values.tobytes())
    print(f"{name}: {values.shape}, deviation {values.std():.3f}")


def pyannet(config):
    from pyannote.audio.models.blocks import sincnet
    from pyannote.audio.models.segmentation import PyanNet as module

    filters, first, second, layers, hidden, sizes = networks.SEGMENTATION[config]
    network = module.PyanNet(sincnet={"stride": 10},
                             lstm={"hidden_size": hidden, "num_layers": layers},
                             linear={"hidden_size": sizes[0], "num_layers": len(sizes)})
    network.build()
    if (filters, first, second) != (80, 60, 60):  # which pyannote's code has as constants
        front = network.sincnet
        front.conv1d[0] = sincnet.Encoder(sincnet.ParamSincFB(
            filters, 251, stride=10, sample_rate=16000, min_low_hz=50, min_band_hz=50))
        front.conv1d[1] = torch.nn.Conv1d(filters, first, 5)
        front.conv1d[2] = torch.nn.Conv1d(first, second, 5)
        for i, channels in enumerate((filters, first, second)):
            front.norm1d[i] = torch.nn.InstanceNorm1d(channels, affine=True)
        network.lstm = torch.nn.LSTM(second, hidden, layers, bidirectional=True, batch_first=True)
    return load(network, networks.segmentation(config))


def segmentation(config, pcm):
    network = pyannet(config)
    with torch.no_grad():
        scores = network(torch.from_numpy(pcm)[:, None]).numpy()
    assert scores.shape == (WINDOWS, 589, 7)
    print(config, "classes:", np.bincount(scores.argmax(-1).ravel(), minlength=7))
    write(f"{config}.scores.f32", scores[:, ::4])


def lightning(config):
    """As Trainer.save_checkpoint and pyannote.audio leave it: tensors among settings and classes."""
    task = sys.modules["pyannote.audio.core.task"]

    class Specifications:
        pass

    Specifications.__module__ = task.__name__
    Specifications.__qualname__ = "Specifications"
    task.Specifications = Specifications
    specifications = Specifications()
    specifications.classes = ["speaker#1", "speaker#2", "speaker#3"]
    state = pyannet(config).state_dict()
    torch.save({
        "epoch": 29,
        "global_step": 12345,
        "pytorch-lightning_version": "1.6.5",
        "state_dict": state,
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.25), "dirpath": None}},
        "optimizer_states": [{"state": {0: {"step": 1}}, "param_groups": [{"betas": (0.9, 0.999)}]}],
        "lr_schedulers": [],
        "hyper_parameters": {"lstm": {"hidden_size": 8}, "seed": torch.device("cpu")},
        "pyannote.audio": {"versions": {"torch": torch.torch_version.TorchVersion("1.13.0")},
                           "specifications": specifications,
                           "where": pathlib.PurePosixPath("/somewhere")},
    }, HERE / "lightning.bin")
    print("lightning.bin:", (HERE / "lightning.bin").stat().st_size, "bytes")


def masks():
    return [networks.mask(m) for m in range(networks.MASKS)]


def wespeaker(config, pcm):
    from pyannote.audio.models.embedding import wespeaker as module

    first, blocks, size = networks.RESNET[config]
    network = module.WeSpeakerResNet34()
    network.resnet = module.resnet.ResNet(module.resnet.BasicBlock, list(blocks), m_channels=first,
                                          feat_dim=80, embed_dim=size, two_emb_layer=False)
    load(network, networks.resnet(config))
    vectors = []
    with torch.no_grad():
        for window, weights in masks():
            vectors.append(network(torch.from_numpy(pcm[window])[None, None],
                                   weights=torch.from_numpy(weights)[None]).numpy()[0])
    write(f"{config}.vectors.f32", vectors)
    return network


def kaldi(network, pcm):
    with torch.no_grad():
        features = network._fbank(torch.from_numpy(pcm[:1]) * (1 << 15)).numpy()
    assert features.shape == (998, 80)
    write("kaldi.f32", features[::FRAMES_APART])


def resemblyzer(config, pcm):
    from resemblyzer import audio, voice_encoder

    layers, hidden, size = networks.GE2E[config]
    voice_encoder.model_num_layers = layers
    voice_encoder.model_hidden_size = hidden
    voice_encoder.model_embedding_size = size
    state = {n: torch.from_numpy(v.copy()) for n, v in networks.ge2e(config).items()}
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save({"model_state": state}, file.name)
        encoder = voice_encoder.VoiceEncoder("cpu", verbose=False, weights_fpath=file.name)
    vectors = []
    for window, weights in masks():
        heard = torch.nn.functional.interpolate(torch.from_numpy(weights)[None, None],
                                                size=pcm.shape[1], mode="nearest")[0, 0] > 0.5
        wav = pcm[window][heard.numpy()]
        if len(wav) < 6400 or not wav.any():
            vectors.append(np.zeros(size))  # too little for a vector
            continue
        wav = audio.normalize_volume(wav, -30, increase_only=True)
        vectors.append(encoder.embed_utterance(wav))
    write(f"{config}.vectors.f32", vectors)
    features = audio.wav_to_mel_spectrogram(pcm[0])
    assert features.shape == (1001, 40)
    write("power.f32", features[::FRAMES_APART])


def main():
    stub_packages()
    stub("pyannote.audio.core.model", Model=Model)
    stub("pyannote.audio.core.task", Task=object)
    torch.vmap = vmap
    torch.set_num_threads(2)
    pcm = networks.sound(WINDOWS)
    for config in ("pyannet", "small"):
        segmentation(config, pcm)
    lightning("tiny")
    for config in networks.RESNET:
        network = wespeaker(config, pcm)
    kaldi(network, pcm)
    for config in networks.GE2E:
        resemblyzer(config, pcm)


if __name__ == "__main__":
    main()
