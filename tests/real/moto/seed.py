"""What an account has before a cluster is made in it: subnets and a security group with tags, an image, a role, that for spot, and a
queue with its rules.

    seed.py ENDPOINT REGION CLUSTER
"""

import json
import sys

import boto3

ENDPOINT, REGION, CLUSTER = sys.argv[1:]


def client(service):
    keys = {"aws_access_key_id": "seed", "aws_secret_access_key": "seed"}
    return boto3.client(service, endpoint_url=ENDPOINT, region_name=REGION, **keys)


ec2, iam, sqs, events = client("ec2"), client("iam"), client("sqs"), client("events")
found = [{"Key": "karpenter.sh/discovery", "Value": CLUSTER}]
subnets = ec2.describe_subnets()["Subnets"]
groups = ec2.describe_security_groups()["SecurityGroups"]
ec2.create_tags(Resources=[s["SubnetId"] for s in subnets] + [g["GroupId"] for g in groups], Tags=found)
# moto's own: what is registered with it has no architecture.
of_amazon = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
image = min(one["ImageId"] for one in of_amazon if one["Name"].startswith(("amzn", "al20")))
ec2.create_tags(Resources=[image], Tags=found)
trust = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
iam.create_role(RoleName=f"KarpenterNodeRole-{CLUSTER}", AssumeRolePolicyDocument=json.dumps(trust))
iam.create_role(RoleName="AWSServiceRoleForEC2Spot", Path="/aws-service-role/spot.amazonaws.com/", AssumeRolePolicyDocument=json.dumps(trust))
url = sqs.create_queue(QueueName=CLUSTER)["QueueUrl"]
queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
# As deploy/terraform has them.
RULES = {
    "scheduled-change": {"source": ["aws.health"], "detail-type": ["AWS Health Event"], "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]}},
    "spot-interruption": {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]},
    "rebalance": {"source": ["aws.ec2"], "detail-type": ["EC2 Instance Rebalance Recommendation"]},
    "instance-state-change": {"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"], "detail": {"state": ["stopped", "terminated"]}},
}
for name, pattern in RULES.items():
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": queue}])
print(json.dumps({"subnets": len(subnets), "groups": len(groups), "image": image}))
