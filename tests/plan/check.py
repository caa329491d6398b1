#!/usr/bin/env python3
"""Is a plan valid? `check.py WORKLOAD(.json|.json.gz) PLAN.json`: exit 0 and `ok: N checks`, or 1 and one line a violation."""

import argparse
import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import checker  # noqa: E402


def read(path):
    """A JSON file, gzipped or plain; `-` is standard input."""
    if path == "-":
        return json.load(sys.stdin)
    data = Path(path).read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("plan", help="the answer of `plan --workload FILE --json`; - for standard input")
    parser.add_argument("--policy-cost", action="store_true", help="also 15 types, 5 families, 1.25 times for spot (PL-30 to PL-32)")
    parser.add_argument("--spread", choices=("final", "order"), default="final",
                        help="topology spread holds for the final state (default), or for some order of binding")
    parser.add_argument("--max-lines", type=int, default=200)
    args = parser.parse_args()
    try:
        workload, plan = read(args.workload), read(args.plan)
        stem = Path(args.workload).name.removesuffix(".gz").removesuffix(".json")
        report = checker.check(workload, plan, args.policy_cost, args.spread == "order", stem)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, EOFError) as error:
        print(f"bad input: {error}", file=sys.stderr)
        return 2
    except (KeyError, TypeError, ValueError) as error:
        print(f"bad input: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for rule, subject, what in report.violations[: args.max_lines]:
        print(f"{rule} {subject}: {what}")
    hidden = len(report.violations) - args.max_lines
    if hidden > 0:
        print(f"... and {hidden} more")
    if not report.violations:
        print(f"ok: {report.checks} checks")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
