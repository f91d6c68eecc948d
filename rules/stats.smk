# All cells in one table, and the tests over them.


rule cells:
    input:
        cells=PLAN.cells(),
    output:
        table="<results>/stats/cells.parquet",
        csv="<results>/stats/cells.csv",
    log:
        "<logs>/cells.log",
    benchmark:
        "<benchmarks>/cells.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        cells=lambda w, input: repeated("--input", input.cells),
        code=fingerprint("wmlab.cli.eval:cells"),
    message:
        "Gather the cells"
    shell:
        "python -m wmlab eval cells {params.cells} --out {output.table:q} 2>&1 | tee {log:q}"


rule statistics:
    input:
        cells="<results>/stats/cells.parquet",
        tasks=PLAN.cells(),
    output:
        stats="<results>/stats/stats.json",
    log:
        "<logs>/statistics.log",
    benchmark:
        "<benchmarks>/statistics.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        tasks=lambda w, input: repeated("--tasks", input.tasks),
        methods=",".join(PLAN.study.methods),
        target=PLAN.config.stats.target,
        metric=PLAN.config.stats.metric,
        resamples=PLAN.config.stats.bootstrap,
        seed=PLAN.config.stats.seed,
        code=fingerprint("wmlab.cli.stats:cells"),
    message:
        "Test the methods over the cells"
    shell:
        "python -m wmlab stats cells --input {input.cells:q} --methods {params.methods}"
        " --target {params.target} --metric {params.metric} --resamples {params.resamples}"
        " --seed {params.seed} {params.tasks} --out {output.stats:q} 2>&1 | tee {log:q}"
