"""The rules between pods: topology spread, pod affinity, pod anti-affinity, and zones that have to be pinned.

A claim's domain for a key is the set of values its nodes may have over every option and offering. A rule that holds for
all of them holds; one that breaks only because the claim is open is PL-26, one that breaks anyhow PL-23, PL-24 or PL-25.
"""

import json

from catalogue import HOST
from pods import selects, with_label_keys
from requirements import Req, norm, possibly, surely


class Placed:
    """One claim as the rules between pods see it."""

    def __init__(self, index, name, shape, counts):
        self.index, self.name, self.shape, self.counts = index, name, shape, counts
        self.taints, self.admits = shape.view.pool.taints, shape.admits

    def domains(self, key):
        """Every value the key may have; None stands for a node without it."""
        if key == HOST:
            return frozenset([self.index])
        values = self.shape.domains(key)
        return (values - {None}) | {("any", self.index)} if "*" in values else values

    def count(self, classes):
        """How many of its pods are of these classes."""
        return sum(n for c, n in self.counts.items() if c in classes)


class Topology:
    """Checks the rules between pods for one plan; `order` accepts spread that some order of binding satisfies. `holds`: whether
    nodes of a type hold a pod of a class in a pool, beside the DaemonSets there."""

    def __init__(self, report, catalogue, workload, classes, placed, order=False, holds=lambda cls, pool, kind: True):
        self.holds = holds
        self.report, self.catalogue, self.classes, self.placed, self.order = report, catalogue, classes, placed, order
        self.namespaces = {c.namespace: {"kubernetes.io/metadata.name": c.namespace} for c in classes}
        for raw in workload.get("namespaces") or ():
            self.namespaces.setdefault(raw["name"], {"kubernetes.io/metadata.name": raw["name"]}).update(raw.get("labels") or {})
        self._universe, self._chosen, self._watched, self._at = {}, {}, {}, {p.index: p for p in placed}

    def check(self):
        for group in self._spread_groups():
            self._spread(*group)
        self._affinity()
        for group in self._anti_groups():
            self._anti(*group)

    def bound_to_others(self, cls):
        """Whether a fresh node may not do for a pod of this class, because of other pods."""
        mine = [r["topologyKey"] for r in (*cls.spread, *cls.anti)]
        away = (self._term(raw, other) for other in self.classes for raw in other.anti if norm(raw["topologyKey"]) != HOST)
        return bool(cls.affinity) or any(norm(k) != HOST for k in mine) or any(self._term_selects(t, cls) for t in away)

    def entangled(self, cls):
        """Whether any rule between pods concerns a pod of this class, its own or another's, so that not every node may do."""
        away = (self._term(raw, other) for other in self.classes for raw in other.anti)
        return bool(cls.affinity or cls.spread or cls.anti) or any(self._term_selects(t, cls) for t in away)

    # What if a pod stood elsewhere

    def breaks(self, cls, to, gone=()):
        """Whether one more pod of a class there breaks in the final state what another pod states; `gone`: [(place, class, pods)] that leave."""
        classes = {cls, *(other for _, other, _ in gone)}
        if not any(any(self._watching(c)) for c in classes):
            return False
        places = [self._at[p.index] for p in (to, *(place for place, _, _ in gone))]
        kept = [(p, dict(p.counts)) for p in places]
        before = self._stated(classes, places)
        to.counts[cls] = to.counts.get(cls, 0) + 1
        for place, other, count in gone:
            place.counts[other] -= count
        after = self._stated(classes, places)
        for place, counts in kept:
            place.counts.clear()
            place.counts.update(counts)
        return not after <= before

    def _watching(self, cls):
        """(the spread that selects a class, whether any pod's affinity does)."""
        if cls not in self._watched:
            spread = [g for g in self._spread_groups() if cls.namespace == g[5][0].namespace and selects(g[1], cls.labels)]
            affine = any(all(self._term_selects(self._term(t, other), cls) for t in other.affinity) for other in self.classes if other.affinity)
            self._watched[cls] = spread, affine
        return self._watched[cls]

    def _stated(self, classes, places):
        """What the spread and the affinity that select one of these classes find; a rule over hosts is asked of these places only."""
        report, order, placed = self.report, self.order, self.placed
        self.report, self.order = type(report)(), False
        for group in (g for cls in classes for g in self._watching(cls)[0]):
            self.placed = places if norm(group[0]["topologyKey"]) == HOST else placed
            self._spread(*group)
        self.order, self.placed = order, placed
        if any(self._watching(cls)[1] for cls in classes):
            self._affinity()
        found, self.report = set(self.report.violations), report
        return found

    # Topology spread

    def _spread_groups(self):
        groups = {}
        for cls in self.classes:
            keys = frozenset(norm(raw["topologyKey"]) for raw in cls.spread)
            for raw in cls.spread:
                selector = with_label_keys(raw.get("labelSelector"), raw.get("matchLabelKeys"), None, cls.labels)
                honor = raw.get("nodeAffinityPolicy", "Honor") == "Honor"
                taints = cls.tolerations if raw.get("nodeTaintsPolicy", "Ignore") == "Honor" else None
                key = json.dumps([cls.namespace, norm(raw["topologyKey"]), raw["maxSkew"], raw.get("minDomains"), selector,
                                  honor, cls.filter.key, taints, sorted(keys)], sort_keys=True)
                groups.setdefault(key, (raw, selector, honor, taints is not None, keys, []))[5].append(cls)
        return list(groups.values())

    def _spread(self, raw, selector, honor, honor_taints, keys, owners):
        key, skew = norm(raw["topologyKey"]), raw["maxSkew"]
        matching = {c for c in self.classes if c.namespace == owners[0].namespace and selects(selector, c.labels)}
        mine = set(owners)
        held = mine & matching if self.order else matching
        if key == HOST:
            for claim in self.placed:
                self.report.checked()
                if claim.count(mine) and claim.count(held) > skew:
                    self.report.add("PL-23", claim.name, f"{claim.count(held)} pods that {_text(selector)} selects on one "
                                    f"node, maxSkew {skew} over {key}")
            return
        low, high, total, hosts, open_claims = {}, {}, {}, set(), set()
        domains = set().union(*(self._reachable(c, key) for c in owners))
        for claim in self.placed:
            sure, maybe = self._eligible(claim, owners[0], honor, honor_taints)
            values, owned = claim.domains(key), claim.count(mine)
            if owned and None in values:
                self.report.add("PL-23", claim.name, f"a node may lack {key}, over which its pods are spread")
            # A node that lacks one of a pod's keys takes part in none of its constraints.
            if not maybe or any(claim.domains(k) == {None} for k in keys):
                continue
            count, held_count = claim.count(matching), claim.count(held)
            values = values - {None}
            pinned = len(values) == 1 and sure
            if (count or owned) and not pinned:
                open_claims.add(claim.name)
            for value in values:
                if pinned:
                    low[value] = low.get(value, 0) + held_count
                    total[value] = total.get(value, 0) + count
                high[value] = high.get(value, 0) + held_count
                if owned:
                    hosts.add(value)
            if pinned:
                domains |= values
        few = raw.get("minDomains") and len(domains) < raw["minDomains"]
        least = 0 if few else min((total.get(d, 0) for d in domains), default=0)
        for value in sorted(hosts, key=str):
            self.report.checked()
            text = f"maxSkew {skew} over {key} for pods {_text(selector)}: {value} against a least of {least}"
            if low.get(value, 0) - least > skew and not open_claims:
                self.report.add("PL-23", value, f"{low[value]} {text}" + (" (fewer domains than minDomains)" if few else ""))
            elif high.get(value, 0) - least > skew:
                rule = "PL-26" if open_claims else "PL-23"
                self.report.add(rule, _some(open_claims), f"open {key}: up to {high[value]}, {text}")

    @staticmethod
    def _eligible(claim, owner, honor, honor_taints):
        """(surely, possibly): whether the nodes of a claim take part in the spread of an owner's class."""
        if honor_taints and owner.tolerates(claim.taints):
            return False, False
        return claim.admits(owner.filter) if honor else (True, True)

    def _reachable(self, cls, key):
        """The domains in which some pool could make a node for a pod of this class."""
        memo = (cls.filter.key, json.dumps(cls.tolerations), tuple(sorted(cls.requests.items())), str(cls.ports), key)
        if memo not in self._universe:
            out = set()
            for pool in self.catalogue.pools.values():
                if cls.tolerates(pool.taints):
                    continue
                view = self.catalogue.view(pool, {})
                for kind in (k for k in self.catalogue.types.values() if self.holds(cls, pool, k)):
                    for offering in view.nodes(kind):
                        state = view.state(key, offering.labels)
                        if state is None or state.comp or state.vals <= out or not cls.filter.holds(view, offering, possibly):
                            continue
                        out |= {v for v in state.vals if _allows(cls.filter, key, v)}
            self._universe[memo] = frozenset(out)
        return self._universe[memo]

    # Pod affinity: least fixed point of "may be bound now", with one bootstrap a group as kube-scheduler has it

    def _affinity(self):
        groups, free = self._affinity_groups()
        if not groups:
            return
        stuck_sure = self._unplaced(groups, free, certain=True)
        stuck_maybe = {(cls.index, claim.index) for _, cls, claim in self._unplaced(groups, free, certain=False)}
        for (keys, _), cls, claim in stuck_sure:
            if (cls.index, claim.index) in stuck_maybe:
                self.report.add("PL-24", claim.name, f"no pod that its required pod affinity asks for over {', '.join(keys)}")
            else:
                self.report.add("PL-26", claim.name, f"open {', '.join(keys)}: pod affinity holds only for some of its nodes")

    def _affinity_groups(self):
        groups, free = {}, []
        for cls in self.classes:
            items = [(cls, p) for p in self.placed if p.counts.get(cls)]
            self.report.checked(len(items) if cls.affinity else 0)
            if not cls.affinity:
                free += items
                continue
            terms = [self._term(t, cls) for t in cls.affinity]
            matching = frozenset.intersection(*map(self._selected, terms))
            keys = tuple(sorted({t[0] for t in terms}))
            groups.setdefault((keys, matching), []).extend(items)
        return groups, free

    def _unplaced(self, groups, free, certain):
        """What no order of binding places: with the free pods first, or, if any order will do, with pods that select themselves first."""
        stuck = self._bind(groups, free, certain, ())
        if not stuck or not self.order:
            return stuck
        early = {}
        for g, cls, claim in stuck:
            early.setdefault(g, []).append((cls, claim))
        return self._bind(groups, free, certain, [(g, _best_bootstrap(g, items, certain)) for g, items in early.items()])

    def _bind(self, groups, free, certain, early):
        seeds = {g: {k: set() for k in g[0]} for g in groups}
        watching = {}
        for g in groups:
            for cls in g[1]:
                watching.setdefault(cls, []).append(g)

        def place(cls, claim):
            for g in watching.get(cls, ()):
                for key in g[0]:
                    seeds[g][key] |= _tokens(claim, key, certain)

        for cls, claim in (f for f in free if f[0].standing):
            place(cls, claim)
        for g, first in early:
            if first and not any(seeds[g].values()):
                place(*first)
        for cls, claim in (f for f in free if not f[0].standing):
            place(cls, claim)
        waiting = {g: list(items) for g, items in groups.items()}
        while True:
            moved = False
            for g, items in waiting.items():
                rest = []
                for cls, claim in items:
                    if all(seeds[g][k] & _tokens(claim, k, certain) for k in g[0]):
                        place(cls, claim)
                        moved = True
                    else:
                        rest.append((cls, claim))
                waiting[g] = rest
            if moved:
                continue
            for g, items in waiting.items():
                if not any(seeds[g].values()):
                    first = _best_bootstrap(g, items, certain)
                    if first:
                        place(*first)
                        moved = True
                        break
            if not moved:
                return [(g, cls, claim) for g, items in waiting.items() for cls, claim in items]

    # Pod anti-affinity, which kube-scheduler holds in both directions

    def _anti_groups(self):
        groups = {}
        for cls in self.classes:
            for raw in cls.anti:
                term = self._term(raw, cls)
                groups.setdefault(json.dumps([term[0], sorted(term[1]), term[2]], sort_keys=True), (term, set()))[1].add(cls)
        return list(groups.values())

    def _anti(self, term, owners):
        key = term[0]
        matching = self._selected(term)
        both = owners & matching
        rows = []
        for claim in self.placed:
            row = tuple(claim.count(c) for c in (owners, matching, both))
            row += tuple(claim.count({c for c in classes if c.standing}) for classes in (owners, matching, both))
            if not (row[0] or row[1]):
                continue
            self.report.checked()
            values = claim.domains(key) - {None}
            if values:
                rows.append((claim, row, values))
            if values and _pairs(row) > 0:
                self.report.add("PL-25", claim.name, f"{row[0]} pods with required anti-affinity over {key} and {row[1]} "
                                f"pods it keeps away on one node")
        if key == HOST:
            return
        by_value = {}
        for claim, row, values in rows:
            for value in values:
                by_value.setdefault(value, []).append((claim, row, len(values) == 1))
        for value, found in sorted(by_value.items(), key=lambda kv: str(kv[0])):
            for rule, members in (("PL-25", [f for f in found if f[2]]), ("PL-26", found)):
                sums = [sum(f[1][i] for f in members) for i in range(6)]
                if _pairs(sums) > sum(_pairs(f[1]) for f in members):
                    names = _some({f[0].name for f in members})
                    self.report.add(rule, names, f"required anti-affinity over {key}: {sums[0]} pods and {sums[1]} they keep "
                                    f"away " + (f"in {value}" if rule == "PL-25" else f"may meet in {value}: not pinned apart"))
                    break

    def _term(self, raw, cls):
        """(key, namespaces, selector) of an affinity term, for a pod of this class."""
        selector = with_label_keys(raw.get("labelSelector"), raw.get("matchLabelKeys"), raw.get("mismatchLabelKeys"), cls.labels)
        listed, chosen = set(raw.get("namespaces") or ()), raw.get("namespaceSelector")
        if chosen is not None:
            listed |= {n for n, labels in self.namespaces.items() if selects(chosen, labels)}
        elif not listed:
            listed = {cls.namespace}
        return norm(raw["topologyKey"]), frozenset(listed), selector

    def _selected(self, term):
        """The classes a term selects."""
        key = (term[1], _text(term[2]))
        if key not in self._chosen:
            self._chosen[key] = frozenset(c for c in self.classes if self._term_selects(term, c))
        return self._chosen[key]

    @staticmethod
    def _term_selects(term, cls):
        return cls.namespace in term[1] and selects(term[2], cls.labels)


def _pairs(row):
    """Pods that meet one they keep away, less those that met before: of what stands already no plan is to blame."""
    return row[0] * row[1] - row[2] - (row[3] * row[4] - row[5])


def _tokens(claim, key, certain):
    """What a claim shares with others over a key: itself, and its domain if that is sure (or may be, if not `certain`)."""
    values = claim.domains(key)
    if None in values and (certain or len(values) == 1):
        return set()
    own = {("claim", claim.index)}
    if certain and len(values) != 1:
        return own
    return own | {("value", v) for v in values}


def _best_bootstrap(group, items, certain):
    """The waiting item of a class that selects itself whose domain holds the most of the group's pods."""
    weight = {}
    for cls, claim in items:
        for token in set().union(*(_tokens(claim, k, certain) for k in group[0])):
            weight[token] = weight.get(token, 0) + claim.counts[cls]
    able = [(cls, claim) for cls, claim in items if cls in group[1] and all(_tokens(claim, k, certain) for k in group[0])]
    return max(able, key=lambda i: max(weight[t] for k in group[0] for t in _tokens(i[1], k, certain)), default=None)


def _allows(node_filter, key, value):
    one = Req(False, [value])
    return any(all(surely(op, values, one) for k, op, values in term if k == key) for term in node_filter.terms)


def _text(selector):
    return json.dumps(selector, sort_keys=True)


def _some(names):
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
