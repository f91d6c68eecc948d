"""``wmlab train``: the tokenizer, supervised fine-tuning, GRPO."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import Memory, MemoryRecipeText, ReferenceCache, ReferenceModel, ReferenceUrls

app = typer.Typer(help="Tokenizer, supervised training, GRPO.", no_args_is_help=True)

RecipeText = Annotated[
    str, typer.Option("--recipe", help="JSON, or a JSON file: keys of the study's section.")
]
OutDir = Annotated[Path, typer.Option("--out", help="Model folder to write.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="CPU threads.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of initial weights and data order.")]
Checkpoints = Annotated[
    Path | None, typer.Option("--checkpoints", help="Folder of the resumable checkpoint.")
]


@app.command()
def tokenizer(
    trajectories: Annotated[
        Path, typer.Option("--trajectories", help="trajectories.parquet of the training split.")
    ],
    out: OutDir,
    demonstrations: Annotated[
        Path | None, typer.Option("--demonstrations", help="demonstrations.parquet")
    ] = None,
    recipe: RecipeText = "{}",
) -> None:
    """Train the BPE tokenizer that all models of a domain share.

    Example: wmlab train tokenizer --trajectories trajectories.parquet --out tokenizer
    """
    from wmlab.config.recipes import TokenizerRecipe, load_recipe
    from wmlab.data.decompose import world_model_chat
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table
    from wmlab.lm.build import save_folder
    from wmlab.lm.tokenizer import train_tokenizer
    from wmlab.memory.prompt import phrases

    started = time.time()
    settings = load_recipe(TokenizerRecipe, recipe)
    rows = read_table(trajectories, "trajectories")
    texts = [m["content"] for row in rows for m in world_model_chat(row)]
    inputs = [trajectories]
    if demonstrations is not None:
        texts += [
            m["content"] for row in read_table(demonstrations, "demonstrations") for m in row["messages"]
        ]
        inputs.append(demonstrations)
    said = [phrase for domain in sorted({row["domain"] for row in rows}) for phrase in phrases(domain)]
    trained = train_tokenizer(texts, settings, said)
    save_folder(out, trained.save_pretrained)
    write_meta(
        out / "tokenizer.json", config=settings.model_dump(), seed=None, inputs=inputs, started=started
    )
    print(f"{out}: {len(trained)} entries")


@app.command()
def pretrained(
    name: Annotated[str, typer.Option("--name", help="smollm2-135m, or a model folder.")],
    out: OutDir,
) -> None:
    """Bring a pretrained model into a folder of fp32 safetensors with its tokenizer.

    Example: wmlab train pretrained --name smollm2-135m --out models/smollm2
    """
    from wmlab.io.provenance import write_meta
    from wmlab.lm.pretrained import materialise

    started = time.time()
    inputs = materialise(name, out)
    write_meta(out / "model.safetensors", config={"name": name}, seed=None, inputs=inputs, started=started)
    print(f"{out}: {name}")


@app.command()
def sft(
    role: Annotated[
        str, typer.Option("--role", help="world-model (trajectories) or agent (demonstrations).")
    ],
    trajectories: Annotated[
        Path, typer.Option("--trajectories", help="trajectories.parquet or demonstrations.parquet.")
    ],
    tokenizer: Annotated[Path, typer.Option("--tokenizer", help="Tokenizer folder.")],
    recipe: RecipeText,
    out: OutDir,
    validation: Annotated[
        Path | None, typer.Option("--validation", help="The same kind of file, held out.")
    ] = None,
    init: Annotated[
        Path | None, typer.Option("--init", help="Start from this model folder's weights.")
    ] = None,
    threads: Threads = 1,
    seed: Seed = 0,
    checkpoints: Checkpoints = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
) -> None:
    """Fine-tune a world model on trajectories, or an agent on demonstrations.

    Example: wmlab train sft --role world-model --trajectories t.parquet --tokenizer tok --recipe sft.json --out wm
    """
    from wmlab.training.sft_stage import run_sft

    run_sft(
        *(role, trajectories, tokenizer, recipe, out, validation, init, threads, seed, checkpoints),
        *(memory, memory_recipe),
    )


@app.command()
def grpo(
    model: Annotated[Path | None, typer.Option("--model", help="SFT checkpoint to start from.")] = None,
    transitions: Annotated[
        Path | None, typer.Option("--transitions", help="Filtered transitions.parquet.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option("--reward", help="Name in the reward registry, e.g. behr, f1, em.")
    ] = None,
    recipe: RecipeText = "{}",
    out: Annotated[Path | None, typer.Option("--out", help="Model folder to write.")] = None,
    validation: Annotated[
        Path | None, typer.Option("--validation", help="Held-out transitions.parquet.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", help="paper, released-code-webshop, memwm-alfworld, …; --recipe changes it."
        ),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Reference agent's folder, for behr rewards.")
    ] = None,
    reference_url: ReferenceUrls = None,
    reference_model: ReferenceModel = None,
    reference_cache: ReferenceCache = None,
    threads: Threads = 1,
    seed: Seed = 0,
    checkpoints: Checkpoints = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    show: Annotated[bool, typer.Option("--print", help="Print reward and recipe, train nothing.")] = False,
) -> None:
    """Train a world model with GRPO on a reward.

    Example: wmlab train grpo --model wm --transitions f.parquet --validation v.parquet --reward behr
    --reference agent --recipe grpo.json --out wm-behr
    """
    from wmlab.training.grpo_stage import print_grpo, run_grpo

    if show:
        print_grpo(reward, recipe, preset)
        return
    run_grpo(
        *(model, transitions, reward, recipe, out, validation, reference, threads, seed, checkpoints),
        *(memory, memory_recipe, reference_url or (), reference_model, reference_cache, preset),
    )


@app.command()
def verl(
    preset: Annotated[
        str, typer.Option("--preset", help="paper, released-code-webshop, memwm-alfworld, …")
    ] = "paper",
    recipe: Annotated[
        str, typer.Option("--recipe", help="JSON, or a JSON file: what differs from it.")
    ] = "{}",
    model: Annotated[
        str | None, typer.Option("--model", help="SFT checkpoint to start from: folder or hub name.")
    ] = None,
    train: Annotated[Path | None, typer.Option("--train", help="Parquet of `wmlab data verl`.")] = None,
    validation: Annotated[Path | None, typer.Option("--validation", help="The same, held out.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Reference agent's folder, for behr rewards.")
    ] = None,
    reference_url: ReferenceUrls = None,
    reference_model: ReferenceModel = None,
    show: Annotated[bool, typer.Option("--print", help="Print the recipe, write nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Let verl check the configuration (in verl's environment).")
    ] = False,
    done: Annotated[
        bool, typer.Option("--done", help="Check that a run did all its steps, write nothing else.")
    ] = False,
    merge: Annotated[
        Path | None,
        typer.Option("--merge", help="With --done: folder for its merged model (in verl's environment)."),
    ] = None,
) -> None:
    """Write what trains a world model with GRPO by verl: recipe.json, overrides.txt, launch.sh.

    Example: wmlab train verl --preset paper --model w2w --train grpo_train.parquet --validation val.parquet
    --reference qwen3-8b --reference-url http://127.0.0.1:8000/v1 --out runs/behr
    """
    from wmlab.training.verl_stage import run_verl

    run_verl(
        *(preset, recipe, model, train, validation, out, reference, reference_url or (), reference_model),
        show=show,
        check=check,
        done=done,
        merge=merge,
    )


@app.command("sft-cluster")
def sft_cluster(
    engine: Annotated[str, typer.Option("--engine", help="verl or llama-factory.")] = "verl",
    recipe: Annotated[
        str, typer.Option("--recipe", help="JSON, or a JSON file: what differs from Word2World's recipe.")
    ] = "{}",
    model: Annotated[
        str | None, typer.Option("--model", help="Base model to start from: folder or hub name.")
    ] = None,
    trajectories: Annotated[
        Path | None, typer.Option("--trajectories", help="trajectories.parquet of the training split.")
    ] = None,
    validation: Annotated[Path | None, typer.Option("--validation", help="The same, held out.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer", help="Folder that counts a block's tokens; without it 4 characters are one."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Print the recipe, write nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Let verl check the configuration (in verl's environment).")
    ] = False,
    done: Annotated[bool, typer.Option("--done", help="Check that a run did all its steps.")] = False,
    merge: Annotated[
        Path | None,
        typer.Option(
            "--merge", help="Folder for the merged model of a run that is done (in verl's environment)."
        ),
    ] = None,
) -> None:
    """Write what fine-tunes a world model on a cluster: data, recipe.json, launch.sh.

    Example: wmlab train sft-cluster --engine verl --model qwen2.5-7b --trajectories train.parquet --out runs/w2w
    """
    from wmlab.training.sft_cluster import run_sft_cluster

    run_sft_cluster(
        *(engine, recipe, model, trajectories, validation, out, memory, memory_recipe, tokenizer),
        show=show,
        check=check,
        done=done,
        merge=merge,
    )
