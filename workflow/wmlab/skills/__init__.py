"""World skill (memwm.txt, section 4 and Appendix C.4): advice for the agent, mined from what was played.

==============  ==========================================================================
``state``       what an agent has read when it chooses: goal, turns so far, actions listed
``outcome``     refused, repeated and losing steps, told by text; actions as kinds
``triggers``    flags of a state that hold in every domain, and the table of all flags
``worlds``      flags of the five domains, each with its advice
``mine``        failing trajectories to corrective rules: support, misstep rate, provenance
``guidance``    the rules that a step is shown: triggered, most specific, within a budget
``record``      a successful trajectory compressed: action skeleton, informative steps
``packs``       records chosen for quality and diversity, per task type and across
``summary``     a pack to skills by rule
``llm``         the same by a language model behind an OpenAI-compatible endpoint, checked
``bank``        ``skills_{domain}.jsonl``: drafts normalised, deduplicated, capped; read and written
``distil``      successful trajectories to a bank
``prompt``      the blocks that an agent is shown
==============  ==========================================================================

A world model never reads any of this: its memory is ``wmlab.memory``. Banks have the columns of a memory bank,
and its guard keeps evaluation tasks out of them.
"""
