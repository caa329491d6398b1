"""Launches that come to nothing are counted, whatever the cause, until a node of the pool gets ready."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402


class FutileTest(RuleTest):
    """INV-23."""

    def launches(self, count, apart=60, warned=False, ready=None, pool=lambda nth: "default"):
        log = Story(nodes=0)
        log.pod(40, "created", "odd", requests=[{"cpu": "1"}])
        log.pod(3590, "deleted", "odd")
        for number in range(10, 10 + count):
            t, before = 60 + apart * (number - 10), len(log.events)
            log.launch(t, number)
            if number == ready:
                conditions = [{"type": "Initialized", "status": "True"}]
                log.claim(t + 1, "patch", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1", sent={"status": {"conditions": conditions}})
            for event in log.events[before:]:
                if event.get("claim"):
                    event["claim"]["nodePool"] = pool(number - 10)
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

    def test_many_pools_together_lose_three_times_as_many(self):
        # Six each of five pools, then of a sixth: with a launch a minute the thirtieth is lost half a minute before the next is made.
        pools = {"pool": lambda nth: f"pool-{min(nth // 6, 5)}"}
        self.assert_found(self.launches(38, **pools))
        self.assert_found(self.launches(39, **pools), "INV-23")
        self.assert_found(self.launches(39, ready=40, **pools))

    def test_a_pool_that_works_is_not_held_to_what_others_lose(self):
        self.assert_found(self.launches(41, ready=10, pool=lambda nth: f"pool-{nth // 6}" if 0 < nth < 31 else "works"))

    def test_only_what_comes_within_an_hour_counts(self):
        self.assert_found(self.launches(11, apart=320))


if __name__ == "__main__":
    unittest.main()
