"""Options that several commands share: the models a metric may need, a world model's memory, an agent's skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Encoder = Annotated[
    Path | None, typer.Option("--encoder", help="Folder of a transformers encoder, for BERTScore.")
]
EncoderLayer = Annotated[
    int | None, typer.Option("--encoder-layer", min=0, help="Its layer to compare; default: the last.")
]
ExtractorKind = Annotated[
    str,
    typer.Option("--extractor", help="Who reads the facts: rules, llm, or hybrid (llm where no rule does)."),
]
ExtractorUrl = Annotated[
    str | None, typer.Option("--extractor-url", help="OpenAI-compatible server, …/v1, for llm and hybrid.")
]
ExtractorModel = Annotated[
    str | None, typer.Option("--extractor-model", help="Model to ask there; the key: OPENAI_API_KEY.")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", help="File (SQLite) that keeps a model's answers by their content.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, help="Requests to a model that are under way at once.")
]
ReferenceUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--reference-url",
        help="OpenAI-compatible server, …/v1, that scores for the reference agent; repeatable.",
    ),
]
ReferenceModel = Annotated[
    str | None, typer.Option("--reference-model", help="Its name there; default: the folder's name.")
]
ReferenceCache = Annotated[
    Path | None, typer.Option("--reference-cache", help="File (SQLite) of scores that runs share.")
]
Memory = Annotated[Path | None, typer.Option("--memory", help="Bank whose blocks the world model is shown.")]
MemoryRecipeText = Annotated[
    str, typer.Option("--memory-recipe", help="JSON, or a JSON file: budget, position, dropout.")
]
Skills = Annotated[
    list[Path] | None, typer.Option("--skills", help="Skill bank that the agent reads; repeatable.")
]
SkillRecipeText = Annotated[
    str, typer.Option("--skills-recipe", help="JSON, or a JSON file: task_budget, step_budget, most_rules.")
]
MemoryPanels = Annotated[
    list[Path] | None,
    typer.Option("--exclude-panel", help="Panel whose tasks no memory may come from; repeatable."),
]
