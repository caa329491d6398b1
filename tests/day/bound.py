"""What the pods that are there cost at least: the cheapest mix of nodes, in fractions, whose room they fill.

A linear program over fillings of nodes. A filling has one, two or three shapes of pods, as three resources (CPU, memory,
number of pods) bound it, so that all of them are known beforehand. Prices and room are worked out here from the data that
the binary carries; prices are held against every instance that a run launches (`Offers.check`).
"""

import gzip
import itertools
import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "crates/cloud/data"
REGION, ZONES = "us-east-1", ("us-east-1a", "us-east-1b", "us-east-1c")
MASK = 2**64 - 1
TINY = 1e-9


def _fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def _bell(name, zone):
    """As crates/cloud/src/shipped/spot.rs draws how far a zone's discount is off."""
    zoned = _fnv(zone)
    state, total = _fnv(name) ^ ((zoned << 32 | zoned >> 32) & MASK), 0.0
    for _ in range(12):
        state = state + 0x2D358DCCAA6C78A5 & MASK
        product = state * (state ^ 0x8BB84B93962EACC9)
        total += (((product ^ product >> 64) & MASK) >> 12) / 2**52
    return total - 6.0


def _reserved(cores):
    bands = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, 10**9, 25))
    return sum(max(0, min(cores * 1000, to) - begin) * share // 10000 for begin, to, share in bands)


class Offers:
    """What can be bought in the region: (type, capacity type) to its least price and the room for pods."""

    def __init__(self, families):
        prices = json.loads((DATA / "prices.json").read_text())
        model = json.loads((DATA / "spot-model.json").read_text())["families"]
        types = json.loads(gzip.decompress((DATA / "instance-types.json.gz").read_bytes()))
        offered = json.loads(gzip.decompress((DATA / "offerings.json.gz").read_bytes()))[REGION]["types"]
        places = {name: [zone for zone in ZONES if zone[-1] in letters] for letters, names in offered.items() for name in names}
        self.prices, self.room = {}, {}
        for one in types:
            name, family = one["name"], one["name"].split(".")[0]
            if family not in families or not places.get(name):
                continue
            rule = prices["families"][family]
            usd = prices["exact"].get(name)
            if usd is None:
                usd = (one["vcpus"] if rule["per"] == "vcpu" else one["memory_mib"] / 1024) * rule["usd"]
                usd *= rule.get("metal") or 1.0 if "metal" in name else 1.0
            usd = round(usd, 6)
            network = one["network"]
            pods = network["max_interfaces"] * (network["ipv4_per_interface"] - 1) + 2
            memory = one["memory_mib"] * (1 - 0.075) - (11 * pods + 255) - 100
            self.room[name] = (one["vcpus"] * 1000 - _reserved(one["vcpus"]), memory, pods)
            for zone in places[name]:
                self.prices[name, zone, "on-demand"] = usd
                if "spot" in one["usage_classes"]:
                    discount, deviation, _ = model[family]
                    discount = min(max(discount + deviation * _bell(name, zone), 0.0), 0.92)
                    self.prices[name, zone, "spot"] = round(usd * (1 - discount), 6)

    def check(self, event):
        """Whether a launched instance costs what it is thought to."""
        own = self.prices[event["instanceType"], event["zone"], event["capacityType"]]
        if abs(own - event["pricePerHour"]) > 2e-6:
            raise ValueError(f"{event['instanceType']} in {event['zone']} costs {event['pricePerHour']}, not {own}")

    def bought(self):
        """(capacity type, price, room), without what another beats in all."""
        least = {}
        for (name, _, kind), usd in self.prices.items():
            least[name, kind] = min(usd, least.get((name, kind), usd))
        found = [(kind, usd, self.room[name]) for (name, kind), usd in least.items()]

        def beats(one, other):
            if one[0] != other[0] or one[2] == other[2] and one[1] >= other[1]:
                return False
            better = all(a >= b and a / one[1] >= b / other[1] for a, b in zip(one[2], other[2]))
            return better and one is not other

        return [one for one in found if not any(beats(other, one) for other in found)]


def _solve(rows, right):
    """A small system of equations; nothing where it has no single answer."""
    size, rows = len(right), [[*row, value] for row, value in zip(rows, right)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        if abs(rows[pivot][at]) < TINY:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for row in range(size):
            if row != at and rows[row][at]:
                factor = rows[row][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at])]
    return [row[-1] for row in rows]


class Bound:
    """Of pods of these shapes: (CPU in thousandths, memory in MiB, whether on demand alone)."""

    def __init__(self, shapes, bought):
        self.shapes = list(shapes)
        self.fillings = []  # (price, ((shape, count), …))
        for kind, usd, room in bought:
            fits = [s for s, (cpu, mib, fixed) in enumerate(self.shapes) if cpu <= room[0] and mib <= room[1] and (kind == "on-demand" or not fixed)]
            self.fillings += [(usd, filling) for filling in self._of(fits, room)]
        self._known = []

    def _of(self, fits, room):
        asks = {s: (self.shapes[s][0] / room[0], self.shapes[s][1] / room[1], 1 / room[2]) for s in fits}
        for count in (1, 2, 3):
            for chosen in itertools.combinations(fits, count):
                for tight in itertools.combinations(range(3), count):
                    levels = _solve([[asks[s][r] for s in chosen] for r in tight], [1.0] * count)
                    if levels is None or min(levels) < TINY:
                        continue
                    if all(sum(asks[s][r] * x for s, x in zip(chosen, levels)) <= 1 + 1e-7 for r in range(3)):
                        yield tuple(zip(chosen, levels))

    def price(self, counts):
        """$/h at least of so many pods of each shape."""
        for at, (inverse, worth) in enumerate(self._known):
            if all(sum(a * n for a, n in zip(row, counts)) >= -1e-7 for row in inverse):
                if at:
                    self._known.insert(0, self._known.pop(at))
                return sum(u * n for u, n in zip(worth, counts))
        self._known.insert(0, self._optimum(counts))
        return sum(u * n for u, n in zip(self._known[0][1], counts))

    def _optimum(self, counts):
        """A basis's inverse and what a pod of each shape is worth by it: the simplex, from fillings of one shape each."""
        size = len(counts)
        best = [min((usd / f[0][1], f[0][1], usd) for usd, f in self.fillings if len(f) == 1 and f[0][0] == s) for s in range(size)]
        inverse = [[1 / best[r][1] if r == c else 0.0 for c in range(size)] for r in range(size)]
        costs = [usd for _, _, usd in best]
        for _ in range(5000):
            worth = [sum(costs[r] * inverse[r][c] for r in range(size)) for c in range(size)]
            gain, entering = max(((sum(worth[s] * x for s, x in f) - usd) / usd, at) for at, (usd, f) in enumerate(self.fillings))
            surplus = min(range(size), key=lambda s: worth[s])
            if worth[surplus] < -1e-9:
                column, cost = [-inverse[r][surplus] for r in range(size)], 0.0
            elif gain > 1e-7:
                usd, filling = self.fillings[entering]
                column, cost = [sum(inverse[r][s] * x for s, x in filling) for r in range(size)], usd
            else:
                return inverse, worth
            # A little of everything beside what there is keeps equal steps from going round in circles.
            levels = [sum(inverse[r][c] * (counts[c] + 1e-6 * (c + 1)) for c in range(size)) for r in range(size)]
            steps = [(max(levels[r], 0.0) / column[r], r) for r in range(size) if column[r] > TINY]
            _, leaves = min(steps)
            pivot = inverse[leaves] = [value / column[leaves] for value in inverse[leaves]]
            for r in range(size):
                if r != leaves and column[r]:
                    factor = column[r]
                    inverse[r] = [a - factor * b for a, b in zip(inverse[r], pivot)]
            costs[leaves] = cost
        raise ValueError("the linear program does not end")
