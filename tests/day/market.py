"""One day of a cluster on a spot market, drawn from a seed: manifests and a scenario for `dovetail simulate`.

`python3 tests/day/market.py SEED FOLDER` writes them. The same seed gives the same files whatever the settings, so that two
settings or two binaries are compared on the same days.

Drawn are the price and the depth of every spot pool (an instance type in a zone), and when EC2 takes back a whole pool. Pools are
taken by the model's rates, HASTE times as often as it has them, so that a day shows something. Which pools are used has no part in
it: who stays out of those that are taken often is interrupted less.
"""

import json
import math
import random
import sys
from pathlib import Path

import bound
import make

DAY = 24 * 60
# The price of a pool is so far off the model's (a logarithm's deviation), and at most this share of the on-demand price.
PRICE_DEVIATION, MOST_OF_ON_DEMAND = 0.15, 0.95
# vCPUs that a pool has for one account: the middle one, and the deviation of its logarithm.
DEPTH, DEPTH_DEVIATION = 48, 0.9
# Interruptions a pool, as a multiple of the model's an instance, and for how long (minutes) the pool is sold out then.
HASTE, SOLD_OUT = 50, (30, 120)
# Without an interruption at the beginning and at the end, in minutes.
CALM = (60, 30)
# What each node's DaemonSets ask for: CPU in thousandths, memory in MiB.
DAEMONS = {"agent": (100, 128), "logs": (150, 256)}
WEBS = [(250, 2), (500, 4), (500, 2), (1000, 2), (1000, 8), (2000, 4)]
# Of these Deployments the first so many are scaled by an autoscaler, the others every half hour by the clock.
AUTOSCALED = 2
# Thousandths of a core that a Deployment has at its height.
HEIGHT = 16000


def pools(seed):
    """(times, depth, minutes at which it is taken back and for how long) of each spot pool, by `type/zone`."""
    offers = bound.Offers(make.FAMILIES)
    drawn = {}
    for (name, zone, kind), usd in sorted(offers.prices.items()):
        if kind == "spot":
            # A generator of its own: what is drawn for one pool does not depend on which others there are.
            rng = random.Random(f"{seed}/{name}/{zone}")
            times = min(math.exp(rng.gauss(0, PRICE_DEVIATION)), MOST_OF_ON_DEMAND * offers.prices[name, zone, "on-demand"] / usd)
            depth = int(DEPTH * math.exp(rng.gauss(0, DEPTH_DEVIATION)) / offers.vcpus[name])
            rate = HASTE * offers.model[name.split(".")[0]][2] / 60
            taken, minute = [], CALM[0] + rng.expovariate(rate)
            while minute < DAY - CALM[1]:
                taken.append((int(minute), rng.randint(*SOLD_OUT)))
                minute += rng.expovariate(rate)
            drawn[f"{name}/{zone}"] = (round(times, 4), depth, taken)
    return drawn


def offers(drawn):
    """The region's offers at these prices."""
    found = bound.Offers(make.FAMILIES)
    for key, (times, *_) in drawn.items():
        name, zone = key.split("/")
        found.prices[name, zone, "spot"] *= times
    return found


def autoscaled(rng, web):
    """(minute, replicas) as a HorizontalPodAutoscaler has them that looks every five minutes: up at once, down to the most that it
    wanted within a quarter of an hour, not at all within a tenth."""
    bursts = [(rng.randint(60, DAY - 120), rng.uniform(1.3, 1.8)) for _ in range(2)]
    noise, now, wanted, steps = 0.0, None, [], []
    for minute in range(0, DAY, 5):
        noise = 0.9 * noise + rng.gauss(0, 0.03)
        wave = 0.5 - 0.5 * math.cos(2 * math.pi * (minute / 60 - 4 - web.phase) / 24)
        load = web.peak * (0.25 + 0.75 * wave) * math.exp(noise)
        load *= math.prod(times for begin, times in bursts if begin <= minute < begin + 40)
        wanted = (wanted + [max(2, math.ceil(load))])[-3:]
        target = max(wanted)
        if now is None or abs(target - now) > 0.1 * now:
            now = target
            steps.append((minute, now))
    return steps


def by_the_clock(rng, web):
    return [(0, web.replicas(0, rng))] + [(30 * half + rng.randint(0, 9), web.replicas(30 * half, rng)) for half in range(1, 48)]


def daemon_set(name, cpu, memory):
    labels = {"app": name}
    spec = {"containers": make.container(cpu, memory), "tolerations": [{"operator": "Exists"}]}
    body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def job(rng, name):
    one = make.job(rng, 0)
    one["metadata"]["name"] = name
    one["spec"]["parallelism"] = one["spec"]["completions"] = rng.randint(10, 40)
    asks = one["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    cpu = int(asks["cpu"][:-1])
    asks["memory"] = f"{cpu * rng.choice((2, 4)) * 1024 // 1000}Mi"
    return one


def workloads(rng, write):
    """Manifest files of the beginning, and (minute, step) of what happens to them."""
    webs = [
        make.Workload(rng, "Deployment", f"web-{i}", cpu, gib, HEIGHT // cpu + rng.randint(0, 12)) for i, (cpu, gib) in enumerate(WEBS)
    ]
    sets = [make.Workload(rng, "StatefulSet", f"store-{i}", cpu, gib, 3) for i, (cpu, gib) in enumerate([(1000, 4), (2000, 8)])]
    steps, first = [], [daemon_set(name, *asks) for name, asks in DAEMONS.items()]
    for number, web in enumerate(webs):
        curve = autoscaled(rng, web) if number < AUTOSCALED else by_the_clock(rng, web)
        rollout = rng.randint(9 * 60, 18 * 60)
        first.append(web.manifest(curve[0][1], 1))
        steps += [(minute, f"scale: {{kind: Deployment, name: {web.name}, replicas: {many}}}") for minute, many in curve[1:]]
        now = [many for minute, many in curve if minute <= rollout][-1]
        steps.append((rollout, f"apply: [{write(f'{web.name}-rollout.yaml', [web.manifest(now, 2)])}]"))
    for one in sets:
        first.append(one.manifest(one.peak, 1))
    # One grows by the hour, and the other is rolled out.
    for many, minute in enumerate(sorted(rng.sample(range(2 * 60, 22 * 60), 4)), start=4):
        steps.append((minute, f"scale: {{kind: StatefulSet, name: {sets[0].name}, replicas: {many}}}"))
    steps.append((rng.randint(600, 960), f"apply: [{write(f'{sets[1].name}-rollout.yaml', [sets[1].manifest(3, 2)])}]"))
    # The night's batch is due at two and late by up to ten hours; the others come when they come.
    late = 120 + rng.randint(0, 600)
    steps.append((late, f"apply: [{write('nightly.yaml', [job(rng, f'nightly-{n}') for n in range(4)])}]"))
    for number in range(5):
        steps.append((rng.randint(30, DAY - 60), f"apply: [{write(f'batch-{number}.yaml', [job(rng, f'batch-{number}')])}]"))
    return [write("first.yaml", first + [one.budget() for one in webs + sets])], steps


def make_day(seed, folder, settings=None, gates=None, disruption="{consolidateAfter: 0s}", until=DAY):
    """Writes the files; answers the scenario's path. The day ends after `until` minutes: the same day, cut off."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, objects):
        (folder / name).write_text("---\n".join(json.dumps(one) + "\n" for one in objects))
        return name

    drawn = pools(seed)
    (folder / "pool.yaml").write_text(make.POOL.format(disruption=disruption))
    first, steps = workloads(random.Random(seed), write)
    for key, (_, _, taken) in drawn.items():
        steps += [(minute, f"interrupt: {{pool: {key}, for: {lasts}m}}") for minute, lasts in taken]
    steps = sorted((step for step in steps if step[0] < until), key=lambda step: step[0])
    said = {key: {"times": times, "depth": depth} for key, (times, depth, _) in drawn.items()}
    scenario = "\n".join(
        [
            f"# Drawn by tests/day/market.py from seed {seed}.",
            "region: us-east-1",
            f"instanceTypes: [{', '.join(family + '.*' for family in make.FAMILIES)}]",
            f"seed: {seed}",
            f"apply: {json.dumps(['pool.yaml', *first])}",
            f"settings: {json.dumps(settings or {})}",
            f"featureGates: {json.dumps(gates or {})}",
            f"faults: {json.dumps({'ec2': {'spotPools': said}})}",
            "steps:",
            *(f"  - {{at: {minute}m, {what}}}" for minute, what in steps),
            f"until: {until}m",
            "",
        ]
    )
    (folder / "scenario.yaml").write_text(scenario)
    return folder / "scenario.yaml"


def shapes(folder):
    """Shapes of a day's pods: CPU in thousandths, memory in MiB, the kind of their workload, and of a Deployment its name."""
    own = ((cpu, memory, kind, name if kind == "Deployment" else "") for kind, name, cpu, memory in make.workloads(folder))
    return list(dict.fromkeys(own))


if __name__ == "__main__":
    print(make_day(int(sys.argv[1]), sys.argv[2]))
