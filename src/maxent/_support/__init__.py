"""What serves every room: checks of inputs, threads, processes, progress, compiling."""
