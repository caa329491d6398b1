"""Terraform's module says what the CloudFormation template says. Read by an HCL parser, so that terraform need not be there."""

import json
import pathlib
import re
import string
import unittest

import hcl2

import checks
import stack
from test_policies import stacked
from test_template import OIDC

MODULE = stack.ROOT / "deploy/terraform"
CLUSTER, UID = "demo", "11111111-2222-3333-4444-555555555555"
#: A parameter of the template, and the module's variable.
VARIABLES = {
    "ClusterName": "cluster_name", "ControllerRole": "controller_role", "OIDCProvider": "oidc_provider",
    "Namespace": "namespace", "ServiceAccount": "service_account", "ClusterUid": "cluster_uid",
    "AdoptKarpenterInstances": "adopt_karpenter_instances", "SinglePolicy": "single_policy",
}
#: A rule of the template, and the module's key.
RULES = {
    "ScheduledChangeRule": "scheduled-change", "SpotInterruptionRule": "spot-interruption", "RebalanceRule": "rebalance",
    "InstanceStateChangeRule": "instance-state-change", "CapacityReservationInterruptionRule": "capacity-reservation-interruption",
}


def plain(one):
    """hcl2's values: quotes off, comments and marks out."""
    if isinstance(one, dict):
        return {plain(key): plain(value) for key, value in one.items() if not str(key).startswith("__")}
    if isinstance(one, list):
        return [plain(item) for item in one]
    return one[1:-1] if isinstance(one, str) and len(one) > 1 and one[0] == one[-1] == '"' else one


def parsed(name):
    with open(MODULE / name) as file:
        return plain(hcl2.load(file))


def blocks(name, kind):
    return [one for one in parsed(name).get(kind, [])]


def resources():
    """`aws_sqs_queue.interruption` and what it says."""
    return {f"{kind}.{name}": body for one in blocks("main.tf", "resource") for kind, named in one.items() for name, body in named.items()}


def variables():
    return {name: body for one in blocks("variables.tf", "variable") for name, body in one.items()}


def local():
    return {name: value for one in blocks("main.tf", "locals") for name, value in one.items()}


class Filled(string.Template):
    """`${name}`, as templatefile fills it in."""

    pattern = r"\$\{(?P<braced>\w+)\}|(?P<escaped>\$\$)|(?P<named>(?!))|(?P<invalid>\$\{)"


def filled(name, **values):
    return json.loads(Filled((MODULE / "policies" / name).read_text()).substitute(values))


def names(uid="", adopts=False):
    """What `local.names` is for these variables; test_names_are_made_as_here holds its text to this."""
    return {
        "partition": "aws", "region": stack.REGION, "account": checks.ACCOUNT, "cluster_name": CLUSTER,
        "uid_pattern": uid or "?*", "uid_operator": "StringLikeIfExists" if adopts else "StringLike",
        "node_role_arn": checks.arn("iam", f"role/KarpenterNodeRole-{CLUSTER}", ""),
    }


class Module(unittest.TestCase):
    def test_every_policy_is_the_templates(self):
        files = local()["policies"]
        for uid, adopts in (("", False), (UID, True)):
            own = stacked(ClusterUid=uid, AdoptKarpenterInstances=str(adopts).lower()).policies
            module = {f"KarpenterController{name}Policy-{CLUSTER}": filled(f"{file}.json.tftpl", **names(uid, adopts)) for name, file in files.items()}
            self.assertEqual(module, own)

    def test_no_policy_file_is_left_over(self):
        used = {f"{file}.json.tftpl" for file in local()["policies"].values()}
        text = (MODULE / "main.tf").read_text()
        used |= set(re.findall(r"policies/([\w-]+\.json\.tftpl)", text))
        # The trust of the controller's role is chosen by name.
        self.assertIn("policies/trust-${var.controller_role}.json.tftpl", text)
        used |= {"trust-IRSA.json.tftpl", "trust-PodIdentity.json.tftpl"}
        self.assertEqual(used, {path.name for path in (MODULE / "policies").iterdir()})

    def test_names_are_made_as_here(self):
        made = local()["names"]
        self.assertEqual(set(made), set(names()))
        text = (MODULE / "main.tf").read_text()
        for line in (
            'uid_pattern  = var.cluster_uid == "" ? "?*" : var.cluster_uid',
            'uid_operator = var.adopt_karpenter_instances ? "StringLikeIfExists" : "StringLike"',
            'role/KarpenterNodeRole-${var.cluster_name}"',
        ):
            self.assertIn(line, text)

    def test_roles_trust_whom_the_templates_trust(self):
        more = {**names(), "oidc_provider": OIDC, "namespace": "kube-system", "service_account": "dovetail"}
        for way in ("IRSA", "PodIdentity"):
            roles = stacked(ControllerRole=way, OIDCProvider=OIDC).roles
            self.assertEqual(filled(f"trust-{way}.json.tftpl", **more), roles[f"{CLUSTER}-karpenter"]["trust"])
        self.assertEqual(filled("trust-node.json.tftpl", url_suffix="amazonaws.com"), stacked().roles[f"KarpenterNodeRole-{CLUSTER}"]["trust"])

    def test_names_and_attached_policies_are_the_templates(self):
        own, said = stacked(), resources()
        of_cluster = lambda text: text.replace("${var.cluster_name}", CLUSTER)
        self.assertEqual({of_cluster(said[f"aws_iam_role.{one}"]["name"]) for one in ("node", "controller")}, set(own.roles))
        self.assertEqual(of_cluster(said["aws_iam_instance_profile.node"]["name"]), f"KarpenterNodeInstanceProfile-{CLUSTER}")
        self.assertEqual(said["aws_sqs_queue.interruption"]["name"], "${var.cluster_name}")
        self.assertEqual(of_cluster(said["aws_sqs_queue.dead_letter"]["name"]), f"{CLUSTER}-dead-letter")
        managed = [one["Fn::Sub"].rsplit("/", 1)[1] for one in stack.template()["Resources"]["KarpenterNodeRole"]["Properties"]["ManagedPolicyArns"]]
        self.assertTrue(all(name in said["aws_iam_role_policy_attachment.node"]["for_each"] for name in managed))
        self.assertEqual(said["aws_iam_role_policy_attachment.node"]["for_each"].count("Amazon"), len(managed))

    def test_queues_are_the_templates(self):
        own, said = stacked(), resources()
        for name, queue in (("interruption", CLUSTER), ("dead_letter", f"{CLUSTER}-dead-letter")):
            self.assertEqual(str(said[f"aws_sqs_queue.{name}"]["message_retention_seconds"]), own.queues[queue]["MessageRetentionPeriod"])
            self.assertIs(said[f"aws_sqs_queue.{name}"]["sqs_managed_sse_enabled"], True)
        redrive = json.loads(own.queues[CLUSTER]["RedrivePolicy"])
        self.assertRegex(said["aws_sqs_queue.interruption"]["redrive_policy"], rf"maxReceiveCount\W+{redrive['maxReceiveCount']}\b")
        rules = json.dumps([rule["arn"] for rule in (own.rules[name] for name in RULES)])
        queue = checks.arn("sqs", CLUSTER)
        self.assertEqual(filled("queue.json.tftpl", queue_arn=queue, rule_arns=rules), own.queue_policies["KarpenterInterruptionQueue"])
        dead = checks.arn("sqs", f"{CLUSTER}-dead-letter")
        self.assertEqual(filled("dead-letter-queue.json.tftpl", queue_arn=dead), own.queue_policies["KarpenterInterruptionDeadLetterQueue"])

    def test_rules_are_the_templates(self):
        said = {name: one["pattern"] for name, one in local()["rules"].items()}
        self.assertEqual(said, {RULES[name]: rule["pattern"] for name, rule in stacked().rules.items()})
        self.assertIn("aws_sqs_queue.interruption.arn", resources()["aws_cloudwatch_event_target.interruption"]["arn"])

    def test_variables_are_the_templates_parameters(self):
        said = variables()
        for parameter, own in stack.template()["Parameters"].items():
            default = said[VARIABLES[parameter]].get("default")
            self.assertEqual(str(default).lower() if isinstance(default, bool) else default, own.get("Default"), parameter)
        # What Terraform has besides: tags, and the association, which needs the cluster.
        self.assertEqual(set(said) - set(VARIABLES.values()), {"tags", "pod_identity_association"})

    def test_outputs_are_the_templates(self):
        snake = lambda name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        own = {name for one in blocks("outputs.tf", "output") for name in one}
        self.assertEqual(own, {snake(name) for name in stack.template()["Outputs"]})

    def test_what_a_file_refers_to_is_there(self):
        text = "".join(path.read_text() for path in sorted(MODULE.glob("*.tf")))
        self.assertLessEqual(set(re.findall(r"\bvar\.(\w+)", text)), set(variables()))
        self.assertEqual(set(variables()), set(re.findall(r"\bvar\.(\w+)", text)), "each variable is used")
        known = set(resources())
        for kind, name in re.findall(r"\b(aws_\w+)\.(\w+)", re.sub(r"data\.aws_\w+\.\w+", "", text)):
            self.assertIn(f"{kind}.{name}", known)
        self.assertLessEqual(set(re.findall(r"\blocal\.(\w+)", text)), set(local()))


if __name__ == "__main__":
    unittest.main()
