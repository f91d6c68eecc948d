# Tables, figures, and the page that ties them together.


rule configuration:
    output:
        config="<results>/config.yaml",
    log:
        "<logs>/configuration.log",
    benchmark:
        "<benchmarks>/configuration.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        study=PLAN.resolved(),
        code=fingerprint("wmlab.cli.study:freeze"),
    message:
        "Write down the configuration as it was resolved"
    shell:
        "python -m wmlab study freeze --study {params.study:q} --out {output.config:q}"
        " 2>&1 | tee {log:q}"


rule report_tables:
    input:
        summaries=PLAN.summaries(),
        cells=PLAN.cells(),
        stats="<results>/stats/stats.json",
        heldout=PLAN.heldout(),
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=PLAN.tables(),
            kind=["csv", "md", "tex", "json"],
        ),
    log:
        "<logs>/tables.log",
    benchmark:
        "<benchmarks>/tables.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        summaries=lambda w, input: repeated("--scores", input.summaries),
        cells=lambda w, input: repeated("--cells", input.cells),
        heldout=lambda w, input: repeated("--heldout", input.heldout),
        methods=",".join(PLAN.study.methods),
        only=",".join(PLAN.tables()),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the tables"
    shell:
        "python -m wmlab report tables {params.summaries} {params.cells} {params.heldout}"
        " --stats {input.stats:q} --methods {params.methods} --only {params.only} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule report_figures:
    input:
        curves=PLAN.curves(),
        cells=PLAN.cells(),
        stats="<results>/stats/stats.json",
        episodes=PLAN.played(),
    output:
        expand(
            "<results>/figures/{name}.{kind}",
            name=PLAN.figures(),
            kind=["pdf", "svg", "csv"],
        ),
    log:
        "<logs>/figures.log",
    benchmark:
        "<benchmarks>/figures.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        curves=lambda w, input: repeated("--curves", input.curves),
        cells=lambda w, input: repeated("--cells", input.cells),
        episodes=lambda w, input: repeated("--episodes", input.episodes),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:figures"),
    message:
        "Draw the figures"
    shell:
        "python -m wmlab report figures {params.curves} {params.cells} {params.episodes}"
        " --stats {input.stats:q} --out-dir {params.folder:q} 2>&1 | tee {log:q}"


rule site:
    input:
        config="<results>/config.yaml",
        tables=rules.report_tables.output,
        figures=rules.report_figures.output,
        audits=[rules.perturb.input, rules.ssf.input],
        memory=PLAN.memory_reports(),
        planning=PLAN.planning_reports(),
        cells="<results>/stats/cells.parquet",
        stats="<results>/stats/stats.json",
    output:
        index="<results>/report/index.html",
    log:
        "<logs>/site.log",
    benchmark:
        "<benchmarks>/site.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        study=subpath(input.config, parent=True),
        code=fingerprint("wmlab.cli.report:site"),
    message:
        "Write the report"
    shell:
        "python -m wmlab report site --study-dir {params.study:q} --config {input.config:q}"
        " --cells {input.cells:q} --stats {input.stats:q} --out {output.index:q}"
        " 2>&1 | tee {log:q}"
