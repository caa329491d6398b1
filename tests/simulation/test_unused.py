"""Launches that no pod uses are seen, and those that have a reason are not."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402


class UnusedTest(RuleTest):
    """INV-18."""

    def nodes(self, count, ready=20, gone=False):
        log = Story()
        log.pod(50, "created", "odd", requests=[{"cpu": "1"}])
        for number in range(10, 10 + count):
            t = 100 + 60 * (number - 10)
            log.launch(t, number)
            log.node(t + 10, "joined", number, labels={})
            log.node(t + 11, "ready", number)
            if gone:
                log.pod(t + 12, "deleted", "odd")
                log.pod(t + 50, "created", "odd", requests=[{"cpu": "1"}])
            log.instance(t + 11 + ready, "shutting-down", number, 0.1, token=f"dt-{number}-1")
            log.lose(t + 12 + ready, number)
        log.pod(3500, "deleted", "odd")
        return log

    def test_more_than_eight_an_hour_are_caught(self):
        self.assert_found(self.nodes(9))
        self.assert_found(self.nodes(10), "INV-18")

    def test_nodes_that_had_no_time_or_whose_pods_went_are_none(self):
        self.assert_found(self.nodes(12, ready=10))
        self.assert_found(self.nodes(12, gone=True))


if __name__ == "__main__":
    unittest.main()
