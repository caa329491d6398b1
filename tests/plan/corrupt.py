"""A valid plan with the handles that corruptions need, and the list of all corruptions."""

import copy

from samples import CT, ZONE, Node, bill, total

CASES = []


class Case:
    """A workload and a valid plan of it, with the handles that corruptions need."""

    def __init__(self, sample, plan):
        self.sample, self.plan, self.claims = copy.deepcopy(sample), copy.deepcopy(plan), None
        self.claims = self.plan["nodeClaims"]
        self.pods = {p["name"]: p for p in self.sample["pods"]}
        self.types = {t["name"]: t for t in self.sample["instanceTypes"]}

    def of(self, pod):
        """The claim of a pod."""
        return next(c for c in self.claims if pod in c["podNames"])

    def without(self, app, **labels):
        """A claim without pods of an app, on which other requirements have the values given."""
        keys = {"zone": ZONE, "ct": CT}
        return next(c for c in self.claims if not any(p.startswith(app + "-") for p in c["podNames"])
                    and "gpu-0" not in c["podNames"] and c["nodePool"] == "default"
                    and all(self.req(c, keys[k])["values"] == [v] for k, v in labels.items()))

    @staticmethod
    def req(claim, key):
        return next(r for r in claim["requirements"] if r["key"] == key)

    @staticmethod
    def drop(claim, key):
        claim["requirements"] = [r for r in claim["requirements"] if r["key"] != key]

    def move(self, pod, claim):
        """Moves a pod to a claim and sets the books right."""
        self.of(pod)["podNames"].remove(pod)
        claim["podNames"].append(pod)
        self.sweep()
        return self.settle()

    def sweep(self):
        """Takes away the claims whose last pod has gone."""
        self.claims[:] = [one for one in self.claims if one["podNames"]]

    def apart(self, *pods, zone=None):
        """Moves pods to a claim of their own, a copy of the first one's."""
        claim = copy.deepcopy(self.of(pods[0]))
        for pod in pods:
            self.of(pod)["podNames"].remove(pod)
        claim["podNames"] = list(pods)
        if zone:
            self.req(claim, ZONE)["values"] = [zone]
        self.claims.append(claim)
        self.sweep()
        self.settle()
        return claim

    def settle(self):
        """Requests, options and prices that agree with the pods, so that only the corruption itself is wrong."""
        for claim in self.claims:
            pods = [self.pods[n] for n in claim["podNames"] if n in self.pods]
            claim["requests"] = total(pods)
            node = Node(None, {}, 0, [self.types[n] for n in claim["instanceTypeOptions"]])
            claim["instanceTypeOptions"] = [t["name"] for t in node.fitting(pods) or self.larger(claim, pods)]
        return self.bill()

    def larger(self, claim, pods):
        """The smallest types of the claim's families that hold the pods, of those that can be had everywhere."""
        family = lambda kind: kind["name"].split(".")[0]
        families = {family(self.types[n]) for n in claim["instanceTypeOptions"]}
        same = [t for t in self.sample["instanceTypes"] if family(t) in families and t["capacity"]["cpu"] != "8"]
        fits = Node(None, {}, 0, same).fitting(pods)
        least = min((int(t["capacity"]["cpu"]) for t in fits), default=0)
        return [t for t in fits if int(t["capacity"]["cpu"]) == least]

    def bill(self):
        return bill(self.sample, self.plan)


def corruption(rule, also=(), **flags):
    """Registers a function as a corruption that has to be caught by `rule`."""
    def register(function):
        CASES.append((function.__name__.replace("_", " "), rule, set(also), flags, function))
        return function
    return register


def zone_of(c, pod):
    """The zone that a pod's claim is pinned to."""
    return c.req(c.of(pod), ZONE)["values"][0]
