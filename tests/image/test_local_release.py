"""A release that is made here: the files that are in it, sums and signature that hold, and what is refused."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / "target/release/dovetail"
#: A program that answers as the real one does, for what is not about its size.
STAND_IN = """#!/bin/sh
case $1 in
version) echo "dovetail VERSION (commit 0)" ;;
man) echo page > "$3/dovetail.1" ;;
*) echo "$1 ${2:-}" ;;
esac
"""

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/real")]
import build  # noqa: E402
import release  # noqa: E402


class LocalRelease(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def stand_in(self):
        program = self.folder / "dovetail"
        program.write_text(STAND_IN.replace("VERSION", release.version()))
        program.chmod(0o755)
        return program

    def key(self):
        key = self.folder / "key"
        subprocess.run([build.ssh_keygen(), "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        (self.folder / "signers").write_text(f"maker {key.with_suffix('.pub').read_text()}")
        return key

    def make(self, name, *words):
        command = [sys.executable, ROOT / "tools/release.py", "--out", self.folder / name, "--no-image", "--dirty", *words]
        return subprocess.run(command, capture_output=True, text=True)

    def is_signed(self, folder):
        command = [build.ssh_keygen(), "-Y", "verify", "-n", release.NAMESPACE, "-f", self.folder / "signers", "-I", "maker"]
        sums = (folder / "SHA256SUMS").read_bytes()
        return subprocess.run([*command, "-s", folder / "SHA256SUMS.sig"], input=sums, capture_output=True).returncode == 0

    @unittest.skipUnless(BINARY.exists(), "cargo build --release first")
    def test_release_of_the_binary_has_all_parts_and_its_sums_and_signature_hold(self):
        done = self.make("made", "--binary", BINARY, "--key", self.key())
        self.assertEqual(done.returncode, 0, done.stderr)
        made = self.folder / "made"
        names = sorted(path.name for path in made.iterdir())
        of, machine = release.version(), {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        expected = ["notes.txt", "SHA256SUMS", "SHA256SUMS.sig", "crds.yaml", f"dovetail-{of}-linux-{machine}.tar.gz",
                    f"dovetail-{of}.cdx.json", f"dovetail-{of}.tgz", f"dovetail-crd-{of}.tgz"]
        self.assertEqual(names, sorted(expected))
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=made, check=True)
        self.assertTrue(self.is_signed(made))
        with tarfile.open(made / f"dovetail-{of}-linux-{machine}.tar.gz") as tar:
            tar.extractall(self.folder / "unpacked", filter="data")
        inside = self.folder / f"unpacked/dovetail-{of}-linux-{machine}"
        said = subprocess.run([inside / "dovetail", "version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(of, said)
        self.assertTrue((inside / "man/dovetail-plan.1").stat().st_size and (inside / "completions/_dovetail").stat().st_size)
        with tarfile.open(made / f"dovetail-{of}.tgz") as tar:
            self.assertIn("dovetail/Chart.yaml", tar.getnames())
        with open(made / "crds.yaml", "a") as file:
            file.write("# changed\n")
        changed = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=made, capture_output=True)
        self.assertNotEqual(changed.returncode, 0)
        (made / "SHA256SUMS").write_text((made / "SHA256SUMS").read_text().replace("0", "1", 1))
        self.assertFalse(self.is_signed(made))

    def test_same_program_makes_the_same_bytes_and_is_unsigned_without_a_key(self):
        program, digests = self.stand_in(), []
        for name in ("one", "two"):
            done = self.make(name, "--binary", program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not signed", done.stdout)
            digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.folder / name).iterdir()})
        self.assertEqual(*digests)

    def test_folder_in_use_missing_key_and_another_version_are_refused(self):
        program = self.stand_in()
        (self.folder / "used").mkdir()
        (self.folder / "used/old").write_text("")
        for words, why in (
            (("used", "--binary", program), "is not empty"),
            (("new", "--binary", program, "--key", self.folder / "none"), "no such file"),
        ):
            done = self.make(*words)
            self.assertIn(why, done.stderr)
            self.assertNotEqual(done.returncode, 0)
        program.write_text(STAND_IN.replace("VERSION", "99.9.9"))
        done = self.make("new", "--binary", program)
        self.assertIn("99.9.9", done.stderr)
        self.assertFalse((self.folder / "new").exists(), "half a release is none")


if __name__ == "__main__":
    unittest.main()
