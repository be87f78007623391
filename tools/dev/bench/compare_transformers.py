#!/usr/bin/env python3
"""Windows per second of Hugging Face transformers on a GPU, in the columns of `engine-bench -m`.

    compare_transformers.py [--device cuda:0] [--models tiny,base] [--tokens 100] [--rounds 5]
                            [--batches 8,16,32,64,128,256] [--dtype float16]

For each model a WhisperForConditionalGeneration of its configuration with random weights, in fp16 with
SDPA. A window is 30 s of noise: log-mel on the device, encoder, and 100 forced tokens (the end token
is suppressed), greedy, with the static decoding loop that `generate` has. The best batch is found by
a ladder that ends where memory does or where more windows bring nothing; figures are medians of
`rounds`. encoder: log-mel and encoder alone; decoder: the rest of the whole.

Needs torch with CUDA and transformers (4.40 or later); nothing of it is used by the program itself.
Says in one line, and exits with 77, when something of that is not there.
"""
import argparse
import statistics
import sys
import time

CONFIGS = {  # d_model, encoder layers, decoder layers, heads, mel bins, vocabulary
    "nano": (192, 4, 2, 3, 80, 2151),
    "tiny": (384, 4, 4, 6, 80, 51865),
    "base": (512, 6, 6, 8, 80, 51865),
    "small": (768, 12, 12, 12, 80, 51865),
    "medium": (1024, 24, 24, 16, 80, 51865),
    "large-v3": (1280, 32, 32, 20, 128, 51866),
    "large-v3-turbo": (1280, 32, 4, 20, 128, 51866),
}
PROMPT = 4
SAMPLES = 480000


def leave(why):
    print(f"transformers: not measured: {why}")
    sys.exit(77)


def libraries():
    try:
        import torch
    except ImportError:
        leave("torch is not installed")
    try:
        import transformers
    except ImportError:
        leave("transformers is not installed")
    return torch, transformers


def make_model(transformers, torch, name, device, dtype):
    """The model, and its feature extractor."""
    d, encoder_layers, decoder_layers, heads, bins, vocab = CONFIGS[name]
    small = vocab < 50000
    ids = {"bos_token_id": vocab - 2, "eos_token_id": vocab - 2, "pad_token_id": vocab - 2,
           "decoder_start_token_id": vocab - 1} if small else {}
    config = transformers.WhisperConfig(
        vocab_size=vocab, num_mel_bins=bins, d_model=d, encoder_layers=encoder_layers,
        decoder_layers=decoder_layers, encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=4 * d, decoder_ffn_dim=4 * d, suppress_tokens=[], begin_suppress_tokens=[], attn_implementation="sdpa", **ids)
    torch.manual_seed(1)
    model = transformers.WhisperForConditionalGeneration(config).to(device=device, dtype=dtype).eval()
    extract = transformers.WhisperFeatureExtractor(feature_size=bins)
    return model, extract


class Measured:
    """One model, ready to be timed."""

    def __init__(self, torch, transformers, name, device, dtype, tokens):
        self.torch, self.device, self.dtype, self.tokens = torch, device, dtype, tokens
        self.model, self.extract = make_model(transformers, torch, name, device, dtype)
        vocab = self.model.config.vocab_size
        self.window = torch.rand(SAMPLES, generator=torch.Generator().manual_seed(7)).sub_(0.5).mul_(0.2).to(device)
        self.filters = torch.as_tensor(self.extract.mel_filters, dtype=torch.float32, device=device)
        self.hann = torch.hann_window(400, device=device)
        self.prompt = [min(i, vocab - 1) for i in (50258, 50259, 50359, 50363)]
        # The loop of the library for every decoder, without Whisper's own around it, which would look
        # at timestamps and languages: the same work for each token, and exactly `tokens` of them.
        self.generate = transformers.GenerationMixin.generate.__get__(self.model)
        self.settings = transformers.GenerationConfig(
            do_sample=False, num_beams=1, min_new_tokens=tokens, max_new_tokens=tokens, use_cache=True,
            eos_token_id=self.model.config.eos_token_id, pad_token_id=self.model.config.pad_token_id,
            decoder_start_token_id=self.model.config.decoder_start_token_id)

    def sync(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def features(self, batch):
        """WhisperFeatureExtractor's formula, on the device: on the processor it would be the bottleneck."""
        torch = self.torch
        audio = self.window.expand(batch, SAMPLES)
        power = torch.stft(audio, 400, 160, window=self.hann, return_complex=True)[..., :-1].abs() ** 2
        mel = torch.clamp(self.filters.T @ power, min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax(dim=(1, 2), keepdim=True) - 8.0)
        return ((mel + 4.0) / 4.0).to(self.dtype)

    def encode(self, batch):
        return self.model.get_encoder()(self.features(batch))

    def whole(self, batch):
        encoded = self.encode(batch)
        prompt = self.torch.tensor([self.prompt] * batch, device=self.device)
        out = self.generate(encoder_outputs=encoded, decoder_input_ids=prompt, generation_config=self.settings)
        if out.shape[1] != PROMPT + self.tokens:
            raise RuntimeError(f"{out.shape[1]} tokens came back where {PROMPT} + {self.tokens} were wanted")
        return out

    def seconds(self, what, batch):
        self.sync()
        start = time.perf_counter()
        with self.torch.inference_mode():
            what(batch)
        self.sync()
        return time.perf_counter() - start

    def best_batch(self, batches):
        """(batch, windows/s) of the fastest that fits."""
        best = (0, 0.0)
        for batch in batches:
            try:
                self.seconds(self.whole, batch)  # allocates, and chooses kernels
                rate = batch / self.seconds(self.whole, batch)
            except self.torch.cuda.OutOfMemoryError:
                self.torch.cuda.empty_cache()
                break
            print(f"  batch {batch}: {rate:.2f} windows/s", file=sys.stderr, flush=True)
            if rate > best[1]:
                best = (batch, rate)
            elif rate < 0.9 * best[1]:
                break
        return best


def row(name, m, batch, rounds, dtype):
    whole = statistics.median(m.seconds(m.whole, batch) for _ in range(rounds))
    encoder = statistics.median(m.seconds(m.encode, batch) for _ in range(rounds))
    decoder = max(whole - encoder, 1e-9)
    return (f"| {name} | transformers, {dtype} | {batch} | {batch / encoder:.2f} | {batch / decoder:.2f} | "
            f"{batch / whole:.2f} | {30 * batch / whole:.0f} | | |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--models", default="tiny,base,small,medium,large-v3,large-v3-turbo")
    ap.add_argument("--tokens", type=int, default=100)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--batches", default="8,16,32,64,128,256")
    ap.add_argument("--dtype", default="float16")
    a = ap.parse_args()
    unknown = [m for m in a.models.split(",") if m not in CONFIGS]
    if unknown:
        ap.error(f"no configuration is known for {', '.join(unknown)}: {', '.join(CONFIGS)}")
    torch, transformers = libraries()
    device = torch.device(a.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        leave("torch sees no CUDA device")
    dtype = getattr(torch, a.dtype)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor"
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {name}, SDPA")
    print("| model | precision | slots | encoder, windows/s | decoder, windows/s | both, windows/s | x real time | "
          "matmul peak | bandwidth |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    status = 0
    for model in a.models.split(","):
        m = None
        try:
            m = Measured(torch, transformers, model, device, dtype, a.tokens)
            batch, _ = m.best_batch([int(b) for b in a.batches.split(",")])
            text = row(model, m, batch, a.rounds, a.dtype) if batch else (
                f"| {model} | transformers, {a.dtype} | | | | no batch fits | | | |")
        except Exception as e:  # one model's trouble must not cost the others' figures
            text, status = f"| {model} | transformers, {a.dtype} | | | | not measured | | | |", 1
            print(f"{model}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
        print(text, flush=True)
        del m
        if device.type == "cuda":
            torch.cuda.empty_cache()
    sys.exit(status)


if __name__ == "__main__":
    main()
