"""Gate before every call: proves who calls, and refuses what no binding grants. Default deny.

Handlers run as the principal that was found (`current`). Streams are held to it for their whole life: one whose token
expires or is revoked, or whose binding goes, is cut.
"""

import weakref
from collections.abc import Callable, Sequence

from danube.broker.security.current import ActingAs, current_principal
from danube.broker.security.directory import SecurityDirectory
from danube.model.errors import DanubeError, NotPermittedError, UnauthenticatedError
from danube.model.limits.security import DECISION_CACHE_MAX
from danube.model.plans.plan import Effect
from danube.model.security.credentials import Revocation
from danube.model.security.grants import Permission
from danube.model.security.principal import Principal
from danube.rpc.carrier import Caller, ServerStream, StreamFactory, StreamHandler
from danube.runtime.clock import Clock
from danube.security.authentication import Authenticator, Proof
from danube.security.decision import CLUSTER, Target
from danube.security.revocations import Revocations

AUTHORIZATION = "authorization"
Check = Callable[[], None]
"""Raises NotPermittedError for what is not allowed, or not any more."""
_RIGHTS = {(permission, effect): f"{permission} {effect}" for permission in Permission for effect in Effect}


class Gate:
    """Authenticates and authorizes. Decisions are remembered until a role, a binding or a revocation changes."""

    def __init__(self, authenticator: Authenticator, directory: SecurityDirectory, clock: Clock) -> None:
        self._authenticator = authenticator
        self._directory = directory
        self._clock = clock
        self._granted: set[tuple[int, str, str, str, bool]] = set()
        """By the principal's identity, the right, and the target's namespace and topic, and whether that may be a
        partition: cheaper to hash than these."""
        self._holders: dict[int, Principal] = {}
        """Principals in `_granted`, which keeps their identities theirs."""
        self._streams: weakref.WeakSet[GuardedStream] = weakref.WeakSet()
        self.streams_cut = 0
        self._allowed = self._denied = self._unauthenticated = 0
        directory.on_change(self._changed)

    def counts(self) -> dict[str, int]:
        """Calls so far, by outcome."""
        return {"allowed": self._allowed, "denied": self._denied, "unauthenticated": self._unauthenticated}

    def sees(self, principal: Principal, target: Target) -> bool:
        """Tell whether any binding of the principal reaches the target: other names stay unseen."""
        return self._directory.rules.sees(principal, target)

    def sees_all(self, principal: Principal) -> bool:
        """Tell whether the principal may see all of the cluster."""
        return self._directory.rules.decide(principal, Permission.VIEW, Effect.READ, CLUSTER).allowed

    def principal_of(self, caller: Caller) -> Principal:
        """The authenticated principal. Raises UnauthenticatedError."""
        authorization, now_s = caller.metadata.get(AUTHORIZATION), self._clock.now_ms() / 1_000
        if authorization is not None and (known := self._authenticator.known(authorization, now_s)):
            return known
        proof = Proof(
            host=caller.address.rpartition(":")[0],
            authorization=authorization,
            certificate_name=caller.certificate_name,
        )
        try:
            return self._authenticator.principal_of(proof, now_s)
        except UnauthenticatedError:
            self._unauthenticated += 1
            raise

    def check(self, principal: Principal, permission: Permission, effect: Effect, targets: Sequence[Target]) -> None:
        """Raise NotPermittedError unless the principal may do this to each of the targets."""
        right = _RIGHTS[permission, effect]
        for target in targets:
            as_partition = bool(target.partitioned) and not self._directory.is_plain(target.topic)
            key = (id(principal), right, target.namespace, target.topic, as_partition)
            if key not in self._granted:
                self._decide(principal, permission, effect, target)
                if len(self._granted) >= DECISION_CACHE_MAX:
                    self._forget()
                self._granted.add(key)
                self._holders[id(principal)] = principal
        self._allowed += 1

    def require(self, permission: Permission, effect: Effect, target: Target) -> None:
        """Raise NotPermittedError unless the principal of now may do this to the target."""
        principal = current_principal()
        if principal is None:
            raise NotPermittedError("nobody has proved who asks")
        self.check(principal, permission, effect, (target,))

    def check_anywhere(self, principal: Principal, permission: Permission, effect: Effect) -> None:
        """Raise NotPermittedError unless some binding grants the principal this, on whatever it is."""
        if not self._directory.rules.holds(principal, permission, effect):
            self._denied += 1
            raise NotPermittedError(f"no binding grants {permission} on any topic to {principal}")
        self._allowed += 1

    def allows(self, permission: Permission, effect: Effect, target: Target) -> bool:
        """Tell whether the principal of now may do this to the target; a refusal is not counted."""
        principal = current_principal()
        return principal is not None and self._directory.rules.decide(principal, permission, effect, target).allowed

    def check_bound(self, principal: Principal) -> None:
        """Raise NotPermittedError for a principal that no binding grants anything."""
        if not self._directory.rules.is_bound(principal):
            self._denied += 1
            raise NotPermittedError(f"no binding grants anything to {principal}: an administrator creates one")

    def guard(
        self, principal: Principal, stream: ServerStream, factory: StreamFactory, check: Callable[[bytes], Check]
    ) -> StreamHandler:
        """Have a stream handled as this principal, once `check` has let its first message pass.

        It answers the check that holds from then on.
        """
        with ActingAs(principal):
            guarded = GuardedStream(principal, stream, factory(stream), check)
        self._streams.add(guarded)
        return guarded

    def hit_by(self, revocation: Revocation) -> tuple[Sequence[Principal], int]:
        """Bearers of the tokens known here that it would void, one each, and the number of streams it would cut."""
        rules = Revocations([revocation])
        streams = [stream for stream in self._streams if rules.revoked(stream.principal)]
        return self._authenticator.voided(rules), len(streams)

    def sweep(self) -> None:
        """Cut the streams of principals whose proof is void by now."""
        now_s = self._clock.now_ms() / 1_000
        for stream in list(self._streams):
            self._recheck(stream, now_s)

    def _decide(self, principal: Principal, permission: Permission, effect: Effect, target: Target) -> None:
        decision = self._directory.rules.decide(principal, permission, effect, target)
        if not decision.allowed:
            self._denied += 1
            raise NotPermittedError(decision.reason)

    def _forget(self) -> None:
        self._granted.clear()
        self._holders.clear()

    def _changed(self) -> None:
        self._forget()
        self._authenticator.revoke(self._directory.revocations)
        self.sweep()

    def _recheck(self, stream: "GuardedStream", now_s: float) -> None:
        principal = stream.principal
        if principal.expires_s is not None and principal.expires_s <= now_s:
            self._cut(stream, UnauthenticatedError("the token has expired: connect again with a new one"))
        elif revocation := self._directory.revocations.revoked(principal):
            self._cut(stream, UnauthenticatedError(f"the token was revoked: {revocation.reason or revocation.id}"))
        else:
            try:
                stream.recheck()
            except DanubeError as error:
                self._cut(stream, error.with_traceback(None))

    def _cut(self, stream: "GuardedStream", error: DanubeError) -> None:
        self.streams_cut += not stream.is_cut
        stream.cut(error)


class GuardedStream:
    """A stream whose first message is checked before its handler sees it."""

    def __init__(
        self, principal: Principal, stream: ServerStream, handler: StreamHandler, check: Callable[[bytes], Check]
    ) -> None:
        self.principal = principal
        self._stream = stream
        self._handler = handler
        self._check = check
        self._check_again: Check | None = None
        """Of what the first message named, once it has passed."""
        self.is_cut = False

    def on_message(self, message: bytes) -> None:
        if self.is_cut:
            return
        with ActingAs(self.principal):
            if self._check_again is None:
                self._check_again = self._check(message)
            self._handler.on_message(message)

    def on_half_close(self) -> None:
        if not self.is_cut:
            self._handler.on_half_close()

    def on_ready(self) -> None:
        if not self.is_cut:
            self._handler.on_ready()

    def on_cancel(self) -> None:
        self.is_cut = True
        self._handler.on_cancel()

    def recheck(self) -> None:
        """Check what the first message named again, by the rules of now. Raises NotPermittedError."""
        if self._check_again is not None and not self.is_cut:
            self._check_again()

    def cut(self, error: DanubeError) -> None:
        """End the stream, for its client with this error."""
        if not self.is_cut:
            self.is_cut = True
            self._stream.fail(error)
            self._handler.on_cancel()
