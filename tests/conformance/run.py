#!/usr/bin/env python3
"""The sandbox held to the real thing: a recorded run, and cases that both are asked alike.

    run.py            the run, the cases, the differences; ends with 1 where anything is not as it is listed
    run.py --record   the run alone, and recorded.json anew
    run.py --cases    the cases alone
"""

import argparse
import concurrent.futures
import json
import sys

import sides
from sides import HERE

import build  # noqa: E402
import aws
import edges
import kinds
import lives
import objects
import replay
import rules
import story
import watches
from compare import compare, judge

#: Differences of the two API servers that may be, none of them in what the binary sends.
MOST = 10


def covered(api, cloud):
    """What a run sent that the record does not have."""
    record = json.loads((HERE / "recorded.json").read_text())
    missing = kinds.uncovered(record["kubernetes"], story.bodies(api, story.kube_body(kinds)), kinds.fields)
    return missing + kinds.uncovered(record["aws"], story.bodies(cloud, kinds.of_aws), kinds.parameters)


def uncovered_by_cases(side):
    """What the record has and the cases have not sent."""
    record = json.loads((HERE / "recorded.json").read_text())
    known = lambda sent: {kind: {"examples": bodies} for kind, bodies in sent.items()}
    asked = [one for one in side.asked if one["body"][:1] in (b"", b"{", b"[") and parses(one["body"])]
    sent = known(story.bodies(asked, story.kube_body(kinds)))
    wanted = {kind: entry["examples"] for kind, entry in record["kubernetes"].items()}
    missing = kinds.uncovered(sent, wanted, kinds.fields)
    sent = known(story.bodies(side.asked_aws, kinds.of_aws))
    return missing + kinds.uncovered(sent, {kind: entry["examples"] for kind, entry in record["aws"].items()}, kinds.parameters)


def parses(text):
    """Whether a body is JSON, or none."""
    try:
        json.loads(text or "{}")
    except ValueError:
        return False
    return True


def cases(state, parts):
    """All cases on both sides; what is wrong, in lines."""
    listed = json.loads((HERE / "differences.json").read_text())
    kube = [case for module in (objects, lives, watches, rules, edges, replay) for case in module.CASES]
    # It would label what a case writes, or take a label away; the sandbox has no driver where no kubelet runs.
    parts.kill("csi")
    with sides.sandbox(state) as sandbox:
        real = sides.real(parts)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            clouds = beside.submit(compare, aws.CASES, real, sandbox)
            differing, wrong = compare(kube, real, sandbox)
            of_aws, wrong_aws = clouds.result()
    wrong += wrong_aws + [f"no case sends {one}" for side in (real, sandbox) for one in uncovered_by_cases(side)]
    for entries, found, where in ((listed["kubernetes"], differing, "the API servers"), (listed["moto"], of_aws, "moto and AWS's documentation")):
        unlisted, over = judge(found, entries)
        wrong += [f"differs: {one['where']}\n    real    {one['real'][:300]}\n    sandbox {one['sandbox'][:300]}" for one in unlisted]
        wrong += [f"listed and no longer so: {one}" for one in over]
        print(f"{len(entries) - len(over)} differences between {where}, of {len(found)} answers' members; {len(unlisted)} not listed")
    if len(listed["kubernetes"]) > MOST:
        wrong.append(f"{len(listed['kubernetes'])} differences are listed, {MOST} may be")
    of_binary = {case.__name__ for case in replay.CASES}
    wrong += [f"{entry['id']} is listed of what the binary sends" for entry in listed["kubernetes"]
              if any(glob.split(":")[0] in of_binary or glob.startswith("*") for glob in entry["where"])]
    print(f"{len(kube)} cases of the API servers, {len(aws.CASES)} of AWS; {len(real.asked) + len(real.asked_aws)} requests to each")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="the run alone, and recorded.json anew")
    parser.add_argument("--cases", action="store_true", help="the cases alone")
    given = parser.parse_args()
    state, wrong = build.TARGET / "run/conformance", []
    with sides.cluster(state) as parts:
        if not given.cases:
            api, cloud = story.play(parts)
            if given.record:
                (HERE / "recorded.json").write_text(kinds.written(kinds.distilled(api, cloud)))
                return 0
            wrong += [f"recorded.json does not have {one}" for one in covered(api, cloud)]
            print(f"a run of 400 pods: {len(api)} requests to the API server, {len(cloud)} to AWS; {len(wrong)} kinds that are not recorded")
        wrong += cases(state, parts)
    print("\n".join(wrong))
    print("conformance: " + ("not held" if wrong else "held"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
