"""What an account has before a cluster is made in it: subnets and a security group with tags, an image, a role, a queue.

    seed.py ENDPOINT REGION CLUSTER
"""

import json
import sys

import boto3

ENDPOINT, REGION, CLUSTER = sys.argv[1:]


def client(service):
    keys = {"aws_access_key_id": "seed", "aws_secret_access_key": "seed"}
    return boto3.client(service, endpoint_url=ENDPOINT, region_name=REGION, **keys)


ec2, iam, sqs = client("ec2"), client("iam"), client("sqs")
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
sqs.create_queue(QueueName=CLUSTER)
print(json.dumps({"subnets": len(subnets), "groups": len(groups), "image": image}))
