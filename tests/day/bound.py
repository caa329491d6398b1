"""What the pods that are there cost at least: no mix of nodes that carries them is cheaper.

A linear program over fillings of nodes (column generation, the simplex method). What it holds nodes to:

* A node of up to 16 vCPUs holds whole pods: its fillings are found by a knapsack over CPU and memory. Of larger nodes any part
  is filled, as CPU, memory and the number of pods bound it; there that makes little difference.
* Nodes are bought in fractions, but a large one is paid for as a whole: either no node is larger than a class of sizes, or
  one of the next class at least is bought.
* Pods that ask for on-demand capacity get no other.

What it leaves out only makes it lower: soft rules, how long an instance lives, that one type in one zone is taken back at once,
and what it takes to move a pod. With `spread` a third of the pods that rather have their zones alike is in each of them. That is
what their wish costs, and no bound for those who do not keep to it.

Prices and room are worked out here from the data that the binary carries; prices are held against every instance that a
run launches (`Offers.check`).
"""

import functools
import gzip
import itertools
import json
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "crates/cloud/data"
REGION, ZONES = "us-east-1", ("us-east-1a", "us-east-1b", "us-east-1c")
MASK = 2**64 - 1
TINY = 1e-9
CPU_UNIT, MIB_UNIT = 250, 500
# vCPUs: the largest nodes of each class. Those of the first hold whole pods.
CLASSES = (16, 64, 10**9)


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


@functools.cache
def _data():
    def packed(name):
        return json.loads(gzip.decompress((DATA / name).read_bytes()))

    prices, model = (json.loads((DATA / name).read_text()) for name in ("prices.json", "spot-model.json"))
    return prices, model["families"], packed("instance-types.json.gz"), packed("offerings.json.gz")[REGION]["types"]


class Offers:
    """What can be bought in the region: prices, the room for pods, vCPUs."""

    def __init__(self, families):
        prices, model, types, offered = _data()
        places = {name: [zone for zone in ZONES if zone[-1] in letters] for letters, names in offered.items() for name in names}
        self.prices, self.room, self.vcpus, self.model = {}, {}, {}, model
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
            self.vcpus[name] = one["vcpus"]
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

    def bought(self, by_zone):
        """(capacity type, zone, price, room, vCPUs); where zones do not matter each at its cheapest."""
        least = {}
        for (name, zone, kind), usd in self.prices.items():
            key = name, zone if by_zone else None, kind
            least[key] = min(usd, least.get(key, usd))
        return [(kind, zone, usd, self.room[name], self.vcpus[name]) for (name, zone, kind), usd in least.items()]


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


class Program:
    """The linear program of rows (CPU in thousandths, memory in MiB, whether on demand alone, zone or none)."""

    def __init__(self, rows, offered):
        self.rows = rows
        self.size = len(rows)
        self.small, large = {}, {}
        for kind, zone, usd, room, vcpus in offered:
            fits = tuple(
                s
                for s, (cpu, mib, fixed, own) in enumerate(rows)
                if cpu <= room[0] and mib <= room[1] and (kind == "on-demand" or not fixed) and own in (None, zone)
            )
            if not fits:
                continue
            group = self.small if vcpus <= CLASSES[0] else large
            group.setdefault((kind, zone), []).append((usd, room, fits))
        for key, all_of in self.small.items():
            self.small[key] = self._cells(all_of)
        self.large = []
        for all_of in large.values():
            for usd, room, fits in self._best(all_of):
                self.large += [(usd, filling) for filling in self._of(fits, room)]
        self.columns, self.known = [], []

    def carries_all(self):
        """Whether there is a node for each shape."""
        held = {s for _, filling in self.large for s, _ in filling}
        return held.union(*(fits for _, fits in self.small.values())) == set(range(self.size))

    @staticmethod
    def _cells(all_of):
        """Of those with the same room in units the cheapest, and without what has less room and is no cheaper."""
        found = {}
        for usd, room, _ in all_of:
            cell = (int(room[0] // CPU_UNIT), int(room[1] // MIB_UNIT))
            found[cell] = min(usd, found.get(cell, usd))

        def beaten(cell, usd):
            others = ((other, price) for other, price in found.items() if other != cell)
            return any(other[0] >= cell[0] and other[1] >= cell[1] and price <= usd for other, price in others)

        cells = [(usd, cell) for cell, usd in found.items() if not beaten(cell, usd)]
        fits = sorted({s for _, _, some in all_of for s in some})
        return cells, fits

    @staticmethod
    def _best(all_of):
        def beats(one, other):
            if one[1] == other[1] and one[0] >= other[0]:
                return False
            return one is not other and all(a >= b and a / one[0] >= b / other[0] for a, b in zip(one[1], other[1]))

        return [one for one in all_of if not any(beats(other, one) for other in all_of)]

    def _of(self, fits, room):
        asks = {s: (self.rows[s][0] / room[0], self.rows[s][1] / room[1], 1 / room[2]) for s in fits}
        for count in (1, 2, 3):
            for chosen in itertools.combinations(fits, count):
                for tight in itertools.combinations(range(3), count):
                    levels = _solve([[asks[s][r] for s in chosen] for r in tight], [1.0] * count)
                    if levels is None or min(levels) < TINY:
                        continue
                    if all(sum(asks[s][r] * x for s, x in zip(chosen, levels)) <= 1 + 1e-7 for r in range(3)):
                        yield tuple(zip(chosen, levels))

    def price(self, counts):
        """The program's optimum for so many pods of each row."""
        for at, (inverse, worth) in enumerate(self.known):
            if all(sum(a * n for a, n in zip(row, counts)) >= -1e-7 for row in inverse):
                if at:
                    self.known.insert(0, self.known.pop(at))
                return sum(u * n for u, n in zip(worth, counts))
        self.known.insert(0, self._optimum(counts))
        return sum(u * n for u, n in zip(self.known[0][1], counts))

    def _first(self):
        """A filling of one shape for each row, from which the simplex begins."""
        best = []
        for s in range(self.size):
            own = [(usd / f[0][1], f[0][1], usd) for usd, f in self.large if len(f) == 1 and f[0][0] == s]
            for cells, fits in self.small.values():
                if s in fits:
                    cpu, mib = max(1, -(-self.rows[s][0] // CPU_UNIT)), self.rows[s][1] // MIB_UNIT
                    for usd, (c, m) in cells:
                        many = min(c // cpu, m // mib if mib else c)
                        own += [(usd / many, many, usd)] if many else []
            best.append(min(own))
        return best

    def _entering(self, worth):
        """The filling that gains the most for its price, or nothing."""
        gain, found = 1e-7, None
        for usd, filling in self.columns:
            value = sum(worth[s] * x for s, x in filling) / usd - 1
            if value > gain:
                gain, found = value, (usd, filling)
        if found:
            return found
        for usd, filling in self.large:
            value = sum(worth[s] * x for s, x in filling) / usd - 1
            if value > gain:
                gain, found = value, (usd, filling)
        for cells, fits in self.small.values():
            better = self._knapsack(worth, cells, fits)
            if better and better[0] > gain:
                gain, found = better[0], better[1:]
        if found:
            self.columns.append(found)
        return found

    def _knapsack(self, worth, cells, fits):
        asks = [(-(-self.rows[s][0] // CPU_UNIT), self.rows[s][1] // MIB_UNIT, worth[s], s) for s in fits if worth[s] > TINY]
        # Nothing is taken of what asks for no less than another and is worth no more.
        asks.sort(key=lambda ask: (ask[0], ask[1], -ask[2]))
        asks = [ask for at, ask in enumerate(asks) if not any(o[1] <= ask[1] and o[2] >= ask[2] for o in asks[:at])]
        wide = max(m for _, (_, m) in cells) + 1
        table = [[0.0] * wide]
        for c in range(1, max(c for _, (c, _) in cells) + 1):
            row = table[c - 1]
            for cpu, mib, value, _ in asks:
                if cpu <= c and mib < wide:
                    before = table[c - cpu]
                    moved = [one + value for one in before[: wide - mib]]
                    row = row[:mib] + list(map(max, row[mib:], moved))
            table.append(row)
        usd, (c, m) = max(cells, key=lambda one: table[one[1][0]][one[1][1]] / one[0])
        gain = table[c][m] / usd - 1
        if gain <= 1e-7:
            return None
        taken = {}
        while c > 0:
            for cpu, mib, value, s in asks:
                if cpu <= c and mib <= m and abs(table[c - cpu][m - mib] + value - table[c][m]) < 1e-12:
                    taken[s] = taken.get(s, 0) + 1
                    c, m = c - cpu, m - mib
                    break
            else:
                c -= 1
        return gain, usd, tuple(taken.items())

    def _optimum(self, counts):
        """A basis's inverse and what a pod of each row is worth by it: the simplex, from fillings of one shape each."""
        size = self.size
        best = self._first()
        inverse = [[1 / best[r][1] if r == c else 0.0 for c in range(size)] for r in range(size)]
        costs = [usd for _, _, usd in best]
        # A little of everything beside what there is keeps equal steps from going round in circles.
        levels = [sum(inverse[r][c] * (counts[c] + 1e-6 * (c + 1)) for c in range(size)) for r in range(size)]
        for _ in range(20000):
            worth = [sum(costs[r] * inverse[r][c] for r in range(size)) for c in range(size)]
            surplus = min(range(size), key=lambda s: worth[s])
            if worth[surplus] < -1e-9:
                column, cost = [-inverse[r][surplus] for r in range(size)], 0.0
            else:
                entering = self._entering(worth)
                if not entering:
                    return inverse, worth
                cost, filling = entering
                column = [sum(inverse[r][s] * x for s, x in filling) for r in range(size)]
            steps = [(max(levels[r], 0.0) / column[r], r) for r in range(size) if column[r] > TINY]
            step, leaves = min(steps)
            pivot = inverse[leaves] = [value / column[leaves] for value in inverse[leaves]]
            for r in range(size):
                if r != leaves and column[r]:
                    factor = column[r]
                    inverse[r] = [a - factor * b for a, b in zip(inverse[r], pivot)]
                    levels[r] -= factor * step
            levels[leaves] = step
            costs[leaves] = cost
        raise ValueError("the linear program does not end")


class Bound:
    """Of pods of these shapes: (CPU in thousandths, memory in MiB, kind of workload). A StatefulSet's run on demand alone."""

    def __init__(self, shapes, offers, spread=()):
        self.shapes = list(shapes)
        self.spread = set(spread)
        rows, self.parts = [], []
        for s, (cpu, mib, kind) in enumerate(self.shapes):
            zones = ZONES if kind in self.spread else (None,)
            self.parts += [(s, 1 / len(zones))] * len(zones)
            rows += [(cpu, mib, kind == "StatefulSet", zone) for zone in zones]
        offered = offers.bought(bool(self.spread))
        self.programs = []
        below = 0
        for most in CLASSES:
            own = [usd for *_, usd, _, vcpus in offered if below < vcpus <= most]
            if own:
                program = Program(rows, [one for one in offered if one[4] <= most])
                # Where some pods fit on larger nodes alone there is one of these.
                self.programs += [(min(own) if below else 0.0, program)] if program.carries_all() else []
            below = most

    def price(self, counts):
        """$/h at least of so many pods of each shape."""
        rows = [counts[s] * part for s, part in self.parts]
        best = float("inf")
        for least, program in self.programs:
            if least < best:
                best = min(best, max(least, program.price(rows)))
        return best
