#!/usr/bin/env python3
"""peer_run.py PEER WEIGHTS FILE...: a line of JSON for each file: [[begin, end, language, text], ...].

Of PEER+words each has [[begin, end, word], ...] behind these. Runs in the peer's environment. The defaults are those of
the peers' own command lines and classes: five beams; $NIGHTSHIFT_REAL_BEAMS are others. faster-whisper:TYPE computes in
another type than float32.
"""
import json
import os
import sys


THREADS = int(os.environ.get("NIGHTSHIFT_REAL_THREADS", 0))
BEAMS = int(os.environ.get("NIGHTSHIFT_REAL_BEAMS", 5))


def faster_whisper(weights, batched, times, compute):
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    model = WhisperModel(weights, device="cpu", compute_type=compute, cpu_threads=THREADS)
    listener = BatchedInferencePipeline(model) if batched else model

    def hear(path):
        segments, info = listener.transcribe(path, beam_size=BEAMS, word_timestamps=times)
        return [(s.start, s.end, info.language, s.text.strip(), [(w.start, w.end, w.word) for w in s.words or ()])
                for s in segments]
    return hear


def openvino(weights):
    import wave

    import numpy
    import openvino_genai

    pipeline = openvino_genai.WhisperPipeline(weights, "CPU", INFERENCE_NUM_THREADS=THREADS)

    def hear(path):
        with wave.open(path) as file:
            samples = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16)
        result = pipeline.generate((samples / 32768).astype(numpy.float32), return_timestamps=True, num_beams=BEAMS)
        return [(c.start_ts, c.end_ts, "", c.text.strip()) for c in result.chunks or ()]
    return hear


def openai_whisper(weights, times):
    import torch
    import whisper

    with open(os.path.join(weights, "config.json"), encoding="utf-8") as file:
        c = json.load(file)
    with open(os.path.join(weights, "generation_config.json"), encoding="utf-8") as file:
        heads = json.load(file)["alignment_heads"]
    model = whisper.model.Whisper(whisper.model.ModelDimensions(
        c["num_mel_bins"], 1500, c["d_model"], c["encoder_attention_heads"], c["encoder_layers"], c["vocab_size"],
        c["max_target_positions"], c["d_model"], c["decoder_attention_heads"], c["decoder_layers"]))
    model.load_state_dict({openai_name(k): v.float() for k, v in safetensors(
        os.path.join(weights, "model.safetensors")).items()})
    mask = torch.zeros(c["decoder_layers"], c["decoder_attention_heads"], dtype=torch.bool)
    for layer, head in heads:
        mask[layer, head] = True
    model.register_buffer("alignment_heads", mask.to_sparse(), persistent=False)

    def hear(path):
        r = whisper.transcribe(model, path, beam_size=BEAMS, best_of=5, fp16=False, word_timestamps=times)
        return [(s["start"], s["end"], r["language"], s["text"].strip(),
                 [(w["start"], w["end"], w["word"]) for w in s.get("words", ())]) for s in r["segments"]]
    return hear


def safetensors(path):
    import struct
    import torch

    with open(path, "rb") as file:
        n, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n))
        data = bytearray(file.read())
    return {k: torch.frombuffer(data, dtype=torch.float16, offset=v["data_offsets"][0],
                                count=(v["data_offsets"][1] - v["data_offsets"][0]) // 2).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def openai_name(name):
    """Of Hugging Face's name the original one."""
    for old, new in (("model.", ""), (".layers.", ".blocks."), ("self_attn_layer_norm", "attn_ln"),
                     ("encoder_attn_layer_norm", "cross_attn_ln"), ("final_layer_norm", "mlp_ln"),
                     ("encoder_attn.", "cross_attn."), ("self_attn.", "attn."), (".q_proj", ".query"),
                     (".k_proj", ".key"), (".v_proj", ".value"), (".out_proj", ".out"), (".fc1", ".mlp.0"),
                     (".fc2", ".mlp.2"), ("encoder.layer_norm", "encoder.ln_post"),
                     ("decoder.layer_norm", "decoder.ln"), ("decoder.embed_tokens.", "decoder.token_embedding."),
                     ("encoder.embed_positions.weight", "encoder.positional_embedding"),
                     ("decoder.embed_positions.weight", "decoder.positional_embedding")):
        name = name.replace(old, new)
    return name


def main(peer, weights, *files):
    peer, _, times = peer.partition("+")
    peer, _, compute = peer.partition(":")
    if peer == "openvino":
        hear = openvino(weights)
    elif peer == "openai-whisper":
        hear = openai_whisper(weights, bool(times))
    else:
        hear = faster_whisper(weights, peer.endswith("batched"), bool(times), compute or "float32")
    for path in files:
        print(json.dumps([s if times else s[:4] for s in hear(path)], ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
