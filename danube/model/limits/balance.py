"""Bounds of load reports, scores and plans that rebalance."""

LOAD_NUMBER_MAX = 1e15
"""Numbers of a report above this cannot be, and count as 0."""
COST_BYTES_PER_MESSAGE = 4_096.0
"""Bytes that make as much work as one more message."""
OWN_CORES = 0.03
"""Of a core, that a broker uses whatever it serves: heartbeats, reports, metadata. Measured: 0.03 to 0.04."""
COST_CPU_S_MAX = 1e-3
"""Seconds of a core that one message takes at most; what a broker uses beyond that it uses for itself."""
TARGET_CV = 0.15
"""The imbalance that a plan aims at: what is measured afterwards is a little off, and well balanced ends at 0.2."""
SCORE_PER_TOPIC = 0.01
"""Score of a topic without any load: idle topics are spread, too, and never against load."""
BALANCE_IDLE_SCORE = 5.0
"""A cluster whose busiest broker scores less than this is not worth a move."""
PLAN_GAIN_MIN = 0.1
"""A plan that misses its target takes this share off the busiest broker that it touches: moves disturb clients."""
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
REBALANCE_MOVES_DEFAULT = 50
"""Moves of one rebalance unless more, or fewer, are asked for."""
REBALANCE_MOVES_MAX = 200
"""Moves of one rebalance at most: its record, with every reason, is one value of the metadata."""
BALANCE_RULES_MAX = 1_000
"""Pins and exclusions of a cluster."""
REBALANCES_KEPT = 20
"""Rebalances that are over and whose records are kept."""
BALANCE_HOTTEST_SHOWN = 5
"""Topics of each broker that the balance names."""
BALANCE_REASON_CHARS_MAX = 300
EXTRA_BROKERS_MAX = 100
RATE_FACTOR_MAX = 1_000.0
LOAD_REPORT_INTERVAL_S = 5.0
"""Seconds between two load reports of a broker, unless it is set."""
REPORTS_MISSED_MAX = 4
"""A report counts as unknown once so many after it should have come."""
REPORT_CLOCK_SKEW_S_MAX = 30.0
"""A reporter's clock that differs by more is mentioned."""
LOAD_TOPICS_MAX = 2_000
"""Topics of one report: the busiest. Its record is one value of the metadata."""
LOAD_HALF_LIFE_REPORTS = 2
"""Half-life of the smoothed rates of reports, in intervals of reports."""
SETTLE_REPORTS = 12
"""Intervals of reports after which rates have settled: six half-lives, as a move itself costs too."""
BROKER_FAILED_S = 60.0
"""A broker that was lost, or to which a move failed, gets no topics for so long."""
DISK_FULL_SHARE = 0.95
"""Share of a disk from which on its broker gets no topics."""
MOVE_PAUSE_MS = 300
"""Expected pause of a topic whose owner changes, without the rest of its log."""
MOVE_OVERHEAD_S = 1.0
"""Expected duration of a move that copies nothing."""
MOVE_TIMEOUT_S = 300.0
"""A move that takes longer ends its rebalance, beyond the time that its bytes take."""
PARALLEL_REBALANCE_MOVES = 2
"""Moves of a rebalance at a time, unless it is set."""
SETTLE_S_MAX = 120.0
"""Reports from after the last move are waited for so long."""
TOPIC_COOL_DOWN_S = 300.0
"""A topic that a rebalance has moved stays for so long, unless it is set."""
BROKER_CORES_MAX = 1.0
"""Processors that one broker can use up: its Python code runs on one at a time."""
NETWORK_BYTES_PER_S = 125e6
"""Capacity of a network whose speed is not known: a gigabit a second."""
LOAD_SLICE_TOPICS = 500
"""Topics that a report reads before it lets others work."""
DEMANDS_REMEMBERED_MAX = 20_000
"""Topics whose last measured load is remembered, until their new broker has measured them."""
REBALANCE_LOOK_S = 1.0
"""Between two looks at a rebalance that runs, also when nothing changed."""
AUTOMATIC_CHECK_INTERVAL_S = 60.0
"""Between two checks of the automatic mode, unless it is set."""
NEAR_SCORE = 5.0
"""Brokers whose scores differ by less are as good for a new topic: the one with the fewest topics gets it."""
REBALANCES_PER_HOUR_MAX = 1_000
"""Topics that the automatic mode may move in an hour at most."""
PUBLISHED_MOVES_SHOWN_MAX = 100
"""Moves of a published result that are shown."""
PUBLISHED_TEXT_CHARS_MAX = 2_000
"""Characters of a text in it."""
