"""Ports of clusters that start at once."""

import subprocess
import sys
import unittest

from parts import HERE, free_ports

#: Prints ports and waits until its input ends.
OTHER = "import sys, parts; print(*parts.free_ports(18), flush=True); sys.stdin.read()"


class Ports(unittest.TestCase):
    def test_no_two_processes_are_given_one_port(self):
        others = [
            subprocess.Popen([sys.executable, "-c", OTHER], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(8)
        ]
        given = [free_ports(18) + free_ports(18)] + [[int(word) for word in one.stdout.readline().split()] for one in others]
        for one in others:
            one.communicate()
        self.assertEqual([len(ports) for ports in given], [36] + 8 * [18])
        self.assertEqual(len({port for ports in given for port in ports}), 36 + 8 * 18)


if __name__ == "__main__":
    unittest.main()
