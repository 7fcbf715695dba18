"""The state of the dispatcher has one writer: its transitions. Each observer writes its own memory and nothing else.

These tests follow the parts of the state through the assignments of a function, and look at what an observer calls.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dispatch_audit.pipeline.replay.state.state import State

REPLAY: Final = Path(__file__).resolve().parents[2] / "pipeline" / "replay"
WRITERS: Final = ("dispatcher", "state")
"""The rooms of the transitions, and of the arrays that they change."""

MEMORIES: Final = {"blocking": "waits", "rules/limit": "limits", "rules": "checks"}
"""By the observer, what it may write."""

_TAKES_STATE: Final = ("State", "Seen", "SeenByRules", "SeenByLimits", "SeenByBlocking")
_IN_PLACE: Final = frozenset({"fill", "sort", "put", "partition", "resize", "setfield", "setflags"})

Path_ = tuple[str, ...]
"""The fields that lead from the state to an array: `("waits", "hashes")`."""


class _Aliases:
    """The names of one function that stand for a part of the state."""

    def __init__(self, function: ast.FunctionDef) -> None:
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        taken = [a.arg for a in arguments if a.annotation is not None and ast.unparse(a.annotation) in _TAKES_STATE]
        self._paths: dict[str, Path_] = dict.fromkeys(taken, ())
        for node in ast.walk(function):
            for target, value in _bound(node):
                path = self.path(value)
                if isinstance(target, ast.Name) and path is not None:
                    self._paths[target.id] = path

    def path(self, node: ast.expr) -> Path_ | None:
        """Where an expression lies in the state; None: it is a copy, or something else."""
        if isinstance(node, ast.Name):
            return self._paths.get(node.id)
        if isinstance(node, ast.Attribute):
            path = () if node.attr == "_state" else self.path(node.value)
            return path if path is None or node.attr == "_state" else (*path, node.attr)
        if isinstance(node, ast.Subscript | ast.IfExp):
            return self.path(node.value if isinstance(node, ast.Subscript) else node.body)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view":
            return self.path(node.func.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("record_of", "common_of"):
            return self.path(node.args[0])
        return None


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=True)
            elif isinstance(target, ast.Tuple):
                yield from ((element, node.value) for element in target.elts)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
        yield node.target, node.value


def writes(source: str) -> Iterator[tuple[str, Path_]]:
    """The writes into the state in some code: the text of each, and where it goes."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            aliases = _Aliases(function)
            for node in ast.walk(function):
                bound = [target for target, _ in _bound(node)]
                targets = [target for target in bound if not isinstance(target, ast.Name)]
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
                    targets.append(node.func.value)
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("set_position", "set_point"):
                    targets.append(node.args[0])
                for target in targets:
                    path = aliases.path(target)
                    if path is not None:
                        yield ast.unparse(node), path


def _memory_of(module: str) -> str | None:
    return next((memory for observer, memory in MEMORIES.items() if module.startswith(observer)), None)


def _modules(rooms: tuple[str, ...]) -> list[str]:
    found = (path.relative_to(REPLAY).as_posix() for path in REPLAY.rglob("*.py"))
    return sorted(module for module in found if module.split("/")[0] in rooms)


OBSERVERS: Final = _modules(tuple({path.name for path in REPLAY.iterdir()} - set(WRITERS)))


@pytest.mark.parametrize("module", OBSERVERS)
def test_what_observes_the_dispatcher_writes_its_own_memory_only(module: str) -> None:
    memory = _memory_of(module)
    elsewhere = [text for text, path in writes((REPLAY / module).read_text()) if path[:1] != (memory,)]

    assert elsewhere == []


@pytest.mark.parametrize("module", _modules(("dispatcher",)))
def test_a_transition_writes_no_memory_of_an_observer(module: str) -> None:
    """What begins anew is another matter: a slot, a limit that a row says anew, the counts of a window."""
    anew = {
        "dispatcher/claimed_limits.py": {"waits", "limits"},
        "dispatcher/dispatcher.py": {"limits"},
        "dispatcher/entry/entries.py": {"checks"},
        "dispatcher/join_leave_reset.py": {"checks"},
        "dispatcher/row_replay.py": {"checks"},
        # They count what rules are asked about.
        "dispatcher/dispatches.py": {"checks"},
        "dispatcher/acknowledgements.py": {"checks"},
    }
    of_observers = {path[0] for _, path in writes((REPLAY / module).read_text()) if path[:1]} & set(MEMORIES.values())

    assert of_observers <= anew.get(module, set())


def test_no_observer_calls_what_writes_the_state() -> None:
    writers = {
        function.name
        for module in _modules(WRITERS)
        for function in ast.walk(ast.parse((REPLAY / module).read_text()))
        if isinstance(function, ast.FunctionDef) and any(writes(ast.unparse(function)))
    }
    called = [
        (module, node.func.id)
        for module in OBSERVERS
        if _memory_of(module) is not None
        for node in ast.walk(ast.parse((REPLAY / module).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in writers
    ]

    assert {"enqueue", "add_pending", "note_published"} <= writers
    assert called == []


def test_no_observer_keeps_the_state() -> None:
    kept = []
    for module in OBSERVERS:
        for node in ast.walk(ast.parse((REPLAY / module).read_text())):
            for target, value in _bound(node):
                if isinstance(target, ast.Attribute) and isinstance(value, ast.Name) and value.id == "state":
                    kept.append((module, ast.unparse(node)))

    assert kept == []


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("state.entries[slot].marks |= 1", "entries"),
        ("entries, hashes = state.entries, state.hashes\n    hashes[at].held += 1", "hashes"),
        ("state.common[0].unacked = 0", "common"),
        ('common = record_of(state.common, COMMON)\n    common["unacked"] = 0', "common"),
        ('state.consumers.view(np.ndarray)["permits"][place] = 0', "consumers"),
        ('marks: Any = state.entries.view(np.ndarray)["marks"]\n    marks[held] = 0', "entries"),
        ("state.words.fill(0)", "words"),
        ("queue = state.hashes[at].aside if slot else state.hashes[at].queue\n    queue.first = slot", "hashes"),
        ("set_point(state.common[0].rewound, point)", "common"),
        ("waits = state.waits.hashes\n    waits[at].why = 0", "waits"),
    ],
)
def test_each_way_to_write_is_found(line: str, where: str) -> None:
    ((_, path),) = writes(f"def f(state: Seen, slot: int, at: int) -> None:\n    {line}\n")
    assert path[0] == where
    assert where in State._fields


def test_a_copy_may_be_changed() -> None:
    line = 'held = state.entries.view(np.ndarray)["holder"] >= 0\n    held[0] = False'
    assert list(writes(f"def f(state: Seen) -> None:\n    {line}\n")) == []
