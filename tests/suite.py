#!/usr/bin/env python3
"""Runs the Python tests of a folder beside this file: docs, image or deploy.

    python3 tests/suite.py FOLDER [unittest's arguments]

Those of deploy run in the virtual environment that tests/real/build.py makes, with moto and cfn-lint.
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "real"))

import build  # noqa: E402

#: Folders, and the interpreter of each.
FOLDERS = {"docs": lambda: sys.executable, "image": lambda: sys.executable, "deploy": build.python}


def main(arguments):
    if not arguments or arguments[0] not in FOLDERS:
        sys.exit(__doc__)
    folder, interpreter = str(HERE / arguments[0]), str(FOLDERS[arguments[0]]())
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE / "real"), "PYTHONWARNINGS": "ignore"}
    os.execv(interpreter, [interpreter, "-m", "unittest", "discover", "-s", folder, "-t", folder, *arguments[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
