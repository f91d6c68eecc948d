# Task-level consistency of one cell: an agent in a world model against the same agent in Real.


rule consistency:
    input:
        panel="<results>/panels/{domain}/test.json",
        real="<results>/rollout/{domain}/real/{agent}/episodes.jsonl",
        floor="<results>/rollout/{domain}/real/{agent}/floor.jsonl",
        wm="<results>/rollout/{domain}/{backbone}/{method}/seed{seed}/{agent}/wm.jsonl",
        w2r="<results>/rollout/{domain}/{backbone}/{method}/seed{seed}/{agent}/w2r.jsonl",
    output:
        cell="<results>/consistency/{domain}/{backbone}/{method}/seed{seed}/{agent}/cell.json",
    log:
        "<logs>/consistency/{domain}/{backbone}/{method}/seed{seed}/{agent}.log",
    benchmark:
        "<benchmarks>/consistency/{domain}/{backbone}/{method}/seed{seed}/{agent}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        code=fingerprint("wmlab.cli.eval:consistency"),
    message:
        "Compare {wildcards.agent} in {wildcards.method}, seed {wildcards.seed}, with Real"
    shell:
        "python -m wmlab eval consistency --real {input.real:q} --wm {input.wm:q}"
        " --w2r {input.w2r:q} --floor {input.floor:q} --panel {input.panel:q}"
        " --domain {wildcards.domain} --backbone {wildcards.backbone}"
        " --method {wildcards.method} --agent {wildcards.agent} --seed {wildcards.seed}"
        " --out {output.cell:q} 2>&1 | tee {log:q}"
