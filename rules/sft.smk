# The tokenizer, the SFT world models, and the agents cloned from demonstrations.


rule tokenizer:
    input:
        trajectories="<results>/collect/{domain}/train/trajectories.parquet",
        demonstrations="<results>/collect/{domain}/train/demonstrations.parquet",
    output:
        tokenizer="<results>/models/{domain}/tokenizer/tokenizer.json",
        settings="<results>/models/{domain}/tokenizer/tokenizer_config.json",
    log:
        "<logs>/tokenizer/{domain}.log",
    benchmark:
        "<benchmarks>/tokenizer/{domain}.tsv"
    priority: 100
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        recipe=lambda w: PLAN.tokenizer_recipe(w.domain),
        folder=subpath(output.tokenizer, parent=True),
        code=fingerprint("wmlab.cli.train:tokenizer"),
    message:
        "Train the tokenizer of {wildcards.domain}"
    shell:
        "python -m wmlab train tokenizer --trajectories {input.trajectories:q}"
        " --demonstrations {input.demonstrations:q} --recipe {params.recipe:q}"
        " --out {params.folder:q} 2>&1 | tee {log:q}"


rule pretrained:
    output:
        weights="<cache>/pretrained/{backbone}/model.safetensors",
        tokenizer="<cache>/pretrained/{backbone}/tokenizer.json",
        settings="<cache>/pretrained/{backbone}/config.json",
    log:
        "<logs>/pretrained/{backbone}.log",
    benchmark:
        "<benchmarks>/pretrained/{backbone}.tsv"
    wildcard_constraints:
        backbone=one_of(name for name in PLAN.config.backbones if PLAN.pretrained(name)),
    priority: 100
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("training"),
    params:
        name=lambda w: PLAN.pretrained(w.backbone).pretrained,
        folder=subpath(output.weights, parent=True),
        code=fingerprint("wmlab.cli.train:pretrained"),
    message:
        "Bring {params.name} into a folder of safetensors"
    shell:
        "python -m wmlab train pretrained --name {params.name:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule sft_world_model:
    input:
        trajectories="<results>/collect/{domain}/train/trajectories.parquet",
        validation="<results>/collect/{domain}/validation/trajectories.parquet",
        tokenizer=lambda w: PLAN.tokenizer(w.domain, w.backbone),
        start=lambda w: PLAN.base(w.backbone),
    output:
        weights="<results>/models/{domain}/{backbone}/sft/seed{seed}/model.safetensors",
        settings="<results>/models/{domain}/{backbone}/sft/seed{seed}/config.json",
        curves="<results>/models/{domain}/{backbone}/sft/seed{seed}/curves.jsonl",
    log:
        "<logs>/sft/{domain}/{backbone}/seed{seed}.log",
    benchmark:
        "<benchmarks>/sft/{domain}/{backbone}/seed{seed}.tsv"
    priority: 95
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("training")
    resources:
        **request("training"),
    params:
        recipe=lambda w: PLAN.sft_recipe(w.domain, w.backbone),
        tokenizer=subpath(input.tokenizer, parent=True),
        start=lambda w, input: folders("--init", input.start),
        checkpoints=lambda w: f"{PLAN.root}/checkpoints/sft/{w.domain}/{w.backbone}/seed{w.seed}",
        folder=subpath(output.weights, parent=True),
        code=fingerprint("wmlab.cli.train:sft"),
    message:
        "Train world model {wildcards.backbone} on {wildcards.domain}"
    shell:
        "python -m wmlab train sft --role world-model --trajectories {input.trajectories:q}"
        " --validation {input.validation:q} --tokenizer {params.tokenizer:q}"
        " {params.start} --recipe {params.recipe:q} --threads {threads} --seed {wildcards.seed}"
        " --checkpoints {params.checkpoints:q} --out {params.folder:q} 2>&1 | tee {log:q}"


rule sft_agent:
    input:
        demonstrations="<results>/collect/{domain}/train/demonstrations.parquet",
        tokenizer=lambda w: PLAN.agent_tokenizer(w.domain, w.agent),
        start=lambda w: PLAN.initial_weights(w.domain, w.agent),
    output:
        weights="<results>/models/{domain}/agents/{agent}/model.safetensors",
        settings="<results>/models/{domain}/agents/{agent}/config.json",
        curves="<results>/models/{domain}/agents/{agent}/curves.jsonl",
    log:
        "<logs>/sft_agent/{domain}/{agent}.log",
    benchmark:
        "<benchmarks>/sft_agent/{domain}/{agent}.tsv"
    priority: lambda w: 90 if w.agent == PLAN.study.reference_agent else 85
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("training")
    resources:
        **request("training"),
    params:
        start=lambda w, input: folders("--init", input.start),
        recipe=lambda w: PLAN.agent_recipe(w.agent),
        tokenizer=subpath(input.tokenizer, parent=True),
        checkpoints=lambda w: f"{PLAN.root}/checkpoints/agents/{w.domain}/{w.agent}",
        folder=subpath(output.weights, parent=True),
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.train:sft"),
    message:
        "Train agent {wildcards.agent} on {wildcards.domain}"
    shell:
        "python -m wmlab train sft --role agent --trajectories {input.demonstrations:q}"
        " --tokenizer {params.tokenizer:q} --recipe {params.recipe:q} --threads {threads}"
        " {params.start} --seed {params.seed} --checkpoints {params.checkpoints:q}"
        " --out {params.folder:q} 2>&1 | tee {log:q}"
