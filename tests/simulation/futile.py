"""INV-23: launches that come to nothing have a bound, whatever the cause.

An instance comes to nothing when it ends, without a warning of the cloud's, before its claim was initialized. Once ten of a pool have
within an hour, no more than eight an hour may be launched for claims that replicas make from half a minute later on, under one term and
until a claim of the pool is initialized.
"""

from collections import defaultdict

from rule import Rule

FREE, TRIALS, HOUR, UNDER_WAY = 10, 8, 3600, 30


class Futile(Rule):
    """Counts, of each pool, what was launched after too much had come to nothing."""

    def __init__(self, world):
        super().__init__(world)
        self._term, self._of = 0, {}  # _of: launch token to claim's uid
        self._ready, self._seen, self._braked = set(), set(), set()
        self._lost, self._trials = defaultdict(list), defaultdict(list)

    def after(self, event):
        if (event["term"] or 0) > self._term:
            self._term = event["term"]
            self._lost.clear(), self._trials.clear(), self._braked.clear()
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
            self._of[claim.token] = claim.uid
        conditions = ((event.get("sent") or {}).get("status") or {}).get("conditions") or []
        if claim.uid not in self._ready and any(c["type"] == "Initialized" and c["status"] == "True" for c in conditions):
            self._ready.add(claim.uid)
            self._lost.pop(claim.pool, None), self._trials.pop(claim.pool, None)
        if event["replica"] is not None and event["verb"] == "create":
            lost = [t for t in self._lost[claim.pool] if event["t"] - t < HOUR]
            if len(lost) >= FREE and lost[FREE - 1] + UNDER_WAY <= event["t"]:
                self._braked.add(claim.uid)

    def _launched(self, instance, t):
        uid = self._of.get(instance.token)
        if uid not in self._braked:
            return
        pool = self.world.claims[uid].pool
        self._trials[pool] = [at for at in self._trials[pool] if t - at < HOUR] + [t]
        if len(self._trials[pool]) > TRIALS:
            self.world.violate("INV-23", t, f"{len(self._trials[pool])} instances of pool {pool} within an hour after {FREE} came to nothing")

    def _ended(self, instance, t):
        uid = self._of.get(instance.token)
        if uid is not None and uid not in self._ready and instance.interrupted is None:
            self._lost[self.world.claims[uid].pool].append(t)


FUTILE = (Futile,)
