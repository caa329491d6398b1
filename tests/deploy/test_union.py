"""What the tests ask of AWS is held to the policies in both directions: a request more and a statement more are noticed."""

import copy
import json
import pathlib
import tempfile
import unittest

import stack
import union

TAGS = {
    "kubernetes.io/cluster/other": "owned", "eks:eks-cluster-name": "other", "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default", "dovetail.dev/cluster-uid": "u-1", "dovetail.dev/launch-token": "dt-1",
}


def line(service, operation, body, **more):
    own = {"cluster": "other", "uid": "u-1", "clusterRegion": "eu-west-1", "region": "eu-west-1", "templates": {}, "before": {}}
    return {**own, "service": service, "operation": operation, "body": body, **more}


END = line("ec2", "TerminateInstances", "Action=TerminateInstances&InstanceId.1=i-0123456789", before={"i-0123456789": TAGS})


class Union(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.policies = list(stack.Stack().policies.values())

    def refused(self, *lines):
        made, strange = union.checks_of(lines)
        self.assertEqual(strange, [])
        return [one["action"] for one in union.refused(made, self.policies, self.policies)]

    def test_a_request_of_another_cluster_and_region_is_judged_as_the_stacks(self):
        self.assertEqual(self.refused(END), [])
        self.assertEqual(self.refused(line("eks", "DescribeCluster", "/clusters/other")), [])
        self.assertEqual(self.refused(line("sqs", "GetQueueUrl", json.dumps({"QueueName": "mine"}))), [])

    def test_what_no_policy_allows_is_noticed(self):
        stranger = {key: value for key, value in TAGS.items() if key != "dovetail.dev/cluster-uid"}
        self.assertEqual(self.refused({**END, "before": {"i-0123456789": stranger}}), ["ec2:TerminateInstances"])
        self.assertEqual(self.refused(line("ec2", "DescribeVolumes", "Action=DescribeVolumes")), ["ec2:DescribeVolumes"])
        self.assertEqual(self.refused(line("ssm", "GetParameter", json.dumps({"Name": "/own/image"}))), [], "the operator's own")

    def test_a_template_that_another_process_has_made_has_the_tags_of_those_of_its_cluster(self):
        tags = "".join(
            f"&TagSpecification.1.Tag.{at}.Key={key}&TagSpecification.1.Tag.{at}.Value={value}"
            for at, (key, value) in enumerate(TAGS.items(), 1) if key != "dovetail.dev/launch-token"
        )
        made = "Action=CreateLaunchTemplate&LaunchTemplateName=one&TagSpecification.1.ResourceType=launch-template" + tags
        ends = line("ec2", "DeleteLaunchTemplate", "Action=DeleteLaunchTemplate&LaunchTemplateName=another")
        self.assertEqual(self.refused(line("ec2", "CreateLaunchTemplate", made), ends), [])
        _, strange = union.checks_of([line("ec2", "CreateLaunchTemplate", made), {**ends, "uid": "u-2", "body": ends["body"] + "s"}])
        self.assertEqual(len(strange), 1, "of another cluster nothing is known")

    def test_an_operation_that_nobody_has_written_down_is_not_passed_over(self):
        _, strange = union.checks_of([line("ec2", "StopInstances", "Action=StopInstances&InstanceId.1=i-1")])
        self.assertEqual(len(strange), 1)

    def test_what_is_allowed_and_never_asked_for_is_noticed(self):
        made, _ = union.checks_of([END])
        self.assertIn("ec2:CreateFleet", union.idle(made, self.policies))
        recorded = json.loads((pathlib.Path(__file__).parent / "requests.json").read_text())["checks"]
        self.assertEqual(union.idle(recorded, self.policies), [])
        more = copy.deepcopy(self.policies)
        more[0]["Statement"].append({"Sid": "More", "Effect": "Allow", "Action": ["ec2:StopInstances"], "Resource": "*"})
        self.assertIn("ec2:StopInstances", union.idle(recorded, more))

    def test_a_line_that_a_process_did_not_end_is_passed_over_and_the_same_of_two_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = json.dumps(END)
            pathlib.Path(folder, "aws-1.jsonl").write_text(f"{whole}\n{whole[:50]}")
            pathlib.Path(folder, "aws-2.jsonl").write_text(f"{whole}\n")
            self.assertEqual(union.lines(folder), [END])


if __name__ == "__main__":
    unittest.main()
