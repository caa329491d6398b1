"""INV-24: nothing is launched into a capacity reservation that all its instances live in."""

from collections import defaultdict

from rule import Rule


class Reserved(Rule):
    """Counts the instances that live in each reservation."""

    def __init__(self, world):
        super().__init__(world)
        self._counts, self._alive = {}, defaultdict(set)

    def after(self, event):
        if event["kind"] == "start":
            self._counts = event.get("capacityReservations") or {}
        elif event["kind"] == "step" and event["action"]["type"] == "resizeReserved":
            # Whoever makes it smaller may leave more in it than it has.
            self._counts[event["action"]["id"]] = event["action"]["count"]
        elif event["kind"] == "instance" and event.get("reservation"):
            self._changed(event, event["reservation"])

    def _changed(self, event, reservation):
        alive, has = self._alive[reservation], self._counts.get(reservation, 0)
        if event["change"] in ("pending", "running") and event["id"] not in alive:
            alive.add(event["id"])
        elif event["change"] in ("shutting-down", "terminated"):
            alive.discard(event["id"])
        else:
            return
        if len(alive) > has:
            self.world.violate("INV-24", event["t"], f"{len(alive)} instances live in {reservation}, which has {has}")


RESERVED = (Reserved,)
