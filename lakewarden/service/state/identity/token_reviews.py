"""Tokens of service accounts, which the API server of Kubernetes judges (TokenReview). Its answers are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.service.config.identity.tokens import ServiceAccountSettings
from lakewarden.service.model.access import Caller, digest_of
from lakewarden.service.model.refusals import ISSUER_AWAY, Refusal, no_role, refused_token
from lakewarden.service.state.identity.asking import asked
from lakewarden.service.state.identity.claims import caller_of_account
from lakewarden.service.state.readers.threads import Threads

log = structlog.get_logger(__name__)

_REFUSED_SECONDS = 10.0
"""How long a refusal counts. A token that is not valid does not become valid."""

_AWAY_SECONDS = 2.0
"""After a failed review the API server is not asked about the same token for so long."""

_MOST_KEPT = 10_000
_UNDER_WAY = 64
"""So many reviews wait at a time. Further tokens are refused until one of them has ended."""

_PLACE = "tokenreviews"
_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


class TokenReviews:
    """Knows the callers of tokens of service accounts. Any thread may ask. It keeps hashes of tokens, and no token."""

    def __init__(
        self,
        settings: ServiceAccountSettings,
        *,
        clock: Clock,
        threads: Threads,
        ask: Callable[..., Mapping[str, Any]] = asked,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._threads = threads
        self._ask = ask
        self._kept: OrderedDict[str, tuple[float, Caller | Refusal]] = OrderedDict()
        self._reviews: dict[str, Future[Caller | Refusal]] = {}
        self._changing = threading.Lock()

    @property
    def audience(self) -> str:
        """The audience that a token must have."""
        return self._settings.audience

    def caller(self, token: str) -> Caller | Refusal | Future[Caller | Refusal]:
        """Return the caller of a token, or why it is refused. A future if the API server must be asked.

        One review of a token is under way at a time. Requests meanwhile wait for it.
        """
        digest, now = digest_of(token.encode()), self._clock.monotonic()
        with self._changing:
            kept = self._kept.get(digest)
            if kept is not None and now < kept[0]:
                return kept[1]
            review = self._reviews.get(digest)
            if review is not None:
                return review
            if len(self._reviews) >= _UNDER_WAY:
                return ISSUER_AWAY
            review = self._reviews[digest] = self._threads.submit(lambda: self._review(token, digest), place=_PLACE)
        review.add_done_callback(lambda _: self._reviews.pop(digest, None))
        return review

    def _review(self, token: str, digest: str) -> Caller | Refusal:
        try:
            found = self._judged(self._asked(token))
        except LakewardenError as away:
            log.warning("service_account_not_reviewed", error=str(away))
            found = ISSUER_AWAY
        self._keep(digest, found)
        return found

    def _asked(self, token: str) -> Mapping[str, Any]:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._settings.audience]},
        }
        url = self._settings.api_server.rstrip("/") + _PATH
        answer = self._ask(url, authority=self._settings.authority, body=body, token=self._settings.own_token.value())
        status = answer.get("status")
        if not isinstance(status, dict):
            raise TemporaryError(f"{url} answers without a status")
        return status

    def _judged(self, status: Mapping[str, Any]) -> Caller | Refusal:
        audiences = status.get("audiences")
        if status.get("authenticated") is not True:
            return refused_token("the API server of Kubernetes does not accept it")
        if not isinstance(audiences, list) or self._settings.audience not in audiences:
            # An API server that does not know audiences accepts a token for itself, too.
            return refused_token(f"it is not for the audience {self._settings.audience}")
        user = status.get("user")
        name = user.get("username") if isinstance(user, dict) else None
        caller = caller_of_account(str(name), grants=self._settings.grants)
        return no_role(caller) if isinstance(caller, str) else caller

    def _keep(self, digest: str, found: Caller | Refusal) -> None:
        if isinstance(found, Caller):
            seconds = self._settings.cache.total_seconds()
        else:
            seconds = _AWAY_SECONDS if found is ISSUER_AWAY else _REFUSED_SECONDS
        with self._changing:
            self._kept[digest] = (self._clock.monotonic() + seconds, found)
            self._kept.move_to_end(digest)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
