# Greedy predictions of the next state, and their single-step scores.


rule predict_baseline:
    input:
        weights=lambda w: PLAN.weights(w.domain, w.backbone, "w2w", 0),
        transitions="<results>/decompose/{domain}/train/transitions.parquet",
    output:
        predictions="<results>/predict/{domain}/{backbone}/w2w/seed0/baseline.parquet",
    log:
        "<logs>/predict_baseline/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/predict_baseline/{domain}/{backbone}.tsv"
    priority: 80
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        model=subpath(input.weights, parent=True),
        limit=lambda w: PLAN.filtering(w.domain).pool,
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.predict:states"),
    message:
        "Predict training states with the SFT model {wildcards.backbone}"
    shell:
        "python -m wmlab predict states --model {params.model:q}"
        " --transitions {input.transitions:q} --limit {params.limit} --seed {params.seed}"
        " --threads {threads} --out {output.predictions:q} 2>&1 | tee {log:q}"


rule predict_states:
    input:
        weights=lambda w: PLAN.weights(w.domain, w.backbone, w.method, w.seed),
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
    output:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/predictions.parquet",
    log:
        "<logs>/predict/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/predict/{domain}/{backbone}/{method}/seed{seed}.tsv"
    wildcard_constraints:
        method=one_of([m for m in PLAN.defined if not PLAN.with_memory(m)]),
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        model=subpath(input.weights, parent=True),
        limit=lambda w: PLAN.evaluation(w.domain).transitions,
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.predict:states"),
    message:
        "Predict held-out states with {wildcards.method}, seed {wildcards.seed}"
    shell:
        "python -m wmlab predict states --model {params.model:q}"
        " --transitions {input.transitions:q} --limit {params.limit} --seed {params.seed}"
        " --threads {threads} --out {output.predictions:q} 2>&1 | tee {log:q}"


rule predict_copy:
    input:
        train="<results>/decompose/{domain}/train/transitions.parquet",
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
    output:
        predictions="<results>/predict/{domain}/{backbone}/copy/seed0/predictions.parquet",
    log:
        "<logs>/predict_copy/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/predict_copy/{domain}/{backbone}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        limit=lambda w: PLAN.evaluation(w.domain).transitions,
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.predict:copy"),
    message:
        "Predict held-out states by copying the most similar training transition"
    shell:
        "python -m wmlab predict copy --train {input.train:q}"
        " --transitions {input.transitions:q} --limit {params.limit} --seed {params.seed}"
        " --out {output.predictions:q} 2>&1 | tee {log:q}"


rule score:
    input:
        predictions="<results>/predict/{domain}/{backbone}/{method}/seed{seed}/predictions.parquet",
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
        reference=lambda w: PLAN.reference_weights(w.domain),
        encoder=PLAN.encoder_weights(),
    output:
        scores="<results>/score/{domain}/{backbone}/{method}/seed{seed}/scores.parquet",
        summary="<results>/score/{domain}/{backbone}/{method}/seed{seed}/summary.json",
    log:
        "<logs>/score/{domain}/{backbone}/{method}/seed{seed}.log",
    benchmark:
        "<benchmarks>/score/{domain}/{backbone}/{method}/seed{seed}.tsv"
    wildcard_constraints:
        method=one_of([*PLAN.defined, "copy"]),
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        reference=subpath(input.reference, parent=True),
        server=beside_reference("score"),
        asked=asking_reference("score"),
        models=lambda w: options_of(PLAN.scorers(w.domain)),
        code=domain_code("wmlab.cli.score:predictions", "script", "ssf"),
    message:
        "Score the predictions of {wildcards.method}, seed {wildcards.seed}"
    shell:
        "{params.server} python -m wmlab score predictions --predictions {input.predictions:q}"
        " --transitions {input.transitions:q} --reference {params.reference:q} {params.asked}"
        " {params.models} --threads {threads} --out {output.scores:q} --summary {output.summary:q}"
        " 2>&1 | tee {log:q}"
