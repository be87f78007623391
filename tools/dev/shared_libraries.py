"""The shared libraries that go along with programs of ours to another machine (tools/dev/release, tools/dev/gpu-pack)."""
import re
import subprocess
from pathlib import Path


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def opened(file, fail):
    """Paths of the libraries that the program opens when they are wanted (base/library.h)."""
    names = {name.decode() for name in re.findall(rb"lib(?:(?:av|sw)[a-z]+|archive|curl|crypto)\.so\.\d+",
                                                  file.read_bytes())}
    here = dict(re.findall(r"^\s*(\S+) \(libc6,x86-64\) => (\S+)", output("/sbin/ldconfig", "-p"), re.M))
    if missing := sorted(names - here.keys()):
        fail(f"{file} opens what is not here: {' '.join(missing)}")
    return {name: Path(here[name]) for name in sorted(names)}


def libraries_of(files, opening, not_ours, fail):
    """{name: path here} of all that the files need, and that those of them that are `opening` open; but for
    names that match not_ours. fail(text) does not return."""
    found = {name: path for file in opening for name, path in opened(file, fail).items()}
    for file in [*files, *found.values()]:
        for line in output("ldd", file).splitlines():
            part = line.split()
            if "not found" in line:
                fail(f"{file}: {line.strip()}")
            if len(part) > 2 and part[1] == "=>" and not not_ours.match(part[0]):
                found[part[0]] = Path(part[2])
    return found
