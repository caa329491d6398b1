"""What the pods that are there cost at least where spot pools are finitely deep: no mix of nodes that carries them is cheaper.

A linear program over fillings of nodes, by column generation. A spot pool is an instance type in a zone, and has so many
instances at most; on-demand capacity has no bound. Two wishes can be kept to besides:

* `spread`: of each workload that rather has its zones alike, each zone carries a third of its pods, rounded down, or more.
* `choices` (three): a spot launch names so many instance types that each carry what it is for, and pays their mean. EC2 takes
  any of them. The launch takes a third of an instance of each of their pools.

The value is proven by the dual program and does not rest on the search for it: whatever the pods are said to be worth, scaled so
that no filling is worth more than its node and the dues of its pools, they are worth no more than any plan costs. So each
solution is also a bound for all other pods, and `price` takes the best that it knows.

A node of up to 16 vCPUs holds whole pods, of a larger one any part is filled as CPU and memory bound it, and nodes are bought in
fractions. Requests of CPU are multiples of 250m; memory is counted in 512 MiB, requests and room rounded down, which can only
make the bound lower. So can what is left out: how long an instance lives, interruptions and pools that are sold out after them,
volumes' zones, and the way from one mix to the next.
"""

import operator

from bound import TINY

CPU_UNIT, MIB_UNIT = 250, 512
# vCPUs: nodes of up to so many hold whole pods.
WHOLE = 16
# A solution this near to what is proven ends the search.
NEAR = 1e-3
MOST_PIVOTS = 4000
# Fillings of a group that are added at a time.
COLUMNS = 6


class Pool:
    """Nodes of one type, zone and capacity type; without depth as many as are asked for."""

    def __init__(self, name, zone, kind, usd, room, vcpus, depth=None):
        self.name, self.zone, self.kind, self.usd, self.depth = name, zone, kind, usd, depth
        self.small = vcpus <= WHOLE
        self.cell = (int(room[0] // CPU_UNIT), int(room[1] // MIB_UNIT))


def pools(offers, daemons, depths):
    """The pools of a region's offers, without the room that DaemonSets take on each node and without those that are empty."""
    found = []
    for (name, zone, kind), usd in sorted(offers.prices.items()):
        depth = depths.get(f"{name}/{zone}") if kind == "spot" else None
        room = tuple(have - take for have, take in zip(offers.room[name], daemons))
        if depth != 0:
            found.append(Pool(name, zone, kind, usd, room, offers.vcpus[name], depth))
    return found


class Rows:
    """Shapes of pods, (CPU in thousandths, memory in MiB, kind, workload), as rows: all pods of a shape; of those that are spread
    those of a zone."""

    def __init__(self, shapes, zones):
        self.shapes, self.zones = shapes, zones
        self.asks = [(cpu // CPU_UNIT, mib // MIB_UNIT) for cpu, mib, *_ in shapes]
        if any(cpu % CPU_UNIT or not cpu for cpu, *_ in shapes):
            raise ValueError(f"requests of CPU have to be multiples of {CPU_UNIT}m")
        self.fixed = [kind == "StatefulSet" for _, _, kind, _ in shapes]
        spread = [s for s, (_, _, kind, _) in enumerate(shapes) if kind == "Deployment" and zones]
        self.zoned = {(s, zone): len(shapes) + at for at, (s, zone) in enumerate((s, z) for s in spread for z in zones)}
        self.size = len(shapes) + len(self.zoned)

    def right(self, counts):
        """So many pods of each row at least."""
        return list(counts) + [counts[s] // len(self.zones) for s, _ in self.zoned]

    def worth(self, worth, zone):
        """The worth of a pod of each shape in a zone."""
        return [worth[s] + (worth[self.zoned[s, zone]] if (s, zone) in self.zoned else 0.0) for s in range(len(self.shapes))]

    def column(self, filling, zone):
        return [(s, x) for s, x in filling] + [(self.zoned[s, zone], x) for s, x in filling if (s, zone) in self.zoned]


class Group:
    """Nodes on which a pod is worth the same: those of a capacity type, and of a zone where zones matter."""

    def __init__(self, zone, members, asks, fits, choices):
        self.zone, self.members, self.asks, self.fits, self.choices = zone, members, asks, fits, choices
        self.cells = self._cells()
        small = [cell for cell, _, whole in self.cells if whole]
        self.most = tuple(max((cell[r] for cell in small), default=0) for r in (0, 1))

    def _cells(self):
        """(room, the pools that have it, whether it holds whole pods) of every choice of pools that is not part of another."""
        own = {(one.cell, one.small) for _, one in self.members}
        if self.choices > 1:
            wide = {(c, m) for (c, _), _ in own for (_, m), _ in own}
            own = {(cell, small) for cell in wide for small in (True, False)}
        found = {}
        for (c, m), small in own:
            # Whole pods on a node that may be small; parts only where every node is large.
            fit = [(p, one) for p, one in self.members if one.cell[0] >= c and one.cell[1] >= m and (small or not one.small)]
            if c <= 0 or m < 0 or len({one.name for _, one in fit}) < self.choices:
                continue
            if small and not any(one.small for _, one in fit):
                continue
            # As much room as all of them have.
            cell = tuple(min(one.cell[r] for _, one in fit) for r in (0, 1))
            found[cell, small] = {p for p, _ in fit}
        return [(cell, fit, small) for (cell, small), fit in sorted(found.items(), key=lambda one: one[0])]

    def cheapest(self, ordered, fit):
        """The lowest mean price of a choice of types, and their pools."""
        taken, names = [], []
        for usd, p, name in ordered:
            if p in fit and name not in names:
                taken.append((usd, p))
                names.append(name)
                if len(taken) == self.choices:
                    break
        return sum(usd for usd, _ in taken) / self.choices, [p for _, p in taken]

    def offers(self, worth, dues):
        """(worth over price, pools, cell, filling) of the best filling of each cell, and what finds the filling of a cell."""
        ordered = sorted((one.usd + dues.get(p, 0.0), p, one.name) for p, one in self.members)
        useful = [s for s in self.fits if worth[s] > TINY]
        useful.sort(key=lambda s: (self.asks[s], -worth[s]))
        useful = [
            s
            for at, s in enumerate(useful)
            if not any(self.asks[o][1] <= self.asks[s][1] and worth[o] >= worth[s] for o in useful[:at])
        ]
        table = self._table(worth, useful) if self.most[0] else None
        found = []
        for (c, m), fit, whole in self.cells:
            usd, taken = self.cheapest(ordered, fit)
            if whole:
                value, filling = table[c][m], None
            else:
                value, filling = self._parts(worth, useful, c, m)
            if value > 0:
                found.append((value / usd, taken, (c, m), filling))
        found.sort(key=lambda one: -one[0])
        return found, lambda cell, filling: filling if filling is not None else self._taken(table, worth, useful, *cell)

    def _table(self, worth, useful):
        """The most that whole pods are worth, by room."""
        wide = self.most[1] + 1
        table = [[0.0] * wide]
        for c in range(1, self.most[0] + 1):
            row = table[c - 1]
            for s in useful:
                cpu, mib = self.asks[s]
                if cpu <= c and mib < wide:
                    value = worth[s]
                    row = row[:mib] + list(map(max, row[mib:], [one + value for one in table[c - cpu][: wide - mib]]))
            table.append(row)
        return table

    def _taken(self, table, worth, useful, c, m):
        taken = {}
        while c > 0:
            for s in useful:
                cpu, mib = self.asks[s]
                if cpu <= c and mib <= m and abs(table[c - cpu][m - mib] + worth[s] - table[c][m]) < 1e-12:
                    taken[s] = taken.get(s, 0) + 1
                    c, m = c - cpu, m - mib
                    break
            else:
                c -= 1
        return list(taken.items())

    def _parts(self, worth, useful, c, m):
        """The most that parts of pods are worth in a room: of one shape or two, as CPU and memory bound it."""
        best = (0.0, [])
        for at, s in enumerate(useful):
            (cpu, mib) = self.asks[s]
            alone = min(c / cpu, m / mib if mib else float("inf"))
            best = max(best, (worth[s] * alone, [(s, alone)]))
            for o in useful[:at]:
                (other_cpu, other_mib) = self.asks[o]
                whole = cpu * other_mib - mib * other_cpu
                if abs(whole) < TINY:
                    continue
                x, y = (c * other_mib - m * other_cpu) / whole, (cpu * m - mib * c) / whole
                if x > 0 and y > 0:
                    best = max(best, (worth[s] * x + worth[o] * y, [(s, x), (o, y)]))
        return best


class Simplex:
    """Least cost of columns whose sum is at least `right`, from a basis of one column a row. New right sides and new rows are
    followed by the dual method, new columns by the primal one."""

    def __init__(self, first):
        size = len(first)
        self.columns = [(cost, {r: x}) for r, (cost, x) in enumerate(first)]
        self.basis = list(range(size))
        self.inverse = [[1 / first[r][1] if r == c else 0.0 for c in range(size)] for r in range(size)]

    def row(self, entry):
        """A further row, in which each column has what `entry` says of its number."""
        size = len(self.basis)
        for one, (_, entries) in enumerate(self.columns):
            value = entry(one)
            if value:
                entries[size] = value
        own = [self.columns[one][1].get(size, 0.0) if one >= 0 else 0.0 for one in self.basis]
        last = [sum(a * self.inverse[r][c] for r, a in enumerate(own) if a) for c in range(size)]
        self.inverse = [[*row, 0.0] for row in self.inverse] + [[*last, -1.0]]
        self.basis.append(-1 - size)

    def worth(self):
        size, total = len(self.basis), [0.0] * len(self.basis)
        for r, one in enumerate(self.basis):
            cost = self.columns[one][0] if one >= 0 else 0.0
            if cost:
                row = self.inverse[r]
                total = [total[c] + cost * row[c] for c in range(size)]
        return total

    def solve(self, right):
        """The worth of each row in the optimum over the columns that there are, and how much of the columns of the basis is taken."""
        # A little beside what is asked for keeps equal steps from going round in circles.
        right = [value + 1e-7 * (r + 1) for r, value in enumerate(right)]
        levels = [sum(a * b for a, b in zip(row, right)) for row in self.inverse]
        for _ in range(MOST_PIVOTS):
            leaves = min(range(len(levels)), key=lambda r: levels[r])
            if levels[leaves] >= -1e-9:
                break
            entering = self._dual(leaves)
            if entering is None:
                raise ValueError("no mix of nodes carries these pods")
            self._pivot(levels, leaves, *entering)
        for _ in range(MOST_PIVOTS):
            worth = self.worth()
            entering = self._primal(worth)
            if entering is None:
                return worth, levels
            one, column = entering
            steps = [(max(levels[r], 0.0) / value, r) for r, value in enumerate(column) if value > TINY]
            self._pivot(levels, min(steps)[1], one, column)
        raise ValueError("the linear program does not end")

    def _column(self, entries):
        items = list(entries.items())
        return [sum(row[c] * x for c, x in items) for row in self.inverse]

    def _of(self, one):
        return self._column(self.columns[one][1] if one >= 0 else {-1 - one: -1.0})

    def _primal(self, worth):
        surplus = min(range(len(worth)), key=lambda r: worth[r])
        if worth[surplus] < -1e-9 and -1 - surplus not in self.basis:
            return -1 - surplus, self._of(-1 - surplus)
        least, found = -1e-9, None
        for one, (cost, entries) in enumerate(self.columns):
            gain = cost
            for r, x in entries.items():
                gain -= worth[r] * x
            if gain < least * cost:
                least, found = gain / cost, one
        return None if found is None or found in self.basis else (found, self._of(found))

    def _dual(self, leaves):
        worth, row, basis = self.worth(), self.inverse[leaves], set(self.basis)
        best, found = float("inf"), None
        for one in range(-len(row), len(self.columns)):
            if one in basis:
                continue
            cost, entries = self.columns[one] if one >= 0 else (0.0, {-1 - one: -1.0})
            alpha = sum(row[r] * x for r, x in entries.items())
            if alpha < -TINY:
                ratio = max(cost - sum(worth[r] * x for r, x in entries.items()), 0.0) / -alpha
                if ratio < best:
                    best, found = ratio, one
        return None if found is None else (found, self._of(found))

    def _pivot(self, levels, leaves, one, column):
        step = levels[leaves] / column[leaves]
        pivot = self.inverse[leaves] = [value / column[leaves] for value in self.inverse[leaves]]
        for r, factor in enumerate(column):
            if r != leaves and factor:
                self.inverse[r] = [a - factor * b for a, b in zip(self.inverse[r], pivot)]
                levels[r] -= factor * step
        levels[leaves] = step
        self.basis[leaves] = one


class FiniteBound:
    """Of pods of these shapes, on these pools."""

    def __init__(self, shapes, all_of, spread=False, choices=1):
        zones = sorted({one.zone for one in all_of}) if spread else []
        self.rows, self.pools = Rows(shapes, zones), all_of
        self.groups = []
        for zone in zones or [None]:
            for kind, many in (("spot", choices), ("on-demand", 1)):
                members = [(p, one) for p, one in enumerate(all_of) if one.kind == kind and zone in (None, one.zone)]
                fits = [s for s, fixed in enumerate(self.rows.fixed) if kind == "on-demand" or not fixed]
                if members and fits:
                    self.groups.append(Group(zone, members, self.rows.asks, fits, many))
        self.simplex = Simplex(self._first())
        # The row of each pool that has one; the pools of each column, of which it takes equal parts; the columns that are known.
        self.depth_rows, self.uses, self.columns = {}, [()] * self.rows.size, set()
        # Proven: worth of a pod of each row, and dues of the pools in all.
        self.duals = []

    def _first(self):
        """On-demand nodes for each row, with which the search begins. A node of a row of a zone is counted for that row alone."""
        best = {}
        for s, ask in enumerate(self.rows.asks):
            for one in self.pools:
                many = min(one.cell[0] // ask[0], one.cell[1] // ask[1] if ask[1] else one.cell[0])
                if one.kind == "on-demand" and many:
                    for row in (s, self.rows.zoned.get((s, one.zone))):
                        if row is not None:
                            best[row] = min(best.get(row, (float("inf"), 1)), (one.usd / many, many))
        if len(best) < self.rows.size:
            raise ValueError("no on-demand node carries some of the pods")
        return [(best[r][0] * best[r][1], best[r][1]) for r in range(self.rows.size)]

    def known(self, counts):
        """$/h at least, by what has been proven so far."""
        right = self.rows.right(counts)
        return max((self._proven(dual, right) for dual in self.duals), default=0.0)

    @staticmethod
    def _proven(dual, right):
        return sum(map(operator.mul, dual[0], right)) - dual[1]

    def price(self, counts):
        """$/h at least of so many pods of each shape: proven, and as near as NEAR to the program's optimum."""
        if not any(counts):
            return 0.0
        counted, proven = self.rows.right(counts), []
        while True:
            right = counted + [-self.pools[p].depth for p in self.depth_rows]
            worth, levels = self.simplex.solve(right)
            if self._bound_overfull(levels):
                continue
            grown, dual = self._generate([max(w, 0.0) for w in worth])
            proven.append(dual)
            best = max(proven, key=lambda one: self._proven(one, counted))
            if not grown or self._proven(best, counted) >= sum(w * n for w, n in zip(worth, right)) * (1 - NEAR):
                self.duals.append(best)
                return self.known(counts)

    def _generate(self, worth):
        """Adds the fillings that gain most; tells whether there were any, and what is proven: the worth, scaled for none to gain."""
        dues = {p: worth[r] for p, r in self.depth_rows.items()}
        most, grown = 1.0, False
        for group in self.groups:
            offers, filling_of = group.offers(self.rows.worth(worth, group.zone), dues)
            most = max([most, *(ratio for ratio, *_ in offers[:1])])
            for _, taken, cell, filling in [one for one in offers[:COLUMNS] if one[0] > 1 + 1e-7]:
                grown |= self._add(group, taken, filling_of(cell, filling))
        due = sum(due * self.pools[p].depth for p, due in dues.items())
        return grown, ([w / most for w in worth[: self.rows.size]], due)

    def _add(self, group, taken, filling):
        key = group.zone, tuple(taken), tuple(filling)
        if key in self.columns:
            return False
        self.columns.add(key)
        entries = dict(self.rows.column(filling, group.zone))
        entries |= {self.depth_rows[p]: -1 / group.choices for p in taken if p in self.depth_rows}
        self.simplex.columns.append((sum(self.pools[p].usd for p in taken) / group.choices, entries))
        self.uses.append(tuple(taken))
        return True

    def _bound_overfull(self, levels):
        """Gives a row to each pool of which more is taken than there is; tells whether there were any."""
        taken = {}
        for one, level in zip(self.simplex.basis, levels):
            for p in self.uses[one] if one >= 0 else ():
                taken[p] = taken.get(p, 0.0) + level / len(self.uses[one])
        free = [p for p in taken if self.pools[p].depth is not None and p not in self.depth_rows]
        over = [p for p in free if taken[p] > self.pools[p].depth + 1e-6]
        for p in over:
            self.depth_rows[p] = len(self.simplex.basis)
            self.simplex.row(lambda one, p=p: -self.uses[one].count(p) / len(self.uses[one]) if self.uses[one] else 0.0)
        return bool(over)
