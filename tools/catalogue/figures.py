"""The price table, the spot model and the branch interfaces, each boiled down to a few numbers a family.

Prices: AWS's public on-demand list, Linux, shared tenancy, us-east-1, July 2026. Within a family a price is proportional to
vCPUs (or GiB, or has a part for accelerators); what the rule misses by more than 0.01 % stands under "exact".
Regions: a factor over us-east-1, an estimate. Spot: synthetic, a median discount and an interruption rate a family, made
up to fit the public advisor's buckets; whoever shows it has to say so.
"""
import collections
import csv
import json
import statistics

TOLERANCE = 1e-4


def rows(path):
    with open(path) as f:
        return list(csv.DictReader(f))


def number(text):
    return float(text) if text else None


def family_rules(folder):
    rules = {}
    for r in rows(folder / "price-family-base.csv"):
        rule = {"per": {"vcpu": "vcpu", "mem_gib": "gib", "vcpu+accel": "vcpu", "unit": "vcpu"}[r["unit"]],
                "usd": number(r["usd_per_unit"]), "accelerator": number(r["usd_per_accel"]), "metal": number(r["metal_factor"])}
        rules[r["family"]] = {k: v for k, v in rule.items() if v is not None}
    return rules


def accelerators(t):
    """Whole devices: GPUs by the share of one that a type has, inference and neuron devices by count."""
    n = sum(g["Count"] * g.get("GpuPartitionSize", 1.0) for g in t.get("GpuInfo", {}).get("Gpus", []))
    return n or sum(d["Count"] for d in t.get("NeuronInfo", {}).get("NeuronDevices", []))


def price(rule, name, t):
    if rule is None or "usd" not in rule:
        return None
    units = t["VCpuInfo"]["DefaultVCpus"] if rule["per"] == "vcpu" else t["MemoryInfo"]["SizeInMiB"] / 1024
    usd = units * rule["usd"] + accelerators(t) * rule.get("accelerator", 0)
    return usd * rule.get("metal", 1) if "metal" in name.split(".")[1] else usd


def on_demand(folder, types):
    rules = family_rules(folder)
    listed = {r["instance_type"]: float(r["usd_per_hour"]) for r in rows(folder / "prices-ondemand.csv")}
    exact, covered = {}, set()
    for name, t in sorted(types.items()):
        computed = price(rules.get(name.split(".")[0]), name, t)
        usd = listed.get(name)
        if usd is None:
            exact[name] = 0  # not on the list: no price, so never offered
        elif computed is None or abs(computed / usd - 1) > TOLERANCE:
            exact[name] = usd
        else:
            covered.add(name.split(".")[0])
    unpriced = {f for f in rules if f not in covered}
    return {f: r for f, r in sorted(rules.items()) if f not in unpriced}, exact


def region_factors(folder):
    """By region a median, and the families that differ from it by more than a thousandth."""
    by_region = collections.defaultdict(dict)
    for r in rows(folder / "region-factors.csv"):
        by_region[r["region"]].setdefault(r["family"], float(r["factor_vs_us_east_1"]))
    result = {}
    for region, families in sorted(by_region.items()):
        median = round(statistics.median(families.values()), 4)
        result[region] = {"factor": median, "families": {f: v for f, v in sorted(families.items()) if abs(v - median) > 0.001}}
    return result


def write_lines(path, head, tables):
    """JSON with one entry a line, so that a change can be read in a diff."""
    parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    for name, table in tables.items():
        inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in table.items())
        parts.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def branch_interfaces(folder):
    """Types of which a trunk can carry branch interfaces (VPC resource controller's limits), by their number."""
    by_count = collections.defaultdict(list)
    for r in rows(folder / "vpc-limits.csv"):
        if r["is_trunking"] == "1":
            by_count[int(r["branch_enis"])].append(r["instance_type"])
    return {str(n): sorted(names) for n, names in sorted(by_count.items())}


def make(folder, data, types, write_gz):
    rules, exact = on_demand(folder, types)
    write_lines(data / "prices.json",
                {"source": "AWS public on-demand list, Linux, us-east-1; region factors are estimates", "date": "2026-07"},
                {"families": rules, "exact": exact, "regions": region_factors(folder)})
    spot = {r["family"]: [float(r["discount_median"]), float(r["discount_sd"]), float(r["hazard_per_hour"])]
            for r in rows(folder / "spot-model-synthetic.csv")}
    write_lines(data / "spot-model.json",
                {"source": "synthetic: median discount, its deviation, interruptions per hour; a model, not a price list"},
                {"families": spot})
    write_gz("branch-interfaces.json.gz", branch_interfaces(folder))
