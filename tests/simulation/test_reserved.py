"""More instances than a capacity reservation has are found."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402


class ReservedTest(RuleTest):
    """INV-24."""

    def story(self, has, second=60, ended=None):
        log = Story(nodes=0)
        log.events[0]["capacityReservations"] = {"cr-1": has}
        self.use(log, 50, "pending", 8)
        if ended is not None:
            self.use(log, ended, "shutting-down", 8)
        self.use(log, second, "pending", 9)
        return log

    def use(self, log, t, change, number):
        log.instance(t, change, number, 0.1, beforehand=True)
        log.events[-1]["reservation"] = "cr-1"

    def test_one_more_than_there_are_is_found(self):
        self.assert_found(self.story(2))
        self.assert_found(self.story(1), "INV-24")

    def test_the_size_of_a_reservation_may_change(self):
        for has, count, at, found in [(1, 2, 55, []), (2, 1, 55, ["INV-24"]), (2, 1, 65, [])]:
            log = self.story(has)
            log.step(at, "resizeReserved", id="cr-1", count=count)
            self.assert_found(log, *found)

    def test_an_instance_that_has_ended_makes_room(self):
        self.assert_found(self.story(1, ended=55))


if __name__ == "__main__":
    unittest.main()
