"""Roles, bindings, keys and tokens that go by a plan: who loses what, and the act.

The arguments, as JSON values: `delete_role` takes `name`, `delete_binding` takes `scope`, `resource` and `id`,
`delete_api_key` takes `id`, and `revoke_tokens` takes `token_id`, `subject`, `issued_before_ms` and `reason`.
"""

from collections.abc import Mapping, Sequence

from danube.broker.control.plans.planned import (
    PlannedCall,
    PlannedOperation,
    cannot_be_planned,
    destroying,
    if_any,
    texts,
)
from danube.broker.security.control import SecurityControl
from danube.broker.security.gate import Gate
from danube.model.calls.security import BindingKey, RevokeTokens
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.limits.security import SECURITY_NAME_BYTES_MAX
from danube.model.plans.plan import Arguments, Impact, PartialImpact, fingerprint_of
from danube.model.security.credentials import Revocation
from danube.model.security.grants import Binding, BindingScope, Role
from danube.model.security.principal import Principal
from danube.model.text import count_text

_EPOCH_MS_MAX = 1 << 53
_CUT = "Streams that nothing else allows them are cut."


def security_changes(control: SecurityControl, gate: Gate | None) -> Mapping[str, PlannedOperation]:
    """The operations, by their names; without a gate nobody's token is known."""

    def delete_role(arguments: Arguments) -> PlannedCall:
        (name,) = texts("delete_role", arguments, "name")

        async def impact() -> Impact:
            role = control.deletable_role(name)
            return _role_gone(role, [each for each in control.all_bindings() if name in each.role_names])

        return PlannedCall(impact, lambda extra_writes: control.delete_role(name, extra_writes=extra_writes))

    def delete_binding(arguments: Arguments) -> PlannedCall:
        scope, resource, binding_id = texts("delete_binding", arguments, "scope", "resource", "id")
        if scope not in set(BindingScope):
            raise cannot_be_planned("delete_binding", arguments, f"one of {', '.join(BindingScope)} as its scope")
        key = BindingKey(scope=BindingScope(scope), resource_name=resource, binding_id=binding_id)

        async def impact() -> Impact:
            return _binding_gone(control.deletable_binding(key))

        return PlannedCall(impact, lambda extra_writes: control.delete_binding(key, extra_writes=extra_writes))

    def delete_api_key(arguments: Arguments) -> PlannedCall:
        (key_id,) = texts("delete_api_key", arguments, "id")

        async def impact() -> Impact:
            key = control.deletable_api_key(key_id)
            return Impact(
                changes=(
                    f"Delete API key {key.id} of {key.principal_type}:{key.principal_name}, of scope {key.scope}.",
                    "Tokens that it was exchanged for count until they expire, within an hour.",
                ),
                irreversible=("Whoever holds this key gets no further token by it, and it cannot be made again.",),
                fingerprint=fingerprint_of([key.id, key.created_ms]),
            )

        return PlannedCall(impact, lambda extra_writes: control.delete_api_key(key_id, extra_writes=extra_writes))

    def revoke_tokens(arguments: Arguments) -> PlannedCall:
        wanted = _wanted(arguments)

        async def impact() -> Impact:
            revocation = control.revocation_of(wanted)
            return _revoked(revocation, *(gate.hit_by(revocation) if gate is not None else ((), 0)))

        return PlannedCall(impact, lambda extra_writes: control.revoke(wanted, extra_writes=extra_writes))

    return destroying(delete_role, delete_binding, delete_api_key, revoke_tokens)


def _wanted(arguments: Arguments) -> RevokeTokens:
    before_ms = arguments.get("issued_before_ms")
    words = {name: value for name, value in arguments.items() if name != "issued_before_ms"}
    token_id, subject, reason = texts("revoke_tokens", words, "token_id", "subject", "reason")
    is_long = any(len(word.encode()) > SECURITY_NAME_BYTES_MAX for word in (token_id, subject, reason))
    if not isinstance(before_ms, int) or isinstance(before_ms, bool) or is_long or not 0 <= before_ms <= _EPOCH_MS_MAX:
        known = f"texts of {SECURITY_NAME_BYTES_MAX} bytes, and issued_before_ms as milliseconds since the epoch"
        raise cannot_be_planned("revoke_tokens", arguments, known)
    return RevokeTokens(token_id=token_id, subject=subject, issued_before_ms=before_ms, reason=reason)


def _role_gone(role: Role, bindings: Sequence[Binding]) -> Impact:
    """Impact of deleting a role that these bindings name."""
    holders = {str(each.principal) for each in bindings}
    lost = ", ".join(role.permissions)
    shown = (f"{each.principal} has {role.name} by binding {each}." for each in bindings[:PLAN_NAMES_MAX])
    return _lost(
        (f"Delete role {role.name}, which grants {lost}.", *shown),
        if_any(
            len(holders), f"{{}} in {count_text(len(bindings), 'binding')} no longer may {lost} by it.", "principal"
        ),
        fingerprint=[role.name, role.permissions, sorted([_place(each), str(each.principal)] for each in bindings)],
    )


def _binding_gone(binding: Binding) -> Impact:
    roles, where = ", ".join(binding.role_names), binding.resource_name or "the cluster"
    return _lost(
        (f"Delete binding {binding.id} of {binding.principal}.",),
        (f"{binding.principal} no longer has {roles} on {where} by it.",),
        fingerprint=[_place(binding), str(binding.principal), binding.role_names],
    )


def _revoked(revocation: Revocation, bearers: Sequence[Principal], streams: int) -> Impact:
    """Impact of a revocation that hits the tokens of these bearers, as far as this broker knows them."""
    what = f"token {revocation.token_id}"
    if revocation.subject:
        what = f"all tokens and client certificates of {revocation.subject}"
    if revocation.subject and revocation.issued_before_ms:
        what += f" from before {revocation.issued_before_ms:,} ms since the epoch"
    names = sorted({str(each.id) for each in bearers})[:PLAN_NAMES_MAX]
    of = f", of {', '.join(names)}" if names else ""
    return _lost(
        (
            f"Void {what}.",
            f"This broker knows {count_text(len(bearers), 'such token')}{of}.",
            *if_any(streams, "Cut {} at this broker, and those at others.", "stream"),
        ),
        ("A revocation is not taken back: who is to go on needs a new proof.",),
        fingerprint=[revocation.token_id, revocation.subject, revocation.issued_before_ms],
    )


def _lost(changes: tuple[str, ...], lost: tuple[str, ...], *, fingerprint: Sequence[object]) -> Impact:
    """Impact of lost rights: which clients they cut off is known to no single broker."""
    return PartialImpact(
        changes=changes,
        irreversible=(*lost, _CUT) if lost else (),
        producers=None if lost else 0,
        consumers=None if lost else 0,
        messages=0,
        bytes=0,
        fingerprint=fingerprint_of(fingerprint),
    )


def _place(binding: Binding) -> list[str]:
    return [binding.scope, binding.resource_name, binding.id]
