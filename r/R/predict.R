#' Predictions: maps and values
#'
#' A SpatRaster is read and written in windows, by the code of `maxent project`: a layer that lies in a file is read from
#' there, and the map is a GeoTIFF. Rows of a data.frame give a vector.
#'
#' @param object A fit of [maxent()].
#' @param newdata A SpatRaster (or list of them, or files) with the variables of the fit, or a data.frame. `NULL` is the
#'   map of the fit's own layers, where it was drawn.
#' @param type `"cloglog"`, `"logistic"`, `"raw"`, `"cumulative"` or `"log"`; of surveys and counts also `"intensity"`,
#'   `"probability"` and `"count"`.
#' @param clamp Whether variables are held in their ranges at the fit.
#' @param mask `"mess"` or `"exdet"` leaves out places that extrapolate.
#' @param filename A .tif file for the map; `NULL` keeps it for the session.
#' @param overwrite Whether a file that is there is replaced.
#' @param quiet Whether notes are kept back.
#' @param ... Of layers: `align`, `resampling`, `layers_crs`, `nodata`.
#' @return A SpatRaster with one layer, or a vector with `NA` where a variable is missing. A category that the fit does
#'   not know has no effect, which a warning says.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' map <- predict(fit, made$future, type = "logistic")
#' @method predict maxentpy
#' @export
predict.maxentpy <- function(object, newdata = NULL, type = "cloglog", clamp = TRUE, mask = NULL, filename = NULL,
                             overwrite = FALSE, quiet = TRUE, ...) {
  type <- .type(type)
  if (is.null(newdata)) {
    wrong <- c(if (!isTRUE(clamp)) "clamp", if (!is.null(mask)) "mask", if (!is.null(filename)) "filename")
    if (length(wrong)) .stop(wrong[1], " has no effect without newdata", kind = "ValueError")
    return(.own_map(object, type))
  }
  if (is.data.frame(newdata)) {
    if (length(list(...)) || !is.null(filename)) {
      .stop("filename and options of layers have no effect where newdata is a data.frame", kind = "ValueError")
    }
    return(.rows(object, newdata, type, clamp, mask)[[type]])
  }
  made <- .project(object, newdata, type, clamp, mask, NULL, FALSE, filename, overwrite, quiet, ...)
  made[[type]]
}

.types <- c("cloglog", "logistic", "raw", "cumulative", "log", "intensity", "probability", "count")

.type <- function(type) {
  if (length(type) != 1 || !type %in% .types) {
    .stop("type must be one of ", paste(.types, collapse = ", "), ", got ", paste(deparse(type), collapse = ""),
          kind = "ValueError")
  }
  type
}

.own_map <- function(fit, type) {
  file <- fit$maps[[type]]
  if (is.null(file) || !file.exists(file)) {
    .stop("the fit has no map of ", type, " of its own layers; give them as newdata", kind = "ValueError")
  }
  stats::setNames(terra::rast(file), type)
}

.rows <- function(fit, newdata, output, clamp, mask, similarity = FALSE) {
  if (!is.null(fit$terms)) {
    absent <- setdiff(all.vars(fit$terms), names(newdata))
    if (length(absent)) .stop("newdata has no column ", absent[1], ", which the fit needs", kind = "ValueError")
    newdata <- .variables(fit$terms, stats::model.frame(fit$terms, newdata, na.action = stats::na.pass))
  }
  absent <- setdiff(fit$variables, names(newdata))
  if (length(absent)) .stop("newdata has no column ", absent[1], ", which the fit needs", kind = "ValueError")
  for (name in intersect(fit$categorical, names(fit$labels))) newdata[[name]] <- .codes(newdata[[name]], fit$labels[[name]])
  words <- vapply(newdata[setdiff(fit$variables, fit$categorical)], function(v) !(is.numeric(v) || is.logical(v)), NA)
  if (any(words)) .stop("newdata: ", names(words)[words][1], " must be numbers, as at the fit", kind = "ValueError")
  if (!nrow(newdata)) return(stats::setNames(list(numeric()), output))
  told <- .ask("predict_table", model = .file(fit), columns = .columns(newdata[fit$variables]), output = output,
               clamp = isTRUE(clamp), mask = mask, similarity = similarity, .quiet = TRUE)
  .warn_unknown(told$unknown)
  .na(.table(told$columns))
}

# A layer of categories has numbers; a column of its labels gets them back.
.codes <- function(values, codes) {
  if (is.numeric(values)) return(values)
  texts <- as.character(values)
  known <- unname(codes[texts])
  if (all(!is.na(known) | is.na(texts))) known else ifelse(is.na(known), texts, as.character(known))
}

.warn_unknown <- function(unknown) {
  unknown <- unlist(unknown)
  if (length(unknown)) {
    .told(paste0("caution: the fit does not know these categories, which get no effect: ", paste(unknown, collapse = "; ")))
  }
}

# What is missing is NA in R, not NaN.
.na <- function(table) {
  for (name in names(table)) if (is.numeric(table[[name]])) table[[name]][is.nan(table[[name]])] <- NA
  table
}

.project <- function(fit, newdata, outputs, clamp, mask, threshold, extras, filename, overwrite, quiet, ...) {
  if (is.null(filename)) filename <- file.path(.scratch(), "map.tif")
  if (!grepl("\\.tiff?$", filename, ignore.case = TRUE)) {
    .stop("filename must end in .tif, got ", filename, kind = "ValueError")
  }
  told <- .ask("project", model = .file(fit), layers = .layers(newdata, "newdata"), out = path.expand(filename),
               outputs = as.list(outputs), clamp = isTRUE(clamp), mask = mask, threshold = threshold, extras = extras,
               overwrite = isTRUE(overwrite), options = .options(...), .quiet = quiet)
  if (told$unseen > 0) {
    .told(sprintf("caution: %d of %d cells hold a category that the fit does not know, which gets no effect",
                  told$unseen, told$cells))
  }
  maps <- lapply(names(told$files), function(what) stats::setNames(terra::rast(told$files[[what]]), what))
  structure(stats::setNames(maps, names(told$files)), classes = unlist(told$classes))
}

#' Maps of other layers, with where they extrapolate
#'
#' What `maxent project` draws, as one SpatRaster: outputs, presence, how much clamping changes, similarity to the fit
#' (MESS), the most dissimilar variable, and new combinations of variables (ExDet).
#'
#' @inheritParams predict.maxentpy
#' @param outputs One or more of the types of [predict.maxentpy()].
#' @param threshold Also `presence`, from this value on or by this rule, such as "10 percentile".
#' @param similarity Whether to draw clamping, MESS, the most dissimilar variable and ExDet.
#' @param filename A .tif file for the first output; the others lie beside it as `NAME_mess.tif`.
#' @return A SpatRaster with a layer for each. For any other object than a fit the function of terra is called.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' names(project(fit, made$future, threshold = "10 percentile"))
#' @export
project <- function(object, ...) UseMethod("project")

#' @rdname project
#' @export
project.default <- function(object, ...) terra::project(object, ...)

#' @rdname project
#' @export
project.maxentpy <- function(object, newdata, outputs = "cloglog", threshold = NULL, similarity = TRUE, clamp = TRUE,
                             mask = NULL, filename = NULL, overwrite = FALSE, quiet = FALSE, ...) {
  for (type in outputs) .type(type)
  made <- .project(object, newdata, outputs, clamp, mask, threshold, isTRUE(similarity), filename, overwrite, quiet, ...)
  classes <- attr(made, "classes")
  if (!is.null(made$mod) && length(classes)) {
    levels(made$mod) <- data.frame(id = as.integer(names(classes)), mod = unname(classes))
    names(made$mod) <- "mod"
  }
  terra::rast(unname(as.list(made)))
}

#' Where a fit extrapolates
#'
#' `mess()` is the multivariate environmental similarity surface: negative where a variable lies outside its range at the
#' fit. `exdet()` is negative there too, and above 1 where the combination of variables is new.
#'
#' @inheritParams predict.maxentpy
#' @param fit A fit of [maxent()].
#' @return For a SpatRaster one too: of `mess()` with layers `mess` and `mod`, the most dissimilar variable; for a
#'   data.frame a data.frame with these columns.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' mess(fit, made$future)
#' exdet(fit, terra::extract(made$future, fit$records[1:3, c("x", "y")]))
#' @export
mess <- function(fit, newdata, quiet = TRUE, ...) .novelty(fit, newdata, c("mess", "mod"), quiet, ...)

#' @rdname mess
#' @export
exdet <- function(fit, newdata, quiet = TRUE, ...) .novelty(fit, newdata, "exdet", quiet, ...)

.novelty <- function(fit, newdata, names, quiet, ...) {
  if (is.data.frame(newdata)) {
    told <- .rows(fit, newdata, "cloglog", TRUE, NULL, similarity = TRUE)
    lacking <- setdiff(names, names(told))
    if (length(lacking)) .no_environment(lacking[1])
    return(told[names])
  }
  made <- project(fit, newdata, quiet = quiet, ...)
  lacking <- setdiff(names, names(made))
  if (length(lacking)) .no_environment(lacking[1])
  made[[names]]
}

.no_environment <- function(what) {
  .stop(what, " needs the environment of the fit, which the model does not hold (as of a .lambdas file)", kind = "ValueError")
}

#' Why a place is suitable
#'
#' What each variable adds to the exponent of a place, in nats against the mean place of the records: its factor is
#' `exp(share)`.
#'
#' @param fit A fit of [maxent()].
#' @param xy Places: a matrix or data.frame of x and y in the CRS of `env`, or sf points in any.
#' @param env The layers to read there; `NULL` is those of the fit.
#' @param clamp Whether variables are held in their ranges.
#' @return A data.frame with a row for each place and variable: `place`, `x`, `y`, `variable`, `value`, `usual` (at the
#'   mean place), `share`, `factor`, `low` and `high` (its range at the fit), `outside`. The attribute `places` has
#'   outputs, MESS and ExDet of each place.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' explain(fit, fit$records[1, c("x", "y")])
#' @export
explain <- function(fit, xy, env = NULL, clamp = TRUE) {
  crs <- NULL
  if (.is_points(xy)) {
    points <- .points(xy, "xy")
    xy <- points$table[c("x", "y")]
    crs <- points$crs
  }
  if (is.null(dim(xy)) && is.numeric(xy) && length(xy) == 2) xy <- matrix(xy, 1)
  if (is.null(dim(xy)) || ncol(xy) < 2 || !all(vapply(as.data.frame(xy)[1:2], is.numeric, NA))) {
    .stop("xy must be two columns of numbers, x and y, or sf points", kind = "ValueError")
  }
  xy <- as.data.frame(xy)[1:2]
  if (anyNA(xy)) .stop("xy: row ", which(!stats::complete.cases(xy))[1], " lacks a coordinate", kind = "ValueError")
  told <- .ask("explain", model = .file(fit), layers = if (!is.null(env)) .layers(env), x = writeBin(as.double(xy[[1]]), raw()),
               y = writeBin(as.double(xy[[2]]), raw()), crs = crs, clamp = isTRUE(clamp), .quiet = TRUE)
  parts <- lapply(seq_along(told), function(i) {
    shares <- .na(.table(told[[i]]$shares))
    data.frame(place = i, x = told[[i]]$x, y = told[[i]]$y, variable = shares$variable, value = shares$value,
               usual = shares$usual, share = shares$share, factor = exp(shares$share), low = shares$low,
               high = shares$high, outside = shares$outside == 1)
  })
  places <- lapply(told, function(one) {
    known <- c(one$outputs, mess = one$mess %||% NA_real_, exdet = one$exdet %||% NA_real_, words = one$words)
    as.data.frame(known, stringsAsFactors = FALSE)
  })
  structure(do.call(rbind, parts), places = do.call(rbind, places))
}
