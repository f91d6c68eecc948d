"""Tiny domains in the text formats of the four servers: no engine, importable by worker processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.domains.conventions import item_number, with_page_actions, with_reset_actions
from wmlab.errors import EnvironmentFailure, InputError

TASKS = 50


@dataclass(frozen=True)
class ToyDomain:
    """Task n is won by saying ``press`` n mod 3 + 1 times; WebShop's by ``click[buy now]`` after ``search[...]``."""

    name: str

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        return [f"{self.name}_{number}" for number in range(first, first + n)]

    def open(self, *, every_step: bool = False, expert: bool = False) -> ToyEnvironment:
        return ToyEnvironment(self.name)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        return "press"


class ToyEnvironment:
    privileged = None
    task_type = "toy"

    def __init__(self, name: str) -> None:
        self.name = name
        self.pressed = self.needed = 0
        self.actions = ["press", "wait"]

    def load(self, task_id: str) -> Task:
        number = item_number(self.name, task_id)
        if number >= TASKS:
            raise InputError(f"{task_id}: no such task")
        self.pressed, self.needed = 0, number % 3 + 1
        goal = f"press {self.needed} times in world {number}."
        if self.name == "webshop":
            page = f"WebShop [SEP] Instruction: [SEP] {goal} [SEP] Search"
            return Task(task_id, self.name, goal, with_page_actions(page, self.clicks(True)))
        said = f"Your task is to {goal}" if self.name == "scienceworld" else f"Your task is to: {goal}"
        if self.name == "textworld":
            return Task(
                task_id,
                self.name,
                goal,
                with_reset_actions("textworld", f"{goal}\n\n-= Room =-", self.actions),
            )
        if self.name == "alfworld":
            text = with_reset_actions("alfworld", f"You see a button 1.\n{said}", self.actions)
            return Task(task_id, self.name, goal, text)
        goal = f"Task Description:\n{said}"
        return Task(task_id, self.name, goal, f"{goal}\nThis room is called the hall.\n\ta button")

    def clicks(self, bar: bool) -> list[str]:
        return (
            ["search[<your query>]", "click[search]"] if bar else ["click[back to search]", "click[buy now]"]
        )

    def reset(self, task: Task) -> Observation:
        listed: Any = None if self.name == "scienceworld" else tuple(self.actions)
        return Observation(
            task.initial_observation, tuple(self.clicks(True)) if self.name == "webshop" else listed
        )

    def expert(self) -> list[str]:
        return ["press"] * (self.needed - self.pressed)

    def step(self, action: str) -> Step:
        if action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "hang":
            time.sleep(30)
        if action == "fail":
            raise EnvironmentFailure("the toy broke")
        if self.name == "webshop":
            return self.shop(action)
        self.pressed += action == "press"
        won = self.pressed == self.needed
        listed = None if self.name == "scienceworld" else tuple(self.actions)
        text = f"Pressed {self.pressed} of {self.needed} (você: {action})."
        reward = 100 / self.needed if self.name == "scienceworld" else float(won)
        return Step(
            text + SUCCESS_MARKER if won else text, reward if action == "press" else 0.0, won, won, listed
        )

    def shop(self, action: str) -> Step:
        if action == "click[buy now]":
            won = self.pressed == self.needed
            reward = 1.0 if won else 0.5
            page = f"Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] {reward}"
            return Step(page + SUCCESS_MARKER if won else page, reward, True, won, ())
        self.pressed += action.startswith("search[")
        clicks = self.clicks(False)
        return Step(with_page_actions(f"Results [SEP] {action}", clicks), 0.0, False, False, tuple(clicks))

    def fork(self) -> ToyEnvironment:
        raise EnvironmentFailure("toys do not fork")

    def close(self) -> None:
        return
