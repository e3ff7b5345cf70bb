#' Score a fit on records it has not seen
#'
#' What `maxent evaluate` says: AUC, Boyce index, largest TSS, omission and gain; against absences also Brier score, log
#' loss and calibration.
#'
#' @param fit A fit of [maxent()].
#' @param occ Records as of [maxent()]; a column of presence and absence is recognised.
#' @param env Layers, or a data.frame with a row for each value of `occ`.
#' @param absences Records of absence, to compare with instead of background.
#' @param background Number of background cells, "all", or `NULL` for 10000 where there are no absences.
#' @param seed Seed of the background.
#' @param species Which species of `occ`; `NULL` is that of the fit.
#' @param crs CRS of the coordinates in a data.frame.
#' @param quiet Whether notes are kept back.
#' @param ... Options of records and layers: `presence_column`, `x`, `y`, `align` ...
#' @return A list of numbers of class `maxentpy_evaluation`; its element `curves` has the curves behind them.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ[1:40, ], made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' evaluate(fit, made$occ[41:60, ], made$env, quiet = TRUE)
#' @export
evaluate <- function(fit, occ, env, absences = NULL, background = NULL, seed = NULL, species = NULL, crs = NULL,
                     quiet = FALSE, ...) {
  model <- .file(fit)
  if (is.data.frame(env)) {
    presence <- .presence(occ, nrow(env))
    known <- stats::complete.cases(env[intersect(fit$variables, names(env))]) & !is.na(presence)
    if (!is.null(fit$terms)) {
      env <- .variables(fit$terms, stats::model.frame(fit$terms, env, na.action = stats::na.pass))
    }
    absent <- setdiff(fit$variables, names(env))
    if (length(absent)) .stop("env has no column ", absent[1], ", which the fit needs", kind = "ValueError")
    rows <- function(which) .columns(env[known & which %in% TRUE, fit$variables, drop = FALSE])
    text <- .ask("evaluate_table", model = model, place = .scratch(), samples = rows(presence),
                 background = rows(!presence), .quiet = quiet)
  } else {
    text <- .ask(
      "evaluate", model = model, options = .options(...), records = .records(occ, crs = crs), layers = .layers(env),
      absences = if (!is.null(absences)) .records(absences, "absences", crs), species = species,
      background = background, seed = seed, .quiet = quiet
    )
  }
  structure(.from_json(text), class = "maxentpy_evaluation")
}

.from_json <- function(text) {
  json <- reticulate::import("json", convert = TRUE)
  .simple(json$loads(text))
}

# Lists of numbers as vectors; null is NA.
.simple <- function(given) {
  if (!is.list(given)) return(given)
  if (is.null(names(given)) && length(given) && all(vapply(given, function(v) is.null(v) || is.numeric(v) && length(v) == 1, NA))) {
    return(vapply(given, function(v) if (is.null(v)) NA_real_ else as.double(v), 0))
  }
  lapply(given, function(v) if (is.null(v)) NA_real_ else .simple(v))
}

#' @export
print.maxentpy_evaluation <- function(x, ...) {
  numbers <- x[vapply(x, function(v) is.numeric(v) && length(v) == 1, NA)]
  cat(sprintf("<scores of %s>\n", x$species))
  for (name in names(numbers)) cat(sprintf("  %-24s %s\n", name, format(numbers[[name]], digits = 4)))
  invisible(x)
}

#' Choose settings by cross-validation
#'
#' What `maxent tune` does: every combination of features, multiplier and potential, over spatial blocks (or other folds),
#' best first. The columns of ENMeval's results table have these names here: `fc` is `features`, `rm` is `multiplier`,
#' `auc.val.avg` is `test_auc`, `auc.diff.avg` is `auc_difference`, `or.10p.avg` is `omission_10_percentile`, `or.mtp.avg`
#' is `omission_minimum`, `cbi.val.avg` is `test_boyce`, `delta.AICc` is `delta_aicc`, `ncoef` is `n_weights`.
#'
#' @inheritParams maxent
#' @param features Feature classes to try: letters of "lqpthck".
#' @param multipliers Multipliers to try.
#' @param potentials Potentials to try.
#' @param background_records Records whose cells are the background.
#' @param bias A SpatRaster of sampling effort.
#' @param jobs Threads.
#' @param ... Options of `maxent tune` by their long names with underscores: `partition = "random"`, `folds = 5`,
#'   `scoring = "auc"`, `null = 10`, `background = 5000`, `buffer = 300` ...
#' @return A data.frame of class `maxentpy_tuning` with a row for each candidate, best first, for `maxent(tuned = )`. Its
#'   attributes are `folds`, `null` (the chosen one beside null models) and `report` (an HTML page).
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' tuned <- tune(made$occ, made$env, features = c("l", "lq"), multipliers = c(1, 2), quiet = TRUE)
#' tuned
#' fit <- maxent(made$occ, made$env, tuned = tuned, jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' @export
tune <- function(occ, env, features = c("l", "lq", "lqh", "lqph"), multipliers = c(0.5, 1, 2, 4, 8), potentials = "box",
                 ..., species = NULL, background_records = NULL, bias = NULL, crs = NULL, jobs = 1, out = NULL,
                 overwrite = FALSE, quiet = FALSE) {
  if (!is.numeric(multipliers) || any(!is.finite(multipliers)) || any(multipliers <= 0)) {
    .stop("multipliers must be numbers above 0", kind = "ValueError")
  }
  if (is.data.frame(env)) {
    .stop("tune() needs layers, whose places make the folds; env is a data.frame", kind = "ValueError")
  }
  told <- .ask(
    "tune", out = .out(out), options = .options(...), records = .records(occ, crs = crs), layers = .layers(env),
    features = as.list(features), multipliers = as.list(multipliers), potentials = as.list(potentials),
    species = species, bias = .one_file(bias, "bias"), jobs = jobs, overwrite = isTRUE(overwrite),
    group = if (!is.null(background_records)) .records(background_records, "background_records", crs), .quiet = quiet
  )
  structure(.na(.table(told$rows)), class = c("maxentpy_tuning", "data.frame"), folds = .na(.table(told$folds)),
            null = .table(told$null), report = told$report, species = told$species)
}

#' @export
print.maxentpy_tuning <- function(x, ..., n = 10) {
  shown <- c("features", "potential", "multiplier", "test_log_density", "test_auc", "auc_difference",
             "omission_10_percentile", "delta_aicc", "n_weights")
  cat(sprintf("<%d settings for %s, best first>\n", nrow(x), attr(x, "species")))
  print(utils::head(as.data.frame(x)[intersect(shown, names(x))], n), digits = 4, row.names = FALSE)
  invisible(x)
}

#' Response curves
#'
#' @param fit A fit of [maxent()] or of a folder of results.
#' @param variable Names of variables; `NULL` is all.
#' @param kind `"marginal"`, with the others at the mean of the records, or `"single"`, a model of this variable alone.
#' @return A data.frame: `variable`, `x` (a value, or a category as text in `level`), `y` (cloglog), and `low` and `high`, the
#'   ends of a band of 90 % where the fit has refits.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' head(response(fit, "temperature"))
#' @export
response <- function(fit, variable = NULL, kind = "marginal") {
  .tabled(fit)
  if (!identical(kind, "marginal") && !identical(kind, "single")) {
    .stop("kind must be \"marginal\" or \"single\"", kind = "ValueError")
  }
  known <- unique(vapply(fit$responses, `[[`, "", "variable"))
  wrong <- setdiff(variable, known)
  if (length(wrong)) {
    .stop("there is no response to ", wrong[1], "; the fit has ", paste(known, collapse = ", "), kind = "ValueError")
  }
  chosen <- Filter(function(one) one$kind == kind && (is.null(variable) || one$variable %in% variable), fit$responses)
  if (!length(chosen)) {
    .stop("the fit has no curves of single variables: fit with `jackknife = TRUE`", kind = "ValueError")
  }
  parts <- lapply(chosen, function(one) {
    level <- if (isTRUE(one$categorical)) as.character(one$table$x) else NA_character_
    x <- if (is.numeric(one$table$x)) one$table$x else NA_real_
    data.frame(variable = one$variable, x = x, level = level, one$table[c("y", "low", "high")])
  })
  do.call(rbind, parts)
}

#' Variable importance
#'
#' @param fit A fit of [maxent()] or of a folder of results.
#' @return `varimp()` is a data.frame: `variable`, percent `contribution` to the gain, and `permutation` importance with its
#'   deviation `permutation_sd`. `jackknife()` has the scores of each variable alone (`only`) and left out (`without`).
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", bootstrap = 0, quiet = TRUE)
#' varimp(fit)
#' jackknife(fit)
#' @export
varimp <- function(fit) {
  .tabled(fit)
  if (is.null(fit$importance)) {
    .stop("the fit has no importance: `permutations = 0` left it out", kind = "ValueError")
  }
  fit$importance
}

#' @rdname varimp
#' @export
jackknife <- function(fit) {
  .tabled(fit)
  if (!length(fit$jackknife)) .stop("the fit has no jackknife: fit with `jackknife = TRUE`", kind = "ValueError")
  fit$jackknife
}

.tabled <- function(fit) {
  .file(fit)
  if (is.null(fit$folder)) {
    .stop("the model was read from a file alone, which holds no curves and scores; read_maxent() the folder of its results",
          kind = "ValueError")
  }
}
