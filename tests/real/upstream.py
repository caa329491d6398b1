#!/usr/bin/env python3
"""Karpenter's own end-to-end suites against Dovetail, on this control plane, with the provider kwok in the place of Karpenter's.

    upstream.py --source PATH [--suite regression --suite disruption] [--focus REGEX] [--skip REGEX] [--bound MINUTES]
                [--clusters N] [--set NAME=VALUE…] [--chart NAME=VALUE…] [--report FILE] [--list]

PATH is a checkout of kubernetes-sigs/karpenter, of which nothing is kept here. Its suites are compiled there and play as they
are: they create pools and pods, and ask what has become of them. Each spec is a run of its own with its own bound, as what
fails waits for 15 minutes by itself. Verdicts are rows of a table; the program ends with 1 where a spec fails.

What the suites expect of a cluster is made here (`upstream_cluster`).
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import build
from cluster import Failed
from proof import Proof, Refused, play
from upstream_cluster import CHART, SETTINGS, Kubelet, clear, expects, is_clear, prepare

#: Ginkgo's states of a spec, as the table has them.
VERDICTS = {"passed": "passes", "skipped": "skips", "pending": "skips", "timedout": "fails"}
#: Minutes that a spec may take by its own clock, where that is more than the bound; by words of its text.
LONG = {
    "should reboot twice, then replace": 36, "should delete a NodeClaim after the registration timeout": 18,
    "should not disrupt a drifted node if the replacement node": 16, "Kubelet conditions": 14, "complex drift": 12,
    "should respect node limits when provisioning": 8, "should not go over limit during concurrent": 8,
    "should not produce a runaway scale-up": 8, "should drain pods on a node in order": 8, "garbage collect an Instance": 8, "DoNotDisrupt": 7,
}
#: Minutes for a spec to clean up after itself, beyond its bound.
CLEANED = 3


def compiled(source, suite):
    """The suite's program, compiled out of its own module."""
    path = build.TARGET / "upstream" / f"{suite}.test"
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "test", "-c", "-p", "1", "-o", path, f"./test/suites/{suite}"], cwd=source, check=True)
    return path


def reported(program, arguments, environment, log, bound=None):
    """What a run of the program says of its specs, as Ginkgo reports it; nothing where it came to no end."""
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = [program, f"--ginkgo.json-report={report}", "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.grace-period=5s", *arguments]
    with open(log, "ab") as out:
        try:
            subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent, timeout=bound)
        except subprocess.TimeoutExpired:
            pass
    try:
        suites = json.loads(report.read_text())
    except (OSError, ValueError):
        return []
    return [spec for suite in suites for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It"]


def text_of(spec):
    """A spec's whole text, by which it is chosen."""
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def specs_of(program, given, log):
    """The texts of all specs that are asked for."""
    chosen = [f"--ginkgo.focus={given.focus}"] if given.focus else []
    chosen += [f"--ginkgo.skip={given.skip}"] if given.skip else []
    found = reported(program, ["--ginkgo.dry-run", *chosen], dict(os.environ), log)
    return [text_of(spec) for spec in found if spec["State"] != "skipped"]


def reason_of(spec):
    """The first words of why a spec failed, and where."""
    failure = spec.get("Failure") or {}
    where = failure.get("Location") or {}
    words = " ".join(failure.get("Message", "").split())[:160]
    return f"{pathlib.Path(where.get('FileName', '')).name}:{where.get('LineNumber', '')} {words}".replace("|", "/")


def minutes_for(text, bound):
    """The bound of a spec in minutes."""
    return max([bound, *(long for words, long in LONG.items() if words in text)])


def play_specs(proof, given, programs, rows):
    """Each spec by itself, on a cluster that the one before has left clear."""
    prepare(proof, given)
    kubelet = Kubelet(proof)
    kubelet.start()
    proof.until("the stand-in for Karpenter's pod leads", lambda: proof.events("elected"))
    environment = {**os.environ, "KUBECONFIG": str(proof.cluster.admin)}
    for suite, text in given.specs:
        log = proof.cluster.state / "log" / f"spec-{len(rows)}.log"
        minutes = minutes_for(text, given.bound)
        began = time.monotonic()
        arguments = [f"--ginkgo.focus= {re.escape(text)}$", f"--ginkgo.timeout={minutes}m"]
        found = reported(programs[suite], arguments, environment, log, (minutes + CLEANED) * 60)
        own = next((spec for spec in found if text_of(spec) == text), None)
        verdict = VERDICTS.get(own["State"], "fails") if own else "fails"
        why = reason_of(own) if own and verdict != "passes" else "" if own else "it came to no end"
        rows.append((suite, text, verdict, time.monotonic() - began, why, log.name))
        print(f"| {suite} | {text} | {verdict} | {rows[-1][3]:.0f} | {why} | {log.name} |", flush=True)
        if not is_clear(proof):
            clear(proof)
    proof.check("the replicas have come and gone with their pods alone", not kubelet.lost, "; ".join(kubelet.lost[:3]))
    kubelet.ended = True


def several(given, specs):
    """The specs on several clusters side by side, each a process of its own; what each of them ended with."""
    # The longest first, each to the cluster that has least.
    shares = [[0, []] for _ in range(given.clusters)]
    for spec in sorted(specs, key=lambda one: -minutes_for(one[1], 2)):
        least = min(shares, key=lambda share: share[0])
        least[0] += minutes_for(spec[1], 2)
        least[1].append(spec)
    running = []
    for number, (_, own) in enumerate(shares):
        if not own:
            continue
        chosen = build.TARGET / "upstream" / f"specs-{number}.json"
        chosen.write_text(json.dumps(own))
        own_words = [f"--specs={chosen}", f"--name=upstream-{number}", "--clusters=1"]
        running.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:], *own_words], stdin=subprocess.DEVNULL))
    return [one.wait() for one in running]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True, help="a checkout of kubernetes-sigs/karpenter")
    parser.add_argument("--suite", action="append", default=[], help="regression and disruption, unless some are named")
    parser.add_argument("--focus", default="", help="specs whose text this expression matches")
    parser.add_argument("--skip", default="", help="no specs whose text this expression matches")
    parser.add_argument("--bound", type=int, default=4, help="minutes for a spec that does not take longer by its own clock")
    parser.add_argument("--clusters", type=int, default=1, help="control planes side by side")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the replicas")
    parser.add_argument("--chart", action="append", default=[], metavar="NAME=VALUE", help="a value of the chart")
    parser.add_argument("--report", type=pathlib.Path, help="a file that the rows are added to")
    parser.add_argument("--list", action="store_true", help="names the specs and ends")
    parser.add_argument("--name", default="upstream", help=argparse.SUPPRESS)
    parser.add_argument("--specs", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.source = given.source.resolve()
    suites = given.suite or ["regression", "disruption"]
    if given.specs:
        programs = {suite: build.TARGET / "upstream" / f"{suite}.test" for suite in suites}
        given.specs = [tuple(one) for one in json.loads(given.specs.read_text())]
    else:
        programs = {suite: compiled(given.source, suite) for suite in suites}
        log = build.TARGET / "upstream" / "listed.log"
        given.specs = [(suite, text) for suite in suites for text in specs_of(programs[suite], given, log)]
    if given.list:
        print("\n".join(f"{suite}: {text}" for suite, text in given.specs))
        return
    if given.clusters > 1:
        sys.exit(max(several(given, given.specs), default=0))
    rows = []
    proof = Proof(given.name, (*SETTINGS, *given.set), chart=(*CHART, *given.chart))
    expects(proof, given.source)
    try:
        wrong = play(play_specs, proof, given, programs, rows)
    except (Failed, Refused, OSError) as why:
        wrong = [str(why)]
    if given.report:
        with open(given.report, "a", encoding="utf-8") as out:
            out.writelines(f"| {suite} | {text} | {verdict} | {took:.0f} | {why} |\n" for suite, text, verdict, took, why, _ in rows)
    count = {verdict: sum(row[2] == verdict for row in rows) for verdict in ("passes", "fails", "skips")}
    print(f"{given.name}: {count['passes']} pass, {count['fails']} fail, {count['skips']} skip", flush=True)
    sys.exit(1 if wrong or count["fails"] else 0)


if __name__ == "__main__":
    main()
