"""Scout: a question becomes a plan, the plan a DAG of tools and agents, the DAG four artifacts."""
