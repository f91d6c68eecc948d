# The workflow: a study is a configuration, this file assembles the stages that turn it into tables.
#
#   snakemake --profile local all                                   the study of config.yaml
#   snakemake all --profile local --configfile studies/smoke.yaml   the same steps in minutes
#   snakemake --profile slurm all                                   on a cluster
#   snakemake --profile local ablation_behr                         one method and what follows from it
#
# Targets come first, or after --: options such as --configfile take every word that follows.
from snakemake.utils import min_version

min_version("9.27.1")


configfile: "config.yaml"


include: "rules/common.smk"


pathvars:
    results=PLAN.root,
    logs=f"{PLAN.root}/logs",
    benchmarks=f"{PLAN.root}/benchmarks",
    cache=PLAN.cache,


wildcard_constraints:
    domain=one_of(PLAN.study.domains),
    split=one_of(SPLITS),
    backbone=one_of(PLAN.study.backbones),
    method=one_of(PLAN.defined),
    agent=one_of(PLAN.config.agents),
    planner=one_of(PLAN.config.planners),
    seed=r"\d+",


include: "rules/collect.smk"
include: "rules/data.smk"
include: "rules/sft.smk"
include: "rules/grpo.smk"
include: "rules/memory.smk"
include: "rules/skill.smk"
include: "rules/predict.smk"
include: "rules/perturb.smk"
include: "rules/rollout.smk"
include: "rules/plan.smk"
include: "rules/consistency.smk"
include: "rules/stats.smk"
include: "rules/report.smk"


localrules:
    all,
    data,
    train,
    evaluate,
    tables,
    figures,
    report,


rule all:
    default_target: True
    input:
        rules.site.output,
        PLAN.exports(),
        PLAN.memory_exports(),
        PLAN.gains(),


rule data:
    input:
        PLAN.transitions(),
        PLAN.exports(),


rule train:
    input:
        PLAN.curves(),


rule evaluate:
    input:
        PLAN.summaries(),
        PLAN.cells(),
        PLAN.gains(),
        PLAN.planning_gains(),


rule tables:
    input:
        rules.report_tables.output,


rule figures:
    input:
        rules.report_figures.output,


rule report:
    input:
        rules.site.output,


# One target a method: its models, their scores, rollouts and cells. Methods outside study.methods have one too.
for method in PLAN.defined:

    rule:
        name:
            f"ablation_{method}"
        input:
            PLAN.summaries(method),
            PLAN.cells(method),
            PLAN.removals(method),
            PLAN.planning_gains(method),
