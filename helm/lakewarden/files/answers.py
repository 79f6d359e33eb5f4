"""What `helm test` asks. It ends with an error that says what is wrong."""

import os
import ssl
import sys
import urllib.error
import urllib.request


def asked(address: str) -> tuple[int, str]:
    """Return the status and the text of an answer. No certificate is judged: it may have another name."""
    unjudged = ssl.create_default_context()
    unjudged.check_hostname = False
    unjudged.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(address, timeout=10, context=unjudged) as answer:  # noqa: S310 - the chart names it
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


status, text = asked(os.environ["MANAGEMENT"] + "/readyz")
if status != 200:
    sys.exit(f"the daemon is not ready: {text}")
status, text = asked(os.environ["MANAGEMENT"] + "/metrics")
if status not in (200, 401) or (status == 200 and "lakewarden_build_info" not in text):
    sys.exit(f"the metrics are not those of Lakewarden: {status}")
status, text = asked(os.environ["API"] + "/v1/tables")
if status != 401:
    sys.exit(f"the API answers a caller without a key with {status}, and should refuse it with 401")
print("ready, measured, and closed to callers without a key")
