"""`make.py` writes today what it wrote when the figures were measured."""

import gzip
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import make

HERE = pathlib.Path(__file__).resolve().parent
DIGESTS = json.loads((HERE / "digests.json").read_text())


def made(*args):
    return subprocess.run([sys.executable, HERE / "make.py", *args], capture_output=True)


class Make(unittest.TestCase):
    def test_every_workload_has_the_bytes_that_its_figures_were_measured_with(self):
        self.assertEqual(make.names(), sorted(DIGESTS))
        for name, digest in DIGESTS.items():
            self.assertEqual(hashlib.sha256(made(name).stdout).hexdigest(), digest, name)

    def test_a_file_holds_what_standard_output_does(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "new/seeds-10-1.json.gz"
            self.assertEqual(made("seeds-10-1", file).returncode, 0)
            self.assertEqual(gzip.decompress(file.read_bytes()), made("seeds-10-1").stdout)
            self.assertEqual([path.name for path in file.parent.iterdir()], [file.name])

    def test_a_name_that_is_none_is_refused_with_the_names_that_are(self):
        refused = made("diverse-7")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("diverse-500", refused.stderr.decode())
        self.assertEqual(refused.stdout, b"")


if __name__ == "__main__":
    unittest.main()
