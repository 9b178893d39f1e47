"""Courses of a simulated Raft group: how large it is, what goes wrong, and how often."""

from dataclasses import dataclass, field

from danube.metadata.raft.settings import RaftTiming


@dataclass(frozen=True, slots=True)
class Course:
    """The parameters of a run."""

    name: str = "faults"
    members: tuple[int, int] = (3, 5)
    faults_s: float = 25.0
    peace_s: float = 15.0
    changes: bool = False  # whether members are added and removed
    full: float = 0.0  # how likely a fault is a full disk
    power: float = 1.0  # how likely a fault is one of power
    fault_s: tuple[float, float] = (0.3, 2.0)  # between two faults
    busy: float = 1.0  # for which part of the time something is submitted
    fails: float = 0.0  # how likely a fault is a disk that fails; a member ends by it, and starts again
    off_s_max: float = 2.0  # how long a member without power stays off, at most
    entries: tuple[int, int] = (8, 40)  # after how many a member takes a snapshot; each picks a number in between
    timing: RaftTiming = field(default_factory=RaftTiming)
    message_s: tuple[float, ...] = (0.01, 0.05, 0.3)
    """Longest time of a message; one of these for all of a run."""


COURSES = {
    course.name: course
    for course in (
        Course(),
        Course("power", faults_s=20.0, power=6.0),
        Course("membership", members=(3, 3), changes=True),
        Course("images", fault_s=(0.1, 0.5), entries=(3, 8), message_s=(0.05, 0.3), power=0.3),
        Course(
            "elections",
            fault_s=(0.05, 0.3),
            off_s_max=0.1,
            timing=RaftTiming(election_min_s=0.5, election_max_s=0.55),
            message_s=(0.3,),
        ),
    )
}
FULL_DISKS = Course("full disks", fault_s=(0.1, 1.0), full=6.0, entries=(4, 12))
ALONE = Course(
    "alone",
    members=(1, 1),
    faults_s=12.0,
    peace_s=3.0,
    fault_s=(0.1, 1.0),
    power=4.0,
    full=1.0,
    fails=2.0,
    busy=0.3,
    off_s_max=0.2,
    entries=(4, 40),
)
"""A group of one without a port, as a broker that stands alone has it; it rests when nothing is to be done."""
BESIDE = (FULL_DISKS, ALONE)
"""Not among `COURSES`, which seeds choose from."""
