#' Look at a fit
#'
#' @param x,object A fit of [maxent()].
#' @param y,what What to draw: `"response"` curves, `"importance"`, the `"roc"` curve, `"omission"` against the threshold
#'   rules, or the `"map"`.
#' @param variable For responses, which variables.
#' @param ... Passed on to [graphics::plot()] or ignored.
#' @return `print()` and `plot()` return their argument, invisibly; `summary()` a list of class `summary.maxentpy`;
#'   `autoplot()`, where ggplot2 is loaded, a ggplot.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' summary(fit)
#' plot(fit, "importance")
#' plot(fit, "response", variable = c("temperature", "precipitation"))
#' @name print.maxentpy
#' @export
print.maxentpy <- function(x, ...) {
  cat(sprintf("<maxent: %s, %d records, %s>\n", x$species, as.integer(x$n_records), paste(x$variables, collapse = ", ")))
  if (!is.null(x$folder)) {
    cat(sprintf("  AUC %.3f, gain %.3f, duality gap %.0e, %d features in use\n", x$scores[["auc"]], x$gain, x$gap,
                length(x$weights)))
  }
  invisible(x)
}

#' @rdname print.maxentpy
#' @method summary maxentpy
#' @export
summary.maxentpy <- function(object, ...) {
  folds <- lapply(object$replicates, function(table) mean(table$test_auc, na.rm = TRUE))
  structure(list(
    species = object$species, n_records = object$n_records, n_background = object$n_background, gap = object$gap,
    gain = object$gain, bound = object$bound, scores = object$scores, test_scores = object$test_scores,
    held_out_auc = unlist(folds), importance = object$importance, thresholds = object$thresholds,
    n_weights = length(object$weights), cleaning = object$cleaning, notes = object$notes
  ), class = "summary.maxentpy")
}

#' @export
print.summary.maxentpy <- function(x, ...) {
  cat(sprintf("%s: %d records, %s background points\n", x$species, as.integer(x$n_records),
              format(x$n_background %||% NA)))
  if (is.null(x$scores)) return(invisible(x))
  cat(sprintf("gain %.4f within %.0e of the optimum; %d features in use\n", x$gain, x$gap, x$n_weights))
  cat(sprintf("AUC %.3f%s\n", x$scores[["auc"]],
              if (length(x$held_out_auc)) sprintf(", %.3f held out (%s)", x$held_out_auc[1], names(x$held_out_auc)[1]) else ""))
  if (!is.null(x$importance)) {
    cat("\nimportance, percent\n")
    print(x$importance[c("variable", "contribution", "permutation")], digits = 3, row.names = FALSE)
  }
  cat("\nthresholds (cloglog)\n")
  print(x$thresholds[intersect(c("name", "value", "area", "training_omission"), names(x$thresholds))], digits = 3,
        row.names = FALSE)
  for (note in x$notes) cat("note:", note, "\n")
  invisible(x)
}

#' A fit as a plain list
#'
#' @param x A fit of [maxent()].
#' @param ... Ignored.
#' @return A list of plain vectors and data.frames: `species`, `n_records`, `weights` by feature, `gap`, `gain`, `scores`,
#'   `thresholds`, `importance`, `jackknife`, `responses`, `replicates` (scores of folds), `roc`, `ranges`, `levels`,
#'   `settings`, `notes` ...
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' str(as.list(fit), max.level = 1)
#' @method as.list maxentpy
#' @export
as.list.maxentpy <- function(x, ...) {
  plain <- unclass(x)
  plain$settings <- if (!is.null(plain$settings)) .from_json(plain$settings)
  plain[setdiff(names(plain), c("text", "digest", "call", "terms"))]
}

.pictures <- c("response", "importance", "roc", "omission", "map")

.picture <- function(what) {
  if (is.null(what)) return("response")
  if (length(what) != 1 || !what %in% .pictures) {
    .stop("what to draw must be one of ", paste(.pictures, collapse = ", "), kind = "ValueError")
  }
  what
}

#' @rdname print.maxentpy
#' @method plot maxentpy
#' @export
plot.maxentpy <- function(x, y = NULL, variable = NULL, ...) {
  what <- .picture(y)
  if (!is.null(variable) && what != "response") .stop("variable has no effect on ", what, kind = "ValueError")
  switch(what,
    response = .plot_response(response(x, variable), ...),
    importance = .plot_importance(varimp(x), ...),
    roc = .plot_roc(x, ...),
    omission = .plot_omission(x, ...),
    map = terra::plot(.own_map(x, "cloglog"), ...)
  )
  invisible(x)
}

.plot_response <- function(table, ...) {
  parts <- split(table, factor(table$variable, unique(table$variable)))
  kept <- graphics::par(mfrow = grDevices::n2mfrow(length(parts)), mar = c(4, 4, 1, 1))
  on.exit(graphics::par(kept))
  for (name in names(parts)) {
    one <- parts[[name]]
    if (!all(is.na(one$level))) {
      graphics::barplot(one$y, names.arg = one$level, xlab = name, ylab = "cloglog", ylim = c(0, 1), ...)
      next
    }
    graphics::plot(one$x, one$y, type = "n", xlab = name, ylab = "cloglog", ylim = c(0, 1), ...)
    if (!anyNA(one$low)) {
      graphics::polygon(c(one$x, rev(one$x)), c(one$low, rev(one$high)), col = "grey85", border = NA)
    }
    graphics::lines(one$x, one$y, lwd = 2)
  }
}

.plot_importance <- function(table, ...) {
  kept <- graphics::par(mar = c(4, 9, 1, 1))
  on.exit(graphics::par(kept))
  shown <- t(as.matrix(table[rev(seq_len(nrow(table))), c("permutation", "contribution")]))
  graphics::barplot(shown, names.arg = rev(table$variable), horiz = TRUE, beside = TRUE, las = 1, xlab = "percent",
                    legend.text = rownames(shown), args.legend = list(x = "bottomright", bty = "n"), ...)
}

.plot_roc <- function(x, ...) {
  .tabled(x)
  curve <- x$roc$train
  graphics::plot(curve$false_positive_rate, curve$true_positive_rate, type = "s", xlab = "share of the background",
                 ylab = "share of the records", ...)
  graphics::abline(0, 1, lty = 3)
}

.plot_omission <- function(x, ...) {
  .tabled(x)
  rules <- x$thresholds
  graphics::plot(rules$value, rules$training_omission, xlab = "threshold (cloglog)", ylab = "training omission",
                 xlim = c(0, 1), ylim = c(0, 1), pch = 19, ...)
  graphics::text(rules$value, rules$training_omission, rules$name, cex = 0.6, pos = 4)
}

#' @rdname print.maxentpy
#' @exportS3Method ggplot2::autoplot
autoplot.maxentpy <- function(object, what = "response", variable = NULL, ...) {
  what <- .picture(what)
  if (what == "importance") {
    table <- varimp(object)
    table$variable <- factor(table$variable, rev(table$variable))
    return(ggplot2::ggplot(table, .aes(y = "variable", x = "contribution")) + ggplot2::geom_col() +
             ggplot2::labs(x = "contribution, percent", y = NULL))
  }
  if (what == "roc") {
    .tabled(object)
    return(ggplot2::ggplot(object$roc$train, .aes(x = "false_positive_rate", y = "true_positive_rate")) +
             ggplot2::geom_step() + ggplot2::labs(x = "share of the background", y = "share of the records"))
  }
  if (what == "map") {
    map <- .own_map(object, "cloglog")
    cells <- terra::as.data.frame(map, xy = TRUE)
    return(ggplot2::ggplot(cells, .aes(x = "x", y = "y", fill = "cloglog")) + ggplot2::geom_raster() +
             ggplot2::coord_equal() + ggplot2::scale_fill_viridis_c(limits = c(0, 1)))
  }
  if (what == "omission") {
    .tabled(object)
    return(ggplot2::ggplot(object$thresholds, .aes(x = "value", y = "training_omission")) + ggplot2::geom_point() +
             ggplot2::labs(x = "threshold (cloglog)", y = "training omission"))
  }
  table <- response(object, variable)
  table <- table[is.na(table$level), ]
  drawn <- ggplot2::ggplot(table, .aes(x = "x", y = "y")) + ggplot2::facet_wrap("variable", scales = "free_x") +
    ggplot2::labs(x = NULL, y = "cloglog")
  if (!anyNA(table$low)) drawn <- drawn + ggplot2::geom_ribbon(.aes(ymin = "low", ymax = "high"), alpha = 0.25)
  drawn + ggplot2::geom_line()
}

# Columns by their names, for a table whose columns are known.
.aes <- function(...) {
  do.call(ggplot2::aes, lapply(list(...), as.name))
}
