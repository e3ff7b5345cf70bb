test_that("rasters of different grids are refused, or aligned where asked", {
  made <- species()
  coarse <- terra::aggregate(made$env$elevation, 2, na.rm = TRUE)
  env <- list(made$env[["temperature"]], coarse)
  expect_error(quick(made$occ, env), "not on (the|one) (same )?grid|`align`", class = "maxent_error")
  expect_s3_class(quick(made$occ, env, align = "first"), "maxentpy")
})

test_that("levels of a factor that the model does not know are told", {
  fit <- a_fit()
  made <- species()
  rows <- terra::extract(made$env, fit$records[1:3, c("x", "y")])
  rows$biome <- as.character(rows$biome)
  rows$biome[1] <- "the moon"
  expect_warning(p <- predict(fit, rows), "does not know these categories.*the moon", class = "maxent_caution")
  expect_false(anyNA(p))
  other <- made$env
  other$biome <- terra::subst(made$env$biome * 1, 5, 77)
  expect_warning(predict(fit, other), "cells hold a category that the fit does not know")
})

test_that("rows with NA are left out of a fit and NA in a prediction", {
  made <- species()
  gaps <- rbind(made$occ, made$occ[1:2, ])
  gaps$decimalLongitude[61] <- NA
  gaps$decimalLatitude[62] <- NA
  fit <- quick(gaps, made$env)
  expect_identical(fit$weights, quick(made$occ, made$env)$weights)
  expect_match(paste(fit$cleaning$what, collapse = " "), "coordinates")
  rows <- terra::extract(made$env, a_fit()$records[1:3, c("x", "y")])
  rows$elevation[2] <- NA
  expect_identical(is.na(predict(a_fit(), rows)), c(FALSE, TRUE, FALSE))
  table <- data.frame(bio1 = c(rnorm(99), NA), pa = rep(0:1, 50))
  expect_message(maxent_swd(pa ~ bio1, table, features = "l", cv = "none"), "1 of 100 rows lack a value")
})

test_that("layers without a CRS work, and records that cannot be placed do not", {
  made <- species()
  bare <- made$env * 1
  terra::crs(bare) <- ""
  xy <- stats::setNames(made$occ[2:3], c("x", "y"))
  fit <- quick(xy, bare, categorical = "biome")
  expect_equal(fit$crs, "")
  expect_s4_class(predict(fit, bare), "SpatRaster")
  skip_if_not_installed("sf")
  unknown <- sf::st_as_sf(xy, coords = 1:2)
  expect_s3_class(quick(unknown, made$env), "maxentpy")
  far <- sf::st_transform(sf::st_as_sf(xy, coords = 1:2, crs = 4326), 3857)
  sf::st_crs(far) <- NA
  expect_error(quick(far, made$env), class = "maxent_error")
})

test_that("names with spaces and umlauts work, and a = in one is refused", {
  made <- species()
  env <- made$env[[c("temperature", "precipitation")]]
  names(env) <- c("mean temperature", "Niederschlagsh\u00f6he")
  folder <- file.path(tempfile(), "\u00d6kologie und mehr")
  dir.create(folder, recursive = TRUE)
  fit <- quick(made$occ, env, out = file.path(folder, "Ergebnis 1"))
  expect_equal(fit$variables, c("mean temperature", "Niederschlagsh\u00f6he"))
  file <- file.path(folder, "Karte \u00e4.tif")
  map <- predict(fit, env, filename = file)
  expect_identical(basename(terra::sources(map)), basename(file))
  expect_error(predict(fit, env, filename = file), "replace it with `overwrite = TRUE`", class = "maxent_error")
  names(env)[1] <- "a=b"
  expect_error(quick(made$occ, env), "must not have a = in it")
})

test_that("what is lacking is said by name", {
  made <- species()
  fit <- a_fit()
  expect_error(predict(fit, made$env[["temperature"]]), "biome|elevation", class = "maxent_error")
  expect_error(predict(fit, data.frame(temperature = 1)), "newdata has no column")
  expect_error(predict(fit, made$env, type = "probable"), "type must be one of")
  expect_error(predict(fit, made$env, type = "intensity"), "surveys or counts", class = "maxent_ValueError")
  expect_error(predict(fit, "no-such.tif"), "there is no file", class = "maxent_FileNotFoundError")
  expect_error(maxent(made$occ, 3), "must be a SpatRaster")
  expect_error(maxent(made$occ[0, ], made$env), "has no rows")
  expect_error(maxent(made$occ[1:2, ], made$env), "at least 3", class = "maxent_ValueError")
  expect_error(maxent("records", made$env), "must be a data.frame")
  expect_error(read_maxent(tempfile()), "no such model", class = "maxent_FileNotFoundError")
  expect_error(predict(1:3, made$env), class = "error")
  empty <- made$env$temperature * NA
  expect_error(quick(made$occ, empty), "has no values")
})

test_that("an error leaves nothing half-written and names the call", {
  made <- species()
  out <- tempfile()
  error <- tryCatch(quick(made$occ, made$env, out = out, features = "xyz"), maxent_error = identity)
  expect_s3_class(error, "maxent_ValueError")
  expect_false(grepl("--|\n", conditionMessage(error)))
  expect_false(file.exists(out))
  named <- tryCatch(maxent(made$occ, made$env, features = "xyz", out = out, quiet = TRUE), maxent_error = identity)
  expect_match(deparse(conditionCall(named))[1], "^maxent\\(made")
})

test_that("notes are messages, and are kept", {
  made <- species()
  unnamed <- stats::setNames(made$occ[c("decimalLongitude", "decimalLatitude")], c("east", "north"))
  expect_message(quick(unnamed, made$env, quiet = FALSE), "its columns east and north are taken as x and y")
  expect_message(fit <- maxent(made$occ, made$env, features = "l", cv = "none", bootstrap = 0, jackknife = FALSE,
                               permutations = 0), "60 records", class = "maxent_note")
  expect_match(fit$notes, "60 records", all = FALSE)
})

test_that("an interrupt stops a fit and leaves nothing behind", {
  skip_on_os("windows")
  made <- species()
  out <- tempfile()
  system(sprintf("(sleep 1; kill -INT %d) &", Sys.getpid()))
  stopped <- tryCatch(maxent(made$occ, made$env, replicates = 2000, quiet = TRUE, out = out),
                      interrupt = function(condition) "interrupted")
  expect_identical(stopped, "interrupted")
  expect_false(file.exists(out))
  expect_type(maxent_version(), "character")
})

# Python that is missing, or other than expected, needs a session of its own.
in_new_session <- function(code, ...) {
  kept <- Sys.getenv(c("R_LIBS", "MAXENT_PYTHON", "PYTHONPATH", "RETICULATE_PYTHON"), names = TRUE, unset = NA)
  on.exit({
    Sys.unsetenv(names(kept)[is.na(kept)])
    do.call(Sys.setenv, as.list(kept[!is.na(kept)]))
  })
  Sys.setenv(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), ...)
  script <- tempfile(fileext = ".R")
  writeLines(c("library(maxentpy)", sprintf("cat(tryCatch(%s, maxent_error = conditionMessage))", code)), script)
  paste(suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), shQuote(script), stdout = TRUE, stderr = FALSE)),
        collapse = " ")
}

test_that("a Python that is not there is said to be so", {
  said <- in_new_session("maxent_version()", MAXENT_PYTHON = "/no/such/python")
  expect_match(said, "MAXENT_PYTHON is /no/such/python, which is not there.*install_maxent")
  expect_match(in_new_session("as.character(maxent_available())", MAXENT_PYTHON = "/no/such/python"), "FALSE")
})

test_that("a Python without maxent, and an older maxent, are said to be so", {
  skip_without_maxent()
  python <- reticulate::py_config()$python
  folder <- tempfile()
  dir.create(file.path(folder, "maxent"), recursive = TRUE)
  writeLines("__version__ = '0.0.1'", file.path(folder, "maxent", "__init__.py"))
  older <- in_new_session("maxent_version()", MAXENT_PYTHON = python, PYTHONPATH = folder)
  expect_match(older, "is older than this R package needs.*install_maxent")
  writeLines("raise ModuleNotFoundError(\"No module named 'maxent'\", name='maxent')",
             file.path(folder, "maxent", "__init__.py"))
  without <- in_new_session("maxent_version()", MAXENT_PYTHON = python, PYTHONPATH = folder)
  expect_match(without, "has no package maxent.*install_maxent")
})
