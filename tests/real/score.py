"""What was heard of a set, counted."""
from words import Count, compare, gone, words


def of_recording(r, segments):
    """Words in the order of time, whatever language they were heard in. Where nobody speaks each is invented."""
    language = r.language
    return compare(words(r.text, language), words(" ".join(s[3] for s in segments), language))


def all_gone(items, heard):
    """Words of all recordings in whose place nothing stands."""
    return sum(gone(words(r.text, r.language), words(" ".join(s[3] for s in heard[r.name]), r.language))
               for r in items)


def by_language(items, heard):
    """{"all": Count, language: Count ...}; languages where there are several. "" is the language of silence."""
    ret = {"all": Count()}
    for r in items:
        count = of_recording(r, heard[r.name])
        ret["all"].add(count)
        parts = [(p.language, c) for p, _, c in passages(r, heard[r.name])] if len(r.passages) > 1 else [
            (r.language, count)]
        for language, part in parts:
            ret.setdefault(language, Count()).add(part)
    if len(ret) == 2:
        return {"all": ret["all"]}
    return {key: ret[key] for key in ["all"] + sorted(k for k in ret if k != "all")}


def passages(r, segments):
    """For each passage: its language, seconds heard by language, and Count of its words. A segment belongs to the
    passage that it shares most time with."""
    own = [[] for _ in r.passages]
    for s in segments:
        shares = [min(s[1], p.end) - max(s[0], p.begin) for p in r.passages]
        own[shares.index(max(shares))].append(s)
    ret = []
    for p, mine in zip(r.passages, own):
        seconds = {}
        for begin, end, language, _ in mine:
            seconds[language] = seconds.get(language, 0) + end - begin
        ret.append((p, seconds, compare(words(p.text, p.language), words(" ".join(s[3] for s in mine), p.language))))
    return ret


def right_languages(items, heard):
    """(passages heard in their own language for most of their time, passages)"""
    right = of = 0
    for r in items:
        for p, seconds, _ in passages(r, heard[r.name]):
            of += 1
            right += bool(seconds) and max(seconds, key=seconds.get) == p.language
    return right, of


def more(name, items, heard):
    """Sentences that only this set has."""
    ret = []
    if name == "languages":
        right, of = right_languages(items, heard)
        ret.append(f"{right} of {of} passages in their language")
    if name == "silences":
        ret.append(f"{sum(bool(heard[r.name]) for r in items)} of {len(items)} with a text")
    if name in ("seven", "prompts"):
        count = by_language(items, heard)["all"]
        if count.said:
            ret.append(f"{100 * count.left_out / count.said:.2f} % lost, {all_gone(items, heard)} with nothing instead")
        ret.append(f"{sum(len(words(' '.join(s[3] for s in heard[r.name]))) for r in items)} words heard")
    return ret
