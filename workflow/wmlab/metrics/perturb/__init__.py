"""Perturbations of real observations: does a metric see what an agent would act on?

``decision`` and ``study``: decision-critical perturbations (behr.txt, Tables 1, 15 and 16).
``stress``: the metric stress test (memwm.txt, Figure 3 and B.4) and its kinds of change.
``audit`` and ``agreement``: audits of the SSF extractors (memwm.txt, Tables 5 to 8).
"""
