# World memory: a bank a domain and backbone, the models that learn to read it, and what it gives them.


localrules:
    memory,
    memory_online,


rule memory:
    input:
        PLAN.gains(),
        PLAN.memory_exports(),
        PLAN.memory_reports(),


rule memory_bank:
    input:
        transitions="<results>/decompose/{domain}/train/transitions.parquet",
        predictions=lambda w: PLAN.bank_predictions(w.domain, w.backbone),
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        bank="<results>/memory/{domain}/{backbone}/bank.jsonl",
    log:
        "<logs>/memory_bank/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/memory_bank/{domain}/{backbone}.tsv"
    priority: 80
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        predictions=lambda w, input: repeated("--predictions", input.predictions),
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        curator=options_of(PLAN.curator()),
        min_support=PLAN.config.memory.min_support,
        code=domain_code("wmlab.cli.memory:build", "ssf"),
    message:
        "Build the world memory of {wildcards.backbone} in {wildcards.domain}"
    shell:
        "python -m wmlab memory build --domain {wildcards.domain}"
        " --transitions {input.transitions:q} {params.predictions} {params.exclude}"
        " {params.curator} --min-support {params.min_support} --out {output.bank:q}"
        " 2>&1 | tee {log:q}"


rule sft_with_memory:
    input:
        trajectories="<results>/collect/{domain}/train/trajectories.parquet",
        validation="<results>/collect/{domain}/validation/trajectories.parquet",
        tokenizer=lambda w: PLAN.tokenizer(w.domain, w.backbone),
        start=lambda w: PLAN.reader_start(w.domain, w.backbone),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
    output:
        weights="<results>/models/{domain}/{backbone}/{method}/seed{seed}/model.safetensors",
        settings="<results>/models/{domain}/{backbone}/{method}/seed{seed}/config.json",
        curves="<results>/models/{domain}/{backbone}/{method}/seed{seed}/curves.jsonl",
    log:
        "<logs>/sft_with_memory/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/sft_with_memory/{domain}/{backbone}/{method}/seed{seed}.tsv"
    wildcard_constraints:
        method=one_of([MEMORY_METHOD, CONTROL_METHOD]),
    priority: 80
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("training")
    resources:
        **request("training"),
    params:
        recipe=lambda w: PLAN.reader_recipe(w.domain, w.backbone),
        tokenizer=subpath(input.tokenizer, parent=True),
        start=lambda w, input: folders("--init", input.start),
        bank=banks("--memory", "memory"),
        shown=shown(training=True),
        checkpoints=lambda w: f"{PLAN.root}/checkpoints/sft/{w.domain}/{w.backbone}/{w.method}/seed{w.seed}",
        folder=subpath(output.weights, parent=True),
        code=fingerprint("wmlab.cli.train:sft"),
    message:
        "Train {wildcards.method} in {wildcards.domain}, seed {wildcards.seed}"
    shell:
        "python -m wmlab train sft --role world-model --trajectories {input.trajectories:q}"
        " --validation {input.validation:q} --tokenizer {params.tokenizer:q}"
        " {params.start} --recipe {params.recipe:q} {params.bank} {params.shown} --threads {threads}"
        " --seed {wildcards.seed} --checkpoints {params.checkpoints:q} --out {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule verl_export_with_memory:
    input:
        transitions="<results>/filter/{domain}/{backbone}/transitions.parquet",
        memory="<results>/memory/{domain}/{backbone}/bank.jsonl",
        tokenizer=lambda w: PLAN.tokenizer(w.domain, w.backbone),
    output:
        records="<results>/filter/{domain}/{backbone}/mem_grpo_train.parquet",
    log:
        "<logs>/verl_export_with_memory/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/verl_export_with_memory/{domain}/{backbone}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        tokenizer=subpath(input.tokenizer, parent=True),
        bank=banks("--memory", "memory"),
        shown=shown(training=True),
        code=fingerprint("wmlab.cli.data:verl"),
    message:
        "Export the filtered transitions of {wildcards.domain} for verl, with memory"
    shell:
        "python -m wmlab data verl --transitions {input.transitions:q} {params.bank} {params.shown}"
        " --tokenizer {params.tokenizer:q} --out {output.records:q} 2>&1 | tee {log:q}"


rule predict_with_memory:
    input:
        weights=lambda w: PLAN.weights(w.domain, w.backbone, w.method, w.seed),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/predictions.parquet",
        without="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/without_memory.parquet",
        records="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/retrieval.jsonl",
    log:
        "<logs>/predict/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/predict/{domain}/{backbone}/{method}/seed{seed}.tsv"
    wildcard_constraints:
        method=one_of(filter(PLAN.with_memory, PLAN.defined)),
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        model=subpath(input.weights, parent=True),
        limit=lambda w: PLAN.evaluation(w.domain).transitions,
        bank=banks("--memory", "memory"),
        shown=shown(training=False),
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.predict:states"),
    message:
        "Predict held-out states with {wildcards.method}, seed {wildcards.seed}, and without memory"
    shell:
        "python -m wmlab predict states --model {params.model:q}"
        " --transitions {input.transitions:q} --limit {params.limit} --seed {params.seed}"
        " {params.bank} {params.shown} {params.exclude} --records {output.records:q}"
        " --without {output.without:q} --threads {threads} --out {output.predictions:q}"
        " 2>&1 | tee {log:q}"


rule memory_removal:
    input:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/predictions.parquet",
        without="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/without_memory.parquet",
        records="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/retrieval.jsonl",
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
    output:
        removal="<results>/memory/{domain}/{backbone}/{method}/seed{seed}/removal.json",
    log:
        "<logs>/memory_removal/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/memory_removal/{domain}/{backbone}/{method}/seed{seed}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        shares=",".join(str(share) for share in PLAN.config.memory.shares),
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.memory:removal", "ssf"),
    message:
        "Compare {wildcards.method}, seed {wildcards.seed}, with itself without memory"
    shell:
        "python -m wmlab memory removal --predictions {input.predictions:q}"
        " --without {input.without:q} --records {input.records:q}"
        " --transitions {input.transitions:q} --shares {params.shares} --seed {params.seed}"
        " --out {output.removal:q} 2>&1 | tee {log:q}"


rule memory_gain:
    input:
        removals=lambda w: PLAN.seeds_of(
            "memory", w.domain, w.backbone, w.method, "removal.json"
        ),
        plain=lambda w: PLAN.plain_predictions(w.domain, w.backbone, w.method),
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
    output:
        gain="<results>/memory/{domain}/{backbone}/{method}/gain.json",
    log:
        "<logs>/memory_gain/{domain}/{backbone}/{method}.log",
    benchmark:
        "<benchmarks>/memory_gain/{domain}/{backbone}/{method}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        removals=lambda w, input: repeated("--removal", input.removals),
        plain=lambda w, input: repeated("--plain", input.plain),
        method=lambda w: options_of({"plain-method": PLAN.plain(w.method)}),
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.memory:gain", "ssf"),
    message:
        "Tell what memory gives {wildcards.method} in {wildcards.domain}"
    shell:
        "python -m wmlab memory gain {params.removals} {params.plain} {params.method}"
        " --transitions {input.transitions:q} --seed {params.seed} --out {output.gain:q}"
        " 2>&1 | tee {log:q}"


rule memory_tables:
    input:
        summaries=PLAN.summaries(),
        removals=PLAN.removals(),
        gains=PLAN.gains(),
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=MEMORY_TABLES,
            kind=["csv", "md", "tex", "json"],
        ),
    log:
        "<logs>/memory_tables.log",
    benchmark:
        "<benchmarks>/memory_tables.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        summaries=lambda w, input: repeated("--scores", input.summaries),
        removals=lambda w, input: repeated("--removals", input.removals),
        gains=lambda w, input: repeated("--gains", input.gains),
        methods=",".join(PLAN.study.methods),
        only=",".join(MEMORY_TABLES),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the tables of world memory"
    shell:
        "python -m wmlab report tables {params.summaries} {params.removals} {params.gains}"
        " --methods {params.methods} --only {params.only} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule memory_figures:
    input:
        gains=PLAN.gains(),
    output:
        expand(
            "<results>/figures/{name}.{kind}",
            name=MEMORY_FIGURES,
            kind=["pdf", "svg", "csv"],
        ),
    log:
        "<logs>/memory_figures.log",
    benchmark:
        "<benchmarks>/memory_figures.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        gains=lambda w, input: repeated("--gains", input.gains),
        only=",".join(MEMORY_FIGURES),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:figures"),
    message:
        "Draw the figures of world memory"
    shell:
        "python -m wmlab report figures {params.gains} --only {params.only}"
        " --out-dir {params.folder:q} 2>&1 | tee {log:q}"


rule memory_online:
    input:
        PLAN.online_gains(),


rule predict_online:
    input:
        weights=lambda w: PLAN.weights(w.domain, w.backbone, w.method, w.seed),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/online.parquet",
        bank="<results>/memory/{domain}/{backbone}/{method}/seed{seed}/online.jsonl",
    log:
        "<logs>/predict_online/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/predict_online/{domain}/{backbone}/{method}/seed{seed}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        model=subpath(input.weights, parent=True),
        limit=lambda w: PLAN.evaluation(w.domain).transitions,
        bank=banks("--memory", "memory"),
        shown=shown(training=False),
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.predict:states", "ssf"),
    message:
        "Predict held-out states with {wildcards.method}, seed {wildcards.seed}, whose memory grows"
    shell:
        "python -m wmlab predict states --model {params.model:q}"
        " --transitions {input.transitions:q} --limit {params.limit} --seed {params.seed}"
        " {params.bank} {params.shown} {params.exclude} --online {output.bank:q} --threads {threads}"
        " --out {output.predictions:q} 2>&1 | tee {log:q}"


# The same comparison as a removal: with what was executed, and with the study's bank alone.
use rule memory_removal as online_gain with:
    input:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/online.parquet",
        without="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/predictions.parquet",
        records="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/retrieval.jsonl",
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
    output:
        removal="<results>/memory/{domain}/{backbone}/{method}/seed{seed}/online.json",
    log:
        "<logs>/online_gain/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/online_gain/{domain}/{backbone}/{method}/seed{seed}.tsv"
    message:
        "Compare {wildcards.method}, seed {wildcards.seed}, with itself when its memory grows"
