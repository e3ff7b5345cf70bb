# Records, layers and tables of R as the functions of maxent take them.

# Columns for Python: numbers as the bytes of doubles, anything else as text.
.columns <- function(table) {
  lapply(as.list(table), function(values) {
    if (is.factor(values) || inherits(values, c("Date", "POSIXt"))) values <- as.character(values)
    if (is.logical(values)) values <- as.numeric(values)
    if (is.numeric(values)) writeBin(as.double(values), raw()) else .texts(values)
  })
}

.texts <- function(values) {
  lapply(as.character(values), function(value) if (is.na(value)) NULL else enc2utf8(value))
}

.is_points <- function(given) inherits(given, c("sf", "sfc", "SpatVector"))

# Records, to be written beside the results of the session as the command reads them.
.records <- function(occ, name = "occ", crs = NULL) {
  place <- list()
  if (.is_points(occ)) {
    points <- .points(occ, name)
    occ <- points$table
    place <- list(x = "x", y = "y", crs = crs %||% points$crs)
  } else {
    if (is.matrix(occ)) occ <- as.data.frame(occ)
    if (!is.data.frame(occ)) {
      .stop(name, " must be a data.frame, an sf object or a SpatVector of points, got ", .what(occ), kind = "ValueError")
    }
    place <- list(crs = crs)
    if (ncol(occ) == 2 && all(vapply(occ, is.numeric, NA)) && !any(tolower(names(occ)) %in% .usual)) {
      place$assumed <- sprintf("%s: its columns %s and %s are taken as x and y", name, names(occ)[1], names(occ)[2])
      names(occ) <- c("x", "y")
    }
  }
  if (!nrow(occ)) .stop(name, " has no rows", kind = "ValueError")
  path <- file.path(.scratch(), paste0(name, ".csv"))
  c(list(path = path, columns = .columns(occ)), place[!vapply(place, is.null, NA)])
}

.usual <- c("x", "y", "lon", "lat", "long", "longitude", "latitude", "decimallongitude", "decimallatitude")

.points <- function(occ, name) {
  if (inherits(occ, "SpatVector")) {
    if (!identical(terra::geomtype(occ), "points")) {
      .stop(name, " must hold points, got ", terra::geomtype(occ), kind = "ValueError")
    }
    xy <- terra::crds(occ)
    table <- as.data.frame(occ)
    crs <- terra::crs(occ)
  } else {
    if (!requireNamespace("sf", quietly = TRUE)) .stop("the package sf is needed for ", name, kind = "ValueError")
    kinds <- unique(as.character(sf::st_geometry_type(occ)))
    if (!identical(setdiff(kinds, "POINT"), character())) {
      .stop(name, " must hold points (POINT), got ", paste(kinds, collapse = ", "), kind = "ValueError")
    }
    xy <- sf::st_coordinates(occ)
    table <- if (inherits(occ, "sf")) sf::st_drop_geometry(occ) else data.frame(row.names = seq_along(occ))
    crs <- sf::st_crs(occ)$wkt
  }
  table <- as.data.frame(table)[setdiff(names(table), c("x", "y"))]
  table$x <- as.double(xy[, 1])
  table$y <- as.double(xy[, 2])
  list(table = table, crs = if (!is.null(crs) && !is.na(crs) && nzchar(crs)) crs)
}

# Layers: files stay files; what is in memory, cut, or changed is written as doubles first.
.layers <- function(env, name = "env") {
  parts <- if (is.list(env) && !is.data.frame(env)) unname(env) else list(env)
  if (!length(parts)) .stop(name, " has no layers", kind = "ValueError")
  parts <- lapply(parts, .layers_of, name = name)
  list(
    sources = as.list(unlist(lapply(parts, `[[`, "sources"))),
    layer = as.list(unlist(lapply(parts, `[[`, "layer"))),
    categorical = as.list(unique(unlist(lapply(parts, `[[`, "categorical"))))
  )
}

.layers_of <- function(env, name) {
  if (is.character(env)) {
    there <- file.exists(env) | grepl("^https?://", env)
    if (!all(there)) .stop(name, ": there is no file ", env[!there][1], kind = "FileNotFoundError")
    return(list(sources = ifelse(grepl("^https?://", env), env, normalizePath(env, mustWork = FALSE))))
  }
  if (inherits(env, "stars") || inherits(env, c("Raster", "RasterLayer", "RasterStack", "RasterBrick"))) {
    env <- terra::rast(env)
  }
  if (!inherits(env, "SpatRaster")) {
    .stop(name, " must be a SpatRaster, a list of them, file names or a data.frame, got ", .what(env), kind = "ValueError")
  }
  odd <- grep("=", names(env), fixed = TRUE, value = TRUE)
  if (length(odd)) .stop(name, ": the name of a layer must not have a = in it, got ", odd[1], kind = "ValueError")
  factors <- names(env)[terra::is.factor(env)]
  places <- .files_of(env)
  if (is.null(places)) places <- .written(env)
  list(layer = paste0(names(env), "=", places$file, ":", places$band), categorical = factors)
}

# Of layers that are factors, the codes in the files and their labels.
.labels <- function(env) {
  if (!is.list(env)) env <- list(env)
  found <- list()
  for (one in Filter(function(part) inherits(part, "SpatRaster"), env)) {
    for (name in names(one)[terra::is.factor(one)]) found[[name]] <- terra::levels(one[[name]])[[1]]
  }
  lapply(found, function(table) stats::setNames(as.double(table[[1]]), as.character(table[[2]])))
}

# File and band of each layer, or NULL where values may differ from those in the files.
.files_of <- function(env) {
  if (any(terra::inMemory(env))) return(NULL)
  found <- tryCatch(terra::sources(env, bands = TRUE), error = function(e) NULL)
  if (is.null(found) || nrow(found) != terra::nlyr(env) || !all(nzchar(found$source))) return(NULL)
  if (!all(file.exists(found$source))) return(NULL)
  same <- vapply(seq_len(nrow(found)), function(i) .untouched(env[[i]], found$source[i], found$bands[i]), NA)
  if (all(same)) list(file = normalizePath(found$source), band = found$bands)
}

.untouched <- function(layer, file, band) {
  there <- tryCatch(suppressWarnings(terra::rast(file))[[band]], error = function(e) NULL)
  if (is.null(there)) return(FALSE)
  alike <- terra::compareGeom(layer, there, stopOnError = FALSE, messages = FALSE, crs = FALSE)
  alike && identical(terra::crs(layer), terra::crs(there)) && !.windowed(layer) && .same_sample(layer, there)
}

.windowed <- function(layer) isTRUE(tryCatch(any(terra::window(layer)), error = function(e) FALSE))

# NA flags and the like change values without a file of their own.
.same_sample <- function(layer, there) {
  rows <- unique(round(seq(1, terra::nrow(layer), length.out = 3)))
  some <- function(raster) {
    terra::readStart(raster)
    on.exit(terra::readStop(raster))
    unlist(lapply(rows, function(row) terra::readValues(raster, row, 1)))
  }
  identical(some(layer), some(there))
}

.written <- function(env) {
  files <- vapply(seq_len(terra::nlyr(env)), function(i) {
    layer <- env[[i]]
    kind <- "FLT8S"
    if (isTRUE(terra::is.factor(layer))) {
      levels(layer) <- NULL
      kind <- "INT4S"
    }
    path <- tempfile("layer-", tmpdir = .scratch(), fileext = ".tif")
    if (all(is.nan(terra::minmax(layer, compute = TRUE)[, 1]))) {
      .stop("the layer ", names(env)[i], " has no values", kind = "ValueError")
    }
    terra::writeRaster(layer, path, datatype = kind, gdal = "COMPRESS=DEFLATE")
    path
  }, "")
  list(file = normalizePath(files), band = rep(1L, length(files)))
}

# A single raster (or its file) for what takes one.
.one_file <- function(raster, name) {
  if (is.null(raster)) return(NULL)
  if (is.character(raster)) {
    if (length(raster) != 1 || !file.exists(raster)) {
      .stop(name, ": there is no file ", raster[1], kind = "FileNotFoundError")
    }
    return(normalizePath(raster))
  }
  if (!inherits(raster, "SpatRaster") || terra::nlyr(raster) != 1) {
    .stop(name, " must be a SpatRaster of one layer or a file, got ", .what(raster), kind = "ValueError")
  }
  places <- .files_of(raster)
  if (is.null(places) || terra::nlyr(terra::rast(places$file)) != 1) places <- .written(raster)
  places$file
}

# Arguments in `...`: names of the command's options; polygons become files.
.options <- function(...) {
  given <- list(...)
  if (length(given) && (is.null(names(given)) || !all(nzchar(names(given))))) {
    .stop("arguments beyond the second need names, such as features = \"lq\"", kind = "ValueError")
  }
  for (name in intersect(names(given), c("region", "ecoregions", "extent"))) {
    if (.is_points(given[[name]])) given[[name]] <- .polygons(given[[name]], name)
  }
  given <- given[!vapply(given, is.null, NA)]
  lapply(given, function(value) if (length(value) > 1) as.list(value) else value)
}

.polygons <- function(given, name) {
  if (!inherits(given, "SpatVector")) given <- terra::vect(given)
  if (!identical(terra::geomtype(given), "polygons")) {
    .stop(name, " must hold polygons, got ", terra::geomtype(given), kind = "ValueError")
  }
  path <- tempfile(paste0(name, "-"), tmpdir = .scratch(), fileext = ".gpkg")
  terra::writeVector(given, path, options = NULL)
  path
}

.what <- function(given) paste0("an object of class ", class(given)[1])

# A folder of this session for what Python is to read; one for each call, so that names may be plain.
.scratch <- function() {
  .state$calls <- (.state$calls %||% 0) + 1
  place <- file.path(tempdir(), sprintf("maxentpy-%d", .state$calls))
  dir.create(place, showWarnings = FALSE)
  place
}

`%||%` <- function(given, otherwise) if (is.null(given)) otherwise else given
