#!/usr/bin/env python3
"""Builds the image and starts it.

    python3 tests/image/run.py [unittest's arguments]
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE.parent / "real")}
    os.execv(sys.executable, [sys.executable, "-m", "unittest", "discover", "-s", str(HERE), "-t", str(HERE), *sys.argv[1:]])


if __name__ == "__main__":
    main()
