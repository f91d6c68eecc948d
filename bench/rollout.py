"""Lock-step rollouts against one episode at a time: the same agent, world model and tasks in one process.

    python bench/rollout.py --agent-model results/study/models/textworld/agents/clone-large \
        --model results/study/models/textworld/tiny/sft/seed0 --panel results/study/panels/textworld/test.json

Both runs must give the same actions; CPU seconds are printed beside wall seconds, for machines that are not quiet.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from wmlab.agents.language_model import ChoosingAgent
from wmlab.domains.panels import read_panel
from wmlab.domains.world_model import WorldModelBatch
from wmlab.lm.chat import LocalChat
from wmlab.lm.hf import HFModel
from wmlab.rollout.engine import rollout


def main() -> None:
    """Play the panel with each batch size and print episodes a second."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--agent-model", type=Path, required=True)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--panel", type=Path, required=True)
    options.add_argument("--tasks", type=int, default=32)
    options.add_argument("--step-cap", type=int, default=30)
    given = options.parse_args()
    torch.set_num_threads(1)
    tasks = read_panel(given.panel)[: given.tasks]
    speed, acted = {}, {}
    for batch in (len(tasks), 1):
        agent = ChoosingAgent(HFModel.load(given.agent_model), tasks[0].domain)
        world = WorldModelBatch(LocalChat(HFModel.load(given.model), 256))
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = time.perf_counter(), time.process_time()
            rows = rollout(
                world, agent, tasks, mode="wm", agent_id="a", model_id="m", step_cap=given.step_cap,
                out=Path(folder) / "e.jsonl", batch_size=batch,
            )  # fmt: skip
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        speed[batch] = len(rows) / cpu
        acted[batch] = [row["actions"] for row in rows]
        print(f"batch {batch}: {len(rows) / wall:.3f} episodes/s, {len(rows) / cpu:.3f} episodes/CPU-s")
    same = sum(one == other for one, other in zip(acted[len(tasks)], acted[1], strict=True))
    print(
        f"ratio {speed[len(tasks)] / speed[1]:.2f} by CPU time; {same} of {len(tasks)} episodes with the same actions"
    )


if __name__ == "__main__":
    main()
