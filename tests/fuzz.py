#!/usr/bin/env python3
"""Fuzzes what comes from outside: manifests, conversion, the webhook's body, EC2's answers, the queue's messages, short texts.

    fuzz.py [--minutes MINUTES] [TARGET…]      2 minutes a target unless said; all targets unless some are named

The targets are those of fuzz/ and work with cargo-fuzz too. Here they are built by the stable compiler with the counters that
libFuzzer reads. What is found to lead somewhere new is kept below target/fuzz and is where the next run begins. Prints a line a
target in Markdown. Ends with 1 when a target panicked, ran out of memory or took more than 10 s for one input; the input is
kept, and named.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))
KEPT = ROOT / "target/fuzz"
#: Coverage as libFuzzer reads it, by options that the stable compiler has.
FLAGS = " ".join([
    "-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4", "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table", "-Cllvm-args=-sanitizer-coverage-trace-compares", "--cfg=fuzzing",
])
#: Largest input by target, in bytes, where it is not 4 KiB.
LONGEST = {"manifests": 16 << 10, "webhook_review": 64 << 10, "small_texts": 128}
#: One answer of EC2 for each call that `ec2_answer` makes, by its number there.
ANSWERS = {
    0: "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>m5.large</instanceType><vCpuInfo><defaultVCpus>2"
       "</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo><networkInfo><maximumNetworkInterfaces>3"
       "</maximumNetworkInterfaces><ipv4AddressesPerInterface>10</ipv4AddressesPerInterface></networkInfo></item>"
       "</instanceTypeSet><nextToken>more</nextToken></DescribeInstanceTypesResponse>",
    1: "<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>m5.large</instanceType><location>"
       "us-east-1a</location></item></instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>",
    2: json.dumps({"PriceList": [json.dumps({"product": {"attributes": {"instanceType": "m5.large"}}, "terms": {"OnDemand": {
       "a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "0.096"}}}}}}})], "NextToken": "more"}),
    3: "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item><instanceType>m5.large</instanceType><availabilityZone>"
       "us-east-1a</availabilityZone><spotPrice>0.03</spotPrice><timestamp>2026-01-01T00:00:00Z</timestamp></item>"
       "</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>",
    4: "<DescribeCapacityReservationsResponse><capacityReservationSet><item><capacityReservationId>cr-0123456789abcdef0"
       "</capacityReservationId><availableInstanceCount>2</availableInstanceCount><state>active</state></item>"
       "</capacityReservationSet></DescribeCapacityReservationsResponse>",
    9: "<DescribeInstanceStatusResponse><instanceStatusSet><item><instanceId>i-0123456789abcdef0</instanceId><systemStatus>"
       "<status>impaired</status></systemStatus></item></instanceStatusSet></DescribeInstanceStatusResponse>",
    10: json.dumps({"Messages": [{"MessageId": "a", "ReceiptHandle": "b", "Body": "{}", "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b"}]}),
}
INSTANCES = (
    "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-0123456789abcdef0</instanceId>"
    "<instanceState><name>running</name></instanceState><instanceType>m5.large</instanceType><placement><availabilityZone>"
    "us-east-1a</availabilityZone></placement><launchTime>2026-01-01T00:00:00Z</launchTime><clientToken>token</clientToken>"
    "<tagSet><item><key>karpenter.sh/nodepool</key><value>default</value></item></tagSet></item></instancesSet></item>"
    "</reservationSet></DescribeInstancesResponse>"
)
MESSAGES = [
    {"version": "0", "id": "1", "detail-type": "EC2 Spot Instance Interruption Warning", "source": "aws.ec2",
     "time": "2026-01-01T00:00:00Z", "detail": {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}},
    {"version": "0", "id": "2", "detail-type": "AWS Health Event", "source": "aws.health", "time": "2026-01-01T00:00:00Z",
     "detail": {"service": "EC2", "eventTypeCategory": "scheduledChange", "startTime": "Thu, 1 Jan 2026 00:00:00 GMT",
                "affectedEntities": [{"entityValue": "i-0123456789abcdef0"}]}},
]
TEXTS = ["100m", "1.5Gi", "1e3", "-5Ki", "10%\n@daily", "3\n0 9 * * mon-fri", "50%\n*/5 0-6 1,15 jan ?", "0"]


def manifests():
    """Those of the posts and of the repository's examples."""
    return [path.read_bytes() for path in sorted([*ROOT.glob("tests/fixtures/posts/*.yaml"), *ROOT.glob("deploy/examples/*.yaml")])]


def objects():
    """NodePools and classes of both versions, as JSON."""
    import yaml

    kinds = ("NodePool", "EC2NodeClass", "NodeClaim")
    found = []
    for text in manifests():
        try:
            found += [one for one in yaml.safe_load_all(text) if isinstance(one, dict) and one.get("kind") in kinds]
        except yaml.YAMLError:
            continue
    return [json.dumps(one, default=str).encode() for one in found]


def review(one):
    """A review that asks for an object in the other version."""
    version = json.loads(one)["apiVersion"]
    group, _, at = version.partition("/")
    to = f"{group}/{'v1' if at == 'v1beta1' else 'v1beta1'}"
    request = {"uid": "u", "desiredAPIVersion": to, "objects": [json.loads(one)]}
    return json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}).encode()


def seeds(target):
    """Inputs that a target knows from the start."""
    if target == "manifests":
        return manifests()
    if target == "conversion":
        return objects()
    if target == "webhook_review":
        return [review(one) for one in objects()]
    if target == "interruption_message":
        return [json.dumps(one).encode() for one in MESSAGES]
    if target == "small_texts":
        return [one.encode() for one in TEXTS]
    answers = {**{which: INSTANCES for which in (5, 6, 7, 8)}, **ANSWERS}
    return [bytes([which, 0]) + text.encode() for which, text in answers.items()]


def built():
    """The folder of the programs. The host is named, so that build scripts and macros are compiled without counters."""
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.*)$", version, re.M)[1]
    command = ["cargo", "build", "--release", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", host]
    command += ["--target-dir", "target/fuzz/build"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTFLAGS": FLAGS, "K8S_OPENAPI_ENABLED_VERSION": "1.33"}, check=True)
    return KEPT / "build" / host / "release"


def played(program, target, minutes):
    """What a target said, and the inputs that it did not survive."""
    corpus, found = KEPT / "corpus" / target, KEPT / "found" / target
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    command = [
        program / target, corpus, f"-artifact_prefix={found}/", f"-max_total_time={round(minutes * 60)}", "-timeout=10",
        f"-max_len={LONGEST.get(target, 4096)}", "-rss_limit_mb=2048", "-print_final_stats=1", "-seed=1",
    ]
    before = set(found.iterdir())
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done, sorted(set(found.iterdir()) - before)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args(arguments)
    unknown = set(options.targets) - set(TARGETS)
    if unknown or not 0 < options.minutes <= 600:
        parser.error(f"unknown {', '.join(sorted(unknown))}" if unknown else "minutes are more than 0 and at most 600")
    program, failed = built(), []
    print("| target | inputs | places reached | outcome |\n|---|---|---|---|")
    for target in options.targets or TARGETS:
        done, found = played(program, target, options.minutes)
        runs = re.search(r"stat::number_of_executed_units: *(\d+)", done.stdout)
        reached = re.findall(r"\bcov: (\d+)", done.stdout)
        if done.returncode or not runs:
            failed.append((target, done.stdout[-3000:]))
        outcome = "nothing found" if not done.returncode else ", ".join(str(path.relative_to(ROOT)) for path in found) or "failed"
        print(f"| {target} | {int(runs[1]):,} |" if runs else f"| {target} | |", f"{int(reached[-1]):,}" if reached else "", f"| {outcome} |", flush=True)
    for target, said in failed:
        print(f"\n{target}:\n{said}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
