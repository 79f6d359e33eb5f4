"""The ports of the daemon, as the configuration has them."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.access import Metered
from lakewarden.service.config.settings import Configuration
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.browsers import Hosts
from lakewarden.service.http.access.callers import Count, Identify, told_of
from lakewarden.service.http.api import build_api
from lakewarden.service.http.connections import PortLimits
from lakewarden.service.http.management import build_management
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.http.server import HttpServer
from lakewarden.service.model.received_hook import OnHook

if TYPE_CHECKING:
    from lakewarden.service.state.sign_in import SignIns

WANTED = 65_536
_OURS = 384
"""The files of workers, readers, the store, the log and tables, and a reserve for the management port."""

_FEWEST = 8

MANAGEMENT_LIMITS = PortLimits(connections=64)


def bind_ports(
    settings: Configuration,
    plane: ControlPlane,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    hook_heard: OnHook,
    refused: Count,
    identify: Identify | None,
    sign_ins: SignIns | None,
    configuration: ConfigurationPart,
    formats: Mapping[str, TableFormat] = FORMATS,
) -> Sequence[HttpServer]:
    """Bind every port and return the servers: first management, which ends last, then the API.

    `identify` knows the callers of keys, or is None if every client may do everything. Raises the limit of
    open files of the process. Raises PermanentError if a port is taken.
    """
    descriptors = raise_descriptors()
    api, management, names = settings.api, settings.management, Hosts(settings.api.names)
    application = build_api(
        plane,
        clock=clock,
        hook_heard=hook_heard,
        url=api.url,
        hosts=names,
        on_refusal=told_of("api", refused),
        identify=identify,
        sign_ins=sign_ins,
        formats=formats,
        configuration=configuration,
    )
    return [
        HttpServer(
            build_management(
                plane,
                registry,
                identify=identify if settings.access.metrics is Metered.VIEWER else None,
                hosts=names,
                on_refusal=told_of("management", refused),
                notes=tuple if configuration.reloading is None else configuration.reloading.refusal,
            ),
            name="management",
            host=management.host,
            port=management.port,
            tls=management.tls,
            limits=MANAGEMENT_LIMITS,
            refused=refused,
        ),
        HttpServer(
            application,
            name="api",
            host=api.host,
            port=api.port,
            tls=api.tls,
            limits=affordable(PortLimits(), descriptors=descriptors),
            refused=refused,
        ),
    ]


def raise_descriptors() -> int:
    """Raise the limit of open files as far as the system allows, up to `WANTED`. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def affordable(limits: PortLimits, *, descriptors: int) -> PortLimits:
    """Return limits on connections that leave enough of `descriptors` for the daemon."""
    room = max(_FEWEST, descriptors - _OURS - MANAGEMENT_LIMITS.connections)
    return replace(limits, connections=min(limits.connections, room))
