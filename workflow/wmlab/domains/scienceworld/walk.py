"""The expert after a detour: where an episode stands on its frozen gold path, and the way back to it.

Best effort, from text alone: strays that moved the agent, closed a door or switched a device are undone
in reverse order, then the path goes on where it was left. What cannot be undone (poured, eaten, moved
elsewhere) is tried anyway. When a gold action is refused that its own replay saw accepted, or the goals
were reset, the path counts as lost.
"""

from __future__ import annotations

from wmlab.domains.scienceworld.gold import Gold
from wmlab.domains.scienceworld.text import is_refusal, menu_options, room_of

CANCEL = "cancel"
"""Closes a menu, as any text does that is not one of its numbers."""
_INVERSE = {"close": "open", "activate": "deactivate", "deactivate": "activate", "pick up": "put down"}


class Walk:
    """One episode along a gold path."""

    def __init__(self, gold: Gold, first_observation: str) -> None:
        self._gold = gold
        self._position = 0
        self._undo: list[str] = []
        self._menu: dict[str, str] = {}
        self._chosen = False  # the open menu is one the path opens
        self._room = room_of(first_observation)
        self.lost = not gold.finished

    def remaining(self) -> list[str]:
        """Actions from here to success; [] when the path is lost."""
        if self.lost:
            return []
        rest = list(self._gold.actions[self._position :])
        if self._menu and not self._chosen:
            return [CANCEL, *reversed(self._undo), *rest]
        return [*reversed(self._undo), *rest]

    def record(self, action: str, observation: str) -> None:
        """Take in one action of the episode and its answer."""
        menu, chosen = self._menu, self._chosen
        self._menu, self._chosen = menu_options(observation), False
        if self.lost:
            return
        planned = self._gold.actions[self._position] if self._position < len(self._gold.actions) else None
        if action == planned and not self._undo and (chosen or not menu):
            if is_refusal(observation) and self._position not in self._gold.refused:
                self.lost = True
            self._position += 1
            self._chosen = bool(self._menu)
        elif not menu and self._undo and action == self._undo[-1]:
            self._undo.pop()
            self.lost = is_refusal(observation)
        else:
            self._stray(menu.get(action, "") if menu else action, observation)
            if chosen:  # the path's menu is gone: open it again
                self._position -= 1
        self._room = room_of(observation) or self._room

    def _stray(self, action: str, observation: str) -> None:
        if not action or is_refusal(observation):
            return
        moved = room_of(observation)
        if action == "reset task":
            self.lost = True
        elif moved is not None and observation.startswith("You move to"):
            if self._room is not None and moved != self._room:
                self._undo.append(f"go to {self._room}")
        else:
            for verb, inverse in _INVERSE.items():
                if action.startswith(f"{verb} "):
                    self._undo.append(f"{inverse} {action.removeprefix(verb).strip()}")
