"""Tables, figures and the one-file report of a study, made from result files only."""
