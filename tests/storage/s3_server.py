"""An S3 server of its own process, for tests of object stores: `python tests/storage/s3_server.py` prints its port.

It checks the signature of each request, so that wrong credentials are refused. It ends with its standard input. In the
process of the tests it would wait for code that waits for its answers.
"""

import json
import sys
import urllib.request

import boto3
from moto.server import ThreadedMotoServer

USER = "auditor"
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def main() -> None:
    """Serves until standard input ends."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    iam = boto3.client(
        "iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id="nobody", aws_secret_access_key="yet"
    )
    iam.create_user(UserName=USER)
    iam.put_user_policy(UserName=USER, PolicyName="s3", PolicyDocument=json.dumps(EVERYTHING))
    key = iam.create_access_key(UserName=USER)["AccessKey"]
    # From here on it refuses what it cannot verify.
    as_text = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", as_text)).close()
    options = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        "AWS_REGION": "us-east-1",
    }
    print(json.dumps(options), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
