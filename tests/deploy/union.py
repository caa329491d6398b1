#!/usr/bin/env python3
"""Holds the policies to everything that the tests have asked of AWS, in both directions.

    python3 tests/deploy/union.py [FOLDER]

While tests run with DOVETAIL_RECORD_AWS=FOLDER, each process writes there what it asks of AWS, each kind of request once
(crates/cloud/src/recorder): `cargo xtask proof policies` does so, with target/aws-requests. This makes IAM's checks of them all. Each
has to be allowed with the resource and the keys that it has, and each action, resource and statement of the policies has to
be needed by one of them. requests.json beside it is the recording of one session, for whoever works on the policies.
"""

import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests/real"), str(HERE)]

import build  # noqa: E402

FOLDER = ROOT / "target/aws-requests"
#: What an operator's own choice names, in requests of tests: the policies are held to what a stack has.
ROLE, QUEUE = "KarpenterNodeRole-demo", "demo"
#: Refused, and why that is as it should be: what a class names that is an operator's own needs a policy of the operator's.
OWN = [
    ("ssm:GetParameter", re.compile(r":parameter/(?!aws/service/)"), "a parameter of the operator's own"),
    ("iam:GetInstanceProfile", re.compile(r":instance-profile/(?!karpenter/)"), "a profile of the operator's own"),
]


class Before(dict):
    """What is known of what a request is about; of a profile that nobody has looked up, nothing."""

    def __missing__(self, name):
        return {"path": "/", "tags": {}, "roles": []}


def lines(folder):
    """What the processes of a test run have written, each line once."""
    found = set()
    for path in sorted(pathlib.Path(folder).glob("aws-*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                json.loads(line)
            except ValueError:
                # A process that was killed has not written its last line to the end.
                continue
            found.add(line)
    return [json.loads(line) for line in sorted(found)]


def made_templates(all_lines):
    """A request that has made a launch template, by cluster."""
    found = {}
    for line in all_lines:
        made = list(line["templates"].values())
        made += [line["body"]] if line["operation"] == "CreateLaunchTemplate" else []
        for body in made:
            found.setdefault((line["uid"], line["cluster"]), body)
    return found


def request(line, made=None):
    """The request of a line, and what is known of what it is about. `made`: a creation of a launch template, by cluster. A process
    writes each kind of creation once, and only its own; a template that it deletes and that it, or a leader before it, has made
    otherwise has the tags of those that are written down for the same cluster."""
    import checks

    service, region, operation, body = (line[name] for name in ("service", "region", "operation", "body"))
    headers = {"authorization": f"Credential=x/20260101/{region}/{service}/aws4_request"}
    for template in line["templates"].values():
        checks.Request.read("POST", "/", {"authorization": "Credential=x/1/r/ec2/aws4_request"}, template.encode())
    before = Before()
    for name, known in line["before"].items():
        if "roles" in known and "path" in known:
            known = {**known, "roles": [checks.arn("iam", f"role{role}", "") for role in known["roles"]]}
        before[name] = known
    if service == "eks":
        return checks.Request.read("GET", body, headers, b""), before
    if body.startswith("{"):
        headers["x-amz-target"] = f"X.{operation}"
    asked = checks.Request.read("POST", "/", headers, body.encode())
    name = asked.fields.get("LaunchTemplateName")
    if operation == "DeleteLaunchTemplate" and name not in line["templates"] and (line["uid"], line["cluster"]) in (made or {}):
        like = checks.Request.read("POST", "/", headers, made[line["uid"], line["cluster"]].encode())
        checks.Request.templates[name] = like.fields
    return asked, before


def as_of_the_stack(text, line):
    """A text of a check, with what the stack of the tests calls cluster and region."""
    for own, ours in ((line["cluster"], "demo"), (line["clusterRegion"], "us-east-1")):
        text = re.sub(rf"(?<![\w-]){re.escape(own)}(?=_[0-9a-f]+$|[^\w-]|$)", ours, text)
    return text


def checks_of(all_lines):
    """IAM's checks of the requests of all lines, each once, and what could not be understood."""
    import checks

    found, strange, made_so_far = {}, [], made_templates(all_lines)
    for line in all_lines:
        try:
            asked, before = request(line, made_so_far)
            made = asked.checks(before)
        except (KeyError, ValueError, TypeError, AttributeError) as why:
            strange.append(f"{line['service']}.{line['operation']}: {why!r}")
            continue
        for action, resource, keys in made:
            if action == "iam:PassRole":
                resource = checks.arn("iam", f"role/{ROLE}", "")
            elif action.startswith("sqs:"):
                resource = checks.arn("sqs", QUEUE)
            as_ours = lambda value: [as_of_the_stack(one, line) for one in value] if isinstance(value, list) else as_of_the_stack(value, line)
            keys = {as_of_the_stack(key, line): as_ours(value) for key, value in keys.items()}
            keys = {key: checks.plain(key, value, line["uid"]) for key, value in sorted(keys.items())}
            resource = checks.plain("", as_of_the_stack(resource, line), line["uid"])
            one = {"operation": asked.name(), "action": action, "resource": resource, "keys": keys}
            found[json.dumps(one, sort_keys=True)] = one
    return [found[text] for text in sorted(found)], sorted(set(strange))


def is_own(check):
    return any(check["action"] == action and what.search(check["resource"]) for action, what, _ in OWN)


def refused(all_checks, own_policies, adopting):
    """Of the checks those that no policy allows: with ADOPT_KARPENTER_INSTANCES where they are about an instance of Karpenter's."""
    import evaluator

    def allowed(one):
        karpenters = "aws:ResourceTag/karpenter.sh/nodepool" in one["keys"] and "aws:ResourceTag/dovetail.dev/cluster-uid" not in one["keys"]
        return evaluator.allows(adopting if karpenters else own_policies, one["action"], one["resource"], one["keys"])

    return [one for one in all_checks if not allowed(one) and not is_own(one)]


def idle(all_checks, own_policies):
    """What the policies allow and no check needs: actions, and single actions and resources of statements."""
    import copy
    import evaluator

    def listed(one):
        return one if isinstance(one, list) else [one]

    statements = [statement for document in own_policies for statement in document["Statement"]]
    asked = {one["action"] for one in all_checks}
    found = sorted({action for one in statements for action in listed(one["Action"])} - asked)
    for document in own_policies:
        others = [other for other in own_policies if other != document]
        for at, statement in enumerate(document["Statement"]):
            alone = [{**document, "Statement": [statement]}]
            of_it = [one for one in all_checks if evaluator.allows(alone, one["action"], one["resource"], one["keys"])]
            for part in ("Action", "Resource"):
                for one in listed(statement[part]):
                    if part == "Resource" and one.endswith(":instance-profile/demo_*"):
                        continue  # Karpenter's, of before profiles had paths.
                    less = copy.deepcopy(document)
                    less["Statement"][at][part] = [other for other in listed(statement[part]) if other != one]
                    if all(evaluator.allows([*others, less], check["action"], check["resource"], check["keys"]) for check in of_it):
                        found.append(f"{statement['Sid']}: {part} {one}")
    return found


def main(folder):
    interpreter = build.python()
    if pathlib.Path(sys.prefix) != interpreter.parent.parent:
        os.execv(interpreter, [str(interpreter), __file__, str(folder)])
    import stack

    all_lines = lines(folder)
    if not all_lines:
        sys.exit(f"union.py: nothing was written below {folder}: no test has run with DOVETAIL_RECORD_AWS")
    all_checks, strange = checks_of(all_lines)
    own_policies = list(stack.Stack().policies.values())
    adopting = list(stack.Stack(AdoptKarpenterInstances="true").policies.values())
    wrong = [f"not understood: {one}" for one in strange]
    wrong += [f"not allowed: {json.dumps(one, sort_keys=True)}" for one in refused(all_checks, own_policies, adopting)]
    wrong += [f"allowed, and never asked for: {one}" for one in idle(all_checks, own_policies)]
    if wrong:
        sys.exit("\n".join(["the policies and what the tests ask of AWS differ:", *wrong[:40], f"({len(wrong)} in all)"]))
    operations = {f"{one['service']}.{one['operation']}" for one in all_lines}
    print(f"{len(all_lines)} kinds of requests of {len(operations)} operations, {len(all_checks)} checks, all of them allowed; nothing is allowed beside them")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER)
