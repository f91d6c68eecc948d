# Tables, figures, and the page that ties them together.


rule report_tables:
    input:
        summaries=PLAN.summaries(),
        cells="<results>/stats/cells.parquet",
        stats="<results>/stats/stats.json",
        heldout=PLAN.heldout(),
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=["single_step", "task_level", "sign_tests", "bootstrap"],
            kind=["csv", "md", "tex"],
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
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the tables"
    shell:
        "python -m wmlab report tables 2>&1 | tee {log:q}"


rule report_figures:
    input:
        curves=PLAN.curves(),
        cells="<results>/stats/cells.parquet",
        stats="<results>/stats/stats.json",
    output:
        "<results>/figures/training_curves.pdf",
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
        code=fingerprint("wmlab.cli.report:figures"),
    message:
        "Draw the figures"
    shell:
        "python -m wmlab report figures 2>&1 | tee {log:q}"


rule site:
    input:
        tables=rules.report_tables.output,
        figures=rules.report_figures.output,
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
        code=fingerprint("wmlab.cli.report:site"),
    message:
        "Write the report"
    shell:
        "python -m wmlab report site 2>&1 | tee {log:q}"
