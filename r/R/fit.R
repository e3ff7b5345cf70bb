#' Fit the distribution of a species
#'
#' What `maxent fit` does, from objects of R: the same records, the same cells, the same numbers to the last digit.
#'
#' @param occ Records: a data.frame (or matrix) with columns of coordinates, recognised by usual names, and perhaps one
#'   of species; an sf object or SpatVector of points. With a data.frame of variables as `env`, a vector with 1 (or TRUE)
#'   for each row with a record and 0 for background, as in maxnet and dismo.
#' @param env Variables: a SpatRaster, a list of SpatRasters, names of files or folders, or a data.frame with a row for
#'   each place. Layers that are factors hold categories; so do those that `categorical` names.
#' @param ... Options of `maxent fit` by their long names with underscores, such as `features = "lq"`, `multiplier = 2`,
#'   `background = 10000` (or "all"), `thin = 5`, `cv = "blocks"`, `block_size = 40`, `jackknife = FALSE`, `buffer = 300`,
#'   `region =` polygons, `intervals = "laplace"`, `threshold =`, `output = "raw"`, `align =`, `seed = 1`. A name that
#'   does not exist is an error. `maxent fit --help` explains them all.
#' @param species Which species, where `occ` has several.
#' @param test,background_records,bias Records for testing; records whose cells are the background; a SpatRaster of
#'   sampling effort.
#' @param target_group Take the cells of all records of `occ`, whatever their species, as the background.
#' @param survey,counts Surveys with absences, and counts, to be fitted with the records: a data.frame or sf object, or
#'   a list of them.
#' @param project Other layers to map as well: a named list of SpatRasters.
#' @param tuned What [tune()] found, whose best settings are taken.
#' @param crs CRS of the coordinates in a data.frame, such as "EPSG:4326".
#' @param out Folder for results, which is made: map, report, tables and model. `NULL` keeps them for the session.
#' @param overwrite Whether results in `out` are replaced.
#' @param quiet Whether notes on what was assumed are kept back; they are in `fit$notes` either way.
#' @param progress Whether a bar shows how far it is.
#' @return An object of class `maxentpy`: model, scores, thresholds, curves and importance, see [as.list.maxentpy()]. It
#'   survives [saveRDS()].
#' @seealso [predict.maxentpy()], [tune()], [evaluate()], [explain()], [read_maxent()]
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "lq", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' fit
#' terra::plot(predict(fit, made$env))
#' @export
maxent <- function(occ, env, ..., species = NULL, test = NULL, background_records = NULL, target_group = FALSE,
                   bias = NULL, survey = NULL, counts = NULL, project = NULL, tuned = NULL, crs = NULL, out = NULL,
                   overwrite = FALSE, quiet = FALSE, progress = interactive()) {
  options <- .with_tuned(.options(...), tuned)
  if (is.data.frame(env)) {
    given <- list(test = test, background_records = background_records, bias = bias, survey = survey, counts = counts,
                  project = project, crs = crs)
    wrong <- c(names(given)[!vapply(given, is.null, NA)], if (isTRUE(target_group)) "target_group")
    if (length(wrong)) .stop(wrong[1], " has no effect where env is a data.frame", kind = "ValueError")
    return(.maxent_table(occ, env, options, species, out, overwrite, quiet, progress, match.call()))
  }
  crs <- options$crs %||% crs
  options$crs <- NULL
  fitted <- .ask(
    "fit", out = .out(out), options = options, records = .records(occ, crs = crs), layers = .layers(env),
    species = species,
    test = if (!is.null(test)) .records(test, "test", crs),
    group = if (!is.null(background_records)) .records(background_records, "background_records", crs),
    target_group = isTRUE(target_group), bias = .one_file(bias, "bias"),
    survey = .several(survey, "survey", crs), counts = .several(counts, "counts", crs),
    project = .projections(project), overwrite = isTRUE(overwrite), .quiet = quiet, .progress = progress
  )
  fit <- .fitted(fitted, match.call())
  fit$labels <- .labels(env)
  fit
}

#' Fit a table by a formula
#'
#' @param formula Presence on the left (1 or TRUE for a record, 0 for background), variables on the right:
#'   `pa ~ bio1 + factor(biome)`, or `pa ~ .` for all columns. Factors and texts hold categories.
#' @param data A data.frame with a row for each place. Rows with a missing value are left out, with a note.
#' @inheritParams maxent
#' @return As of [maxent()].
#' @examplesIf maxentpy::maxent_available()
#' set.seed(1)
#' places <- data.frame(bio1 = rnorm(300), biome = sample(letters[1:3], 300, TRUE))
#' places$pa <- as.numeric(runif(300) < plogis(places$bio1 - 1))
#' fit <- maxent_swd(pa ~ bio1 + factor(biome), places, features = "lq", quiet = TRUE)
#' head(predict(fit, places))
#' @export
maxent_swd <- function(formula, data, ..., species = NULL, out = NULL, overwrite = FALSE, quiet = FALSE,
                       progress = interactive()) {
  if (!inherits(formula, "formula") || length(formula) != 3) {
    .stop("formula must be like pa ~ bio1 + factor(biome), got ", .what(formula), kind = "ValueError")
  }
  if (!is.data.frame(data)) .stop("data must be a data.frame, got ", .what(data), kind = "ValueError")
  terms <- stats::terms(formula, data = data)
  if (any(attr(terms, "order") > 1) || !is.null(attr(terms, "offset"))) {
    .stop("a formula of maxent_swd() names variables alone: products and squares are features, such as features = ",
          "\"lqp\"", kind = "ValueError")
  }
  absent <- setdiff(all.vars(formula), c(names(data), "."))
  if (length(absent)) {
    .stop("data has no column ", absent[1], "; it has ", paste(names(data), collapse = ", "), kind = "ValueError")
  }
  frame <- stats::model.frame(terms, data, na.action = stats::na.pass)
  presence <- stats::model.response(frame)
  variables <- .variables(stats::delete.response(terms), frame)
  fit <- .maxent_table(presence, variables, .options(...), species %||% deparse(formula[[2]]), out, overwrite, quiet,
                       progress, match.call())
  fit$terms <- stats::delete.response(terms)
  environment(fit$terms) <- globalenv()
  fit
}

# The columns of a formula, factor(biome) as biome.
.variables <- function(terms, frame) {
  labels <- attr(terms, "term.labels")
  table <- as.data.frame(lapply(labels, function(label) frame[[label]]), optional = TRUE)
  names(table) <- sub("^(as\\.)?factor\\((.*)\\)$", "\\2", labels)
  table
}

.maxent_table <- function(presence, table, options, species, out, overwrite, quiet, progress, call) {
  presence <- .presence(presence, nrow(table))
  chosen <- unlist(options$categorical)
  wrong <- setdiff(chosen, names(table))
  if (length(wrong)) .stop("categorical: there is no column ", wrong[1], kind = "ValueError")
  options$categorical <- NULL
  for (name in chosen) table[[name]] <- as.character(table[[name]])
  categorical <- names(table)[vapply(table, function(v) is.factor(v) || is.character(v), NA)]
  known <- stats::complete.cases(table) & !is.na(presence)
  if (!all(known) && !quiet) .told(sprintf("%d of %d rows lack a value and are left out", sum(!known), length(known)))
  used <- function(rows) .columns(table[known & rows %in% TRUE, , drop = FALSE])
  fitted <- .ask(
    "fit_table", out = .out(out), options = options, species = species %||% "species", place = .scratch(),
    samples = used(presence), background = used(!presence), categorical = as.list(categorical),
    overwrite = isTRUE(overwrite), .quiet = quiet, .progress = progress
  )
  .fitted(fitted, call)
}

.presence <- function(given, n) {
  if (is.data.frame(given)) {
    .stop("with a data.frame of variables, records are a vector with 1 or 0 for each of its rows", kind = "ValueError")
  }
  if (is.factor(given)) given <- as.character(given)
  if (is.character(given)) given <- suppressWarnings(as.numeric(given))
  if (length(given) != n) {
    .stop("records are a vector with 1 or 0 for each row: there are ", length(given), " of them and ", n, " rows",
          kind = "ValueError")
  }
  odd <- !is.na(given) & !given %in% c(0, 1)
  if (any(odd)) .stop("records are 1 (or TRUE) and 0 (background), got ", given[odd][1], kind = "ValueError")
  if (!any(given == 1, na.rm = TRUE)) .stop("there is no record: no row has a 1", kind = "ValueError")
  if (!any(given == 0, na.rm = TRUE)) .stop("there is no background: no row has a 0", kind = "ValueError")
  given == 1
}

.several <- function(given, name, crs) {
  if (is.null(given)) return(list())
  if (is.data.frame(given) || .is_points(given) || is.matrix(given)) given <- list(given)
  lapply(given, .records, name = name, crs = crs)
}

# Other layers in folders of their own, whose names are those of the maps.
.projections <- function(given) {
  if (is.null(given)) return(list())
  if (!is.list(given)) given <- list(projection = given)
  names <- names(given)
  if (is.null(names) || !all(nzchar(names))) {
    .stop("project must be a named list, such as list(future = rasters)", kind = "ValueError")
  }
  lapply(names, function(name) {
    if (is.character(given[[name]])) return(.layers(given[[name]], "project"))
    if (!inherits(given[[name]], "SpatRaster")) {
      .stop("project must be SpatRasters or folders, got ", .what(given[[name]]), kind = "ValueError")
    }
    folder <- file.path(.scratch(), name)
    dir.create(folder)
    written <- .written(given[[name]])$file
    file.rename(written, file.path(folder, paste0(names(given[[name]]), ".tif")))
    list(sources = list(normalizePath(folder)), layer = list(), categorical = list())
  })
}

.with_tuned <- function(options, tuned) {
  if (is.null(tuned)) return(options)
  if (!inherits(tuned, "maxentpy_tuning")) .stop("tuned must be what tune() returned, got ", .what(tuned), kind = "ValueError")
  for (name in c("features", "multiplier", "potential")) {
    if (!is.null(options[[name]])) .stop(name, " is chosen by tuned already; give one of them", kind = "ValueError")
    options[[name]] <- tuned[[name]][1]
  }
  options
}

.out <- function(out) {
  if (is.null(out)) return(file.path(.scratch(), "results"))
  if (!is.character(out) || length(out) != 1) .stop("out must be the name of a folder, got ", .what(out), kind = "ValueError")
  path.expand(out)
}

# The object: tables unpacked, and the file's text so that it outlives the session.
.fitted <- function(told, call) {
  fit <- list(
    species = told$species, n_records = told$n_records, n_background = told$n_background,
    variables = .column(told$variables), categorical = .column(told$categorical),
    levels = stats::setNames(lapply(told$levels, as.character), .column(told$categorical)),
    ranges = .ranges(told), crs = told$crs,
    gap = told$gap, gain = told$gain, status = told$status, bound = told$bound,
    weights = stats::setNames(.doubles(told$weights), .column(told$features)),
    thresholds = if (is.null(told$thresholds)) .rules(told) else .table(told$thresholds),
    scores = unlist(.table(told$scores)), test_scores = unlist(.table(told$test_scores)),
    roc = lapply(told$roc, .table), replicates = lapply(told$replicates, .table),
    importance = .importance(told$importance), jackknife = .table(told$jackknife),
    responses = lapply(told$responses, function(one) {
      one$table <- .response_table(one$table)
      one
    }),
    records = .table(told$records), cleaning = .table(told$cleaning), notes = .column(told$notes),
    settings = told$settings, command = told$command, call = call, folder = told$folder, report = told$report,
    maps = told$maps, maxent = told$maxent, file = told$file, digest = told$digest,
    text = if (grepl("\\.json$", told$file)) readChar(told$file, file.size(told$file), useBytes = TRUE)
  )
  structure(fit, class = "maxentpy")
}

.ranges <- function(told) {
  numbers <- setdiff(.column(told$variables), .column(told$categorical))
  data.frame(variable = numbers, low = .doubles(told$low), high = .doubles(told$high))
}

.rules <- function(told) data.frame(name = .column(told$rules), value = .doubles(told$rule_values))

.importance <- function(columns) {
  table <- .table(columns)
  if (!length(table)) return(NULL)
  names(table)[names(table) == "variables"] <- "variable"
  table[order(-table$contribution), ]
}

.response_table <- function(columns) {
  table <- .table(columns)
  for (name in setdiff(c("low", "high"), names(table))) table[[name]] <- NA_real_
  table
}

# The file of the model, written again where the session that made it is over.
.file <- function(fit) {
  if (!inherits(fit, "maxentpy")) .stop("expected a fit of maxent(), got ", .what(fit), kind = "ValueError")
  if (file.exists(fit$file)) return(fit$file)
  if (is.null(fit$text)) .stop(fit$file, " is gone, and the object does not hold it", kind = "ValueError")
  path <- file.path(tempdir(), paste0("maxent-", fit$digest, ".json"))
  if (!file.exists(path)) writeBin(charToRaw(fit$text), path)
  path
}

#' Models as files
#'
#' `model.json` is the file of the command `maxent` and of Python: what one writes, the others read.
#'
#' @param path For reading, a folder of results of [maxent()] or of the command (with all scores and curves), its
#'   `model.json`, or a `.lambdas` file of maxent.jar. For writing, a file that ends in .json.
#' @param fit A fit of [maxent()].
#' @param overwrite Whether a file that is there is replaced.
#' @return `read_maxent()` is a fit as of [maxent()]; `write_maxent()` returns the path, invisibly.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60, seed = 3)
#' fit <- maxent(made$occ, made$env, features = "l", jackknife = FALSE, bootstrap = 0, quiet = TRUE)
#' path <- write_maxent(fit, tempfile(fileext = ".json"))
#' identical(read_maxent(path)$weights, fit$weights)
#' @export
read_maxent <- function(path) {
  if (!is.character(path) || length(path) != 1) .stop("path must be one file or folder", kind = "ValueError")
  .fitted(.ask("describe", path = path.expand(path)), sys.call())
}

#' @rdname read_maxent
#' @export
write_maxent <- function(fit, path, overwrite = FALSE) {
  from <- .file(fit)
  if (!grepl("\\.json$", path)) .stop("the name of a model ends in .json, got ", path, kind = "ValueError")
  if (file.exists(path) && !overwrite) .stop(path, " is there already; give overwrite = TRUE to replace it", kind = "ValueError")
  beside <- tempfile("model-", tmpdir = dirname(path))
  if (!file.copy(from, beside) || !file.rename(beside, path)) .stop(path, " could not be written", kind = "OSError")
  invisible(path)
}

#' A species that was made up
#'
#' An island, its climate now and in future, and records of a species whose true distribution is known: data for examples
#' that anyone can run.
#'
#' @param height,width Rows and columns of the grid.
#' @param records Number of records.
#' @param seed Seed of everything random.
#' @return A list: `occ`, `group` (records of other species too) as data.frames, `env`, `future`, `truth` and `effort` as
#'   SpatRasters, and `files`, where all of these lie for the session.
#' @examplesIf maxentpy::maxent_available()
#' made <- virtual_species(40, 50, 60)
#' made$env
#' @export
virtual_species <- function(height = 80, width = 100, records = 120, seed = 0) {
  files <- .ask("landscape", folder = .scratch(), height = height, width = width, records = records, seed = seed)
  stack <- function(folder) {
    env <- terra::rast(list.files(folder, "[.]tif$", full.names = TRUE))
    names(env) <- sub("[.]tif$", "", basename(terra::sources(env)))
    levels(env$biome) <- data.frame(id = 1:6, biome = paste("biome", 1:6))
    env
  }
  list(
    occ = utils::read.csv(files$occurrences), group = utils::read.csv(files$target_group),
    env = stack(files$layers), future = stack(files$future), truth = terra::rast(files$truth),
    effort = terra::rast(files$effort), files = files
  )
}
