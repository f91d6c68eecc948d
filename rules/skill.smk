# World skill: what the agents with `skills: true` are told, learnt from the training tasks of their domain.


localrules:
    skills,


rule skills:
    input:
        [PLAN.skill_banks(domain) for domain in PLAN.study.domains],


rule skill_bank:
    input:
        trajectories="<results>/collect/{domain}/train/trajectories.parquet",
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        bank="<results>/skills/{domain}/skills.jsonl",
    log:
        "<logs>/skill_bank/{domain}.log",
    benchmark:
        "<benchmarks>/skill_bank/{domain}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        options=options_of(PLAN.distil_options()),
        code=fingerprint("wmlab.cli.skill:distil"),
    message:
        "Distil the skills of {wildcards.domain} from solved training tasks"
    shell:
        "python -m wmlab skill distil --domain {wildcards.domain}"
        " --trajectories {input.trajectories:q} {params.exclude} {params.options}"
        " --out {output.bank:q} 2>&1 | tee {log:q}"


rule skill_guidance:
    input:
        source=lambda w: guidance_of(w.domain),
        panels=expand(
            "<results>/panels/{{domain}}/{split}.json", split=["validation", "test"]
        ),
    output:
        bank="<results>/skills/{domain}/guidance.jsonl",
    log:
        "<logs>/skill_guidance/{domain}.log",
    benchmark:
        "<benchmarks>/skill_guidance/{domain}.tsv"
    conda:
        "../envs/cpu.yaml"
    threads: threads_of("light")
    resources:
        **request("light"),
    params:
        verb="mine --trajectories" if PLAN.mines_guidance else "adopt --bank",
        options=options_of(PLAN.mine_options()),
        exclude=lambda w, input: repeated("--exclude-panel", input.panels),
        code=fingerprint(
            "wmlab.cli.skill:mine" if PLAN.mines_guidance else "wmlab.cli.skill:adopt"
        ),
    message:
        "Take the corrective rules of {wildcards.domain}"
    shell:
        "python -m wmlab skill {params.verb} {input.source:q} --domain {wildcards.domain}"
        " {params.options} {params.exclude} --out {output.bank:q} 2>&1 | tee {log:q}"
