"""All courses: situations at rest, and some where a broker restarts, topics move, all stands still or clocks differ."""

from collections.abc import Mapping

from lab.lag.administered import ADMINISTERED
from lab.lag.course import Course
from lab.lag.groups import GROUPS
from lab.lag.situations import END_S, HOURLY, HOURLY_S, SITUATIONS
from lab.lag.world import World

AT_REST = (*SITUATIONS, *GROUPS, *ADMINISTERED)
_DISTURBED = tuple(each for each in SITUATIONS if each.name in {"healthy", "gone", "too slow"})
_DISTURBED_S = 170.0
_APART_S = 30.0

COURSES: Mapping[str, Course] = {
    "at rest": Course(situations=AT_REST, end_s=END_S),
    "a broker restarts": Course(situations=_DISTURBED, end_s=255.0, disturbed=(_DISTURBED_S, World.restart)),
    "topics move": Course(situations=_DISTURBED, end_s=255.0, disturbed=(_DISTURBED_S, World.move), brokers=2),
    "all stands still": Course(situations=_DISTURBED, end_s=285.0, disturbed=(_DISTURBED_S, World.pause)),
    "the clock is ahead": Course(situations=_DISTURBED, end_s=195.0, skew_s=_APART_S),
    "the clock is behind": Course(situations=_DISTURBED, end_s=195.0, skew_s=-_APART_S),
    "an hourly job": Course(situations=(HOURLY,), end_s=HOURLY_S[-1] + 600.0, look_s=60.0),
}
