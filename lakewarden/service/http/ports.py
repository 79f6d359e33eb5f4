"""The ports of the daemon, as the configuration has them."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from lakewarden.planners.model.clock import Clock
from lakewarden.service.config.http_limits import MANAGEMENT_LIMITS
from lakewarden.service.config.settings import Configuration
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.api import build_api, build_hooks
from lakewarden.service.http.guard.descriptors import affordable, raise_descriptors
from lakewarden.service.http.guard.hosts import Hosts
from lakewarden.service.http.guard.watchful import Count, told_of
from lakewarden.service.http.hooks import HookHeard
from lakewarden.service.http.management import PROBES, build_management
from lakewarden.service.http.server import HttpServer


def bind_ports(
    settings: Configuration,
    plane: ControlPlane,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    hook_heard: HookHeard,
    refused: Count,
) -> Sequence[HttpServer]:
    """Bind every port and return its server: management, which is to end last, the API, and the hooks' own.

    Lets the process open as many files as it may. Raises PermanentError where a port is taken.
    """
    descriptors = raise_descriptors()
    api, hooks, management = settings.api, settings.hooks, settings.management
    apart = hooks.port is not None
    application = build_api(
        plane,
        clock=clock,
        hook_heard=None if apart else hook_heard,
        url=hooks.url(api),
        hosts=Hosts(api.names),
        turned=told_of("api", refused),
    )
    servers = [
        HttpServer(
            build_management(plane, registry),
            name="management",
            host=management.host,
            port=management.port,
            limits=MANAGEMENT_LIMITS,
            always=PROBES,
            refused=refused,
        ),
        HttpServer(
            application,
            name="api",
            host=api.host,
            port=api.port,
            limits=affordable(api.limits, descriptors=descriptors, ports=1 + apart),
            refused=refused,
        ),
    ]
    if hooks.port is not None:
        hooks_only = HttpServer(
            build_hooks(plane, hook_heard=hook_heard, turned=told_of("hooks", refused)),
            name="hooks",
            host=hooks.host or api.host,
            port=hooks.port,
            limits=affordable(hooks.limits, descriptors=descriptors, ports=2),
            refused=refused,
        )
        servers.append(hooks_only)
    return servers
