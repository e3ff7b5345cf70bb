# A ridge regression of counts or of finds by glmnet; see glmnet.py for the files.
# Usage: Rscript glmnet.R FOLDER KIND STRENGTH THRESHOLD, KIND poisson or cloglog.

suppressPackageStartupMessages(library(glmnet))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
kind <- arguments[2]
strength <- as.numeric(arguments[3])
threshold <- as.numeric(arguments[4])
LAST <- 5     # steps of the warm-start path; only its end is the answer
LARGEST <- 10 # strength where it starts

read <- function(name) {
  path <- file.path(folder, name)
  readBin(path, "double", n = file.size(path) / 8, endian = "little")
}
y <- read("y.bin")
offset <- log(read("area.bin"))
X <- matrix(read("X.bin"), nrow = length(y))
family <- if (kind == "poisson") "poisson" else binomial(link = "cloglog")
path <- exp(seq(log(LARGEST), log(strength), length.out = LAST))
glmnet.control(fdev = 0, devmax = 1)

begin <- proc.time()
model <- glmnet(X, y, family = family, offset = offset, alpha = 0, lambda = path,
                standardize = FALSE, thresh = threshold, maxit = 1e6)
spent <- proc.time() - begin

end <- ncol(model$beta)
complete <- end == LAST
weights <- c(as.numeric(model$beta[, end]), model$a0[end])
writeBin(as.numeric(weights), file.path(folder, "w.bin"), endian = "little")
cat(sprintf('{"cpu_seconds": %.6f, "complete": %s}\n',
            spent[["user.self"]] + spent[["sys.self"]], if (complete) "true" else "false"),
    file = file.path(folder, "timing.json"))
