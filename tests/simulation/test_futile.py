"""Launches that come to nothing are counted, whatever the cause, until a node of the pool gets ready."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402


class FutileTest(RuleTest):
    """INV-23."""

    def launches(self, count, apart=60, warned=False, ready=None):
        log = Story(nodes=0)
        log.pod(40, "created", "odd", requests=[{"cpu": "1"}])
        log.pod(3590, "deleted", "odd")
        for number in range(10, 10 + count):
            t = 60 + apart * (number - 10)
            log.launch(t, number)
            if number == ready:
                conditions = [{"type": "Initialized", "status": "True"}]
                log.claim(t + 1, "patch", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1", sent={"status": {"conditions": conditions}})
            if warned:
                log.instance(t + 2, "interrupted", number, 0.1, token=f"dt-{number}-1")
            log.instance(t + 5, "shutting-down", number, 0.1, token=f"dt-{number}-1")
            log.lose(t + 6, number)
        return log

    def test_more_than_eight_after_ten_are_caught(self):
        self.assert_found(self.launches(18))
        self.assert_found(self.launches(19), "INV-23")

    def test_what_the_cloud_takes_and_what_got_ready_does_not_count(self):
        self.assert_found(self.launches(25, warned=True))
        self.assert_found(self.launches(25, ready=20))

    def test_only_what_comes_within_an_hour_counts(self):
        self.assert_found(self.launches(11, apart=320))


if __name__ == "__main__":
    unittest.main()
