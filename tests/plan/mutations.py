#!/usr/bin/env python3
"""Shows that the checker catches what it should: valid plans of small workloads, each corrupted in one way at a time.

Every corruption names the rule that has to fire; `also` names rules that may fire besides, and no other rule may.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corrupt_claims, corrupt_order, corrupt_pods, corrupt_rules  # noqa: E401, E402, F401
from checker import check  # noqa: E402
from corrupt import CASES, Case  # noqa: E402
from samples import Packer, workload  # noqa: E402

SEEDS = (1, 2, 3, 4, 5)


def run_one(sample, plan, rule, also, flags, function):
    """None when the corruption is caught as it should be, else what happened."""
    case = Case(sample, plan)
    try:
        function(case)
    except (IndexError, StopIteration, ValueError) as error:
        return f"cannot be made: {error!r}"
    found = {v[0] for v in check(case.sample, case.plan, **flags).violations}
    if rule not in found:
        return f"not caught: found {sorted(found) or 'nothing'}, expected {rule}"
    return f"more than {rule}: {sorted(found - also - {rule})}" if found - also - {rule} else None


def command_line(sample, plan):
    """The exit status of check.py for a valid plan, an invalid one, and no plan at all."""
    script = Path(__file__).with_name("check.py")
    with tempfile.TemporaryDirectory() as folder:
        files = {n: Path(folder, n) for n in ("workload.json", "good.json", "bad.json", "broken.json")}
        for name, content in (("workload.json", sample), ("good.json", plan), ("bad.json", dict(plan, pods=0))):
            files[name].write_text(json.dumps(content))
        files["broken.json"].write_text("{")
        runs = [subprocess.run([sys.executable, script, files["workload.json"], files[n]], capture_output=True, text=True)
                for n in ("good.json", "bad.json", "broken.json")]
    return [r.returncode for r in runs] == [0, 1, 2] and runs[0].stdout.startswith("ok: ") and runs[1].stdout.startswith("PL-4 ")


def main():
    passed, failed = 0, []
    base = [(s, Packer(s).pack()) for s in map(workload, SEEDS)]
    for sample, plan in base:
        wrong = check(sample, plan, policy_cost=True).violations + check(sample, plan, order=True).violations
        wrong += [("left over", n, r) for n, r in plan["unscheduled"].items() if n not in ("huge-0", "blocked-0")]
        passed, failed = passed + (not wrong), failed + [f"{sample['name']} is not valid: {wrong[:3]}"] * bool(wrong)
    for name, rule, also, flags, function in CASES:
        results = [run_one(sample, plan, rule, also, flags, function) for sample, plan in base]
        bad = [f"{name} (seed {s}): {r}" for s, r in zip(SEEDS, results) if r]
        passed, failed = passed + (not bad), failed + bad[:2]
    good = command_line(*base[0])
    passed, failed = passed + good, failed + ["check.py's exit status"] * (not good)
    print(*failed, sep="\n" if failed else "", end="\n" if failed else "")
    print(f"{passed} passed, {len(failed)} failed ({len(CASES)} corruptions of {len(base)} plans)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
