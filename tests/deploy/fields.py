#!/usr/bin/env python3
"""Holds the fields of our CRDs to those of Karpenter 1.15: types, defaults, enums, bounds, lists, what is required.

    fields.py            the differences that are not explained below, and the explanations that explain nothing; exits 1 if any

upstream-fields.tsv has upstream's fields as facts. A pattern and the rules of the API server are noted by their presence and
number only: that ours refuse the same is what the validation tests are for.
"""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = pathlib.Path(__file__).with_name("upstream-fields.tsv")
OURS = ["deploy/crds/*.yaml", "deploy/buffers/*.yaml", "deploy/quotas/*.yaml", "deploy/kwok/*.yaml"]
FACTS = [
    "type", "format", "default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "nullable", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
]
#: Differences that are meant: kind, field, fact (all of them as patterns), and the reason.
MEANT = [
    ("NodePool", r"spec\.disruption\.budgets(\[\])?", "rules", "the rule is each budget's, so that the message names the one"),
    ("NodePool|NodeClaim|NodeOverlay", r"spec(\.template\.spec)?\.requirements(\[\])?", "rules", "as budgets: each requirement's"),
    ("EC2NodeClass", r"spec\.\w+SelectorTerms(\[\])?", "rules|minItems", "as budgets: each term's; an empty list is refused by its length"),
    ("EC2NodeClass", r"spec|spec\.(networkInterfaces|placementGroupSelector)", "rules", "the same is refused by fewer or more rules"),
    ("NodePool|NodeClaim", r"spec(\.template\.spec)?\.nodeClassRef\.\w+", "rules|minLength", "an empty text is refused by its length"),
    ("EC2NodeClass", r"spec\.(role|instanceProfile)", "rules|minLength|pattern", "names that IAM cannot have are refused"),
    ("EC2NodeClass", r"spec\.(securityGroup|ami)SelectorTerms\[\]\.\w+", "maxLength", "AWS has no longer ones"),
    ("EC2NodeClass", r"spec\.tags", "maxProperties", "EC2 takes fifty"),
    ("EC2NodeClass", r"spec\.blockDeviceMappings\[\]\.ebs\.volumeSize", "type|x-kubernetes-int-or-string", "a number is read as bytes, as in quantities"),
    ("EC2NodeClass", "spec", "required", "a class without a spec selects nothing"),
    ("EC2NodeClass", r"spec\.kubelet\{\}", "missing", "the same by preserving unknown fields"),
    ("EC2NodeClass", r"status\.placementGroup(\.\w+)?", "extra", "the resolved group, for whoever looks"),
    ("NodePool", r"spec\.disruption\.consolidateAfter", "required", "it has a default, so that it is always there"),
    ("NodePool|NodeClaim|NodeOverlay", r".*\.(requirements|taints|startupTaints)\[\]\.(key|value|values)", "maxLength|pattern", "labels' own bounds, on each value and not on the list"),
    (".*", r".*\.(timeAdded|lastTransitionTime|endTime|lastPodEventTime)", "pattern", "a time that no client can read is refused"),
    ("CapacityBuffer", r"status\.podTemplateRef\.name", "minLength", "the status is ours to write"),
    ("CapacityQuota", r"spec\.limits\.resources(\{\})?", "rules|minimum", "whole amounts by pattern and minimum in the place of a rule"),
    ("KWOKNodeClass", r"spec\.nodeRegistrationDelay", "maxLength", "no duration is longer"),
    ("KWOKNodeClass", "status", "default", "its conditions are written when it has been read"),
]


def fields_of(schema, path=""):
    """Facts of a schema's fields, by their path; lists go on as `[]`, maps as `{}`."""
    facts = {name: schema[name] for name in FACTS if name in schema}
    if "pattern" in schema:
        facts["pattern"] = True
    if schema.get("x-kubernetes-validations"):
        facts["rules"] = len(schema["x-kubernetes-validations"])
    found = {path or ".": facts}
    for name, inner in sorted(schema.get("properties", {}).items()):
        below = f"{path}.{name}" if path else name
        found |= fields_of(inner, below)
        if name in schema.get("required", []):
            found[below]["required"] = True
    if "items" in schema:
        found |= fields_of(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        found |= fields_of(schema["additionalProperties"], f"{path}{{}}")
    return found


def rows_of(crd):
    """Kind, version, field and facts of a CRD's fields."""
    return [
        (crd["spec"]["names"]["kind"], version["name"], field, json.dumps(facts, sort_keys=True))
        for version in crd["spec"]["versions"]
        for field, facts in fields_of(version["schema"]["openAPIV3Schema"]).items()
    ]


def differences(upstream, ours):
    """Kind, version, field and fact of each difference, with both values; kinds and versions that only one has are left out."""
    shared = {row[:2] for row in upstream} & {row[:2] for row in ours}
    theirs, own = ({row[:3]: json.loads(row[3]) for row in rows if row[:2] in shared} for rows in (upstream, ours))
    for key in sorted(theirs.keys() | own.keys()):
        if key not in own or key not in theirs:
            yield key, "missing" if key not in own else "extra", theirs.get(key), own.get(key)
            continue
        for fact in sorted(theirs[key].keys() | own[key].keys()):
            if theirs[key].get(fact) != own[key].get(fact):
                yield key, fact, theirs[key].get(fact), own[key].get(fact)


def unexplained(upstream, ours):
    """What is to be said of the differences: those that nothing explains, and explanations without a difference."""
    used, said = set(), []
    for (kind, version, field), fact, theirs, own in differences(upstream, ours):
        texts = (kind, field, fact)
        meant = [row for row in MEANT if all(re.fullmatch(pattern, text) for pattern, text in zip(row, texts))]
        used.update(meant)
        if not meant:
            said.append(f"{kind} {version}: {field}: {fact} is {json.dumps(own)}, upstream's {json.dumps(theirs)}")
    return said + [f"nothing differs by {row}" for row in MEANT if row not in used]


def upstream_rows():
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return [tuple(line.split("\t")) for line in lines]


def our_rows():
    files = sorted(file for pattern in OURS for file in ROOT.glob(pattern))
    return [row for file in files for crd in yaml.safe_load_all(file.read_text()) if crd for row in rows_of(crd)]


if __name__ == "__main__":
    found = unexplained(upstream_rows(), our_rows())
    print("\n".join(found) or f"{len(our_rows())} fields are as upstream's {len(upstream_rows())}, or differ for a reason")
    sys.exit(bool(found))
