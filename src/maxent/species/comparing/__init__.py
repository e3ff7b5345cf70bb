"""Maps side by side: range change, ensembles of scenarios, overlap of niches."""
