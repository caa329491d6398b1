"""INV-23: launches that come to nothing have a bound, whatever the cause.

An instance comes to nothing when it ends, without a warning of the cloud's, before its claim was initialized. Once ten of a pool have
within an hour, no more than eight an hour may be launched for claims that replicas make from half a minute later on, under one term and
until a claim of the pool is initialized. Once thirty have of all pools together, the same holds of all pools of which no claim was
initialized within the hour.
"""

from collections import defaultdict

from rule import Rule

FREE, FREE_IN_ALL, TRIALS, HOUR, UNDER_WAY = 10, 30, 8, 3600, 30
# A node counts as used a minute and a half after it got ready, and is known to be ready a little later than it is.
PROVEN = HOUR + 300
# Losses of a pool so soon after a claim of it was initialized do not count: they are forgotten when its node counts as used.
FORGOTTEN = 120


class Futile(Rule):
    """Counts, of each pool, what was launched after too much had come to nothing."""

    def __init__(self, world):
        super().__init__(world)
        self._term, self._of, self._count = 0, defaultdict(dict), defaultdict(int)  # _of: launch token to claims' uids, in order
        self._ready, self._seen, self._proven = set(), set(), {}  # _proven: pool to when a claim of it was initialized
        self._lost, self._trials, self._braked = defaultdict(list), defaultdict(list), set()
        self._trials_in_all, self._braked_in_all = defaultdict(list), set()

    def after(self, event):
        if (event["term"] or 0) > self._term:
            self._term = event["term"]
            for known in (self._lost, self._trials, self._trials_in_all, self._braked, self._braked_in_all):
                known.clear()
        if event["kind"] == "api" and event.get("resource") == "nodeclaims" and event.get("code", 500) < 300:
            self._claim(event)
        elif event["kind"] == "instance" and event["change"] == "shutting-down":
            self._ended(self.world.instances[event["id"]], event["t"])
        elif event["kind"] == "instance" and event["id"] not in self._seen:
            self._seen.add(event["id"])
            self._launched(self.world.instances[event["id"]], event["t"])

    def _claim(self, event):
        claim = self.world.claims.get(event.get("uid") or event["name"])
        if claim is None or event.get("claim") is None:
            return
        if claim.token:
            self._of[claim.token][claim.uid] = None
        conditions = ((event.get("sent") or {}).get("status") or {}).get("conditions") or []
        if claim.uid not in self._ready and any(c["type"] == "Initialized" and c["status"] == "True" for c in conditions):
            self._ready.add(claim.uid)
            self._proven[claim.pool] = event["t"]
            for known in (self._lost, self._trials, self._trials_in_all):
                known.pop(claim.pool, None)
        if event["replica"] is not None and event["verb"] == "create":
            self._made(claim, event["t"])

    def _made(self, claim, t):
        def reached(lost, free):
            lost = sorted(at for at in lost if t - at < HOUR)
            return len(lost) >= free and lost[free - 1] + UNDER_WAY <= t

        if reached(self._lost[claim.pool], FREE):
            self._braked.add(claim.uid)
        proven = claim.pool in self._proven and t - self._proven[claim.pool] < PROVEN
        if not proven and reached([at for lost in self._lost.values() for at in lost], FREE_IN_ALL):
            self._braked_in_all.add(claim.uid)

    def _launched(self, instance, t):
        uids = self._of.get(instance.token)
        if not uids:
            return
        pool = self.world.claims[min(uids)].pool
        self._count[instance.token] += 1
        # Any of the instances of a call for several may be for any of its claims: first for those that were made before.
        if self._count[instance.token] > len(uids.keys() - self._braked):
            self._trials[pool].append(t)
            self._judge(t, self._trials[pool], f"of pool {pool}", FREE)
        if self._count[instance.token] > len(uids.keys() - self._braked_in_all):
            self._trials_in_all[pool].append(t)
            self._judge(t, [at for trials in self._trials_in_all.values() for at in trials], "of all pools", FREE_IN_ALL)

    def _judge(self, t, trials, whose, free):
        count = sum(t - at < HOUR for at in trials)
        if count > TRIALS:
            self.world.violate("INV-23", t, f"{count} instances {whose} within an hour after {free} came to nothing")

    def _ended(self, instance, t):
        of = self.world.index.claims_of(instance.id)
        uid = of[0].uid if of else min(self._of.get(instance.token) or [None])
        if uid is None or uid in self._ready or instance.interrupted is not None:
            return
        pool = self.world.claims[uid].pool
        if t - self._proven.get(pool, -FORGOTTEN) >= FORGOTTEN:
            self._lost[pool].append(t)


FUTILE = (Futile,)
