"""What a report can hold: the names of its tables and figures, in the order of its page."""

from __future__ import annotations

STUDY_TABLES = (
    "task_level",
    "single_step",
    "calibration",
    "sign_tests",
    "bootstrap",
    "grpo_objective",
    "real_floor",
)
"""Results of the study's models; ``grpo_objective`` only where something is trained by GRPO."""

MEMORY_TABLES = ("state_fidelity", "memory_gain", "memory")
"""World memory, where a model has it (memwm.txt, Table 1, Figures 4 and 6)."""

PLANNING_TABLES = ("planning",)
"""Agents that plan in a world model (behr.txt, Tables 6 and 21; memwm.txt, Table 2)."""

PERTURB_TABLES = ("perturb_contrast", "perturb_metrics", "perturb_rewards")
"""Decision-critical perturbations (behr.txt, Tables 1, 15 and 16)."""

SSF_TABLES = (
    "ssf_stress",
    "ssf_stress_kinds",
    "ssf_audit",
    "ssf_weights",
    "ssf_transfer",
    "ssf_agreement",
)
"""Stress test and audits of the state metrics (memwm.txt, Figure 3, Tables 6, 7, 8 and 5)."""

TABLES = (*STUDY_TABLES, *MEMORY_TABLES, *PLANNING_TABLES, *PERTURB_TABLES, *SSF_TABLES)

STUDY_FIGURES = (
    "crpw_cells",
    "cd_diagram",
    "calibration",
    "episode_lengths",
    "training_curves",
    "sft_curves",
)
MEMORY_FIGURES = ("memory_removal", "memory_dropout")
PERTURB_FIGURES = ("perturb_contrast",)
SSF_FIGURES = ("ssf_stress",)
FIGURES = (*STUDY_FIGURES, *MEMORY_FIGURES, *PERTURB_FIGURES, *SSF_FIGURES)
