#!/usr/bin/env python3
"""Workload files (docs/commands.md, "Workload file") out of packed/: `make.py NAME` prints one, `make.py NAME FILE` writes it
(compressed where the file's name ends in .gz), `make.py` alone lists the names. The same bytes every time: README.md."""

import gzip
import json
import os
import pathlib
import sys
import uuid

PACKED = pathlib.Path(__file__).resolve().parent / "packed"
# Lists that workloads share: instance types, and the UIDs of the first, second, … pod.
TYPES = "types-"
UIDS = "uids-"


def names():
    """All workloads."""
    stems = {path.name.split(".")[0] for path in PACKED.iterdir()}
    return sorted(stem for stem in stems if not stem.startswith((TYPES, UIDS)))


def unpacked(stem):
    """A file of packed/, whether it is compressed or not."""
    plain = PACKED / f"{stem}.json"
    if plain.exists():
        return json.loads(plain.read_bytes())
    return json.loads(gzip.decompress((PACKED / f"{stem}.json.gz").read_bytes()))


def workload(name):
    """A workload whole: its pods from shapes and how many of each come one after the other, its types from their list."""
    if name not in names():
        sys.exit(f"{name!r} is no workload; allowed: {', '.join(names())}")
    packed = unpacked(name)
    types, shapes, runs = (packed.pop(key) for key in ("types", "shapes", "pods"))
    order = [shape for count, shape in runs for _ in range(count)]
    return {
        **packed,
        "instanceTypes": unpacked(TYPES + types),
        "pods": [pod(number, uid, shapes[shape]) for number, (uid, shape) in enumerate(zip(uids(name, types), order))],
    }


def uids(name, types):
    """The UIDs of a workload's pods: its own, or those of all workloads of its types."""
    own = PACKED / f"{UIDS}{name}.bin"
    data = (own if own.exists() else PACKED / f"{UIDS}{types}.bin").read_bytes()
    return (str(uuid.UUID(bytes=data[at : at + 16])) for at in range(0, len(data), 16))


def pod(number, uid, shape):
    """A pod of a shape."""
    return {"name": f"p{number:05}", "namespace": "default", "uid": uid, **shape}


def write(text, path):
    """Writes a file whole or not at all: several tests may write the same one at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, 1, mtime=0)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def main():
    if len(sys.argv) == 1:
        print("\n".join(names()))
        return
    if len(sys.argv) > 3:
        sys.exit(__doc__)
    text = json.dumps(workload(sys.argv[1]), separators=(",", ":"), ensure_ascii=False) + "\n"
    if len(sys.argv) == 3:
        write(text, pathlib.Path(sys.argv[2]))
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
