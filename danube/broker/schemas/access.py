"""Access to subjects that a call leads to: by an id, by a reference, or as the schema of a topic."""

from dataclasses import dataclass

from danube.broker.security.current import current_principal
from danube.broker.security.gate import Gate
from danube.model.errors import NotPermittedError
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.security.decision import CLUSTER, Target, topic_target


@dataclass(frozen=True, slots=True)
class SubjectAccess:
    """Rights of the caller of now to read subjects, and to see topics; all while security is off."""

    gate: Gate | None = None

    def reads(self, subject: str) -> bool:
        """Tell whether the caller may read a subject, there or not."""
        return self.gate is None or self.gate.allows(Permission.MANAGE_SCHEMA, Effect.READ, Target("", subject))

    def sees(self, topic: str) -> bool:
        """Tell whether the caller may see the name of a topic."""
        principal = current_principal()
        return self.gate is None or (principal is not None and self.gate.sees(principal, topic_target(topic)))

    def require(self, subject: str) -> None:
        """Raise NotPermittedError unless the caller may read the subject, there or not."""
        if self.gate is not None:
            self.gate.require(Permission.MANAGE_SCHEMA, Effect.READ, Target("", subject))

    def require_for_topic(self, subject: str) -> None:
        """Raise NotPermittedError unless the caller may have a topic follow the subject.

        What is said of messages that are refused tells the subject's fields.
        """
        if not self.reads(subject):
            raise NotPermittedError(
                f"a topic follows what its keeper may read, and no binding grants you View on {subject[:80]}: ask for"
                " one, or have somebody who has it configure the topic's schema"
            )

    def found(self, subject: str | None) -> str | None:
        """The subject that an id leads to. Raises NotPermittedError unless the caller may read it.

        For an id without a subject, too: nobody learns which ids others have.
        """
        if self.gate is not None and (subject is None or not self.reads(subject)):
            self.gate.require(Permission.MANAGE_SCHEMA, Effect.READ, CLUSTER)
        return subject
