# The maxent fit of R's maxnet, restated: its features, its default penalties, and glmnet.
# Usage: Rscript maxnet.R FOLDER CLASSES, CLASSES some of l q p h t; see maxnet.py for the files.

suppressPackageStartupMessages(library(glmnet))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
classes <- strsplit(arguments[2], "")[[1]]
KNOTS <- 50
WEIGHT <- 100  # of a background point, standing in for infinity
STEPS <- 200   # of the warm-start path; only its end is the answer

# ---- the table: presence flag first, then one column a variable, column by column ----
layout <- read.table(file.path(folder, "columns.txt"), sep = "\t", quote = "",
                     stringsAsFactors = FALSE, col.names = c("name", "kind"))
path <- file.path(folder, "table.bin")
values <- readBin(path, "double", n = file.size(path) / 8, endian = "little")
values <- matrix(values, ncol = nrow(layout) + 1)
presence <- values[, 1]
variables <- values[, -1, drop = FALSE]
colnames(variables) <- layout$name
rm(values)

ramp <- function(x, low, high) pmin(1, pmax(0, (x - low) / (high - low)))

hinges <- function(x, name) {
  knots <- seq(min(x), max(x), length.out = KNOTS)
  low <- c(knots[-KNOTS], rep(knots[1], KNOTS - 1))
  high <- c(rep(knots[KNOTS], KNOTS - 1), knots[-1])
  block <- mapply(function(a, b) ramp(x, a, b), low, high)
  colnames(block) <- paste0("hinge(", name, "):", low, ":", high)
  block
}

thresholds <- function(x, name) {
  cuts <- seq(min(x), max(x), length.out = KNOTS + 2)[-c(1, KNOTS + 2)]
  block <- outer(x, cuts, ">=") + 0
  colnames(block) <- paste0("thresholds(", name, "):", cuts)
  block
}

indicators <- function(x, name) {
  levels <- sort(unique(x))
  block <- outer(x, levels, "==") + 0
  colnames(block) <- paste0("categorical(", name, "):", levels)
  block
}

# The matrix, and beside it the class of every column (l, q, p, h, t or c).
design <- function(variables, kinds, classes) {
  numeric <- which(kinds == "numeric")
  names <- colnames(variables)
  blocks <- list()
  if ("l" %in% classes) blocks$l <- variables[, numeric, drop = FALSE]
  if ("q" %in% classes) {
    blocks$q <- variables[, numeric, drop = FALSE]^2
    colnames(blocks$q) <- paste0("I(", names[numeric], "^2)")
  }
  if ("h" %in% classes) {
    blocks$h <- do.call(cbind, lapply(numeric, function(j) hinges(variables[, j], names[j])))
  }
  if ("t" %in% classes) {
    blocks$t <- do.call(cbind, lapply(numeric, function(j) thresholds(variables[, j], names[j])))
  }
  discrete <- which(kinds == "categorical")
  if (length(discrete) > 0) {
    blocks$c <- do.call(cbind, lapply(discrete, function(j) indicators(variables[, j], names[j])))
  }
  if ("p" %in% classes && length(numeric) > 1) {
    pairs <- combn(numeric, 2)
    blocks$p <- variables[, pairs[1, ], drop = FALSE] * variables[, pairs[2, ], drop = FALSE]
    colnames(blocks$p) <- paste0(names[pairs[1, ]], ":", names[pairs[2, ]])
  }
  kind <- rep(names(blocks), vapply(blocks, ncol, 1L))
  list(matrix = do.call(cbind, unname(blocks)), kind = kind)
}

# Penalty of a feature: its deviation over the n presences / sqrt(n), times a beta that its class
# and n decide; never below a thousandth of its range.
penalties <- function(features, kind, presence) {
  n <- sum(presence)
  interpolate <- function(at, beta) approx(at, beta, n, rule = 2)$y
  smooth <- if ("p" %in% kind) interpolate(c(0, 10, 17, 30, 100), c(2.6, 1.6, 0.9, 0.55, 0.05))
    else if ("q" %in% kind) interpolate(c(0, 10, 17, 30, 100), c(1.3, 0.8, 0.5, 0.25, 0.05))
    else interpolate(c(0, 10, 30, 100), c(1, 1, 0.2, 0.05))
  beta <- c(l = smooth, q = smooth, p = smooth, h = 0.5,
            t = interpolate(c(0, 100), c(2, 1)),
            c = interpolate(c(0, 10, 17), c(0.65, 0.5, 0.25)))[kind]
  observed <- features[presence == 1, , drop = FALSE]
  deviation <- apply(observed, 2, sd)
  if (n == 1) deviation[] <- 0
  deviation[kind == "h"] <- pmax(deviation[kind == "h"], 1 / sqrt(n))
  range <- apply(features, 2, max) - apply(features, 2, min)
  penalty <- pmax(0.001 * range, beta * deviation / sqrt(n))
  constant <- colMeans(observed) %in% c(0, 1)  # a threshold that no presence, or all, are above
  penalty[kind == "t" & constant] <- pmax(1, penalty[kind == "t" & constant])
  unname(penalty)
}

begin <- proc.time()
built <- design(variables, layout$kind, classes)
penalty <- penalties(built$matrix, built$kind, presence)
weights <- ifelse(presence == 1, 1, WEIGHT)
glmnet.control(pmin = 1e-8, fdev = 0)
path <- 10^seq(4, 0, length.out = STEPS) * mean(penalty) * sum(presence) / sum(weights)
model <- glmnet(built$matrix, as.factor(presence), family = "binomial", weights = weights,
                standardize = FALSE, penalty.factor = penalty, lambda = path)
spent <- proc.time() - begin

reached <- ncol(model$beta)
answer <- data.frame(feature = colnames(built$matrix), penalty = penalty,
                     coefficient = model$beta[, reached])
answer$penalty <- sprintf("%.17g", answer$penalty)
answer$coefficient <- sprintf("%.17g", answer$coefficient)
write.csv(answer, file.path(folder, "answer.csv"), row.names = FALSE, quote = 1)
cat(sprintf(paste0('{"seconds": %.6f, "cpu_seconds": %.6f, "steps": %d, "complete": %s, ',
                   '"r": "%s", "glmnet": "%s"}\n'),
            spent[["elapsed"]], spent[["user.self"]] + spent[["sys.self"]], reached,
            if (reached == STEPS) "true" else "false",
            getRversion(), packageVersion("glmnet")),
    file = file.path(folder, "timing.json"))
