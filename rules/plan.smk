# Agents that plan: they act in Real and try actions in a world model first, or in Real itself (the oracle).


localrules:
    planning,


rule planning:
    input:
        PLAN.planning_gains(),
        PLAN.planning_reports(),


rule rollout_plan:
    input:
        panel="<results>/panels/{domain}/test.json",
        weights=lambda w: PLAN.weights(w.domain, w.backbone, w.method, w.seed),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
        agent=lambda w: PLAN.acting_weights(w.domain, w.agent),
        skills=lambda w: PLAN.planner_advice(w.domain, w.agent, w.planner),
    output:
        episodes="<results>/plan/{domain}/{backbone}/{method}/seed{seed}/{agent}/{planner}/episodes.jsonl",
    log:
        "<logs>/rollout_plan/{domain}/{backbone}/{method}/seed{seed}/{agent}/{planner}.log",
    benchmark:
        "<benchmarks>/rollout_plan/{domain}/{backbone}/{method}/seed{seed}/{agent}/{planner}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        planner=lambda w: PLAN.planner(w.planner),
        agent=lambda w: PLAN.agent_spec(w.agent),
        agent_model=lambda w, input: folders("--agent-model", input.agent),
        server=lambda w: options_of(PLAN.server_options(w.agent)),
        skills=banks("--skills", "skills"),
        advised=planner_advised,
        model=subpath(input.weights, parent=True),
        bank=banks("--memory", "memory"),
        shown=shown(training=False),
        limit=options_of({"limit": PLAN.config.planning.tasks}),
        cache=PLAN.cache,
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.rollout:plan", "domain", "script"),
    message:
        "Let {wildcards.agent} plan ({wildcards.planner}) with {wildcards.method}, seed {wildcards.seed}"
    shell:
        "python -m wmlab rollout plan --planner {params.planner:q} --agent {params.agent:q}"
        " {params.agent_model} {params.server} {params.skills} {params.advised} --model {params.model:q}"
        " {params.bank} {params.shown} --panel {input.panel:q} {params.limit} --cache {params.cache:q}"
        " --workers {threads} --step-cap {params.step_cap} --threads {threads} --seed {params.seed}"
        " --out {output.episodes:q} 2>&1 | tee {log:q}"


rule rollout_oracle:
    input:
        panel="<results>/panels/{domain}/test.json",
        agent=lambda w: PLAN.acting_weights(w.domain, w.agent),
        skills=lambda w: PLAN.planner_advice(w.domain, w.agent, w.planner),
    output:
        episodes=f"<results>/plan/{{domain}}/{ORACLE}/{{agent}}/{{planner}}/episodes.jsonl",
    log:
        "<logs>/rollout_oracle/{domain}/{agent}/{planner}.log",
    benchmark:
        "<benchmarks>/rollout_oracle/{domain}/{agent}/{planner}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        planner=lambda w: PLAN.planner(w.planner),
        agent=lambda w: PLAN.agent_spec(w.agent),
        agent_model=lambda w, input: folders("--agent-model", input.agent),
        server=lambda w: options_of(PLAN.server_options(w.agent)),
        skills=banks("--skills", "skills"),
        advised=planner_advised,
        limit=options_of({"limit": PLAN.config.planning.tasks}),
        cache=PLAN.cache,
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.rollout:plan", "domain", "script"),
    message:
        "Let {wildcards.agent} plan ({wildcards.planner}) with the real {wildcards.domain}"
    shell:
        "python -m wmlab rollout plan --oracle --planner {params.planner:q} --agent {params.agent:q}"
        " {params.agent_model} {params.server} {params.skills} {params.advised}"
        " --panel {input.panel:q} {params.limit} --cache {params.cache:q}"
        " --workers {threads} --step-cap {params.step_cap} --threads {threads} --seed {params.seed}"
        " --out {output.episodes:q} 2>&1 | tee {log:q}"


rule planning_gain:
    input:
        panel="<results>/panels/{domain}/test.json",
        real="<results>/rollout/{domain}/real/{agent}/episodes.jsonl",
        plan="<results>/plan/{domain}/{world}/{agent}/{planner}/episodes.jsonl",
    output:
        gain="<results>/plan/{domain}/{world}/{agent}/{planner}/gain.json",
    log:
        "<logs>/planning_gain/{domain}/{world}/{agent}/{planner}.log",
    benchmark:
        "<benchmarks>/planning_gain/{domain}/{world}/{agent}/{planner}.tsv"
    wildcard_constraints:
        world=r"[^/]+/[^/]+/seed\d+",
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        limit=options_of({"limit": PLAN.config.planning.tasks}),
        code=fingerprint("wmlab.cli.stats:planning"),
    message:
        "Compare {wildcards.agent} with and without {wildcards.planner}"
    shell:
        "python -m wmlab stats planning --real {input.real:q} --plan {input.plan:q}"
        " --panel {input.panel:q} {params.limit} --planner {wildcards.planner}"
        " --out {output.gain:q} 2>&1 | tee {log:q}"


rule planning_tables:
    input:
        gains=PLAN.planning_gains(),
    output:
        expand(
            "<results>/tables/{name}.{kind}",
            name=PLANNING_TABLES,
            kind=["csv", "md", "tex", "json"],
        ),
    log:
        "<logs>/planning_tables.log",
    benchmark:
        "<benchmarks>/planning_tables.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        plans=lambda w, input: repeated("--plans", input.gains),
        only=",".join(PLANNING_TABLES),
        folder=subpath(output[0], parent=True),
        code=fingerprint("wmlab.cli.report:tables"),
    message:
        "Write the table of planning"
    shell:
        "python -m wmlab report tables {params.plans} --only {params.only} --out-dir {params.folder:q}"
        " 2>&1 | tee {log:q}"
