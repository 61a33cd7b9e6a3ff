"""One simulated run: its clock, its dice, its plan of faults, and what is on its way in the network.

Every call of a fake is a step. Faults are planned by step before the run begins and strike at the
first call that they fit, so one seed is one run, always the same. Nothing here knows Postgres or
Kafka: the fakes ask ``strikes`` whether now is the time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

STEPS_MAX = 20_000
"""Far beyond what any run needs: reaching it means that the producer does not come to an end."""


class Crash(BaseException):
    """The process is gone, as after ``kill -9``: nothing of ours may catch it."""


class Violation(BaseException):
    """The producer did what it must never do."""


class Finished(BaseException):
    """A reader has found the run's damage and stopped: there is nothing more to see."""


class World:
    """The dice and the plan of one seed."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.random = Random(seed)
        self.now_s = 1_000.0
        self.step_count = 0
        self.plan: list[tuple[int, str]] = []
        """(step, fault), the last one first."""
        self.armed: list[str] = []
        self.struck: list[str] = []
        self.is_process_dead = False
        self.on_death: list[Callable[[], None]] = []
        self.trace: list[str] | None = [] if traced else None
        self._late: list[tuple[int, Callable[[], None]]] = []
        self._next_event = 0

    def step(self, what: str) -> None:
        """A fake is called: time passes, late requests arrive, and the process may be killed here."""
        if self.is_process_dead:
            raise Crash
        self.step_count += 1
        self.now_s += 0.001
        if self.trace is not None:
            self.note(what)
        if self.step_count >= self._next_event:
            self._events(what)

    def _events(self, what: str) -> None:
        if self.step_count > STEPS_MAX:
            raise Violation(f"no end after {STEPS_MAX} steps")
        for item in [item for item in self._late if item[0] <= self.step_count]:
            self._late.remove(item)
            item[1]()
        while self.plan and self.plan[-1][0] <= self.step_count:
            self.armed.append(self.plan.pop()[1])
        due = [at for at, _ in self._late] + ([self.plan[-1][0]] if self.plan else [])
        self._next_event = min(due, default=STEPS_MAX)
        if self.strikes("crash"):
            self.die(what)

    def die(self, where: str) -> None:
        """The process ends here."""
        self.is_process_dead = True
        self.note(f"CRASH at {where}")
        for ending in self.on_death:
            ending()
        raise Crash

    def later(self, arrives: Callable[[], None], steps_max: int = 40) -> None:
        """A request that the network holds back."""
        self._late.append((self.step_count + self.random.randint(1, steps_max), arrives))
        self._next_event = 0

    def strikes(self, fault: str) -> bool:
        """Whether this fault is due; it strikes once."""
        if fault not in self.armed:
            return False
        self.armed.remove(fault)
        self.struck.append(fault)
        self.note(f"FAULT {fault}")
        return True

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Another process runs now: what is planned is for the one under test, whose death is not its own."""
        saved = self.plan, self.armed, [*self.on_death]
        self.plan, self.armed = [], []
        try:
            yield
        finally:
            self.plan, self.armed, self.on_death[:] = saved
            self._next_event = 0

    def chance(self, share: float) -> bool:
        """True for that share of calls."""
        return self.random.random() < share

    def note(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            self.trace.append(f"{self.step_count:5} {self.now_s:9.2f}  {text}")


class Clock:
    """Stands for the ``time`` module in the producer."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        """Seconds of the simulated run."""
        return self._world.now_s

    def time(self) -> float:
        """The same as a time of day."""
        return self._world.now_s

    def time_ns(self) -> int:
        """The same as a time of day."""
        return int(self._world.now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        """Sleeps too long, as a busy machine does: the wait loops of the producer end sooner."""
        self._world.step("sleep")
        self._world.now_s += max(seconds, 40.0)


class Silence:
    """Stands for ``log``: into the trace, or nowhere."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, level: str) -> Callable[..., None]:
        return self._write

    def _write(self, event: str, **fields: object) -> None:
        if self._world.trace is not None:
            self._world.note(f"log: {event} {fields}")
