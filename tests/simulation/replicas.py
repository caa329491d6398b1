"""INV-25: static pools have no more claims than they ask for."""

from collections import defaultdict

from rule import Rule

# Conditions of claims that stay until their successors stand; how long an earlier number of replicas may be all that is known.
MOVING, LATE = ("Drifted", "DisruptionReason"), 60


class Replicas(Rule):
    """Counts the claims of static pools whenever a replica creates one."""

    def __init__(self, world):
        super().__init__(world)
        self._asked, self._limits, self._moves = defaultdict(list), {}, set()

    def after(self, event):
        if event["kind"] == "rules" and event.get("resource") == "nodepools" and event.get("replicas") is not None:
            self._asked[event["name"]].append((event["t"], event["replicas"]))
            self._limits[event["name"]] = (event.get("limits") or {}).get("nodes")
        if event["kind"] != "api" or event.get("resource") != "nodeclaims" or not self._asked or event.get("code", 500) >= 300:
            return
        claim = self.world.claims.get(event.get("uid") or event.get("name"))
        if claim is None:
            return
        conditions = ((event.get("sent") or {}).get("status") or {}).get("conditions")
        if conditions is not None:
            moves = any(one.get("type") in MOVING and one.get("status") == "True" for one in conditions)
            (self._moves.add if moves else self._moves.discard)(claim.uid)
        if event["replica"] is not None and event["verb"] == "create" and not event.get("answerLost"):
            self._created(claim.pool, event["t"])

    def _created(self, pool, t):
        asked = self._asked.get(pool)
        if not asked:
            return
        before = max((at for at, (since, _) in enumerate(asked) if since <= t - LATE), default=0)
        most = max(replicas for _, replicas in asked[before:])
        living = [one for one in self.world.claims.values() if one.pool == pool and not one.gone and not one.lost]
        stay = sum(one.deleting is None and one.uid not in self._moves for one in living)
        if stay > most:
            self.world.violate("INV-25", t, f"static pool {pool} has {stay} claims that stay, and {most} replicas")
        if self._limits[pool] is not None and len(living) > int(self._limits[pool]):
            self.world.violate("INV-25", t, f"static pool {pool} has {len(living)} claims, its limit is {self._limits[pool]}")


REPLICAS = (Replicas,)
