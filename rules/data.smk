# Transitions, the difficulty filter, and the export for verl.


rule decompose:
    input:
        trajectories="<results>/collect/{domain}/{split}/trajectories.parquet",
    output:
        transitions="<results>/decompose/{domain}/{split}/transitions.parquet",
    log:
        "<logs>/decompose/{domain}/{split}.log",
    benchmark:
        "<benchmarks>/decompose/{domain}/{split}.tsv"
    priority: 60
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        code=fingerprint("wmlab.cli.data:decompose"),
    message:
        "Decompose the {wildcards.split} trajectories of {wildcards.domain}"
    shell:
        "python -m wmlab data decompose --trajectories {input.trajectories:q}"
        " --out {output.transitions:q} 2>&1 | tee {log:q}"


rule difficulty_filter:
    input:
        transitions="<results>/decompose/{domain}/train/transitions.parquet",
        baseline="<results>/predict/{domain}/{backbone}/w2w/seed0/baseline.parquet",
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        transitions="<results>/filter/{domain}/{backbone}/transitions.parquet",
        report="<results>/filter/{domain}/{backbone}/report.json",
    log:
        "<logs>/filter/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/filter/{domain}/{backbone}.tsv"
    priority: 80
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        budget=lambda w: PLAN.filtering(w.domain).budget,
        order=lambda w: PLAN.filtering(w.domain).order,
        bound=lambda w: options_of({"max-f1": PLAN.filtering(w.domain).max_f1}),
        seed=PLAN.study.seed,
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        code=fingerprint("wmlab.cli.data:filter"),
    message:
        "Choose the transitions that {wildcards.backbone} learns from in {wildcards.domain}"
    shell:
        "python -m wmlab data filter --transitions {input.transitions:q}"
        " --predictions {input.baseline:q} --domain {wildcards.domain} --budget {params.budget}"
        " --order {params.order} {params.bound} --seed {params.seed} --sampled {params.exclude}"
        " --out {output.transitions:q} --report {output.report:q} 2>&1 | tee {log:q}"


rule verl_export:
    input:
        transitions="<results>/filter/{domain}/{backbone}/transitions.parquet",
    output:
        records="<results>/filter/{domain}/{backbone}/grpo_train.parquet",
    log:
        "<logs>/verl_export/{domain}/{backbone}.log",
    benchmark:
        "<benchmarks>/verl_export/{domain}/{backbone}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        code=fingerprint("wmlab.cli.data:verl"),
    message:
        "Export the filtered transitions of {wildcards.domain} for verl"
    shell:
        "python -m wmlab data verl --transitions {input.transitions:q}"
        " --out {output.records:q} 2>&1 | tee {log:q}"
