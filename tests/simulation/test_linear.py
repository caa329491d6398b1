"""A log twice as long takes twice the work: no rule looks at everything again at every line."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from replay import World  # noqa: E402
from story import Story  # noqa: E402


class LinearTest(unittest.TestCase):
    """Work is counted in calls, which are the same on every machine."""

    def calls(self, nodes):
        """A pod a second that gets a node of its own, and leaves it; the node goes after a while."""
        log = Story(nodes=nodes)
        # As our own logs have it, by the owners of the pods; selectors are for others.
        log.events = [event for event in log.events if event.get("resource") != "poddisruptionbudgets"]
        log.add(0, "rules", resource="poddisruptionbudgets", namespace="default", name="web", minAvailable=1, covers=["Deployment/web"])
        for number in range(1, nodes + 1):
            log.leave(number + 500, number)
            log.pod(number + 501, "deleted", f"web-{number}")
            log.claim(number + 601, "delete", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1")
            log.terminate(number + 602, number)
        lines, calls = log.lines(), 0

        def count(_frame, event, _what):
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            world = World().read(lines)
        finally:
            sys.setprofile(before)
        self.assertEqual(world.faults, [])
        return calls

    def test_a_log_twice_as_long_takes_twice_the_work(self):
        few, more, most = (self.calls(nodes) for nodes in (40, 80, 160))
        self.assertLess(most - more, 2.3 * (more - few))


if __name__ == "__main__":
    unittest.main()
