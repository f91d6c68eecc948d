"""World memory (memwm.txt, section 4 and Appendix C.1-C.2): banks of hints that a world model is shown.

==============  ==========================================================================
``keys``        the retrieval key of a prediction in the parser games, from most to least specific
``shop``        the same for WebShop: where a session stands, and its pages as entries
``evidence``    what a training transition and its prediction say: facts, missed, invented
``store``       counts of evidence per key, on disk where memory would not do
``curate``      a bucket's counts to a positive hint and an error pattern, by rule
``llm``         the same by a language model behind an OpenAI-compatible endpoint, checked
``build``       transitions and predictions to a bank
``bank``        ``memory_{domain}.jsonl``: read, written, checked
``guard``       no entry may come from an evaluation task
``retrieve``    a prediction's entries: keys in order, BM25 last, within a budget of tokens
``prompt``      entries as a bounded block in the world model's prompt, and its removal
``context``     the one place where memory enters a world model's prompt
``online``      a second bank, from what was executed while a model was used
``removal``     what a model loses without its memory
==============  ==========================================================================
"""
