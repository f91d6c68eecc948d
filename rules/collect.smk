# Frozen task panels, and trajectories played on them in the real environment.


rule panel:
    output:
        panel="<results>/panels/{domain}/{split}.json",
    log:
        "<logs>/panel/{domain}/{split}.log",
    benchmark:
        "<benchmarks>/panel/{domain}/{split}.tsv"
    priority: 100
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("games")
    resources:
        **request("games"),
    params:
        first=lambda w: PLAN.domain(w.domain).tasks(w.split).first,
        limit=lambda w: PLAN.domain(w.domain).tasks(w.split).tasks,
        options=lambda w: PLAN.options(w.domain),
        cache=PLAN.cache,
        code=domain_code("wmlab.cli.env:panel", "domain"),
    message:
        "Freeze the {wildcards.split} tasks of {wildcards.domain}"
    shell:
        "python -m wmlab env panel --domain {wildcards.domain} --split {wildcards.split}"
        " --first {params.first} --limit {params.limit} --options {params.options:q}"
        " --cache {params.cache:q} --out {output.panel:q} 2>&1 | tee {log:q}"


rule collect:
    input:
        panel="<results>/panels/{domain}/{split}.json",
    output:
        trajectories="<results>/collect/{domain}/{split}/trajectories.parquet",
    log:
        "<logs>/collect/{domain}/{split}.log",
    benchmark:
        "<benchmarks>/collect/{domain}/{split}.tsv"
    wildcard_constraints:
        split="validation|test",
    priority: lambda w: 100 if w.split == "validation" else 60
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("games")
    resources:
        **request("games"),
    params:
        recipe=lambda w: PLAN.collect_recipe(w.domain, w.split),
        cache=PLAN.cache,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.data:collect", "domain", "script"),
    message:
        "Play the {wildcards.split} games of {wildcards.domain}"
    shell:
        "python -m wmlab data collect --panel {input.panel:q} --recipe {params.recipe:q}"
        " --cache {params.cache:q} --workers {threads} --seed {params.seed}"
        " --out {output.trajectories:q} 2>&1 | tee {log:q}"


rule collect_train:
    input:
        panel="<results>/panels/{domain}/train.json",
    output:
        trajectories="<results>/collect/{domain}/train/trajectories.parquet",
        demonstrations="<results>/collect/{domain}/train/demonstrations.parquet",
    log:
        "<logs>/collect/{domain}/train.log",
    benchmark:
        "<benchmarks>/collect/{domain}/train.tsv"
    priority: 100
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("games")
    resources:
        **request("games"),
    params:
        recipe=lambda w: PLAN.collect_recipe(w.domain, "train"),
        cache=PLAN.cache,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.data:collect", "domain", "script"),
    message:
        "Play the training games of {wildcards.domain}"
    shell:
        "python -m wmlab data collect --panel {input.panel:q} --recipe {params.recipe:q}"
        " --cache {params.cache:q} --workers {threads} --seed {params.seed}"
        " --out {output.trajectories:q} --demonstrations {output.demonstrations:q}"
        " 2>&1 | tee {log:q}"
