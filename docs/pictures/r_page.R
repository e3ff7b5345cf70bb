# The picture of docs/coming_from/r.md: Rscript docs/pictures/r_page.R FILE, with maxentpy installed and MAXENT_PYTHON set
library(maxentpy)
library(terra)
file <- commandArgs(TRUE)[1]
made <- virtual_species()
fit <- maxent(made$occ, made$env, categorical = "biome")
map <- predict(fit, made$env)
png(file, width = 1000, height = 420, res = 110)
par(mfrow = c(1, 2))
plot(made$truth, main = "the truth", col = hcl.colors(100), mar = c(2, 2, 2, 4))
plot(map, main = "predict(fit, env)", col = hcl.colors(100), range = c(0, 1), mar = c(2, 2, 2, 4))
points(made$occ[, c("decimalLongitude", "decimalLatitude")], pch = 16, cex = 0.4, col = "#b3261e")
invisible(dev.off())
