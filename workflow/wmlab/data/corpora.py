"""Word2World corpora (formats.md 1.1): import to trajectories, and export back to the same layout.

A corpus is one JSON array; an element is ``{"id": int, "messages": [system, user, assistant, …]}`` with
roles reversed (user = action, assistant = observation) and `` [SUCCESS]`` at the end of the observation that
completes the task. Ids name tasks, so they repeat. Released corpora hold action artefacts: those whose
meaning is clear are normalised; an action that stays empty or has several lines cuts its trajectory there,
because every later observation depends on it. Everything changed is counted in the report.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from wmlab.data.decompose import admissible_actions, split_system, world_model_chat
from wmlab.domains.base import SUCCESS_MARKER
from wmlab.domains.conventions import UPSTREAM_NAMES, goal_of, known_domain, task_type_of
from wmlab.errors import InputError
from wmlab.io.atomic import atomic_path

_READ_CHARACTERS = 1 << 20
_TORN = "the JSON array is torn or has a fault"
_AGAIN = "download or export the corpus again"
_SPACE = re.compile(r"[ \t\r\n]*")
_MARKER_BEFORE_ACTIONS = re.compile(
    r" \[SUCCESS\](?=\n\nYour admissible actions of the current situation are: )"
)
_WEBSHOP_SCORE = re.compile(r"Your score \(min 0\.0, max 1\.0\) \[SEP\] (\d+(?:\.\d+)?)")
_MULTI_LINE = ("stabletoolbench",)  # its actions are calls with JSON arguments
_CLOSED_GAMES = ("*** The End ***", "*** You lost! ***")


class ImportReport:
    """Counts of what an import read, changed and left out."""

    def __init__(self) -> None:
        self.trajectories_in = 0
        self.trajectories_out = 0
        self.steps_out = 0
        self.successes = 0
        self.missing_ids = 0
        self.dangling_actions = 0
        self.steps_cut = 0
        self.actions_normalised: Counter[str] = Counter()
        self.trajectories_cut: Counter[str] = Counter()
        self.trajectories_dropped: Counter[str] = Counter()

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        return {
            name: dict(sorted(value.items())) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }


class _ArrayText:
    """A JSON array that is read piece by piece: ``text[at:]`` is what is not decoded yet."""

    def __init__(self, handle: TextIO) -> None:
        self._handle = handle
        self._ended = False
        self.text = ""
        self.at = 0

    def more(self) -> bool:
        """Append the next piece; False at the end of the file.

        Pieces grow with what is held, so an element of any size is scanned only a few times.
        """
        held = self.text[self.at :]
        piece = "" if self._ended else self._handle.read(max(_READ_CHARACTERS, len(held)))
        self._ended = not piece
        self.text, self.at = held + piece, 0
        return not self._ended

    def peek(self) -> str:
        """The next character that is not white space, or "" at the end."""
        while True:
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]


def _decode(array: _ArrayText, path: object, count: int) -> Any:
    """Decode the element at ``array.at`` and move behind it."""
    decoder = json.JSONDecoder()
    while True:
        try:
            value, end = decoder.raw_decode(array.text, array.at)
        except json.JSONDecodeError as error:
            if not array.more():
                raise InputError.at(path, f"{_TORN} ({error.msg})", _AGAIN, count) from None
            continue
        except RecursionError:
            raise InputError.at(path, "nested too deeply", _AGAIN, count) from None
        length = end - array.at  # more() moves what is held to the front
        if end == len(array.text) and array.more():
            continue  # a number may go on in the next piece
        array.at += length
        return value


def _elements(handle: TextIO, path: object) -> Iterator[Any]:
    array = _ArrayText(handle)
    if array.peek() != "[":
        raise InputError.at(path, "not a JSON array", "give a Word2World corpus: one array of trajectories")
    array.at += 1
    count = 0
    separator = "]" if array.peek() == "]" else ","
    if separator == "]":
        array.at += 1
    while separator == ",":
        array.peek()
        yield _decode(array, path, count)
        count += 1
        separator = array.peek()
        array.at += 1
        if separator not in (",", "]"):
            raise InputError.at(path, _TORN, _AGAIN, count)
    if array.peek():
        raise InputError.at(path, "text follows the JSON array", _AGAIN, count)


def read_array(path: str | Path) -> Iterator[Any]:
    """Yield the elements of a JSON array file without holding the file in memory.

    Raises InputError when the file is missing, not an array, or torn (the message names the element).
    """
    try:
        with Path(path).open(encoding="utf-8") as handle:
            yield from _elements(handle, path)
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "check the path") from None
    except UnicodeDecodeError as error:
        raise InputError.at(path, f"not UTF-8 ({error.reason})", "give the corpus as UTF-8 JSON") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise InputError.at(path, f"cannot be read ({error})", "give a JSON file") from None


def clean_action(action: str, counts: Counter[str]) -> str:
    """Undo the known artefacts of logged actions, counting each kind in ``counts``."""
    cleaned = action
    if cleaned.startswith("**\n"):
        cleaned = cleaned.removeprefix("**").lstrip()
        counts["leading_bold"] += 1
    fenced = cleaned.rstrip()
    if fenced.endswith("\n```"):
        cleaned = fenced.removesuffix("```").rstrip()
        counts["trailing_fence"] += 1
    if cleaned.strip() != cleaned:
        cleaned = cleaned.strip()
        counts["outer_whitespace"] += 1
    return cleaned


def _messages(element: Any, path: object, row: int) -> list[tuple[str, str]]:
    """(role, content) of an element, its order checked: system, then user and assistant in turn."""
    fix = "give Word2World messages: system, user, assistant, user, …"
    if not isinstance(element, dict) or not isinstance(element.get("messages"), list):
        raise InputError.at(path, "no list of messages", fix, row)
    found: list[tuple[str, str]] = []
    for index, message in enumerate(element["messages"]):
        expected = "system" if index == 0 else ("user" if index % 2 else "assistant")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise InputError.at(path, f"message {index} has no text content", fix, row)
        if message.get("role") != expected:
            problem = f"message {index} has role {message.get('role')!r} where {expected!r} belongs"
            raise InputError.at(path, problem, fix, row)
        found.append((expected, message["content"]))
    if not found:
        raise InputError.at(path, "messages is empty", fix, row)
    return found


def _task_id(domain: str, element: Mapping[str, Any], row: int, report: ImportReport, path: object) -> str:
    identity = element.get("id", element.get("item_id"))
    if identity is None:
        report.missing_ids += 1
        return f"{domain}_element{row}"
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise InputError.at(path, f"id is {type(identity).__name__}", "give an integer or text id", row)
    return identity if isinstance(identity, str) else f"{UPSTREAM_NAMES[domain]}_{identity}"


def _is_success(observation: str) -> bool:
    return observation.endswith(SUCCESS_MARKER) or _MARKER_BEFORE_ACTIONS.search(observation) is not None


def _step(domain: str, action: str, observation: str) -> dict[str, Any]:
    success = _is_success(observation)
    score = _WEBSHOP_SCORE.search(observation) if domain == "webshop" else None
    closed = domain == "textworld" and any(text in observation for text in _CLOSED_GAMES)
    return {
        "action": action,
        "observation": observation,
        "reward": float(score.group(1)) if score else float(success),
        "done": success or closed or score is not None,
        "admissible": admissible_actions(observation),
    }


def import_corpus(
    path: str | Path, domain: str, split: str, report: ImportReport
) -> Iterator[dict[str, Any]]:
    """Yield ``trajectories`` rows of a corpus file, filling ``report``.

    Task id is upstream's item id (``webshop_17``, ``sciworld_41``); trajectory id adds the element's index,
    since ids repeat. The privileged block of ALFWorld and ScienceWorld gets its own column. The reset's
    action block stays in the text. Rewards are 1.0 at the marker (WebShop: the printed score), else 0.0.
    Raises InputError naming the element (0-based) and message for a wrong role order, a marker before the
    last turn, or a step after the end; and for a domain that no corpus is known of.
    """
    domain = known_domain(domain)
    for row, element in enumerate(read_array(path)):
        report.trajectories_in += 1
        messages = _messages(element, path, row)
        task_id = _task_id(domain, element, row, report, path)
        initial, privileged = split_system(messages[0][1])
        turns = messages[1:]
        if len(turns) % 2:
            report.dangling_actions += 1
            turns = turns[:-1]
        steps: list[dict[str, Any]] = []
        for k in range(0, len(turns), 2):
            action = clean_action(turns[k][1], report.actions_normalised)
            if not action or ("\n" in action and domain not in _MULTI_LINE):
                report.trajectories_cut["multi_line_action" if action else "empty_action"] += 1
                report.steps_cut += (len(turns) - k) // 2
                break
            if steps and steps[-1]["done"]:
                problem = f"message {k + 1} follows the end of the episode (message {k})"
                raise InputError.at(path, problem, "cut the trajectory where it ends", row)
            if SUCCESS_MARKER in turns[k + 1][1] and not _is_success(turns[k + 1][1]):
                problem = f"message {k + 2} has{SUCCESS_MARKER} inside its text"
                raise InputError.at(path, problem, "put the marker at the end of the observation", row)
            steps.append(_step(domain, action, turns[k + 1][1]))
        if not steps:
            report.trajectories_dropped["no_step_left"] += 1
            continue
        last = steps[-1]
        success = _is_success(last["observation"])
        goal = goal_of(domain, initial)
        report.trajectories_out += 1
        report.steps_out += len(steps)
        report.successes += success
        yield {
            "trajectory_id": f"{task_id}_{row:06d}",
            "domain": domain,
            "task_id": task_id,
            "split": split,
            "source": "corpus",
            "goal": goal,
            "task_type": task_type_of(domain, goal),
            "initial_observation": initial,
            "privileged": privileged,
            "steps": steps,
            "success": success,
            "score": last["reward"],
        }


def _element(trajectory: Mapping[str, Any], source: object, row: int) -> dict[str, Any]:
    task_id = trajectory["task_id"]
    if any(trajectory[name] is None for name in ("task_id", "initial_observation", "steps")):
        raise InputError.at(source, "a field is null", "drop or repair the trajectory", row)
    name, _, digits = task_id.rpartition("_")
    numbered = digits.isascii() and digits.isdigit() and str(int(digits)) == digits
    plain = numbered and name == UPSTREAM_NAMES.get(trajectory["domain"], trajectory["domain"])
    return {"id": int(digits) if plain else task_id, "messages": world_model_chat(trajectory)}


def export_corpus(path: str | Path, trajectories: Iterable[Mapping[str, Any]], source: object) -> int:
    """Write trajectories as a Word2World corpus, atomically; return their number.

    ``id`` is the number of an upstream item id, or the whole task id where it is another one.
    """
    count = 0
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as handle:
        handle.write("[")
        for row, trajectory in enumerate(trajectories):
            element = _element(trajectory, source, row)
            handle.write(",\n" if count else "\n")
            handle.write(json.dumps(element, ensure_ascii=False, allow_nan=False))
            count += 1
        handle.write("\n]\n")
    return count
