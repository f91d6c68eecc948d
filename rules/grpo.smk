# GRPO from the SFT checkpoint, one job a method and seed.


rule grpo:
    input:
        sft=lambda w: PLAN.start_weights(w.domain, w.backbone, w.method, w.seed),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
        transitions="<results>/filter/{domain}/{backbone}/transitions.parquet",
        validation="<results>/decompose/{domain}/validation/transitions.parquet",
        reference=lambda w: PLAN.reference_weights(w.domain, w.method),
    output:
        weights="<results>/models/{domain}/{backbone}/{method}/seed{seed}/model.safetensors",
        settings="<results>/models/{domain}/{backbone}/{method}/seed{seed}/config.json",
        curves="<results>/models/{domain}/{backbone}/{method}/seed{seed}/curves.jsonl",
        heldout="<results>/models/{domain}/{backbone}/{method}/seed{seed}/heldout.json",
    log:
        "<logs>/grpo/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/grpo/{domain}/{backbone}/{method}/seed{seed}.tsv"
    wildcard_constraints:
        method=one_of(PLAN.config.methods),
    priority: 80
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("training")
    resources:
        **request("training"),
    params:
        reward=lambda w: PLAN.config.methods[w.method].reward,
        recipe=lambda w: PLAN.grpo_recipe(w.domain, w.method),
        sft=subpath(input.sft, parent=True),
        reference=subpath(input.reference, parent=True),
        server=beside_reference("grpo"),
        asked=asking_reference("grpo"),
        bank=banks("--memory", "memory"),
        shown=shown(training=True),
        checkpoints=lambda w: f"{PLAN.root}/checkpoints/grpo/{w.domain}/{w.backbone}/{w.method}/seed{w.seed}",
        folder=subpath(output.weights, parent=True),
        code=lambda w: fingerprint(
            "wmlab.cli.train:grpo", *modules_of(w.domain, *PLAN.reward_parts(w.method))
        ),
    message:
        "Train {wildcards.backbone} with reward {params.reward}, seed {wildcards.seed}"
    shell:
        "{params.server} python -m wmlab train grpo --model {params.sft:q} --transitions {input.transitions:q}"
        " --validation {input.validation:q} --reference {params.reference:q} {params.asked}"
        " --reward {params.reward} --recipe {params.recipe:q} {params.bank} {params.shown}"
        " --threads {threads} --seed {wildcards.seed} --checkpoints {params.checkpoints:q}"
        " --out {params.folder:q} 2>&1 | tee {log:q}"
