"""The ports of the daemon, as the configuration has them."""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.service.config.access import Metered
from lakewarden.service.config.daemon import MANAGEMENT_LIMITS, LimitSettings
from lakewarden.service.config.settings import Configuration
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.access.browsers import Hosts
from lakewarden.service.http.access.callers import Count, Identify, told_of
from lakewarden.service.http.api import build_api, build_hooks
from lakewarden.service.http.management import build_management
from lakewarden.service.http.redacted import ConfigurationPart
from lakewarden.service.http.server import HttpServer
from lakewarden.service.model.heard import OnHook

WANTED = 65_536
_OURS = 384
"""The files of workers, readers, the store, the log and tables, and a reserve for the management port."""

_FEWEST = 8


def bind_ports(
    settings: Configuration,
    plane: ControlPlane,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    hook_heard: OnHook,
    refused: Count,
    identify: Identify | None,
    configuration: ConfigurationPart,
    formats: Mapping[str, TableFormat] = FORMATS,
) -> Sequence[HttpServer]:
    """Bind every port and return the servers: first management, which ends last, then the API, then the port for hooks.

    `identify` knows the callers of keys, or is None if every client may do everything. Raises the limit of
    open files of the process. Raises PermanentError if a port is taken.
    """
    descriptors = raise_descriptors()
    api, hooks, management = settings.api, settings.hooks, settings.management
    apart, names = hooks.port is not None, Hosts(api.names)
    application = build_api(
        plane,
        clock=clock,
        hook_heard=None if apart else hook_heard,
        url=hooks.url(api),
        hosts=names,
        on_refusal=told_of("api", refused),
        identify=identify,
        formats=formats,
        configuration=configuration,
    )
    servers = [
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
            limits=affordable(api.limits, descriptors=descriptors, ports=1 + apart),
            refused=refused,
        ),
    ]
    if hooks.port is not None:
        hooks_only = HttpServer(
            build_hooks(
                plane, hook_heard=hook_heard, hosts=names, on_refusal=told_of("hooks", refused), identify=identify
            ),
            name="hooks",
            host=hooks.host or api.host,
            port=hooks.port,
            tls=hooks.tls or api.tls,
            limits=affordable(hooks.limits, descriptors=descriptors, ports=2),
            refused=refused,
        )
        servers.append(hooks_only)
    return servers


def raise_descriptors() -> int:
    """Raise the limit of open files as far as the system allows, up to `WANTED`. Return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def affordable(limits: LimitSettings, *, descriptors: int, ports: int = 1) -> LimitSettings:
    """Return limits on connections that leave enough of `descriptors` for the daemon, on each of so many ports."""
    room = max(_FEWEST, (descriptors - _OURS - MANAGEMENT_LIMITS.connections) // ports)
    return limits.model_copy(update={"connections": min(limits.connections, room)})
