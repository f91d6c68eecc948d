"""AgentGym's HTTP environment servers: a client for theirs, and a server that offers our domains."""
