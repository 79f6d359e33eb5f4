"""The clients of object stores. They are obstore's, opened by the settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.settings import ObjectStoreSettings

_NEEDED = ("obstore", "arro3.core")
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfss": "azure"}


def open_client(store: ObjectStoreSettings, host: str, *, keys: Callable[[], Mapping[str, Any]] | None = None) -> Any:
    """Return the client of one bucket. It makes no request yet. `keys` returns credentials that are in no settings, in
    obstore's words.

    Raises PermanentError if obstore is not installed, a secret is missing, or obstore does not accept the settings.
    """
    kind = _kind(store)
    arguments = merged(store.client_arguments(host), store.options)
    if keys is not None:
        arguments["credential_provider"] = keys
    try:
        return kind(**arguments)
    except Exception as error:
        found = f"{error}".partition("\n\n")[0]
        raise PermanentError(f"the settings of {store.prefix} cannot be used: {found}") from error


def merged(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Lakewarden's options, overridden by the options of the settings. Groups of options are merged."""
    groups = {key: {**ours[key], **value} for key, value in given.items() if isinstance(ours.get(key), dict)}
    return {**ours, **given, **groups}


def _kind(settings: ObjectStoreSettings) -> Any:
    package = next((one for one in _NEEDED if importlib.util.find_spec(one.partition(".")[0]) is None), None)
    if package is not None:
        raise PermanentError(
            f"{settings.scheme}:// locations need {package}: pip install 'lakewarden[{_EXTRAS[settings.scheme]}]'"
        )
    from obstore import store  # noqa: PLC0415 - a process with local tables only does not need it

    return getattr(store, settings.client)
