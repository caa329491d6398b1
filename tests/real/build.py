#!/usr/bin/env python3
"""Builds programs that others wrote, pinned by the go.mod files beside this script, and prints where each one is.

    python3 tests/real/build.py kubectl

What has been built stays in target/real/, in a folder named after the version and the checksums of its dependencies, so
that a second call costs nothing and a changed go.mod builds anew. Calls at the same time wait for one another.
"""

import fcntl
import hashlib
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "real"

# program: the folder of its go.mod, the module that has its version, its package
PROGRAMS = {
    "kubectl": ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kubectl-1.33": ("kubernetes-1.33", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
}


def version_of(folder, module):
    """The version that a go.mod requires of a module."""
    text = (HERE / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if not found:
        sys.exit(f"build.py: tests/real/{folder}/go.mod does not require {module}")
    return found.group(1)


def stamps(folder, version):
    """What Kubernetes' own build writes into its programs, and `kubectl version` shows."""
    if not folder.startswith("kubernetes"):
        return ""
    major, minor, _ = version.lstrip("v").split(".", 2)
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {place}.{name}={value}" for place in places for name, value in facts.items())


def build(program):
    """The path of a program, built when it is not there."""
    folder, module, package = PROGRAMS[program]
    version = version_of(folder, module)
    key = hashlib.sha256(b"".join((HERE / folder / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()[:12]
    place = TARGET / f"{folder}-{version}-{key}"
    built = place / program
    place.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            unfinished = place / f".{program}.{os.getpid()}"
            flags = ["-trimpath", "-ldflags", f"-s -w {stamps(folder, version)}"]
            command = ["go", "build", *flags, "-o", str(unfinished), package]
            print(f"building {program} {version} (once; a few minutes)", file=sys.stderr, flush=True)
            try:
                subprocess.run(command, cwd=HERE / folder, check=True, env={**os.environ, "CGO_ENABLED": "0"})
            except FileNotFoundError:
                sys.exit("build.py: go cannot be started; Go 1.26 builds the programs that others wrote (https://go.dev/dl)")
            except subprocess.CalledProcessError as failed:
                sys.exit(f"build.py: {program} could not be built: go ended with {failed.returncode}")
            unfinished.rename(built)
    return built


def main(programs):
    unknown = [name for name in programs if name not in PROGRAMS]
    if unknown or not programs:
        sys.exit(f"usage: build.py PROGRAM…, of {', '.join(PROGRAMS)}" + "".join(f"; unknown: {name}" for name in unknown))
    for name in programs:
        print(build(name))


if __name__ == "__main__":
    main(sys.argv[1:])
