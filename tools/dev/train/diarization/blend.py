#!/usr/bin/env python3
"""blend.py OLD NEW SHARE TO: a checkpoint between two of one network that was trained on: OLD's weights, and SHARE
of the way to NEW's. What lies between often does better on what neither training had than either (Wortsman et al.,
"Robust fine-tuning of zero-shot models", 2022)."""
import sys

import torch


def main():
    old, new = (torch.load(path, map_location="cpu") for path in sys.argv[1:3])
    share = float(sys.argv[3])
    weights = {name: torch.lerp(value, new["network"][name], share) for name, value in old["network"].items()}
    torch.save({"network": weights, "done": new["done"]}, sys.argv[4])


if __name__ == "__main__":
    main()
