"""Events of object stores: which directory an object was written into.

S3 sends `Records` with a bucket and a URL-encoded key, also wrapped by SNS. EventBridge sends a `detail` with a plain
key. Google Cloud Storage sends a `bucket` and a `name`, as JSON or as the data of a CloudEvent. A directory may lie at
any folder above the object. So each of these is a hint, and those that are no table are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

from lakewarden.planners.formats.directory.listing.walk import DEEPEST
from lakewarden.planners.hooks import At, CommitHook, Hint, HookReader, MalformedHookError, json_object

_MOST_RECORDS = 1000
_LONGEST_KEY = 2048


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the folders above the objects of an event. There are none in an event that is a test. Raises
    MalformedHookError.
    """
    if not whole:
        raise MalformedHookError("the event is too long: a notification of a store has at most some kilobytes")
    event = json_object(body)
    if event.get("Type") == "Notification" and isinstance(event.get("Message"), str):
        event = _parsed(event["Message"])
    if event.get("Event") == "s3:TestEvent" or event.get("Type") == "SubscriptionConfirmation":
        return ()
    objects = list(_objects(event))
    if not objects:
        raise MalformedHookError("the body has no Records, detail, or bucket and name, as events of object stores have")
    places = dict.fromkeys(one for scheme, bucket, key in objects for one in _above(scheme, bucket, key))
    return tuple(At(location=place, folder=folder) for place, folder in places)


def _objects(event: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the scheme, the bucket and the key of each object that an event names."""
    records = event.get("Records")
    for record in records[:_MOST_RECORDS] if isinstance(records, list) else ():
        match record:
            case {"s3": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
                yield "s3", bucket, unquote_plus(key)
    match event:
        case {"source": "aws.s3", "detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            yield "s3", bucket, key
        case {"bucket": str(bucket), "name": str(key)} | {"data": {"bucket": str(bucket), "name": str(key)}}:
            yield "gs", bucket, key


def _above(scheme: str, bucket: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield each folder above an object up to the bucket, and the path from there to the folder of the object."""
    levels = key[:_LONGEST_KEY].split("/")[:-1]
    for end in range(min(len(levels), 2 * DEEPEST), -1, -1):
        yield "/".join((f"{scheme}://{bucket}", *levels[:end])), "/".join(levels[end:])


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the message of the notification is not JSON") from wrong
    return told if isinstance(told, dict) else {}


_READER = HookReader(sender="object_store", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

HOOK = CommitHook(
    senders=("object_store",),
    about="Take an event of an object store: an S3 notification, plain or from SNS or EventBridge, or one of GCS.",
    reader_of=lambda _path: _READER,
)
