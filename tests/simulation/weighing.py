"""Launches of late, and pods that had no place at some time: kept so that a launch is weighed by what has changed
since the one before it, and not by looking at all instances and pods again."""

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate

import windows

RESOURCES = ("cpu", "memory", "pods")
# Amounts are summed as whole numbers of this part, Kubernetes' smallest: what is added is taken off again exactly.
PART = 10**9


def parts(amount):
    whole = int(amount)
    return whole * PART + round((amount - whole) * PART)


def asked(claim):
    return tuple(parts(claim.requests.get(resource, 0.0)) for resource in RESOURCES)


def taken(pod):
    """What a pod takes of its node, which is one pod besides."""
    return tuple(PART if resource == "pods" else parts(pod.requests.get(resource, 0.0)) for resource in RESOURCES)


class LaunchLog:
    """Which instances were launched within a span of time before each launch, and for which claims each is."""

    def __init__(self, world, span):
        self.world, self._span, self._ready = world, span, set()
        self._started, self._known, self._changed, self._current = [], set(), {}, {}
        self._by_token, self._launches = defaultdict(dict), []
        self.static = set()  # pools whose nodes come whatever pods wait
        self.buffers = False  # CapacityBuffers, for which nodes of all pools do

    def ready(self, id):
        """The node of an instance is Ready."""
        self._ready.add(id)
        if id in self.world.instances:
            self._changed[self.world.instances[id]] = None

    def claim(self, claim):
        for token in claim.tokens:
            self._changed.update(self._by_token[token])

    def step(self):
        """The operator may have done anything."""
        self._changed.update(dict.fromkeys(self._known))

    def instance(self, instance):
        if instance not in self._known:
            self._known.add(instance)
            heapq.heappush(self._started, (instance.started, instance.number, instance))
        if instance.ours:
            for token in (instance.token, _base(instance)):
                self._by_token[token][instance] = None
        self._changed[instance] = None

    def launched(self, t):
        while self._started and self._started[0][0] <= t - self._span:
            old = heapq.heappop(self._started)[2]
            self._known.discard(old)
            self._changed[old] = None
        changes = []
        for instance in self._changed:
            entry = self._entry(instance, t)
            if entry != self._current.get(instance):
                self._current[instance] = entry
                changes.append((instance, entry))
        self._changed = {}
        self._launches.append((t, changes))

    def _entry(self, instance, t):
        """The claims that it is for, and whether its node was Ready; none where it is on its way out, or was launched in vain."""
        if not instance.ours or instance.started <= t - self._span or instance.ended is not None or instance.interrupted is not None:
            return None
        claims = self.world.index.claims_with(instance.token, _base(instance))
        # Of a call for several claims each has its own instance; before that is written, any may be any's: the least that they ask for.
        own = [c for c in claims if c.instance == instance.id]
        claims = own or sorted((c for c in claims if c.instance is None), key=asked) or claims
        if claims and (self.buffers or all(c.pool in self.static for c in claims)):
            return None
        if all(c.lost or c.gone or c.deleting is not None for c in claims) or any(self._again(c, instance, t) for c in claims):
            return None
        return tuple(claims), instance.id in self._ready

    def _again(self, claim, instance, t):
        """Whether its claim had to be launched for once more: its next token came before it landed, or after a look at EC2
        that showed nothing."""
        own = claim.since.get(instance.token)
        later = [at for at in claim.since.values() if own is not None and own < at <= t]
        return any(at < instance.started or windows.touched(self.world.windows.blind, at - windows.LOOK, at) for at in later)

    def replayed(self):
        """Of each launch: when it was, what was launched lately and is not Ready, and all that was launched lately."""
        coming, recent = Launched(), Launched()
        for t, changes in self._launches:
            for instance, entry in changes:
                for launched in (coming, recent):
                    launched.without(instance)
                if entry is not None:
                    claims, ready = entry
                    recent.take(instance, claims)
                    if not ready:
                        coming.take(instance, claims)
            yield t, coming, recent


class Launched:
    """Instances, and what they are for together."""

    def __init__(self):
        self._claims, self._several = {}, 0
        self._sums, self._oldest = [0] * len(RESOURCES), []

    def take(self, instance, claims):
        self._claims[instance] = claims
        self._several += len(claims) > 1
        self._add(claims[0], 1)
        heapq.heappush(self._oldest, (claims[0].created, instance.number, instance))

    def without(self, instance):
        claims = self._claims.pop(instance, None)
        if claims is not None:
            self._several -= len(claims) > 1
            self._add(claims[0], -1)

    def _add(self, claim, sign):
        self._sums = [own + sign * amount for own, amount in zip(self._sums, asked(claim))]

    def weight(self):
        """What they ask for, how many they are, and when the oldest of their claims was made."""
        if self._several:
            return self._one_by_one()
        while self._oldest and not self._holds(self._oldest[0]):
            heapq.heappop(self._oldest)
        oldest = self._oldest[0][0] if self._oldest else math.inf
        return [own / PART for own in self._sums], len(self._claims), oldest

    def _holds(self, entry):
        created, _, instance = entry
        claims = self._claims.get(instance)
        return claims is not None and claims[0].created == created

    def _one_by_one(self):
        """Each for a claim that no other is for, where there is one."""
        sums, used, oldest = [0] * len(RESOURCES), set(), math.inf
        for instance in sorted(self._claims, key=lambda one: one.number):
            claims = self._claims[instance]
            claim = next((c for c in claims if c.uid not in used), claims[0])
            used.add(claim.uid)
            oldest = min(oldest, claim.created)
            sums = [own + amount for own, amount in zip(sums, asked(claim))]
        return [own / PART for own in sums], len(self._claims), oldest


class PodsWithoutPlace:
    """Which pods had no place at some time of a stretch, as sums of what they ask for."""

    def __init__(self, pods, needs, shortest):
        """`needs`: of each pod, by uid, when it had no place; no stretch is shorter than `shortest`."""
        daemons, sets, every = {}, defaultdict(list), []
        for uid, pod in pods.items():
            owner = pod.owner or ""
            if owner.startswith("DaemonSet/"):
                daemons[pod.namespace, owner] = taken(pod)
                continue
            one = (taken(pod), _joined(needs[uid], shortest))
            every.append(one)
            if owner.startswith("StatefulSet/"):
                sets[pod.namespace, owner].append(one)
        self._daemons = [sum(amounts) for amounts in zip(*daemons.values())] or [0] * len(RESOURCES)
        self._every, self._sets = Stretches(every), {key: Stretches(own) for key, own in sets.items()}

    def need(self, begin, t, nodes, to_come):
        """With a pod of each DaemonSet a node, and with what is to come of StatefulSets."""
        need = [own + nodes * daemons for own, daemons in zip(self._every.sums(begin, t)[0], self._daemons)]
        for key, own in self._sets.items():
            count = own.sums(begin, t)[1]
            if count:
                times, first = to_come(key, count), own.first(begin, t)
                need = [own + times * amount for own, amount in zip(need, first)]
        return [amount / PART for amount in need]

    def largest(self, begin, t):
        return [amount / PART for amount in self._every.largest(begin, t)]


class Stretches:
    """Pods, each with the times at which it had no place."""

    def __init__(self, pods):
        self._pods = pods
        single = [(amounts, times[0]) for amounts, times in pods if len(times) == 1]
        self._several = [(amounts, times) for amounts, times in pods if len(times) > 1]
        self._alike = len({amounts for amounts, _ in pods}) == 1
        self._begun, self._over = _sorted((first, amounts) for amounts, (first, _) in single), _sorted((last, amounts) for amounts, (_, last) in single)

    def sums(self, begin, t):
        """The sums over pods that had no place between two moments, and how many they are."""
        # Whose time was over by the beginning had begun by the end.
        begun, over = (_up_to(self._begun, t), _up_to(self._over, begin))
        sums, count = [a - b for a, b in zip(begun[0], over[0])], begun[1] - over[1]
        for amounts, times in self._several:
            if _touches(times, begin, t):
                sums, count = [own + amount for own, amount in zip(sums, amounts)], count + 1
        return sums, count

    def first(self, begin, t):
        """What the first of them asks for."""
        if self._alike:
            return self._pods[0][0]
        return next(amounts for amounts, times in self._pods if _touches(times, begin, t))

    def largest(self, begin, t):
        return [max(amounts) for amounts in zip(*(amounts for amounts, times in self._pods if _touches(times, begin, t)))] or [0] * len(RESOURCES)


def _base(instance):
    return instance.token.rsplit("-", 1)[0]


def _joined(times, shortest):
    """Times without the gaps in which no stretch has room; what has no end lasts for ever."""
    joined = []
    for first, last in times:
        if joined and first - joined[-1][1] < shortest:
            joined[-1][1] = math.inf if last is None else max(last, joined[-1][1])
        else:
            joined.append([first, math.inf if last is None else last])
    return joined


def _touches(times, begin, t):
    return any(first <= t and last > begin for first, last in times)


def _sorted(moments):
    """Moments in order, and of each the sums up to it."""
    moments = sorted(moments)
    none = (0,) * len(RESOURCES)
    sums = accumulate((amounts for _, amounts in moments), lambda a, b: tuple(map(sum, zip(a, b))), initial=none)
    return [moment for moment, _ in moments], list(sums)


def _up_to(ordered, t):
    """The sums up to a moment and with it, and how many moments that are."""
    moments, sums = ordered
    count = bisect_right(moments, t)
    return sums[count], count
