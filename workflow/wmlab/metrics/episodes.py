"""Episodes and task panels: our ``episodes.jsonl``, upstream result folders, the frozen ``panel.json``.

Sources: design.md section 4, formats.md section 1.5 (upstream evaluation outputs). Every error is an
InputError whose one line names the file, the row and the fix.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wmlab.domains.conventions import acknowledgement_of, canonical_item_id
from wmlab.errors import InputError
from wmlab.io.atomic import write_json
from wmlab.io.jsonl import read_jsonl, write_jsonl

MODES = ("real", "wm", "w2r")
STATUSES = ("finished", "step_cap", "error")
W2R_FOLDER = "valid_on_real_env"
DEFAULT_STEP_CAP = 50


@dataclass(frozen=True)
class Episode:
    """One agent, one task, one world. ``reward`` is the last step's; ``success`` is the domain's predicate."""

    item_id: str
    mode: str  # real | wm | w2r
    agent_id: str  # "" when an upstream folder does not say
    model_id: str | None  # None for Real and where an upstream folder does not say
    messages: tuple[
        dict[str, str], ...
    ]  # the agent's view: system, user = observation, assistant = raw output
    actions: tuple[str, ...]  # parsed actions, in order
    reward: float
    score: float | None
    success: bool
    status: str  # finished | step_cap | error
    n_steps: int  # steps taken in the world
    error: str | None
    timing: Mapping[str, float] = field(default_factory=dict)  # seconds
    tokens: Mapping[str, int] = field(default_factory=dict)  # agent, world_model
    task_sha256: str | None = None  # content hash of the task, where the rollout recorded it
    retries: int = 0  # times the environment's process died and the episode was played again
    advice: tuple[Mapping[str, Any], ...] = ()  # skill entries shown: {step from 0, entries: ids}
    plan: tuple[Mapping[str, Any], ...] = ()  # what a planner considered and what it cost, by step from 0

    @property
    def succeeded(self) -> bool:
        """Success that counts: an errored episode is a failure whatever it says."""
        return self.success and self.status != "error"


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "item_id": ((str,), "text"),
    "mode": ((str,), "text"),
    "agent_id": ((str,), "text"),
    "model_id": ((str, type(None)), "text or null"),
    "messages": ((list,), "a list of {role, content}"),
    "actions": ((list,), "a list of texts"),
    "reward": ((int, float), "a finite number"),
    "score": ((int, float, type(None)), "a finite number or null"),
    "success": ((bool,), "true or false"),
    "status": ((str,), "text"),
    "n_steps": ((int,), "a whole number"),
    "error": ((str, type(None)), "text or null"),
    "timing": ((dict,), "an object"),
    "tokens": ((dict,), "an object"),
}


def _problem(row: Mapping[str, Any]) -> str | None:
    """What is wrong with an episodes.jsonl row, or None."""
    for name, (kinds, wanted) in _KINDS.items():
        if name not in row:
            return f"field '{name}' is missing"
        value = row[name]
        boolean = isinstance(value, bool) and bool not in kinds
        infinite = isinstance(value, float) and not math.isfinite(value)
        if boolean or infinite or not isinstance(value, kinds):
            return f"field '{name}' is {json.dumps(value)[:60]}, not {wanted}"
    for name, allowed in (("mode", MODES), ("status", STATUSES)):
        if row[name] not in allowed:
            return f"field '{name}' is '{row[name]}', not one of {', '.join(allowed)}"
    if not row["item_id"]:
        return "field 'item_id' is empty"
    if row["n_steps"] < 0:
        return f"field 'n_steps' is {row['n_steps']}, below 0"
    if not all(isinstance(action, str) for action in row["actions"]):
        return "field 'actions' holds something that is not text"
    if not all(_is_message(message) for message in row["messages"]):
        return "field 'messages' holds something that is not {role, content} of texts"
    if not isinstance(row.get("task_sha256"), str | None):
        return "field 'task_sha256' is not text or null"
    retries = row.get("retries", 0)
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        return "field 'retries' is not a whole number from 0"
    advice = row.get("advice", [])
    if not isinstance(advice, list) or not all(_is_advice(one) for one in advice):
        return "field 'advice' is not a list of {step, entries}"
    plan = row.get("plan", [])
    if not isinstance(plan, list) or not all(_is_planned(one) for one in plan):
        return "field 'plan' is not a list of {step, calls, tokens, …}"
    return None


def _is_advice(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and type(value.get("step")) is int
        and value["step"] >= 0
        and isinstance(value.get("entries"), list)
        and all(isinstance(name, str) for name in value["entries"])
    )


def _is_planned(value: Any) -> bool:
    """Whether counts of a planned step are counts; what else it holds is for people."""
    if not isinstance(value, dict) or type(value.get("step")) is not int or value["step"] < 0:
        return False
    counts = [value.get("calls", {}), value.get("tokens", {})]
    known = all(isinstance(one, dict) for one in counts)
    return known and all(type(n) is int and n >= 0 for one in counts for n in one.values())


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and isinstance(value.get("content"), str)
    )


def _episode(row: Mapping[str, Any]) -> Episode:
    messages = tuple({"role": m["role"], "content": m["content"]} for m in row["messages"])
    chosen = {name: row[name] for name in _KINDS}
    chosen |= {"task_sha256": row.get("task_sha256"), "retries": row.get("retries", 0)}
    chosen |= {"advice": tuple(row.get("advice", ())), "plan": tuple(row.get("plan", ()))}
    return Episode(
        **{**chosen, "messages": messages, "actions": tuple(row["actions"]), "reward": float(row["reward"])}
    )


def read_episodes_jsonl(path: str | Path) -> list[Episode]:
    """Read our ``episodes.jsonl``; a torn last line is dropped, anything else that is wrong is an InputError."""
    episodes: list[Episode] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(read_jsonl(path), start=1):
        problem = _problem(row)
        if problem is not None:
            raise InputError.at(path, problem, "write the fields of the episodes.jsonl contract", number)
        episode = _episode(row)
        if episode.item_id in seen:
            first = seen[episode.item_id]
            raise InputError.at(
                path,
                f"item_id '{episode.item_id}' is already in row {first}",
                "keep one episode a task",
                number,
            )
        seen[episode.item_id] = number
        episodes.append(episode)
    return episodes


def write_episodes_jsonl(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write our ``episodes.jsonl`` atomically; ``task_sha256`` is left out where it is unknown."""
    rows = []
    for episode in episodes:
        row = asdict(episode)
        if row["task_sha256"] is None:
            del row["task_sha256"]
        rows.append(row)
    write_jsonl(path, rows)


def read_episodes(path: str | Path, *modes: str, step_cap: int = DEFAULT_STEP_CAP) -> list[Episode]:
    """Read episodes of one condition from our JSONL file or from an upstream folder.

    A JSONL row whose mode is none of ``modes`` is an InputError; a folder is read as the first of them.
    ``step_cap`` (steps) tells timeouts apart in upstream folders, which do not record why an episode ended.
    """
    if str(path) != "-" and Path(path).is_dir():
        return read_upstream(path, modes[0], step_cap=step_cap)
    episodes = read_episodes_jsonl(path)
    for number, episode in enumerate(episodes, start=1):
        if episode.mode not in modes:
            fix = f"give a file of {modes[0]} episodes"
            raise InputError.at(path, f"mode is '{episode.mode}', '{modes[0]}' was expected", fix, number)
    return episodes


def parse_action(text: str) -> str:
    """Action of a ReAct message as upstream's shared parser reads it (formats.md 2.2).

    The text after the last ``Action:``; without one, the whole text when it holds a web-shop call, else "".
    """
    _, marker, tail = text.rpartition("Action:")
    if marker:
        return tail.strip()
    return text.strip() if "search[" in text or "click[" in text else ""


def read_upstream(folder: str | Path, mode: str, *, step_cap: int = DEFAULT_STEP_CAP) -> list[Episode]:
    """Read an upstream result folder: one ``{task}_{id}.json`` an episode, ``_*.json`` aggregates ignored.

    For ``w2r`` a world-model folder may be given; its ``valid_on_real_env`` is read then.
    """
    root = Path(folder)
    if mode == "w2r" and (root / W2R_FOLDER).is_dir():
        root = root / W2R_FOLDER
    files = sorted(
        p for p in root.glob("*.json") if p.name[0] not in "_." and not p.name.endswith(".meta.json")
    )
    if not files:
        raise InputError.at(
            root, "no {task}_{id}.json in this folder", "give the folder that holds the episodes"
        )
    return [_read_upstream_file(path, mode, step_cap) for path in files]


def _read_upstream_file(path: Path, mode: str, step_cap: int) -> Episode:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError.at(
            path, f"cannot be parsed ({error})", "remove it and run that episode again"
        ) from None
    if not isinstance(data, dict):
        raise InputError.at(path, "not a JSON object", "give one episode a file")
    item_id = data.get("item_id")
    if item_id != path.stem:
        raise InputError.at(
            path, f"item_id is {item_id!r}, the file name says '{path.stem}'", "make them agree"
        )
    note = data.get("note")
    overflow = note if isinstance(note, str) and "context_overflow" in note else None
    failure = overflow or (str(data["error"]) if data.get("error") else None)
    ours = data["wmlab"] if isinstance(data.get("wmlab"), dict) else {}
    messages, actions = _upstream_turns(path, data)
    success = _binary(path, data, "success", default=False if failure else None)
    capped = not success and len(actions) >= step_cap
    row = {
        "item_id": canonical_item_id(item_id),
        "mode": mode,
        "agent_id": ours.get("agent_id", ""),
        "model_id": ours.get("model_id"),
        "messages": messages,
        "actions": ours.get("actions", actions),
        "reward": data.get("reward", 0.0 if failure else None),
        "score": data.get("score"),
        "success": success,
        "status": ours.get("status", "error" if failure else "step_cap" if capped else "finished"),
        "n_steps": ours.get("n_steps", len(actions)),
        "error": failure,
        "timing": ours.get("timing", {}),
        "tokens": ours.get("tokens", {}),
        "task_sha256": ours.get("task_sha256"),
        "retries": ours.get("retries", 0),
        "advice": ours.get("advice", []),
        "plan": ours.get("plan", []),
    }
    problem = _problem(row)
    if problem is not None:
        raise InputError.at(path, problem, "give a result file of the released scripts")
    return _episode(row)


def _binary(path: Path, data: Mapping[str, Any], name: str, default: bool | None) -> bool:
    value = data.get(name, default)
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    raise InputError.at(path, f"'{name}' is {value!r}", "it must be 0.0 or 1.0")


def _upstream_turns(path: Path, data: Mapping[str, Any]) -> tuple[list[dict[str, str]], list[str]]:
    """Messages in our roles and the parsed actions, from either upstream layout."""
    turns = data.get("conversations", data.get("conversation", []))
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise InputError.at(path, "the conversation is not a list of objects", "give it as released")
    if "conversations" not in data:  # W2R and lookahead: one object a step
        messages = []
        for turn in turns:
            raw = str(turn.get("react") or turn.get("chosen_action") or "")
            seen = str(turn.get("env_observation") or turn.get("real_obs_preview") or "")
            messages += [{"role": "assistant", "content": raw}, {"role": "user", "content": seen}]
        raws = [message["content"] for message in messages[::2]]
        return messages, [parse_action(r) if "react" in t else r for t, r in zip(turns, raws, strict=True)]
    messages = [{"role": str(t.get("role", "")), "content": str(t.get("content") or "")} for t in turns]
    if [m["role"] for m in messages[:3]] == ["user", "assistant", "user"]:
        prompt = [{"role": "system", "content": messages[0]["content"]}] if messages[0]["content"] else []
        messages = [*prompt, *messages[2:]]
    return messages, [parse_action(m["content"]) for m in messages if m["role"] == "assistant"]


def write_upstream(folder: str | Path, episodes: Sequence[Episode], *, wm: Sequence[Episode] = ()) -> Path:
    """Export episodes of one mode in upstream's layout and return the folder written.

    ``w2r`` goes to ``folder/valid_on_real_env``; ``wm`` then fills the world-model columns. An output that
    upstream's parser would read as another action gets an ``Action:`` line, so that released scripts replay
    the action that was taken. What upstream has no place for is under the extra key ``wmlab``.
    """
    modes = {episode.mode for episode in episodes}
    if len(modes) != 1:
        raise InputError.at(folder, f"episodes of {len(modes)} modes were given", "export one mode at a time")
    mode = modes.pop()
    root = Path(folder) / W2R_FOLDER if mode == "w2r" else Path(folder)
    predicted = {e.item_id: e for e in wm}
    for episode in episodes:
        if "/" in episode.item_id or "\\" in episode.item_id or episode.item_id[0] in "._":
            raise InputError.at(root, f"item_id '{episode.item_id}' cannot be a file name", "rename the task")
        record: dict[str, Any] = {"item_id": episode.item_id, "reward": episode.reward}
        turns = _exported_turns(episode)
        if mode == "w2r":
            source = predicted.get(episode.item_id)
            record["conversation"] = _replay_steps(turns, source)
            record["world_model_success"] = None if source is None else int(source.succeeded)
        else:
            record["conversations"] = turns
        record["success"] = float(episode.success) if mode == "real" else int(episode.success)
        if mode == "real":
            record["score"] = episode.score
        if episode.error is not None:
            record["note" if "context_overflow" in episode.error else "error"] = episode.error
        kept = ("agent_id", "model_id", "status", "n_steps", "timing", "tokens", "task_sha256", "retries")
        record["wmlab"] = {name: getattr(episode, name) for name in kept}
        record["wmlab"] |= {"actions": list(episode.actions), "advice": list(episode.advice)}
        record["wmlab"]["plan"] = list(episode.plan)
        write_json(root / f"{episode.item_id}.json", record)
    write_json(root / "_metrics.json", _aggregates(mode, episodes))
    return root


def _exported_turns(episode: Episode) -> list[dict[str, str]]:
    """Turns that start with upstream's pair: prompt (empty when there was none) and acknowledgement."""
    messages, actions = list(episode.messages), iter(episode.actions)
    prompt = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    reply = acknowledgement_of(episode.item_id.split("_", 1)[0])
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
    for message in messages:
        content = message["content"]
        action = next(actions, None) if message["role"] == "assistant" else None
        if action is not None and parse_action(content) != action.strip():
            content = (
                f"Action:\n{action}"
                if content.strip() == action.strip()
                else f"{content}\n\nAction:\n{action}"
            )
        turns.append({"role": message["role"], "content": content})
    return turns


def _replay_steps(turns: list[dict[str, str]], wm: Episode | None) -> list[dict[str, str | None]]:
    body = turns[2:]
    predictions = [m["content"] for m in (wm.messages if wm else ()) if m["role"] == "user"][1:]
    steps: list[dict[str, str | None]] = []
    for here, turn in enumerate(body):
        if turn["role"] == "assistant":
            after = body[here + 1]["content"] if here + 1 < len(body) else ""
            guess = predictions[len(steps)] if len(steps) < len(predictions) else None
            steps.append(
                {"react": turn["content"], "world_model_observation": guess, "env_observation": after}
            )
    return steps


def _aggregates(mode: str, episodes: Sequence[Episode]) -> dict[str, Any]:
    """``_metrics.json`` with upstream's keys and units: percent for Real and WM, a fraction for W2R."""
    total, won = len(episodes), sum(e.succeeded for e in episodes)
    errors = sum(e.status == "error" for e in episodes)
    percent = round(100 * won / total, 2)
    if mode == "real":
        seconds = sum(e.timing.get("seconds", 0.0) for e in episodes)
        return {
            "accuracy": percent,
            "success": won,
            "api_errors": errors,
            "total": total,
            "time_seconds": seconds,
        }
    if mode == "wm":
        named = {"task": episodes[0].item_id.rsplit("_", 1)[0], "agent_model": episodes[0].agent_id}
        counts = {"total_items": total, "total_success": won, "processed_items": total}
        return {**named, **counts, "accuracy": percent, "api_errors": errors}
    return {
        "total": total,
        "processed": total - errors,
        "success": won,
        "errors": errors,
        "accuracy": won / total,
    }
