"""More claims than a static pool asks for are found."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402


class ReplicasTest(RuleTest):
    """INV-25."""

    def story(self, replicas, limit="9", before=None):
        log = Story(nodes=0)
        log.object(0, "nodepools", None, "default", {"limits": {"nodes": limit}, "replicas": replicas})
        for t, number in [(0.1, before), (500, replicas)]:
            if number is not None:
                log.add(t, "rules", by="operator", resource="nodepools", name="default", limits={"nodes": limit}, budgets=None, replicas=number)
        for number in (1, 2):
            log.launch(500 + number, number)
        return log

    def test_one_more_than_replicas_is_found(self):
        self.assert_found(self.story(2))
        self.assert_found(self.story(1), "INV-25")

    def test_an_earlier_number_counts_for_a_minute(self):
        self.assert_found(self.story(1, before=2))

    def test_all_claims_count_for_the_limit(self):
        self.assert_found(self.story(2, "1"), "INV-16", "INV-25")


if __name__ == "__main__":
    unittest.main()
