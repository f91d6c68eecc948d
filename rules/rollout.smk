# Episodes: Real once an agent, WM in every world model, and replays in the real environment.


rule rollout_real:
    input:
        panel="<results>/panels/{domain}/test.json",
        agent=lambda w: PLAN.acting_weights(w.domain, w.agent),
        skills=lambda w: PLAN.advice(w.domain, w.agent),
    output:
        episodes="<results>/rollout/{domain}/real/{agent}/episodes.jsonl",
    log:
        "<logs>/rollout_real/{domain}/{agent}.log",
    benchmark:
        "<benchmarks>/rollout_real/{domain}/{agent}.tsv"
    priority: 10
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        agent=lambda w: PLAN.agent_spec(w.agent),
        agent_model=lambda w, input: folders("--agent-model", input.agent),
        server=lambda w: options_of(PLAN.server_options(w.agent)),
        skills=banks("--skills", "skills"),
        advised=advised,
        cache=PLAN.cache,
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.rollout:real", "domain", "script"),
    message:
        "Run {wildcards.agent} in the real {wildcards.domain}"
    shell:
        "python -m wmlab rollout real --agent {params.agent:q} {params.agent_model} {params.server}"
        " {params.skills} {params.advised} --kept {params.cache:q}/episodes"
        " --panel {input.panel:q} --cache {params.cache:q} --workers {threads}"
        " --step-cap {params.step_cap} --threads {threads} --seed {params.seed}"
        " --out {output.episodes:q} 2>&1 | tee {log:q}"


rule replay_floor:
    input:
        panel="<results>/panels/{domain}/test.json",
        episodes="<results>/rollout/{domain}/real/{agent}/episodes.jsonl",
    output:
        episodes="<results>/rollout/{domain}/real/{agent}/floor.jsonl",
    log:
        "<logs>/replay_floor/{domain}/{agent}.log",
    benchmark:
        "<benchmarks>/replay_floor/{domain}/{agent}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("games")
    resources:
        **request("games"),
    params:
        cache=PLAN.cache,
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        code=domain_code("wmlab.cli.rollout:replay", "domain"),
    message:
        "Replay the real episodes of {wildcards.agent} in fresh environments"
    shell:
        "python -m wmlab rollout replay --episodes {input.episodes:q} --panel {input.panel:q}"
        " --cache {params.cache:q} --workers {threads} --step-cap {params.step_cap}"
        " --out {output.episodes:q} 2>&1 | tee {log:q}"


rule rollout_wm:
    input:
        panel="<results>/panels/{domain}/test.json",
        weights=lambda w: PLAN.weights(w.domain, w.backbone, w.method, w.seed),
        memory=lambda w: PLAN.banks(w.domain, w.backbone, w.method),
        agent=lambda w: PLAN.acting_weights(w.domain, w.agent),
        skills=lambda w: PLAN.advice(w.domain, w.agent),
    output:
        episodes="<results>/rollout/{domain}/{backbone}/{method}/seed{seed}/{agent}/wm.jsonl",
    log:
        "<logs>/rollout_wm/{domain}/{backbone}/{method}/seed{seed}/{agent}.log",
    benchmark:
        "<benchmarks>/rollout_wm/{domain}/{backbone}/{method}/seed{seed}/{agent}.tsv"
    priority: 5
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("inference")
    resources:
        **request("inference"),
    params:
        agent=lambda w: PLAN.agent_spec(w.agent),
        agent_model=lambda w, input: folders("--agent-model", input.agent),
        server=lambda w: options_of(PLAN.server_options(w.agent)),
        skills=banks("--skills", "skills"),
        advised=advised,
        model=subpath(input.weights, parent=True),
        bank=banks("--memory", "memory"),
        shown=shown(training=False),
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        seed=PLAN.study.seed,
        code=domain_code("wmlab.cli.rollout:wm", "script"),
    message:
        "Run {wildcards.agent} in world model {wildcards.method}, seed {wildcards.seed}"
    shell:
        "python -m wmlab rollout wm --model {params.model:q} --agent {params.agent:q}"
        " {params.agent_model} {params.server} {params.skills} {params.advised}"
        " --panel {input.panel:q} --step-cap {params.step_cap}"
        " {params.bank} {params.shown} --threads {threads} --seed {params.seed} --out {output.episodes:q} 2>&1 | tee {log:q}"


rule replay_w2r:
    input:
        panel="<results>/panels/{domain}/test.json",
        episodes="<results>/rollout/{domain}/{backbone}/{method}/seed{seed}/{agent}/wm.jsonl",
    output:
        episodes="<results>/rollout/{domain}/{backbone}/{method}/seed{seed}/{agent}/w2r.jsonl",
    log:
        "<logs>/replay_w2r/{domain}/{backbone}/{method}/seed{seed}/{agent}.log",
    benchmark:
        "<benchmarks>/replay_w2r/{domain}/{backbone}/{method}/seed{seed}/{agent}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("games")
    resources:
        **request("games"),
    params:
        cache=PLAN.cache,
        step_cap=lambda w: PLAN.evaluation(w.domain).step_cap,
        code=domain_code("wmlab.cli.rollout:replay", "domain"),
    message:
        "Replay what {wildcards.agent} did in {wildcards.method} in the real {wildcards.domain}"
    shell:
        "python -m wmlab rollout replay --episodes {input.episodes:q} --panel {input.panel:q}"
        " --cache {params.cache:q} --workers {threads} --step-cap {params.step_cap}"
        " --out {output.episodes:q} 2>&1 | tee {log:q}"
