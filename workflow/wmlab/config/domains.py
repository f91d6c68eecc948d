"""Section ``domains``: frozen task panels and the trajectories collected on them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wmlab.config.recipes import CollectRecipe
from wmlab.config.section import Count, Section

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
PUBLISHED_TASKS = 200


class Games(Section):
    """A run of games by seed, and how much is collected on each."""

    first_seed: Count = Field(description="seed of the first game")
    games: Count = Field(description="number of games")
    trajectories_per_game: Count = Field(description="trajectories collected on each game")


class TestGames(Section):
    """The published test tasks: seeds 1 to ``tasks``."""

    tasks: Annotated[int, Field(ge=1, le=PUBLISHED_TASKS)] = Field(
        description="test tasks: seeds 1 to this number"
    )
    trajectories_per_game: Count = Field(description="held-out trajectories collected on each task")


class TextWorld(Section):
    """TextWorld's tw-simple games."""

    test: TestGames
    train: Games
    validation: Games
    collect: CollectRecipe = Field(
        description="how they are played; trajectories_per_game comes from the split"
    )

    def games(self, split: Split) -> Games:
        """The seeds of ``split``."""
        if split == "test":
            return Games(
                first_seed=1, games=self.test.tasks, trajectories_per_game=self.test.trajectories_per_game
            )
        return self.train if split == "train" else self.validation

    def collection(self, split: Split) -> CollectRecipe:
        """What ``wmlab data collect --recipe`` takes; only training games get demonstrations."""
        changed: dict[str, int] = {"trajectories_per_game": self.games(split).trajectories_per_game}
        if split != "train":
            changed["demonstrations_per_game"] = 0
        return self.collect.model_copy(update=changed)


class Domains(Section):
    """One entry a domain."""

    textworld: TextWorld
