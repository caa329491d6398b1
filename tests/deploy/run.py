#!/usr/bin/env python3
"""Holds what deploy/ puts into an account to what Dovetail asks for, and to the schemas of others.

    python3 tests/deploy/run.py [unittest's arguments]

The template goes through cfn-lint and is deployed into moto; its policies are asked, by a policy evaluator, about every
request that was recorded (record.py); Terraform's module says the same; the eksctl files fit eksctl's own schema.
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real"))

import build  # noqa: E402


def main():
    interpreter = str(build.python())
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    os.execv(interpreter, [interpreter, "-m", "unittest", "discover", "-s", str(HERE), "-t", str(HERE), *sys.argv[1:]])


if __name__ == "__main__":
    main()
