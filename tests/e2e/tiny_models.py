"""Models with weights made by a formula, in the layouts of docs/reference/models.md: they hear nothing, but
what they say of a recording is always the same. Python's standard library alone."""
import array
import json
import os
import random
import struct


def safetensors(path, tensors):
    """tensors: name -> (shape, array of floats)."""
    header, blocks, at = {}, [], 0
    for name, (shape, values) in tensors.items():
        data = values.tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(data)]}
        blocks.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for data in blocks:
            file.write(data)


def tensors(path):
    """name -> array of floats, of a file whose tensors are float32."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    return {name: array.array("f", data[slice(*one["data_offsets"])]) for name, one in header.items() if name != "__metadata__"}


class Weights(dict):
    """Tensors of noise with a spread that keeps what goes in about as large as what comes out."""

    def __init__(self, seed):
        super().__init__()
        self.noise = random.Random(seed)

    def values(self, count, scale, offset=0.0):
        some = [offset + scale * self.noise.gauss(0, 1) for _ in range(min(count, 4099))]
        return array.array("f", (some * (count // len(some) + 1))[:count])

    def put(self, name, *shape, gain=1.0, offset=0.0):
        count = 1
        for n in shape:
            count *= n
        across = count // shape[0] if len(shape) > 1 else 1
        self[name] = (shape, self.values(count, gain / across ** 0.5, offset))

    def one(self, name, *shape):
        count = 1
        for n in shape:
            count *= n
        self[name] = (shape, array.array("f", [1.0] * count))

    def zero(self, name, *shape):
        self[name] = (shape, array.array("f", [0.0] * shape[0]))


# ---- sounds: YAMNet's shape, with five classes

CLASSES = ["Speech", "Music", "Applause", 'Bark, "woof"', "Silence"]
LAYERS = [(32, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1),
          (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)]


def convolution(kind, kernel, stride):
    before, after = int(kernel == 3 and stride == 1), int(kernel == 3)
    return {"type": kind, "kernel": [kernel, kernel], "stride": [stride, stride],
            "pad_top": before, "pad_left": before, "pad_bottom": after, "pad_right": after}


def yamnet(directory, classes=CLASSES):
    weights, width = Weights(1), LAYERS[0][0]
    layers = [convolution("conv", 3, 2)]
    weights.put("layer1.conv.weight", width, 1, 3, 3, gain=1.4)
    weights.put("layer1.conv.bias", width, gain=0.1)
    for i, (out, stride) in enumerate(LAYERS[1:], start=2):
        layers += [convolution("depthwise", 3, stride), convolution("pointwise", 1, 1)]
        weights.put(f"layer{i}.depthwise.weight", width, 1, 3, 3, gain=1.4)
        weights.put(f"layer{i}.depthwise.bias", width, gain=0.1)
        weights.put(f"layer{i}.pointwise.weight", out, width, 1, 1, gain=1.4)
        weights.put(f"layer{i}.pointwise.bias", out, gain=0.1)
        width = out
    weights.put("logits.weight", len(classes), width, gain=0.2)
    weights.put("logits.bias", len(classes), gain=1.0)
    safetensors(os.path.join(directory, "model.safetensors"), weights)
    with open(os.path.join(directory, "classes.csv"), "w", encoding="utf-8") as file:
        file.write("index,mid,display_name\n")
        for i, name in enumerate(classes):
            quoted = '"' + name.replace('"', '""') + '"' if "," in name else name
            file.write(f"{i},/m/{i},{quoted}\n")
    config = {"model_type": "yamnet", "format_version": 1,
              "audio": {"sample_rate": 16000},
              "features": {"window_samples": 400, "hop_samples": 160, "fft_length": 512,
                           "mel_bins": 64, "mel_min_hz": 125.0, "mel_max_hz": 7500.0,
                           "log_offset": 0.001},
              "patches": {"frames": 96, "hop_frames": 48, "samples_per_patch": 15600,
                          "hop_samples": 7680},
              "network": {"embedding_size": 1024, "num_classes": len(classes), "layers": layers}}
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    return directory


# ---- diarization: PyanNet's and WeSpeaker's shapes, as narrow as they may be

def segmentation(path, filters=6, hidden=8):
    w = Weights(2)
    w.one("sincnet.wav_norm1d.weight", 1)
    w.zero("sincnet.wav_norm1d.bias", 1)
    width = 1
    for i, kernel in enumerate((251, 5, 5)):
        w.put(f"sincnet.conv1d.{i}.weight", filters, width, kernel)
        if i:
            w.zero(f"sincnet.conv1d.{i}.bias", filters)
        w.one(f"sincnet.norm1d.{i}.weight", filters)
        w.zero(f"sincnet.norm1d.{i}.bias", filters)
        width = filters
    for layer in range(2):
        for tail in ("", "_reverse"):
            w.put(f"lstm.weight_ih_l{layer}{tail}", 4 * hidden, width, gain=2.0)
            w.put(f"lstm.weight_hh_l{layer}{tail}", 4 * hidden, hidden)
            w.zero(f"lstm.bias_ih_l{layer}{tail}", 4 * hidden)
            w.zero(f"lstm.bias_hh_l{layer}{tail}", 4 * hidden)
        width = 2 * hidden
    w.put("linear.0.weight", 12, width, gain=2.0)
    w.zero("linear.0.bias", 12)
    w.put("classifier.weight", 7, 12, gain=6.0)
    w.zero("classifier.bias", 7)
    safetensors(path, w)


def voiceprint(path, channels=4, size=16):
    w = Weights(3)

    def convolve(name, out, width, kernel):
        w.put(f"resnet.{name}.weight", out, width, kernel, kernel, gain=1.4)
        w.zero(f"resnet.{name}.bias", out)

    convolve("conv1", channels, 1, 3)
    for layer in range(1, 5):
        convolve(f"layer{layer}.0.conv1", channels, channels, 3)
        convolve(f"layer{layer}.0.conv2", channels, channels, 3)
        if layer > 1:
            convolve(f"layer{layer}.0.shortcut.0", channels, channels, 1)
    w.put("resnet.seg_1.weight", size, 2 * 10 * channels)
    w.zero("resnet.seg_1.bias", size)
    safetensors(path, w)


def diarization(directory, size=16):
    segmentation(os.path.join(directory, "segmentation.safetensors"))
    voiceprint(os.path.join(directory, "embedding.safetensors"), size=size)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "nightshift-diarization", "clustering": "ahc", "threshold": 0.7,
                   "min_cluster_size": 2}, file)
    return directory


# ---- voice activity: Silero's shape, for devices that compute nothing

def silero(path):
    w = Weights(4)
    for name, shape in (("stft_conv.weight", (258, 1, 256)), ("conv1.weight", (128, 129, 3)), ("conv1.bias", (128,)),
                        ("conv2.weight", (64, 128, 3)), ("conv2.bias", (64,)), ("conv3.weight", (64, 64, 3)),
                        ("conv3.bias", (64,)), ("conv4.weight", (128, 64, 3)), ("conv4.bias", (128,)),
                        ("lstm_cell.weight_ih", (512, 128)), ("lstm_cell.weight_hh", (512, 128)),
                        ("lstm_cell.bias_ih", (512,)), ("lstm_cell.bias_hh", (512,)),
                        ("final_conv.weight", (1, 128, 1)), ("final_conv.bias", (1,))):
        w.put(name, *shape)
    safetensors(path, w)
    return path


# ---- vectors of sound: CLAP's audio tower, narrow

def clap(directory, size=24, hop=1920, image=128, width=32, depths=(2, 2, 1), heads=(2, 4, 8)):
    w, encoder, inner = Weights(5), "audio_model.audio_encoder.", width

    def norm(name, n):
        w.one(name + ".weight", n)
        w.zero(name + ".bias", n)

    def dense(name, out, inputs):
        w.put(name + ".weight", out, inputs)
        w.zero(name + ".bias", out)

    norm(encoder + "batch_norm", 64)
    w.zero(encoder + "batch_norm.running_mean", 64)
    w.one(encoder + "batch_norm.running_var", 64)
    w.put(encoder + "patch_embed.proj.weight", width, 1, 4, 4)
    w.zero(encoder + "patch_embed.proj.bias", width)
    norm(encoder + "patch_embed.norm", width)
    for i, depth in enumerate(depths):
        for k in range(depth):
            block = f"{encoder}layers.{i}.blocks.{k}."
            norm(block + "layernorm_before", inner)
            norm(block + "layernorm_after", inner)
            for part in ("self.query", "self.key", "self.value", "output.dense"):
                dense(block + "attention." + part, inner, inner)
            dense(block + "intermediate.dense", 4 * inner, inner)
            dense(block + "output.dense", inner, 4 * inner)
            w.put(block + "attention.self.relative_position_bias_table", 15 * 15, heads[i])
        if i + 1 < len(depths):
            w.put(f"{encoder}layers.{i}.downsample.reduction.weight", 2 * inner, 4 * inner)
            norm(f"{encoder}layers.{i}.downsample.norm", 4 * inner)
            inner *= 2
    norm(encoder + "norm", inner)
    dense("audio_projection.linear1", size, inner)
    dense("audio_projection.linear2", size, size)
    safetensors(os.path.join(directory, "model.safetensors"), w)
    files = {
        "config.json": {"model_type": "clap", "projection_dim": size,
                        "audio_config": {"spec_size": image, "patch_embeds_hidden_size": width,
                                         "hidden_size": inner, "depths": depths, "num_attention_heads": heads},
                        "text_config": {}},
        "preprocessor_config.json": {"feature_size": 64, "sampling_rate": 48000, "hop_length": hop,
                                     "max_length_s": 10, "fft_window_size": 1024, "frequency_min": 50,
                                     "frequency_max": 14000, "padding": "repeatpad", "truncation": "rand_trunc"}}
    for name, content in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    return directory


# ---- vectors of text: BERT's shape, with a vocabulary of the alphabet

def encoder(directory, size=16, layers=1, positions=64, words=()):
    """words: pieces of words that it knows besides letters."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces += [mark + chr(c) for mark in ("", "##") for c in range(ord("a"), ord("z") + 1)]
    pieces += [mark + word for mark in ("", "##") for word in words if len(word) > 1]
    w = Weights(11)
    w.put("embeddings.word_embeddings.weight", len(pieces), size, gain=3)
    w.put("embeddings.position_embeddings.weight", positions, size)
    w.put("embeddings.token_type_embeddings.weight", 2, size)

    def norm(name):
        w.one(name + ".weight", size)
        w.zero(name + ".bias", size)

    def dense(name, out, width):
        w.put(name + ".weight", out, width)
        w.zero(name + ".bias", out)

    norm("embeddings.LayerNorm")
    for i in range(layers):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            dense(layer + "attention.self." + part, size, size)
        dense(layer + "attention.output.dense", size, size)
        norm(layer + "attention.output.LayerNorm")
        dense(layer + "intermediate.dense", 2 * size, size)
        dense(layer + "output.dense", size, 2 * size)
        norm(layer + "output.LayerNorm")
    safetensors(os.path.join(directory, "model.safetensors"), w)

    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def sequence(name):
        return {"Sequence": {"id": name, "type_id": 0}}

    files = {
        "config.json": {"model_type": "bert", "hidden_act": "gelu", "vocab_size": len(pieces),
                        "hidden_size": size, "num_hidden_layers": layers, "num_attention_heads": max(2, size // 32),
                        "intermediate_size": 2 * size, "max_position_embeddings": positions,
                        "type_vocab_size": 2, "layer_norm_eps": 1e-12},
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": pieces[i], "special": True, "single_word": False,
                              "lstrip": False, "rstrip": False, "normalized": False}
                             for i in range(4)],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [special("[CLS]"), sequence("A"), special("[SEP]")],
                "pair": [special("[CLS]"), sequence("A"), special("[SEP]"), sequence("B"),
                         special("[SEP]")],
                "special_tokens": {name: {"id": name, "ids": [pieces.index(name)], "tokens": [name]}
                                   for name in ("[CLS]", "[SEP]")}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100,
                      "vocab": {piece: i for i, piece in enumerate(pieces)}}}}
    for name, content in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    return directory
