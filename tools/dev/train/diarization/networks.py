"""The two networks, with the names of docs/reference/models.md: smaller ones of the architectures of
pyannote.audio's PyanNet and WeSpeaker's ResNet34."""
import itertools
import re

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SETS = ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
BANDS, CHANNELS, HIDDEN, LAYERS, LINEAR = 24, 32, 48, 2, 48
WIDTHS, BLOCKS, SIZE = (8, 32, 64, 64), (1, 2, 2, 2), 128


class SincNet(nn.Module):
    """Behind features.sinc_heard: [batch][2 bands][5325] to [batch][589][channels]."""

    def __init__(self):
        super().__init__()
        self.conv1d = nn.ModuleList([nn.Identity(), nn.Conv1d(2 * BANDS, CHANNELS, 5),
                                     nn.Conv1d(CHANNELS, CHANNELS, 5)])
        self.norm1d = nn.ModuleList([nn.Module(), nn.InstanceNorm1d(CHANNELS, affine=True),
                                     nn.InstanceNorm1d(CHANNELS, affine=True)])
        self.norm1d[0].weight = nn.Parameter(torch.ones(2 * BANDS))
        self.norm1d[0].bias = nn.Parameter(torch.zeros(2 * BANDS))

    def forward(self, x):
        first = self.norm1d[0]
        x = F.leaky_relu(x * first.weight[:, None] + first.bias[:, None])
        for i in (1, 2):
            x = F.leaky_relu(self.norm1d[i](F.max_pool1d(self.conv1d[i](x), 3)))
        return x.transpose(1, 2)


class PyanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.sincnet = SincNet()
        self.lstm = nn.LSTM(CHANNELS, HIDDEN, LAYERS, bidirectional=True, batch_first=True)
        self.linear = nn.ModuleList([nn.Linear(2 * HIDDEN, LINEAR), nn.Linear(LINEAR, LINEAR)])
        self.classifier = nn.Linear(LINEAR, len(SETS))

    def forward(self, x):
        return self.scores(self.lstm(self.sincnet(x))[0])

    def scores(self, x):
        """Of what the LSTMs say: those of the sets."""
        for linear in self.linear:
            x = F.leaky_relu(linear(x))
        return F.log_softmax(self.classifier(x), -1)


PERMUTATIONS = list(itertools.permutations(range(3)))


def powerset_targets(active):
    """active: [batch][3][frames] of bool. [batch][6][frames]: the class for every naming of the three."""
    order = {s: i for i, s in enumerate(SETS)}
    table = np.zeros((6, 8), np.int64)
    for p, names in enumerate(PERMUTATIONS):
        for bits in range(8):
            who = tuple(sorted(names[s] for s in range(3) if bits >> s & 1))
            table[p, bits] = order[who[:2]]
    bits = (active * np.array([1, 2, 4])[None, :, None]).sum(1)
    return torch.from_numpy(table[:, bits].transpose(1, 0, 2).copy())


def powerset_loss(scores, targets, weights):
    """Cross-entropy under the best naming of each window's speakers (Plaquet and Bredin, "Powerset
    multi-class cross entropy loss for neural speaker diarization", 2023). weights: [batch][frames]."""
    each = torch.stack([-(scores.gather(2, targets[:, p, :, None])[:, :, 0] * weights).mean(1)
                        for p in range(6)], 1)
    least, which = each.min(1)
    return least.mean(), which


def weights_of(active, people, shortest=20):
    """[batch][frames] of mean 1: each frame weighs the same, and beside that each person in a window,
    `people` times as much as all frames, however little is said (of `shortest` frames and more)."""
    active = torch.from_numpy(active.astype(np.float32))
    spoken = active.sum(2, keepdim=True)
    several = (spoken > 0).sum(1).clamp(min=1)
    each = (active / spoken.clamp(min=shortest)).sum(1) / several * active.shape[2]
    return (1 + people * each) / (1 + people)


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                          nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, widths=WIDTHS, blocks=BLOCKS):
        super().__init__()
        channels = widths[0]
        self.conv1 = nn.Conv2d(1, channels, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for layer, (out, count) in enumerate(zip(widths, blocks), 1):
            made = []
            for i in range(count):
                made.append(Block(channels, out, 2 if layer > 1 and i == 0 else 1))
                channels = out
            setattr(self, f"layer{layer}", nn.Sequential(*made))
        self.seg_1 = nn.Linear(2 * 10 * channels, SIZE)
        # Without it all vectors point about one way for long. Folded into seg_1 in the end.
        self.bn_seg_1 = nn.BatchNorm1d(SIZE, affine=False)

    def frames(self, x):
        """x: [batch][80][frames]. [batch][channels x 10][frames / 8]."""
        x = F.relu(self.bn1(self.conv1(x[:, None])))
        for layer in range(1, 5):
            x = getattr(self, f"layer{layer}")(x)
        return x.flatten(1, 2)

    def forward(self, x, of, weights):
        """of: [masks], the window of each. weights: [masks][frames / 8]. [masks][SIZE]."""
        return self.pooled(self.frames(x), of, weights)

    def pooled(self, x, of, weights):
        """Of what frames() makes."""
        x, w = x[of], weights[:, None]
        total, squares = w.sum(2), (w * w).sum(2)
        mean = (x * w).sum(2) / total
        spread = (w * (x - mean[:, :, None]) ** 2).sum(2)
        deviation = torch.sqrt(spread / (total - squares / total + 1e-8) + 1e-8)
        return self.bn_seg_1(self.seg_1(torch.cat((mean, deviation), 1)))


def like(state):
    """A ResNet of the sizes that these tensors have."""
    layers = [[name for name in state if re.fullmatch(rf"layer{n}\.\d+\.conv2\.weight", name)] for n in (1, 2, 3, 4)]
    return ResNet([len(state[names[0]]) for names in layers], [len(names) for names in layers])


def grown(state):
    """A ResNet of WIDTHS and BLOCKS that does what the smaller one does whose tensors these are: channels that
    are new are heard by nobody yet, and blocks that are new add nothing (Chen et al., "Net2Net", 2016)."""
    network = ResNet()
    if {name: value.shape for name, value in state.items()} == \
            {name: value.shape for name, value in network.state_dict().items()}:
        network.load_state_dict(state)
        return network
    with torch.no_grad():
        for name, value in network.state_dict().items():
            old = state.get(name)
            if old is None:
                if name.endswith("bn2.weight"):
                    value.zero_()
                continue
            if value.dim() == 4:  # what old channels hear of new ones
                value[:len(old), old.shape[1]:] = 0
            value[tuple(slice(n) for n in old.shape)] = old
    return network


class Average:
    """Of the weights and the norms' figures while they change: nearer to the middle of what they turn about
    than the last of them."""

    def __init__(self, network, kept):
        self.kept, self.steps = kept, 0
        self.values = {name: value.clone() for name, value in network.state_dict().items()}

    def add(self, network):
        self.steps += 1
        kept = min(self.kept, self.steps / (self.steps + 10))
        for name, value in network.state_dict().items():
            if value.is_floating_point():
                self.values[name].mul_(kept).add_(value, alpha=1 - kept)
            else:
                self.values[name].copy_(value)
