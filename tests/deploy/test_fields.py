"""The fields of our CRDs against those of Karpenter 1.15."""

import json
import unittest

import fields


class Fields(unittest.TestCase):
    def test_each_field_is_as_upstreams_or_differs_for_a_reason(self):
        self.assertEqual(fields.unexplained(fields.upstream_rows(), fields.our_rows()), [])

    def test_what_a_field_loses_or_gets_is_said(self):
        ours = fields.our_rows()
        at = next(i for i, row in enumerate(ours) if row[:3] == ("NodePool", "v1", "spec.weight"))
        changed = (*ours[at][:3], json.dumps({**json.loads(ours[at][3]), "maximum": 7}))
        said = fields.unexplained(fields.upstream_rows(), [*ours[:at], changed, *ours[at + 1:]])
        self.assertEqual(said, ["NodePool v1: spec.weight: maximum is 7, upstream's 100"])
        said = fields.unexplained(fields.upstream_rows(), ours[:at] + ours[at + 1:])
        self.assertEqual(len(said), 1)
        self.assertTrue(said[0].startswith("NodePool v1: spec.weight: missing is null"), said)

    def test_every_kind_of_upstream_is_ours(self):
        kinds = {row[:2] for row in fields.our_rows()}
        missing = {row[:2] for row in fields.upstream_rows()} - kinds
        self.assertEqual(missing, set())


if __name__ == "__main__":
    unittest.main()
