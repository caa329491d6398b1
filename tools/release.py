#!/usr/bin/env python3
"""Makes a release of this checkout in a folder, without a registry: program, image, charts, CRDs, bill of materials, notes,
checksums, and a signature by a key of yours.

    release.py [--out FOLDER] [--binary FILE] [--key FILE] [--no-image] [--dirty]

The program is built with the profile `dist` unless one is given. The key is an SSH key; without one nothing is signed, and that
is said. The same program makes the same files, byte for byte, but for the signature. A checkout with uncommitted changes is
refused unless --dirty says otherwise.
"""

import argparse
import gzip
import hashlib
import io
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: What a signature is for: one made for something else does not count.
NAMESPACE = "dovetail-release"
SUMS = "SHA256SUMS"
CHARTS = ("dovetail", "dovetail-crd")
SHELLS = {"bash": "dovetail.bash", "zsh": "_dovetail", "fish": "dovetail.fish"}

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/real")]
import changelog  # noqa: E402


def run(*words, **more):
    """What a command printed; its failure is ours."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT, **more)
    if done.returncode:
        sys.exit(f"release: {' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def archive(file, members):
    """A gzipped tar of names and contents with their modes: no times, no owners, names in order."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (content, mode) in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
    with open(file, "wb") as out, gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6, mtime=0) as zipped:
        zipped.write(text.getvalue())


def program(binary, name, folder):
    """The program with licences, completions and man pages, which it writes itself."""
    members = {f"{name}/dovetail": (binary.read_bytes(), 0o755)}
    for text in ("LICENSE", "NOTICE", "README.md", "CHANGELOG.md"):
        members[f"{name}/{text}"] = ((ROOT / text).read_bytes(), 0o644)
    for shell, file in SHELLS.items():
        members[f"{name}/completions/{file}"] = (run(binary, "completions", shell).encode(), 0o644)
    with tempfile.TemporaryDirectory() as pages:
        run(binary, "man", "--out", pages)
        for page in pathlib.Path(pages).iterdir():
            members[f"{name}/man/{page.name}"] = (page.read_bytes(), 0o644)
    archive(folder / f"{name}.tar.gz", members)


def chart(helm, name, release, folder):
    """A chart as helm packs it, packed again without times: helm writes those of the clock."""
    with tempfile.TemporaryDirectory() as packed:
        run(helm, "package", ROOT / "deploy/helm" / name, "--destination", packed)
        with tarfile.open(next(pathlib.Path(packed).glob("*.tgz"))) as tar:
            files = [member for member in tar.getmembers() if member.isfile()]
            members = {member.name: (tar.extractfile(member).read(), 0o644) for member in files}
    archive(folder / f"{name}-{release}.tgz", members)


def image(binary, name, file):
    """The image as an OCI archive."""
    from image import Images

    with tempfile.TemporaryDirectory() as folder:
        images = Images(pathlib.Path(folder))
        images.save(images.build(binary), file, name)


def sums(folder):
    """The checksums of all files, as sha256sum reads them."""
    lines = []
    for file in sorted(path for path in folder.iterdir() if path.name not in (SUMS, f"{SUMS}.sig")):
        lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    (folder / SUMS).write_text("".join(lines))


def sign(folder, key):
    import build

    run(build.ssh_keygen(), "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key, folder / SUMS)


def made(options, folder):
    release, binary = version(), options.binary
    if binary is None:
        subprocess.run(["cargo", "build", "--profile", "dist", "--locked"], cwd=ROOT, check=True)
        binary = ROOT / "target/dist/dovetail"
    # The name of the machine's architecture as images have it.
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = f"dovetail-{release}-linux-{machine}"
    said = run(binary, "version").split()
    if release not in said:
        sys.exit(f"release: {binary} is of version {' '.join(said[1:2])}, and the checkout of {release}")
    program(binary, name, folder)
    import build

    helm = build.build("helm")
    for one in CHARTS:
        chart(helm, one, release, folder)
    (folder / "crds.yaml").write_text(run(binary, "crds"))
    (folder / f"dovetail-{release}.cdx.json").write_text(run(sys.executable, ROOT / "deploy/image/sbom.py", ROOT / "Cargo.lock"))
    (folder / "notes.txt").write_text(changelog.section((ROOT / "CHANGELOG.md").read_text(), release) + "\n")
    if not options.no_image:
        image(binary, f"dovetail/controller:{release}", folder / f"{name}.oci.tar")
    sums(folder)
    if options.key:
        sign(folder, options.key)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--binary", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--key", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--no-image", action="store_true")
    parser.add_argument("--dirty", action="store_true")
    options = parser.parse_args(arguments)
    folder = (options.out or ROOT / "target/release-files" / version()).resolve()
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"release: {folder} is not empty: an older release is not mixed with a new one")
    if not options.dirty and run("git", "status", "--porcelain"):
        sys.exit("release: the checkout has changes that are not committed; commit them, or say --dirty")
    for option, file in (("--binary", options.binary), ("--key", options.key)):
        if file and not file.is_file():
            sys.exit(f"release: {option} {file}: no such file")
    parts = folder.with_name(folder.name + ".part")
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    made(options, parts)
    # Whole or not at all.
    shutil.rmtree(folder, ignore_errors=True)
    parts.rename(folder)
    print(f"{folder}:")
    for file in sorted(folder.iterdir()):
        print(f"  {file.stat().st_size / 2**20:8.1f} MiB  {file.name}")
    if options.key:
        print(f"to verify: ssh-keygen -Y verify -n {NAMESPACE} -f ALLOWED_SIGNERS -I YOU -s {SUMS}.sig < {SUMS}; sha256sum -c {SUMS}")
    else:
        print("not signed: --key names an SSH key")


if __name__ == "__main__":
    main(sys.argv[1:])
