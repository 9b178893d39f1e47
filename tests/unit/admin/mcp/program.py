"""`danube-admin` on the seeded cluster in memory, as a process of its own: `python program.py mcp --http`."""

from danube.admin.__main__ import app
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

if __name__ == "__main__":
    app(connect_to(seeded_gateway(SimClock())))(prog_name="danube-admin")
