"""nn.LSTM as recurrence.c computes it: four times as fast where layers are small."""
import ctypes
import os
import subprocess

import torch
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


def compiled(folder, hidden, batch):
    path = f"{folder}/recurrence-{hidden}-{batch}.so"
    subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", f"-DHIDDEN={hidden}",
                    f"-DBATCH={batch}", "-o", path, f"{HERE}/recurrence.c", "-lm"], check=True)
    return ctypes.CDLL(path)


def at(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


class Direction(torch.autograd.Function):
    """gates: [frames][batch][4 hidden] of the inputs; [frames][batch][hidden]."""

    @staticmethod
    def forward(ctx, gates, weights, program, backwards):
        gates = gates.transpose(1, 2).contiguous()
        frames, hidden, batch = gates.shape[0], weights.shape[1], gates.shape[2]
        cells, states = torch.empty(frames, hidden, batch), torch.empty(frames, hidden, batch)
        program.there(ctypes.c_size_t(frames), backwards, at(gates), at(weights), at(cells), at(states))
        states = states.transpose(1, 2).contiguous()
        ctx.save_for_backward(gates, weights, cells, states)
        ctx.program, ctx.backwards = program, backwards
        return states

    @staticmethod
    def backward(ctx, slopes):
        gates, weights, cells, states = ctx.saved_tensors
        gates, slopes = gates.clone(), slopes.transpose(1, 2).contiguous()
        across = weights.t().contiguous()
        ctx.program.back(ctypes.c_size_t(len(gates)), ctx.backwards, at(gates), at(across), at(cells), at(slopes))
        gates = gates.transpose(1, 2).contiguous()
        now, before = (gates[:-1], states[1:]) if ctx.backwards else (gates[1:], states[:-1])
        return gates, now.flatten(0, 1).t() @ before.flatten(0, 1), None, None


def lstm(network, x, program):
    """What the bidirectional nn.LSTM makes of x: [batch][frames][values], its batch first."""
    x = x.transpose(0, 1).contiguous()
    for layer in range(network.num_layers):
        found = []
        for backwards, end in enumerate(("", "_reverse")):
            inputs, states, bias, more = (getattr(network, f"{name}_l{layer}{end}") for name in
                                          ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            found.append(Direction.apply(F.linear(x, inputs, bias + more), states, program, backwards))
        x = torch.cat(found, 2)
    return x.transpose(0, 1)
