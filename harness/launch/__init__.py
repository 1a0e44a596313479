"""Starting servers on a cluster: what an engine is started with, and the Slurm job around it."""
