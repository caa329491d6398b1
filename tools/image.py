"""The image by buildah, without a daemon, a registry or a base image."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy/image/Dockerfile"

sys.path.insert(0, str(ROOT / "tests/real"))
import build  # noqa: E402


class Images:
    """buildah with a store of its own, below a folder."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        (folder / "registries.conf").write_text("unqualified-search-registries = []\n")
        program, libraries = build.buildah()
        self.command = [program, "--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs"]
        self.environment = {**os.environ, **({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})}

    def __call__(self, *words):
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise AssertionError(f"buildah {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout.strip()

    def build(self, binary):
        """The image's id, of a file system made anew."""
        tree = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        subprocess.run(["sh", ROOT / "deploy/image/root.sh", binary, tree / "image"], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
        trust = ["--signature-policy", self.folder / "policy.json", "--registries-conf", self.folder / "registries.conf"]
        how = ["--isolation", "chroot", "--layers=false", "--timestamp", "0", "--quiet", "--build-context", f"root={tree}"]
        # The context is not read: the stage before is given in its place.
        return self("bud", *trust, *how, "-f", DOCKERFILE, ROOT / "deploy/image").splitlines()[-1]

    def save(self, image, file, name):
        """Writes an image as an OCI archive under a name."""
        self("push", "--quiet", "--signature-policy", self.folder / "policy.json", image, f"oci-archive:{file}:{name}")
