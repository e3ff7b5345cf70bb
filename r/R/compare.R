#' What a species gains, keeps and loses
#'
#' What `maxent change` says of maps: areas on the ground, in km2 where the CRS is known.
#'
#' @param present A map of suitability: a SpatRaster, a file, or a fit, whose own map it is.
#' @param future One map on the same grid, or a named list of several.
#' @param threshold The least suitability that counts as presence; with a fit as `present` also a rule such as
#'   "10 percentile", which is the default there.
#' @param out Folder for maps and table; `NULL` keeps them for the session.
#' @param quiet Whether notes are kept back.
#' @return A data.frame with a row for each future: cells and km2 lost, kept and gained, and `change_percent`. Its
#'   attribute `maps` is a list of SpatRasters of classes.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' range_change(fit, predict(fit, made$future), quiet = TRUE)
#' @export
range_change <- function(present, future, threshold = NULL, out = NULL, quiet = FALSE) {
  rule <- ""
  if (inherits(present, "maxentpy")) {
    found <- .ask("rule", model = .file(present), wanted = threshold %||% "10 percentile training presence")
    rule <- found$rule
    threshold <- found$value
    present <- .own_map(present, "cloglog")
  }
  if (!is.numeric(threshold) || length(threshold) != 1) {
    .stop("threshold must be a number where maps are given: rules are those of a fit", kind = "ValueError")
  }
  if (!is.list(future)) future <- list(future = future)
  if (is.null(names(future)) || !all(nzchar(names(future)))) {
    .stop("future must be one map or a named list of them, such as list(wet = map)", kind = "ValueError")
  }
  files <- lapply(future, .one_file, name = "future")
  told <- .ask("change", present = .one_file(present, "present"), futures = files, threshold = threshold, out = .out(out),
               rule = rule, .quiet = quiet)
  maps <- told$files[grepl("[.]tif$", unlist(told$files))]
  structure(.na(.table(told$rows)), maps = lapply(maps, terra::rast), unit = told$unit)
}

#' How alike two niches are
#'
#' Schoener's D and Warren's I of two maps; of two fits in folders also in environmental space, and tests against chance.
#'
#' @param x,y Two maps of suitability on one grid (SpatRasters or files), or two fits with their own maps.
#' @param test `"identity"` or `"background"`, of two fits.
#' @param space `"geography"` or `"environment"`, of two fits.
#' @param null Number of null models.
#' @param seed Their seed.
#' @param quiet Whether notes are kept back.
#' @return A list with `D`, `I`, `correlation` and `cells`, or all that `maxent overlap --json` says of a test.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' niche_overlap(predict(fit, made$env), predict(fit, made$future))
#' @export
niche_overlap <- function(x, y, test = NULL, space = "geography", null = 100, seed = 0, quiet = FALSE) {
  fits <- inherits(x, "maxentpy") && inherits(y, "maxentpy")
  if (!is.null(test) || !identical(space, "geography")) {
    if (!fits || is.null(x$folder) || is.null(y$folder)) {
      .stop("test and space need two fits with their results, as of maxent()", kind = "ValueError")
    }
    options <- list(space = space, seed = as.integer(seed))
    if (!is.null(test)) options <- c(options, test = test, n_null = as.integer(null))
    return(.from_json(.ask("niches", one = x$folder, other = y$folder, options = options, .quiet = quiet)))
  }
  if (inherits(x, "maxentpy")) x <- .own_map(x, "cloglog")
  if (inherits(y, "maxentpy")) y <- .own_map(y, "cloglog")
  .ask("overlap", one = .one_file(x, "x"), other = .one_file(y, "y"))
}
