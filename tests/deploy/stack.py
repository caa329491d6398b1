"""The CloudFormation template as an account gets it: deployed into moto, which fills in parameters and conditions."""

import json
import logging
import pathlib
import warnings

import boto3
import cfnlint.decode.cfn_yaml
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import ManagedPolicy

import checks

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEMPLATE = ROOT / "deploy/cloudformation/dovetail.yaml"
REGION = "us-east-1"
QUEUES = ("KarpenterInterruptionQueue", "KarpenterInterruptionDeadLetterQueue")
# moto says so of QueuePolicy, which is read from the template here.
warnings.filterwarnings("ignore", message=".*AWS::SQS::QueuePolicy")
logging.getLogger("moto").setLevel(logging.ERROR)


def _with_text(make):
    """CloudFormation takes a policy's document as a text, which is how keys come by the cluster's name; moto does not."""
    def made(cls, name, resource, *rest, **more):
        own = resource["Properties"]
        if isinstance(own["PolicyDocument"], str):
            own["PolicyDocument"] = json.loads(own["PolicyDocument"])
        return make(name, resource, *rest, **more)

    return classmethod(made)


ManagedPolicy.create_from_cloudformation_json = _with_text(ManagedPolicy.create_from_cloudformation_json)


class Stack:
    """A stack of the template: its resources' physical names by logical id, policies, roles, queues, rules."""

    def __init__(self, cluster="demo", **parameters):
        given = {"ClusterName": cluster, **parameters}
        with mock_aws():
            self.client = lambda service: boto3.client(service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
            cloudformation = self.client("cloudformation")
            cloudformation.create_stack(
                StackName="dovetail",
                TemplateBody=TEMPLATE.read_text(),
                Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
            resources = cloudformation.describe_stack_resources(StackName="dovetail")["StackResources"]
            self.names = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in resources if "LogicalResourceId" in one}
            outputs = cloudformation.describe_stacks(StackName="dovetail")["Stacks"][0]["Outputs"]
            self.outputs = {one["OutputKey"]: own_account(one["OutputValue"]) for one in outputs}
            self.policies, self.roles = self.read_policies(), self.read_roles()
            self.queues, self.rules = self.read_queues(), self.read_rules()
        self.queue_policies = {name: self.queue_policy(f"{name}Policy") for name in QUEUES}

    def read_policies(self):
        """The controller's policies by name, each as a document."""
        iam, found = self.client("iam"), {}
        for one in iam.list_policies(Scope="Local")["Policies"]:
            version = iam.get_policy_version(PolicyArn=one["Arn"], VersionId=one["DefaultVersionId"])
            found[one["PolicyName"]] = document(version["PolicyVersion"]["Document"])
        return found

    def read_roles(self):
        """Roles by name: trust, and the names of what is attached."""
        iam, found = self.client("iam"), {}
        for one in iam.list_roles()["Roles"]:
            attached = iam.list_attached_role_policies(RoleName=one["RoleName"])["AttachedPolicies"]
            profiles = iam.list_instance_profiles_for_role(RoleName=one["RoleName"])["InstanceProfiles"]
            found[one["RoleName"]] = {
                "trust": document(one["AssumeRolePolicyDocument"]),
                "attached": sorted(policy["PolicyName"] for policy in attached),
                "profiles": [profile["InstanceProfileName"] for profile in profiles],
            }
        return found

    def read_queues(self):
        sqs, found = self.client("sqs"), {}
        for url in sqs.list_queues().get("QueueUrls", []):
            attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            found[url.rsplit("/", 1)[1]] = {key: own_account(value) for key, value in attributes.items()}
        return found

    def queue_policy(self, logical):
        """A queue's policy, which moto's CloudFormation knows nothing of: only ARNs have to be filled in."""
        def filled(one):
            if isinstance(one, dict) and list(one) == ["Fn::GetAtt"]:
                return self.arn(one["Fn::GetAtt"][0])
            if isinstance(one, dict):
                return {key: filled(value) for key, value in one.items()}
            return [filled(item) for item in one] if isinstance(one, list) else one

        return filled(template()["Resources"][logical]["Properties"]["PolicyDocument"])

    def arn(self, logical):
        if logical in self.rules:
            return self.rules[logical]["arn"]
        return checks.arn("sqs", self.names[logical].rsplit("/", 1)[1])

    def read_rules(self):
        """Rules by logical id: pattern, targets, ARN."""
        events = self.client("events")
        found = {}
        logical = {physical: name for name, physical in self.names.items()}
        for one in events.list_rules()["Rules"]:
            name = logical[one["Name"]]
            targets = events.list_targets_by_rule(Rule=one["Name"])["Targets"]
            found[name] = {"pattern": json.loads(one["EventPattern"]), "arn": own_account(one["Arn"]), "targets": [own_account(target["Arn"]) for target in targets]}
        return found


def template():
    """The template as cfn-lint reads it, its short forms written out."""
    return json.loads(json.dumps(cfnlint.decode.cfn_yaml.load(str(TEMPLATE))))


def document(text):
    """A policy's document, however often it was written as a text."""
    while isinstance(text, str):
        text = json.loads(text)
    return json.loads(own_account(json.dumps(text)))


def own_account(text):
    """moto's account is the recording's."""
    return text.replace(DEFAULT_ACCOUNT_ID, checks.ACCOUNT)
