"""What lives without a claim, how long it may, and how much of it is ended."""

import windows
from rule import Owners, Rule

# Seconds: an instance is left alone for so long; two looks show it, two minutes apart, and one may fail; replicas have
# to hear of what changes, to ask EC2, and to ask again where it errs.
GRACE, LOOKS, SLACK = 120, 3 * 120, 60
# The window of the bound.
WINDOW = 600


class Orphans(Rule):
    """INV-3 while it runs (the end is looked at apart): an instance without a claim is ended after its grace and two
    sightings, under one term and with nothing in the way. INV-6: nothing that is not ours is ended. INV-13: no more is
    ended than the bound allows, and nothing before it has been without a claim for the grace."""

    def __init__(self, world):
        super().__init__(world)
        self.owners, self.since, self.ended = Owners(world), {}, {}
        self._launcher, self._collected = {}, []

    def after(self, event):
        kind, t = event["kind"], event["t"]
        if kind == "api" and event.get("resource") == "nodeclaims" and event.get("code", 500) < 300:
            for id in sorted(self.owners.heard(event)):
                if id in self.world.instances:
                    self._look(self.world.instances[id], t)
        elif kind == "instance":
            self._look(self.world.instances[event["id"]], t)
        elif kind == "story" and event.get("event") == "collection_braked" and self._plausible(event.get("reason"), t):
            self.world.windows.brake(t)
        elif kind == "aws" and event.get("action") == "CreateFleet":
            for id in (event.get("result") or {}).get("instances") or []:
                self._launcher[id] = event["replica"]
        elif kind == "aws" and event.get("action") == "TerminateInstances" and event.get("code") == "OK":
            for id in (event.get("result") or {}).get("instances") or []:
                if event["replica"] is not None and id in self.world.instances:
                    self._terminated(self.world.instances[id], event)

    def _look(self, instance, t):
        if not instance.ours:
            return
        orphan = not self.owners.of(instance)
        if instance.ended is not None:
            if instance.id in self.since:
                self._judge(instance, instance.ended)
                self.ended[instance.id] = self.since.pop(instance.id)
        elif orphan and instance.id not in self.since:
            self.since[instance.id] = t
        elif not orphan and instance.id in self.since:
            self._judge(instance, t)
            del self.since[instance.id]

    def _judge(self, instance, until):
        lived = self.world.windows.undisturbed(self.since[instance.id], until, self.world.terms)
        if lived > LOOKS + SLACK:
            what = f"instance {instance.id} had no claim from {self.since[instance.id]} on, for {lived:.0f} s with nothing in the way"
            self.world.violate("INV-3", until, what)

    def _plausible(self, reason, t):
        """Whether the log bears out why the collection stands still."""
        world = self.world
        if reason == "no_instances":
            return windows.touched(world.windows.blind, t - 180, t) or not any(i.ours and i.ended is None for i in world.instances.values())
        if reason in ("claims_lost", "held"):
            return bool(world.windows.lost) or all(c.gone for c in world.claims.values())
        recent = sum(t - at < WINDOW for at in self._collected)
        return reason == "over_bound" and len(self.since) + recent > 5

    def _terminated(self, instance, event):
        t, world = event["t"], self.world
        left = any(c.left and (c.deleting is not None or c.gone) for c in world.index.claims_of(instance.id))
        if not instance.ours and not left:
            world.violate("INV-6", t, f"replica {event['replica']} ended {instance.id}, which no launch of ours made")
        if instance.ended != t or instance.id not in self.ended or windows.within(world.windows.allowed, t):
            return
        alone = t - self.ended[instance.id]
        if alone < GRACE:
            # Who launched it may end it at once, when its claim went meanwhile.
            if self._launcher.get(instance.id) != event["replica"]:
                world.violate("INV-13", t, f"{instance.id} was ended when it had been without a claim for {alone:.0f} s")
            return
        self._collected = [at for at in self._collected if t - at < WINDOW] + [t]
        most = max(5, -(-(world.index.alive + len(self._collected)) // 20))
        if len(self._collected) > most:
            world.violate("INV-13", t, f"{len(self._collected)} instances without a claim were ended in ten minutes, {most} may be")


COLLECTING = (Orphans,)
