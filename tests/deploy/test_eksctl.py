"""The eksctl files fit eksctl's own schema, and name what the stack makes."""

import json
import pathlib
import string
import sys
import unittest

import jsonschema
import yaml

import checks
import stack
from test_policies import stacked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "real"))
import build  # noqa: E402

FILES = sorted((stack.ROOT / "deploy/eksctl").glob("*.yaml"))
#: What the files say has to be exported.
GIVEN = {
    "CLUSTER_NAME": "demo", "AWS_DEFAULT_REGION": stack.REGION, "K8S_VERSION": "1.33", "AWS_PARTITION": "aws",
    "AWS_ACCOUNT_ID": checks.ACCOUNT, "KARPENTER_NAMESPACE": "kube-system",
}


def config(name):
    """A file as envsubst leaves it; a variable that its head does not export is an error."""
    lines = (stack.ROOT / "deploy/eksctl" / name).read_text().splitlines(True)
    head = "".join(line for line in lines if line.startswith("#"))
    given = {key: value for key, value in GIVEN.items() if f"{key}=" in head}
    rest = "".join(line for line in lines if not line.lstrip().startswith("#"))
    return yaml.safe_load(string.Template(rest).substitute(given))


class Eksctl(unittest.TestCase):
    SCHEMA = json.loads(build.eksctl_schema().read_text())

    def wrong(self, one):
        return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft7Validator(self.SCHEMA).iter_errors(one)]

    def test_every_file_fits_the_schema(self):
        self.assertEqual([path.name for path in FILES], ["irsa.yaml", "node-group.yaml", "pod-identity.yaml"])
        for path in FILES:
            self.assertEqual(self.wrong(config(path.name)), [], path.name)

    def test_the_schema_refuses_what_eksctl_refuses(self):
        for change in ({"managedNodeGroups": [{"name": "x", "instancetype": "m5.large"}]}, {"managedNodeGroups": [{"name": "x", "amiFamily": "AmazonLinux2Arm"}]}, {"iam": {"withOIDC": "yes"}}, {"nodePools": []}):
            self.assertTrue(self.wrong({**config("irsa.yaml"), **change}), change)

    def test_nothing_rests_on_amazon_linux_2(self):
        groups = [group for path in FILES for group in config(path.name)["managedNodeGroups"]]
        self.assertEqual({group["amiFamily"] for group in groups}, {"AmazonLinux2023"})

    def test_nodes_are_let_in_by_the_stacks_role(self):
        for name in ("irsa.yaml", "pod-identity.yaml"):
            entries = config(name)["accessConfig"]["accessEntries"]
            self.assertEqual(entries, [{"principalARN": stacked().outputs["NodeRoleArn"], "type": "EC2_LINUX"}])
            self.assertEqual(config(name)["metadata"]["tags"], {"karpenter.sh/discovery": "demo"})

    def test_pod_identity_is_for_the_stacks_role_and_the_account_that_it_trusts(self):
        one = config("pod-identity.yaml")
        parameters = stack.template()["Parameters"]
        wanted = {
            "namespace": parameters["Namespace"]["Default"], "serviceAccountName": parameters["ServiceAccount"]["Default"],
            "roleARN": stacked().outputs["ControllerRoleArn"],
        }
        self.assertEqual(one["iam"]["podIdentityAssociations"], [wanted])
        self.assertIn({"name": "eks-pod-identity-agent"}, one["addons"])

    def test_irsa_attaches_the_policy_that_the_stack_makes(self):
        account = config("irsa.yaml")["iam"]["serviceAccounts"][0]
        made = stacked(ControllerRole="None", SinglePolicy="true")
        self.assertEqual(account["attachPolicyARNs"], [checks.arn("iam", f"policy/{name}", "") for name in made.policies])
        self.assertNotIn(account["roleName"], made.roles, "eksctl makes it")
        self.assertTrue(account["roleOnly"])


if __name__ == "__main__":
    unittest.main()
