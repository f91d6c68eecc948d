# The metrics judged: decision-critical perturbations, the stress test of SSF, audits of its extractors.
PARSED = [name for domain in PLAN.study.domains for name in modules_of(domain, "ssf")]


localrules:
    perturb,
    ssf,


rule perturbations:
    input:
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
        reference=lambda w: PLAN.reference_weights(w.domain),
        encoder=PLAN.encoder_weights(),
    output:
        rows="<results>/perturb/{domain}/perturbations.parquet",
        summary="<results>/perturb/{domain}/summary.json",
    log:
        "<logs>/perturb/{domain}.log",
    benchmark:
        "<benchmarks>/perturb/{domain}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        reference=subpath(input.reference, parent=True),
        server=beside_reference("perturbations"),
        asked=asking_reference("perturbations"),
        models=options_of(PLAN.judges()),
        samples=PLAN.config.audits.perturbed_samples,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.eval:perturb", "script", "ssf"),
    message:
        "Perturb real observations of {wildcards.domain} and ask the metrics"
    shell:
        "{params.server} python -m wmlab eval perturb --transitions {input.transitions:q}"
        " --reference {params.reference:q} {params.asked} --samples {params.samples} --seed {params.seed}"
        " {params.models} --threads {threads}"
        " --out {output.rows:q} --summary {output.summary:q} 2>&1 | tee {log:q}"


rule stress_test:
    input:
        transitions=expand(
            "<results>/decompose/{domain}/test/transitions.parquet",
            domain=PLAN.study.domains,
        ),
    output:
        rows="<results>/ssf/stress.parquet",
        summary="<results>/ssf/stress.json",
    log:
        "<logs>/stress_test.log",
    benchmark:
        "<benchmarks>/stress_test.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        transitions=lambda w, input: repeated("--transitions", input.transitions),
        examples=PLAN.config.audits.stress_examples,
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.eval:stress", *PARSED),
    message:
        "Stress-test the state metrics"
    shell:
        "python -m wmlab eval stress {params.transitions} --per-class {params.examples}"
        " --seed {params.seed} --out {output.rows:q} --summary {output.summary:q} 2>&1 | tee {log:q}"


rule ssf_audit:
    input:
        transitions=expand(
            "<results>/decompose/{domain}/test/transitions.parquet",
            domain=PLAN.study.domains,
        ),
        predictions=PLAN.predictions("webshop"),
        annotation=list(PLAN.annotation().values()),
    output:
        audit="<results>/ssf/audit.json",
    log:
        "<logs>/ssf_audit.log",
    benchmark:
        "<benchmarks>/ssf_audit.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        transitions=lambda w, input: repeated("--transitions", input.transitions),
        predictions=lambda w, input: repeated("--predictions", input.predictions),
        annotation=options_of(PLAN.annotation()),
        observations=PLAN.config.audits.observations,
        examples=PLAN.config.audits.stress_examples,
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.eval:audit", *PARSED),
    message:
        "Audit the SSF extractors"
    shell:
        "python -m wmlab eval audit {params.transitions} {params.predictions} {params.annotation}"
        " --observations {params.observations} --per-class {params.examples}"
        " --seed {params.seed} --out {output.audit:q} 2>&1 | tee {log:q}"


rule perturb_tables:
    input:
        expand("<results>/perturb/{domain}/summary.json", domain=PLAN.study.domains),
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=PLAN.audit_tables("perturb"),
            kind=["csv", "md", "tex", "json"],
        ),
    log:
        "<logs>/perturb_tables.log",
    benchmark:
        "<benchmarks>/perturb_tables.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        given=lambda w, input: repeated("--perturb", input),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the tables of the perturbations"
    shell:
        "python -m wmlab report tables {params.given} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule perturb_figures:
    input:
        expand("<results>/perturb/{domain}/summary.json", domain=PLAN.study.domains),
    output:
        expand(
            "<results>/figures/{name}.{kind}",
            name=PLAN.audit_figures("perturb"),
            kind=["pdf", "svg", "csv"],
        ),
    log:
        "<logs>/perturb_figures.log",
    benchmark:
        "<benchmarks>/perturb_figures.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        given=lambda w, input: repeated("--perturb", input),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:figures"),
    message:
        "Draw the perturbations"
    shell:
        "python -m wmlab report figures {params.given} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule ssf_tables:
    input:
        stress="<results>/ssf/stress.json",
        audit="<results>/ssf/audit.json",
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=PLAN.audit_tables("ssf"),
            kind=["csv", "md", "tex", "json"],
        ),
    log:
        "<logs>/ssf_tables.log",
    benchmark:
        "<benchmarks>/ssf_tables.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        given=lambda w, input: options_of(input),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the tables of the stress test and the audits"
    shell:
        "python -m wmlab report tables {params.given} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule ssf_figures:
    input:
        stress="<results>/ssf/stress.json",
    output:
        expand(
            "<results>/figures/{name}.{kind}",
            name=PLAN.audit_figures("ssf"),
            kind=["pdf", "svg", "csv"],
        ),
    log:
        "<logs>/ssf_figures.log",
    benchmark:
        "<benchmarks>/ssf_figures.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        given=lambda w, input: options_of(input),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:figures"),
    message:
        "Draw the stress test"
    shell:
        "python -m wmlab report figures {params.given} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"


rule perturb:
    input:
        rules.perturb_tables.output,
        rules.perturb_figures.output,


rule ssf:
    input:
        PLAN.summaries(),
        rules.ssf_tables.output,
        rules.ssf_figures.output,
