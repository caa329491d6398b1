"""The CloudFormation template: clean, deployable in each of its forms, with Karpenter's names, roles, queue and rules."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from moto.events.models import EventPattern

import checks
import evaluator
import source
import stack
from test_policies import stacked

#: EKS allows 100 characters, an IAM role's name 64 in all.
LONGEST = "c" * 46
OIDC = "oidc.eks.us-east-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E"
RESOURCES = stack.template()["Resources"]


def linted(path):
    """cfn-lint as the command: its API looks at every region there is."""
    program = pathlib.Path(sys.executable).with_name("cfn-lint")
    return subprocess.run([program, path], capture_output=True, text=True, timeout=300)


def event(source, detail_type, **detail):
    return {"version": "0", "source": source, "detail-type": detail_type, "detail": detail, "account": checks.ACCOUNT, "region": "us-east-1"}


class Template(unittest.TestCase):
    def test_cfn_lint_finds_nothing(self):
        found = linted(stack.TEMPLATE)
        self.assertEqual((found.returncode, found.stdout), (0, ""), found.stderr)

    def test_cfn_lint_finds_what_is_wrong(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as wrong:
            wrong.write(stack.TEMPLATE.read_text().replace("SqsManagedSseEnabled", "SqsManagedSse", 1))
            wrong.flush()
            found = linted(wrong.name)
        self.assertIn("'SqsManagedSse' was unexpected", found.stdout)

    def test_it_fits_into_a_request(self):
        self.assertLess(stack.TEMPLATE.stat().st_size, 51_200)

    def test_the_longest_name_fits_everywhere(self):
        self.assertEqual(stack.template()["Parameters"]["ClusterName"]["MaxLength"], len(LONGEST))
        uid = "11111111-2222-3333-4444-555555555555"
        split = stacked(cluster=LONGEST, ControllerRole="IRSA", OIDCProvider=OIDC, ClusterUid=uid, AdoptKarpenterInstances="true")
        one = stacked(cluster=LONGEST[:24], SinglePolicy="true", AdoptKarpenterInstances="true")
        for found in (split, one):
            self.assertTrue(all(len(name) <= 64 for name in found.roles), found.roles)
            self.assertTrue(all(len(name) <= 80 for name in found.queues), found.queues)
            for name, document in found.policies.items():
                # White space does not count; names of partitions and regions are longer elsewhere.
                there = json.dumps(document).replace("arn:aws:", "arn:aws-us-gov:").replace("us-east-1", "us-gov-west-1")
                size = len(re.sub(r"\s", "", there))
                self.assertTrue(len(name) <= 128 and size <= 6144, (name, size))

    def test_names_are_karpenters(self):
        usual = stacked()
        kinds = ("EKSIntegration", "IAMIntegration", "Interruption", "NodeLifecycle", "ResourceDiscovery")
        self.assertEqual(sorted(usual.policies), [f"KarpenterController{kind}Policy-demo" for kind in kinds])
        self.assertEqual(sorted(usual.roles), ["KarpenterNodeRole-demo", "demo-karpenter"])
        self.assertEqual(usual.roles["KarpenterNodeRole-demo"]["profiles"], ["KarpenterNodeInstanceProfile-demo"])
        self.assertEqual(sorted(usual.queues), ["demo", "demo-dead-letter"])
        self.assertEqual(usual.outputs["ControllerRoleArn"], checks.arn("iam", "role/demo-karpenter", ""))
        self.assertEqual((usual.outputs["NodeRole"], usual.outputs["InterruptionQueue"]), ("KarpenterNodeRole-demo", "demo"))

    def test_every_output_is_there_in_every_form(self):
        wanted = set(stack.template()["Outputs"])
        self.assertEqual(set(stacked().outputs), wanted)
        self.assertEqual(set(stacked(ControllerRole="None").outputs), wanted - {"ControllerRoleArn"})


class Roles(unittest.TestCase):
    def test_nodes_have_what_nodes_need(self):
        role = RESOURCES["KarpenterNodeRole"]["Properties"]
        names = [one["Fn::Sub"].rsplit("/", 1)[1] for one in role["ManagedPolicyArns"]]
        self.assertEqual(names, ["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])
        trust = stacked().roles["KarpenterNodeRole-demo"]["trust"]
        self.assertTrue(evaluator.service_may(trust, "ec2.amazonaws.com", checks.ACCOUNT, "sts:AssumeRole", "*", {}))
        self.assertFalse(evaluator.service_may(trust, "lambda.amazonaws.com", checks.ACCOUNT, "sts:AssumeRole", "*", {}))

    def test_the_controller_has_all_policies_of_either_form(self):
        one, split = RESOURCES["KarpenterControllerRole"]["Properties"]["ManagedPolicyArns"]["Fn::If"][1:]
        made = {name: own["Condition"] for name, own in RESOURCES.items() if own["Type"] == "AWS::IAM::ManagedPolicy"}
        for condition, attached in (("OnePolicy", one), ("SplitPolicies", split)):
            self.assertEqual(sorted(ref["Ref"] for ref in attached), sorted(name for name, own in made.items() if own == condition))

    def test_pod_identity_is_for_one_service_account_of_one_cluster(self):
        trust = stacked(Namespace="karpenter", ServiceAccount="karpenter").roles["demo-karpenter"]["trust"]
        tags = {"eks-cluster-arn": checks.arn("eks", "cluster/demo"), "kubernetes-namespace": "karpenter", "kubernetes-service-account": "karpenter"}

        def lets(own, service="pods.eks.amazonaws.com"):
            keys = {f"aws:RequestTag/{key}": value for key, value in own.items()}
            actions = ("sts:AssumeRole", "sts:TagSession")
            return {evaluator.service_may(trust, service, checks.ACCOUNT, action, "*", keys) for action in actions}

        self.assertEqual(lets(tags), {True})
        self.assertEqual(lets(tags, "ec2.amazonaws.com"), {False})
        self.assertEqual(lets({}), {False})
        for key, other in (("eks-cluster-arn", checks.arn("eks", "cluster/other")), ("kubernetes-namespace", "default"), ("kubernetes-service-account", "default")):
            self.assertEqual(lets({**tags, key: other}), {False})

    def test_irsa_is_for_one_service_account_of_one_issuer(self):
        trust = stacked(ControllerRole="IRSA", OIDCProvider=OIDC).roles["demo-karpenter"]["trust"]
        issuer = checks.arn("iam", f"oidc-provider/{OIDC}", "")
        self.assertEqual([one["Principal"] for one in trust["Statement"]], [{"Federated": issuer}])
        account = "system:serviceaccount:kube-system:dovetail"

        def lets(subject, audience="sts.amazonaws.com"):
            keys = {f"{OIDC}:sub": subject, f"{OIDC}:aud": audience}
            return evaluator.any_statement(trust, "Allow", "sts:AssumeRoleWithWebIdentity", keys)

        self.assertTrue(lets(account))
        self.assertFalse(lets("system:serviceaccount:default:dovetail") or lets(account, "another") or lets("system:serviceaccount:kube-system:x"))

    def test_no_role_is_made_where_eksctl_makes_it(self):
        self.assertEqual(list(stacked(ControllerRole="None", SinglePolicy="true").roles), ["KarpenterNodeRole-demo"])


class Queue(unittest.TestCase):
    def may_send(self, source_arn, tls="true"):
        policy, queue = stacked().queue_policies["KarpenterInterruptionQueue"], checks.arn("sqs", "demo")
        keys = {"aws:SourceArn": source_arn, "aws:SecureTransport": tls}
        return evaluator.service_may(policy, "events.amazonaws.com", checks.ACCOUNT, "sqs:SendMessage", queue, keys)

    def test_our_rules_may_send_and_nobody_else(self):
        for rule in stacked().rules.values():
            self.assertTrue(self.may_send(rule["arn"]))
            self.assertFalse(self.may_send(rule["arn"], tls="false"))
            self.assertFalse(self.may_send(rule["arn"].replace(checks.ACCOUNT, "999999999999")))
        self.assertFalse(self.may_send(checks.arn("events", "rule/another")))

    def test_what_cannot_be_read_ends_in_the_dead_letter_queue_before_it_is_too_old(self):
        queues = stacked().queues
        redrive = json.loads(queues["demo"]["RedrivePolicy"])
        self.assertEqual(redrive["deadLetterTargetArn"], checks.arn("sqs", "demo-dead-letter"))
        hidden = int(re.search(r"const HIDDEN: i32 = (\d+);", (source.CLOUD / "ec2/queue.rs").read_text())[1])
        self.assertLess(redrive["maxReceiveCount"] * hidden, int(queues["demo"]["MessageRetentionPeriod"]))
        # A message keeps the age that it had.
        self.assertGreater(int(queues["demo-dead-letter"]["MessageRetentionPeriod"]), 4 * 86_400)
        self.assertEqual({one["SqsManagedSseEnabled"] for one in queues.values()}, {"true"})


class Rules(unittest.TestCase):
    def caught(self, message):
        rules = stacked().rules
        return [name for name, rule in rules.items() if EventPattern.load(json.dumps(rule["pattern"])).matches_event(message)]

    def test_there_is_a_rule_for_each_event_that_is_heard_and_no_other(self):
        patterns = [rule["pattern"] for rule in stacked().rules.values()]
        pairs = [(source, detail) for one in patterns for source in one["source"] for detail in one["detail-type"]]
        self.assertEqual(sorted(pairs), sorted(source.events()))

    def test_every_rule_leads_to_the_queue(self):
        self.assertEqual({tuple(rule["targets"]) for rule in stacked().rules.values()}, {(checks.arn("sqs", "demo"),)})

    def test_what_the_controller_acts_on_is_caught_and_noise_is_not(self):
        state = "EC2 Instance State-change Notification"
        health = {"service": "EC2", "eventTypeCategory": "scheduledChange"}
        self.assertEqual(self.caught(event("aws.ec2", "EC2 Spot Instance Interruption Warning")), ["SpotInterruptionRule"])
        self.assertEqual(self.caught(event("aws.ec2", "EC2 Instance Rebalance Recommendation")), ["RebalanceRule"])
        self.assertEqual(self.caught(event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning")), ["CapacityReservationInterruptionRule"])
        self.assertEqual(self.caught(event("aws.health", "AWS Health Event", **health)), ["ScheduledChangeRule"])
        for one in ("stopping", "stopped", "shutting-down", "terminated"):
            self.assertEqual(self.caught(event("aws.ec2", state, state=one)), ["InstanceStateChangeRule"])
        for one in ("pending", "running"):
            self.assertEqual(self.caught(event("aws.ec2", state, state=one)), [])
        self.assertEqual(self.caught(event("aws.health", "AWS Health Event", service="RDS", eventTypeCategory="scheduledChange")), [])
        self.assertEqual(self.caught(event("aws.health", "AWS Health Event", service="EC2", eventTypeCategory="issue")), [])


if __name__ == "__main__":
    unittest.main()
