"""Bounds of load reports, scores and plans that rebalance."""

LOAD_NUMBER_MAX = 1e15
"""Numbers of a report above this cannot be, and count as 0."""
COST_BYTES_PER_MESSAGE = 4_096.0
"""Bytes that make as much work as one more message."""
COST_CPU_S_MAX = 200e-6
"""Seconds of a core that one message takes at most; what a broker uses beyond that it uses for itself."""
SCORE_PER_TOPIC = 0.01
"""Score of a topic without any load: idle topics are spread, too, and never against load."""
BALANCE_IDLE_SCORE = 5.0
"""A cluster whose busiest broker scores less than this is not worth a move."""
PLAN_MOVES_MAX = 1_000
"""Moves of one plan."""
PLAN_CANDIDATES_MAX = 8
"""Topics of one broker that the planner tries at a step: those that come nearest to what is needed."""
PLAN_SOURCES_MAX = 2
"""Brokers that the planner relieves at a step: the busiest ones."""
PLAN_TARGETS_MAX = 4
"""Brokers that it tries to move them to: the least loaded ones."""
AUTOMATIC_HISTORY_MAX = 1_000
"""Moves of the automatic mode that it remembers."""
EXACT_STATES_MAX = 6_600
"""Assignments up to which the planner looks at every one."""
