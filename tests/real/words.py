"""Texts as words, and how many of them are wrong, left out and invented."""
import re
import unicodedata

BY_CHARACTER = {"zh", "ja", "yue", "th", "lo", "my"}  # languages that put no blanks between words


def words(text, language=""):
    """As Whisper's basic normaliser: lower case, what stands in brackets left out, marks and signs are blanks.
    Numbers stay as they are written."""
    text = unicodedata.normalize("NFKC", text.lower())
    text = re.sub(r"[<\[{][^>\]}]*[>\]}]|\([^)]*\)", " ", text)
    text = "".join(" " if unicodedata.category(c)[0] in "SPC" else c for c in text if unicodedata.category(c) != "Mn")
    if language in BY_CHARACTER:
        return [c for c in text if not c.isspace()]
    return text.split()


class Count:
    """Words of a reference, and of these: taken for others, left out; and invented ones beside them."""

    def __init__(self, said=0, other=0, left_out=0, invented=0):
        self.said, self.other, self.left_out, self.invented = said, other, left_out, invented

    @property
    def wrong(self):
        return self.other + self.left_out + self.invented

    def add(self, more):
        self.said += more.said
        self.other += more.other
        self.left_out += more.left_out
        self.invented += more.invented
        return self

    def as_list(self):
        return [self.said, self.wrong, self.other, self.left_out, self.invented]


def compare(reference, heard):
    """Count of two lists of words with the fewest errors; of equally few those that pair most words."""
    # A row has (errors, other, left out, invented) for each number of words heard.
    row = [(k, 0, 0, k) for k in range(len(heard) + 1)]
    for said in reference:
        before, row = row, [(row[0][0] + 1, 0, row[0][2] + 1, 0)]
        for k, word in enumerate(heard):
            e, o, l, i = before[k]
            best = (e, o, l, i) if word == said else (e + 1, o + 1, l, i)
            e, o, l, i = before[k + 1]
            best = min(best, (e + 1, o, l + 1, i), key=lambda x: x[0])
            e, o, l, i = row[k]
            best = min(best, (e + 1, o, l, i + 1), key=lambda x: x[0])
            row.append(best)
    _, other, left_out, invented = row[-1]
    return Count(len(reference), other, left_out, invented)


def gone(reference, heard):
    """Words left out in whose place nothing stands. Two that were written as one ("han sido", "ancido") are none."""
    cost = [list(range(len(heard) + 1))]
    for i, said in enumerate(reference):
        row = [i + 1]
        for k, word in enumerate(heard):
            row.append(min(cost[i][k] + (word != said), cost[i][k + 1] + 1, row[k] + 1))
        cost.append(row)
    ret, i, k, ends = 0, len(reference), len(heard), (len(reference), len(heard))
    while True:  # from the end; a region without a word in common ends where two words match
        match = i and k and reference[i - 1] == heard[k - 1] and cost[i][k] == cost[i - 1][k - 1]
        if match or not (i or k):
            said, instead = reference[i:ends[0]], heard[k:ends[1]]
            if 2 * len("".join(instead)) < len("".join(said)):
                ret += max(0, len(said) - len(instead))
            if not match:
                return ret
            i, k = i - 1, k - 1
            ends = i, k
        elif i and k and cost[i][k] == cost[i - 1][k - 1] + 1:
            i, k = i - 1, k - 1
        elif i and cost[i][k] == cost[i - 1][k] + 1:
            i -= 1
        else:
            k -= 1
