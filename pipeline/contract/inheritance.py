"""Combines the file of a profile with the files of the profiles that it extends.

A file of `conf/profiles/` lists what its releases change: values, entries of a table, and what it drops
(`without_rules`, `without_exceptions`, `without_settings`). The dispatcher decides which rules and exceptions exist.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, exceptions_of
from dispatch_audit.pipeline.contract.rules import RULES, rules_of
from dispatch_audit.pipeline.errors import DispatchAuditError

ProfileFile: TypeAlias = Mapping[str, Any]
"""The content of a file of `conf/profiles/`."""

_OF_THE_FILE = ("from_version", "to_version", "formerly")
_NOT_INHERITED = ("extends", *_OF_THE_FILE, "without_rules", "without_exceptions", "without_settings")


def resolved(name: str, files: Mapping[str, ProfileFile]) -> dict[str, Any]:
    """The values of a profile, its own and the inherited ones, by the attributes of `Profile`.

    Args:
        name: the name of the profile.
        files: all files by the names of their profiles.

    Raises:
        DispatchAuditError: the profile extends an unknown profile or itself, or drops something that does not exist.
    """
    whole: dict[str, Any] = {}
    without: dict[str, set[str]] = {"rules": set(), "exceptions": set()}
    for heir in reversed(_lineage(name, files)):
        file = files[heir]
        for key, value in file.items():
            if key not in _NOT_INHERITED:
                whole[key] = {**whole.get(key, {}), **value} if isinstance(value, Mapping) else value
        for key, known in (("rules", RULES), ("exceptions", EXCEPTIONS)):
            without[key] |= set(_dropped(heir, file, key, known))
        for setting in _dropped(heir, file, "settings", whole.get("settings", {})):
            del whole["settings"][setting]
    whole |= {key: files[name][key] for key in _OF_THE_FILE if key in files[name]}
    dispatcher = whole.get("dispatcher")
    possible = {} if dispatcher is None else {"rules": rules_of(dispatcher), "exceptions": exceptions_of(dispatcher)}
    kept = {key: tuple(known for known in every if known not in without[key]) for key, every in possible.items()}
    return {**whole, **kept, "name": name}


def _lineage(name: str, files: Mapping[str, ProfileFile]) -> list[str]:
    """The names of a profile, of the profile that it extends, of the next one that this extends, and so on."""
    line = [name]
    while (parent := files[line[-1]].get("extends")) is not None:
        if parent not in files:
            raise DispatchAuditError(
                f"profile {line[-1]!r} extends {parent!r}, but there is no such profile",
                f"extend one of: {', '.join(files)}",
            )
        if parent in line:
            raise DispatchAuditError(
                f"profile {name!r} extends itself: {' -> '.join([*line, parent])}", "remove `extends` from one of them"
            )
        line.append(parent)
    return line


def _dropped(name: str, file: ProfileFile, kind: str, known: Collection[str]) -> Iterable[str]:
    dropped: list[str] = file.get(f"without_{kind}", [])
    if unknown := [item for item in dropped if item not in known]:
        raise DispatchAuditError(
            f"profile {name!r} drops {kind} that do not exist: {', '.join(unknown)}", f"correct without_{kind}"
        )
    return dropped
