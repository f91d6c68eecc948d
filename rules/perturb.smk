# The metrics judged: decision-critical perturbations, the stress test of SSF, audits of its extractors.
#
# Sizes are the commands' defaults, which are the papers': 100 samples, 50 examples a class.
PARSED = [name for domain in PLAN.study.domains for name in modules_of(domain, "ssf")]


localrules:
    perturb,
    ssf,


rule perturb:
    input:
        expand("<results>/perturb/{domain}/summary.json", domain=PLAN.study.domains),


rule ssf:
    input:
        PLAN.summaries(),
        "<results>/ssf/stress.json",
        "<results>/ssf/audit.json",


rule perturbations:
    input:
        transitions="<results>/decompose/{domain}/test/transitions.parquet",
        reference=lambda w: PLAN.reference_weights(w.domain),
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
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.eval:perturb", "script", "ssf"),
    message:
        "Perturb real observations of {wildcards.domain} and ask the metrics"
    shell:
        "python -m wmlab eval perturb --transitions {input.transitions:q}"
        " --reference {params.reference:q} --seed {params.seed} --threads {threads}"
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
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.eval:stress", *PARSED),
    message:
        "Stress-test the state metrics"
    shell:
        "python -m wmlab eval stress {params.transitions} --seed {params.seed}"
        " --out {output.rows:q} --summary {output.summary:q} 2>&1 | tee {log:q}"


rule ssf_audit:
    input:
        transitions=expand(
            "<results>/decompose/{domain}/test/transitions.parquet",
            domain=PLAN.study.domains,
        ),
        predictions=PLAN.predictions("webshop"),
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
        seed=PLAN.study.seed,
        code=fingerprint("wmlab.cli.eval:audit", *PARSED),
    message:
        "Audit the SSF extractors"
    shell:
        "python -m wmlab eval audit {params.transitions} {params.predictions}"
        " --seed {params.seed} --out {output.audit:q} 2>&1 | tee {log:q}"
