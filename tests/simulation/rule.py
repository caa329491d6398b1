"""What rules have in common: each hears every event before and after the world has taken it in, and the end."""

from collections import defaultdict


class Rule:
    """A rule over a world; overridden where it listens."""

    def __init__(self, world):
        self.world = world

    def before(self, event):
        """The world is as it was."""

    def after(self, event):
        """The world has changed."""

    def close(self):
        """The log has ended."""


class Owners:
    """Who owns an instance: a claim that has it as providerID, or whose token it has while the claim has none."""

    def __init__(self, world):
        self.world, self._by_instance, self._by_token = world, defaultdict(set), defaultdict(set)

    def heard(self, event):
        """Instances whose owner may have changed with a write to a NodeClaim; to be asked after the world took it in."""
        claim = self.world.claims.get(event.get("uid") or event["name"])
        if claim is None:
            return set()
        if claim.provider_id:
            self._by_instance[claim.instance].add(claim)
        for token in claim.tokens:
            self._by_token[token].add(claim)
        return {claim.instance} - {None} | {i.id for i in self.world.index.instances_with(claim.tokens)}

    def of(self, instance):
        """The claims that own it."""
        own = [c for c in self._by_instance[instance.id] if not c.gone and c.instance == instance.id]
        waiting = [c for c in self._by_token[instance.token] if not c.gone and c.provider_id is None and c.token == instance.token]
        return own + waiting

    def ever(self, instance):
        """The claims that had it, or its token, at any time."""
        return self._by_instance[instance.id] | self._by_token[instance.token]
