"""The image, built by buildah from the Dockerfile's last stage and the binary that the tests have, and started as a pod is:
as nobody, with a root that cannot be written to. No daemon, no registry, no base image."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = ROOT / "target/release/dovetail"
NOBODY = 65532
#: What the image may weigh, in MiB, unpacked; the tests' binary is larger than the published one.
HEAVIEST = 120
#: A program that does not answer within this many seconds hangs.
PATIENCE = 60
#: What the machine has to have.
NEEDED = {
    "root's rights": lambda: os.geteuid() == 0,
    "unshare (util-linux)": lambda: shutil.which("unshare"),
    "/etc/ssl/certs/ca-certificates.crt (ca-certificates)": pathlib.Path("/etc/ssl/certs/ca-certificates.crt").exists,
}

sys.path[:0] = [str(ROOT / "deploy/image"), str(ROOT / "tools")]
import sbom  # noqa: E402
from image import DOCKERFILE, Images  # noqa: E402


@unittest.skipUnless(BINARY.exists(), "cargo build --release first")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [what for what, there in NEEDED.items() if not there()]
        if missing:
            raise AssertionError(f"the image is built and started with {' and '.join(missing)}")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.images = Images(pathlib.Path(cls.folder.name))
        cls.id = cls.images.build(BINARY)
        container = cls.images("from", "--signature-policy", pathlib.Path(cls.folder.name, "policy.json"), cls.id)
        cls.addClassCleanup(cls.images, "rm", container)
        cls.root = pathlib.Path(cls.images("mount", container))
        cls.addClassCleanup(cls.images, "umount", container)
        cls.config = json.loads(cls.images("inspect", "--type", "image", cls.id))["OCIv1"]["config"]

    def start(self, *words, text="", environment=(), files=()):
        """A program of the image, as a pod has it: nobody, no rights, nothing to write to. Files are below /tmp, as of a volume."""
        volume = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        volume.chmod(0o755)
        for name, content in dict(files).items():
            (volume / name).write_text(content)
        inside = (
            'mount --bind "$0" "$0" && mount --bind "$1" "$0/tmp" && mount -o remount,bind,ro "$0" && mount -o remount,bind,ro "$0/tmp" '
            '&& exec chroot --userspec="$2" "$0" "${@:3}"'
        )
        command = ["unshare", "--mount", "bash", "-c", inside, self.root, volume, f"{NOBODY}:{NOBODY}", *words]
        begun = time.monotonic()
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE, env={"PATH": os.environ["PATH"], **dict(environment)})
        return done, time.monotonic() - begun

    def files(self):
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def test_it_runs_the_control_plane_as_nobody_and_says_what_it_is(self):
        self.assertEqual(self.config["User"], f"{NOBODY}:{NOBODY}")
        self.assertEqual((self.config["Entrypoint"], self.config["Cmd"]), (["/dovetail"], ["run"]))
        self.assertEqual({port.partition("/")[0] for port in self.config["ExposedPorts"]}, {"8080", "8081"})
        self.assertIn("Apache-2.0", self.config["Labels"]["org.opencontainers.image.licenses"])

    def test_it_starts_where_nothing_can_be_written(self):
        entry = self.config["Entrypoint"]
        done, seconds = self.start(*entry, "--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^dovetail \d+\.\d+\.\d+")
        size = sum(path.stat().st_size for path in self.files()) / 2**20
        print(f"\nimage: {size:.1f} MiB unpacked, starts in {seconds * 1000:.0f} ms", file=sys.stderr)
        self.assertLess(size, HEAVIEST)

    def test_it_does_its_work_in_there(self):
        manifests = "---\n".join((ROOT / "deploy/examples" / name).read_text() for name in ("spot.yaml", "inflate-10.yaml"))
        done, _ = self.start("/dovetail", "plan", "-f", "-", text=manifests)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10 of 10 pods placed", done.stdout)

    def test_run_gets_as_far_as_an_api_server_that_nobody_serves(self):
        # By TLS, with the image's certificate authorities: without them there would be no connection to be refused.
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a", "user": {"token": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
        said = {"CLUSTER_NAME": "demo", "STARTUP_TIMEOUT": "1s", "KUBECONFIG": "/tmp/config", "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "CONSOLE_PORT": "0"}
        done, _ = self.start("/dovetail", "run", environment=said, files={"config": json.dumps(config)})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr + done.stdout, r"(?i)connection refused")

    def test_there_is_no_shell_nothing_with_a_users_rights_and_nothing_that_can_be_changed(self):
        allowed = {"dovetail", "passwd", "group", "nsswitch.conf", "ca-certificates.crt", "LICENSE", "NOTICE", "sbom.cdx.json"}
        for path in self.files():
            self.assertTrue(path.name in allowed or ".so" in path.name, path)
            mode = path.stat().st_mode
            self.assertFalse(mode & 0o6222, f"{path}: {oct(mode)}")
        executable = {path.name for path in self.files() if path.stat().st_mode & 0o111}
        self.assertEqual({name for name in executable if not name.startswith("ld-linux")}, {"dovetail"})

    def test_the_same_binary_makes_the_same_image(self):
        self.assertEqual(self.images.build(BINARY), self.id)

    def test_another_binary_makes_another_image(self):
        self.assertNotEqual(self.images.build(pathlib.Path("/bin/true")), self.id)

    def test_the_bill_of_materials_is_in_it(self):
        inside = json.loads((self.root / "usr/share/doc/dovetail/sbom.cdx.json").read_text())
        self.assertEqual(inside, sbom.bill((ROOT / "Cargo.lock").read_text()))


class Bill(unittest.TestCase):
    def test_every_crate_is_in_it_with_its_checksum_and_what_it_depends_on_is_too(self):
        import tomllib

        text = (ROOT / "Cargo.lock").read_text()
        bill, packages = sbom.bill(text), tomllib.loads(text)["package"]
        there = {one["bom-ref"]: one for one in [*bill["components"], bill["metadata"]["component"]]}
        self.assertEqual(set(there), {f"{one['name']}@{one['version']}" for one in packages})
        for one in packages:
            if "checksum" in one:
                self.assertEqual(there[f"{one['name']}@{one['version']}"]["hashes"][0]["content"], one["checksum"])
        for one in bill["dependencies"]:
            self.assertLessEqual({one["ref"], *one["dependsOn"]}, set(there))

    def test_two_versions_of_a_crate_are_told_apart(self):
        lock = '[[package]]\nname = "dovetail"\nversion = "1.0.0"\ndependencies = ["a 2.0.0"]\n' + "".join(
            f'[[package]]\nname = "a"\nversion = "{version}"\n' for version in ("1.0.0", "2.0.0"))
        self.assertEqual(sbom.bill(lock)["dependencies"][0]["dependsOn"], ["a@2.0.0"])


if __name__ == "__main__":
    unittest.main()
